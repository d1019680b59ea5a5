/* Conversations, and prompts with answers: their texts, and which tokens are learnt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/data.h"

#include "data/chat_impl.h"

static ls_tokenizer *tokenizer;
static ls_build_summary built; /* of the last build_line that succeeded */

static int make(void **state) {
    tokenizer = bytes_tokenizer();
    return scratch_make(state);
}

static int unmake(void **state) {
    ls_tokenizer_close(tokenizer);
    return scratch_remove(state);
}

/* Builds one line of records; its text as tokens, with what is learnt in braces and the end of document as a dot. */
static ls_status build_line(void **state, const char *records, const char *chat, const char *line, char *out) {
    char file[600];
    snprintf(file, sizeof file, "%s", scratch_text(state, "line.jsonl", line));
    const char *paths[] = {file};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "one"));
    options.form.records = records;
    options.form.chat = chat;
    LS_TRY(ls_file_remove_tree(options.out));
    LS_TRY(ls_shards_build(&options, &built));
    ls_shard_set set = {0};
    LS_TRY(ls_shard_set_add(&set, options.out));
    const ls_shard *s = &set.shard[0];
    bool inside = false;
    for (uint64_t i = 0; i <= s->header->tokens; i++) {
        const bool learnt = i < s->header->tokens && (s->learnt[i / 64] >> i % 64 & 1);
        if (learnt != inside) *out++ = learnt ? '{' : '}';
        inside = learnt;
        int32_t id = 0;
        if (i < s->header->tokens) ls_tokens_widen(s->tokens, (int)s->header->width, (int64_t)i, 1, &id);
        *out++ = i == s->header->tokens ? 0 : id == 0 ? '.' : (char)id;
    }
    ls_shard_set_close(&set);
    return ls_ok();
}

#define MESSAGES "{\"messages\": ["
#define SYSTEM "{\"role\": \"system\", \"content\": \"Be brief. \"}, "
#define USER "{\"role\": \"user\", \"content\": \" Hi\"}"
#define TALK                                                                                             \
    USER ", {\"role\": \"assistant\", \"content\": \"Ho \"}, {\"role\": \"user\", \"content\": \"A\"}, " \
         "{\"role\": \"assistant\", \"content\": \"B\"}]}"

static void renders_each_template(void **state) {
    static const struct {
        const char *chat, *line, *expected;
    } cases[] = {
        {"chatml", MESSAGES SYSTEM TALK,
         "<|im_start|>system\nBe brief. <|im_end|>\n<|im_start|>user\n Hi<|im_end|>\n<|im_start|>assistant\n{Ho <|im_end|>}\n"
         "<|im_start|>user\nA<|im_end|>\n<|im_start|>assistant\n{B<|im_end|>}\n."},
        {"llama3", MESSAGES SYSTEM TALK,
         "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n{Ho<|eot_id|>}<|start_header_id|>user<|end_header_id|>\n\nA<|eot_id|>"
         "<|start_header_id|>assistant<|end_header_id|>\n\n{B<|eot_id|>}."},
        {"gemma", MESSAGES TALK,
         "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\n{Ho<end_of_turn>}\n<start_of_turn>user\nA<end_of_turn>\n"
         "<start_of_turn>model\n{B<end_of_turn>}\n."},
        {"llama2", MESSAGES SYSTEM TALK,
         "<s>[INST] <<SYS>>\nBe brief. \n<</SYS>>\n\n Hi [/INST] {Ho </s>}<s>[INST] A [/INST] {B </s>}."},
        {"llama2", MESSAGES TALK, "<s>[INST] Hi [/INST] {Ho </s>}<s>[INST] A [/INST] {B </s>}."},
        {"mistral", MESSAGES TALK, "<s>[INST]  Hi [/INST]{Ho </s>}[INST] A [/INST]{B</s>}."},
    };
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        char text[2000];
        assert_ok(build_line(state, "messages", cases[i].chat, cases[i].line, text));
        assert_string_equal(text, cases[i].expected);
    }
    char text[2000];
    assert_ok(build_line(state, "completion", NULL, "{\"prompt\": \"2 + 2 =\", \"completion\": \" 4\"}", text));
    assert_string_equal(text, "2 + 2 ={ 4.}");
}

