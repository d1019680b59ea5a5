/* A discrete simulation of all ranks: in each round the rank with the earliest next event advances by one event. */
#include "simulate/simulate.h"

#include "program/program.h"

#include <math.h>

/*
 * The state of one rank. Where its queues run concurrently each has a clock, else all share the first: that of
 * the thread that executes them in turn.
 */
typedef struct simulated {
    const ls_program *program;
    ls_cursor cursor;
    double *clock;  /* by queue: when the last instruction that it began ends */
    double *end;    /* by instruction that has been begun */
    double *held;   /* by queue: since when the wait at the head blocks it; -1: it does not */
    double *posted; /* [word][generation] of its own words: when it is set; INFINITY: not yet known */
    size_t *first;  /* [word]: index of its first entry in `posted` */
    double *far;    /* [instruction]: bytes that come from memory, not from a cache */
    double now;     /* the latest of the clocks */
    double wake;    /* time of its next event; INFINITY: unknown until another rank posts */
    int place;      /* in the agenda; -1: it is not there */
    ls_simulated_rank *times;
} simulated;

typedef struct simulation {
    ls_arena *arena;
    const ls_image *const *images;
    const ls_rates *rates;
    const ls_simulation_watch *watch;
    int ranks, program;
    simulated *rank;
    /*
     * The ranks that have not ended, as a binary heap by their next events: entry i comes before entries 2i + 1 and 2i
     * + 2.
     */
    simulated **agenda;
    int n_agenda;
} simulation;

/* --- the agenda --------------------------------------------------------------------------------------------------- */

/* Of two with the same time, the lower rank's event comes first. */
static bool comes_before(const simulated *a, const simulated *b) {
    return a->wake != b->wake ? a->wake < b->wake : a < b;
}

static void put_at(simulation *p, int place, simulated *w) {
    p->agenda[place] = w;
    w->place = place;
}

/* Moves a rank of the agenda to its place after its next event has changed. */
static void settle(simulation *p, simulated *w) {
    int at = w->place;
    for (; at > 0 && comes_before(w, p->agenda[(at - 1) / 2]); at = (at - 1) / 2)
        put_at(p, at, p->agenda[(at - 1) / 2]);
    for (;;) {
        int next = 2 * at + 1;
        if (next + 1 < p->n_agenda && comes_before(p->agenda[next + 1], p->agenda[next])) next++;
        if (next >= p->n_agenda || !comes_before(p->agenda[next], w)) break;
        put_at(p, at, p->agenda[next]);
        at = next;
    }
    put_at(p, at, w);
}

static void add_to_agenda(simulation *p, simulated *w) {
    put_at(p, p->n_agenda++, w);
    settle(p, w);
}

static void remove_first(simulation *p) {
    p->agenda[0]->place = -1;
    simulated *last = p->agenda[--p->n_agenda];
    if (p->n_agenda == 0) return;
    put_at(p, 0, last);
    settle(p, last);
}

/* --- one rank ----------------------------------------------------------------------------------------------------- */

/* The word that a rank awaits at an end of a channel has a generation for each use of that end. */
static void make_words(simulation *p, simulated *w) {
    const int ends = LS_SIDES * w->program->n_channels;
    size_t entries = 0;
    w->first = LS_NEW_ARRAY(p->arena, size_t, ends + 1);
    for (int e = 0; e < ends; e++) {
        w->first[e] = entries;
        entries += w->program->channels[e / LS_SIDES].uses[e % LS_SIDES];
    }
    w->posted = LS_NEW_ARRAY(p->arena, double, entries + 1);
    for (size_t i = 0; i < entries; i++) w->posted[i] = INFINITY;
}

/* The entry of the owner's `posted` for the instruction's word and generation. */
static double *post_time(const simulated *owner, const ls_instr *instr) {
    const ls_channel_side side = ls_traits(instr)->free ? LS_SIDE_SENDS : LS_SIDE_RECEIVES; /* which awaits the word */
    LS_ASSERT(instr->generation >= 1 && instr->generation <= owner->program->channels[instr->channel].uses[side]);
    return &owner->posted[owner->first[LS_SIDES * instr->channel + (int)side] + instr->generation - 1];
}

static double *clock_of(const simulation *p, const simulated *w, int q) {
    return &w->clock[p->rates->overlap ? q : LS_COMPUTE];
}

/* Executes instruction i of a queue from `begin` on. */
static void execute(simulation *p, simulated *w, int q, int i, double begin) {
    const ls_instr *instr = &w->program->instrs[i];
    const double seconds = ls_instr_seconds(instr, w->far[i], p->rates);
    LS_ASSERT(seconds >= 0); /* false for NaN */
    const double end = w->end[i] = *clock_of(p, w, q) = begin + seconds;
    w->now = fmax(w->now, end);
    *(instr->kind == LS_INSTR_KERNEL ? &w->times->computing : &w->times->sending) += seconds;
    if (!ls_traits(instr)->sets) return;
    simulated *peer = &p->rank[ls_peer_rank(p->images[w - p->rank], instr->peer, (int)(w - p->rank))];
    double *time = post_time(peer, instr);
    *time = end + p->rates->latency;
    if (*time >= peer->wake) return;
    peer->wake = p->rates->overlap ? *time : fmax(*time, peer->now);
    if (peer->place >= 0) settle(p, peer);
}

