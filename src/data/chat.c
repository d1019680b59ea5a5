/*
 * Renders the conversation of a record with its chat template, and finds which characters of the result are learnt and
 * which are special tokens.
 */
#include "base/base.h"
#include "data/chat_impl.h"
#include "text/text.h"

#include <stdlib.h>
#include <string.h>

/*
 * Limits for all renderings of a record together: STEPS, and one more for every BYTES_PER_STEP bytes that its values
 * take (4 for a character, 32 for a value); BYTES of memory, and BYTES_PER_BYTE more for every such byte.
 */
#define STEPS ((uint64_t)20000000)
#define BYTES_PER_STEP 2
#define BYTES ((size_t)256 << 20)
#define BYTES_PER_BYTE 16

typedef struct conversation {
    const ls_chat *chat;
    const ls_jinja *jinja;
    ls_arena *arena;
    jinja_dict *variables; /* of the template; render sets "messages" and "add_generation_prompt" among them */
    jinja_list *messages;
    ls_json_value json; /* the messages, for errors */
    size_t first;       /* number of messages before the record's own: 1 if a system message was added, else 0 */
    size_t bytes;       /* of the variables and messages, which the limits grow with */
    uint64_t steps;     /* of the renderings so far */
} conversation;

/* ---- the variables of a template ---- */

static bool is_word(jinja_text text) {
    for (size_t i = 0; i < text.n; i++) {
        const uint32_t c = text.at[i] & JINJA_CODE;
        if (!(c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))) return false;
    }
    return true;
}

/*
 * A role that is a word loses its mark as text of the conversation, because some templates make a special token of it:
 * '<|' + role + '|>'.
 */
static jinja_value trusted_role(ls_arena *arena, jinja_value role) {
    if (role.kind != JINJA_TEXT || !is_word(role.text)) return role;
    jinja_char *characters = LS_NEW_ARRAY(arena, jinja_char, role.text.n);
    for (size_t i = 0; i < role.text.n; i++) characters[i] = role.text.at[i] & JINJA_CODE;
    return jinja_of_text((jinja_text){characters, role.text.n});
}

/*
 * Records name the reasoning of a message in several ways. As in transformers, templates find it under both names that
 * they read. Called before the message's own members are put (first), for "thinking", and after them, for
 * "reasoning_content".
 */
static void put_reasoning(ls_arena *arena, jinja_dict *message, const jinja_value *reasoning, bool first) {
    if (reasoning == NULL) return;
    if (first && jinja_dict_find_ascii(message, "thinking") == NULL)
        jinja_dict_set_ascii(arena, message, "thinking", *reasoning);
    if (!first) jinja_dict_set_ascii(arena, message, "reasoning_content", *reasoning);
}

/* Members that are null are left out, as in transformers. */
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
        if (pair->value.kind == JINJA_NONE) continue;
        if (jinja_is(pair->key.text, "thinking"))
            jinja_dict_set_ascii(arena, message, "thinking", pair->value); /* put_reasoning has put that name */
        else
            jinja_dict_append(arena, message, pair->key, role ? trusted_role(arena, pair->value) : pair->value);
    }
    put_reasoning(arena, message, reasoning, false);
    return jinja_of_dict(message);
}

static bool has_role(jinja_value message, const char *role) {
    const jinja_value *found = jinja_dict_find_ascii(message.dict, "role");
    return found != NULL && found->kind == JINJA_TEXT && jinja_is(found->text, role);
}

/* Puts the user's system message first, unless the conversation begins with one. */
static void put_system(conversation *c) {
    const jinja_list *all = c->messages;
    const bool there = all->n > 0 && (has_role(all->item[0], "system") || has_role(all->item[0], "developer"));
    if (c->chat->system == NULL || there) return;
    jinja_dict *message = jinja_dict_new(c->arena);
    const jinja_text text = jinja_text_of_utf8(c->arena, c->chat->system, strlen(c->chat->system), JINJA_FROM_DATA);
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
        /* The last answer is marked here, because mark_answer uses the rendering of the whole conversation for it. */
        const bool own = i + 1 == n && has_role(message, "assistant");
        jinja_list_add(c->arena, c->messages,
                       own ? message_of(c->arena, json, JINJA_FROM_DATA | JINJA_FROM_MESSAGE) : message);
    }
    put_system(c);
    return ls_ok();
}

