/*
 * The table of schedules, and the timetable that follows from a schedule: the turns of all stages, simulated on a
 * clock.
 */
#include "compile/pipeline/pipeline.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* A timetable under construction. */
typedef struct making {
    const ls_pipelining *of;
    ls_timetable *table;
    int *end[LS_TURN_KINDS];   /* by chunk and micro-batch: end of the turn; NOT_YET: it has not begun */
    int *begun[LS_TURN_KINDS]; /* by chunk: the number of micro-batches whose turn has begun; they begin in order */
} making;

enum { NOT_YET = INT_MAX };

/*
 * A schedule: its conditions on the numbers of chunks and micro-batches, whether gradients of parameters have turns of
 * their own (splits), and the turns of a stage. `list` writes all turns in order, without times; `choose` chooses a
 * turn each time the stage is free. One of the two is NULL.
 */
struct ls_pipeline_schedule {
    const char *name;
    bool interleaves; /* each stage has several chunks; the number of micro-batches is a multiple of the stages */
    bool splits;
    int (*list)(const ls_pipelining *of, int stage, ls_turn *out);
    bool (*choose)(const making *m, int stage, int now, ls_turn *out);
};

static ls_turn turn_of(ls_turn_kind kind, int chunk, int micro) {
    return (ls_turn){.kind = kind, .chunk = chunk, .micro = micro};
}
static int place(const making *m, int chunk, int micro) { return chunk * m->of->micro + micro; }

/* The i-th micro-batch that goes backward: slices of a sequence are in reverse order. */
static int backward_micro(const ls_pipelining *of, int i) {
    return i / of->slices * of->slices + of->slices - 1 - i % of->slices;
}

/* --- 1F1B --------------------------------------------------------------------------------------------------------- */

static int list_plain(const ls_pipelining *of, int stage, ls_turn *out) {
    const int ahead = (int)ls_min(of->slices - 1 + of->stages - 1 - stage, of->micro);
    int n = 0;
    for (int i = 0; i < ahead; i++) out[n++] = turn_of(LS_TURN_FORWARD, stage, i);
    for (int i = 0; i < of->micro; i++) {
        if (i + ahead < of->micro) out[n++] = turn_of(LS_TURN_FORWARD, stage, i + ahead);
        out[n++] = turn_of(LS_TURN_BACKWARD, stage, backward_micro(of, i));
    }
    return n;
}

/* --- interleaved -------------------------------------------------------------------------------------------------- */

/*
 * Turn i of a stage in one direction: a set of `stages` micro-batches goes through each of the stage's chunks in turn.
 */
static ls_turn interleaved_turn(const ls_pipelining *of, int stage, int i, ls_turn_kind kind) {
    const int own = of->chunks / of->stages, set = of->stages * own;
    const int round = i % set / of->stages, micro = i / set * of->stages + i % of->stages;
    return kind == LS_TURN_FORWARD ? turn_of(kind, round * of->stages + stage, micro)
                                   : turn_of(kind, (own - 1 - round) * of->stages + stage, backward_micro(of, micro));
}

/* The index, among forward turns, of the turn whose micro-batch and chunk are those of backward turn i. */
static int forward_number(const ls_pipelining *of, int i) {
    const int own = of->chunks / of->stages, set = of->stages * own;
    const ls_turn turn = interleaved_turn(of, 0, i, LS_TURN_BACKWARD);
    return turn.micro / of->stages * set + turn.chunk / of->stages * of->stages + turn.micro % of->stages;
}

