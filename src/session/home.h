/*
 * Home: the process that has the results. Code around the ranks runs once if this process starts the ranks, and in the
 * process of every rank if another program launched them (ls_launched). Such code is correct in both cases if
 *   - only home writes files and prints; elsewhere ls_log is silent:      if (ls_is_home()) ...
 *   - all processes agree on the status of work that only home does, or that may differ between them:
 *                                                  LS_TRY(ls_home_agree(ls_is_home() ? claim(folder) : ls_ok()));
 *   - home tells the others what only home knows:                         LS_TRY(ls_home_tell(&step, sizeof step));
 * agree and tell are collective among the processes, and cost nothing if there is only one.
 */
#ifndef LS_SESSION_HOME_H
#define LS_SESSION_HOME_H

#include "base/base.h"

/*
 * Finds out who started the ranks. If another program did, connects the processes, and silences ls_log in all but rank
 * 0's. To be called first; later calls do nothing. *ranks: how many were launched; 0: this process starts them.
 */
LS_MUST_USE ls_status ls_home_find(int *ranks);

/* Whether this process writes files and prints; and whether it starts the ranks, if a job has several. */
bool ls_is_home(void);
bool ls_home_starts_ranks(void);
/*
 * Whether this process reports that ranks lost each other: home does; if home is stopped or has died, rank 1 does. Home
 * reports nothing if its launcher continued it only to end it.
 */
bool ls_home_speaks(void);
/*
 * Logs what a user who starts long work should know about the launcher: what it does at Ctrl-C, and how it assigns
 * cores.
 */
void ls_home_log_launcher(void);

/*
 * LS_OK if `mine` is LS_OK in all processes. Otherwise all of them get the cause: the failure of greatest severity
 * (ls_severity) and, among equally severe ones, that of the lowest rank.
 */
LS_MUST_USE ls_status ls_home_agree(ls_status mine);

/*
 * Called before a process ends with a failure: if the ranks were launched, the other processes fail with this message,
 * unless they have failed already.
 */
void ls_home_leave(ls_status failure);

/* Home's *value becomes that of every process. */
LS_MUST_USE ls_status ls_home_tell(void *value, size_t bytes);

#endif
