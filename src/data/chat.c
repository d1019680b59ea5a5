/* A record's conversation, rendered, and what of it is learnt. */
#include "data/chat.h"
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

/* All renderings of a record together may take so many steps, and more by the size of what they are given. */
#define STEPS ((uint64_t)20000000)
#define BYTES_PER_STEP 2
#define BYTES ((size_t)256 << 20)
#define BYTES_PER_BYTE 16

typedef struct conversation {
    const ls_chat *chat;
    const ls_jinja *jinja;
    ls_arena *arena;
    jinja_dict *variables; /* all but the messages */
    jinja_list *messages;
    ls_json_value json; /* the messages, for errors */
    size_t
        first; /* of the messages, that which is messages[0] of the record: behind a system that was put before them */
    size_t bytes;   /* of what the templates are given */
    uint64_t steps; /* taken so far */
} conversation;

/* --- what a template is given ----------------------------------------------------------------------------------------------- */

static bool is_word(jinja_text text) {
    for (size_t i = 0; i < text.n; i++) {
        const uint32_t c = text.at[i] & JINJA_CODE;
        if (!(c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z')))
            return false;
    }
    return true;
}

/* A role that is a word counts as the template's: some make a special token of it, as '<|' + role + '|>'. */
static jinja_value trusted(ls_arena *arena, jinja_value role) {
    if (role.kind != JINJA_TEXT || !is_word(role.text)) return role;
    jinja_char *letters = LS_NEW_ARRAY(arena, jinja_char, role.text.n);
    for (size_t i = 0; i < role.text.n; i++) letters[i] = role.text.at[i] & JINJA_CODE;
    return jinja_of_text((jinja_text){letters, role.text.n});
}

/* What a message thinks goes by several names; as transformers does, it is there under those that templates read. */
static void put_reasoning(ls_arena *arena, jinja_dict *message, const jinja_value *reasoning, bool first) {
    if (reasoning == NULL) return;
    if (first && jinja_dict_find_ascii(message, "thinking") == NULL)
        jinja_dict_set_ascii(arena, message, "thinking", *reasoning);
    if (!first) jinja_dict_set_ascii(arena, message, "reasoning_content", *reasoning);
}

/* Members that are null are not there, as transformers has it. */
static jinja_value message_of(ls_arena *arena, ls_json_value json, uint32_t marks) {
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const jinja_value all = jinja_of_json(arena, json, marks);
    const jinja_value *reasoning = NULL;
    jinja_dict *message = jinja_dict_new(arena);
    for (size_t i = 0; i < LS_COUNT(names) && reasoning == NULL; i++) {
        reasoning = jinja_dict_find_ascii(all.dict, names[i]);
        if (reasoning != NULL && reasoning->kind == JINJA_NONE) reasoning = NULL;
    }
    put_reasoning(arena, message, reasoning, true);
    for (size_t i = 0; i < all.dict->n; i++) {
        const struct jinja_pair *pair = &all.dict->pair[i];
        const bool role = jinja_is(pair->key.text, "role");
        if (pair->value.kind != JINJA_NONE)
            jinja_dict_set(arena, message, pair->key, role ? trusted(arena, pair->value) : pair->value);
    }
    put_reasoning(arena, message, reasoning, false);
    return jinja_of_dict(message);
}

static bool has_role(jinja_value message, const char *role) {
    const jinja_value *found = jinja_dict_find_ascii(message.dict, "role");
    return found != NULL && found->kind == JINJA_TEXT && jinja_is(found->text, role);
}

static void put_system(conversation *c) {
    const jinja_list *all = c->messages;
    const bool there =
        all->n > 0 && (has_role(all->item[0], "system") || has_role(all->item[0], "developer"));
    if (c->chat->system == NULL || there) return;
    jinja_dict *message = jinja_dict_new(c->arena);
    const jinja_text text =
        jinja_text_of_utf8(c->arena, c->chat->system, strlen(c->chat->system), JINJA_FROM_DATA);
    jinja_dict_set_ascii(c->arena, message, "role", jinja_of_text(jinja_text_of_ascii(c->arena, "system")));
    jinja_dict_set_ascii(c->arena, message, "content", jinja_of_text(text));
    jinja_list *more = jinja_list_new(c->arena, all->n + 1);
    jinja_list_add(c->arena, more, jinja_of_dict(message));
    for (size_t i = 0; i < all->n; i++) jinja_list_add(c->arena, more, all->item[i]);
    c->messages = more;
    c->first = 1;
}

static ls_status find_messages(conversation *c, ls_json_value record) {
    LS_TRY(ls_json_array(record, "messages", &c->json));
    const size_t n = ls_json_count(c->json);
    c->messages = jinja_list_new(c->arena, n);
    for (size_t i = 0; i < n; i++) {
        const ls_json_value json = ls_json_item(c->json, i);
        LS_TRY(ls_json_as_object(json));
        const jinja_value message = message_of(c->arena, json, JINJA_FROM_DATA);
        const bool answers = has_role(message, "assistant");
        const bool own = i + 1 == n && answers;
        jinja_list_add(c->arena, c->messages,
                       own ? message_of(c->arena, json, JINJA_FROM_DATA | JINJA_FROM_MESSAGE) : message);
    }
    put_system(c);
    return ls_ok();
}

static void find_variables(conversation *c, ls_json_value record) {
    ls_arena *arena = c->arena;
    c->variables = jinja_dict_new(arena);
    for (size_t i = 0; i < LS_CHAT_TOKENS; i++)
        if (c->chat->token[i] != NULL)
            jinja_dict_set_ascii(
                arena, c->variables, ls_chat_token_names[i],
                jinja_of_text(jinja_text_of_utf8(arena, c->chat->token[i], strlen(c->chat->token[i]), 0)));
    const jinja_value more =
        jinja_of_json(arena, ls_json_field(record, "chat_template_kwargs"), JINJA_FROM_DATA);
    for (size_t i = 0; more.kind == JINJA_DICT && i < more.dict->n; i++)
        jinja_dict_set(arena, c->variables, more.dict->pair[i].key, more.dict->pair[i].value);
    static const char *const given[] = {"tools", "documents"};
    for (size_t i = 0; i < LS_COUNT(given); i++)
        jinja_dict_set_ascii(arena, c->variables, given[i],
                             jinja_of_json(arena, ls_json_field(record, given[i]), JINJA_FROM_DATA));
}

/* --- rendering -------------------------------------------------------------------------------------------------------------- */

/* The first n messages, the last of them instead `own` where that is given, then, with `prompt`, what stands before an answer. */
static ls_status render(conversation *c, size_t n, const jinja_value *own, bool prompt, ls_arena *arena,
                        jinja_text *out) {
    const uint64_t most = STEPS + c->bytes / BYTES_PER_STEP;
    const ls_jinja_options options = {.today = c->chat->today,
                                      .steps = c->steps < most ? most - c->steps : 1,
                                      .bytes = BYTES + BYTES_PER_BYTE * c->bytes,
                                      .taken = &c->steps};
    jinja_list *messages = jinja_list_new(arena, n);
    for (size_t i = 0; i < n; i++)
        jinja_list_add(arena, messages, i + 1 == n && own != NULL ? *own : c->messages->item[i]);
    jinja_dict_set_ascii(c->arena, c->variables, "messages", jinja_of_list(JINJA_LIST, messages));
    jinja_dict_set_ascii(c->arena, c->variables, "add_generation_prompt", jinja_bool(prompt));
    const ls_status status = ls_jinja_render(c->jinja, arena, c->variables, &options, out);
    if (n == c->messages->n && !prompt) return ls_error_in(status, "%s: messages", c->json.file);
    return ls_error_in(status, "%s: messages up to messages[%zu], to find what is learnt", c->json.file,
                       n - c->first);
}

/* --- what is learnt --------------------------------------------------------------------------------------------------------- */

static size_t common(jinja_text a, jinja_text b) {
    size_t n = 0;
    while (n < a.n && n < b.n && ((a.at[n] ^ b.at[n]) & JINJA_CODE) == 0) n++;
    return n;
}

/* [*first, *end): from the first to the last letter that the message itself brought; false: there is none. */
static bool own_letters(jinja_text text, size_t *first, size_t *end) {
    size_t from = 0, to = text.n;
    while (from < to && !(text.at[from] & JINJA_FROM_MESSAGE)) from++;
    while (to > from && !(text.at[to - 1] & JINJA_FROM_MESSAGE)) to--;
    *first = from;
    *end = to;
    return from < to;
}

/* Behind the last letter before `end` that an earlier message brought. */
static size_t behind_others(jinja_text text, size_t end) {
    while (end > 0 && (text.at[end - 1] & (JINJA_FROM_DATA | JINJA_FROM_MESSAGE)) != JINJA_FROM_DATA) end--;
    return end;
}

/*
 * Where an answer begins whose own letters begin at `own`: behind its prompt. Where the prompt is not how the answered text begins (some templates write
 * more into the last message of a user, or <think> behind the prompt), behind as much of the prompt's end as stands before the answer; SIZE_MAX: nothing does.
 */
static size_t begin_of_answer(jinja_text prompt, jinja_text answered, size_t own) {
    const size_t same = common(prompt, answered);
    if (same == prompt.n) return same < own ? same : own;
    const size_t from = behind_others(prompt, prompt.n), at = behind_others(answered, own);
    const jinja_text end = jinja_part(prompt, from, prompt.n), before = jinja_part(answered, at, own);
    const size_t found = common(end, before);
    return found > 0 || end.n == 0 ? at + found : SIZE_MAX;
}

/*
 * Message i, an answer: learnt is what stands behind the prompt of an answer, as far as the whole says the same. A template that changes
 * the answer's own text once the conversation goes on (most drop what was thought) has nothing learnt here: nobody says that at this place.
 */
static ls_status mark_answer(conversation *c, size_t i, jinja_char *whole, size_t n, ls_arena *arena) {
    jinja_text prompt = {0}, answered = {whole, n};
    size_t first, end;
    LS_TRY(render(c, i, NULL, true, arena, &prompt));
    if (i + 1 < c->messages->n) {
        const jinja_value own =
            message_of(arena, ls_json_item(c->json, i - c->first), JINJA_FROM_DATA | JINJA_FROM_MESSAGE);
        LS_TRY(render(c, i + 1, &own, false, arena, &answered));
    }
    const bool speaks = own_letters(answered, &first, &end);
    const size_t from = begin_of_answer(prompt, answered, speaks ? first : answered.n);
    const size_t to = common(answered, (jinja_text){whole, n});
    if (from == SIZE_MAX)
        return ls_error(
            LS_UNSUPPORTED,
            "%s: messages[%zu]: %s writes this answer behind another text than it asks for it with "
            "(add_generation_prompt), expected generation blocks in such a template",
            c->json.file, i - c->first, c->chat->name);
    if (speaks && to < end) return ls_ok();
    for (size_t k = from; k < to; k++) whole[k] |= JINJA_GENERATED;
    return ls_ok();
}

static ls_status mark_answers(conversation *c, jinja_char *whole, size_t n) {
    for (size_t i = c->first; i < c->messages->n; i++) {
        if (!has_role(c->messages->item[i], "assistant")) continue;
        ls_arena *arena = ls_arena_create();
        const ls_status status = mark_answer(c, i, whole, n, arena);
        ls_arena_destroy(arena);
        LS_TRY(status);
    }
    return ls_ok();
}

static ls_status render_all(conversation *c, ls_json_value record, ls_marked_text *out) {
    jinja_text text = {0};
    bool learnt = false;
    LS_TRY(find_messages(c, record));
    find_variables(c, record);
    c->bytes = ls_arena_bytes(c->arena);
    LS_TRY(render(c, c->messages->n, NULL, false, c->arena, &text));
    jinja_char *letters = ls_arena_copy(c->arena, text.at, text.n * sizeof *letters);
    if (!ls_jinja_generates(c->jinja)) LS_TRY(mark_answers(c, letters, text.n));
    for (size_t i = 0; i < text.n && !learnt; i++) learnt = letters[i] & JINJA_GENERATED;
    if (!learnt)
        return ls_json_error(c->json, "a message of the assistant that is learnt: there is nothing to learn");
    return ls_chat_letters(c->chat, (jinja_text){letters, text.n}, ls_jinja_generates(c->jinja), out);
}

ls_status ls_chat_render(const ls_chat *chat, ls_json_value record, ls_marked_text *out) {
    const bool tools = ls_json_has(record, "tools");
    conversation c = {.chat = chat,
                      .jinja = tools && chat->with_tools != NULL ? chat->with_tools : chat->jinja,
                      .arena = ls_arena_create()};
    const ls_status status = render_all(&c, record, out);
    ls_arena_destroy(c.arena);
    return status;
}
