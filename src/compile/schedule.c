/*
 * Schedule: a new order for a program's list, on a clock. Lowering emits communication where it reads best; here puts
 * go as early and waits as late as dependencies (depend.c) and memory allow.
 *
 *   - What others see, the chain, keeps its order: signals, puts, waits for "free", and kernels that touch the heap.
 *     Each goes as early as what it needs is there.
 *   - A wait for data goes right in front of the first instruction that needs what arrives; where none does, it stays.
 *   - A kernel keeps its turn unless it would have to wait. Then others fill the time: the first of those behind it
 *     that need not wait (hoisted), else the last before it that nobody has needed yet (sunk).
 *
 *   - What is copied to memory of the host and back keeps its place in the list, and takes no time of the kernels.
 *
 * What others do. Ranks of this rank's stage have about the same list and are about as far: what they send arrives
 * when the own put of the same epoch would. They are never nearer than LATENCY: being ready for a slow network or a
 * late rank costs nothing but order. Ranks of other stages have other lists, of which the timetable says when their
 * turns end. Where it says that this rank is idle, nothing is gained by moving kernels from before that to behind it.
 *
 * Memory: moving an instruction makes buffers live longer, from its new place to its old one or the other way. It is
 * done only where the live bytes stay at or below the most that the emitted list has anywhere, in each arena.
 *
 * No deadlock. What sets a word keeps the order of its epochs (ls_epoch), and waits for data only move behind chain
 * elements, where nothing but instructions of their own rank needs them. So what sets a word still comes after awaits
 * of earlier epochs alone, on every rank, and along any chain of waits epochs fall: there is no cycle, however each
 * rank orders its kernels. Nothing in this looks at another rank's list: ranks need not come to the same order, nor
 * have the same list, and whether the times are right, of kernels or of other stages, does not matter.
 */
#include "compile/compile_impl.h"
#include "program/program.h"

#include <math.h>
#include <string.h>

/* Instructions that are looked at, ahead and back, for something to fill a wait. */
enum { WINDOW = 16 };
#define LATENCY 10e-3 /* seconds */

typedef struct schedule {
    ls_image *image;
    ls_arena *arena; /* for as long as it takes */
    ls_program *program;
    int index; /* of the program */
    int n;
    ls_dependencies needs;
    ls_rates rates;
    /* By instruction, numbered as emitted: */
    int *before;      /* the chain element before it; -1: none */
    int *counterpart; /* of a wait: the own signal or put that stands for the peer's; -1: none */
    bool *in_chain;
    bool *awaited; /* something stands behind it */
    bool *placed;
    bool *needed;             /* something placed stands behind it */
    bool *fills;              /* it was moved into time in which nothing else could run */
    double *begin, *done;     /* when placed: seconds; done: through, or arrived at the peer */
    double *arrives;          /* of what another stage sends; INFINITY: the head has not come to it */
    double *early;            /* of the same: by how much it comes before it is needed */
    int64_t *live[LS_SPACES]; /* bytes, at least what is live there */
    int64_t most[LS_SPACES];
    int *taker; /* who takes over a buffer's bytes, as emitted */
    int *order; /* the new one; -1: sunk from here */
    int n_order;
    int head;   /* the first instruction that is not placed (or a wait for data, whose turn comes with its reader) */
    int *chain; /* chain elements in order */
    int n_chain, next_chain;
    double now, link; /* when kernels have got so far, and the copies to memory of the host and back */
} schedule;

static const ls_instr *instr_at(const schedule *s, int i) { return &s->program->instrs[i]; }

static bool is_data_wait(const ls_instr *instr) { return ls_traits(instr)->awaits && !ls_traits(instr)->free; }

static bool is_on_link(const ls_instr *instr) { return instr->queue == LS_LINK; }

/* It sets a word and sends nothing. */
static bool is_signal(const ls_instr *instr) { return ls_traits(instr)->sets && !ls_traits(instr)->moves; }