static void refuses_other_conversations(void **state) {
    static const struct {
        const char *chat, *line, *word;
    } cases[] = {
        {"gemma", MESSAGES SYSTEM TALK,
         "gemma:1: the template refuses: role is system, expected one of user, assistant"},
        {"mistral", MESSAGES USER ", " USER "]}", "role is user, expected assistant: they take turns"},
        {"llama2", MESSAGES "{\"role\": \"assistant\", \"content\": \"x\"}]}", "expected user"},
        {"chatml", MESSAGES USER "]}", "there is nothing to learn"},
        {"chatml", MESSAGES "]}", "there is nothing to learn"},
        {"chatml", MESSAGES "{\"role\": \"tool\", \"content\": \"x\"}]}", "role is tool"},
        {"chatml", MESSAGES "{\"role\": \"user\", \"content\": [1]}]}", "content of user is no text"},
        {"chatml", MESSAGES "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{}]}]}",
         "calls of tools are not supported"},
        {"chatml", "{\"tools\": [{}], \"messages\": [" USER "]}", "tools are not supported"},
        {"llama3.1", MESSAGES USER ", {\"role\": \"system\", \"content\": \"x\"}]}", "the system comes first"},
        {"chatml", MESSAGES "7]}", "expected an object"},
        {"chatml", "{\"messages\": \"x\"}", "messages is \"x\""},
        {"chatml", "{}", "messages is missing"},
    };
    char text[2000];
    for (size_t i = 0; i < LS_COUNT(cases); i++)
        assert_error(build_line(state, "messages", cases[i].chat, cases[i].line, text), LS_INVALID, "line.jsonl:1",
                     cases[i].word);
    assert_error(build_line(state, "completion", NULL, "{\"prompt\": \"x\"}", text), LS_INVALID, "line.jsonl:1",
                 "completion is missing");
    assert_error(build_line(state, "messages", "vicuna", MESSAGES TALK, text), LS_USAGE, "--template is 'vicuna'",
                 "chatml, llama3");
    assert_error(build_line(state, "messages", NULL, MESSAGES TALK, text), LS_USAGE, "--template is missing", "chatml");
    assert_error(build_line(state, "songs", NULL, MESSAGES TALK, text), LS_USAGE, "--records is 'songs'",
                 "completion, messages");
}

/* What a template of one's own makes of a conversation: learnt in braces. */
static void assert_made(void **state, const char *jinja, const char *line, const char *expected) {
    char text[4000];
    assert_ok(build_line(state, "messages", scratch_text(state, "own.jinja", jinja), line, text));
    assert_string_equal(text, expected);
}

static void learns_what_a_template_writes_for_an_answer(void **state) {
    static const char plain[] = "{% for m in messages %}{{ m.role | upper }}: {{ m.content | trim }}\n{% endfor %}"
                                "{% if add_generation_prompt %}ASSISTANT:{% endif %}";
    assert_made(state, plain, MESSAGES SYSTEM TALK,
                "SYSTEM: Be brief.\nUSER: Hi\nASSISTANT:{ Ho\n}USER: A\nASSISTANT:{ B\n}.");
    /* Where the prompt says more than the answer has, it ends at the answer's own text. */
    assert_made(state,
                "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}{% endfor %}"
                "{% if add_generation_prompt %}[a]Ho, think{% endif %}",
                MESSAGES TALK, "[u] Hi[a]{Ho }[u]A[a]{B}.");
    /* What it writes otherwise once the conversation goes on is not learnt there. */
    assert_made(state,
                "{% for m in messages %}[{{ m.role[0] }}]{{ '!' ~ m.content if loop.last else m.content | upper }}"
                "{% endfor %}{% if add_generation_prompt %}[a]{% endif %}",
                MESSAGES TALK, "[u] HI[a]HO [u]A[a]{!B}.");
    /* A prompt that has more in the last message of the user. */
    assert_made(state,
                "{% for m in messages %}{% if m.role == 'user' %}[I]{{ 'more ' if loop.last }}{{ m.content }}[/I]"
                "{% else %}{{ m.content }}.{% endif %}{% endfor %}",
                MESSAGES TALK, "[I] Hi[/I]{Ho .}[I]A[/I]{B.}.");
    char text[400];
    assert_error(
        build_line(state, "messages",
                   scratch_text(state, "own.jinja",
                                "{% for m in messages %}{{ m.content }}{{ ')' if loop.last else '(' }}{% endfor %}"),
                   MESSAGES TALK, text),
        LS_UNSUPPORTED, "line.jsonl:1: messages[1]", "expected generation blocks");
    assert_made(state,
                "{% for m in messages %}[{% if m.role == 'assistant' %}{% generation %}{{ m.content }}]"
                "{% endgeneration %}{% else %}{{ m.content }}]{% endif %}{% endfor %}",
                MESSAGES TALK, "[ Hi][{Ho ]}[A][{B]}.");
}

#define WEIGHED(more)                                                     \
    MESSAGES USER ", {\"role\": \"assistant\", \"content\": \"Ho \"" more \
                  "}, {\"role\": \"user\", \"content\": \"A\"}, "         \
                  "{\"role\": \"assistant\", \"content\": \"B\"}]}"

