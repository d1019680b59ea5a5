/*
 * Gradients in buckets: the pieces of all ranks cover the parameters once, slots have room for two buckets, buckets
 * leave during the backward pass, and their sums depend neither on the mesh nor on the number of micro-batches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/kernel.h"
#include "support/images.h"
#include "support/meshes.h"
#include "support/network.h"

/* Every element in one piece of one rank, and in the shard one after the other. */
static void test_pieces_cover_once(void **state) {
    (void)state;
    static const int counts[] = {1, 3, 7, 15, 16, 17, 24};
    for (size_t c = 0; c < LS_COUNT(counts); c++) {
        const int ranks = counts[c];
        image_set set = images_of_step(mesh_of(1, ranks, 1), ranks == 1 ? "local" : "ring", LS_LAYOUT_ZIGZAG, 37, 3);
        const int64_t n = set.image[0]->flat_elements;
        unsigned char *owners = calloc((size_t)n, 1);
        for (int r = 0; r < ranks; r++) {
            const ls_image *image = set.image[r];
            int64_t at = 0;
            assert_int_equal(image->n_pieces, set.image[0]->n_pieces);
            for (int p = 0; p < image->n_pieces; p++) {
                const ls_flat_piece piece = ls_image_piece(image, p, r);
                assert_int_equal(piece.at, at);
                assert_true(piece.count > 0 && piece.count % 32 == 0);
                at += piece.count;
                for (int64_t i = 0; i < piece.count; i++) owners[piece.start + i]++;
            }
            assert_int_equal(image->shard_count, at);
        }
        for (int64_t i = 0; i < n; i++) assert_int_equal(owners[i], 1);
        free(owners);
        free_images(&set);
    }
}

static bool is_put_of(const ls_program *p, const ls_instr *instr, const char *channel) {
    return instr->kind == LS_INSTR_PUT && strncmp(p->channels[instr->channel].name, channel, strlen(channel)) == 0;
}

/* The last node of the backward pass is the embedding's gradient; only the last bucket is left by then. */
static void test_leave_during_backward(void **state) {
    (void)state;
    for (int accumulates = 0; accumulates < 2; accumulates++) {
        image_set set =
            (accumulates ? images_of_network : images_of_step)(mesh_of(1, 3, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 4);
        const ls_program *p = &set.image[1]->programs[ls_program_find(set.image[1], LS_PROGRAM_STEP)];
        int during = 0, afterwards = 0;
        bool over = false;
        for (int i = 0; i < p->n_instrs; i++) {
            over |= strcmp(p->instrs[i].op, "embedding_grad") == 0;
            *(over ? &afterwards : &during) += is_put_of(p, &p->instrs[i], "gradients.");
        }
        assert_true(over);
        print_message("%d puts of gradients during the backward pass, %d after it\n", during, afterwards);
        assert_int_equal(during + afterwards, 2 * set.image[1]->n_pieces);
        assert_true(set.image[1]->n_pieces >= 3 && afterwards == 2);
        free_images(&set);
    }
}

/*
 * Many ranks exchange in two stages: of 16 each has 3 + 3 peers, of 24 there are 5 + 3; 17 have one. Slots are hardly
 * more than for one. Parameters travel group by group, and each rank sends what one exchange would.
 */
static void test_stages(void **state) {
    (void)state;
    static const struct { int ranks, peers; } cases[] = {{15, 14}, {16, 6}, {17, 16}, {24, 8}};
    for (size_t c = 0; c < LS_COUNT(cases); c++) {
        image_set set = images_of_step(mesh_of(1, cases[c].ranks, 1), "ring", LS_LAYOUT_CONTIGUOUS, 48, 4);
        const ls_image *image = set.image[cases[c].ranks - 1];
        const ls_program *p = &image->programs[ls_program_find(image, LS_PROGRAM_STEP)];
        int gradients = 0, parameters = 0;
        int64_t largest = 0, slots = 0, sent = 0;
        for (int i = 0; i < p->n_instrs; i++) {
            gradients += is_put_of(p, &p->instrs[i], "gradients.");
            if (!is_put_of(p, &p->instrs[i], "parameters.")) continue;
            parameters++;
            sent += ls_view_elements(&p->instrs[i].in[0].view);
        }
        assert_int_equal(gradients, cases[c].peers * image->n_pieces);
        assert_int_equal(parameters % cases[c].peers, 0);
        assert_in_range(parameters / cases[c].peers, 2, image->n_pieces);
        assert_int_equal(sent, image->flat_elements / cases[c].ranks * (cases[c].ranks - 1));
        for (int k = 0; k < image->n_pieces; k++) largest = ls_max(largest, image->pieces[k].count);
        for (int i = 0; i < image->n_buffers; i++) {
            if (strcmp(image->buffers[i].name, "gradient slots") == 0) slots += (int64_t)image->buffers[i].bytes;
        }
        assert_in_range(slots, 1, 2 * (cases[c].ranks + 6) * largest * (int64_t)sizeof(float));
        free_images(&set);
    }
}

/* Slots for two buckets; and without micro-batches before the last, gradients do not outlive the program. */
static void test_memory(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 3, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 8);
    const ls_image *image = set.image[0];
    int64_t largest = 0;
    for (int p = 0; p < image->n_pieces; p++) largest = ls_max(largest, image->pieces[p].count);
    int found = 0;
    for (int i = 0; i < image->n_buffers; i++) {
        if (strcmp(image->buffers[i].name, "gradient slots") != 0) continue;
        assert_true((int64_t)image->buffers[i].bytes <= 2 * 3 * largest * (int64_t)sizeof(float));
        found++;
    }
    assert_int_equal(found, 1);
    assert_null(ls_image_find(image, LS_BIND_GRADIENTS));
    free_images(&set);
}

