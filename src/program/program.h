/*
 * program: what one rank executes, and what can be said about it before it runs. Other folders include only this
 * header, which includes the headers of the parts.
 */
#ifndef LS_PROGRAM_H
#define LS_PROGRAM_H

#include "program/account.h"
#include "program/address.h"
#include "program/common.h"
#include "program/cost.h"
#include "program/cursor.h"
#include "program/far.h"
#include "program/image.h"
#include "program/in_place.h"
#include "program/instr.h"
#include "program/name.h"
#include "program/parts.h"
#include "program/peak.h"
#include "program/phase.h"
#include "program/states.h"
#include "program/verify.h"
#include "program/verify_local.h"

#endif
