/* The tables of steps, and reading them. */
#include "base/base.h"
#include "text/steps_impl.h"

#include <stdlib.h>
#include <string.h>

static const ls_step_kind *const normalizers[] = {
    &ls_step_nfc,     &ls_step_nfd,   &ls_step_nfkc,      &ls_step_nfkd, &ls_step_prepend,
    &ls_step_replace, &ls_step_strip, &ls_step_lowercase, NULL,
};
static const ls_step_kind *const pre_tokenizers[] = {
    &ls_step_byte_level,
    &ls_step_split,
    &ls_step_metaspace,
    &ls_step_digits,
    &ls_step_whitespace_split,
    &ls_step_whitespace,
    &ls_step_punctuation,
    &ls_step_delimiter,
    NULL,
};
static const ls_step_kind *const decoders[] = {
    &ls_step_byte_level_decoder,
    &ls_step_replace_decoder,
    &ls_step_byte_fallback,
    &ls_step_fuse,
    &ls_step_strip_decoder,
    &ls_step_metaspace_decoder,
    NULL,
};
static const ls_step_kind *const post_processors[] = {&ls_step_template, &ls_step_byte_level_post, NULL};

/* One of the four lists of steps in the file. `members`: the field of a Sequence that lists its steps. */
typedef struct stage {
    const char *field, *members;
    const ls_step_kind *const *kinds;
} stage;

enum { MOST_STEPS = 64, DEEPEST = 8 };

static ls_status add_step(const stage *of, ls_json_value value, int depth, ls_steps *out);

static ls_status add_sequence(const stage *of, ls_json_value value, int depth, ls_steps *out) {
    ls_json_value members;
    LS_TRY(ls_json_array(value, of->members, &members));
    if (depth == DEEPEST) return ls_json_error(members, "sequences at most %d deep", DEEPEST);
    for (size_t i = 0; i < ls_json_count(members); i++) LS_TRY(add_step(of, ls_json_item(members, i), depth + 1, out));
    return ls_ok();
}

static ls_status add_step(const stage *of, ls_json_value value, int depth, ls_steps *out) {
    const char *type;
    LS_TRY(ls_json_as_object(value));
    LS_TRY(ls_json_text(value, "type", &type));
    if (strcmp(type, "Sequence") == 0) return add_sequence(of, value, depth, out);
    const ls_step_kind *const *kind = of->kinds;
    while (*kind && strcmp((*kind)->type, type) != 0) kind++;
    if (!*kind)
        return ls_error(LS_UNSUPPORTED, "%s: %s.type is \"%.60s\", which is not supported", value.file, value.path,
                        type);
    if (out->count == MOST_STEPS) return ls_json_error(value, "at most %d steps", MOST_STEPS);
    void *items = out->step;
    const bool room = ls_reserve(&items, out->count, &out->capacity, 1, sizeof *out->step);
    out->step = items;
    if (!room) return ls_error(LS_NO_MEMORY, "no memory for the steps of %s", value.file);
    ls_text_step *step = &out->step[out->count++];
    *step = (ls_text_step){*kind, NULL};
    return step->kind->read ? step->kind->read(value, &step->state) : ls_ok();
}

static ls_status read_stage(const stage *of, ls_json_value document, ls_steps *out) {
    const ls_json_value field = ls_json_field(document, of->field);
    return field.json ? add_step(of, field, 0, out) : ls_ok();
}

ls_status ls_normalizers_read(ls_json_value document, ls_steps *out) {
    return read_stage(&(stage){"normalizer", "normalizers", normalizers}, document, out);
}

ls_status ls_pre_tokenizers_read(ls_json_value document, ls_steps *out) {
    return read_stage(&(stage){"pre_tokenizer", "pretokenizers", pre_tokenizers}, document, out);
}

ls_status ls_decoders_read(ls_json_value document, ls_steps *out) {
    return read_stage(&(stage){"decoder", "decoders", decoders}, document, out);
}

ls_status ls_post_processors_read(ls_json_value document, ls_steps *out) {
    return read_stage(&(stage){"post_processor", "processors", post_processors}, document, out);
}

void ls_steps_free(ls_steps *steps) {
    for (size_t i = 0; i < steps->count; i++)
        if (steps->step[i].kind->free) steps->step[i].kind->free(steps->step[i].state);
    free(steps->step);
    *steps = (ls_steps){0};
}
