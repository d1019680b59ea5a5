/* Whether images are the same: what makes ranks a class. */
#ifndef TESTS_CLASSES_H
#define TESTS_CLASSES_H

#include "program/program.h"

/* Whether two images of one job read the same: buffers, programs, teams, displacements and pieces. */
bool images_equal(const ls_image *a, const ls_image *b);
/* How many of n images differ from each other. */
int count_classes(const ls_image *const *images, int n);

#endif
