/* General ops, from which any model can be built: what the lowerings of this folder share. */
#ifndef LS_COMPILE_GENERAL_H
#define LS_COMPILE_GENERAL_H

#include "compile/compile_impl.h"

#endif
