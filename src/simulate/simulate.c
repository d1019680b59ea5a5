/* See clock.h. Events in the order of their time: of all ranks the one whose next event is earliest goes on. */
#include "simulate/simulate.h"

#include "program/program.h"

#include <math.h>

/* One rank's way through its program. */
typedef struct walker {
    const ls_program *program;
    int *instrs[LS_QUEUES]; /* of each queue, in order */
    int n[LS_QUEUES], next[LS_QUEUES];
    int done[LS_QUEUES];    /* last instruction done; -1: none */
    double held[LS_QUEUES]; /* since when the wait at its head holds it up; -1: it does not */
    double *posted;         /* by word of its own and generation: when it is set; INFINITY: not yet */
    size_t *first;          /* by word: its first entry there */
    double *far;            /* by instruction: bytes that come from memory */
    double now;             /* it is through with all it has begun */
    double wake;            /* its next event; INFINITY: when another rank posts */
    ls_simulated_rank *times;
} walker;

typedef struct play {
    ls_arena *arena;
    const ls_image *const *images;
    const ls_rates *rates;
    const ls_simulation_watch *watch;
    int ranks, program;
    walker *rank;
} play;

static void split_queues(play *p, walker *w) {
    for (int q = 0; q < LS_QUEUES; q++) {
        w->instrs[q] = LS_NEW_ARRAY(p->arena, int, w->program->n_instrs + 1);
        w->done[q] = -1;
        w->held[q] = -1;
    }
    for (int i = 0; i < w->program->n_instrs; i++) {
        const ls_queue q = w->program->instrs[i].queue;
        w->instrs[q][w->n[q]++] = i;
    }
}

/* Words of a program: channel c has 2c and 2c + 1 ("free"), each as many generations as it has uses. */
static void make_words(play *p, walker *w) {
    const int channels = w->program->n_channels;
    size_t entries = 0;
    w->first = LS_NEW_ARRAY(p->arena, size_t, 2 * channels + 1);
    for (int word = 0; word < 2 * channels; word++) {
        w->first[word] = entries;
        entries += w->program->channels[word / 2].uses;
    }
    w->posted = LS_NEW_ARRAY(p->arena, double, entries + 1);
    for (size_t i = 0; i < entries; i++) w->posted[i] = INFINITY;
}

/* When that generation of the instruction's word is set, at its owner. */
static double *posted(const walker *owner, const ls_instr *instr) {
    const int word = 2 * instr->channel + (instr->ready ? 1 : 0);
    LS_ASSERT(instr->generation >= 1 && instr->generation <= owner->program->channels[instr->channel].uses);
    return &owner->posted[owner->first[word] + instr->generation - 1];
}

/* Does it, from w->now on. */
static void execute(play *p, walker *w, int i) {
    const ls_instr *instr = &w->program->instrs[i];
    const double seconds = ls_instr_seconds(instr, w->far[i], p->rates);
    LS_ASSERT(seconds >= 0); /* a number */
    w->now += seconds;
    *(instr->kind == LS_INSTR_KERNEL ? &w->times->computing : &w->times->sending) += seconds;
    if (instr->kind != LS_INSTR_PUT_SIGNAL && instr->kind != LS_INSTR_SIGNAL) return;
    walker *peer = &p->rank[instr->peer];
    double *time = posted(peer, instr);
    *time = w->now + p->rates->latency;
    if (*time < peer->wake) peer->wake = fmax(*time, peer->now);
}

/* When the head of a queue may begin: w->now, later, or INFINITY where nobody can say yet. */
static double may_begin(walker *w, ls_queue q) {
    if (w->next[q] == w->n[q]) return INFINITY;
    const ls_instr *instr = &w->program->instrs[w->instrs[q][w->next[q]]];
    if (instr->after > w->done[1 - q]) return INFINITY;
    if (instr->kind != LS_INSTR_WAIT) return w->now;
    const double begin = fmax(w->now, *posted(w, instr));
    if (begin > w->now && w->held[q] < 0) w->held[q] = w->now;
    return begin;
}

static void tell(const play *p, const walker *w, int instr, double begin) {
    if (p->watch != NULL) p->watch->see(p->watch->context, (int)(w - p->rank), instr, begin, w->now);
}

/* The rank's next event: one instruction, or the word that no queue goes on without. */
static void step(play *p, walker *w) {
    static const ls_queue order[LS_QUEUES] = {LS_COPY, LS_COMPUTE};
    if (w->wake > w->now) {
        const double stood = w->now;
        w->times->waiting += w->wake - w->now;
        w->now = w->wake;
        tell(p, w, -1, stood);
    }
    double soonest = INFINITY;
    for (int k = 0; k < LS_QUEUES; k++) {
        const ls_queue q = order[k];
        const double begin = may_begin(w, q);
        soonest = fmin(soonest, begin);
        if (begin > w->now) continue;
        const int i = w->instrs[q][w->next[q]++];
        const double from = w->held[q] >= 0 ? w->held[q] : w->now;
        execute(p, w, i);
        tell(p, w, i, from);
        w->held[q] = -1;
        w->done[q] = i;
        soonest = w->now;
        break;
    }
    w->times->end = w->now;
    w->wake = soonest;
}

static bool is_through(const walker *w) {
    return w->next[LS_COMPUTE] == w->n[LS_COMPUTE] && w->next[LS_COPY] == w->n[LS_COPY];
}

static walker *first_to_go(play *p) {
    walker *first = NULL;
    for (int r = 0; r < p->ranks; r++) {
        walker *w = &p->rank[r];
        if (!is_through(w) && (first == NULL || w->wake < first->wake)) first = w;
    }
    return first;
}

static ls_status run(play *p) {
    for (walker *w = first_to_go(p); w != NULL; w = first_to_go(p)) {
        if (isinf(w->wake))
            return ls_error(LS_INVALID, "program %s: rank %d waits for ever (and maybe others)",
                            w->program->name, (int)(w - p->rank));
        step(p, w);
    }
    return ls_ok();
}

ls_status ls_simulate(const ls_image *const *images, int ranks, int program, const ls_rates *rates,
                      const ls_simulation_watch *watch, ls_simulated_rank *out) {
    play p = {.arena = ls_arena_create(),
              .images = images,
              .rates = rates,
              .watch = watch,
              .ranks = ranks,
              .program = program};
    p.rank = LS_NEW_ARRAY(p.arena, walker, ranks);
    for (int r = 0; r < ranks; r++) {
        walker *w = &p.rank[r];
        out[r] = (ls_simulated_rank){0};
        w->program = &images[r]->programs[program];
        w->times = &out[r];
        split_queues(&p, w);
        make_words(&p, w);
        w->far = ls_program_far(images[r], program, rates->cache, p.arena);
    }
    const ls_status status = run(&p);
    ls_arena_destroy(p.arena);
    return status;
}

double ls_simulated_seconds(const ls_simulated_rank *ranks, int n) {
    double last = 0;
    for (int r = 0; r < n; r++) last = fmax(last, ranks[r].end);
    return last;
}
