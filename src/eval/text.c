#include "eval/text.h"

#include <string.h>

void ls_text_read(const void *context, int64_t index, int32_t *tokens, int32_t *labels) {
    const ls_text_sequences *text = context;
    if (text->some > 0) index = ls_part_start(ls_data_summarise(text->data)->windows, text->some, index);
    ls_data_sequence(text->data, index, text->room);
    memcpy(tokens, text->room, sizeof *tokens * (size_t)text->S);
    memcpy(labels, text->room + 1, sizeof *labels * (size_t)text->S);
}
