/* The values of every axis of the conformance matrix. */
#include "conformance.h"
#include "covering.h"
#include "masks.h"
#include "meshes.h"
#include "transfers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

const int conformance_rank_counts[CONFORM_RANKS] = {1, 2, 3, 4, 5, 8, 16};

/* Odd lengths, values wider and narrower than keys, documents of one token, an empty one; of each shape: {0, ..., S}.
 */
static const struct {
    plain_sizes n; /* without heads */
    int32_t ends[8];
    int n_ends;
} shapes[] = {
    {{.B = 1, .S = 48, .D = 16, .E = 16}, {0, 1, 9, 9, 10, 33, 48}, 7},
    {{.B = 2, .S = 37, .D = 8, .E = 5}, {0, 5, 6, 7, 30, 37}, 6},
    {{.B = 1, .S = 53, .D = 5, .E = 5}, {0, 17, 18, 53}, 4},
    {{.B = 2, .S = 41, .D = 24, .E = 16}, {0, 11, 12, 12, 13, 40, 41}, 7},
    {{.B = 1, .S = 29, .D = 64, .E = 128}, {0, 2, 19, 29}, 4},
    {{.B = 1, .S = 31, .D = 192, .E = 128}, {0, 7, 8, 31}, 4},
    {{.B = 2, .S = 26, .D = 16, .E = 1}, {0, 12, 13, 26}, 4},
};

/* As mask_of_terms takes them; "documents" are those of the shape. */
static const char *const masks[] = {
    "full",
    "causal",
    "window:5",
    "window:7:3",
    "window:500",
    "prefix:11",
    "documents",
    "causal+documents",
    "window:5+documents",
    "window:9:2+documents",
    "prefix:20+documents",
    "causal+window:9+prefix:20",
    "window:12:2+window:20:7",
    "window:20+prefix:9+documents",
    "first:3",
    "first:3+documents", /* queries in other documents than these three tokens see nothing */
};

static const struct { int64_t q, kv; } heads[] = {{8, 8}, {8, 2}, {8, 1}, {6, 3}};

static const ls_dtype dtypes[] = {LS_F64, LS_F32, LS_BF16};
/* 17² is a standard deviation of logits of 289: among thousands some come near ±1e3. */
static const double spreads[] = {1, 17};
static const plain_extras extras[] = {{false, 0}, {true, 0}, {false, 2}, {true, 3}};

ls_mask conformance_mask(int index, int shape) {
    return mask_of_terms(masks[index], shapes[shape].ends, shapes[shape].n_ends);
}

const char *conformance_mask_name(int mask) { return masks[mask]; }

plain_sizes conformance_sizes(int shape, int head) {
    plain_sizes n = shapes[shape].n;
    n.Hq = heads[head].q;
    n.Hkv = heads[head].kv;
    return n;
}

ls_dtype conformance_dtype(int dtype) { return dtypes[dtype]; }
double conformance_spread(int logits) { return spreads[logits]; }
plain_extras conformance_extras(int e) { return extras[e]; }
int conformance_ranks(const conformance_place *place) { return ls_mesh_ranks(&place->mesh); }

static ls_status asked(const char *strategy, ls_mesh mesh, int head) {
    const plain_sizes n = conformance_sizes(0, head);
    const ls_attention_problem problem = {
        .B = n.B, .S = n.S, .Hq = n.Hq, .Hkv = n.Hkv, .D = n.D, .E = n.E, .mesh = mesh};
    const ls_status status = ls_strategy_applicable(strategy, &problem);
    if (status.code != LS_OK && strstr(status.text, strategy) == NULL)
        fail_msg("%s refuses without a reason that names it: \"%s\"", strategy, status.text);
    return status;
}

static bool has_two_rings(const char *strategy) {
    const ls_attention_problem one = {.Hq = 1, .mesh = mesh_of(1, 4, 1)},
                               two = {.Hq = 1, .mesh = mesh_of_outer(1, 2, 2, 1)};
    return ls_strategy_applicable(strategy, &one).code != LS_OK && ls_strategy_applicable(strategy, &two).code == LS_OK;
}

/* Every ring, and every ring of rings, for strategies that tell them apart. */
static void add_places(conformance_axes *axes, const char *strategy, int ranks) {
    for (int i = 0; i < ranks * ranks; i++) {
        const int U = i / ranks + 1, O = i % ranks + 1, R = ranks / U;
        if (ranks % U != 0 || R % O != 0 || (O > 1 && (O == R || !has_two_rings(strategy)))) continue;
        const ls_mesh mesh = mesh_of_outer(1, O, R / O, U);
        bool fits = false;
        for (size_t h = 0; h < LS_COUNT(heads); h++) fits |= asked(strategy, mesh, (int)h).code == LS_OK;
        if (!fits) {
            axes->meshes_refused[axes->strategies]++;
            continue;
        }
        assert_true(axes->size[CONFORM_PLACE] < CONFORM_PLACES);
        axes->place[axes->size[CONFORM_PLACE]++] =
            (conformance_place){.strategy = strategy, .index = axes->strategies, .mesh = mesh};
    }
}

