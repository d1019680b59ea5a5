/* A discrete simulation of all ranks: in each round the rank with the earliest next event advances by one event. */
#include "simulate/simulate.h"

#include "program/program.h"

#include <math.h>

/* The state of one rank. */
typedef struct simulated {
    const ls_program *program;
    ls_cursor cursor;
    double *held;   /* by queue: since when the wait at the head blocks it; -1: it does not */
    double *posted; /* [word][generation] of its own words: when it is set; INFINITY: not yet known */
    size_t *first;  /* [word]: index of its first entry in `posted` */
    double *far;    /* [instruction]: bytes that come from memory, not from a cache */
    double now;     /* when the last instruction that it began ends */
    double wake;    /* time of its next event; INFINITY: unknown until another rank posts */
    ls_simulated_rank *times;
} simulated;

typedef struct simulation {
    ls_arena *arena;
    const ls_image *const *images;
    const ls_rates *rates;
    const ls_simulation_watch *watch;
    int ranks, program;
    simulated *rank;
} simulation;

/* A word of the program, counted from its first, has a generation for each use of its channel. */
static void make_words(simulation *p, simulated *w) {
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

/* The entry of the owner's `posted` for the instruction's word and generation. */
static double *post_time(const simulated *owner, const ls_instr *instr) {
    const int word = ls_instr_word(owner->program, instr) - owner->program->first_word;
    LS_ASSERT(instr->generation >= 1 && instr->generation <= owner->program->channels[instr->channel].uses);
    return &owner->posted[owner->first[word] + instr->generation - 1];
}

/* Executes instruction i from w->now on. */
static void execute(simulation *p, simulated *w, int i) {
    const ls_instr *instr = &w->program->instrs[i];
    const double seconds = ls_instr_seconds(instr, w->far[i], p->rates);
    LS_ASSERT(seconds >= 0); /* false for NaN */
    w->now += seconds;
    *(instr->kind == LS_INSTR_KERNEL ? &w->times->computing : &w->times->sending) += seconds;
    if (!ls_traits(instr)->sets) return;
    simulated *peer = &p->rank[ls_peer_rank(p->images[w - p->rank], instr->peer, (int)(w - p->rank))];
    double *time = post_time(peer, instr);
    *time = w->now + p->rates->latency;
    if (*time < peer->wake) peer->wake = fmax(*time, peer->now);
}

/* When the head of a queue may begin: w->now, a later time, or INFINITY if that is not known yet. */
static double earliest_begin(simulated *w, int q) {
    const int head = ls_cursor_head(&w->cursor, q);
    if (head < 0 || !ls_cursor_may_start(&w->cursor, q)) return INFINITY;
    const ls_instr *instr = &w->program->instrs[head];
    if (!ls_traits(instr)->awaits) return w->now;
    const double begin = fmax(w->now, *post_time(w, instr));
    if (begin > w->now && w->held[q] < 0) w->held[q] = w->now;
    return begin;
}

static void report_span(const simulation *p, const simulated *w, int instr, double begin) {
    if (p->watch != NULL) p->watch->on_span(p->watch->context, (int)(w - p->rank), instr, begin, w->now);
}

/* Advances the rank by one event: an instruction, or the signal for which all queues wait. Compute goes last, as in the executor. */
static void step(simulation *p, simulated *w) {
    if (w->wake > w->now) {
        const double blocked = w->now;
        w->times->waiting += w->wake - w->now;
        w->now = w->wake;
        report_span(p, w, -1, blocked);
    }
    double soonest = INFINITY;
    for (int q = w->program->queues - 1; q >= 0; q--) {
        const double begin = earliest_begin(w, q);
        soonest = fmin(soonest, begin);
        if (begin > w->now) continue;
        const int i = ls_cursor_head(&w->cursor, q);
        const double from = w->held[q] >= 0 ? w->held[q] : w->now;
        execute(p, w, i);
        report_span(p, w, i, from);
        w->held[q] = -1;
        ls_cursor_advance(&w->cursor, q);
        ls_cursor_complete(&w->cursor, q, i); /* the sender's thread has copied the source of a put */
        soonest = w->now;
        break;
    }
    w->times->end = w->now;
    w->wake = soonest;
}

static simulated *next_rank(simulation *p) {
    simulated *first = NULL;
    for (int r = 0; r < p->ranks; r++) {
        simulated *w = &p->rank[r];
        if (!ls_cursor_has_ended(&w->cursor) && (first == NULL || w->wake < first->wake)) first = w;
    }
    return first;
}

static ls_status run(simulation *p) {
    for (simulated *w = next_rank(p); w != NULL; w = next_rank(p)) {
        if (isinf(w->wake))
            return ls_error(LS_INVALID, "program %s: rank %d waits for ever (and maybe others)",
                            w->program->name, (int)(w - p->rank));
        step(p, w);
    }
    return ls_ok();
}

ls_status ls_simulate(const ls_image *const *images, int ranks, int program, const ls_rates *rates,
                      const ls_simulation_watch *watch, ls_simulated_rank *out) {
    simulation p = {.arena = ls_arena_create(),
                    .images = images,
                    .rates = rates,
                    .watch = watch,
                    .ranks = ranks,
                    .program = program};
    p.rank = LS_NEW_ARRAY(p.arena, simulated, ranks);
    for (int r = 0; r < ranks; r++) {
        simulated *w = &p.rank[r];
        out[r] = (ls_simulated_rank){0};
        w->program = &images[r]->programs[program];
        w->times = &out[r];
        w->cursor = ls_cursor_make(w->program, p.arena);
        w->held = LS_NEW_ARRAY(p.arena, double, w->program->queues + 1);
        for (int q = 0; q < w->program->queues; q++) w->held[q] = -1;
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