/* Each rank updates each of its pieces at once, whatever it holds; and the settings are the same on every rank. */
static void test_one_update_each(void **state) {
    (void)state;
    image_set set = images_of_step(mesh_of(1, 3, 1), "ring", LS_LAYOUT_ZIGZAG, 37, 8);
    for (int r = 0; r < 3; r++) {
        const ls_image *image = set.image[r];
        const ls_program *p = &image->programs[ls_program_find(image, LS_PROGRAM_STEP)];
        int n = 0;
        for (int i = 0; i < p->n_instrs; i++) {
            const ls_instr *instr = &p->instrs[i];
            if (strcmp(instr->op, "adamw") != 0) continue;
            const ls_flat_piece *piece = &image->pieces[n++];
            assert_int_equal(ls_view_elements(&instr->in[0].view), piece->count);
            assert_int_equal(ls_view_elements(&instr->in[2].view) * LS_FLAT_UNIT, piece->count);
            assert_int_equal(instr->in[2].offset / sizeof(int32_t) * LS_FLAT_UNIT, piece->at);
        }
        assert_int_equal(n, image->n_pieces);
        assert_int_equal(image->n_settings, 2); /* matrices decay, vectors do not */
        assert_memory_equal(image->settings, set.image[0]->settings, 2 * sizeof *image->settings);
        for (int f = 0; f < image->n_flats; f++)
            assert_true((image->settings[image->flats[f].group].weight_decay > 0) == (image->flats[f].shape.ndim > 1));
    }
    free_images(&set);
}

/* --- values ------------------------------------------------------------------------------------------------------- */

enum { B = 2, S = 13, E = 48, V = 9 };

static ls_tensor matrix(ls_graph *g, const char *name, int64_t rows, int64_t columns) {
    return ls_parameter(g, name, 2, (int64_t[]){rows, columns});
}

/* Head and table are one parameter, whose gradient has its last addition at the very end; "unused" has none. */
static ls_tensor tied(ls_graph *g) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S), table = matrix(g, "table", V, E);
    ls_tensor x = ls_embedding(g, tokens, table);
    x = ls_add(g, x, ls_silu(g, ls_linear(g, x, matrix(g, "first", E, E), LS_NO_TENSOR)));
    (void)matrix(g, "unused", E, E);
    const ls_tensor bias = ls_parameter(g, "bias", 1, (int64_t[]){E});
    x = ls_add(g, x, ls_silu(g, ls_linear(g, x, matrix(g, "second", E, E), bias)));
    return ls_sum(g, ls_cross_entropy(g, ls_linear_wide(g, x, table), ls_input_like(g, "labels", tokens)));
}

static ls_target target_of(ls_mesh mesh) {
    return (ls_target){.mesh = mesh, .strategy = "local", .isa = LS_ISA_REF, .threads = 1};
}

static void solve(ls_mesh mesh, int micro, network_result *out) {
    const network n = {.name = "tied", .loss = tied, .ids = V};
    const ls_target target = target_of(mesh);
    const ls_status status = network_accumulate(&n, &target, micro, out);
    if (status.code != LS_OK) fail_msg("%s", status.text);
}

static void test_same_sum(void **state) {
    (void)state;
    network_result one;
    solve(mesh_of(1, 1, 1), 1, &one);
    static const int meshes[][2] = {{1, 1}, {1, 2}, {1, 3}, {1, 4}, {1, 5}, {2, 8}, {2, 9}, {2, 12}}; /* dp × ring */
    for (size_t m = 0; m < LS_COUNT(meshes); m++) {
        const ls_mesh mesh = mesh_of(meshes[m][0], meshes[m][1], 1);
        const int ranks = ls_mesh_ranks(&mesh);
        for (int micro = 1; micro <= 3; micro++) {
            network_result sum;
            solve(mesh, micro, &sum);
            sum.loss /= micro;
            for (int64_t i = 0; i < sum.image->flat_elements; i++) sum.gradient[i] /= micro;
            const char *what = "";
            const double error = network_difference(&sum, &one, &what);
            if (!(error < 1e-12)) fail_msg("%d ranks, %d micro-batches: %s off by %g", ranks, micro, what, error);
            network_free(&sum);
        }
    }
    network_free(&one);
}

