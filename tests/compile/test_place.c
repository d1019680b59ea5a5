/*
 * Placement, judged by the finished programs: buffers that live at the same time lie apart, except where a kernel
 * works in place, and the peak is near the lower bound, over meshes and strategies.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "program/program.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/scratch.h"

enum { UNIT = 64 }; /* that offsets are multiples of */

/* The instructions between which a program uses a buffer's bytes; none: first > last. */
typedef struct life {
    int first, last;
} life;

static void use(life *lives, const ls_operand *o, int at) {
    if (o == NULL || o->buffer < 0) return;
    life *l = &lives[o->buffer];
    if (l->first > at) l->first = at;
    if (l->last < at) l->last = at;
}

/* From the operands. Whoever overwrites what a put reads waits for the put. */
static life *lives_of(const ls_image *image, int program) {
    const ls_program *p = &image->programs[program];
    life *lives = calloc((size_t)image->n_buffers, sizeof *lives);
    for (int b = 0; b < image->n_buffers; b++) lives[b] = (life){p->n_instrs, -1};
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        for (int k = 0; k < instr->n_in; k++) use(lives, &instr->in[k], i);
        for (int k = 0; k < instr->n_out && instr->kind != LS_INSTR_PUT; k++) use(lives, &instr->out[k], i);
        use(lives, instr->workspace, i);
    }
    return lives;
}

static bool is_own(const ls_image *image, int buffer, int program, ls_space space) {
    const ls_buffer *b = &image->buffers[buffer];
    return b->program == program && b->space == space && b->bytes > 0;
}

/* Whether the instruction is a kernel that writes one of the two in the other's place. */
static bool passes(const ls_image *image, const ls_instr *instr, int a, int b) {
    for (int k = 0; k < instr->n_out && instr->kind == LS_INSTR_KERNEL; k++) {
        if (instr->out[k].buffer != b) continue;
        for (int i = 0; i < instr->n_in; i++) {
            if (instr->in[i].buffer == a && ls_instr_sharing(image, instr, k, i) == LS_IN_PLACE) return true;
        }
    }
    return false;
}

static int check_apart(const ls_image *image, int program, ls_space space, const life *lives) {
    int in_place = 0;
    for (int a = 0; a < image->n_buffers; a++) {
        for (int b = 0; b < image->n_buffers; b++) {
            const ls_buffer *x = &image->buffers[a], *y = &image->buffers[b];
            if (a == b || !is_own(image, a, program, space) || !is_own(image, b, program, space)) continue;
            if (lives[a].first > lives[b].last || lives[b].first > lives[a].last) continue;
            if (lives[a].first > lives[b].first || (lives[a].first == lives[b].first && a > b)) continue;
            if (x->offset >= y->offset + y->bytes || y->offset >= x->offset + x->bytes) continue;
            const int at = lives[b].first;
            if (at != lives[a].last || !passes(image, &image->programs[program].instrs[at], a, b))
                fail_msg("%s: \"%s\" (%d to %d) lies on \"%s\" (%d to %d)", image->programs[program].name, y->name,
                         lives[b].first, lives[b].last, x->name, lives[a].first, lives[a].last);
            in_place++;
        }
    }
    return in_place;
}

/* The most bytes of the arena that live at one instruction: each byte once, whoever shares it. */
static size_t most_bytes(const ls_image *image, int program, ls_space space, const life *lives) {
    const size_t units = image->bytes[space] / UNIT;
    int *change = calloc(units + 1, sizeof *change);
    size_t most = 0;
    for (int i = 0; i < image->programs[program].n_instrs; i++) {
        memset(change, 0, (units + 1) * sizeof *change);
        for (int b = 0; b < image->n_buffers; b++) {
            const ls_buffer *x = &image->buffers[b];
            const bool lives_now = is_own(image, b, program, space) && lives[b].first <= i && i <= lives[b].last;
            if (x->space != space || x->bytes == 0 || !(x->program < 0 || lives_now)) continue;
            change[x->offset / UNIT]++;
            change[ls_round_up(x->offset + x->bytes, UNIT) / UNIT]--;
        }
        size_t live = 0;
        int depth = 0;
        for (size_t u = 0; u < units; u++) live += (depth += change[u]) > 0 ? UNIT : 0;
        most = live > most ? live : most;
    }
    free(change);
    return most;
}

static int check_image(const ls_image *image, int rank, const char *what, double *worst) {
    int in_place = 0;
    for (int s = 0; s < LS_SPACES; s++) {
        size_t most = 0;
        for (int p = 0; p < image->n_programs; p++) {
            life *lives = lives_of(image, p);
            in_place += check_apart(image, p, (ls_space)s, lives);
            const size_t bytes = most_bytes(image, p, (ls_space)s, lives);
            most = bytes > most ? bytes : most;
            free(lives);
        }
        assert_int_equal(image->least[s], most);
        assert_true(image->least[s] <= image->bytes[s]);
        const double more = (double)image->bytes[s] / (double)ls_max((int64_t)image->least[s], 1) - 1;
        *worst = fmax(*worst, more);
        if (!(more <= 0.03))
            fail_msg("%s, rank %d, arena %d: %zu bytes placed, %zu is the lower bound", what, rank, s, image->bytes[s],
                     image->least[s]);
    }
    return in_place;
}

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
} meshes[] = {{1, 1, 1, "local"}, {2, 1, 1, "local"},   {1, 2, 1, "ring"},    {1, 3, 1, "ring"},    {1, 4, 1, "ring"},
              {1, 8, 1, "ring"},  {1, 1, 2, "ulysses"}, {1, 1, 3, "ulysses"}, {1, 1, 4, "ulysses"}, {1, 2, 2, "usp"},
              {1, 4, 2, "usp"},   {1, 2, 4, "usp"},     {2, 2, 1, "ring"},    {2, 1, 2, "ulysses"}, {2, 2, 2, "usp"}};

