/*
 * data: conversations in other forms than "messages". They are rewritten as a record with "messages", so that one
 * function renders all of them.
 */
#ifndef LS_DATA_FORMS_IMPL_H
#define LS_DATA_FORMS_IMPL_H

#include "format/format.h"

/*
 * Appends the text of a record with "messages", and with the tools, documents and chat_template_kwargs of the given
 * record. LS_INVALID names the value that does not have the form.
 */
typedef ls_status (*ls_record_rewriting)(ls_json_value record, ls_json_buffer *out);

/* {"conversations": [{"from": "human", "value": "..."}, ...], "system": "..."} (ShareGPT) */
LS_MUST_USE ls_status ls_rewrite_sharegpt(ls_json_value record, ls_json_buffer *out);
/* {"instruction": "...", "input": "...", "output": "...", "system": "...", "history": [["...", "..."], ...]} (Alpaca)
 */
LS_MUST_USE ls_status ls_rewrite_alpaca(ls_json_value record, ls_json_buffer *out);
/* {"prompt": [...], "completion": [...]}: answers in the prompt are not learnt. */
LS_MUST_USE ls_status ls_rewrite_completion(ls_json_value record, ls_json_buffer *out);

/*
 * The same for the messages of `prompt` (a list, or missing) followed by those of `answer` (a list). Answers among the
 * first `context` messages are not learnt.
 */
LS_MUST_USE ls_status ls_rewrite_answer(ls_json_value record, ls_json_value prompt, ls_json_value answer,
                                        size_t context, ls_json_buffer *out);

#endif
