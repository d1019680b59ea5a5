#include "job/prompt.h"
#include "base/base.h"
#include "format/format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ls_status encode(const ls_tokenizer *tokenizer, const char *text, size_t bytes, ls_token_list *out) {
    const ls_token_frame frame = ls_tokenizer_frame(tokenizer);
    const int32_t end = ls_tokenizer_end_of_document(tokenizer);
    ls_token_list list = {NULL, 0, 0};
    LS_TRY(ls_tokenizer_encode(tokenizer, text, bytes, &list));
    const size_t before = frame.n_before + list.count > 0 ? frame.n_before : 1;
    if (frame.n_before == 0 && before > 0 && end < 0) {
        free(list.id);
        return ls_error(LS_INVALID,
                        "the prompt is empty, and the tokenizer \"%s\" has no token to begin with",
                        ls_tokenizer_name(tokenizer));
    }
    int32_t *ids = malloc(sizeof *ids * (before + list.count));
    if (ids == NULL) {
        free(list.id);
        return ls_error(LS_NO_MEMORY, "no memory for a prompt of %zu tokens", list.count);
    }
    memcpy(ids, frame.n_before > 0 ? frame.before : &end, sizeof *ids * before);
    if (list.count > 0) memcpy(ids + before, list.id, sizeof *ids * list.count);
    free(list.id);
    *out = (ls_token_list){ids, before + list.count, before + list.count};
    return ls_ok();
}

/* All of standard input, which may be a pipe. */
static ls_status read_input(char **out, size_t *bytes) {
    enum { FIRST = 1 << 16 };
    char *text = malloc(FIRST);
    size_t room = FIRST, n = 0;
    while (text != NULL) {
        n += fread(text + n, 1, room - n, stdin);
        if (n < room || room > INT32_MAX) break;
        char *more = realloc(text, room *= 2);
        if (more == NULL) free(text);
        text = more;
    }
    ls_status status = ls_ok();
    if (text == NULL)
        status = ls_error(LS_NO_MEMORY, "no memory for the prompt on standard input");
    else if (ferror(stdin))
        status = ls_error(LS_IO, "--prompt-file -: standard input cannot be read");
    else if (n > INT32_MAX)
        status = ls_error(LS_INVALID, "--prompt-file -: expected at most %d bytes", INT32_MAX);
    if (status.code != LS_OK) {
        free(text);
        return status;
    }
    *out = text;
    *bytes = n;
    return status;
}

ls_status ls_prompt_read(const ls_tokenizer *tokenizer, const char *text, const char *file,
                         ls_token_list *out) {
    char *read = NULL;
    size_t bytes = 0;
    if (text != NULL) return encode(tokenizer, text, strlen(text), out);
    LS_TRY(strcmp(file, "-") == 0 ? read_input(&read, &bytes) : ls_file_read(file, INT32_MAX, &read, &bytes));
    const ls_status status = encode(tokenizer, read, bytes, out);
    free(read);
    return status;
}
