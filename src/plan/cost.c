/*
 * The cost of a candidate, from the programs of a few of its ranks, each by itself, or from those of all ranks,
 * simulated.
 */
#include "plan/plan_impl.h"

#include "program/program.h"
#include "simulate/simulate.h"

#include <math.h>
#include <stdio.h>

static ls_rates rates_here(const ls_image *image, const ls_host *host) {
    ls_machine machine;
    const int ranks = ls_mesh_ranks(&image->mesh);
    if (image->kernels == LS_DEVICE_CUDA) return ls_rates_sharing(host, image->dtype, ranks);
    ls_machine_detect(&machine);
    return ls_rates_beside(host, image->dtype, image->threads, ranks * image->threads, machine.cores);
}

ls_rates ls_plan_rates(const ls_image *image, const ls_host *host) {
    ls_rates rates = rates_here(image, host);
    rates.overlap = image->host_apart; /* there is a device besides the host's processor */
    return rates;
}

/* The ranks whose cost is found. Each stands for its class or for itself. */
typedef struct costed {
    int n;
    int *rank;              /* [n] */
    int *members;           /* [n]: the number of ranks that it stands for */
    const ls_image **image; /* [n] */
    ls_images images;       /* owns the images, one for each class */
    ls_arena *arena;
} costed;

/* Simulates the programs of all ranks. All ranks begin each program at the same time. */
static ls_status simulate_all(const costed *all, const ls_rates *rates, ls_plan_candidate *c) {
    const ls_image *first = all->image[0];
    const int P = ls_mesh_ranks(&first->mesh);
    const ls_image **of_rank = LS_NEW_ARRAY(all->arena, const ls_image *, P);
    double *idle = LS_NEW_ARRAY(all->arena, double, P);
    ls_simulated_rank *times = LS_NEW_ARRAY(all->arena, ls_simulated_rank, P);
    for (int r = 0; r < P; r++) of_rank[r] = ls_images_of(&all->images, r);
    c->simulated = true;
    c->seconds = 0;
    for (int p = 0; p < first->n_programs; p++) {
        const int runs = first->programs[p].runs;
        if (runs == 0) continue;
        LS_TRY(ls_simulate(of_rank, P, p, rates, NULL, times));
        const double makespan = ls_simulated_seconds(times, P);
        for (int r = 0; r < P; r++) idle[r] += runs * (times[r].waiting + (makespan - times[r].end));
        c->seconds += runs * makespan;
    }
    for (int r = 0; r < P; r++) c->waiting = fmax(c->waiting, c->seconds > 0 ? idle[r] / c->seconds : 0);
    return ls_ok();
}

static void add_bytes(const ls_image *image, const ls_plan_request *request, int rank, const ls_program_cost *sum,
                      ls_plan_candidate *c) {
    const int evaluate = ls_program_find(image, LS_PROGRAM_EVALUATE);
    ls_program_cost forward = {0};
    if (evaluate >= 0) forward = ls_program_measure(image, evaluate);
    c->bytes_sent = fmax(c->bytes_sent, sum->bytes_sent);
    c->bytes_forward = fmax(c->bytes_forward, forward.bytes_sent);
    c->bytes_read = fmax(c->bytes_read, sum->bytes_read);
    c->read_forward = fmax(c->read_forward, forward.bytes_read);
    const size_t mapped = ls_image_mapped(image);
    c->least = (size_t)ls_max((int64_t)c->least, (int64_t)ls_plan_least(request, image));
    if (mapped <= c->mapped) return;
    c->mapped = mapped;
    for (int s = 0; s < LS_SPACES; s++) c->bytes[s] = image->bytes[s];
    c->most_rank = rank;
}

/* Sets the figures of the candidate from its images. */
static ls_status fill_in(const costed *all, const ls_plan_request *request, bool together, ls_plan_candidate *c) {
    const ls_rates rates = ls_plan_rates(all->image[0], &request->host);
    double flops_sum = 0, flops_most = 0;
    int members = 0;
    for (int i = 0; i < all->n; i++) {
        ls_program_cost sum = {0};
        double seconds = 0;
        int64_t instrs = 0;
        for (int p = 0; p < all->image[i]->n_programs; p++) {
            const int runs = all->image[i]->programs[p].runs;
            if (runs == 0) continue;
            instrs += all->image[i]->programs[p].n_instrs;
            const ls_program_cost cost = ls_program_measure(all->image[i], p);
            sum.flops += runs * cost.flops;
            sum.bytes_sent += runs * cost.bytes_sent;
            sum.bytes_read += runs * cost.bytes_read;
            seconds += runs * ls_simulate_alone(all->image[i], p, &rates);
        }
        add_bytes(all->image[i], request, all->rank[i], &sum, c);
        members += all->members[i];
        flops_sum += all->members[i] * sum.flops;
        flops_most = fmax(flops_most, sum.flops);
        c->seconds = fmax(c->seconds, seconds);
        c->instrs = ls_max(c->instrs, instrs * all->images.classes.n);
    }
    c->imbalance = flops_sum > 0 ? fmax(0, flops_most * members / flops_sum - 1) : 0; /* below 0 only by rounding */
    return together ? simulate_all(all, &rates, c) : ls_ok();
}

/*
 * Chooses the first rank of each class, which stands for the whole class; or a few ranks, each of which stands for
 * itself.
 */
