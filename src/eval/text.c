#include "eval/text.h"
#include "base/base.h"

static ls_status sample(const void *context, int64_t index, ls_sample *out) {
    const ls_text_sequences *text = context;
    if (text->some > 0) index = ls_part_start(ls_data_summarise(text->data)->windows, text->some, index);
    return ls_data_read(text->data, index, out);
}

ls_sequences ls_text_sequences_of(const ls_text_sequences *text) {
    return (ls_sequences){.context = text, .sample = sample};
}