/* "weight" 0 and "train" false take an answer out of what is learnt, with generation blocks and without. */
static void an_answer_may_be_context_only(void **state) {
    static const char plain[] = "{% for m in messages %}[{{ m.role[0] }}]{{ m.content }}{% endfor %}"
                                "{% if add_generation_prompt %}[a]{% endif %}";
    static const char blocks[] =
        "{% for m in messages %}[{{ m.role[0] }}]{% if m.role == 'assistant' %}{% generation %}"
        "{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}";
    static const char *const silent[] = {WEIGHED(", \"weight\": 0"), WEIGHED(", \"train\": false"),
                                         WEIGHED(", \"weight\": 0.0, \"train\": true")};
    for (size_t i = 0; i < LS_COUNT(silent); i++) {
        assert_made(state, plain, silent[i], "[u] Hi[a]Ho [u]A[a]{B}.");
        assert_int_equal(built.left_out.silent, 1);
        assert_made(state, blocks, silent[i], "[u] Hi[a]Ho [u]A[a]{B}.");
        assert_int_equal(built.left_out.silent, 1);
        assert_int_equal(built.learnt, 1);
    }
    assert_made(state, blocks, WEIGHED(", \"weight\": 1, \"train\": true"), "[u] Hi[a]{Ho }[u]A[a]{B}.");
    assert_int_equal(built.left_out.silent, 0);
    static const struct {
        const char *line, *word;
    } refused[] = {
        {WEIGHED(", \"weight\": 0.5"), "messages[1].weight is 0.5, expected 0 or 1"},
        {WEIGHED(", \"weight\": \"0\""), "messages[1].weight is \"0\""},
        {WEIGHED(", \"train\": 0"), "messages[1].train is 0"},
        {MESSAGES "{\"role\": \"user\", \"content\": \"x\", \"weight\": 1}]}", "messages[0].weight is 1"},
        {MESSAGES USER ", {\"role\": \"assistant\", \"content\": \"x\", \"weight\": 0}]}", "there is nothing to learn"},
    };
    char text[400];
    for (size_t i = 0; i < LS_COUNT(refused); i++)
        assert_error(build_line(state, "messages", "chatml", refused[i].line, text), LS_INVALID, "line.jsonl:1",
                     refused[i].word);
    /* One block for two answers, of which one is not learnt. */
    assert_error(build_line(state, "messages",
                            scratch_text(state, "own.jinja",
                                         "{% generation %}{% for m in messages %}{{ m.content }}{% endfor %}"
                                         "{% endgeneration %}"),
                            silent[0], text),
                 LS_UNSUPPORTED, "line.jsonl:1", "generation block of its own");
}

/* A template that writes a block for thinking before the last answer only, as Qwen3's does. */
#define THINKING                                                                                                        \
    "{% for m in messages %}<{{ m.role }}>{% if m.role == 'assistant' and loop.last %}<think>{{ m.reasoning_content }}" \
    "</think>{% endif %}{% for t in m.tool_calls or [] %}[{{ t.name }}]{% endfor %}{{ m.content }};{% endfor %}"        \
    "{% if add_generation_prompt %}<assistant>{% endif %}"

static void calls_of_tools_are_learnt_without_the_last_block(void **state) {
    static const char line[] =
        MESSAGES USER ", {\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"name\": \"f\"}]}, "
                      "{\"role\": \"tool\", \"content\": \"7\"}, {\"role\": \"assistant\", \"content\": \"B\"}]}";
    assert_made(state, THINKING, line, "<user> Hi;<assistant>{[f];}<tool>7;<assistant>{<think></think>B;}.");
    assert_int_equal(built.left_out.reduced, 1);
    assert_int_equal(built.left_out.changed, 0);
}

/* What a template does not write is counted: reasoning, and contents. */
static void counts_what_a_template_leaves_out(void **state) {
    static const char line[] = MESSAGES USER
        ", {\"role\": \"assistant\", \"content\": \"Ho\", \"thinking\": \"h m\"}, {\"role\": \"user\", "
        "\"content\": \"A\"}, {\"role\": \"assistant\", \"content\": \"B\", \"reasoning_content\": \"xyz\"}]}";
    assert_made(state, THINKING, line, "<user> Hi;<assistant>Ho;<user>A;<assistant>{<think>xyz</think>B;}.");
    assert_int_equal(built.left_out.thinking, 2);
    assert_int_equal(built.left_out.changed, 1);
    assert_int_equal(built.left_out.unwritten, 0);
    assert_made(state,
                "{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
                "{% endgeneration %}{% endif %}{% endfor %}",
                line, "{HoB}.");
    assert_int_equal(built.left_out.thinking, 5);
    assert_int_equal(built.left_out.unwritten, 3);
}

