/* The value of --strategy: how each kind of layer that works along the sequence is computed by several ranks. */
#include "compile/compile.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A kind of layer, its member of ls_strategies, and the names that this member may have. */
typedef struct kind {
    const char *name, *about;
    size_t member;
    const char *(*known)(int i);
} kind;

static const kind kinds[] = {
    {"full", "attention", offsetof(ls_strategies, full), ls_strategy_name},
    {"window", "attention", offsetof(ls_strategies, window), ls_strategy_name},
    {"recurrence", "linear recurrences", offsetof(ls_strategies, recurrence), ls_recurrence_way_name},
    {"rnn", "recurrent cells", offsetof(ls_strategies, rnn), ls_rnn_way_name},
};

static const char **member_of(ls_strategies *s, const kind *k) { return (const char **)((char *)s + k->member); }

static const char *value_of(const ls_strategies *s, const kind *k) {
    return *(const char *const *)((const char *)s + k->member);
}

/* --- from text ---------------------------------------------------------------------------------------------------- */

/* Text without a terminating zero. */
typedef struct span {
    const char *text;
    size_t bytes;
} span;

static bool is_name(span s, const char *name) { return s.bytes == strlen(name) && strncmp(s.text, name, s.bytes) == 0; }

/* Parses one of the names of a kind; "auto" leaves *out as it is. */
static ls_status parse_name(const kind *k, span name, const char **out) {
    char known[200] = "";
    size_t used = 0;
    if (is_name(name, "auto")) return ls_ok();
    for (int i = 0; k->known(i) != NULL; i++) {
        if (is_name(name, k->known(i))) {
            *out = k->known(i);
            return ls_ok();
        }
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", k->known(i));
        LS_ASSERT(used < sizeof known);
    }
    return ls_error(LS_USAGE, "strategy \"%.*s\" is not known for %s, expected auto or one of %s", (int)name.bytes,
                    name.text, k->about, known);
}

static ls_status unknown_kind(span s) {
    char known[64] = "";
    size_t used = 0;
    for (size_t i = 0; i < LS_COUNT(kinds); i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", kinds[i].name);
    LS_ASSERT(used < sizeof known);
    return ls_error(LS_USAGE, "--strategy: \"%.*s\" is no kind of layer, expected KIND=NAME with one of %s",
                    (int)s.bytes, s.text, known);
}

/* "NAME", for all attention, or "KIND=NAME". */
static ls_status parse_part(span part, ls_strategies *out) {
    const char *equals = memchr(part.text, '=', part.bytes);
    if (equals == NULL) {
        LS_TRY(parse_name(kinds, part, &out->full));
        out->window = out->full;
        return ls_ok();
    }
    const span named = {part.text, (size_t)(equals - part.text)};
    const span value = {equals + 1, part.bytes - named.bytes - 1};
    for (size_t i = 0; i < LS_COUNT(kinds); i++) {
        if (is_name(named, kinds[i].name)) return parse_name(&kinds[i], value, member_of(out, &kinds[i]));
    }
    return unknown_kind(named);
}

ls_status ls_strategies_parse(const char *text, ls_strategies *out) {
    *out = (ls_strategies){.full = NULL};
    if (text == NULL) return ls_ok();
    do {
        const size_t bytes = strcspn(text, ",");
        LS_TRY(parse_part((span){text, bytes}, out));
        text += bytes;
    } while (*text++ == ',');
    return ls_ok();
}

/* --- to text ------------------------------------------------------------------------------------------------------ */

void ls_strategies_print(const ls_strategies *s, char out[LS_STRATEGY_TEXT]) {
    const bool alike = s->window == NULL || s->window == s->full;
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < LS_COUNT(kinds); i++) {
        const char *value = value_of(s, &kinds[i]);
        const bool attention = kinds[i].known == ls_strategy_name, plain = attention && alike;
        if (value == NULL || (plain && i > 0)) continue;
        used += (size_t)snprintf(out + used, LS_STRATEGY_TEXT - used, "%s%s%s%s", used > 0 ? "," : "",
                                 plain ? "" : kinds[i].name, plain ? "" : "=", value);
    }
}

ls_strategies ls_target_strategies(const ls_target *target) {
    return (ls_strategies){.full = target->strategy,
                           .window = target->window_strategy,
                           .recurrence = target->recurrence_way,
                           .rnn = target->rnn_way};
}
