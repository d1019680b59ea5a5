/* What an executor's tensors hold, for tests: copies of them, and writing them. Ends the process on failure. */
#ifndef TESTS_TENSORS_H
#define TESTS_TENSORS_H

#include "run/run.h"

#include <stdlib.h>

/* The elements of an operand, or of a bound tensor's local part, without gaps. The caller frees them. */
static inline void *copy_of_operand(const ls_executor *executor, const ls_operand *operand) {
    void *copy = malloc(ls_view_bytes(&operand->view) + 1);
    LS_ASSERT(copy != NULL && ls_executor_read(executor, operand, copy).code == LS_OK);
    return copy;
}
static inline void *copy_of_tensor(const ls_executor *executor, const char *name) {
    return copy_of_operand(executor, &ls_image_find(ls_executor_image(executor), name)->operand);
}

/* Elements [0, count) of a bound tensor. */
static inline void write_tensor(ls_executor *executor, const char *name, int64_t count, const void *from) {
    const ls_operand to = ls_image_elements(ls_executor_image(executor), name, 0, count);
    LS_ASSERT(to.buffer >= 0 && ls_executor_write(executor, &to, from).code == LS_OK);
}
static inline void read_tensor(const ls_executor *executor, const char *name, int64_t count, void *out) {
    const ls_operand from = ls_image_elements(ls_executor_image(executor), name, 0, count);
    LS_ASSERT(from.buffer >= 0 && ls_executor_read(executor, &from, out).code == LS_OK);
}

#endif