static int list_interleaved(const ls_pipelining *of, int stage, ls_turn *out) {
    const int own = of->chunks / of->stages, all = of->micro * own;
    /* Forward turns that must precede the first backward turn, so that no turn waits for a later one: `least`. */
    int least = 0, n = 0;
    for (int i = 0; i < all; i++) least = (int)ls_max(least, forward_number(of, i) - i);
    const int ahead = (int)ls_min(2 * (of->stages - 1 - stage) + least, all);
    for (int i = 0; i < ahead; i++) out[n++] = interleaved_turn(of, stage, i, LS_TURN_FORWARD);
    for (int i = 0; i < all; i++) {
        if (i + ahead < all) out[n++] = interleaved_turn(of, stage, i + ahead, LS_TURN_FORWARD);
        out[n++] = interleaved_turn(of, stage, i, LS_TURN_BACKWARD);
    }
    return n;
}

/* --- choices ------------------------------------------------------------------------------------------------------ */

/* When the inputs of the turn are ready; NOT_YET: a turn that it needs has not begun. */
static int ready_at(const making *m, const ls_turn *t) {
    const bool forward = t->kind == LS_TURN_FORWARD;
    int at = 0;
    if (forward && t->chunk > 0) at = m->end[LS_TURN_FORWARD][place(m, t->chunk - 1, t->micro)];
    if (t->kind == LS_TURN_BACKWARD) {
        at = m->end[LS_TURN_FORWARD][place(m, t->chunk, t->micro)];
        if (t->chunk + 1 < m->of->chunks)
            at = (int)ls_max(at, m->end[LS_TURN_BACKWARD][place(m, t->chunk + 1, t->micro)]);
    }
    if (t->kind == LS_TURN_WEIGHTS) at = m->end[LS_TURN_BACKWARD][place(m, t->chunk, t->micro)];
    return at;
}

/* The chunk's next turn of a kind, and when it can begin; NOT_YET: there is none, or the time is not known yet. */
static int next_at(const making *m, ls_turn_kind kind, int chunk, ls_turn *out) {
    const int number = m->begun[kind][chunk];
    *out = turn_of(kind, chunk, kind == LS_TURN_FORWARD ? number : backward_micro(m->of, number));
    return number < m->of->micro ? ready_at(m, out) : NOT_YET;
}

/* Micro-batches that the chunk holds: their forward turn has begun, and their turn of kind `ends` has not. */
static int held(const making *m, int chunk, ls_turn_kind ends) {
    return m->begun[LS_TURN_FORWARD][chunk] - m->begun[ends][chunk];
}

static int duration(const ls_pipelining *of, const ls_turn *turn) {
    const int slice = turn->micro % of->slices, *takes = &of->takes[(slice * of->chunks + turn->chunk) * LS_TURN_KINDS];
    const bool whole = turn->kind == LS_TURN_BACKWARD && !of->schedule->splits;
    return takes[turn->kind] + (whole ? takes[LS_TURN_WEIGHTS] : 0);
}

/*
 * Backward turns first, since earlier stages wait for them; then forward turns, while the stage holds no more
 * micro-batches than with 1F1B; then turns of weights, if nothing else can begin within a quarter of their duration, or
 * if too many micro-batches wait for theirs.
 */
static bool choose_split(const making *m, int stage, int now, ls_turn *out) {
    const int stages = m->of->stages, more = m->of->slices - 1;
    const bool room =
        held(m, stage, LS_TURN_WEIGHTS) < stages + more && held(m, stage, LS_TURN_BACKWARD) < stages - stage + more;
    ls_turn forward;
    const int backward_at = next_at(m, LS_TURN_BACKWARD, stage, out);
    if (backward_at <= now) return true;
    const int forward_at = room ? next_at(m, LS_TURN_FORWARD, stage, &forward) : NOT_YET;
    const bool weights = next_at(m, LS_TURN_WEIGHTS, stage, out) <= now;
    if (forward_at <= now) *out = forward;
    return forward_at <= now || (weights && ls_min(backward_at, forward_at) - now >= duration(m->of, out) / 4);
}

