#include "matrix.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../../examples/graphs/graphs.h"
#include "meshes.h"
#include "network.h"

enum { V = 17 /* of all examples; their S is 23, which no number of ranks divides */ };

static const network networks[] = {
    {"gpt2", gpt2_loss, V, NULL},     {"llama2", llama2_loss, V, NULL}, {"llama3", llama_loss, V, NULL},
    {"qwen2", qwen2_loss, V, NULL},   {"qwen3", qwen3_loss, V, NULL},   {"mistral", mistral_loss, V, NULL},
    {"gemma2", gemma2_loss, V, NULL}, {"gptoss", gptoss_loss, V, NULL}, {"encoder", encoder_loss, V, NULL},
    {"mixer", mixer_loss, V, NULL},
};
#define MIXER (networks + LS_COUNT(networks) - 1) /* looks along the sequence: not striped */

static const struct {
    int dp, ring, ulysses;
    const char *strategy;
} meshes[] = {
    {1, 1, 1, "local"},     {2, 1, 1, "local"},                                               /* 1 and 2 */
    {1, 2, 1, "ring"},      {1, 1, 2, "ulysses"},   {1, 2, 1, "usp"},       {1, 1, 2, "usp"}, /* 2 */
    {1, 3, 1, "ring"},      {1, 1, 3, "ulysses"},   {1, 3, 1, "usp"},       {1, 1, 3, "usp"}, /* 3 */
    {1, 4, 1, "ring"},      {1, 1, 4, "ulysses"},   {1, 2, 2, "usp"},                         /* 4 */
    {2, 2, 1, "ring"},      {2, 1, 2, "ulysses"},   {2, 2, 1, "usp"},       {2, 1, 2, "usp"}, /* 4 */
    {1, 8, 1, "ring"},      {1, 1, 8, "ulysses"},   {1, 4, 2, "usp"},       {1, 2, 4, "usp"}, /* 8 */
    {2, 4, 1, "ring"},      {2, 1, 4, "ulysses"},   {2, 2, 2, "usp"},                         /* 8 */
    {1, 3, 1, "tokenring"}, {1, 2, 2, "tokenring"}, {2, 4, 1, "tokenring"},                   /* 3, 4, 8 */
    {1, 2, 1, "decode"},    {1, 2, 2, "decode"},                                              /* 2, 4 */
};

static const ls_layout_kind layouts[] = {LS_LAYOUT_CONTIGUOUS, LS_LAYOUT_ZIGZAG, LS_LAYOUT_STRIPED};

enum { ALL = 1 << 20 };

/* Savings of memory: recompute and tiles. */
static const struct {
    const char *name;
    ls_saving saving;
} savings[] = {
    {"nothing", {0}},
    {"some results", {.drop = 9}},
    {"all results", {.drop = ALL}},
    {"logits in tiles", {.tile = LS_TILE_LOSS, .tile_rows = 3}},
    {"all results and tiles", {.drop = ALL, .tile = LS_TILE_ALL, .tile_rows = 4}},
};

static const struct {
    ls_dtype dtype;
    double times_one_rank, floor;
} limits[] = {{LS_F64, 0, 1e-12}, {LS_F32, 2, 4e-6}, {LS_BF16, 2, 0x1p-9}};

static ls_target target_of(const matrix_place *p) {
    return (ls_target){.mesh = mesh_of(meshes[p->mesh].dp, meshes[p->mesh].ring, meshes[p->mesh].ulysses),
                       .strategy = meshes[p->mesh].strategy,
                       .layout = layouts[p->layout],
                       .threads = 1,
                       .saving = savings[p->saving].saving};
}

static void say_place(const matrix_place *p, char *out, size_t room) {
    snprintf(out, room, "%s, %s of dp %d ring %d ulysses %d, %s, saved: %s", networks[p->network].name,
             meshes[p->mesh].strategy, meshes[p->mesh].dp, meshes[p->mesh].ring, meshes[p->mesh].ulysses,
             ls_layout_name(layouts[p->layout]), savings[p->saving].name);
}

static void must(const matrix_place *p, ls_status status) {
    char place[160];
    say_place(p, place, sizeof place);
    if (status.code != LS_OK) fail_msg("%s: %s", place, status.text);
}

/* The next wanted place of this network; the first one after {n, 0, 0, -1}. */
static bool next(matrix_place *p, matrix_choice choice) {
    const int n_savings = (int)LS_COUNT(savings), n_layouts = (int)LS_COUNT(layouts);
    for (;;) {
        if (++p->saving == n_savings) {
            p->saving = 0;
            p->layout++;
        }
        if (p->layout == n_layouts) {
            p->layout = 0;
            p->mesh++;
        }
        if (p->mesh == (int)LS_COUNT(meshes)) return false;
        const bool striped = layouts[p->layout] == LS_LAYOUT_STRIPED;
        if (striped && &networks[p->network] == MIXER && meshes[p->mesh].ring * meshes[p->mesh].ulysses > 1) continue;
        if (choice(p)) return true;
    }
}

