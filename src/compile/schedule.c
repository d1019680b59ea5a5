/*
 * Schedule: a new order for a program's list, found on a simulated clock. Lowering emits communication where its code
 * is easiest to read; here puts move as early and waits as late as dependencies (depend.c) and memory allow.
 *
 *   - The chain is what other ranks see: signals, puts, waits for "free", and kernels that touch the heap. It keeps its
 *     order. Each element is placed as soon as everything that it needs is there.
 *   - A wait for data is placed right before the first instruction that needs the data; if none does, it stays.
 *   - A kernel keeps its turn unless it would have to wait. Then another kernel fills the time: the first one after it
 *     that need not wait (it is hoisted), else the last one before it that nothing has needed yet (it is sunk).
 *   - A copy to memory of the host, or back, keeps its place in the list, and takes no time of the kernels.
 *
 * Assumptions about other ranks. Ranks of this rank's stage have about the same list and are at about the same place in
 * it: what they send arrives when this rank's put of the same epoch would arrive. A put takes at least LATENCY: being
 * prepared for a slow network or a late rank costs nothing, since it only changes the order. Ranks of other stages have
 * other lists; the timetable says when their turns end. If the timetable says that this rank is idle, moving kernels
 * from before the idle time to after it gains nothing.
 *
 * Memory. If an instruction moves, its buffers live longer: from the new place to the old one, or the reverse. It moves
 * only if the live bytes, in each arena, nowhere exceed the most that the emitted list has anywhere.
 *
 * No deadlock. Instructions that set words keep the order of their epochs (ls_epoch). Waits for data only move to after
 * chain elements, and only instructions of this rank need them there. So an instruction that sets a word still comes
 * only after awaits of earlier epochs, on every rank. Along any chain of waits epochs therefore fall, so there is no
 * cycle, however each rank orders its kernels. None of this depends on another rank's list: ranks need not find the
 * same order, nor have the same list, and the assumed times of kernels and of other stages need not be right.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

#include <math.h>
#include <string.h>

/* How many instructions ahead of the head, and back, are searched for a kernel that fills a wait. */
enum { WINDOW = 16 };
#define LATENCY 10e-3 /* seconds */

typedef struct schedule {
    ls_image *image;
    ls_arena *arena; /* scratch for the scheduling */
    ls_program *program;
    int index; /* index of the program */
    int n;
    ls_dependencies needs;
    ls_rates rates;
    /* By instruction, numbered as emitted: */
    int *before;      /* the chain element before it; -1: none */
    int *counterpart; /* of a wait: this rank's signal or put whose time stands for the peer's; -1: none */
    bool *in_chain;
    bool *awaited; /* some instruction depends on it */
    bool *placed;
    bool *needed;             /* an instruction that is placed depends on it */
    bool *fills;              /* it was moved into time in which nothing else could run here */
    double *begin, *done;     /* seconds, once placed; done: when it has run, or has arrived at the peer */
    double *arrives;          /* of data that another stage sends; INFINITY: the head has not reached the wait yet */
    double *early;            /* of the same data: by how much it arrives before it is needed */
    int64_t *live[LS_SPACES]; /* by instruction: an upper bound of the live bytes */
    int64_t most[LS_SPACES];
    int *taker; /* by buffer: the buffer that takes over its bytes, as emitted */
    int *order; /* the new order; -1: the instruction here has been sunk */
    int n_order;
    int head; /* the first instruction that is not placed, except waits for data, which are placed with their readers */
    int *chain; /* chain elements in order */
    int n_chain, next_chain;
    double now, link; /* the times up to which kernels, and copies to memory of the host and back, are placed */
} schedule;

static const ls_instr *instr_at(const schedule *s, int i) { return &s->program->instrs[i]; }

static bool is_data_wait(const ls_instr *instr) { return ls_traits(instr)->awaits && !ls_traits(instr)->free; }

