#include "images.h"
#include "meshes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(ls_status status) {
    if (status.code == LS_OK) return;
    fprintf(stderr, "%s\n", status.text);
    abort();
}

static ls_tensor matrix(ls_graph *g, const char *name, int layer, int64_t rows, int64_t columns) {
    char full[64];
    snprintf(full, sizeof full, "%s.%d", name, layer);
    return ls_parameter(g, full, 2, (int64_t[]){rows, columns});
}

static ls_tensor layer(ls_graph *g, ls_tensor x, ls_tensor table, int i) {
    enum { E = 16, Hq = 4, Hkv = 2, D = 4, F = 24 };
    char name[64];
    snprintf(name, sizeof name, "norm.%d", i);
    const ls_tensor n = ls_rmsnorm(g, x, ls_parameter(g, name, 1, (int64_t[]){E}), 1e-5);
    const ls_tensor q = ls_split_last(g, ls_linear(g, n, matrix(g, "q", i, Hq * D, E), LS_NO_TENSOR), Hq, D);
    const ls_tensor k = ls_split_last(g, ls_linear(g, n, matrix(g, "k", i, Hkv * D, E), LS_NO_TENSOR), Hkv, D);
    const ls_tensor v = ls_split_last(g, ls_linear(g, n, matrix(g, "v", i, Hkv * D, E), LS_NO_TENSOR), Hkv, D);
    const ls_mask mask = ls_mask_causal();
    const ls_tensor o = ls_attention(g, ls_rotate(g, q, table), ls_rotate(g, k, table), v, &mask, 0.5);
    const ls_tensor h = ls_add(g, x, ls_linear(g, ls_merge_last(g, o), matrix(g, "o", i, E, Hq * D), LS_NO_TENSOR));
    const ls_tensor gate = ls_linear(g, h, matrix(g, "gate", i, F, E), LS_NO_TENSOR);
    const ls_tensor up = ls_linear(g, h, matrix(g, "up", i, F, E), LS_NO_TENSOR);
    return ls_add(g, h, ls_linear(g, ls_swiglu(g, gate, up), matrix(g, "down", i, E, F), LS_NO_TENSOR));
}

ls_job job_of_loss(ls_graph *g, ls_tensor loss, bool accumulates, const ls_optimizer *optimizer) {
    const ls_dtype G = ls_dtype_accumulator(g->dtype);
    const ls_shape one = {1, {{1, LS_FACTOR_NONE}}};
    (void)ls_accumulate(g, loss, ls_graph_leaf(g, LS_ROLE_ACCUMULATOR, LS_BIND_LOSS, G, &one));
    ls_derivative d = {.n_roots = 1, .root = {loss}, .seed = {ls_graph_leaf(g, LS_ROLE_INPUT, LS_BIND_SCALE, G, &one)}};
    const int forward = g->n_nodes;
    must(ls_graph_status(g));
    must(ls_differentiate(g, &d));
    ls_job job = {
        .graph = g, .programs = ls_training_programs(g, forward, LS_UPDATE_APPLY, accumulates), .optimizer = optimizer};
    job.hyper = ls_optimizer_defaults(ls_job_optimizer(&job));
    return job;
}

image_set images_of_loss(ls_graph *g, ls_tensor loss, const ls_target *target, bool accumulates,
                         const ls_optimizer *optimizer) {
    enum { MICRO_BATCHES = 4 };
    ls_job job = job_of_loss(g, loss, accumulates, optimizer);
    job.micro_batches = accumulates ? MICRO_BATCHES : 1;
    image_set set = {.ranks = ls_mesh_ranks(&target->mesh), .graph = g};
    for (int r = 0; r < set.ranks; r++) {
        ls_target one_rank = *target;
        one_rank.rank = r;
        must(ls_compile(&job, &one_rank, &set.image[r]));
    }
    return set;
}

ls_tensor loss_of_layers(ls_graph *g, int64_t B, int64_t S, int layers) {
    const ls_tensor tokens = ls_tokens(g, "tokens", B, S);
    const ls_tensor labels = ls_input_like(g, "labels", tokens);
    const ls_rope rope = {.theta = 10000};
    const ls_tensor table = ls_rope_table(g, ls_input_like(g, "positions", tokens), 4, &rope);
    ls_tensor x = ls_embedding(g, tokens, matrix(g, "embedding", 0, 32, 16));
    for (int i = 0; i < layers; i++) x = layer(g, x, table, i);
    const ls_tensor logits = ls_linear_wide(g, x, matrix(g, "head", 0, 32, 16));
    return ls_sum(g, ls_cross_entropy(g, logits, labels));
}

