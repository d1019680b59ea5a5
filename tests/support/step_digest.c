#include "support/step_digest.h"

#include "cuda/host_kernels.h"
#include "fake_cuda.h"
#include "meshes.h"
#include "run/run.h"
#include "support/worlds.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

typedef struct shared_run {
    const image_set *set;
    digest_watching watching;
    uint64_t *digest; /* by rank, in memory that processes share */
} shared_run;

enum { MOST_RANKS = 64 };

static uint64_t mix(uint64_t hash, const void *data, size_t bytes) {
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) hash = (hash ^ p[i]) * 0x100000001b3u;
    return hash;
}

/* Random parameters. */
static ls_status set_parameters(ls_executor *ex, const ls_binding *binding) {
    const int64_t n = ls_shape_elements(&binding->shape);
    float *data = malloc(sizeof *data * (size_t)n);
    for (int64_t k = 0; k < n; k++) data[k] = 0.3f * (float)ls_rng_normal(1, 1, (uint64_t)k);
    const ls_status status = ls_executor_write(ex, &binding->operand, data);
    free(data);
    return status;
}

/* Tokens, labels and positions by global index. */
static ls_status set_ids(ls_executor *ex, const ls_binding *binding) {
    const int64_t n = ls_shape_elements(&binding->shape);
    int32_t *global = malloc(sizeof *global * (size_t)n);
    const bool positions = strcmp(binding->name, "positions") == 0;
    for (int64_t k = 0; k < n; k++)
        global[k] = (int32_t)(positions ? k % ls_executor_image(ex)->layout.S : (k * 5 + 3) % 32);
    const ls_status status = ls_executor_scatter(ex, binding, global);
    free(global);
    return status;
}

/* Ids and parameters; everything else as the trainer sets it. */
static ls_status set_inputs(ls_executor *ex) {
    const ls_image *image = ls_executor_image(ex);
    for (int i = 0; i < image->n_bindings; i++) {
        const ls_binding *binding = &image->bindings[i];
        if (strcmp(binding->name, LS_BIND_GROUPS) == 0) continue; /* which settings hold where: a constant table */
        const float one = 1.0f;
        const double hyper[LS_HYPERS] = {0.01, 1, 1, 0.9, 0.95};
        if (binding->operand.view.dtype == LS_I32)
            LS_TRY(set_ids(ex, binding));
        else if (strcmp(binding->name, LS_BIND_PARAMETERS) == 0)
            LS_TRY(set_parameters(ex, binding));
        else if (strcmp(binding->name, LS_BIND_GRADIENTS) == 0 || strcmp(binding->name, LS_BIND_SHARD) == 0)
            LS_TRY(ls_executor_clear(ex, &binding->operand));
        else if (strcmp(binding->name, LS_BIND_SCALE) == 0)
            LS_TRY(ls_executor_write(ex, &binding->operand, &one));
        else if (strcmp(binding->name, LS_BIND_HYPER) == 0)
            LS_TRY(ls_executor_write(ex, &binding->operand, hyper));
    }
    return ls_ok();
}

static ls_status hash_bindings(const ls_executor *ex, uint64_t *hash) {
    const ls_image *image = ls_executor_image(ex);
    *hash = 0xcbf29ce484222325u;
    for (int i = 0; i < image->n_bindings; i++) {
        const ls_view *v = &image->bindings[i].operand.view;
        const size_t bytes = (size_t)ls_view_elements(v) * ls_dtype_bytes(v->dtype);
        void *copy = malloc(bytes + 1);
        const ls_status status = ls_executor_read(ex, &image->bindings[i].operand, copy);
        if (status.code == LS_OK) *hash = mix(*hash, copy, bytes);
        free(copy);
        LS_TRY(status);
    }
    return ls_ok();
}

/* Runs a program of the walk. */
static ls_status run_watched(ls_executor *ex, digest_watching watching, int program, int turn) {
    ls_result_place bad;
    if (watching != DIGEST_INSPECTED || turn % 2 == 0) return ls_executor_run(ex, program);
    LS_TRY(ls_executor_run_checked(ex, program, &bad));
    return bad.instr < 0 ? ls_ok() : ls_error(LS_INVALID, "instruction %d has a result that is no number", bad.instr);
}

/* Each instruction of each run has one span. */
static ls_status check_spans(const ls_executor *ex, const int *walk, int n) {
    size_t expected = 0, found = 0;
    for (int i = 0; i < n; i++) expected += (size_t)ls_executor_image(ex)->programs[walk[i]].n_instrs;
    for (size_t i = 0; i < ls_executor_spans(ex); i++) {
        const ls_span_time *span = ls_executor_span(ex, i);
        if (span->instr >= 0 && span->begin > 0 && span->begin <= span->end) found++;
    }
    return found == expected ? ls_ok() : ls_error(LS_INVALID, "%zu spans; expected %zu", found, expected);
}

