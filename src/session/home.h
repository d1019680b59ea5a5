/*
 * Home: the process that has the results. Code around the ranks runs once where this process starts the ranks, and in
 * the process of every rank where another program launched them (ls_launched). It is right in both when
 *   - only home writes files and prints; elsewhere ls_log is silent:      if (ls_is_home()) ...
 *   - all processes agree on the status of what only home does, or what may differ between them:
 *                                                  LS_TRY(ls_home_agree(ls_is_home() ? claim(folder) : ls_ok()));
 *   - what only home knows is told to the others:                         LS_TRY(ls_home_tell(&step, sizeof step));
 * agree and tell are collective among the processes, and free where there is one.
 */
#ifndef LS_SESSION_HOME_H
#define LS_SESSION_HOME_H

#include "base/base.h"

/*
 * Finds out who started the ranks; where others did, connects them, and silences ls_log in all but rank 0's process. To
 * be called first; later calls do nothing. *ranks: how many were launched; 0: this process starts them.
 */
LS_MUST_USE ls_status ls_home_find(int *ranks);

/* Whether this process writes files and prints; whether it starts the ranks, if a job has several. */
bool ls_is_home(void);
bool ls_home_starts_ranks(void);
/*
 * Whether this process says that ranks lost each other: home does, and rank 1 where home is stopped or has died. Home
 * says nothing when its launcher continued it only to end it.
 */
bool ls_home_speaks(void);
/* Logs what a user who starts long work should know of who launched the ranks: what it does at Ctrl-C, and to cores. */
void ls_home_log_launcher(void);

/*
 * LS_OK when `mine` is LS_OK in all processes; else, in all of them, the cause: the failure of greatest severity
 * (ls_severity), and of equal ones that of the lowest rank.
 */
LS_MUST_USE ls_status ls_home_agree(ls_status mine);

/*
 * Before a process ends with a failure: the others, where they were launched too, fail with this text, unless they have
 * failed already.
 */
void ls_home_leave(ls_status failure);

/* The bytes of home's *value become those of every process's. */
LS_MUST_USE ls_status ls_home_tell(void *value, size_t bytes);

#endif
