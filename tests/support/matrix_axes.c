/* The values of every axis of the matrix, and which of them go together. */
#include "matrix.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../examples/graphs/graphs.h"
#include "masks.h"
#include "meshes.h"
#include "network.h"
#include "transfers.h"

/* --- networks ----------------------------------------------------------------------------------------------------- */

/*
 * Graphs have sizes of their own: 2 sequences of 23 tokens, 8 query heads. A model is one of config.json, with as many
 * heads, sequences and tokens as a case says.
 */
enum { V = 17, D = 4, GRAPH_B = 2, GRAPH_HEADS = 8 };

/* What a config.json says beside its sizes. */
static const struct {
    const char *name;
    ls_tensor (*loss)(ls_graph *g); /* NULL: a model */
    const char *fields;
    bool along_the_sequence; /* tokens need their neighbours, which some layouts keep far apart */
    bool has_zero_gradients; /* in theory, of biases of keys that are not rotated: their sign is chance */
} networks[] = {
    {"gpt2", .loss = gpt2_loss, .has_zero_gradients = true},
    {"llama2", .loss = llama2_loss},
    {"llama3", .loss = llama_loss},
    {"qwen2", .loss = qwen2_loss},
    {"qwen3", .loss = qwen3_loss},
    {"mistral", .loss = mistral_loss},
    {"gemma2", .loss = gemma2_loss},
    {"gptoss", .loss = gptoss_loss},
    {"mla", .loss = mla_loss},
    {"encoder", .loss = encoder_loss, .has_zero_gradients = true},
    {"mixer", .loss = mixer_loss, .along_the_sequence = true},
    {"timemix", .loss = timemix_loss, .along_the_sequence = true},
    {"plstm", .loss = plstm_loss, .along_the_sequence = true},
    {"experts", .loss = experts_loss},
    {"Llama", .fields = "\"architectures\": [\"LlamaForCausalLM\"], \"attention_bias\": true, \"mlp_bias\": true,"
                        " \"rope_scaling\": {\"rope_type\": \"llama3\", \"factor\": 4, \"low_freq_factor\": 1,"
                        " \"high_freq_factor\": 4, \"original_max_position_embeddings\": 16}"},
    {"Mistral", .fields = "\"architectures\": [\"MistralForCausalLM\"], \"sliding_window\": 12"},
    {"Qwen2", .fields = "\"architectures\": [\"Qwen2ForCausalLM\"], \"tie_word_embeddings\": true,"
                        " \"use_sliding_window\": true, \"sliding_window\": 12, \"max_window_layers\": 1"},
    {"Qwen3", .fields = "\"architectures\": [\"Qwen3ForCausalLM\"], \"head_dim\": 4, \"tie_word_embeddings\": true"},
    {"GPT-2", .fields = "\"architectures\": [\"GPT2LMHeadModel\"]", .has_zero_gradients = true},
    {"Gemma 2", .fields = "\"architectures\": [\"Gemma2ForCausalLM\"], \"head_dim\": 4, \"sliding_window\": 12,"
                          " \"query_pre_attn_scalar\": 6, \"attn_logit_softcapping\": 2,"
                          " \"final_logit_softcapping\": 3"},
};
_Static_assert((int)LS_COUNT(networks) == (int)MATRIX_NETWORKS, "an account has a tally for each");

/* 0: as the graph has them. */
static const struct { int q, kv; } heads[] = {{0, 0}, {8, 2}, {7, 1}, {16, 4}};
static const int64_t lengths[] = {23 /* of graphs; no number of ranks divides it */, 48};
enum { NETWORKS = LS_COUNT(networks), HEADS = LS_COUNT(heads), LENGTHS = LS_COUNT(lengths) };

static char configs[NETWORKS][HEADS][700];