/* Reference results of one rank, and the errors over the places so far. */
typedef struct comparison {
    network_result exact;
    double *one; /* [1 + n_flats]: network_own_errors; f64: zeros */
    double floor, times, worst, worst_one, place_share;
    const char *name; /* of what is worst */
    double *squares;  /* [1 + n_flats], of the errors of the loss and of each gradient's kind */
} comparison;

static const char *name_of(const comparison *c, int i) { return i < 0 ? "loss" : c->exact.image->flats[i].name; }

/*
 * Where large terms nearly cancel, the rounding error of a gradient at one place is random, on one rank too. So roots
 * of mean squares are compared: here over all gradients of a place, in compare_all over all places and layers. A single
 * gradient at a place may be off by twice as much.
 */
static void compare(comparison *c, const matrix_place *p, const network_result *many) {
    const int n = c->exact.image->n_flats;
    double squares = 0, squares_of_one = 0;
    char place[160];
    say_place(p, place, sizeof place);
    for (int i = -1; i < n; i++) {
        const double error = network_error(many, &c->exact, i), one = c->one[1 + i];
        if (!(error <= 2 * c->times * one + c->floor))
            fail_msg("%s: %s is off by %g, one rank by %g", place, name_of(c, i), error, one);
        if (error > c->worst) c->name = name_of(c, i);
        c->worst = fmax(c->worst, error);
        c->worst_one = fmax(c->worst_one, one);
        const double of_kind = network_error_of_kind(many, &c->exact, i);
        c->squares[1 + i] += of_kind * of_kind;
        squares += error * error;
        squares_of_one += one * one;
    }
    const double error = sqrt(squares / (n + 1)), one = sqrt(squares_of_one / (n + 1));
    if (!(error <= c->times * one + c->floor))
        fail_msg("%s: loss and gradients together are off by %g, one rank by %g", place, error, one);
    c->place_share = fmax(c->place_share, error / (c->times * one + c->floor));
}

/* Returns the largest error as a share of its bound. */
static double compare_all(const comparison *c, const network *net, int places) {
    double share = 0;
    for (int i = -1; i < c->exact.image->n_flats; i++) {
        const double error = sqrt(c->squares[1 + i] / places), one = c->one[1 + i];
        const double allowed = c->times * one + c->floor;
        if (!(error <= allowed))
            fail_msg("%s: %s is off by %g over %d places (root of mean square), one rank by %g", net->name,
                     name_of(c, i), error, places, one);
        share = fmax(share, error / allowed);
    }
    return share;
}

static int compare_network(int n, size_t limit, ls_isa isa, matrix_choice choice) {
    const ls_dtype dtype = limits[limit].dtype;
    const network *net = &networks[n];
    comparison c = {.floor = limits[limit].floor, .times = limits[limit].times_one_rank, .name = ""};
    matrix_place p = {n, 0, 0, -1};
    int places = 0;
    const ls_target alone = {.mesh = mesh_of(1, 1, 1), .strategy = "local", .threads = 1};
    must(&(matrix_place){n, 0, 0, 0}, network_solve(net, &alone, LS_F64, dtype, &c.exact));
    c.squares = calloc((size_t)c.exact.image->n_flats + 1, sizeof *c.squares);
    c.one = calloc((size_t)c.exact.image->n_flats + 1, sizeof *c.one);
    if (dtype != LS_F64) must(&(matrix_place){n, 0, 0, 0}, network_own_errors(net, dtype, &c.exact, c.one));
    for (; next(&p, choice); places++) {
        ls_target target = target_of(&p);
        network_result many;
        target.isa = isa;
        must(&p, network_solve(net, &target, dtype, dtype, &many));
        compare(&c, &p, &many);
        network_free(&many);
    }
    print_message(
        "%-8s %-4s %3d places: off by %.1e at most (%s), one rank by %.1e; of what is allowed a place %.0f %%, a kind %.0f %%\n",
        net->name, ls_dtype_name(dtype), places, c.worst, c.name, c.worst_one, 100 * c.place_share,
        100 * compare_all(&c, net, places));
    free(c.squares);
    free(c.one);
    network_free(&c.exact);
    return places;
}

int matrix_compare(ls_dtype dtype, matrix_choice choice) {
    ls_machine machine;
    ls_machine_detect(&machine);
    size_t limit = 0;
    int places = 0;
    while (limits[limit].dtype != dtype) limit++;
    for (size_t n = 0; n < LS_COUNT(networks); n++) places += compare_network((int)n, limit, machine.isa, choice);
    return places;
}

int matrix_verify(matrix_choice choice) {
    int places = 0;
    for (size_t n = 0; n < LS_COUNT(networks); n++) {
        for (matrix_place p = {(int)n, 0, 0, -1}; next(&p, choice); places++) {
            const ls_target target = target_of(&p);
            must(&p, network_verify(&networks[n], &target));
        }
    }
    return places;
}