static bool is_on_link(const ls_instr *instr) { return instr->queue == LS_LINK; }

/* Whether the instruction sets a word and sends nothing. */
static bool is_signal(const ls_instr *instr) { return ls_traits(instr)->sets && !ls_traits(instr)->moves; }

/* Whether an operand lies in a buffer of the heap that shares bytes with other buffers. */
static bool touches_heap(const schedule *s, const ls_instr *instr) {
    for (int k = 0; k < ls_instr_operands(instr); k++) {
        const int b = ls_instr_access_at(instr, k).operand->buffer;
        if (b >= 0 && s->image->buffers[b].space == LS_SYMMETRIC && s->image->buffers[b].program >= 0) return true;
    }
    return false;
}

static bool is_chain(const schedule *s, int i) {
    const ls_instr *instr = instr_at(s, i);
    if (is_data_wait(instr)) return !s->awaited[i];
    return instr->kind != LS_INSTR_KERNEL || touches_heap(s, instr);
}

/* --- setting up --------------------------------------------------------------------------------------------------- */

/*
 * The instruction of this rank whose time stands for what the peer sends: the signal or put of the awaited epoch, or
 * the last one before that epoch if this rank has none in it. sets: the n instructions that set words, as emitted, so
 * that their epochs rise. -1: none.
 */