static ls_status walk_programs(const image_set *set, digest_watching watching, ls_executor *ex) {
    ls_arena *arena = ls_arena_create();
    int *walk;
    ls_status status = ls_ok();
    const int n = ls_phase_walk(set->image[0], arena, &walk);
    if (watching == DIGEST_TRACED) status = ls_executor_record(ex, 100000);
    for (int i = 0; i < n && status.code == LS_OK; i++) status = run_watched(ex, watching, walk[i], i);
    if (watching == DIGEST_TRACED && status.code == LS_OK) status = check_spans(ex, walk, n);
    ls_arena_destroy(arena);
    return status;
}

static ls_status run_walk(const shared_run *run, ls_comm *comm, ls_executor *ex, uint64_t *digest) {
    LS_TRY(set_inputs(ex));
    LS_TRY(ls_comm_barrier(comm));
    LS_TRY(walk_programs(run->set, run->watching, ex));
    double result[LS_TOTALS];
    LS_TRY(ls_executor_read(ex, &ls_image_find(ls_executor_image(ex), LS_BIND_RESULT)->operand, result));
    if (!(result[LS_TOTAL_LOSS] > 0 && isfinite(result[LS_TOTAL_LOSS])))
        return ls_error(LS_INVALID, "the loss is %g; expected a number", result[LS_TOTAL_LOSS]);
    return hash_bindings(ex, digest);
}

static ls_status rank_main(ls_comm *comm, void *context) {
    shared_run *run = context;
    const int rank = ls_comm_rank(comm);
    ls_executor *ex;
    LS_TRY(ls_executor_create(run->set->image[rank], comm, &ex));
    const ls_status status = run_walk(run, comm, ex, &run->digest[rank]);
    ls_executor_destroy(ex);
    return status;
}

static ls_status digest_of(const image_set *set, const char *transport, bool as_threads, digest_watching watching,
                           uint64_t *digest) {
    const size_t bytes = MOST_RANKS * sizeof(uint64_t);
    ls_world *world;
    LS_TRY(world_of_images(set->image, set->ranks, transport, 30, &world));
    shared_run run = {.set = set, .watching = watching};
    run.digest = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    LS_ASSERT(run.digest != MAP_FAILED);
    const ls_status status = ls_launch(world, set->ranks, as_threads, rank_main, &run);
    ls_world_destroy(world);
    if (status.code == LS_OK) *digest = mix(0, run.digest, bytes);
    (void)munmap(run.digest, bytes);
    return status;
}

ls_status step_digest(const image_set *set, const char *transport, uint64_t *digest) {
    return digest_of(set, transport, true, DIGEST_PLAIN, digest);
}

ls_status step_digest_watched(const image_set *set, const char *transport, digest_watching watching, uint64_t *digest) {
    return digest_of(set, transport, true, watching, digest);
}

ls_status step_digest_of_processes(const image_set *set, uint64_t *digest) {
    return digest_of(set, NULL, false, DIGEST_PLAIN, digest);
}

/* --- settings that change nothing --------------------------------------------------------------------------------- */

typedef struct digest_case {
    int dp, outer, ring, ulysses;
    const char *strategy;
    ls_layout_kind layout;
    bool accumulates;
    images_reads reads;
} digest_case;

static const digest_case cases[] = {{1, 1, 2, 1, "ring", LS_LAYOUT_ZIGZAG, true, READS_ALL},
                                    {1, 1, 3, 1, "ring", LS_LAYOUT_STRIPED, false, READS_ALL},
                                    {1, 1, 1, 3, "ulysses", LS_LAYOUT_ZIGZAG, false, READS_ALL},
                                    {1, 1, 2, 2, "usp", LS_LAYOUT_CONTIGUOUS, true, READS_ALL},
                                    {2, 1, 2, 1, "ring", LS_LAYOUT_ZIGZAG, false, READS_ALL},
                                    {1, 1, 4, 1, "ring", LS_LAYOUT_CONTIGUOUS, true, READS_ALL},
                                    {2, 1, 1, 1, "local", LS_LAYOUT_ZIGZAG, false, READS_ALL},
                                    {1, 1, 1, 1, "local", LS_LAYOUT_ZIGZAG, true, READS_ALL},
                                    {1, 1, 4, 1, "tokenring", LS_LAYOUT_CONTIGUOUS, true, READS_ALL},
                                    {1, 1, 3, 1, "decode", LS_LAYOUT_ZIGZAG, false, READS_ALL},
                                    {1, 1, 3, 1, "gather", LS_LAYOUT_STRIPED, true, READS_ALL},
                                    {1, 1, 3, 1, "burst", LS_LAYOUT_ZIGZAG, true, READS_ALL},
                                    {1, 1, 3, 1, "rsa", LS_LAYOUT_ZIGZAG, false, READS_ALL},
                                    {1, 2, 2, 1, "double-ring", LS_LAYOUT_ZIGZAG, true, READS_ALL},
                                    {1, 2, 2, 2, "double-ring", LS_LAYOUT_STRIPED, false, READS_ALL},
                                    {1, 1, 2, 2, "usp", LS_LAYOUT_ZIGZAG, false, READS_BLOCK},
                                    {1, 1, 3, 2, "gather", LS_LAYOUT_ZIGZAG, true, READS_ALL}};

