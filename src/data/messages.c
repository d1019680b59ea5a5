/* Encodes a record with messages, as rendered by the chat template. */
#include "data/chat_impl.h"
#include "data/records_impl.h"

#include <stdlib.h>
#include <string.h>

/* Removes a begin token that the template wrote, if the user asked for another one. */
static void remove_begin(const ls_chat *chat, size_t start, ls_learnt_tokens *out) {
    static const char *const names[] = {"<|begin_of_text|>", "<bos>", "<s>"};
    ls_token_list *list = &out->tokens;
    const ls_token_frame frame = ls_tokenizer_frame(chat->tokenizer);
    if (!chat->removes_begin || list->count == start) return;
    bool begins = frame.n_before > 0 && frame.before[0] == list->id[start];
    begins |= chat->token[0] != NULL && ls_tokenizer_find(chat->tokenizer, chat->token[0]) == list->id[start];
    for (size_t i = 0; i < LS_COUNT(names); i++)
        begins |= ls_tokenizer_find(chat->tokenizer, names[i]) == list->id[start];
    if (!begins) return;
    list->count--;
    memmove(list->id + start, list->id + start + 1, (list->count - start) * sizeof *list->id);
    memmove(out->learnt + start, out->learnt + start + 1, list->count - start);
}

ls_status ls_encode_messages(const ls_encode_options *o, ls_json_value object, ls_learnt_tokens *out) {
    const size_t start = out->tokens.count;
    ls_marked_text marked = {0};
    const ls_plain_text plain = {0};
    if (o->chat->jinja == NULL) return ls_error_in(o->chat->missing, "messages need a chat template");
    ls_status status = ls_chat_render(o->chat, object, &marked, &out->left_out, &out->unread);
    if (status.code == LS_OK) status = ls_marked_encode(o->tokenizer, &marked, &plain, out);
    ls_marked_free(&marked);
    out->end_learnt = false;
    out->begun = !o->chat->removes_begin;
    if (status.code != LS_OK) return status;
    remove_begin(o->chat, start, out);
    ls_learnt_remove_end(o->tokenizer, start, out);
    return status;
}