/* Tries the meshes of these numbers of ranks. */
static void make_axes(conformance_axes *axes, const int *ranks, size_t n) {
    *axes = (conformance_axes){.size = {[CONFORM_MASK] = LS_COUNT(masks),
                                        [CONFORM_LAYOUT] = LS_LAYOUTS,
                                        [CONFORM_HEADS] = LS_COUNT(heads),
                                        [CONFORM_DTYPE] = LS_COUNT(dtypes),
                                        [CONFORM_TRANSFERS] = TRANSFER_WAYS,
                                        [CONFORM_SHAPE] = LS_COUNT(shapes),
                                        [CONFORM_LOGITS] = LS_COUNT(spreads),
                                        [CONFORM_EXTRAS] = LS_COUNT(extras)}};
    for (ls_isa isa = LS_ISA_REF; isa < LS_ISA_COUNT; isa++) {
        if (ls_isa_check(isa).code == LS_OK) axes->isa[axes->size[CONFORM_ISA]++] = isa;
    }
    for (const char *name; (name = ls_strategy_name(axes->strategies)) != NULL; axes->strategies++) {
        assert_true(axes->strategies < CONFORM_STRATEGIES);
        for (size_t i = 0; i < n; i++) add_places(axes, name, ranks[i]);
    }
}

const char *conformance_transfers(int t, const conformance_place *place, ls_target *target) {
    const transfer_way *way = &transfer_ways[t];
    transfer_way_set(way, target);
    if (way->asked == LS_TRANSFERS_PUT) return "put";
    const bool across = !way->blocks_apart && reads_ring_in_place(place->strategy, &place->mesh);
    return mesh_ring(&place->mesh) == 1 || across ? "in-place" : "in-place+put";
}

bool conformance_has_kernels(ls_isa isa, int dtype) {
    const ls_kernel_request request = {.id = LS_KERNEL_ATTENTION, .dtype = dtypes[dtype], .isa = isa};
    const ls_kernel *kernel;
    return ls_kernel_find(&request, &kernel).code == LS_OK && kernel->needs == ls_isas[isa].features;
}

bool conformance_allowed(const void *context, int a, int i, int b, int j) {
    const conformance_axes *axes = context;
    if (a == CONFORM_DTYPE && b == CONFORM_ISA) return conformance_has_kernels(axes->isa[j], i);
    if (a != CONFORM_PLACE) return true;
    const conformance_place *place = &axes->place[i];
    if (b == CONFORM_HEADS) return asked(place->strategy, place->mesh, j).code == LS_OK;
    return b != CONFORM_TRANSFERS || transfer_way_fits(&transfer_ways[j], place->strategy, &place->mesh);
}

void conformance_axes_make(conformance_axes *axes) { make_axes(axes, conformance_rank_counts, CONFORM_RANKS); }

/* Blocks apart need ring and ulysses ranks: few ranks, or a prime number of them, have no such mesh. */
void conformance_axes_of(conformance_axes *axes, int ranks) {
    make_axes(axes, &ranks, 1);
    const int last = axes->size[CONFORM_TRANSFERS] - 1;
    bool any = false;
    for (int p = 0; p < axes->size[CONFORM_PLACE]; p++)
        any |= conformance_allowed(axes, CONFORM_PLACE, p, CONFORM_TRANSFERS, last);
    axes->size[CONFORM_TRANSFERS] -= !any;
}

bool conformance_has(const conformance_axes *axes, const conformance_case *c) {
    const covering_axes all = {.n = CONFORM_AXES, .allowed = conformance_allowed, .context = axes};
    return covering_allows(&all, c->at);
}

void conformance_say(const conformance_axes *axes, const conformance_case *c, char *out, size_t room) {
    const int *at = c->at;
    const conformance_place *place = &axes->place[at[CONFORM_PLACE]];
    const plain_sizes n = conformance_sizes(at[CONFORM_SHAPE], at[CONFORM_HEADS]);
    snprintf(
        out, room,
        "%s of ring %d (inner %d) ulysses %d, %s, %s, %s on %s, %s, B %lld S %lld Hq %lld Hkv %lld D %lld E %lld%s%s%s",
        place->strategy, mesh_ring(&place->mesh), mesh_inner(&place->mesh), mesh_ulysses(&place->mesh),
        masks[at[CONFORM_MASK]], ls_layout_name((ls_layout_kind)at[CONFORM_LAYOUT]),
        ls_dtype_name(dtypes[at[CONFORM_DTYPE]]), ls_isa_name(axes->isa[at[CONFORM_ISA]]),
        transfer_ways[at[CONFORM_TRANSFERS]].name, (long long)n.B, (long long)n.S, (long long)n.Hq, (long long)n.Hkv,
        (long long)n.D, (long long)n.E, spreads[at[CONFORM_LOGITS]] > 1 ? ", logits of 1e3" : "",
        extras[at[CONFORM_EXTRAS]].sink ? ", sink" : "", extras[at[CONFORM_EXTRAS]].softcap > 0 ? ", soft cap" : "");
}
