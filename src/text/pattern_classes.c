/* \p{...} and \w: which names are known, and where PCRE2's characters are not the library's (pattern_tables.h). */
#include "base/base.h"
#include "text/pattern.h"
#include "text/pattern_tables.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Names are the same in any case, with and without their _. */
static bool same_name(const char *known, const char *name, size_t bytes) {
    for (size_t i = 0;; known++) {
        while (*known == '_') known++;
        while (i < bytes && name[i] == '_') i++;
        if (i == bytes || *known == 0) return i == bytes && *known == 0;
        if (strncasecmp(known, name + i++, 1) != 0) return false;
    }
}

static const char *known_among(const char *const *known, size_t n, const char *name, size_t bytes) {
    for (size_t i = 0; i < n; i++)
        if (same_name(known[i], name, bytes)) return known[i];
    return NULL;
}

ls_pattern_class ls_pattern_class_find(const char *name, size_t bytes) {
    const char *category = known_among(categories, LS_COUNT(categories), name, bytes);
    if (category) return (ls_pattern_class){category, false};
    return (ls_pattern_class){known_among(scripts, LS_COUNT(scripts), name, bytes), true};
}

/* A category of one letter has what all that begin with it have gained. */
static bool concerns(const char *row, bool gone, const char *name) {
    return strcmp(row, name) == 0 ||
           (!gone && name[1] == 0 && row[0] == name[0] && row[2 - (row[1] == 0)] == 0);
}

bool ls_pattern_differences(const char *name, bool gone, ls_text *out) {
    bool room = true;
    for (size_t i = 0; i < LS_COUNT(differences) && room; i++) {
        char range[32];
        if (differences[i].gone != gone || !concerns(differences[i].name, gone, name)) continue;
        const int n =
            snprintf(range, sizeof range, "\\x{%x}-\\x{%x}", differences[i].first, differences[i].last);
        room = ls_text_append(out, range, (size_t)n);
    }
    return room;
}
