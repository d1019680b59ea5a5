/* Valid programs that are edited, judged by the interpreter, and restored. */
#ifndef TESTS_SUBJECT_H
#define TESTS_SUBJECT_H

#include "images.h"
#include "run/interpret.h"

enum { SUBJECT_RANKS = 8 };

struct kept_program;
typedef struct subject {
    image_set set;
    struct kept_program *programs[SUBJECT_RANKS]; /* by rank and program */
    ls_buffer *buffers[SUBJECT_RANKS];
    ls_interpreter *interpreter;
    ls_interpreter_result right;
} subject;

/* It takes the set over. Fails the test where a verifier rejects these programs. */
void subject_make(subject *s, const image_set *set);
/* Lists, operands and buffers are again as they were. */
void subject_restore(subject *s);
void subject_free(subject *s);

static inline const ls_image *const *subject_images(const subject *s) { return (const ls_image *const *)s->set.image; }

/* Whether some seed gives a result other than that of the unedited programs; *how, *seed: which. */
bool subject_is_wrong(const subject *s, uint64_t first, int seeds, ls_interpreter_result *how, uint64_t *seed);

#endif