static void write_configs(void) {
    for (int n = 0; n < NETWORKS; n++) {
        for (int h = 1; h < HEADS; h++) {
            if (networks[n].loss != NULL) continue;
            const int E = heads[h].q * D;
            snprintf(configs[n][h], sizeof configs[n][h],
                     "{%s, \"vocab_size\": %d, \"hidden_size\": %d, \"intermediate_size\": 24, \"n_embd\": %d,"
                     " \"n_inner\": 24, \"num_hidden_layers\": 2, \"n_layer\": 2, \"num_attention_heads\": %d,"
                     " \"n_head\": %d, \"num_key_value_heads\": %d, \"max_position_embeddings\": 64}",
                     networks[n].fields, V, E, E, heads[h].q, heads[h].q, heads[h].kv);
        }
    }
}

/* --- masks -------------------------------------------------------------------------------------------------------- */

/* As mask_of_terms takes them; of the whole network, or its own where it is empty. */
static const char *const masks[] = {"", "window:5", "window:4:2", "documents", "causal+window:9:1+documents"};
enum { MASKS = LS_COUNT(masks) };

/* Documents of one token, and an empty one, by length. */
static const struct {
    int32_t at[8];
    int n;
} ends[LENGTHS] = {{{0, 1, 9, 10, 23}, 5}, {{0, 1, 9, 9, 10, 33, 48}, 7}};

static ls_mask mask_of[MASKS][LENGTHS];

static void make_masks(void) {
    for (int m = 1; m < MASKS; m++) {
        for (int s = 0; s < LENGTHS; s++) mask_of[m][s] = mask_of_terms(masks[m], ends[s].at, ends[s].n);
    }
}

/* --- places ------------------------------------------------------------------------------------------------------- */

typedef struct place {
    int dp, ring, ulysses, tp;
    ls_mesh mesh;
    const char *strategy;
    bool in_turn; /* the one of its mesh that a mesh with many ranks would have */
} place;

enum { RANKS = 16, PLACES = 512, FEW_RANKS = 4, HEADS_MOST = 16, TP_MOST = 4 };
static place places[PLACES];
static int n_places;

/* Of heads the rank along tp with fewest has Hq / tp. */
static bool applies(const place *p, int64_t Hq) {
    const ls_attention_problem problem = {
        .B = p->dp, .S = lengths[0], .Hq = Hq / p->tp, .Hkv = 1, .D = D, .mesh = p->mesh};
    return ls_strategy_applicable(p->strategy, &problem).code == LS_OK;
}

/* The strategies of a mesh: all with few ranks, else one in turn. */
static void add_mesh(place p, int turn) {
    const char *fits[LS_STRATEGIES_MOST];
    int n = 0;
    for (int i = 0; (p.strategy = ls_strategy_name(i)) != NULL; i++)
        if (applies(&p, HEADS_MOST)) fits[n++] = p.strategy;
    LS_ASSERT(n > 0);
    const bool all = p.dp * p.ring * p.ulysses * p.tp <= FEW_RANKS && p.tp == 1;
    for (int i = all ? 0 : turn % n; i < (all ? n : turn % n + 1); i++) {
        LS_ASSERT(n_places < PLACES);
        p.strategy = fits[i];
        p.in_turn = i == turn % n;
        places[n_places++] = p;
    }
}

/* Of strategies that tell two rings from one. */
static void add_rings_of_rings(void) {
    static const struct {
        int dp, outer, ring, ulysses;
    } meshes[] = {{1, 2, 2, 1}, {1, 2, 3, 1}, {1, 3, 2, 1}, {2, 2, 2, 1}, {1, 2, 2, 2}, {1, 2, 4, 2}};
    for (size_t i = 0; i < LS_COUNT(meshes); i++) {
        const int dp = meshes[i].dp, outer = meshes[i].outer, ring = meshes[i].ring, ulysses = meshes[i].ulysses;
        const ls_mesh mesh = mesh_of_outer(dp, outer, ring, ulysses);
        const char *names[LS_STRATEGIES_MOST];
        LS_ASSERT(ls_strategies_for(&mesh, names) == 1 && n_places < PLACES);
        places[n_places++] = (place){dp, outer * ring, ulysses, 1, mesh, names[0], true};
    }
}