static void check_set(image_set set, const char *what, double *worst) {
    for (int r = 0; r < set.ranks; r++) assert_true(check_image(set.image[r], r, what, worst) > 0);
    free_images(&set);
}

static void peak_is_near_the_lower_bound(void **state) {
    (void)state;
    double worst = 0;
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        const ls_mesh mesh = mesh_of(meshes[m].dp, meshes[m].ring, meshes[m].ulysses);
        check_set(images_of_network(mesh, meshes[m].strategy, LS_LAYOUT_ZIGZAG, 61, 1), meshes[m].strategy, &worst);
        check_set(images_of_network(mesh, meshes[m].strategy, LS_LAYOUT_ZIGZAG, 96, 3), meshes[m].strategy, &worst);
        check_set(images_of_step(mesh, meshes[m].strategy, LS_LAYOUT_ZIGZAG, 96, 3), meshes[m].strategy, &worst);
    }
    print_message("at most %.2f %% above the lower bound\n", 100 * worst);
}

static void so_it_is_for_all_graphs_and_savings(void **state) {
    (void)state;
    static const struct {
        const char *name;
        ls_tensor (*loss)(ls_graph *g);
    } graphs[] = {{"gpt2", gpt2_loss},     {"llama", llama_loss},     {"qwen3", qwen3_loss}, {"mistral", mistral_loss},
                  {"gemma2", gemma2_loss}, {"encoder", encoder_loss}, {"mixer", mixer_loss}};
    static const ls_saving savings[] = {{0},
                                        {.drop = 9},
                                        {.drop = 1 << 20},
                                        {.tile = LS_TILE_LOSS, .tile_rows = 3},
                                        {.drop = 1 << 20, .tile = LS_TILE_ALL, .tile_rows = 4}};
    static const ls_dtype dtypes[] = {LS_F32, LS_BF16, LS_F64};
    size_t turn = 0;
    double worst = 0;
    for (size_t i = 0; i < LS_COUNT(graphs); i++) {
        for (size_t m = i % 5; m < LS_COUNT(meshes); m += 5) {
            for (size_t s = m % 2; s < LS_COUNT(savings); s += 2) { /* each saving on every other mesh */
                const ls_target target = {.mesh = mesh_of(meshes[m].dp, meshes[m].ring, meshes[m].ulysses),
                                          .strategy = meshes[m].strategy,
                                          .isa = LS_ISA_BASE,
                                          .threads = 1 + (int)m % 2,
                                          .saving = savings[s]};
                ls_graph *g = ls_graph_create(dtypes[turn++ % LS_COUNT(dtypes)]);
                const ls_tensor loss = graphs[i].loss(g);
                check_set(images_of_loss(g, loss, &target, true, NULL), graphs[i].name, &worst);
            }
        }
    }
    print_message("at most %.2f %% above the lower bound\n", 100 * worst);
}

static size_t bytes_of(const ls_job *job, ls_target target, size_t allowed) {
    ls_image *image;
    target.made_for = LS_FOR_BYTES;
    target.allowed = allowed;
    assert_ok(ls_compile(job, &target, &image));
    const size_t bytes = ls_image_mapped(image);
    ls_image_destroy(image);
    return bytes;
}

/* An image that is compiled for its bytes alone fits where a whole one does, whatever is allowed. */
static void bytes_alone_say_what_fits(void **state) {
    (void)state;
    static const ls_saving savings[] = {{0}, {.drop = 9}, {.drop = 1 << 20, .tile = LS_TILE_ALL, .tile_rows = 4}};
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        const ls_target target = {.mesh = mesh_of(meshes[m].dp, meshes[m].ring, meshes[m].ulysses),
                                  .strategy = meshes[m].strategy,
                                  .isa = LS_ISA_BASE,
                                  .threads = 1,
                                  .saving = savings[m % LS_COUNT(savings)]};
        ls_graph *g = ls_graph_create(LS_F32);
        const ls_job job = job_of_loss(g, llama_loss(g), false, NULL);
        ls_image *whole;
        assert_ok(ls_compile(&job, &target, &whole));
        const size_t bytes = ls_image_mapped(whole),
                     least = bytes - whole->bytes[LS_PRIVATE] + whole->least[LS_PRIVATE];
        assert_int_equal(bytes_of(&job, target, 0), bytes);
        for (size_t allowed = least - 2; allowed <= bytes + 2; allowed++) {
            const size_t found = bytes_of(&job, target, allowed);
            assert_int_equal(found <= allowed, bytes <= allowed);
            assert_true(found <= allowed || found <= bytes);
            if (allowed + 2 < bytes && allowed > least + 1) allowed += (bytes - 2 - allowed) / 2;
        }
        ls_image_destroy(whole);
        ls_graph_destroy(g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(peak_is_near_the_lower_bound),
                                       cmocka_unit_test(so_it_is_for_all_graphs_and_savings),
                                       cmocka_unit_test(bytes_alone_say_what_fits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
