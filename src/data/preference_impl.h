/*
 * data: records that compare answers to the same prompt, for losses that compare or judge: a chosen and a rejected
 * answer, or one answer with a label.
 */
#ifndef LS_DATA_PREFERENCE_IMPL_H
#define LS_DATA_PREFERENCE_IMPL_H

#include "data/records_impl.h"

typedef struct ls_preference {
    int n; /* answers: 2, the chosen one first; or 1 */
    bool has_margin;
    double margin; /* of a pair that gives one */
    struct ls_judged_answer {
        ls_learnt_tokens all; /* the prompt and the answer, whose tokens are learnt; `begun` is as for a record */
        bool wanted;          /* the answer was chosen, or its label is true */
    } answer[2];
} ls_preference;

/*
 * Reads a record of the kind "preference" (chosen, rejected, and optionally margin, a number: by how much the chosen
 * one is better) or "label" (prompt, completion, label). Each answer is a text or a list of messages. Without "prompt",
 * or if it is not a list although the answers are lists, the prompt is the common beginning of both answers: messages,
 * or characters up to a space before the first difference. LS_INVALID names the value.
 */
LS_MUST_USE ls_status ls_preference_read(const ls_encode_options *options, ls_json_value record, ls_preference *out);
void ls_preference_free(ls_preference *preference); /* a zeroed one is allowed */

#endif