/* When the head of a queue may begin; INFINITY if that is not known yet. */
static double earliest_begin(const simulation *p, simulated *w, int q) {
    const int head = ls_cursor_head(&w->cursor, q);
    if (head < 0 || !ls_cursor_may_start(&w->cursor, q)) return INFINITY;
    const ls_instr *instr = &w->program->instrs[head];
    double ready = *clock_of(p, w, q);
    for (int k = 0; k < instr->n_after; k++) ready = fmax(ready, w->end[instr->after[k].instr]);
    if (!ls_traits(instr)->awaits) return ready;
    const double begin = fmax(ready, *post_time(w, instr));
    if (begin > ready && w->held[q] < 0) w->held[q] = ready;
    return begin;
}

static void report_span(const simulation *p, const simulated *w, int instr, double begin, double end) {
    if (p->watch != NULL) p->watch->on_span(p->watch->context, (int)(w - p->rank), instr, begin, end);
}

/* Whether and when the rank's next event is; of several at one time that of compute goes last, as in the executor. */
static double find_next(const simulation *p, simulated *w, int *queue) {
    double soonest = INFINITY;
    *queue = -1;
    for (int q = w->program->queues - 1; q >= 0; q--) {
        const double begin = earliest_begin(p, w, q);
        if (begin >= soonest) continue;
        soonest = begin;
        *queue = q;
    }
    return soonest;
}

/* Advances the rank by its next instruction, unless that turns out to begin later: what came was for another one. */
static void step(simulation *p, simulated *w) {
    int q, unused;
    const double begin = find_next(p, w, &q);
    if (begin > w->wake) {
        w->wake = begin;
        return;
    }
    const double *clock = clock_of(p, w, q);
    const int i = ls_cursor_head(&w->cursor, q);
    if (clock == &w->clock[LS_COMPUTE] && begin > *clock) {
        w->times->waiting += begin - *clock;
        report_span(p, w, -1, *clock, begin);
    }
    const double from = w->held[q] >= 0 ? w->held[q] : begin;
    execute(p, w, q, i, begin);
    report_span(p, w, i, from, w->end[i]);
    w->held[q] = -1;
    ls_cursor_advance(&w->cursor, q);
    ls_cursor_complete(&w->cursor, q, i); /* what was put has been copied */
    w->times->end = w->now;
    w->wake = find_next(p, w, &unused);
    if (ls_cursor_has_ended(&w->cursor)) w->times->waiting += w->now - w->clock[LS_COMPUTE];
}

/* Steps the first rank of the agenda until all have ended. */
static ls_status run(simulation *p) {
    for (int r = 0; r < p->ranks; r++) {
        if (!ls_cursor_has_ended(&p->rank[r].cursor)) add_to_agenda(p, &p->rank[r]);
    }
    while (p->n_agenda > 0) {
        simulated *w = p->agenda[0];
        if (isinf(w->wake))
            return ls_error(LS_INVALID, "program %s: rank %d waits for ever (and maybe others)", w->program->name,
                            (int)(w - p->rank));
        step(p, w);
        if (ls_cursor_has_ended(&w->cursor))
            remove_first(p);
        else
            settle(p, w);
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
    p.agenda = LS_NEW_ARRAY(p.arena, simulated *, ranks);
    for (int r = 0; r < ranks; r++) {
        simulated *w = &p.rank[r];
        out[r] = (ls_simulated_rank){0};
        w->program = &images[r]->programs[program];
        w->times = &out[r];
        w->place = -1;
        w->cursor = ls_cursor_make(w->program, p.arena);
        w->clock = LS_NEW_ARRAY(p.arena, double, w->program->queues + 1);
        w->end = LS_NEW_ARRAY(p.arena, double, w->program->n_instrs + 1);
        w->held = LS_NEW_ARRAY(p.arena, double, w->program->queues + 1);
        for (int q = 0; q < w->program->queues; q++) w->held[q] = -1;
        make_words(&p, w);
        w->far = ls_program_far(images[r], program, rates->cache, p.arena);
    }
    const ls_status status = run(&p);
    ls_arena_destroy(p.arena);
    return status;
}

double ls_simulate_alone(const ls_image *image, int program, const ls_rates *rates) {
    const ls_program *p = &image->programs[program];
    ls_arena *arena = ls_arena_create();
    const double *far = ls_program_far(image, program, rates->cache, arena);
    double *end = LS_NEW_ARRAY(arena, double, p->n_instrs + 1), *clock = LS_NEW_ARRAY(arena, double, p->queues + 1);
    double last = 0;
    for (int i = 0; i < p->n_instrs; i++) { /* the list's order is one that queues allow */
        const ls_instr *instr = &p->instrs[i];
        double *now = &clock[rates->overlap ? instr->queue : LS_COMPUTE];
        for (int k = 0; k < instr->n_after; k++) *now = fmax(*now, end[instr->after[k].instr]);
        *now += ls_instr_seconds(instr, far[i], rates);
        end[i] = *now;
        last = fmax(last, *now);
    }
    ls_arena_destroy(arena);
    return last;
}

double ls_simulated_seconds(const ls_simulated_rank *ranks, int n) {
    double last = 0;
    for (int r = 0; r < n; r++) last = fmax(last, ranks[r].end);
    return last;
}