static void make_places(void) {
    int turn = 0;
    for (int dp = 1; dp <= RANKS; dp++) {
        for (int ring = 1; dp * ring <= RANKS; ring++) {
            for (int ulysses = 1; dp * ring * ulysses <= RANKS; ulysses++)
                add_mesh((place){dp, ring, ulysses, 1, mesh_of(dp, ring, ulysses), NULL, false}, turn++);
        }
    }
    add_rings_of_rings();
    for (int tp = 2; tp <= TP_MOST; tp++) {
        for (int dp = 1; dp <= 2; dp++) {
            for (int ring = 1; dp * ring * tp <= RANKS; ring *= 2) {
                for (int ulysses = 1; dp * ring * ulysses * tp <= RANKS; ulysses *= 2) {
                    const ls_mesh mesh = mesh_with_tp(dp, ring, ulysses, tp);
                    const bool outside = turn % 3 == 2;
                    add_mesh((place){dp, ring, ulysses, tp, outside ? mesh_tp_outside(&mesh) : mesh, NULL, false},
                             turn);
                    turn++;
                }
            }
        }
    }
}

/* --- micro-batches, savings of memory ----------------------------------------------------------------------------- */

static const int micros[] = {1, 3, 2, 4, 5, 6, 7, 8};
enum { PLAIN_MICROS = 2 }; /* the first ones are enough where they are run one after the other */

enum { ALL = 1 << 20 };
static const struct {
    const char *name;
    ls_saving saving;
} savings[] = {
    {"nothing", {0}},
    {"some results", {.drop = 9}},
    {"all results", {.drop = ALL}},
    {"logits in tiles", {.tile = LS_TILE_LOSS, .tile_rows = 3}},
    {"all results and tiles", {.drop = ALL, .tile = LS_TILE_ALL, .tile_rows = 4}},
    {"all offloaded", {.offload = ALL, .offload_state = true}},
    {"some offloaded, results and tiles", {.drop = ALL, .tile = LS_TILE_ALL, .tile_rows = 5, .offload = 3}},
};

/* --- stages ------------------------------------------------------------------------------------------------------- */

static const struct {
    int pp;
    const char *pipeline;
} stages[] = {
    {1, NULL},          {2, "1f1b"}, {2, "interleaved:2"}, {2, "zero-bubble"}, {3, "1f1b"}, {3, "interleaved:2"},
    {3, "zero-bubble"}, {4, "1f1b"}, {4, "interleaved:2"}, {4, "zero-bubble"}};

static int chunks_of(int i, const ls_pipeline_schedule **schedule) {
    int chunks;
    const ls_status status = ls_pipeline_parse(stages[i].pipeline, schedule, &chunks);
    LS_ASSERT(status.code == LS_OK);
    return chunks;
}

/* Interleaved stages take micro-batches in sets of as many as there are stages. */
static bool micro_fits(int micro, int i) {
    const ls_pipeline_schedule *schedule;
    return chunks_of(i, &schedule) <= 1 || micro % stages[i].pp == 0;
}

/* --- slices ------------------------------------------------------------------------------------------------------- */

static const int slices[] = {1, 2, 3, 4};
enum { SLICED_LENGTH = 1 /* of models, whose tokens the numbers of slices divide */ };

/* Whether keys of earlier slices come to the queries, and nothing is kept that is of one slice alone. */
static bool is_sliced(const place *p) {
    static const char *const unsliced[] = {"tokenring", "decode", "burst", "rsa"};
    bool sliced = true;
    for (size_t i = 0; i < LS_COUNT(unsliced); i++) sliced &= strcmp(p->strategy, unsliced[i]) != 0;
    return sliced;
}

/* Whether no token sees one of a later slice. */
static bool looks_back(int m, int n) {
    const int64_t S = lengths[SLICED_LENGTH], each = S / n;
    bool back = true;
    for (int64_t i = 0; i < S && m > 0; i++) {
        ls_span seen[LS_MASK_SPANS];
        const int spans = ls_mask_spans(&mask_of[m][SLICED_LENGTH], S, i, seen);
        for (int k = 0; k < spans; k++) back &= seen[k].lo == seen[k].hi || seen[k].hi <= (i / each + 1) * each;
    }
    return back;
}

