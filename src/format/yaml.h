/*
 * YAML for settings: one document of mappings, sequences and scalars, which becomes the equivalent JSON document. A
 * plain scalar is null, a truth value, an integer or a real number where YAML 1.2's core schema says so; otherwise it
 * is a text. Anchors, aliases, tags, keys that are not texts, and more than one document are refused.
 */
#ifndef LS_FORMAT_YAML_H
#define LS_FORMAT_YAML_H

#include "format/json.h"

/* Errors name file, line and column. LS_UNSUPPORTED: the build has no libyaml. Free with ls_json_free. */
LS_MUST_USE ls_status ls_yaml_read(const char *file, size_t most_bytes, ls_json **out);
/* The same for text in memory; `name` stands for the file in errors. */
LS_MUST_USE ls_status ls_yaml_parse(const char *name, const char *text, size_t bytes, ls_json **out);

#endif