/* A network of so many layers, for a sequence of S tokens. */
static image_set images_of_layers(const ls_target *target, int64_t S, int layers, bool accumulates,
                                  const ls_optimizer *optimizer) {
    ls_graph *g = ls_graph_create(LS_F32);
    const ls_tensor loss = loss_of_layers(g, ls_mesh_replicas(&target->mesh), S, layers);
    return images_of_loss(g, loss, target, accumulates, optimizer);
}

image_set images_of_kind(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers,
                         bool accumulates, images_reads reads) {
    const int U = mesh_ulysses(&mesh);
    bool can;
    must(ls_strategy_reads_in_place(strategy, &can));
    can |= U > 1;
    const ls_target target = {.mesh = mesh,
                              .strategy = strategy,
                              .layout = layout,
                              .threads = 1,
                              .transfers = reads != READS_NOTHING && can ? LS_TRANSFERS_IN_PLACE : LS_TRANSFERS_PUT,
                              .host_ranks = reads == READS_BLOCK ? U : LS_ONE_HOST};
    return images_of_layers(&target, S, layers, accumulates, NULL);
}

image_set images_of_shard(ls_mesh mesh, const char *strategy, int layers, const ls_shard_mode *shard,
                          const ls_optimizer *optimizer) {
    enum { S = 13 };
    const ls_target target = {
        .mesh = mesh, .strategy = strategy, .layout = LS_LAYOUT_ZIGZAG, .threads = 1, .shard = shard};
    return images_of_layers(&target, S, layers, true, optimizer);
}

image_set images_of_saving(ls_mesh mesh, const char *strategy, int layers, const ls_saving *saving,
                           const ls_optimizer *optimizer) {
    enum { S = 26 };
    const ls_target target = {
        .mesh = mesh, .strategy = strategy, .layout = LS_LAYOUT_ZIGZAG, .threads = 1, .saving = *saving};
    return images_of_layers(&target, S, layers, true, optimizer);
}

image_set images_of_stages(const char *mesh, const char *strategy, const char *pipeline, const ls_shard_mode *shard) {
    enum { S = 13, LAYERS = 4 };
    ls_target target = {.strategy = strategy, .layout = LS_LAYOUT_ZIGZAG, .threads = 1, .shard = shard};
    must(ls_mesh_parse(mesh, &target.mesh));
    must(ls_pipeline_parse(pipeline, &target.schedule, &target.stage_chunks));
    return images_of_layers(&target, S, LAYERS, true, NULL);
}

image_set images_of_step(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers) {
    return images_of_kind(mesh, strategy, layout, S, layers, false, READS_NOTHING);
}

image_set images_of_network(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers) {
    return images_of_kind(mesh, strategy, layout, S, layers, true, READS_NOTHING);
}

image_set images_in_place(ls_mesh mesh, const char *strategy, ls_layout_kind layout, int64_t S, int layers) {
    return images_of_kind(mesh, strategy, layout, S, layers, true, READS_ALL);
}

void free_images(image_set *set) {
    for (int r = 0; r < set->ranks; r++) ls_image_destroy(set->image[r]);
    ls_graph_destroy(set->graph);
}

void move_heaps(image_set *set) {
    enum { LITTLE = 64, LOT = 37 * LITTLE };
    for (int r = 0; r < set->ranks; r++) {
        ls_image *image = set->image[r];
        for (int i = 0; i < image->n_buffers; i++) {
            ls_buffer *b = &image->buffers[i];
            if (b->space == LS_SYMMETRIC) b->offset += (size_t)r * (b->program < 0 ? LITTLE : LOT);
        }
        image->bytes[LS_SYMMETRIC] += (size_t)set->ranks * LOT;
    }
}

void set_after(ls_instr *instr, int k, int other) {
    if (other >= 0)
        instr->after[k].instr = other;
    else
        instr->after[k] = instr->after[--instr->n_after];
}

void drop_instr(ls_program *p, int at) {
    int before = at - 1;
    while (before >= 0 && p->instrs[before].queue != p->instrs[at].queue) before--;
    memmove(&p->instrs[at], &p->instrs[at + 1], sizeof *p->instrs * (size_t)(p->n_instrs - at - 1));
    p->n_instrs--;
    for (int i = 0; i < p->n_instrs; i++) {
        for (int k = p->instrs[i].n_after - 1; k >= 0; k--) {
            const int after = p->instrs[i].after[k].instr;
            if (after >= at) set_after(&p->instrs[i], k, after == at ? before : after - 1);
        }
    }
}