static bool layout_is_sliced(int layout) { return layout != LS_LAYOUT_DOCUMENTS && layout != LS_LAYOUT_BALANCED; }

/* Whether what is cut into so many slices may be value i of the axis. */
static bool goes_with_slices(int axis, int i, int n) {
    if (n == 1) return true;
    return axis == MATRIX_LENGTH   ? i == SLICED_LENGTH
           : axis == MATRIX_MASK   ? looks_back(i, n)
           : axis == MATRIX_LAYOUT ? layout_is_sliced(i)
           : axis == MATRIX_PLACE  ? is_sliced(&places[i])
                                   : true;
}

static bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

/* Within a stage: few places, on meshes of powers of two. */
static bool goes_with_stages(int axis, int i) {
    if (axis == MATRIX_STAGES) return stages[i].pp > 1;
    if (axis != MATRIX_PLACE) return true;
    const place *p = &places[i];
    return (p->in_turn || (p->ring > 1 && p->ulysses > 1)) && p->dp <= 2 &&
           2 * p->dp * p->ring * p->ulysses * p->tp <= RANKS && is_power_of_two(p->ring) &&
           is_power_of_two(p->ulysses) && is_power_of_two(p->tp);
}

/* --- what goes together ------------------------------------------------------------------------------------------- */

/* A value that only graphs have, or only models, so that no case has one of each. */
typedef enum owner { ANY, GRAPHS, MODELS } owner;

static owner owner_of(int axis, int i) {
    const bool large = axis == MATRIX_PLACE && (places[i].dp > GRAPH_B || !applies(&places[i], GRAPH_HEADS));
    if (axis == MATRIX_NETWORK) return networks[i].loss != NULL ? GRAPHS : MODELS;
    if (axis == MATRIX_HEADS) return i == 0 ? GRAPHS : MODELS;
    return large || (axis == MATRIX_LENGTH && i > 0) || (axis == MATRIX_SLICES && slices[i] > 1) ? MODELS : ANY;
}

static bool layout_fits(int n, int layout) {
    return !networks[n].along_the_sequence || layout == LS_LAYOUT_CONTIGUOUS || layout == LS_LAYOUT_ZIGZAG;
}

static bool optimizer_fits(int n, int optimizer) {
    return !networks[n].has_zero_gradients || ls_optimizer_at(optimizer) != &ls_optimizer_lion;
}

/* Muon needs whole matrices. */
static bool tp_fits(int tp, int optimizer) { return tp == 1 || ls_optimizer_at(optimizer)->update_matrices == NULL; }

static bool allowed(const void *context, int a, int i, int b, int j) {
    const bool staged = *(const matrix_set *)context == MATRIX_STAGED;
    if (staged && !(goes_with_stages(a, i) && goes_with_stages(b, j))) return false;
    if (a == MATRIX_PLACE && b == MATRIX_STAGES) return ls_mesh_ranks(&places[i].mesh) * stages[j].pp <= RANKS;
    if (a == MATRIX_MICRO && b == MATRIX_STAGES) return micro_fits(micros[i], j);
    if (b == MATRIX_SLICES && !goes_with_slices(a, i, slices[j])) return false;
    const owner x = owner_of(a, i), y = owner_of(b, j);
    if (x != ANY && y != ANY && x != y) return false;
    if (a == MATRIX_NETWORK && b == MATRIX_LAYOUT) return layout_fits(i, j);
    if (a == MATRIX_NETWORK && b == MATRIX_OPTIMIZER) return optimizer_fits(i, j);
    if (a == MATRIX_PLACE && b == MATRIX_OPTIMIZER) return tp_fits(places[i].tp, j);
    if (a == MATRIX_PLACE && b == MATRIX_HEADS) return applies(&places[i], j == 0 ? GRAPH_HEADS : heads[j].q);
    if (a != MATRIX_PLACE || b != MATRIX_TRANSFERS) return true;
    return transfer_way_fits(&transfer_ways[j], places[i].strategy, &places[i].mesh);
}

