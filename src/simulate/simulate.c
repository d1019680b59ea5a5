/*
 * A discrete-event simulation of all ranks: in each round, the class of ranks with the earliest next event advances by
 * one event. Only the first rank of each class is simulated. When this rank awaits a signal of a peer, it awaits the
 * signal of the class to which the peer belongs.
 */
#include "simulate/simulate.h"

#include "program/program.h"

#include <math.h>

typedef struct simulated simulated;
typedef struct waiter waiter;

/* The signal that a class sends ("says") at one end of a channel, in one use of the channel. */
typedef struct said {
    double at; /* when the signal arrives; INFINITY: not sent yet */
    int instr; /* the instruction that sends it */
    waiter *first;
} said;

/* A queue whose head awaits a signal. */
struct waiter {
    simulated *who;
    int head;     /* the instruction to which the other members apply; -1: none */
    int peer;     /* the rank that sends the signal */
    said *on;     /* the signal; NULL: nobody sends it */
    waiter *next; /* the next queue that waits for the same signal */
    bool listed;  /* the queue is in the list of the signal */
};

/*
 * The state of a class. If its queues run concurrently, each has a clock; otherwise all share the first clock, that of
 * the thread that executes them in turn.
 */
struct simulated {
    const ls_image *image;
    const ls_program *program;
    int rank; /* the first of the class */
    ls_cursor cursor;
    double *clock;   /* by queue: the end of the last instruction that was begun */
    double *end;     /* by instruction: its end, once it has been begun */
    double *held;    /* by queue: since when a wait at its head blocks it; -1: no wait does */
    waiter *waiting; /* by queue */
    said *said;      /* [end of a channel][use] */
    size_t *first;   /* [end of a channel]: index of its first entry in `said` */
    double *far;     /* [instruction]: bytes that come from memory, not from a cache */
    double now;      /* the latest of the clocks */
    double wake;     /* time of the next event; INFINITY: unknown until another class sends a signal */
    int place;       /* in the agenda; -1: not in the agenda */
    ls_simulated_rank times;
};

typedef struct simulation {
    ls_arena *arena;
    const ls_rates *rates;
    const ls_simulation_watch *watch;
    int ranks, classes;
    int *class_of; /* by rank */
    simulated *class;
    /*
     * The classes that have not ended, as a binary heap by their next events: entry i comes before entries 2i + 1 and
     * 2i + 2.
     */
    simulated **agenda;
    int n_agenda;
} simulation;

/* --- the agenda --------------------------------------------------------------------------------------------------- */

/* If two events have the same time, that of the class with the lower first rank comes first. */
static bool comes_before(const simulated *a, const simulated *b) {
    return a->wake != b->wake ? a->wake < b->wake : a < b;
}

static void put_at(simulation *p, int place, simulated *w) {
    p->agenda[place] = w;
    w->place = place;
}

/* Moves a class of the agenda to its place after its next event has changed. */
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

/* --- signals ------------------------------------------------------------------------------------------------------ */

/* Each end of a channel sends one signal to the other end in each use of the channel. */
static void make_said(simulation *p, simulated *w) {
    const int ends = LS_SIDES * w->program->n_channels;
    size_t entries = 0;
    w->first = LS_NEW_ARRAY(p->arena, size_t, ends + 1);
    for (int e = 0; e < ends; e++) {
        w->first[e] = entries;
        entries += w->program->channels[e / LS_SIDES].uses[e % LS_SIDES];
    }
    w->said = LS_NEW_ARRAY(p->arena, said, entries + 1);
    for (size_t i = 0; i < entries; i++) w->said[i].at = INFINITY;
}

/* The signal sent at this end of the channel in this use; NULL: the class sends none. */
static said *find_said(const simulated *w, int channel, int side, uint64_t generation) {
    if (channel >= w->program->n_channels || generation > w->program->channels[channel].uses[side]) return NULL;
    return &w->said[w->first[LS_SIDES * channel + side] + generation - 1];
}