static void find_variables(conversation *c, ls_json_value record) {
    ls_arena *arena = c->arena;
    const jinja_value more = jinja_of_json(arena, ls_json_field(record, "chat_template_kwargs"), JINJA_FROM_DATA);
    c->variables = more.kind == JINJA_DICT ? more.dict : jinja_dict_new(arena);
    for (size_t i = 0; i < LS_CHAT_TOKENS; i++)
        if (c->chat->token[i] != NULL && jinja_dict_find_ascii(c->variables, ls_chat_token_names[i]) == NULL)
            jinja_dict_set_ascii(
                arena, c->variables, ls_chat_token_names[i],
                jinja_of_text(jinja_text_of_utf8(arena, c->chat->token[i], strlen(c->chat->token[i]), 0)));
    static const char *const given[] = {"tools", "documents"};
    for (size_t i = 0; i < LS_COUNT(given); i++)
        jinja_dict_set_ascii(arena, c->variables, given[i],
                             jinja_of_json(arena, ls_json_field(record, given[i]), JINJA_FROM_DATA));
}

/* ---- rendering ---- */

/*
 * Renders the first n messages. own (may be NULL) replaces the last of them. prompt: followed by the beginning of an
 * answer (add_generation_prompt).
 */
static ls_status render(conversation *c, size_t n, const jinja_value *own, bool prompt, ls_arena *arena,
                        jinja_text *out) {
    const uint64_t most = STEPS + c->bytes / BYTES_PER_STEP;
    const size_t most_bytes = BYTES + BYTES_PER_BYTE * c->bytes;
    const size_t used = ls_arena_bytes(c->arena) - c->bytes + (arena != c->arena ? ls_arena_bytes(arena) : 0);
    const ls_jinja_options options = {.today = c->chat->today,
                                      .steps = c->steps < most ? most - c->steps : 1,
                                      .bytes = used < most_bytes ? most_bytes - used : 1,
                                      .taken = &c->steps};
    jinja_list *messages = jinja_list_new(arena, n);
    for (size_t i = 0; i < n; i++)
        jinja_list_add(arena, messages, i + 1 == n && own != NULL ? *own : c->messages->item[i]);
    jinja_dict_set_ascii(c->arena, c->variables, "messages", jinja_of_list(JINJA_LIST, messages));
    jinja_dict_set_ascii(c->arena, c->variables, "add_generation_prompt", jinja_bool(prompt));
    const ls_status status = ls_jinja_render(c->jinja, arena, c->variables, &options, out);
    if (n == c->messages->n && !prompt) return ls_error_in(status, "%s: messages", c->json.file);
    return ls_error_in(status, "%s: messages before messages[%zu], rendered to find what is learnt", c->json.file,
                       n - c->first);
}

/* ---- what is learnt ---- */

/* [*first, *end): from the first to the last character of the message itself. False: there is none. */
static bool own_characters(jinja_text text, size_t *first, size_t *end) {
    size_t from = 0, to = text.n;
    while (from < to && !(text.at[from] & JINJA_FROM_MESSAGE)) from++;
    while (to > from && !(text.at[to - 1] & JINJA_FROM_MESSAGE)) to--;
    *first = from;
    *end = to;
    return from < to;
}

/* The end of the last character before `end` that an earlier message wrote. */
static size_t behind_earlier(jinja_text text, size_t end) {
    while (end > 0 && (text.at[end - 1] & (JINJA_FROM_DATA | JINJA_FROM_MESSAGE)) != JINJA_FROM_DATA) end--;
    return end;
}

/*
 * Where an answer begins in `answered`: after the prompt. own: the first character that comes from the message itself.
 * Some templates write more into the last message of a user, or <think> after the prompt, so that `answered` does not
 * begin with the prompt. Then the part of the prompt after the earlier messages is compared with the text between them
 * and `own`, and the answer begins where the two differ. SIZE_MAX: they have nothing in common.
 */
static size_t begin_of_answer(jinja_text prompt, jinja_text answered, size_t own) {
    const size_t same = jinja_common_length(prompt, answered);
    if (same == prompt.n) return same < own ? same : own;
    const size_t from = behind_earlier(prompt, prompt.n), at = behind_earlier(answered, own);
    const jinja_text end = jinja_part(prompt, from, prompt.n), before = jinja_part(answered, at, own);
    const size_t found = jinja_common_length(end, before);
    return found > 0 || end.n == 0 ? at + found : SIZE_MAX;
}

/*
 * Marks what is learnt of message i, an answer: from the end of its prompt as far as the whole conversation has the
 * same text. Some templates change an answer when later messages follow (most remove its reasoning). Then nothing of it
 * is learnt, because a model never generates the changed text at this place.
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
    const bool has_own = own_characters(answered, &first, &end);
    const size_t from = begin_of_answer(prompt, answered, has_own ? first : answered.n);
    const size_t to = jinja_common_length(answered, (jinja_text){whole, n});
    if (from == SIZE_MAX)
        return ls_error(LS_UNSUPPORTED,
                        "%s: messages[%zu]: template %s does not write this answer after its prompt "
                        "(add_generation_prompt), expected generation blocks in such a template",
                        c->json.file, i - c->first, c->chat->name);
    if (has_own && to < end) return ls_ok();
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

/* ---- characters to text with special tokens ---- */

