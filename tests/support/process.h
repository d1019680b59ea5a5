/* For what ends its process with a message where something is wrong. */
#ifndef TESTS_PROCESS_H
#define TESTS_PROCESS_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether f(context) is true, called in a process of its own. *text: what that has said on standard error, of at most
 * room - 1 bytes. False, too, where it has ended by a signal.
 */
bool is_true_in_a_process(bool (*f)(void *context), void *context, char *text, size_t room);

#endif
