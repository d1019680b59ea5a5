/* Text of ids one by one equals the text of all ids at once, also with decoders that change the ends of a text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/scratch.h"

#include "text/text.h"

#define VOCABULARY \
    "\"vocab\":{\"a\":0,\" \":1,\"  \":2,\" b\":3,\"c \":4,\"\xe2\x96\x81\":5,\"\xe2\x96\x81x\":6,\"</s>\":7}"
#define STRIP(start, stop) "{\"type\":\"Strip\",\"content\":\" \",\"start\":" start ",\"stop\":" stop "}"
#define FUSED(step) "{\"type\":\"Sequence\",\"decoders\":[{\"type\":\"Fuse\"}," step "]}"

static const char *const decoders[] = {
    FUSED(STRIP("1", "0")),
    FUSED(STRIP("2", "0")),
    FUSED(STRIP("5", "0")),
    FUSED(STRIP("0", "2")),
    FUSED(STRIP("3", "1")),
    STRIP("2", "1"),
    FUSED("{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"}," STRIP("2", "0")),
    "{\"type\":\"Metaspace\",\"replacement\":\"\xe2\x96\x81\",\"prepend_scheme\":\"always\",\"split\":true}",
};

static void compare(const ls_tokenizer *tokenizer, const char *decoder, const int32_t *ids, size_t n) {
    ls_token_stream *stream;
    ls_text whole = {0}, parts = {0};
    assert_ok(ls_tokenizer_decode(tokenizer, ids, n, &whole));
    assert_ok(ls_token_stream_create(tokenizer, &stream));
    for (size_t i = 0; i < n; i++) assert_ok(ls_token_stream_push(stream, ids[i], &parts));
    assert_ok(ls_token_stream_finish(stream, &parts));
    ls_token_stream_destroy(stream);
    if (parts.count != whole.count || (whole.count > 0 && memcmp(parts.byte, whole.byte, whole.count) != 0))
        fail_msg("%s: %zu ids are \"%.*s\" one by one, expected \"%.*s\"", decoder, n, (int)parts.count, parts.byte,
                 (int)whole.count, whole.byte);
    free(whole.byte);
    free(parts.byte);
}

static void says_what_all_ids_say(void **state) {
    for (size_t d = 0; d < LS_COUNT(decoders); d++) {
        char json[1024];
        ls_tokenizer *tokenizer = NULL;
        snprintf(json, sizeof json, "{\"decoder\":%s,\"model\":{\"type\":\"BPE\"," VOCABULARY ",\"merges\":[]}}",
                 decoders[d]);
        scratch_text(state, "tokenizer.json", json);
        assert_ok(ls_tokenizer_open(*state, &tokenizer));
        uint32_t drawn = 1;
        for (size_t n = 0; n < 400; n++) {
            int32_t ids[12];
            for (size_t i = 0; i < n % 13; i++) {
                drawn = drawn * 1664525 + 1013904223;
                ids[i] = n % 2 ? (int32_t)(drawn >> 29) % 7 : 1 + (int32_t)(drawn >> 30) % 2; /* every other: spaces */
            }
            compare(tokenizer, decoders[d], ids, n % 13);
        }
        ls_tokenizer_close(tokenizer);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(says_what_all_ids_say)};
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