/* Characters as UTF-8, with a byte of marks for each byte. */
typedef struct marked_bytes {
    char *text;
    uint8_t *marks;
    size_t n;
} marked_bytes;

enum { FROM_DATA = 1, LEARNT = 2 };

static ls_status to_utf8(jinja_text characters, marked_bytes *out) {
    out->text = malloc(4 * characters.n + 1);
    out->marks = malloc(4 * characters.n + 1);
    if (out->text == NULL || out->marks == NULL)
        return ls_error(LS_NO_MEMORY, "no memory for a conversation of %zu characters", characters.n);
    for (size_t i = 0; i < characters.n; i++) {
        const jinja_char c = characters.at[i];
        const uint8_t marks = (c & JINJA_FROM_DATA ? FROM_DATA : 0) | (c & JINJA_GENERATED ? LEARNT : 0);
        for (int k = ls_utf8_encode(c & JINJA_CODE, out->text + out->n); k > 0; k--) out->marks[out->n++] = marks;
    }
    return ls_ok();
}

/* Appends bytes [from, to), in runs of equal marks. alone: each run is encoded by itself. */
static ls_status append_runs(const marked_bytes *s, size_t from, size_t to, bool alone, ls_marked_text *out) {
    for (size_t end; from < to; from = end) {
        const bool learnt = s->marks[from] & LEARNT;
        for (end = from; end < to && (bool)(s->marks[end] & LEARNT) == learnt;) end++;
        if (alone)
            LS_TRY(ls_marked_append_token(out, s->text + from, end - from, learnt, -1));
        else
            LS_TRY(ls_marked_append(out, s->text + from, end - from, learnt));
    }
    return ls_ok();
}

/* Whether any of the bytes comes from the conversation. */
static bool is_from_data(const marked_bytes *s, size_t from, size_t to) {
    while (from < to && !(s->marks[from] & FROM_DATA)) from++;
    return from < to;
}

/* White space after the token that ends an answer is not learnt, because generation stops at the token. */
static void end_with_token(marked_bytes *s, size_t end) {
    size_t to = end;
    while (to < s->n && s->marks[to] == LEARNT && (s->text[to] == ' ' || s->text[to] == '\n' || s->text[to] == '\r'))
        to++;
    if (to == s->n || !(s->marks[to] & LEARNT)) memset(s->marks + end, 0, to - end);
}

/* Appends all bytes. Special tokens are found only where the template wrote them. */
static ls_status append_all(const ls_chat *chat, marked_bytes *s, bool generates, ls_marked_text *out) {
    const bool alone = ls_tokenizer_piece(chat->tokenizer) < SIZE_MAX;
    size_t done = 0, from = 0;
    for (ls_special_place m; ls_tokenizer_next_special(chat->tokenizer, s->text, s->n, from, done, &m);) {
        from = m.to;
        if (is_from_data(s, m.from, m.to)) continue;
        if (!generates) end_with_token(s, m.end);
        LS_TRY(append_runs(s, done, m.start, alone, out));
        LS_TRY(ls_marked_append_token(out, s->text + m.start, m.end - m.start, s->marks[m.from] & LEARNT, m.id));
        done = m.end;
        if (from < done) from = done;
    }
    return append_runs(s, done, s->n, alone, out);
}

/*
 * Appends characters as marked text, learnt where they have the mark JINJA_GENERATED. generates: the marks are those of
 * the template's generation blocks, and stay as they are.
 */
static ls_status append_characters(const ls_chat *chat, jinja_text characters, bool generates, ls_marked_text *out) {
    marked_bytes s = {0};
    ls_status status = to_utf8(characters, &s);
    if (status.code == LS_OK) status = append_all(chat, &s, generates, out);
    free(s.text);
    free(s.marks);
    return status;
}

/* ---- a record ---- */

static ls_status render_all(conversation *c, ls_json_value record, ls_marked_text *out) {
    jinja_text text = {0};
    bool learnt = false;
    LS_TRY(find_messages(c, record));
    find_variables(c, record);
    c->bytes = ls_arena_bytes(c->arena);
    LS_TRY(render(c, c->messages->n, NULL, false, c->arena, &text));
    jinja_char *characters = ls_arena_copy(c->arena, text.at, text.n * sizeof *characters);
    if (!ls_jinja_generates(c->jinja)) LS_TRY(mark_answers(c, characters, text.n));
    for (size_t i = 0; i < text.n && !learnt; i++) learnt = characters[i] & JINJA_GENERATED;
    if (!learnt) return ls_json_error(c->json, "a message of the assistant that is learnt: there is nothing to learn");
    return append_characters(c->chat, (jinja_text){characters, text.n}, ls_jinja_generates(c->jinja), out);
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