static void choose_ranks(costed *all, bool every) {
    const ls_classes *classes = &all->images.classes;
    const int P = ls_mesh_ranks(&classes->mesh), sample[] = {0, P / 2, P - 1};
    all->n = every ? classes->n : (int)LS_COUNT(sample);
    all->image = LS_NEW_ARRAY(all->arena, const ls_image *, all->n);
    all->rank = LS_NEW_ARRAY(all->arena, int, all->n);
    all->members = LS_NEW_ARRAY(all->arena, int, all->n);
    for (int i = 0; i < all->n; i++) {
        LS_ASSERT(every || i < (int)LS_COUNT(sample));
        all->rank[i] = every ? ls_class_first(classes, i) : sample[i];
        all->members[i] = every ? 0 : 1;
    }
    for (int r = 0; r < P && every; r++) all->members[ls_class_of(classes, r)]++;
}

/* The classes of the chosen ranks except that of rank 0, which is already compiled. Any thread compiles any of them. */
typedef struct others {
    const ls_job *job;
    const ls_target *target;
    ls_images *images;
    int n, *rank;      /* [n]: one rank of each class */
    ls_status *status; /* [n] */
} others;

/* An ls_pool_task. Each writes only the data of its own class. */
static void compile_one(void *context, int i, int thread) {
    (void)thread;
    const others *all = context;
    all->status[i] = ls_compile_class_of(all->job, all->target, all->rank[i], all->images);
}

/* Compiles the other classes, several at once on a machine with several cores. */
static ls_status compile_others(const ls_job *job, const ls_target *target, costed *all) {
    enum { MOST_AT_ONCE = 8 }; /* each one uses working memory of the compiler */
    others list = {.job = job,
                   .target = target,
                   .images = &all->images,
                   .rank = LS_NEW_ARRAY(all->arena, int, all->n),
                   .status = LS_NEW_ARRAY(all->arena, ls_status, all->n)};
    const ls_classes *classes = &all->images.classes;
    for (int i = 0; i < all->n; i++) {
        bool is_there = ls_class_of(classes, all->rank[i]) == ls_class_of(classes, 0);
        for (int k = 0; k < list.n; k++)
            is_there |= ls_class_of(classes, all->rank[i]) == ls_class_of(classes, list.rank[k]);
        if (!is_there) list.rank[list.n++] = all->rank[i];
    }
    ls_machine machine;
    ls_pool *pool;
    ls_machine_detect(&machine);
    LS_TRY(ls_pool_create((int)ls_max(1, ls_min(machine.cores, ls_min(list.n, MOST_AT_ONCE))), false, &pool));
    ls_pool_run(pool, list.n, compile_one, &list);
    ls_pool_destroy(pool);
    for (int i = 0; i < list.n; i++) LS_TRY(list.status[i]);
    for (int i = 0; i < all->n; i++) all->image[i] = ls_images_of(&all->images, all->rank[i]);
    return ls_ok();
}

static ls_status cost(const ls_job *job, const ls_target *target, const ls_plan_request *request, bool together,
                      ls_plan_candidate *c) {
    enum { FEW = 3 };
    costed all = {.arena = ls_arena_create()};
    ls_target predicted = *target;
    predicted.made_for = LS_FOR_TIME;
    ls_status status = ls_compile_class_of(job, &predicted, 0, &all.images);
    if (status.code == LS_OK) choose_ranks(&all, together || all.images.classes.n <= FEW);
    if (status.code == LS_OK) status = compile_others(job, &predicted, &all);
    if (status.code == LS_OK) status = fill_in(&all, request, together, c);
    if (status.code != LS_OK) snprintf(c->refused, sizeof c->refused, "%s", status.text);
    ls_images_destroy(&all.images);
    ls_arena_destroy(all.arena);
    return status;
}

/* The number of sequences of a micro-batch. */
static int64_t batch_of(const ls_graph *g) {
    int64_t B = 1;
    for (int t = 1; t < g->n_tensors; t++) {
        const ls_tensor_info *info = &g->tensors[t];
        for (int i = 0; info->role == LS_ROLE_INPUT && i < info->shape.ndim; i++)
            if (info->shape.dim[i].factor == LS_FACTOR_BATCH) B = info->shape.dim[i].size;
    }
    return B;
}

/*
 * Packed documents differ from batch to batch, and so does the rank with most work. Therefore the seconds are the mean
 * over several batches, which is more than the seconds of a mean batch. A batch has as many typical sequences as a rank
 * has of a micro-batch.
 */
ls_status ls_plan_cost(const ls_job *job, const ls_target *target, const ls_plan_request *request, bool together,
                       ls_plan_candidate *c) {
    enum { MOST_BATCHES = 4 }; /* each of them is compiled for all ranks */
    const int n = job->n_documents;
    const int64_t B = ls_max(1, batch_of(job->graph) / ls_mesh_replicas(&target->mesh));
    const int each = (int)ls_min(B, n), batches = n > 0 && together ? (int)ls_min(n / each, MOST_BATCHES) : 1;
    ls_plan_candidate sum = *c;
    ls_status status = ls_ok();
    for (int i = 0; i < batches && status.code == LS_OK; i++) {
        ls_job batch = *job;
        ls_plan_candidate one = *c;
        if (batches > 1) batch.documents += (ptrdiff_t)i * each;
        if (batches > 1) batch.n_documents = each;
        status = cost(&batch, target, request, together, &one);
        const ls_plan_candidate so_far = sum;
        sum = one;
        sum.seconds = so_far.seconds + one.seconds / batches;
        sum.waiting = so_far.waiting + one.waiting / batches;
        sum.imbalance = so_far.imbalance + one.imbalance / batches;
    }
    *c = sum;
    return status;
}