/* Without generation blocks each answer is rendered for itself: so many that it would take minutes are refused. */
static void refuses_what_takes_no_end_of_time(void **state) {
    enum { TURNS = 4000 };
    static const char jinja[] = "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}";
    char *line = malloc((size_t)TURNS * 60), *at = line, *text = malloc((size_t)TURNS * 60);
    at += sprintf(at, MESSAGES);
    for (int i = 0; i < TURNS; i++)
        at += sprintf(at, "%s{\"role\": \"%s\", \"content\": \"x\"}", i > 0 ? "," : "", i % 2 ? "assistant" : "user");
    sprintf(at, "]}");
    const ls_status status = build_line(state, "messages", scratch_text(state, "own.jinja", jinja), line, text);
    assert_error(status, LS_INVALID, "to find what is learnt", "steps");
    free(text);
    free(line);
}

static void gives_a_template_what_a_record_has(void **state) {
    assert_made(state,
                "{{ tools | tojson }}{{ documents is none }}{{ more }}{% for m in messages %}"
                "{% generation %}{{ m.tool_calls[0].function.name }}{{ m.content is defined }}{{ m.thinking }}"
                "{{ m.reasoning_content }}{% endgeneration %}{% endfor %}",
                "{\"tools\": [{\"a\": 1}], \"chat_template_kwargs\": {\"more\": \"m\"}, \"messages\": [{\"role\": "
                "\"assistant\", \"content\": null, \"reasoning\": \"hm\", \"tool_calls\": [{\"function\": {\"name\": "
                "\"f\"}}]}]}",
                "[{\"a\": 1}]Truem{fFalsehmhm}.");
}

static ls_status open_chat(void **state, const char *name, const char *system, const char *today, ls_chat *out) {
    const ls_chat_options options = {.name = name, .folder = *state, .system = system, .today = today};
    return ls_chat_open(tokenizer, &options, out);
}

static void finds_the_template_of_a_folder(void **state) {
    ls_chat chat;
    scratch_text(state, "tokenizer_config.json", "{}");
    assert_error(open_chat(state, NULL, NULL, NULL, &chat), LS_INVALID, "tokenizer_config.json",
                 "chat_template is missing");
    scratch_text(state, "tokenizer_config.json", "{\"chat_template\": \"{% include 'x' %}\"}");
    assert_error(open_chat(state, NULL, NULL, NULL, &chat), LS_UNSUPPORTED, "tokenizer_config.json",
                 "block 'include' is not supported");
    scratch_text(
        state, "tokenizer_config.json",
        "{\"bos_token\": \"<s>\", \"eos_token\": {\"content\": \"</s>\"}, \"chat_template\": ["
        "{\"name\": \"tool_use\", \"template\": \"t\"}, {\"name\": \"default\", \"template\": \"{{ eos_token }}\"}]}");
    assert_ok(open_chat(state, NULL, NULL, NULL, &chat));
    assert_non_null(chat.with_tools);
    assert_string_equal(chat.token[0], "<s>");
    assert_string_equal(chat.token[1], "</s>");
    ls_chat_close(&chat);
    assert_ok(open_chat(state, "tool_use", NULL, NULL, &chat));
    assert_null(chat.with_tools);
    ls_chat_close(&chat);
    scratch_text(state, "chat_template.jinja", "{{ messages[0].content }}{{ strftime_now('%Y') }}");
    assert_ok(open_chat(state, NULL, NULL, "2031-02-03", &chat));
    assert_non_null(strstr(chat.name, "chat_template.jinja"));
    assert_int_equal(chat.today.tm_year, 131);
    assert_int_equal(chat.today.tm_wday, 1);
    ls_chat_close(&chat);
    assert_error(open_chat(state, NULL, NULL, "yesterday", &chat), LS_USAGE, "--today is 'yesterday'", "2025-07-09");
    assert_error(open_chat(state, "gemma", "Be kind.", NULL, &chat), LS_USAGE, "--system is given", "template gemma");
    assert_ok(open_chat(state, "chatml", "Be kind.", NULL, &chat));
    assert_string_equal(chat.system, "Be kind.");
    ls_chat_close(&chat);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_each_template),
        cmocka_unit_test(refuses_other_conversations),
        cmocka_unit_test(learns_what_a_template_writes_for_an_answer),
        cmocka_unit_test(an_answer_may_be_context_only),
        cmocka_unit_test(calls_of_tools_are_learnt_without_the_last_block),
        cmocka_unit_test(counts_what_a_template_leaves_out),
        cmocka_unit_test(refuses_what_takes_no_end_of_time),
        cmocka_unit_test(gives_a_template_what_a_record_has),
        cmocka_unit_test(finds_the_template_of_a_folder),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
