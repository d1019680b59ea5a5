/*
 * data: records that compare answers to one prompt, for losses that do: a chosen and a rejected answer, or an answer
 * with a label.
 */
#ifndef LS_DATA_PREFERENCE_IMPL_H
#define LS_DATA_PREFERENCE_IMPL_H

#include "data/records_impl.h"

typedef struct ls_preference {
    int n; /* answers: 2, the chosen one first, or 1 */
    bool has_margin;
    double margin; /* of a pair that has one */
    struct ls_judged_answer {
        ls_learnt_tokens all; /* the prompt and the answer, whose tokens are learnt; begun as for a record */
        bool wanted;          /* chosen, or the label is true */
    } answer[2];
} ls_preference;

/*
 * Reads a record of the kind "preference" (chosen, rejected, and maybe margin, a number: by how much the first is
 * better) or "label" (prompt, completion, label). Each answer is a text or
 * a list of messages. Without "prompt", or where it is no list and the answers are, the prompt is what both answers
 * begin with: messages, or characters up to a space before the first that differs. LS_INVALID names the value.
 */
LS_MUST_USE ls_status ls_preference_read(const ls_encode_options *options, ls_json_value record, ls_preference *out);
void ls_preference_free(ls_preference *preference); /* a zeroed one is allowed */

#endif
