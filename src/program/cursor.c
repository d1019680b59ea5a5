#include "program/cursor.h"

ls_cursor ls_cursor_make(const ls_program *program, ls_arena *arena) {
    const int queues = program->queues, n = program->n_instrs;
    ls_cursor cursor = {.program = program,
                        .head = LS_NEW_ARRAY(arena, int, queues + 1),
                        .ahead = LS_NEW_ARRAY(arena, int, queues + 1),
                        .executed = LS_NEW_ARRAY(arena, int, queues + 1),
                        .done = LS_NEW_ARRAY(arena, int, queues + 1),
                        .first = LS_NEW_ARRAY(arena, int, queues + 1),
                        .next = LS_NEW_ARRAY(arena, int, n + 1)};
    for (int q = 0; q < queues; q++) cursor.first[q] = n;
    for (int i = n - 1; i >= 0; i--) {
        int *first = &cursor.first[program->instrs[i].queue];
        cursor.next[i] = *first;
        *first = i;
    }
    ls_cursor_begin(&cursor, 0);
    return cursor;
}

void ls_cursor_begin(ls_cursor *cursor, uint64_t runs) {
    cursor->runs = runs;
    for (int q = 0; q < cursor->program->queues; q++) {
        cursor->head[q] = cursor->ahead[q] = cursor->first[q];
        cursor->executed[q] = cursor->done[q] = -1;
    }
}

bool ls_cursor_has_ended(const ls_cursor *cursor) {
    for (int q = 0; q < cursor->program->queues; q++) {
        if (cursor->head[q] < cursor->program->n_instrs) return false;
    }
    return true;
}
