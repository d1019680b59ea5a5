/* Conversations and prompts with their answers: what they become, and what of it is learnt. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "test_data_support.h"

#include "data/chat.h"

static ls_tokenizer *tokenizer;

static int make(void **state) {
    tokenizer = bytes_tokenizer();
    return scratch_make(state);
}

static int unmake(void **state) {
    ls_tokenizer_close(tokenizer);
    return scratch_remove(state);
}

/* Builds one line of records; its text as tokens, with what is learnt in braces and the end of document as a dot. */
static ls_status build_line(void **state, const char *records, const char *chat, const char *line,
                            char *out) {
    char file[600];
    snprintf(file, sizeof file, "%s", scratch_text(state, "line.jsonl", line));
    const char *paths[] = {file};
    ls_build_options options = build_options(tokenizer, paths, 1, scratch_path(state, "one"));
    ls_build_summary summary;
    options.form.records = records;
    options.form.chat = chat;
    LS_TRY(ls_file_remove_tree(options.out));
    LS_TRY(ls_shards_build(&options, &summary));
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
    assert_ok(
        build_line(state, "completion", NULL, "{\"prompt\": \"2 + 2 =\", \"completion\": \" 4\"}", text));
    assert_string_equal(text, "2 + 2 ={ 4.}");
}

static void refuses_other_conversations(void **state) {
    static const struct {
        const char *chat, *line, *word;
    } cases[] = {
        {"gemma", MESSAGES SYSTEM TALK, "messages[0].role is \"system\", expected user or assistant"},
        {"mistral", MESSAGES USER ", " USER "]}", "messages[1].role is \"user\", expected assistant"},
        {"llama2", MESSAGES "{\"role\": \"assistant\", \"content\": \"x\"}]}", "expected user"},
        {"chatml", MESSAGES USER "]}", "message of the assistant"},
        {"chatml", MESSAGES "]}", "message of the assistant"},
        {"chatml", MESSAGES "{\"role\": \"tool\", \"content\": \"x\"}]}", "messages[0].role is \"tool\""},
        {"chatml", MESSAGES "{\"role\": \"user\", \"content\": [1]}]}", "content"},
        {"chatml", MESSAGES "{\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{}]}]}",
         "calls of tools are not supported"},
        {"chatml", "{\"tools\": [{}], \"messages\": []}", "tools are not supported"},
        {"llama3.1", MESSAGES USER ", {\"role\": \"system\", \"content\": \"x\"}]}",
         "the system comes first"},
        {"chatml", MESSAGES "7]}", "expected an object"},
        {"chatml", "{\"messages\": \"x\"}", "messages is \"x\""},
        {"chatml", "{}", "messages is missing"},
    };
    char text[2000];
    for (size_t i = 0; i < LS_COUNT(cases); i++)
        assert_error(build_line(state, "messages", cases[i].chat, cases[i].line, text), LS_INVALID,
                     "line.jsonl:1", cases[i].word);
    assert_error(build_line(state, "completion", NULL, "{\"prompt\": \"x\"}", text), LS_INVALID,
                 "line.jsonl:1", "completion is missing");
    assert_error(build_line(state, "messages", "vicuna", MESSAGES TALK, text), LS_USAGE,
                 "--template is 'vicuna'", "chatml, llama3");
    assert_error(build_line(state, "messages", NULL, MESSAGES TALK, text), LS_USAGE, "--template is missing",
                 "chatml");
    assert_error(build_line(state, "songs", NULL, MESSAGES TALK, text), LS_USAGE, "--records is 'songs'",
                 "completion, messages");
}

static void recognises_a_folder(void **state) {
    static const struct {
        const char *config, *name, *system;
        bool begins;
    } cases[] = {
        {"{\"chat_template\": \"{{ '<|im_start|>' + m.role }}\"}", "chatml", NULL, false},
        {"{\"chat_template\": \"{{ bos_token }}{{ '<|im_start|>' + m.role }}\"}", "chatml", NULL, true},
        {"{\"chat_template\": \"{{ '<|im_start|>system\\nBe good.<|im_end|>' }}\"}", "chatml", "Be good.",
         false},
        {"{\"chat_template\": \"{{ '<|im_start|>system\\n' + c }}{{ '<|im_start|>system\\\\nBe good.<|im_end|>' }}\"}",
         "chatml", "Be good.", false},
        {"{\"chat_template\": \"{{ '<|start_header_id|>' }}\"}", "llama3", NULL, false},
        {"{\"chat_template\": \"{{ '<|start_header_id|>Cutting Knowledge Date' }}\"}", "llama3.1", "", false},
        {"{\"chat_template\": \"{{ bos_token }}[INST] <<SYS>>\"}", "llama2", NULL, false},
        {"{\"chat_template\": \"{{ bos_token }}[INST] x\"}", "mistral", NULL, false},
        {"{\"chat_template\": \"{{ bos_token }}[INST] [AVAILABLE_TOOLS]\"}", "mistral-v3", NULL, false},
        {"{\"chat_template\": \"{{ bos_token }}<start_of_turn> first_user_prefix\"}", "gemma3", NULL, false},
        {"{\"chat_template\": [{\"name\": \"tools\", \"template\": \"x\"}, {\"name\": \"default\", \"template\": \"<start_of_turn>\"}]}",
         "gemma", NULL, false},
    };
    ls_chat found;
    for (size_t i = 0; i < LS_COUNT(cases); i++) {
        scratch_text(state, "tokenizer_config.json", cases[i].config);
        assert_ok(ls_chat_open(tokenizer, "auto", *state, NULL, &found));
        assert_string_equal(found.form->name, cases[i].name);
        if (cases[i].system == NULL) assert_null(found.system);
        if (cases[i].system != NULL) assert_string_equal(found.system, cases[i].system);
        assert_int_equal(found.begin_of_folder, cases[i].begins);
        ls_chat_close(&found);
    }
    scratch_text(state, "tokenizer_config.json", "{\"chat_template\": \"### Human:\"}");
    assert_error(ls_chat_open(tokenizer, NULL, *state, NULL, &found), LS_UNSUPPORTED, "tokenizer_config.json",
                 "none of the known kinds");
    scratch_text(state, "tokenizer_config.json", "{}");
    assert_error(ls_chat_open(tokenizer, NULL, *state, NULL, &found), LS_INVALID, "tokenizer_config.json",
                 "chat_template is missing");
    scratch_text(state, "chat_template.jinja", "<|im_start|>");
    assert_ok(ls_chat_open(tokenizer, NULL, *state, "Be kind.", &found));
    assert_string_equal(found.form->name, "chatml");
    assert_string_equal(found.system, "Be kind.");
    ls_chat_close(&found);
    assert_error(ls_chat_open(tokenizer, "gemma", NULL, "Be kind.", &found), LS_USAGE, "--system is given",
                 "template gemma");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_each_template),
        cmocka_unit_test(refuses_other_conversations),
        cmocka_unit_test(recognises_a_folder),
    };
    return cmocka_run_group_tests(tests, make, unmake);
}