static image_set images_of_case(const digest_case *c, images_reads reads) {
    return images_of_kind(mesh_of_outer(c->dp, c->outer, c->ring, c->ulysses), c->strategy, c->layout, 26, 1,
                          c->accumulates, reads);
}

/* Compares the bits of a set on some pretended hosts with `plain`; also where chaos lies before the transports. */
static void compare_on_hosts(const image_set *set, const digest_case *c, int hosts, uint64_t plain) {
    static const char *const transports[] = {NULL, "chaos:1", "chaos:2"};
    char setting[16];
    snprintf(setting, sizeof setting, "%d", hosts);
    setenv(LS_HOSTS_VARIABLE, setting, 1);
    for (size_t t = 0; t < LS_COUNT(transports); t++) {
        uint64_t digest = 0;
        const ls_status status = step_digest(set, transports[t], &digest);
        if (status.code != LS_OK || digest != plain)
            fail_msg("%s %dx%dx%d on %d hosts, transports %s: %s", c->strategy, c->dp, c->ring, c->ulysses, hosts,
                     transports[t] != NULL ? transports[t] : "all",
                     status.code != LS_OK ? status.text : "other bits than on one host");
    }
    unsetenv(LS_HOSTS_VARIABLE);
}

void hosts_change_nothing(void) {
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        const digest_case *c = &cases[i];
        uint64_t plain;
        image_set set = images_of_case(c, READS_NOTHING);
        const ls_status status = step_digest(&set, NULL, &plain);
        if (status.code != LS_OK) fail_msg("%s: %s", c->strategy, status.text);
        if (set.ranks > 1) compare_on_hosts(&set, c, 2, plain);
        if (set.ranks > 2) compare_on_hosts(&set, c, set.ranks, plain);
        free_images(&set);
        if (c->ulysses < 2 || c->ring < 2 || c->outer > 1) continue;
        set = images_of_case(c, READS_BLOCK); /* each block is on a host of its own, within which ranks read in place */
        compare_on_hosts(&set, c, c->ring, plain);
        free_images(&set);
    }
}

/* Of each case first the programs that put, then those that read in place. */
enum { PROGRAMS = 2 * (int)LS_COUNT(cases) };

static image_set images_of_program(int i) {
    const digest_case *c = &cases[i / 2];
    return images_of_case(c, i % 2 == 1 ? c->reads : READS_NOTHING);
}

/* The digest over a transport and on a device must be that of the plain ones. NULL: the plain one. */
static void check_same(const image_set *set, int i, uint64_t plain, const char *transport, const char *device,
                       digest_watching watching) {
    const digest_case *c = &cases[i / 2];
    uint64_t digest;
    if (device != NULL) setenv("LONGSPAN_DEVICE", device, 1);
    const ls_status status = step_digest_watched(set, transport, watching, &digest);
    if (device != NULL) unsetenv("LONGSPAN_DEVICE");
    const char *how = i % 2 == 0 ? "" : " in place";
    if (status.code != LS_OK)
        fail_msg("%s %dx%dx%d%s, %s: %s", c->strategy, c->dp, c->ring, c->ulysses, how,
                 device != NULL ? device : transport, status.text);
    if (digest != plain)
        fail_msg("%s %dx%dx%d%s: other bits under %s", c->strategy, c->dp, c->ring, c->ulysses, how,
                 device != NULL ? device : transport);
}

/* The digest of a case; one that reads in place has the bits of the one that puts, which is the case before it. */
static uint64_t plain_digest(const image_set *set, int i, uint64_t put) {
    const digest_case *c = &cases[i / 2];
    uint64_t plain;
    const ls_status status = step_digest(set, NULL, &plain);
    if (status.code != LS_OK) fail_msg("%s: %s", c->strategy, status.text);
    if (i % 2 == 1 && plain != put)
        fail_msg("%s %dx%dx%d: other bits when read in place", c->strategy, c->dp, c->ring, c->ulysses);
    return plain;
}

