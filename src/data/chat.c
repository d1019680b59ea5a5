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
 * Limits for all renderings of a record together: STEPS, plus one for every BYTES_PER_STEP bytes that its values take
 * (4 for a character, 32 for a value); BYTES of memory, plus BYTES_PER_BYTE for every such byte.
 */
#define STEPS ((uint64_t)20000000)
#define BYTES_PER_STEP 2
#define BYTES ((size_t)256 << 20)
#define BYTES_PER_BYTE 16

const char *const ls_chat_token_names[LS_CHAT_TOKENS] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                                         "pad_token", "cls_token", "mask_token"};

typedef struct conversation {
    const ls_chat *chat;
    const ls_jinja *jinja;
    ls_arena *arena;
    /* variables of the template; render sets "messages" and "add_generation_prompt" among them */
    jinja_dict *variables;
    jinja_list *messages;
    ls_json_value json; /* the messages, for errors */
    size_t first;       /* number of messages before the record's own: 1 if a system message was added, else 0 */
    size_t bytes;       /* of the variables and messages; the limits grow with it */
    uint64_t steps;     /* steps of the renderings so far */
    bool *silent;       /* [messages]: not learnt, because the record says so */
    int64_t contents, thinking; /* characters of the messages, without white space */
    ls_left_out *left_out;
} conversation;

/* Marks of characters of the messages (JINJA_CALLERS). */
#define CONTENT (1u << 21)
#define THINKING (1u << 22)
#define SILENT (1u << 23)   /* of an answer that is not learnt, because the record says so */
#define UNLEARNT (1u << 24) /* of the parts of an answer that are not learnt according to its train_detail */

/* ---- the variables of a template ---- */