/* For forward passes only: the first set of micro-batches first, and within a set the latest chunk. */
static bool choose_forward(const making *m, int stage, int now, ls_turn *out) {
    bool found = false;
    for (int chunk = stage; chunk < m->of->chunks; chunk += m->of->stages) {
        ls_turn other;
        if (next_at(m, LS_TURN_FORWARD, chunk, &other) > now) continue;
        if (!found || other.micro / m->of->stages <= out->micro / m->of->stages) *out = other;
        found = true;
    }
    return found;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const ls_pipeline_schedule schedules[] = {
    /*
     * One forward, one backward: a stage holds at most as many micro-batches as there are stages from it to the last
     * one.
     */
    {.name = "1f1b", .list = list_plain},
    /* The same with several chunks per stage: less idle time, more bytes sent. */
    {.name = "interleaved", .interleaves = true, .list = list_interleaved},
    /* Gradients of parameters are computed when the stage would otherwise be idle. */
    {.name = "zero-bubble", .splits = true, .choose = choose_split},
};
static const ls_pipeline_schedule forward_only = {.name = "forward", .choose = choose_forward};

const ls_pipeline_schedule *ls_pipeline_schedule_at(int index) {
    return index >= 0 && index < (int)LS_COUNT(schedules) ? &schedules[index] : NULL;
}
const char *ls_pipeline_schedule_name(const ls_pipeline_schedule *schedule) { return schedule->name; }
ls_status ls_pipeline_parse(const char *text, const ls_pipeline_schedule **out, int *chunks) {
    *out = NULL;
    *chunks = 0;
    if (text == NULL) return ls_ok();
    const char *const colon = strchr(text, ':');
    const size_t length = colon != NULL ? (size_t)(colon - text) : strlen(text);
    for (size_t i = 0; i < LS_COUNT(schedules) && *out == NULL; i++)
        if (strlen(schedules[i].name) == length && strncmp(schedules[i].name, text, length) == 0) *out = &schedules[i];
    char *end = NULL;
    const long parts = colon != NULL ? strtol(colon + 1, &end, 10) : 1;
    const bool whole = colon == NULL || (end != colon + 1 && *end == 0 && parts >= 2 && parts <= 1024);
    if (*out == NULL || !whole || (*out)->interleaves != (colon != NULL))
        return ls_error(LS_USAGE,
                        "--pipeline %s; expected 1f1b, interleaved:N (N parts of the model for each stage, 2 "
                        "or more) or zero-bubble",
                        text);
    *chunks = (int)parts;
    return ls_ok();
}

void ls_pipeline_print(const ls_target *target, char out[LS_PIPELINE_TEXT]) {
    const ls_pipeline_schedule *schedule = target->schedule != NULL ? target->schedule : &schedules[0];
    if (ls_mesh_stages(&target->mesh) == 1)
        ls_print(out, LS_PIPELINE_TEXT, "none");
    else if (schedule->interleaves)
        ls_print(out, LS_PIPELINE_TEXT, "%s:%d", schedule->name, target->stage_chunks);
    else
        ls_print(out, LS_PIPELINE_TEXT, "%s", schedule->name);
}

bool ls_pipeline_schedule_splits(const ls_pipeline_schedule *schedule) { return schedule->splits; }
bool ls_pipeline_schedule_interleaves(const ls_pipeline_schedule *schedule) { return schedule->interleaves; }

/* --- the clock ---------------------------------------------------------------------------------------------------- */

static void begin(making *m, int stage, ls_turn turn, int now) {
    ls_timetable *table = m->table;
    turn.begin = now;
    turn.end = now + duration(m->of, &turn);
    m->end[turn.kind][place(m, turn.chunk, turn.micro)] = turn.end;
    m->begun[turn.kind][turn.chunk]++;
    table->of_stage[stage][table->n_of_stage[stage]++] = turn;
    table->end = (int)ls_max(table->end, turn.end);
}

int ls_pipelining_turns(const ls_pipelining *of) {
    const int kinds = !of->backward ? 1 : of->schedule->splits ? 3 : 2;
    return kinds * of->micro * (of->chunks / of->stages);
}

/* Begins the turns that can begin now; returns when the next turn ends, or NOT_YET if no stage is at work. */
static int begin_all(making *m, const ls_pipeline_schedule *schedule, ls_turn *const *listed, int *free_at, int now) {
    const int all = ls_pipelining_turns(m->of);
    int next = NOT_YET;
    for (int s = 0; s < m->of->stages; s++) {
        const int n = m->table->n_of_stage[s];
        ls_turn turn = {0};
        bool can = n < all && free_at[s] <= now;
        if (can && schedule->list != NULL) turn = listed[s][n];
        if (can) can = schedule->list != NULL ? ready_at(m, &turn) <= now : schedule->choose(m, s, now, &turn);
        if (can) begin(m, s, turn, now);
        if (can) free_at[s] = m->table->of_stage[s][n].end;
        if (free_at[s] > now) next = (int)ls_min(next, free_at[s]);
    }
    return next;
}

/* Simulates all turns. A turn begins when its stage is free and its inputs are ready, so always when some turn ends. */
static void play(making *m, const ls_pipeline_schedule *schedule, ls_arena *arena) {
    const int stages = m->of->stages, all = ls_pipelining_turns(m->of);
    ls_turn **listed = LS_NEW_ARRAY(arena, ls_turn *, stages);
    int *free_at = LS_NEW_ARRAY(arena, int, stages);
    for (int s = 0; s < stages; s++) {
        listed[s] = LS_NEW_ARRAY(arena, ls_turn, all);
        if (schedule->list != NULL && schedule->list(m->of, s, listed[s]) != all) LS_ASSERT(false);
    }
    for (int now = 0; now != NOT_YET;) now = begin_all(m, schedule, listed, free_at, now);
    for (int s = 0; s < stages; s++)
        LS_ASSERT(m->table->n_of_stage[s] == all); /* with every schedule of the table all turns get to run */
}

static ls_status check(const ls_pipelining *of) {
    const ls_pipeline_schedule *s = of->schedule;
    LS_ASSERT(of->slices >= 1 && of->micro % of->slices == 0);
    if (of->micro < 1 || of->chunks < of->stages || of->chunks % of->stages != 0)
        return ls_error(LS_USAGE,
                        "%d stages, %d chunks and %d micro-batches; expected a multiple of the stages as chunks",
                        of->stages, of->chunks, of->micro);
    if (s->interleaves && of->micro % of->stages != 0)
        return ls_error(LS_USAGE, "schedule %s: %d micro-batches of a step on %d stages; expected a multiple of %d",
                        s->name, of->micro, of->stages, of->stages);
    if (!s->interleaves && of->chunks != of->stages)
        return ls_error(LS_USAGE, "schedule %s: %d chunks on %d stages; expected one for each stage", s->name,
                        of->chunks, of->stages);
    return ls_ok();
}

ls_status ls_timetable_make(const ls_pipelining *of, ls_arena *arena, ls_timetable *out) {
    LS_TRY(check(of));
    ls_timetable table = {.stages = of->stages,
                          .chunks = of->chunks,
                          .micro = of->micro,
                          .unit = of->unit,
                          .of_stage = LS_NEW_ARRAY(arena, ls_turn *, of->stages),
                          .n_of_stage = LS_NEW_ARRAY(arena, int, of->stages)};
    making m = {.of = of, .table = &table};
    for (int s = 0; s < of->stages; s++) table.of_stage[s] = LS_NEW_ARRAY(arena, ls_turn, ls_pipelining_turns(of));
    for (int kind = 0; kind < LS_TURN_KINDS; kind++) {
        m.begun[kind] = LS_NEW_ARRAY(arena, int, of->chunks);
        m.end[kind] = LS_NEW_ARRAY(arena, int, of->chunks * of->micro);
        for (int i = 0; i < of->chunks * of->micro; i++) m.end[kind][i] = NOT_YET;
    }
    play(&m, of->backward ? of->schedule : &forward_only, arena);
    *out = table;
    return ls_ok();
}
