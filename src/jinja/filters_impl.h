/* The table of filters goes on in filters_list.c. */
#ifndef LS_JINJA_FILTERS_IMPL_H
#define LS_JINJA_FILTERS_IMPL_H

#include "jinja/run_impl.h"

const jinja_function *jinja_find_list_filter(jinja_text name);

#endif
