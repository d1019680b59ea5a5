/* Several data sets in one order: their names and weights, and which sequence of which set is read when. */
#include "data/data.h"
#include "data/order_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_WEIGHT = 1000 };

static ls_status wrong(const char *word, const char *expected) {
    return ls_error(LS_USAGE, "--data has '%s'; expected %s", word, expected);
}

/* Whether a word is NAME@WEIGHT=PATH; a file with exactly this name is a path instead. */
static bool is_weighted(const char *word) {
    const char *at = strchr(word, '@'), *equals = strchr(word, '=');
    return at != NULL && equals != NULL && at < equals && !ls_file_exists(word);
}

/* Splits the word, which the mixture owns, and adds its set. */
static ls_status add_set(ls_mixture *m, char *word) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    char *at = strchr(word, '@'), *equals = strchr(word, '='), *end = NULL;
    if (at == word || strspn(word, letters) != (size_t)(at - word))
        return wrong(word, "a name of letters, digits, _ and - before @");
    const long weight = strtol(at + 1, &end, 10);
    if (end != equals || weight < 1 || weight > MOST_WEIGHT)
        return wrong(word, "a whole weight from 1 to 1000 after @");
    if (equals[1] == 0) return wrong(word, "a path after =");
    *at = 0;
    for (int i = 0; i < m->n; i++)
        if (m->set[i].name != NULL && strcmp(m->set[i].name, word) == 0) return wrong(word, "each name once");
    m->set[m->n].name = word;
    m->set[m->n].path = equals + 1;
    m->set[m->n++].weight = weight;
    m->period += weight;
    return ls_ok();
}

static ls_status find_sets(const ls_data_options *o, ls_mixture *m) {
    int weighted = 0;
    for (int i = 0; i < o->n_paths; i++) weighted += is_weighted(o->paths[i]);
    m->set = calloc((size_t)ls_max(weighted, 1), sizeof *m->set);
    if (m->set == NULL) return ls_error(LS_NO_MEMORY, "no memory for %d data sets", weighted);
    if (weighted == 0) {
        m->n = 1;
        m->set[0].weight = m->period = 1;
        return ls_ok();
    }
    for (int i = 0; i < o->n_paths; i++) {
        if (!is_weighted(o->paths[i])) return wrong(o->paths[i], "NAME@WEIGHT=PATH, as the other words have it");
        m->set[i].word = strdup(o->paths[i]);
        if (m->set[i].word == NULL) return ls_error(LS_NO_MEMORY, "no memory for the data sets");
        LS_TRY(add_set(m, m->set[i].word));
    }
    return ls_ok();
}

ls_status ls_mixture_open(const ls_data_options *options, ls_mixture *out) {
    ls_data_options o = *options;
    if (o.n_paths < 1) return ls_data_open(options, &(ls_data *){NULL}); /* which reports the error */
    LS_TRY(find_sets(options, out));
    out->seed = options->seed;
    if (out->n > 1 && options->group > 0)
        return ls_error(LS_USAGE,
                        "--group-by-length with %d data sets, which are read in rounds by their weights; expected one",
                        out->n);
    for (int i = 0; i < out->n; i++) {
        ls_mixed_set *set = &out->set[i];
        if (set->name != NULL) {
            o.paths = &set->path;
            o.n_paths = 1;
        }
        const ls_status status = ls_data_open(&o, &set->data);
        LS_TRY(set->name != NULL ? ls_error_in(status, "--data %s", set->name) : status);
        if (ls_data_apart(set->data) != ls_data_apart(out->set[0].data))
            return ls_error(LS_USAGE, "--data %s is packed by %s and %s by %s; expected one of them (--pack)",
                            set->name, ls_data_pack(set->data), out->set[0].name, ls_data_pack(out->set[0].data));
    }
    return ls_ok();
}

int ls_mixture_find(const ls_mixture *m, int64_t index, int64_t *own) {
    const int64_t round = index / m->period;
    int64_t slot = (int64_t)ls_permute(m->seed, (uint64_t)round, (uint64_t)m->period, (uint64_t)(index % m->period));
    int i = 0;
    while (slot >= m->set[i].weight) slot -= m->set[i++].weight;
    *own = round * m->set[i].weight + slot;
    return i;
}

uint64_t ls_mixture_content(const ls_mixture *m) {
    uint64_t content = ls_data_content(m->set[0].data);
    for (int i = 0; i < m->n && m->n > 1; i++) {
        const uint64_t parts[] = {content, ls_data_content(m->set[i].data), (uint64_t)m->set[i].weight};
        content = ls_hash_bytes(parts, sizeof parts);
    }
    return content;
}

void ls_mixture_close(ls_mixture *m) {
    for (int i = 0; i < m->n; i++) ls_data_close(m->set[i].data);
    for (int i = 0; i < m->n; i++) free(m->set[i].word);
    free(m->set);
    *m = (ls_mixture){0};
}
