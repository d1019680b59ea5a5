/*
 * format: file formats, read with all checks, and written. What the contents mean is known to other folders, which
 * include this header alone.
 *
 * Every error is one line that names the file, the wrong value, and what was expected. Codes: LS_IO when the operating
 * system refused, LS_INVALID when the contents are wrong, LS_UNSUPPORTED when they are valid but not supported here,
 * LS_NO_MEMORY. There is no synchronisation: threads may read an object at the same time, but only one may change it.
 */
#ifndef LS_FORMAT_H
#define LS_FORMAT_H

#include "format/file.h"
#include "format/json.h"
#include "format/json_text.h"
#include "format/jsonl.h"
#include "format/lock.h"
#include "format/npy.h"
#include "format/safetensors.h"
#include "format/svg.h"
#include "format/tfevents.h"
#include "format/yaml.h"

#endif