/* Whether an operand lies in the heap, in a buffer that shares bytes with others. */
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
 * What stands for what the peer sends: the own signal or put of the awaited epoch, or, where this rank had nothing to
 * say then, the last one before it. sets: the n that set words, as emitted, so that their epochs rise. -1: none.
 */
static int find_counterpart(const schedule *s, const int *sets, int n, ls_epoch awaited) {
    int low = 0, high = n; /* those before low are not later, those from high on are */
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
    s->order = LS_NEW_ARRAY(arena, int, 2 * s->n); /* with the places that sunk instructions left */
    ls_depend(s->image, s->index, arena, &s->needs);
    for (int i = 0; i < s->n; i++) {
        if (instr_at(s, i)->kind != LS_INSTR_KERNEL && instr_at(s, i)->kind != LS_INSTR_PUT) continue;
        for (int k = s->needs.first[i]; k < s->needs.first[i + 1]; k++) s->awaited[s->needs.on[k]] = true;
    }
    find_chain(s);
    find_live(s);
}

/* --- when --------------------------------------------------------------------------------------------------------- */

/* Whether all that must stand before it is placed, or is a wait for data that can be placed now. */
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

/* When what needs i may begin: a put's source is free once it has been sent (done), not only when it has arrived. */
static double over(const schedule *s, int i) {
    const ls_instr *instr = instr_at(s, i);
    if (is_data_wait(instr)) return transfer(s, i);
    return ls_traits(instr)->sets ? s->begin[i] : s->done[i];
}

/* When all that it needs is there; it may go. */
static double earliest(const schedule *s, int i) {
    double t = 0;
    for (int k = s->needs.first[i]; k < s->needs.first[i + 1]; k++) t = fmax(t, over(s, s->needs.on[k]));
    return t;
}

/* Of a kernel; of a put or signal until it is there. */
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
    if (instr->kind == LS_INSTR_PUT) /* once its slot is free, which the element before it says */
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

/* The program's own buffer behind access k; NULL: none, or one that an earlier access has named already. */
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
 * Instructions, from..to - 1, at which the buffer would be live as well, were it touched at the head; scratch is only
 * then.
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

/* Adds the bytes where the buffer would be live as well; false: that is too much somewhere. */
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
 * Makes the buffers of i live from the head to where they first were (to hoist it) or from where they last were to the
 * head (to sink it). False, and nothing changed: it takes too much memory.
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

/* A kernel that may fill time in which nothing else could run. */
static bool is_movable(const schedule *s, int i) {
    return instr_at(s, i)->kind == LS_INSTR_KERNEL && !s->in_chain[i] && !is_on_link(instr_at(s, i));
}

/* --- moves -------------------------------------------------------------------------------------------------------- */

/* Places what comes next in the chain as far as it may go and is near. */
static void advance_chain(schedule *s) {
    while (s->next_chain < s->n_chain) {
        const int i = s->chain[s->next_chain];
        if (i > s->head + WINDOW || !may_go(s, i) || earliest(s, i) > s->now || !extend(s, i)) return;
        place(s, i);
    }
}

/*
 * What may fill the time until the head can be placed: twice that time, where it waits for another stage; anything
 * where it waits for a rank of its own, which is no nearer than it is taken to be.
 */
static double most_seconds(const schedule *s) {
    const double until = earliest(s, s->head);
    bool timed = false;
    for (int k = s->needs.first[s->head]; k < s->needs.first[s->head + 1]; k++)
        timed |= instr_at(s, s->needs.on[k])->timed && over(s, s->needs.on[k]) >= until;
    return timed ? 2 * (until - s->now) : INFINITY;
}

/* Places an instruction from behind the head that need not wait; false: there is none. */
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

/* Moves the kernel at that place of the order to the head; what is between begins so much earlier. */
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
 * Moves a kernel that stands before the put awaited here, unless the time that this saves would be spent in waiting for
 * another stage between the two. False: there is none.
 */
static bool sink(schedule *s) {
    bool puts = false;       /* behind it */
    double early = INFINITY; /* of all that other stages send behind it */
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
    if (s.n_chain == 0) return; /* nobody to wait for */
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