const covering_axes *matrix_axes(matrix_set set) {
    static covering_axes both[MATRIX_SETS];
    static const matrix_set sets[MATRIX_SETS] = {MATRIX_PLAIN, MATRIX_STAGED};
    covering_axes *axes = &both[set];
    if (axes->n > 0) return axes;
    if (n_places == 0) {
        write_configs();
        make_masks();
        make_places();
    }
    const int size[MATRIX_AXES] = {[MATRIX_NETWORK] = NETWORKS,
                                   [MATRIX_PLACE] = n_places,
                                   [MATRIX_SHARD] = LS_SHARD_MODES,
                                   [MATRIX_MICRO] = set == MATRIX_PLAIN ? PLAIN_MICROS : LS_COUNT(micros),
                                   [MATRIX_MASK] = MASKS,
                                   [MATRIX_HEADS] = HEADS,
                                   [MATRIX_LENGTH] = LENGTHS,
                                   [MATRIX_LAYOUT] = LS_LAYOUTS,
                                   [MATRIX_SAVING] = LS_COUNT(savings),
                                   [MATRIX_TRANSFERS] = TRANSFER_WAYS,
                                   [MATRIX_STAGES] = LS_COUNT(stages),
                                   [MATRIX_SLICES] = LS_COUNT(slices)};
    *axes = (covering_axes){.n = set == MATRIX_PLAIN ? MATRIX_PLAIN_AXES : MATRIX_AXES,
                            .allowed = allowed,
                            .context = &sets[set],
                            .seed = 1};
    memcpy(axes->size, size, sizeof size);
    while (ls_optimizer_at(axes->size[MATRIX_OPTIMIZER]) != NULL) axes->size[MATRIX_OPTIMIZER]++;
    return axes;
}
_Static_assert((int)MATRIX_AXES <= (int)COVERING_AXES, "a row of a covering set holds a case");

/* --- lists of cases ----------------------------------------------------------------------------------------------- */

/* What the results of one rank depend on. Of places only replicas matter: they say how many sequences a model has. */
static const int problem_axes[] = {MATRIX_NETWORK, MATRIX_MASK,  MATRIX_HEADS,
                                   MATRIX_LENGTH,  MATRIX_MICRO, MATRIX_OPTIMIZER};

static int compare_problems(const void *a, const void *b) {
    const matrix_case *x = a, *y = b;
    for (size_t i = 0; i < LS_COUNT(problem_axes); i++) {
        const int difference = x->at[problem_axes[i]] - y->at[problem_axes[i]];
        if (difference != 0) return difference;
    }
    return places[x->at[MATRIX_PLACE]].dp - places[y->at[MATRIX_PLACE]].dp;
}

bool matrix_same_problem(const matrix_case *a, const matrix_case *b) { return compare_problems(a, b) == 0; }

matrix_case *matrix_cover(matrix_set set, int *n) {
    const covering_axes *axes = matrix_axes(set);
    int pairs;
    covering_row *rows = covering_make(axes, n, &pairs);
    LS_ASSERT(covering_count(axes, rows, *n) == pairs);
    matrix_case *cases = calloc((size_t)*n, sizeof *cases);
    for (int r = 0; r < *n; r++) memcpy(cases[r].at, rows[r].at, sizeof cases[r].at[0] * (size_t)axes->n);
    free(rows);
    qsort(cases, (size_t)*n, sizeof *cases, compare_problems);
    return cases;
}

/* The case at that index of the product of the first axes; the others take turns. */
static bool product_case(const covering_axes *axes, int64_t index, matrix_case *c) {
    covering_axes first = *axes;
    int turn = 0;
    for (int a = MATRIX_TURNS - 1; a >= 0; a--, index /= axes->size[a + 1]) {
        c->at[a] = (int)(index % axes->size[a]);
        turn += c->at[a];
    }
    first.n = MATRIX_TURNS;
    if (!covering_allows(&first, c->at)) return false;
    for (int a = MATRIX_TURNS; a < axes->n; a++) {
        first.n = a + 1;
        for (c->at[a] = turn % axes->size[a]; !covering_allows(&first, c->at);)
            c->at[a] = (c->at[a] + 1) % axes->size[a];
        turn = turn / 2 + c->at[a] + a;
    }
    return true;
}