static void test_programs_verify(void **state) {
    (void)state;
    const network n = {.name = "tied", .loss = tied, .ids = V};
    for (int ranks = 1; ranks <= 12; ranks++) {
        const ls_target target = target_of(mesh_of(ranks > 8 ? 2 : 1, ranks, 1));
        const ls_status status = network_verify(&n, &target, 1);
        if (status.code != LS_OK) fail_msg("%d ranks: %s", ls_mesh_ranks(&target.mesh), status.text);
    }
}

/* --- where sums begin --------------------------------------------------------------------------------------------- */

/* Of a buffer of gradients: which elements have been written so far, and which ever are. */
typedef struct traces {
    bool *so_far, *ever;
} traces;

typedef void (*visit)(traces *t, const ls_buffer *buffer, int64_t element);

static void will_write(traces *t, const ls_buffer *buffer, int64_t i) {
    (void)buffer;
    t->ever[i] = true;
}

static void written(traces *t, const ls_buffer *buffer, int64_t i) {
    (void)buffer;
    t->so_far[i] = true;
}

/* What nobody writes is zero where it outlives the program. */
static void read(traces *t, const ls_buffer *buffer, int64_t i) {
    if (t->so_far[i] || (buffer->program < 0 && !t->ever[i])) return;
    fail_msg("element %lld of %s is read before it is written", (long long)i, buffer->name);
}

static void each_element(const ls_image *image, int rank, traces *all, const ls_operand *o, visit body) {
    if (o->buffer < 0 || image->buffers[o->buffer].kind != LS_BUFFER_GRADIENT) return;
    const size_t offset = o->offset + ls_operand_displacement(image, o, rank);
    const int64_t from = (int64_t)(offset / sizeof(float)), n = ls_view_elements(&o->view);
    for (int64_t i = 0; i < n; i++) body(&all[o->buffer], &image->buffers[o->buffer], from + i);
}

static void each_instr(const ls_image *image, int rank, traces *all, bool reads, visit writes) {
    const ls_program *p = &image->programs[ls_program_find(image, LS_PROGRAM_STEP)];
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        for (int k = 0; reads && k < instr->n_in; k++) each_element(image, rank, all, &instr->in[k], read);
        if (instr->kind != LS_INSTR_KERNEL) continue;
        for (int k = 0; k < instr->n_out; k++) {
            if (reads && ls_kernel_reads_output(instr->kernel->id, instr->params, k))
                each_element(image, rank, all, &instr->out[k], read);
            each_element(image, rank, all, &instr->out[k], writes);
        }
    }
}

/* Products that write a gradient. */
static int count_written(const ls_image *image) {
    const ls_program *p = &image->programs[ls_program_find(image, LS_PROGRAM_STEP)];
    int n = 0;
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        n += strcmp(instr->op, "linear_dw") == 0 && !((const ls_matmul_params *)instr->params)->accumulate;
    }
    return n;
}

/*
 * Steps of one micro-batch find no gradients: nothing of them is read before it is written in the same program, and
 * each of the three weights' first product writes. Of several micro-batches, all add.
 */
static void test_sums_begin(void **state) {
    (void)state;
    for (int ranks = 1; ranks <= 3; ranks++) {
        const ls_target target = {.mesh = mesh_of(1, ranks, 1), .strategy = "local", .threads = 1};
        for (int accumulates = 0; accumulates < 2; accumulates++) {
            ls_graph *g = ls_graph_create(LS_F32);
            image_set set = images_of_loss(g, tied(g), &target, accumulates, NULL);
            const ls_image *image = set.image[ranks - 1];
            assert_int_equal(count_written(image), accumulates ? 0 : 3);
            traces *all = calloc((size_t)image->n_buffers, sizeof *all);
            for (int i = 0; i < image->n_buffers; i++) {
                all[i].so_far = calloc(image->buffers[i].bytes, 1);
                all[i].ever = calloc(image->buffers[i].bytes, 1);
            }
            each_instr(image, ranks - 1, all, false, will_write);
            if (!accumulates) each_instr(image, ranks - 1, all, true, written);
            for (int i = 0; i < image->n_buffers; i++) {
                free(all[i].so_far);
                free(all[i].ever);
            }
            free(all);
            free_images(&set);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pieces_cover_once),
        cmocka_unit_test(test_leave_during_backward),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_one_update_each),
        cmocka_unit_test(test_stages),
        cmocka_unit_test(test_same_sum),
        cmocka_unit_test(test_programs_verify),
        cmocka_unit_test(test_sums_begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
