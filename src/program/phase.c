#include "program/phase.h"

#include <string.h>

int ls_program_find(const ls_image *image, const char *name) {
    for (int p = 0; p < image->n_programs; p++) {
        if (strcmp(image->programs[p].name, name) == 0) return p;
    }
    return -1;
}

bool ls_phase_exists(const ls_image *image, int before, int program) {
    for (int i = 0; i < image->n_phases; i++) {
        if (image->phases[i].from == before && image->phases[i].to == program) return true;
    }
    return false;
}

bool ls_phases_equal(const ls_image *a, const ls_image *b) {
    return a->n_phases == b->n_phases && memcmp(a->phases, b->phases, sizeof *a->phases * (size_t)a->n_phases) == 0;
}

/* --- the walk ----------------------------------------------------------------------------------------------------- */

typedef struct walk {
    const ls_image *image;
    bool *taken; /* by row of the table */
    int *way;    /* by program: the row by which the search reached it; -1: not reached */
    int *queue;  /* programs that the search has reached, nearest first */
    int *list;
    int n;
    size_t room;
    int64_t instrs; /* instructions of all programs in the list */
} walk;

static void go_to(walk *w, ls_arena *arena, int program) {
    *LS_PUSH(arena, w->list, w->n, w->room) = program;
    w->instrs += w->image->programs[program].n_instrs;
}

/* A row from the program that is not taken yet, preferably one that leads back to the program; -1: there is none. */
static int next_row(const walk *w, int program) {
    int found = -1;
    for (int i = 0; i < w->image->n_phases; i++) {
        const ls_phase *row = &w->image->phases[i];
        if (w->taken[i] || row->from != program) continue;
        if (row->to == program) return i;
        if (found < 0) found = i;
    }
    return found;
}

/*
 * The program nearest to the last of the list from which a row is not taken yet; -1: there is none. `way` leads to it.
 */
static int nearest_open(walk *w) {
    const ls_image *image = w->image;
    const int start = w->list[w->n - 1];
    for (int p = 0; p < image->n_programs; p++) w->way[p] = -1;
    int n = 0;
    w->queue[n++] = start;
    for (int k = 0; k < n; k++) {
        const int at = w->queue[k];
        if (next_row(w, at) >= 0) return at;
        for (int i = 0; i < image->n_phases; i++) {
            const ls_phase *row = &image->phases[i];
            if (row->from != at || row->to == start || w->way[row->to] >= 0) continue;
            w->way[row->to] = i;
            w->queue[n++] = row->to;
        }
    }
    return -1;
}

/* Appends the way to a program that the search has found. */
static void follow(walk *w, ls_arena *arena, int program) {
    const int row = w->way[program];
    if (row < 0) return;
    follow(w, arena, w->image->phases[row].from);
    go_to(w, arena, program);
}

static walk walk_from(const ls_image *image, int first, ls_arena *arena) {
    walk w = {.image = image,
              .taken = LS_NEW_ARRAY(arena, bool, image->n_phases + 1),
              .way = LS_NEW_ARRAY(arena, int, image->n_programs),
              .queue = LS_NEW_ARRAY(arena, int, image->n_programs)};
    go_to(&w, arena, first);
    /* Rows of first programs count as taken: which program is first makes no difference, since nothing ran before it.
     */
    for (int i = 0; i < image->n_phases; i++) w.taken[i] = image->phases[i].from == LS_FIRST;
    for (int at = nearest_open(&w); at >= 0; at = nearest_open(&w)) {
        follow(&w, arena, at);
        const int row = next_row(&w, at);
        w.taken[row] = true;
        go_to(&w, arena, image->phases[row].to);
    }
    return w;
}

/*
 * A row that the walk has not taken, or the row of a possible first program that is not in the walk; -1: there is none.
 */
static int left_out(const walk *w) {
    for (int i = 0; i < w->image->n_phases; i++) {
        bool held = w->taken[i] && w->image->phases[i].from != LS_FIRST;
        for (int k = 0; k < w->n && !held; k++)
            held = w->image->phases[i].from == LS_FIRST && w->list[k] == w->image->phases[i].to;
        if (!held) return i;
    }
    return -1;
}

/* Tries a walk from each program that may be first. Returns the shortest that leaves nothing out; if none does, any. */
static walk best_walk(const ls_image *image, ls_arena *arena) {
    walk best = {.image = image};
    bool whole = false;
    for (int i = 0; i < image->n_phases; i++) {
        if (image->phases[i].from != LS_FIRST) continue;
        const walk w = walk_from(image, image->phases[i].to, arena);
        const bool all = left_out(&w) < 0;
        if (best.n > 0 && (whole ? !all || w.instrs >= best.instrs : !all)) continue;
        best = w;
        whole = all;
    }
    return best;
}

int ls_phase_walk(const ls_image *image, ls_arena *arena, int **out) {
    const walk w = best_walk(image, arena);
    *out = w.list;
    return w.n;
}

/* --- checks ------------------------------------------------------------------------------------------------------- */

static const char *name_of(const ls_image *image, int program) {
    return program == LS_FIRST ? "the beginning" : image->programs[program].name;
}

ls_status ls_phase_rows_check(const ls_image *image) {
    for (int i = 0; i < image->n_phases; i++) {
        const ls_phase *row = &image->phases[i];
        if (row->from < LS_FIRST || row->from >= image->n_programs || row->to < 0 || row->to >= image->n_programs)
            return ls_error(LS_INVALID, "phase table: row %d is from program %d to %d; expected two of %d", i,
                            row->from, row->to, image->n_programs);
    }
    return ls_ok();
}

ls_status ls_phases_check(const ls_image *image) {
    LS_TRY(ls_phase_rows_check(image));
    ls_arena *arena = ls_arena_create();
    const walk w = best_walk(image, arena);
    const int row = w.n > 0 ? left_out(&w) : -1;
    ls_status status = ls_ok();
    if (w.n == 0)
        status = ls_error(LS_INVALID, "phase table: no program may be the first");
    else if (row >= 0)
        status = ls_error(LS_INVALID, "phase table: no order of programs has \"%s\" after \"%s\" and all other rows",
                          name_of(image, image->phases[row].to), name_of(image, image->phases[row].from));
    ls_arena_destroy(arena);
    return status;
}