/* The signal that the head of a queue awaits. */
static waiter *find_awaited(const simulation *p, simulated *w, int q, int head) {
    waiter *waiting = &w->waiting[q];
    const ls_instr *instr = &w->program->instrs[head];
    if (waiting->head == head) return waiting;
    const int peer = ls_peer_rank(w->image, instr->peer, w->rank);
    const simulated *from = &p->class[p->class_of[peer]];
    const int other = LS_SIDES - 1 - (int)ls_instr_side(instr);
    *waiting =
        (waiter){.who = w, .head = head, .peer = peer, .on = find_said(from, instr->channel, other, instr->generation)};
    return waiting;
}

/* When the awaited signal arrives; INFINITY if this is not known yet, or if the signal goes to another rank. */
static double arrival(const simulation *p, waiter *waiting) {
    said *on = waiting->on;
    if (on == NULL) return INFINITY;
    if (isinf(on->at)) {
        if (!waiting->listed) waiting->next = on->first;
        if (!waiting->listed) on->first = waiting;
        waiting->listed = true;
        return INFINITY;
    }
    const simulated *from = &p->class[p->class_of[waiting->peer]];
    const ls_peer to = from->program->instrs[on->instr].peer;
    return ls_peer_rank(from->image, to, waiting->peer) == waiting->who->rank ? on->at : INFINITY;
}

/* Sends the signal of instruction i, and wakes the classes that wait for it. */
static void say(simulation *p, simulated *w, int i, double at) {
    const ls_instr *instr = &w->program->instrs[i];
    said *it = find_said(w, instr->channel, (int)ls_instr_side(instr), instr->generation);
    LS_ASSERT(instr->generation >= 1 && it != NULL);
    it->at = at;
    it->instr = i;
    for (const waiter *next = it->first; next != NULL; next = next->next) {
        simulated *who = next->who;
        if (at >= who->wake) continue;
        who->wake = p->rates->overlap ? at : fmax(at, who->now);
        if (who->place >= 0) settle(p, who);
    }
}

/* --- one class ---------------------------------------------------------------------------------------------------- */

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
    *(instr->kind == LS_INSTR_KERNEL ? &w->times.computing : &w->times.sending) += seconds;
    if (ls_traits(instr)->sets) say(p, w, i, end + p->rates->latency);
}

/* When the head of a queue may begin; INFINITY if that is not known yet. */
static double earliest_begin(const simulation *p, simulated *w, int q) {
    const int head = ls_cursor_head(&w->cursor, q);
    if (head < 0 || !ls_cursor_may_start(&w->cursor, q)) return INFINITY;
    const ls_instr *instr = &w->program->instrs[head];
    double ready = *clock_of(p, w, q);
    for (int k = 0; k < instr->n_after; k++) ready = fmax(ready, w->end[instr->after[k].instr]);
    if (!ls_traits(instr)->awaits) return ready;
    const double begin = fmax(ready, arrival(p, find_awaited(p, w, q, head)));
    if (begin > ready && w->held[q] < 0) w->held[q] = ready;
    return begin;
}

static void report_span(const simulation *p, const simulated *w, int instr, double begin, double end) {
    for (int r = 0; r < p->ranks && p->watch != NULL; r++)
        if (p->class_of[r] == (int)(w - p->class)) p->watch->on_span(p->watch->context, r, instr, begin, end);
}

/*
 * The time of the next event, and its queue; INFINITY and -1: none is known. Among queues with the same time, the
 * compute queue is last, as in the executor.
 */
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

/* Advances the class by its next instruction, unless it begins later than expected: the signal was for another one. */
static void step(simulation *p, simulated *w) {
    int q, unused;
    const double begin = find_next(p, w, &q);
    if (begin > w->wake) {
        w->wake = begin;
        return;
    }
    LS_ASSERT(q >= 0); /* otherwise the time of the next event would be unknown */
    const double *clock = clock_of(p, w, q);
    const int i = ls_cursor_head(&w->cursor, q);
    if (clock == &w->clock[LS_COMPUTE] && begin > *clock) {
        w->times.waiting += begin - *clock;
        report_span(p, w, -1, *clock, begin);
    }
    const double from = w->held[q] >= 0 ? w->held[q] : begin;
    execute(p, w, q, i, begin);
    report_span(p, w, i, from, w->end[i]);
    w->held[q] = -1;
    ls_cursor_advance(&w->cursor, q);
    ls_cursor_complete(&w->cursor, q, i); /* if it is a put, the bytes have been copied */
    w->times.end = w->now;
    w->wake = find_next(p, w, &unused);
    if (ls_cursor_has_ended(&w->cursor)) w->times.waiting += w->now - w->clock[LS_COMPUTE];
}