void chaos_changes_nothing(int first_seed, int seeds) {
    int same = 0;
    uint64_t plain = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        image_set set = images_of_program(i);
        plain = plain_digest(&set, i, plain);
        for (int seed = first_seed + i; seed < first_seed + seeds; seed += PROGRAMS, same++) {
            char name[32];
            snprintf(name, sizeof name, "chaos:%d", seed);
            check_same(&set, i, plain, name, NULL, DIGEST_PLAIN);
        }
        free_images(&set);
    }
    print_message("%d of %d chaos seeds: the same bits as without\n", same, seeds);
    assert_int_equal(same, seeds);
}

void delayed_changes_nothing(int first_seed, int seeds, bool chaos) {
    int same = 0;
    uint64_t plain = 0;
    for (int i = 0; i < PROGRAMS; i++) {
        image_set set = images_of_program(i);
        plain = plain_digest(&set, i, plain);
        /* Messages do not read in place. */
        static const char *const kinds[] = {"", ":awaited", ":messages", ":recorded"};
        const int n = i % 2 == 0 ? LS_COUNT(kinds) : 2;
        for (int s = 0; s < n * seeds; s++, same++) {
            char device[64], transport[32];
            snprintf(device, sizeof device, "delayed:%d%s", first_seed + s / n, kinds[s % n]);
            snprintf(transport, sizeof transport, "chaos:%d", first_seed + s + i);
            check_same(&set, i, plain, chaos ? transport : NULL, device, DIGEST_PLAIN);
        }
        free_images(&set);
    }
    print_message("%d runs on delayed devices: the same bits as on cpu\n", same);
}

void put_kernels_on_streams(const image_set *set) {
    for (int r = 0; r < set->ranks; r++)
        for (int p = 0; p < set->image[r]->n_programs; p++)
            for (int i = 0; i < set->image[r]->programs[p].n_instrs; i++) {
                ls_instr *instr = &set->image[r]->programs[p].instrs[i];
                if (instr->kind == LS_INSTR_KERNEL) instr->kernel = kernel_on_stream(instr->kernel);
            }
}

void cuda_changes_nothing(int first_seed, int seeds) {
    static const struct {
        const char *device;
        digest_watching watching;
    } kinds[] = {
        {"cuda", DIGEST_PLAIN}, {"cuda", DIGEST_INSPECTED}, {"cuda:launched", DIGEST_PLAIN}, {"cuda", DIGEST_TRACED}};
    int same = 0;
    for (int i = 0; i < PROGRAMS; i += 2) {
        image_set set = images_of_program(i);
        const uint64_t plain = plain_digest(&set, i, 0);
        put_kernels_on_streams(&set);
        for (int s = 0; s < seeds; s++, same++) {
            const size_t k = (size_t)(s + i / 2) % LS_COUNT(kinds);
            char settings[32];
            snprintf(settings, sizeof settings, "devices=3,seed=%d", first_seed + s);
            use_fake_cuda(settings);
            check_same(&set, i, plain, NULL, kinds[k].device, kinds[k].watching);
        }
        free_images(&set);
    }
    assert_int_equal(fake_cuda_left(), 0);
    print_message("%d runs on cuda: the same bits as on cpu\n", same);
}

void routes_change_nothing(const char *device, int seed) {
    int same = 0;
    setenv("LONGSPAN_DEVICE", "cpu", 1);
    for (int i = 0; i < PROGRAMS; i += 2) {
        char settings[64];
        uint64_t digest = 0;
        image_set set = images_of_program(i);
        const uint64_t plain = plain_digest(&set, i, 0);
        put_kernels_on_streams(&set);
        snprintf(settings, sizeof settings, "devices=8,seed=%d", seed + i);
        use_fake_cuda(settings);
        snprintf(settings, sizeof settings, "seed=%d", seed + i);
        use_fake_routes(settings, settings);
        setenv("LONGSPAN_DEVICE", device, 1);
        const ls_status status = step_digest_of_processes(&set, &digest);
        setenv("LONGSPAN_DEVICE", "cpu", 1);
        const digest_case *c = &cases[i / 2];
        if (status.code != LS_OK || digest != plain)
            fail_msg("%s %dx%dx%d, %s: %s", c->strategy, c->dp, c->ring, c->ulysses, device,
                     status.code != LS_OK ? status.text : "other bits than on cpu");
        free_images(&set);
        same++;
    }
    unsetenv("LONGSPAN_DEVICE");
    print_message("%d programs on %s: the same bits as on cpu\n", same, device);
}
