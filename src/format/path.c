/* Paths as texts, and errors that name one: a part of file.h. */
#include "format/file.h"
#include "format/format_impl.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_file_error(const char *action, const char *path, int error_number) {
    return ls_error(LS_IO, "cannot %s %s: %s", action, path, strerror(error_number));
}

void ls_path_free(char **path) {
    free(*path);
    *path = NULL;
}

ls_status ls_path_print(char **out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    char *made = ls_vprint_new(format, args);
    va_end(args);
    if (made == NULL) return ls_error(LS_NO_MEMORY, "no memory for a path");
    free(*out); /* after printing, because *out may be one of the arguments */
    *out = made;
    return ls_ok();
}

ls_status ls_path_join(const char *folder, const char *name, char **out) {
    const size_t length = strlen(folder);
    const bool ends = length > 0 && folder[length - 1] == '/';
    return ls_path_print(out, "%s%s%s", folder, ends ? "" : "/", name);
}

ls_status ls_path_parent(const char *path, char **out) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/') length--; /* the folder of "out/" is "." */
    while (length > 0 && path[length - 1] != '/') length--;
    while (length > 1 && path[length - 1] == '/') length--;
    return length == 0 ? ls_path_print(out, ".") : ls_path_print(out, "%.*s", (int)length, path);
}
