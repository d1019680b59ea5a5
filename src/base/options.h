/* Options tables are public, so that the command line stands on public headers alone. */
#ifndef LS_BASE_OPTIONS_H
#define LS_BASE_OPTIONS_H

#include "longspan/options.h"

#endif
