/* Renders a template. */
#include "jinja/run_impl.h"

#define MOST_STEPS ((uint64_t)10000000)
#define MOST_BYTES ((size_t)256 << 20)

ls_status ls_jinja_render(const ls_jinja *jinja, ls_arena *arena, const jinja_dict *variables,
                          const ls_jinja_options *options, jinja_text *out) {
    jinja_buffer buffer = {0};
    jinja_run r = {.jinja = jinja,
                   .arena = arena,
                   .variables = variables,
                   .options = options,
                   .out = &buffer,
                   .most_steps = options->steps > 0 ? options->steps : MOST_STEPS,
                   .most_bytes = (options->bytes > 0 ? options->bytes : MOST_BYTES) + ls_arena_bytes(arena),
                   .line = 1};
    jinja_scope_enter(&r, NULL);
    jinja_execute_all(&r, jinja->body);
    if (options->taken != NULL) *options->taken += r.steps;
    if (r.failed) return r.error;
    *out = (jinja_text){buffer.at, buffer.n};
    return ls_ok();
}
