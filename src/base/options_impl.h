/* What the files of options share. */
#ifndef LS_BASE_OPTIONS_IMPL_H
#define LS_BASE_OPTIONS_IMPL_H

#include "longspan/options.h"

/* The LS_USAGE error for an option that is not in the table; name has `length` characters. */
ls_status ls_option_unknown(const ls_option *table, int rows, const char *name, size_t length);

#endif