static bool is_word(jinja_text text) {
    for (size_t i = 0; i < text.n; i++) {
        const uint32_t c = text.at[i] & JINJA_CODE;
        if (!(c == '_' || c == '-' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'))) return false;
    }
    return true;
}

/*
 * A role that is a single word loses its mark as text of the conversation, because some templates make a special token
 * of it: '<|' + role + '|>'.
 */
static jinja_value trusted_role(ls_arena *arena, jinja_value role) {
    if (role.kind != JINJA_TEXT || !is_word(role.text)) return role;
    jinja_char *characters = LS_NEW_ARRAY(arena, jinja_char, role.text.n);
    for (size_t i = 0; i < role.text.n; i++) characters[i] = role.text.at[i] & JINJA_CODE;
    return jinja_of_text((jinja_text){characters, role.text.n});
}

/*
 * Records name the reasoning of a message in several ways. As in transformers, templates find it under both names that
 * they read. Called before the message's own members are put (first: true), for "thinking", and after them, for
 * "reasoning_content".
 */
static void put_reasoning(ls_arena *arena, jinja_dict *message, const jinja_value *reasoning, bool first) {
    if (reasoning == NULL) return;
    if (first && jinja_dict_find_ascii(message, "thinking") == NULL)
        jinja_dict_set_ascii(arena, message, "thinking", *reasoning);
    if (!first) jinja_dict_set_ascii(arena, message, "reasoning_content", *reasoning);
}

/* The same text with additional marks; values other than texts are not changed. */
static jinja_value with_marks(ls_arena *arena, jinja_value value, uint32_t marks) {
    if (value.kind != JINJA_TEXT) return value;
    jinja_char *characters = ls_arena_copy(arena, value.text.at, value.text.n * sizeof *characters);
    for (size_t i = 0; i < value.text.n; i++) characters[i] |= marks;
    return jinja_of_text((jinja_text){characters, value.text.n});
}

/*
 * Marks the characters of a content that are not learnt according to its message's train_detail: all except those of
 * parts with train true.
 */
static jinja_value mark_detail(ls_arena *arena, ls_json_value message, jinja_value content) {
    const ls_json_value detail = ls_json_field(message, "train_detail");
    if (!ls_json_is_array(detail) || content.kind != JINJA_TEXT) return content;
    jinja_char *characters = ls_arena_copy(arena, content.text.at, content.text.n * sizeof *characters);
    for (size_t i = 0; i < content.text.n; i++) characters[i] |= UNLEARNT;
    for (size_t p = 0; p < ls_json_count(detail); p++) {
        const ls_json_value part = ls_json_item(detail, p);
        const int64_t from = ls_json_plain_of(ls_json_field(part, "begin_offset")).integer;
        const int64_t last = ls_json_plain_of(ls_json_field(part, "end_offset")).integer;
        if (!ls_json_plain_of(ls_json_field(part, "train")).truth) continue;
        for (int64_t i = ls_max(from, 0); i <= last && i < (int64_t)content.text.n; i++)
            characters[i] &= ~(jinja_char)UNLEARNT;
    }
    return jinja_of_text((jinja_text){characters, content.text.n});
}

static const char *const reasoning_names[] = {"reasoning_content", "thinking", "reasoning"};

/* Members that are null are left out, as in transformers. */
static jinja_value message_of(ls_arena *arena, ls_json_value json, uint32_t marks) {
    const jinja_value all = jinja_of_json(arena, json, marks);
    const jinja_value *reasoning = NULL;
    jinja_dict *message = jinja_dict_new(arena);
    for (size_t i = 0; i < LS_COUNT(reasoning_names); i++) {
        jinja_value *found = jinja_dict_find_ascii(all.dict, reasoning_names[i]);
        if (found == NULL || found->kind == JINJA_NONE) continue;
        *found = with_marks(arena, *found, THINKING);
        if (reasoning == NULL) reasoning = found;
    }
    jinja_value *content = jinja_dict_find_ascii(all.dict, "content");
    if (content != NULL) *content = mark_detail(arena, json, with_marks(arena, *content, CONTENT));
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

/* Reads whether a record says that a message is learnt ("weight" 1, "train" true) or not; *given: it says so. */
static ls_status read_weight(ls_json_value message, bool *given, bool *learnt) {
    const ls_json_value weight = ls_json_field(message, "weight");
    const ls_json_value detail = ls_json_field(message, "train_detail");
    const bool has_weight = ls_json_has(message, "weight"), has_train = ls_json_has(message, "train");
    const ls_json_plain plain = ls_json_plain_of(weight);
    const double value = plain.kind == LS_JSON_INT    ? (double)plain.integer
                         : plain.kind == LS_JSON_REAL ? plain.real
                                                      : -1;
    bool trained = true;
    if (has_weight && value != 0 && value != 1) return ls_json_error(weight, "0 or 1: whether the answer is learnt");
    if (has_train) LS_TRY(ls_json_bool(message, "train", &trained));
    *given = has_weight || has_train || detail.json != NULL;
    *learnt = trained && !(has_weight && value == 0) && !(ls_json_is_array(detail) && ls_json_count(detail) == 0);
    return ls_ok();
}

/* Sets c->silent[i]. Only answers can be learnt; any other message with weight 1 is therefore an error. */
static ls_status find_silent(conversation *c, size_t i, ls_json_value json, bool answer) {
    bool given, learnt;
    LS_TRY(read_weight(json, &given, &learnt));
    static const char *const names[] = {"train", "weight", "train_detail"};
    for (size_t k = 0; k < LS_COUNT(names) && given && learnt && !answer; k++)
        if (ls_json_has(json, names[k]))
            return ls_json_error(ls_json_field(json, names[k]),
                                 "it to be an answer's: of the other messages nothing is learnt");
    c->silent[i] = answer && !learnt;
    return ls_ok();
}

/* Checks that the parts lie within the content, and that each says whether it is learnt. */
static ls_status check_detail(ls_json_value json, jinja_value message) {
    const ls_json_value detail = ls_json_field(json, "train_detail");
    const jinja_value *content = jinja_dict_find_ascii(message.dict, "content");
    const int64_t n = content != NULL && content->kind == JINJA_TEXT ? (int64_t)content->text.n : 0;
    if (detail.json == NULL || !ls_json_has(json, "train_detail")) return ls_ok();
    LS_TRY(ls_json_as_array(detail));
    for (size_t i = 0; i < ls_json_count(detail); i++) {
        const ls_json_value part = ls_json_item(detail, i);
        int64_t from, last;
        bool train;
        LS_TRY(ls_json_as_object(part));
        LS_TRY(ls_json_int(part, "begin_offset", 0, ls_max(n - 1, 0), &from));
        LS_TRY(ls_json_int(part, "end_offset", from, ls_max(n - 1, from), &last));
        LS_TRY(ls_json_bool(part, "train", &train));
    }
    return ls_ok();
}

static int64_t count_marked(jinja_text text, uint32_t mark) {
    int64_t n = 0;
    for (size_t i = 0; i < text.n; i++) {
        const uint32_t code = text.at[i] & JINJA_CODE;
        n += (text.at[i] & mark) && code != ' ' && code != '\n' && code != '\t' && code != '\r';
    }
    return n;
}

/* Counts the text of a message; its reasoning occurs under several names. */
static void count_text(conversation *c, jinja_value message) {
    const jinja_value *content = jinja_dict_find_ascii(message.dict, "content"), *thinking = NULL;
    for (size_t i = 0; i < LS_COUNT(reasoning_names) && thinking == NULL; i++)
        thinking = jinja_dict_find_ascii(message.dict, reasoning_names[i]);
    if (content != NULL && content->kind == JINJA_TEXT) c->contents += count_marked(content->text, CONTENT);
    if (thinking != NULL && thinking->kind == JINJA_TEXT) c->thinking += count_marked(thinking->text, THINKING);
}

static ls_status find_messages(conversation *c, ls_json_value record) {
    LS_TRY(ls_json_array(record, "messages", &c->json));
    const size_t n = ls_json_count(c->json);
    c->messages = jinja_list_new(c->arena, n);
    c->silent = LS_NEW_ARRAY(c->arena, bool, n);
    for (size_t i = 0; i < n; i++) {
        const ls_json_value json = ls_json_item(c->json, i);
        LS_TRY(ls_json_as_object(json));
        jinja_value message = message_of(c->arena, json, JINJA_FROM_DATA);
        const bool answer = has_role(message, "assistant");
        LS_TRY(check_detail(json, message));
        LS_TRY(find_silent(c, i, json, answer));
        if (c->silent[i]) message = message_of(c->arena, json, JINJA_FROM_DATA | SILENT);
        count_text(c, message);
        jinja_list_add(c->arena, c->messages, message);
    }
    put_system(c);
    return ls_ok();
}

/*
 * Finds a member that is given to the template. Tables have no column type for any JSON, so the member may be a text
 * that is JSON.
 */
static ls_status find_given(conversation *c, ls_json_value record, const char *name) {
    const ls_json_value value = ls_json_field(record, name);
    ls_json *document = NULL;
    jinja_value given = {.kind = JINJA_NONE};
    if (ls_json_is_text(value) && ls_json_plain_of(value).bytes > 0) {
        LS_PATH where = NULL;
        LS_TRY(ls_path_print(&where, "%s: %s", value.file, value.path));
        LS_TRY(ls_json_parse_record(where, ls_json_plain_of(value).text, ls_json_plain_of(value).bytes, &document));
        given = jinja_of_json(c->arena, ls_json_root(document), JINJA_FROM_DATA);
        ls_json_free(document);
    } else if (!ls_json_is_text(value)) {
        given = jinja_of_json(c->arena, value, JINJA_FROM_DATA);
    }
    jinja_dict_set_ascii(c->arena, c->variables, name, given);
    return ls_ok();
}

static ls_status find_variables(conversation *c, ls_json_value record) {
    ls_arena *arena = c->arena;
    const jinja_value more = jinja_of_json(arena, ls_json_field(record, "chat_template_kwargs"), JINJA_FROM_DATA);
    c->variables = more.kind == JINJA_DICT ? more.dict : jinja_dict_new(arena);
    for (size_t i = 0; i < LS_CHAT_TOKENS; i++)
        if (c->chat->token[i] != NULL && jinja_dict_find_ascii(c->variables, ls_chat_token_names[i]) == NULL)
            jinja_dict_set_ascii(
                arena, c->variables, ls_chat_token_names[i],
                jinja_of_text(jinja_text_of_utf8(arena, c->chat->token[i], strlen(c->chat->token[i]), 0)));
    LS_TRY(find_given(c, record, "tools"));
    return find_given(c, record, "documents");
}

/* ---- rendering ---- */

/*
 * Renders the first n messages, with message `own` marked (JINJA_FROM_MESSAGE); SIZE_MAX: none. prompt: followed by the
 * beginning of an answer (add_generation_prompt).
 */
static ls_status render(conversation *c, size_t n, size_t own, bool prompt, ls_arena *arena, jinja_text *out) {
    const uint64_t most = STEPS + c->bytes / BYTES_PER_STEP;
    const size_t most_bytes = BYTES + BYTES_PER_BYTE * c->bytes;
    const size_t used = ls_arena_bytes(c->arena) - c->bytes + (arena != c->arena ? ls_arena_bytes(arena) : 0);
    const ls_jinja_options options = {.today = c->chat->today,
                                      .steps = c->steps < most ? most - c->steps : 1,
                                      .bytes = used < most_bytes ? most_bytes - used : 1,
                                      .taken = &c->steps};
    jinja_list *messages = jinja_list_new(arena, n);
    for (size_t i = 0; i < n; i++) {
        const bool marked = i == own;
        jinja_list_add(
            arena, messages,
            marked ? message_of(arena, ls_json_item(c->json, i - c->first), JINJA_FROM_DATA | JINJA_FROM_MESSAGE)
                   : c->messages->item[i]);
    }
    jinja_dict_set_ascii(c->arena, c->variables, "messages", jinja_of_list(JINJA_LIST, messages));
    jinja_dict_set_ascii(c->arena, c->variables, "add_generation_prompt", jinja_bool(prompt));
    const ls_status status = ls_jinja_render(c->jinja, arena, c->variables, &options, out);
    if (n == c->messages->n && !prompt) return ls_error_in(status, "%s: messages", c->json.file);
    return ls_error_in(status, "%s: messages before messages[%zu], rendered to find what is learnt", c->json.file,
                       n - c->first);
}

/* ---- what is learnt ---- */

/* Sets [*first, *end) to the range from the first to the last character of the message itself. False: there is none. */
static bool own_characters(jinja_text text, size_t *first, size_t *end) {
    size_t from = 0, to = text.n;
    while (from < to && !(text.at[from] & JINJA_FROM_MESSAGE)) from++;
    while (to > from && !(text.at[to - 1] & JINJA_FROM_MESSAGE)) to--;
    *first = from;
    *end = to;
    return from < to;
}

/* The end of the last character before `end` that comes from an earlier message. */
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

/* Whether the message's own characters are the same in both texts; the characters around them may differ. */
static bool same_own(jinja_text a, jinja_text b) {
    size_t i = 0, k = 0;
    for (;; i++, k++) {
        while (i < a.n && !(a.at[i] & JINJA_FROM_MESSAGE)) i++;
        while (k < b.n && !(b.at[k] & JINJA_FROM_MESSAGE)) k++;
        if (i == a.n || k == b.n) return i == a.n && k == b.n;
        if ((a.at[i] ^ b.at[k]) & JINJA_CODE) return false;
    }
}

/*
 * Marks an answer whose form in the whole conversation differs from the form that the template writes for a last
 * message (`answered`, whose own characters end at `end`). If only the template's own text differs (a block for
 * thinking that only a last answer gets), the answer is learnt in the form of the whole conversation. If the message's
 * own text differs (its reasoning is removed), nothing of it is learnt, because a model never generates the changed
 * text at this place.
 */
static ls_status mark_changed(conversation *c, size_t i, jinja_text prompt, jinja_text answered, size_t end,
                              jinja_char *whole, size_t n, ls_arena *arena) {
    jinja_text marked;
    size_t first, last;
    LS_TRY(render(c, c->messages->n, i, false, arena, &marked));
    const bool same = marked.n == n && own_characters(marked, &first, &last) && same_own(answered, marked);
    const size_t from = same ? begin_of_answer(prompt, marked, first) : SIZE_MAX;
    if (from == SIZE_MAX) {
        c->left_out->changed++;
        return ls_ok();
    }
    c->left_out->reduced++;
    const size_t after = jinja_common_length(jinja_part(answered, end, answered.n), jinja_part(marked, last, marked.n));
    for (size_t k = from; k < last + after; k++) whole[k] |= JINJA_GENERATED;
    return ls_ok();
}

/*
 * Marks what is learnt of message i, an answer: from the end of its prompt on, as far as the whole conversation has the
 * same text.
 */
static ls_status mark_answer(conversation *c, size_t i, jinja_char *whole, size_t n, ls_arena *arena) {
    jinja_text prompt = {0}, answered = {whole, n};
    size_t first, end;
    LS_TRY(render(c, i, SIZE_MAX, true, arena, &prompt));
    if (i + 1 < c->messages->n) LS_TRY(render(c, i + 1, i, false, arena, &answered));
    const bool has_own = own_characters(answered, &first, &end);
    const size_t from = begin_of_answer(prompt, answered, has_own ? first : answered.n);
    const size_t to = jinja_common_length(answered, (jinja_text){whole, n});
    if (from == SIZE_MAX)
        return ls_error(LS_UNSUPPORTED,
                        "%s: messages[%zu]: template %s does not write this answer after its prompt "
                        "(add_generation_prompt), expected generation blocks in such a template",
                        c->json.file, i - c->first, c->chat->name);
    if (has_own && to < end) return mark_changed(c, i, prompt, answered, end, whole, n, arena);
    for (size_t k = from; k < to; k++) whole[k] |= JINJA_GENERATED;
    return ls_ok();
}

static ls_status mark_answers(conversation *c, jinja_char *whole, size_t n) {
    for (size_t i = c->first; i < c->messages->n; i++) {
        if (!has_role(c->messages->item[i], "assistant") || c->silent[i - c->first]) continue;
        ls_arena *arena = ls_arena_create();
        const ls_status status = mark_answer(c, i, whole, n, arena);
        ls_arena_destroy(arena);
        LS_TRY(status);
    }
    return ls_ok();
}

/*
 * Removes the marks of generation blocks from answers that are not learnt: from each run that holds text of such an
 * answer.
 */
static ls_status unmark_silent(const conversation *c, jinja_char *whole, size_t n) {
    int64_t found = 0;
    bool mixed = false;
    for (size_t from = 0, to; from < n; from = to) {
        bool silent = false, other = false;
        for (to = from; to < n && (whole[to] & JINJA_GENERATED); to++) {
            silent |= (whole[to] & SILENT) != 0;
            other |= (whole[to] & (JINJA_FROM_DATA | SILENT)) == JINJA_FROM_DATA;
        }
        for (size_t k = from; k < to && silent; k++) whole[k] &= ~JINJA_GENERATED;
        found += silent;
        mixed |= silent && other;
        to += to == from;
    }
    if (found >= c->left_out->silent && !mixed) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%s: template %s has no generation block of its own for the text of each message with weight 0, "
                    "expected one: what else is learnt cannot be told",
                    c->json.file, c->chat->name);
}

/* Removes these marks from the parts of answers that are not learnt according to their train_detail. */
static void unmark_detail(const conversation *c, jinja_char *whole, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!(whole[i] & UNLEARNT) || !(whole[i] & JINJA_GENERATED)) continue;
        whole[i] &= ~JINJA_GENERATED;
        c->left_out->detail++;
    }
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
    LS_ASSERT(to <= s->n);
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
 * Appends characters as marked text; those with the mark JINJA_GENERATED are learnt. generates: the marks are those of
 * the template's generation blocks, and are not changed.
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

static void count_unwritten(const conversation *c, jinja_text text) {
    c->left_out->unwritten += ls_max(0, c->contents - count_marked(text, CONTENT));
    c->left_out->thinking += ls_max(0, c->thinking - count_marked(text, THINKING));
}

/* A model cannot learn from values other than text here, and the text alone would be a different conversation. */
static ls_status refuse_media(ls_json_value record) {
    static const char *const names[] = {"images", "image", "videos", "video", "audios", "audio"};
    for (size_t i = 0; i < LS_COUNT(names); i++) {
        const ls_json_value value = ls_json_field(record, names[i]);
        if (!ls_json_has(record, names[i]) || (ls_json_is_array(value) && ls_json_count(value) == 0)) continue;
        return ls_json_error(value, "none: only texts are read");
    }
    return ls_ok();
}

static ls_status render_all(conversation *c, ls_json_value record, ls_marked_text *out) {
    jinja_text text = {0};
    bool learnt = false;
    LS_TRY(refuse_media(record));
    LS_TRY(find_messages(c, record));
    LS_TRY(find_variables(c, record));
    c->bytes = ls_arena_bytes(c->arena);
    for (size_t i = 0; i < ls_json_count(c->json); i++) c->left_out->silent += c->silent[i];
    /* The last answer is marked, because mark_answer uses the rendering of the whole conversation for it. */
    const size_t n = c->messages->n, last = n > c->first && !c->silent[n - 1 - c->first] ? n - 1 : SIZE_MAX;
    LS_TRY(render(c, n, last, false, c->arena, &text));
    count_unwritten(c, text);
    jinja_char *characters = ls_arena_copy(c->arena, text.at, text.n * sizeof *characters);
    LS_TRY(ls_jinja_generates(c->jinja) ? unmark_silent(c, characters, text.n) : mark_answers(c, characters, text.n));
    unmark_detail(c, characters, text.n);
    for (size_t i = 0; i < text.n && !learnt; i++) learnt = characters[i] & JINJA_GENERATED;
    if (!learnt) return ls_json_error(c->json, "a message of the assistant that is learnt: there is nothing to learn");
    return append_characters(c->chat, (jinja_text){characters, text.n}, ls_jinja_generates(c->jinja), out);
}

const char *const ls_chat_members[] = {"messages", "tools", "documents", "chat_template_kwargs", NULL};

/* Finds members that neither this file nor the template reads. */
static void find_unread(const ls_jinja *jinja, ls_json_value record, ls_unread *unread) {
    static const char *const of_message[] = {"role",   "content", "reasoning_content", "thinking", "reasoning",
                                             "weight", "train",   "train_detail",      NULL};
    const ls_json_value messages = ls_json_field(record, "messages");
    ls_unread found = {0};
    ls_unread_find(unread, record, ls_chat_members);
    for (size_t i = 0; i < ls_json_count(messages); i++) ls_unread_find(&found, ls_json_item(messages, i), of_message);
    for (int i = 0; i < found.n; i++)
        if (!ls_jinja_names(jinja, found.name[i])) ls_unread_add(unread, "messages[].", found.name[i]);
}

ls_status ls_chat_render(const ls_chat *chat, ls_json_value record, ls_marked_text *out, ls_left_out *left_out,
                         ls_unread *unread) {
    const ls_json_value given = ls_json_field(record, "tools");
    const bool tools = ls_json_has(record, "tools") && !(ls_json_is_text(given) && ls_json_plain_of(given).bytes == 0);
    conversation c = {.chat = chat,
                      .jinja = tools && chat->with_tools != NULL ? chat->with_tools : chat->jinja,
                      .arena = ls_arena_create(),
                      .left_out = left_out};
    const ls_status status = render_all(&c, record, out);
    ls_arena_destroy(c.arena);
    if (status.code == LS_OK) find_unread(c.jinja, record, unread);
    return status;
}
