/*
 * format: files on disk and their checks; what the numbers mean is for others. The header for other folders.
 *
 * Every error is one line that names the file, what is wrong with which value, and what was expected.
 * Codes: LS_IO when the operating system refused, LS_INVALID when the bytes are wrong, LS_UNSUPPORTED when
 * they are right but of a kind that is not read here, LS_NO_MEMORY. Nothing here is shared between threads:
 * a value that is only read may be read by any number of them.
 */
#ifndef LS_FORMAT_H
#define LS_FORMAT_H

#include "format/file.h"
#include "format/json.h"
#include "format/jsonl.h"
#include "format/lock.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/svg.h"
#include "format/svg_shapes.h"
#include "format/tfevents.h"

#endif
