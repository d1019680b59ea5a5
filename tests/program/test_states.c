/*
 * States of persistent buffers: what programs declare is compared with what their instructions do, and the phase table
 * joins only what fits.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "program/program.h"

/* --- one program: what is declared, and what it does -------------------------------------------------------------- */

enum { SUMS, OTHER, TOKENS, BUFFERS, N = 8 };

static const ls_kernel fill = {.id = LS_KERNEL_FILL}, copy = {.id = LS_KERNEL_COPY},
                       accumulate = {.id = LS_KERNEL_ACCUMULATE};
static const ls_operand nothing = {.buffer = -1};

/* A call on `count` elements of a buffer, from `first` on; from -1: the kernel has no input. */
typedef struct call {
    const ls_kernel *kernel;
    int from, to;
    int64_t first, count;
} call;

static const call adds = {&accumulate, OTHER, SUMS, 0, N}, clears = {&fill, -1, SUMS, 0, N},
                  clears_half = {&fill, -1, SUMS, 0, N / 2}, makes = {&copy, OTHER, SUMS, 0, N},
                  makes_half = {&copy, OTHER, SUMS, 0, N / 2}, makes_rest = {&copy, OTHER, SUMS, N / 2, N / 2},
                  reads = {&copy, SUMS, OTHER, 0, N}, makes_tokens = {&copy, OTHER, TOKENS, 0, N};

typedef struct usage {
    const char *name;
    call calls[3]; /* up to the first without a kernel */
    int buffer;
    unsigned right; /* effects that may be declared of the buffer, as bits */
} usage;

#define BIT(effect) (1u << LS_EFFECT_##effect)

static const usage usages[] = {
    {"nothing", {{0}}, SUMS, BIT(NONE)},
    {"reads", {reads}, SUMS, BIT(READ) | BIT(ADD)},
    {"makes", {makes}, SUMS, BIT(MAKE)},
    {"makes and reads", {makes, reads}, SUMS, BIT(MAKE)},
    {"makes in two halves, and reads", {makes_half, makes_rest, reads}, SUMS, BIT(MAKE) | BIT(CHANGE)},
    {"reads and makes", {reads, makes}, SUMS, BIT(CHANGE) | BIT(FINISH)},
    {"adds", {adds, adds}, SUMS, BIT(ADD) | BIT(CHANGE)},
    {"adds to what it has made", {makes, adds}, SUMS, BIT(MAKE)},
    {"adds, and makes", {adds, makes_half}, SUMS, BIT(CHANGE) | BIT(FINISH)},
    {"adds, reads and clears", {adds, reads, clears}, SUMS, BIT(TAKE)},
    {"adds, reads and clears half", {adds, reads, clears_half}, SUMS, BIT(CHANGE) | BIT(FINISH)},
    {"clears and adds", {clears, adds}, SUMS, BIT(MAKE)},
    {"adds, clears and adds", {adds, clears, adds}, SUMS, BIT(ADD) | BIT(CHANGE)},
    {"inputs: nothing", {{0}}, TOKENS, BIT(NONE) | BIT(READ)},
    {"inputs: makes", {makes_tokens}, TOKENS, BIT(MAKE)},
};

static ls_operand part(int buffer, const call *c) {
    return ls_operand_dense(buffer, (size_t)c->first * sizeof(float), LS_F32, 1, &c->count);
}

static ls_status check(const usage *u, ls_effect declared) {
    enum { BYTES = N * sizeof(float) };
    ls_buffer buffers[BUFFERS] = {
        [SUMS] = {"sums", LS_PRIVATE, LS_BUFFER_GRADIENT, BYTES, 0, -1, 0, 0, -1},
        [OTHER] = {"other", LS_PRIVATE, LS_BUFFER_ACTIVATION, BYTES, BYTES, 0, 0, 0, -1},
        [TOKENS] = {"tokens", LS_PRIVATE, LS_BUFFER_INPUT, BYTES, 2 * BYTES, -1, 0, 0, -1},
    };
    ls_instr instrs[3];
    ls_operand in[3], out[3];
    ls_kept kept[BUFFERS] = {{0}};
    kept[u->buffer].effect = declared;
    ls_program program = {.name = "p", .instrs = instrs, .kept = kept};
    for (const call *c = u->calls; program.n_instrs < 3 && c->kernel != NULL; c++) {
        const int i = program.n_instrs++;
        if (c->from >= 0) in[i] = part(c->from, c);
        out[i] = part(c->to, c);
        instrs[i] = (ls_instr){.kind = LS_INSTR_KERNEL,
                               .kernel = c->kernel,
                               .n_in = c->from >= 0,
                               .in = &in[i],
                               .n_out = 1,
                               .out = &out[i],
                               .workspace = &nothing,
                               .channel = -1};
    }
    ls_displacement none = {0};
    const ls_image image = {.buffers = buffers,
                            .n_buffers = BUFFERS,
                            .programs = &program,
                            .n_programs = 1,
                            .displacements = &none,
                            .n_displacements = 1};
    return ls_effects_check(&image, 0);
}

static void only_what_is_done_may_be_declared(void **state) {
    (void)state;
    for (size_t i = 0; i < LS_COUNT(usages); i++) {
        for (int effect = 0; effect < LS_EFFECTS; effect++) {
            const ls_status status = check(&usages[i], (ls_effect)effect);
            const bool right = usages[i].right >> effect & 1;
            if (right != (status.code == LS_OK))
                fail_msg("%s, declared: %s it: %s", usages[i].name, ls_effect_traits_of[effect].verb,
                         right ? status.text : "accepted");
        }
    }
}