bool matrix_next(test_part part, int64_t *at, matrix_case *c) {
    const covering_axes *axes = matrix_axes(MATRIX_PLAIN);
    int64_t all = 1;
    for (int a = 0; a < MATRIX_TURNS; a++) all *= axes->size[a];
    for (; *at < all; ++*at) {
        if (*at % part.parts != part.index || !product_case(axes, *at, c)) continue;
        ++*at;
        return true;
    }
    return false;
}

/* --- a case ------------------------------------------------------------------------------------------------------- */

/* Two sequences for each replica, as long as that is little work. */
static int64_t sequences(int dp) { return dp * (dp <= RANKS / 2 ? 2 : 1); }

network matrix_network(const matrix_case *c) {
    (void)matrix_axes(MATRIX_PLAIN);
    const int *at = c->at, n = at[MATRIX_NETWORK], h = at[MATRIX_HEADS], s = at[MATRIX_LENGTH];
    return (network){.name = networks[n].name,
                     .loss = networks[n].loss,
                     .ids = V,
                     .config = networks[n].loss != NULL ? NULL : configs[n][h],
                     .B = sequences(places[at[MATRIX_PLACE]].dp),
                     .S = lengths[s],
                     .mask = at[MATRIX_MASK] > 0 ? &mask_of[at[MATRIX_MASK]][s] : NULL,
                     .optimizer = ls_optimizer_at(at[MATRIX_OPTIMIZER])};
}

ls_target matrix_target(const matrix_case *c) {
    const int *at = c->at;
    const place *p = &places[at[MATRIX_PLACE]];
    const int pp = stages[at[MATRIX_STAGES]].pp;
    ls_target target = {.mesh = pp > 1 ? mesh_with_stages(&p->mesh, pp) : p->mesh,
                        .strategy = p->strategy,
                        .layout = (ls_layout_kind)at[MATRIX_LAYOUT],
                        .threads = 1,
                        .shard = &ls_shard_modes[at[MATRIX_SHARD]],
                        .saving = savings[at[MATRIX_SAVING]].saving};
    target.slices = slices[at[MATRIX_SLICES]];
    target.stage_chunks = chunks_of(at[MATRIX_STAGES], &target.schedule);
    transfer_way_set(&transfer_ways[at[MATRIX_TRANSFERS]], &target);
    return target;
}

int matrix_micro(const matrix_case *c) { return micros[c->at[MATRIX_MICRO]]; }

const char *matrix_network_name(int n) { return networks[n].name; }

void matrix_say(const matrix_case *c, char *out, size_t room) {
    const int *at = c->at;
    const place *p = &places[at[MATRIX_PLACE]];
    const char *mask = masks[at[MATRIX_MASK]], *pipeline = stages[at[MATRIX_STAGES]].pipeline;
    snprintf(
        out, room,
        "%s, heads %d/%d, S %lld, pp %d %s, %s of dp %d ring %d ulysses %d tp %d, shard %s, %d micro-batches of %d slices, mask %s, %s, saved: "
        "%s, %s, %s",
        networks[at[MATRIX_NETWORK]].name, heads[at[MATRIX_HEADS]].q, heads[at[MATRIX_HEADS]].kv,
        (long long)lengths[at[MATRIX_LENGTH]], stages[at[MATRIX_STAGES]].pp, pipeline != NULL ? pipeline : "",
        p->strategy, p->dp, p->ring, p->ulysses, p->tp, ls_shard_modes[at[MATRIX_SHARD]].name, matrix_micro(c),
        slices[at[MATRIX_SLICES]], mask[0] == 0 ? "its own" : mask, ls_layout_name((ls_layout_kind)at[MATRIX_LAYOUT]),
        savings[at[MATRIX_SAVING]].name, transfer_ways[at[MATRIX_TRANSFERS]].name,
        ls_optimizer_at(at[MATRIX_OPTIMIZER])->name);
}