/* Steps the first class of the agenda until all have ended. */
static ls_status run(simulation *p) {
    for (int c = 0; c < p->classes; c++) {
        if (!ls_cursor_has_ended(&p->class[c].cursor)) add_to_agenda(p, &p->class[c]);
    }
    while (p->n_agenda > 0) {
        simulated *w = p->agenda[0];
        if (isinf(w->wake))
            return ls_error(LS_INVALID, "program %s: rank %d waits for ever (and maybe others)", w->program->name,
                            w->rank);
        step(p, w);
        if (ls_cursor_has_ended(&w->cursor))
            remove_first(p);
        else
            settle(p, w);
    }
    return ls_ok();
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

static simulated begin_class(simulation *p, const ls_image *image, int rank, int program) {
    const ls_program *it = &image->programs[program];
    simulated w = {.image = image,
                   .program = it,
                   .rank = rank,
                   .cursor = ls_cursor_make(it, p->arena),
                   .clock = LS_NEW_ARRAY(p->arena, double, it->queues + 1),
                   .end = LS_NEW_ARRAY(p->arena, double, it->n_instrs + 1),
                   .held = LS_NEW_ARRAY(p->arena, double, it->queues + 1),
                   .waiting = LS_NEW_ARRAY(p->arena, waiter, it->queues + 1),
                   .far = ls_program_far(image, program, p->rates->cache, p->arena),
                   .place = -1};
    for (int q = 0; q < it->queues; q++) w.held[q] = -1;
    for (int q = 0; q < it->queues; q++) w.waiting[q].head = -1;
    make_said(p, &w);
    return w;
}

/* Makes the classes, in the order of their first ranks. Ranks with the same image are one class. */
static void begin_classes(simulation *p, const ls_image *const *images, int program) {
    p->class = LS_NEW_ARRAY(p->arena, simulated, p->ranks);
    p->class_of = LS_NEW_ARRAY(p->arena, int, p->ranks);
    for (int r = 0; r < p->ranks; r++) {
        int c = r > 0 && images[r] == images[r - 1] ? p->class_of[r - 1] : 0;
        while (c < p->classes && p->class[c].image != images[r]) c++;
        if (c == p->classes) p->class[p->classes++] = begin_class(p, images[r], r, program);
        p->class_of[r] = c;
    }
}

ls_status ls_simulate(const ls_image *const *images, int ranks, int program, const ls_rates *rates,
                      const ls_simulation_watch *watch, ls_simulated_rank *out) {
    simulation p = {.arena = ls_arena_create(), .rates = rates, .watch = watch, .ranks = ranks};
    begin_classes(&p, images, program);
    p.agenda = LS_NEW_ARRAY(p.arena, simulated *, p.classes);
    const ls_status status = run(&p);
    for (int r = 0; r < ranks; r++) out[r] = p.class[p.class_of[r]].times;
    ls_arena_destroy(p.arena);
    return status;
}

double ls_simulate_alone(const ls_image *image, int program, const ls_rates *rates) {
    const ls_program *p = &image->programs[program];
    ls_arena *arena = ls_arena_create();
    const double *far = ls_program_far(image, program, rates->cache, arena);
    double *end = LS_NEW_ARRAY(arena, double, p->n_instrs + 1), *clock = LS_NEW_ARRAY(arena, double, p->queues + 1);
    double last = 0;
    for (int i = 0; i < p->n_instrs; i++) { /* the order of the list is a possible order of execution */
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