static void the_message_says_both(void **state) {
    (void)state;
    const ls_status status = check(&usages[6], LS_EFFECT_READ);
    print_message("%s\n", status.text);
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, "p declares that it reads \"sums\", but it adds to it"));
}

/* --- programs that follow each other ------------------------------------------------------------------------------ */

enum { ADDS, TAKES, OWN, PROGRAMS };

/* A cache, a sum and a parameter; kept: of each program in turn. */
static ls_status join(const ls_effect effects[PROGRAMS][BUFFERS], const ls_phase *phases, int n) {
    static const char *const names[PROGRAMS] = {"micro", "step", "evaluate"};
    ls_buffer buffers[BUFFERS] = {
        {"loss", LS_PRIVATE, LS_BUFFER_OUTPUT, 4, 0, -1, 0, 0, -1},
        {"cache", LS_PRIVATE, LS_BUFFER_OUTPUT, 4, 4, -1, 0, 0, -1},
        {"weights", LS_PRIVATE, LS_BUFFER_PARAMETER, 4, 8, -1, 0, 0, -1},
    };
    ls_kept kept[PROGRAMS][BUFFERS];
    ls_program programs[PROGRAMS];
    for (int p = 0; p < PROGRAMS; p++) {
        for (int b = 0; b < BUFFERS; b++) kept[p][b] = (ls_kept){.effect = effects[p][b]};
        programs[p] = (ls_program){.name = names[p], .kept = kept[p]};
    }
    const ls_image image = {.buffers = buffers,
                            .n_buffers = BUFFERS,
                            .programs = programs,
                            .n_programs = PROGRAMS,
                            .phases = phases,
                            .n_phases = n};
    return ls_joins_check(&image);
}

static void refused(ls_status status, const char *says) {
    print_message("%s\n", status.text);
    assert_int_equal(status.code, LS_INVALID);
    assert_non_null(strstr(status.text, says));
}

static const ls_effect training[PROGRAMS][BUFFERS] = {[ADDS] = {LS_EFFECT_ADD, LS_EFFECT_NONE, LS_EFFECT_READ},
                                                      [TAKES] = {LS_EFFECT_TAKE, LS_EFFECT_MAKE, LS_EFFECT_CHANGE},
                                                      [OWN] = {LS_EFFECT_ADD, LS_EFFECT_NONE, LS_EFFECT_READ}};

static void sums_are_cleared_by_someone(void **state) {
    (void)state;
    ls_phase rows[] = {{LS_FIRST, ADDS, LS_PHASE_ZERO}, {ADDS, ADDS, LS_PHASE_GOES_ON}, {ADDS, TAKES, LS_PHASE_GOES_ON},
                       {TAKES, ADDS, LS_PHASE_ZERO},    {TAKES, OWN, LS_PHASE_ZERO},    {OWN, OWN, LS_PHASE_GOES_ON},
                       {OWN, ADDS, LS_PHASE_CLEARED}};
    const int n = LS_COUNT(rows);
    const ls_status status = join(training, rows, n);
    if (status.code != LS_OK) fail_msg("%s", status.text);
    rows[6].sums = LS_PHASE_ZERO; /* what the evaluation has added up is taken for a step's */
    refused(join(training, rows, n),
            "\"micro\" after \"evaluate\" needs \"loss\" to be zero, but there it may be a sum");
    rows[6].sums = LS_PHASE_CLEARED;
    rows[1].sums = LS_PHASE_ZERO;
    refused(join(training, rows, n), "\"micro\" after \"micro\" needs \"loss\" to be zero");
    rows[1].sums = LS_PHASE_GOES_ON;
    ls_effect forgets[PROGRAMS][BUFFERS];
    memcpy(forgets, training, sizeof forgets);
    forgets[TAKES][0] = LS_EFFECT_ADD; /* an update that does not clear its sums */
    refused(join(forgets, rows, n), "\"micro\" after \"step\" needs \"loss\" to be zero, but there it may be a sum");
}

/* What a program finds may come from one long before it: the states go through programs that do not use the buffer. */
static void a_cache_is_filled_before_it_is_read(void **state) {
    (void)state;
    ls_effect effects[PROGRAMS][BUFFERS] = {[ADDS] = {LS_EFFECT_NONE, LS_EFFECT_MAKE, LS_EFFECT_READ},
                                            [TAKES] = {LS_EFFECT_NONE},
                                            [OWN] = {LS_EFFECT_NONE, LS_EFFECT_CHANGE}};
    ls_phase rows[] = {{LS_FIRST, ADDS, LS_PHASE_ZERO},
                       {ADDS, TAKES, LS_PHASE_ZERO},
                       {TAKES, OWN, LS_PHASE_ZERO},
                       {OWN, OWN, LS_PHASE_ZERO}};
    assert_int_equal(join(effects, rows, 4).code, LS_OK);
    rows[0].to = TAKES;
    rows[1] = (ls_phase){OWN, ADDS, LS_PHASE_ZERO};
    refused(join(effects, rows, 4), "\"evaluate\" after \"step\" needs \"cache\" to be set, but there it may be zero");
    const ls_effect adds_to_weights[PROGRAMS][BUFFERS] = {[ADDS] = {LS_EFFECT_NONE, LS_EFFECT_NONE, LS_EFFECT_ADD}};
    const ls_phase once = {LS_FIRST, ADDS, LS_PHASE_ZERO};
    refused(join(adds_to_weights, &once, 1),
            "\"micro\" after \"the beginning\" needs \"weights\" to be zero, but there it may be set");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_done_may_be_declared), cmocka_unit_test(the_message_says_both),
        cmocka_unit_test(sums_are_cleared_by_someone), cmocka_unit_test(a_cache_is_filled_before_it_is_read)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