static int find_counterpart(const schedule *s, const int *sets, int n, ls_epoch awaited) {
    int low = 0, high = n; /* sets before `low` are not later than `awaited`, sets from `high` on are */
    while (low < high) {
        const int middle = (low + high) / 2;
        if (ls_epoch_compare(instr_at(s, sets[middle])->epoch, awaited) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? sets[low - 1] : -1;
}

static void find_chain(schedule *s) {
    int *sets = LS_NEW_ARRAY(s->arena, int, s->n), n_sets = 0;
    for (int i = 0; i < s->n; i++) {
        const ls_instr *instr = instr_at(s, i);
        s->before[i] = s->n_chain > 0 ? s->chain[s->n_chain - 1] : -1;
        s->in_chain[i] = is_chain(s, i);
        if (s->in_chain[i]) s->chain[s->n_chain++] = i;
        if (ls_traits(instr)->sets) sets[n_sets++] = i;
        s->counterpart[i] = ls_traits(instr)->awaits ? find_counterpart(s, sets, n_sets, instr->epoch) : -1;
    }
}

static void find_live(schedule *s) {
    s->taker = LS_NEW_ARRAY(s->arena, int, s->image->n_buffers + 1);
    for (int b = 0; b < s->image->n_buffers; b++) s->taker[b] = -1;
    ls_find_lifetimes(s->image, s->index, s->taker);
    for (int space = 0; space < LS_SPACES; space++) {
        s->live[space] = LS_NEW_ARRAY(s->arena, int64_t, s->n + 1);
        s->most[space] = ls_find_live(s->image, s->index, (ls_space)space, s->live[space]);
    }
}

static void set_up(schedule *s) {
    ls_arena *arena = s->arena;
    s->rates = ls_rates_of(s->image->kernels, s->image->isa, s->image->dtype, s->image->threads);
    s->before = LS_NEW_ARRAY(arena, int, s->n);
    s->counterpart = LS_NEW_ARRAY(arena, int, s->n);
    s->in_chain = LS_NEW_ARRAY(arena, bool, s->n);
    s->awaited = LS_NEW_ARRAY(arena, bool, s->n);
    s->placed = LS_NEW_ARRAY(arena, bool, s->n);
    s->fills = LS_NEW_ARRAY(arena, bool, s->n);
    s->needed = LS_NEW_ARRAY(arena, bool, s->n);
    s->begin = LS_NEW_ARRAY(arena, double, s->n);
    s->done = LS_NEW_ARRAY(arena, double, s->n);
    s->arrives = LS_NEW_ARRAY(arena, double, s->n);
    s->early = LS_NEW_ARRAY(arena, double, s->n);
    for (int i = 0; i < s->n; i++) s->arrives[i] = INFINITY;
    for (int i = 0; i < s->n; i++) s->early[i] = instr_at(s, i)->timed ? fmax(0, -instr_at(s, i)->behind) : INFINITY;
    s->chain = LS_NEW_ARRAY(arena, int, s->n);
    s->order = LS_NEW_ARRAY(arena, int, 2 * s->n); /* twice n: a sunk instruction leaves its old place empty */
    ls_depend(s->image, s->index, arena, &s->needs);
    for (int i = 0; i < s->n; i++) {
        if (instr_at(s, i)->kind != LS_INSTR_KERNEL && instr_at(s, i)->kind != LS_INSTR_PUT) continue;
        for (int k = s->needs.first[i]; k < s->needs.first[i + 1]; k++) s->awaited[s->needs.on[k]] = true;
    }
    find_chain(s);
    find_live(s);
}

/* --- times -------------------------------------------------------------------------------------------------------- */

/* Whether every instruction that must come before i is placed, or is a wait for data that can be placed now. */
static bool may_go(const schedule *s, int i) {
    if (s->before[i] >= 0 && !s->placed[s->before[i]] && instr_at(s, i)->kind != LS_INSTR_KERNEL) return false;
    for (int k = s->needs.first[i]; k < s->needs.first[i + 1]; k++) {
        const int need = s->needs.on[k];
        if (!s->placed[need] && !(is_data_wait(instr_at(s, need)) && may_go(s, need))) return false;
    }
    return true;
}

static double transfer(const schedule *s, int wait) {
    if (instr_at(s, wait)->timed) return s->arrives[wait];
    const int from = s->counterpart[wait];
    return from >= 0 && s->placed[from] ? s->done[from] : s->now;
}

/*
 * When an instruction that depends on i may begin. The source of a put is free once it has been sent (done), before it
 * has arrived.
 */
static double over(const schedule *s, int i) {
    const ls_instr *instr = instr_at(s, i);
    if (is_data_wait(instr)) return transfer(s, i);
    return ls_traits(instr)->sets ? s->begin[i] : s->done[i];
}

/* When everything that i needs is there; may_go(i) must hold. */
static double earliest(const schedule *s, int i) {
    double t = 0;
    for (int k = s->needs.first[i]; k < s->needs.first[i + 1]; k++) t = fmax(t, over(s, s->needs.on[k]));
    return t;
}

/* The time of a kernel; of a put or signal, the time until it has arrived. */
static double seconds_of(const schedule *s, int i) {
    const ls_instr *instr = instr_at(s, i);
    if (is_signal(instr)) return s->rates.latency;
    const double seconds = ls_instr_seconds(instr, INFINITY, &s->rates);
    return instr->kind == LS_INSTR_PUT ? LATENCY + s->rates.latency + seconds : seconds;
}

static void place(schedule *s, int i) {
    const ls_instr *instr = instr_at(s, i);
    for (int k = s->needs.first[i]; k < s->needs.first[i + 1]; k++) {
        const int need = s->needs.on[k];
        if (!s->placed[need]) place(s, need);
        s->needed[need] = true;
    }
    s->placed[i] = true;
    s->order[s->n_order++] = i;
    s->begin[i] = fmax(s->now, earliest(s, i));
    if (instr->kind == LS_INSTR_PUT) /* not before its slot is free: the chain element before it waits for that */
        s->begin[i] = fmax(s->begin[i], s->before[i] >= 0 ? s->done[s->before[i]] : 0);
    if (is_on_link(instr)) s->begin[i] = fmax(s->begin[i], s->link);
    s->done[i] = s->begin[i] + seconds_of(s, i);
    if (ls_traits(instr)->awaits) s->done[i] = fmax(s->now, transfer(s, i));
    if (is_on_link(instr))
        s->link = s->done[i];
    else if (instr->kind == LS_INSTR_KERNEL)
        s->now = s->done[i];
    if (is_signal(instr)) s->now = s->begin[i];
    while (s->next_chain < s->n_chain && s->placed[s->chain[s->next_chain]]) s->next_chain++;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/*
 * The program's own buffer in which operand k lies; NULL: it is not the program's own, or an earlier operand lies in it
 * too.
 */
static ls_buffer *buffer_of(const schedule *s, const ls_instr *instr, int k) {
    const ls_instr_access access = ls_instr_access_at(instr, k);
    const int b = access.operand->buffer;
    if (access.kind == LS_ACCESS_PUT || b < 0 || s->image->buffers[b].program != s->index) return NULL;
    for (int i = 0; i < k; i++) {
        if (ls_instr_access_at(instr, i).operand->buffer == b) return NULL;
    }
    return &s->image->buffers[b];
}

/*
 * The instructions *from .. *to - 1 at which the buffer would also be live if it were touched at the head. Scratch
 * would be live only there.
 */
static void find_extension(const schedule *s, const ls_buffer *b, int *from, int *to) {
    const bool scratch = b->kind == LS_BUFFER_WORKSPACE;
    *from = *to = s->head;
    if (b->first > s->head) *to = scratch ? s->head + 1 : b->first;
    if (b->last < s->head) {
        *from = scratch ? s->head : b->last + 1;
        *to = s->head + 1;
    }
}

/*
 * Adds the bytes at the instructions where the buffer would also be live; false: the sum exceeds the limit at one of
 * them.
 */
static bool add_live(schedule *s, const ls_buffer *b, int64_t bytes) {
    int from, to;
    bool fits = true;
    find_extension(s, b, &from, &to);
    for (int k = from; k < to; k++) fits &= (s->live[b->space][k] += bytes) <= s->most[b->space];
    return fits;
}

static bool add_all(schedule *s, const ls_instr *instr, int sign) {
    bool fits = true;
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        const ls_buffer *b = buffer_of(s, instr, k);
        if (b != NULL) fits &= add_live(s, b, sign * (int64_t)ls_round_up(b->bytes, LS_PLACE_ALIGN));
    }
    return fits;
}

/*
 * Makes the buffers of i live from the head to their first use (to hoist i), or from their last use to the head (to
 * sink i). False, with nothing changed: this takes too much memory.
 */
static bool extend(schedule *s, int i) {
    const ls_instr *instr = instr_at(s, i);
    if (!add_all(s, instr, 1)) {
        (void)add_all(s, instr, -1);
        return false;
    }
    for (int k = 0; k < ls_instr_accesses(instr); k++) {
        ls_buffer *b = buffer_of(s, instr, k);
        if (b == NULL) continue;
        if (b->first > s->head) b->first = s->head;
        if (b->last < s->head) b->last = s->head;
    }
    return true;
}

/* Whether the instruction is a kernel that may fill time in which nothing else could run. */
static bool is_movable(const schedule *s, int i) {
    return instr_at(s, i)->kind == LS_INSTR_KERNEL && !s->in_chain[i] && !is_on_link(instr_at(s, i));
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

/* Places the next elements of the chain, as long as they may go and are near. */
static void advance_chain(schedule *s) {
    while (s->next_chain < s->n_chain) {
        const int i = s->chain[s->next_chain];
        if (i > s->head + WINDOW || !may_go(s, i) || earliest(s, i) > s->now || !extend(s, i)) return;
        place(s, i);
    }
}

/*
 * The most seconds that a kernel may take to fill the time until the head can be placed: twice that time if the head
 * waits for another stage; no limit if it waits for a rank of its own stage, whose data may come later than assumed.
 */
static double most_seconds(const schedule *s) {
    const double until = earliest(s, s->head);
    bool timed = false;
    for (int k = s->needs.first[s->head]; k < s->needs.first[s->head + 1]; k++)
        timed |= instr_at(s, s->needs.on[k])->timed && over(s, s->needs.on[k]) >= until;
    return timed ? 2 * (until - s->now) : INFINITY;
}

/* Places an instruction from after the head that need not wait; false: there is none. */
static bool hoist(schedule *s) {
    const double most = most_seconds(s);
    const int end = (int)ls_min(s->n, s->head + WINDOW);
    for (int i = s->head + 1; i < end; i++) {
        if (s->placed[i] || !is_movable(s, i) || !may_go(s, i)) continue;
        if (earliest(s, i) > s->now || seconds_of(s, i) > most || !extend(s, i)) continue;
        place(s, i);
        s->fills[i] = true;
        return true;
    }
    return false;
}

/* Moves the kernel at that place of the order to the head; the instructions between begin earlier by its time. */
static void move_back(schedule *s, int at) {
    const int i = s->order[at];
    const double seconds = s->done[i] - s->begin[i];
    for (int k = at + 1; k < s->n_order; k++) {
        if (s->order[k] < 0) continue;
        s->begin[s->order[k]] -= seconds;
        s->done[s->order[k]] -= seconds;
        s->early[s->order[k]] -= seconds;
    }
    s->order[at] = -1;
    s->order[s->n_order++] = i;
    s->fills[i] = true;
    s->begin[i] = s->now - seconds;
    s->done[i] = s->now;
}

/*
 * Moves to the head a kernel that is placed before the put that is awaited here, unless the time that this saves would
 * be spent on waiting for another stage between the two. False: there is none.
 */
static bool sink(schedule *s) {
    bool puts = false;       /* a put comes after the kernel */
    double early = INFINITY; /* the least that data of other stages arrives early, after the kernel */
    const double most = most_seconds(s);
    for (int at = s->n_order - 1, end = (int)ls_max(0, s->n_order - WINDOW); at >= end; at--) {
        const int i = s->order[at];
        if (i < 0) continue;
        puts |= instr_at(s, i)->kind == LS_INSTR_PUT;
        early = fmin(early, s->early[i]);
        if (!puts || !is_movable(s, i) || s->needed[i] || s->fills[i]) continue;
        const double seconds = s->done[i] - s->begin[i];
        if (seconds <= 0 || seconds > fmin(most, early) || !extend(s, i)) continue;
        move_back(s, at);
        return true;
    }
    return false;
}

static void run(schedule *s) {
    for (; s->head < s->n; s->head++) {
        const ls_instr *instr = instr_at(s, s->head);
        if (instr->timed) s->arrives[s->head] = s->now + fmax(0, instr->behind);
        advance_chain(s);
        if (s->placed[s->head] || (is_data_wait(instr) && !s->in_chain[s->head])) continue;
        while (instr->queue == LS_COMPUTE && earliest(s, s->head) > s->now && (hoist(s) || sink(s))) advance_chain(s);
        if (s->placed[s->head]) continue;
        place(s, s->head);
    }
}

static void schedule_program(ls_image *image, int index, ls_arena *scratch) {
    schedule s = {.image = image, .arena = scratch, .program = &image->programs[index], .index = index};
    s.n = s.program->n_instrs;
    if (s.n == 0) return;
    set_up(&s);
    if (s.n_chain == 0) return; /* no rank to wait for */
    run(&s);
    ls_instr *old = ls_arena_copy(scratch, s.program->instrs, sizeof *old * (size_t)s.n);
    int n = 0;
    for (int k = 0; k < s.n_order; k++) {
        if (s.order[k] >= 0) s.program->instrs[n++] = old[s.order[k]];
    }
    LS_ASSERT(n == s.n);
}

void ls_schedule(ls_image *image) {
    ls_arena *scratch = ls_arena_create();
    for (int p = 0; p < image->n_programs; p++) schedule_program(image, p, scratch);
    ls_arena_destroy(scratch);
}
