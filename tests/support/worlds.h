/* Worlds for programs, with a heap of its own size for each rank. */
#ifndef TESTS_WORLDS_H
#define TESTS_WORLDS_H

#include "compile/compile.h"
#include "run/run.h"

/* For the images of all ranks; and for those that the ranks compile of a job, whose target's rank is ignored. */
ls_status world_of_images(ls_image *const *images, int ranks, const char *transports, double timeout, ls_world **out);
ls_status world_of_job(const ls_job *job, const ls_target *target, const char *transports, double timeout,
                       ls_world **out);

#endif
