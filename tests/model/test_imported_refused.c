/*
 * Files that are refused: a small graph.json with one mistake after the other, and the exact line that each gets. Files
 * that no small change makes are below: long lists, deep chains, names that are too long, a byte 0.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/model.h"
#include "support/scratch.h"
#include "support/small_graph.h"

typedef struct mistake {
    const char *from, *to, *line;
} mistake;

static const mistake mistakes[] = {
    {"\"version\": 1", "\"version\": 2", "graph.json: version is 2, expected 1"},
    {"\"made_by\": \"test\"", "\"made_by\": 4", "graph.json: made_by is 4, expected a text"},
    {"\"dtype\": \"f32\", \"tokens\"", "\"dtype\": \"f8\", \"tokens\"",
     "graph.json: dtype is \"f8\", expected f32 or f64 or f16 or bf16"},
    {"\"tokens\": \"ids\"", "\"tokens\": \"idz\"", "graph.json: tokens is \"idz\", expected the name of an input"},
    {"\"documents\": true", "\"documents\": 1", "graph.json: documents is 1, expected true or false"},
    {"\"documents\": true", "\"documents\": {\"input\": \"mask\", \"is\": \"tokens\"}",
     "graph.json: documents.is is \"tokens\", expected numbers or padding or first or last"},
    {"\"documents\": true", "\"documents\": {\"input\": \"ids\", \"is\": \"first\"}",
     "graph.json: documents.number is missing, expected an integer from -2147483648 to 2147483647"},
    {"\"documents\": true", "\"documents\": {\"input\": \"ids\", \"is\": \"padding\"}",
     "graph.json: documents.is is \"padding\", expected first or last, as the input is the tokens"},
    {"\"documents\": true", "\"documents\": {\"is\": \"padding\"}",
     "graph.json: documents.input is missing, expected a text"},
    {"\"documents\": true", "\"documents\": {\"input\": \"mask\", \"is\": \"padding\", \"ignored\": 1}",
     "graph.json: documents.ignored is 1, expected true or false"},
    {"\"documents\": true", "\"documents\": {\"of\": \"mask\"}",
     "graph.json: documents.of is \"mask\", expected no such field; known are input is number ignored"},
    {"\"documents\": true", "\"documents\": false",
     "graph.json: nodes[6].mask has the term documents, expected none, as documents is false "
     "(attention at model.py:20: o = attention(q, q, r))"},
    {"\"constants\": []", "\"constants\": [{\"name\": \"c\"}]",
     "graph.json: constants is an array of 1, expected an empty array: constants are frozen parameters"},
    {"\"constants\": []", "\"constant\": []",
     "graph.json: constant is an array of 0, expected no such field; known are format version made_by "
     "dtype tokens inputs parameters constants nodes loss mean_over logits sources documents"},
    {"{\"name\": \"ids\", \"dtype\": \"i32\"}", "{\"name\": \"ids\", \"dtype\": \"i64\"}",
     "graph.json: inputs[0].dtype is \"i64\", expected i32 or f32"},
    {"{\"name\": \"ids\", \"dtype\": \"i32\"}", "{\"name\": \"ids\", \"dtype\": \"i32\", \"is\": \"labels\"}",
     "graph.json: inputs[0].is is \"labels\", expected nothing: it is the tokens"},
    {"{\"name\": \"ids\", \"dtype\": \"i32\"}", "{\"name\": \"ids\", \"dtype\": \"i32\", \"shift\": 1}",
     "graph.json: inputs[0].shift is 1, expected an input that is labels"},
    {"\"is\": \"labels\", \"shift\": 1", "\"is\": \"labels\", \"shift\": 2",
     "graph.json: inputs[1].shift is 2, expected an integer from 0 to 1"},
    {"\"is\": \"positions\"", "\"is\": \"labels\"",
     "graph.json: inputs[2].is is \"labels\", expected one input that is labels"},
    {"\"is\": \"positions\"", "\"is\": \"weights\"",
     "graph.json: inputs[2].is is \"weights\", expected labels or positions"},
    {"\"name\": \"places\"", "\"name\": \"ids\"",
     "graph.json: inputs[2].name is \"ids\", expected a name that no tensor has yet"},
    {"{\"name\": \"importance\", \"dtype\": \"f32\"}", "{\"name\": \"labels\", \"dtype\": \"f32\"}",
     "graph.json: inputs[3].name is \"labels\", expected another name, or \"is\" for what it is"},
    {"{\"name\": \"importance\", \"dtype\": \"f32\"}",
     "{\"name\": \"importance\", \"dtype\": \"f32\"}, {\"name\": \"unread\", \"dtype\": \"f32\"}",
     "graph.json: inputs[4].name is \"unread\", expected an input that the loss depends on"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": [0]",
     "graph.json: parameters[1].shape[0] is 0, expected an integer from 1 to 1099511627776"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": [1099511627776, 1099511627776]",
     "graph.json: parameters[1].shape is an array of 2, expected at most 2^48 elements"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": [8, 1e400]",
     "graph.json: not valid JSON, line 8 column 33: real number overflow near '1e400'"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": \"8\"",
     "graph.json: parameters[1].shape is \"8\", expected an array"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": [8, 8, 8, 8, 8, 8, 8]",
     "graph.json: parameters[1].shape is an array of 7, expected an array of 1 to 6"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": [9]",
     "graph.json: nodes[1]: op rmsnorm: input 1 \"norm\" is f32[9], expected a weight [8] (rmsnorm at "
     "model.py:13: h = self.norm(x))"},
    {"\"name\": \"norm\", \"shape\": [8]", "\"name\": \"norm\", \"shape\": [8], \"trained\": true",
     "graph.json: parameters[1].trained is true, expected no such field; known are name shape frozen "
     "buffer also"},
    {"\"name\": \"norm\"", "\"name\": \"table\"",
     "graph.json: parameters[1].name is \"table\", expected a name that no tensor has yet"},
    {"\"also\": [\"head\"]", "\"also\": [\"norm\", \"head\"]",
     "graph.json: parameters[1].name is \"norm\", expected a name that no tensor has yet"},
    {"\"also\": [\"head\"]", "\"also\": [\"head\", \"head\"]",
     "graph.json: parameters[0].also[1] is \"head\", expected a name that no tensor has yet"},
    {"\"also\": [\"head\"]", "\"also\": [\"\"]",
     "graph.json: parameters[0].also[0] is \"\", expected a name of 1 to 200 bytes"},
    {"\"frozen\": true, \"buffer\": true", "\"frozen\": false, \"buffer\": true",
     "graph.json: parameters[3].frozen is false, expected true, as it is a buffer"},
    {"\"name\": \"bias\", \"shape\": [8], \"frozen\": true", "\"name\": \"bias\", \"shape\": [8], \"frozen\": \"yes\"",
     "graph.json: parameters[3].frozen is \"yes\", expected true or false"},
    {"\"shape\": [8], \"frozen\": true, \"buffer\": true}",
     "\"shape\": [8], \"frozen\": true}, {\"name\": \"spare\", \"shape\": [2]}",
     "graph.json: parameters[4].name is \"spare\", expected a parameter that the loss depends on"},
    {"\"op\": \"embedding\"", "\"op\": \"gather\"",
     "graph.json: nodes[0].op is \"gather\", expected embedding linear linear_transposed linear_wide "
     "rmsnorm gated_norm layernorm rope_table rotate attention swiglu gelu gelu_tanh relu silu softcap add mul "
     "scale cast shift conv recurrence reshape cross_entropy sum split slice concat permute iota reduce softmax "
     "contract take_along topk map"},
    {"\"op\": \"embedding\"", "\"op\": 7", "graph.json: nodes[0].op is 7, expected a text"},
    {"\"in\": [\"ids\", \"table\"]", "\"in\": [\"ids\"]",
     "graph.json: nodes[0].in is an array of 1, expected an array of 2 (embedding at model.py:12: x = "
     "self.embed(ids))"},
    {"\"in\": [\"ids\", \"table\"]", "\"in\": [\"ids\", \"tables\"]",
     "graph.json: nodes[0].in[1] is \"tables\", expected an input, a parameter, or a result of an "
     "earlier node (embedding at model.py:12: x = self.embed(ids))"},
    {"\"in\": [\"ids\", \"table\"]", "\"in\": [\"y\", \"table\"]",
     "graph.json: nodes[0].in[0] is \"y\", expected an input, a parameter, or a result of an earlier "
     "node (embedding at model.py:12: x = self.embed(ids))"},
    {"\"in\": [\"ids\", \"table\"]", "\"in\": [\"ids\", null]",
     "graph.json: nodes[0].in[1] is null, expected a text (embedding at model.py:12: x = "
     "self.embed(ids))"},
    {"\"in\": [\"ids\", \"table\"]", "\"in\": [\"places\", \"table\"]",
     "graph.json: inputs[0].name is \"ids\", expected an input that the loss depends on"},
    {"\"in\": [\"ids\", \"table\"], \"out\": [\"x\"]", "\"in\": [\"ids\", \"table\"], \"out\": [\"x\", \"z\"]",
     "graph.json: nodes[0].out is an array of 2, expected an array of 1 (embedding at model.py:12: x "
     "= self.embed(ids))"},
    {"\"in\": [\"ids\", \"table\"], \"out\": [\"x\"]", "\"in\": [\"ids\", \"table\"], \"out\": [\"table\"]",
     "graph.json: nodes[0].out[0] is \"table\", expected a name that no tensor has yet (embedding at "
     "model.py:12: x = self.embed(ids))"},
    {"\"padding\": 0", "\"padding\": -1",
     "graph.json: nodes[0].padding is -1, expected an integer from 0 to 2147483647 (embedding at "
     "model.py:12: x = self.embed(ids))"},
    {"\"padding\": 0", "\"padding\": 32",
     "graph.json: nodes[0]: op embedding: the padding id 32; expected -1 (none) or less than 32 "
     "(embedding at model.py:12: x = self.embed(ids))"},
    {"\"padding\": 0", "\"pad\": 0",
     "graph.json: nodes[0].pad is 0, expected no such field; known are op in out at padding "
     "(embedding at model.py:12: x = self.embed(ids))"},
    {"\"epsilon\": 1e-6", "\"epsilon\": NaN",
     "graph.json: nodes[1].epsilon is NaN, expected a number from 0 to 1 (rmsnorm at model.py:13: h = "
     "self.norm(x))"},
    {"\"epsilon\": 1e-6", "\"epsilon\": \"small\"",
     "graph.json: nodes[1].epsilon is \"small\", expected a number from 0 to 1 (rmsnorm at model.py:13: "
     "h = self.norm(x))"},
    {"\"epsilon\": 1e-6, \"at\"", "\"at\"",
     "graph.json: nodes[1].epsilon is missing, expected a number from 0 to 1 (rmsnorm at model.py:13: "
     "h = self.norm(x))"},
    {"\"at\": 1", "\"at\": 3", "graph.json: nodes[1].at is 3, expected an integer from 0 to 2 (rmsnorm)"},
    {"\"size\": [\"B\", \"S\", 2, 4]", "\"size\": [\"B\", \"T\", 2, 4]",
     "graph.json: nodes[3].size[1] is \"T\", expected a number, \"B\" or \"S\" (reshape)"},
    {"\"size\": [\"B\", \"S\", 2, 4]", "\"size\": [\"S\", \"B\", 2, 4]",
     "graph.json: nodes[3]: op reshape: input 0 \"p\" is f32[2,16,8], expected a shape that keeps "
     "dimension 0 (the batch) whole (reshape)"},
    {"\"size\": [\"B\", \"S\", 2, 4]", "\"size\": [\"B\", \"S\", 2, 3]",
     "graph.json: nodes[3]: op reshape: input 0 \"p\" is f32[2,16,8], expected 192 elements (reshape)"},
    {"\"size\": [\"B\", \"S\", 2, 4]", "\"size\": [\"B\", \"S\", 2, 4294967296000]",
     "graph.json: nodes[3].size[3] is 4294967296000, expected an integer from 1 to 1099511627776 "
     "(reshape)"},
    {"\"D\": 4", "\"D\": 5", "graph.json: nodes[4]: op rope_table: head size 5, expected an even number (rope_table)"},
    {"\"theta\": 100", "\"theta\": 0", "graph.json: nodes[4].rope.theta is 0, expected a number above 0 (rope_table)"},
    {"\"theta\": 100", "\"theta\": 100, \"scaling\": \"ntk\", \"factor\": 2",
     "graph.json: nodes[4]: rope scaling \"ntk\" is not known, expected default, linear, dynamic, yarn, "
     "llama3 or longrope (rope_table)"},
    {"\"theta\": 100", "\"theta\": 100, \"base\": 2",
     "graph.json: nodes[4].rope.base is 2, expected no such field; known are theta scaling factor "
     "low_factor high_factor length beta_fast beta_slow original_length mscale mscale_all_dim "
     "untruncated attention_factor (rope_table)"},
    {"\"scale\": 0.5", "\"scale\": -0.5",
     "graph.json: nodes[6].scale is -0.5, expected a number above 0 (attention at model.py:20: o = "
     "attention(q, q, r))"},
    {"\"kind\": \"window\"", "\"kind\": \"block\"",
     "graph.json: nodes[6].mask[0].kind is \"block\", expected causal, window, prefix or documents "
     "(attention at model.py:20: o = attention(q, q, r))"},
    {"\"window\": 5, \"first\": 1", "\"window\": 5, \"last\": 1",
     "graph.json: nodes[6].mask[0].last is 1, expected no such field; known are kind window first "
     "(attention at model.py:20: o = attention(q, q, r))"},
    {"[{\"kind\": \"window\", \"window\": 5, \"first\": 1}, {\"kind\": \"documents\"}]", "{\"kind\": \"causal\"}",
     "graph.json: nodes[6].mask is an object, expected an array (attention at model.py:20: o = "
     "attention(q, q, r))"},
    {"\"cap\": 30", "\"cap\": 0", "graph.json: nodes[8].cap is 0, expected a number above 0 (softcap)"},
    {"\"dtype\": \"T\"", "\"dtype\": \"bf16\"",
     "graph.json: nodes[9].dtype is \"bf16\", expected T (f32 here) or G (f32) (cast)"},
    {"\"in\": [\"t\", \"x\"]", "\"in\": [\"t\", \"r\"]",
     "graph.json: nodes[10]: op add: input 1 \"r\" is f32[2,16,2,4], expected the type and shape of \"c\" "
     "(add)"},
    {"\"op\": \"add\"", "\"op\": \"map\"", "graph.json: nodes[10].program is missing, expected an array (map)"},
    {"\"op\": \"add\"", "\"op\": \"map\", \"program\": [[\"plus\", \"i0\", \"i1\"]]",
     "graph.json: nodes[10].program[0][0] is \"plus\", expected a kind of step of longspan/map.h (map)"},
    {"\"op\": \"add\"", "\"op\": \"map\", \"program\": [[\"add\", \"i0\"]]",
     "graph.json: nodes[10].program[0] is an array of 2, expected 2 operands (map)"},
    {"\"op\": \"add\"", "\"op\": \"map\", \"program\": [[\"add\", \"i0\", \"r0\"]]",
     "graph.json: nodes[10].program[0][2] is \"r0\", expected a number, \"i0\" to \"i6\", or \"r0\" to the step before (map)"},
    {"\"op\": \"add\"", "\"op\": \"map\", \"program\": [[\"add\", \"i0\", \"i2\"]]",
     "graph.json: nodes[10]: op map: input i2 of 2 inputs (map)"},
    {"\"op\": \"add\"", "\"op\": \"concat\", \"dim\": 0",
     "graph.json: nodes[10]: op join: input 0 \"c\" is f32[2,16,8], expected a dimension 0 that is neither batch nor "
     "sequence (concat)"},
    {"\"op\": \"add\"", "\"op\": \"contract\", \"equation\": \"bqe,bke->bqk\"",
     "graph.json: nodes[10]: op contract: \"bqe,bke->bqk\": it would multiply different tokens (contract)"},
    {"\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"",
     "\"op\": \"permute\", \"in\": [\"c\"], \"out\": [\"t\"], \"order\": [0, 1]",
     "graph.json: nodes[9]: op permute: an order of 2 for 3 dimensions (permute)"},
    {"\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"",
     "\"op\": \"permute\", \"in\": [\"c\"], \"out\": [\"t\"], \"order\": [0, 1, 3]",
     "graph.json: nodes[9].order[2] is 3, expected an integer from 0 to 2 (permute)"},
    {"\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"",
     "\"op\": \"softmax\", \"in\": [\"c\"], \"out\": [\"t\"], \"dim\": 1",
     "graph.json: nodes[9]: op softmax: dim is 1, expected the last one, 2 (softmax)"},
    {"\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"",
     "\"op\": \"reduce\", \"in\": [\"c\"], \"out\": [\"t\"], \"dims\": [2], \"kind\": \"least\"",
     "graph.json: nodes[9].kind is \"least\", expected sum, mean or max (reduce)"},
    {"\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"",
     "\"op\": \"reduce\", \"in\": [\"c\"], \"out\": [\"t\"], \"dims\": [2], \"kind\": \"max\", \"ties\": \"last\"",
     "graph.json: nodes[9].ties is \"last\", expected first or shared (reduce)"},
    {"\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"",
     "\"op\": \"reduce\", \"in\": [\"c\"], \"out\": [\"t\"], \"dims\": [2], \"kind\": \"sum\", \"ties\": \"first\"",
     "graph.json: nodes[9].ties is \"first\", expected nothing: the kind is no max (reduce)"},
    {"\"op\": \"linear_wide\"", "\"op\": \"linear_narrow\"",
     "graph.json: nodes[11].op is \"linear_narrow\", expected embedding linear linear_transposed "
     "linear_wide rmsnorm gated_norm layernorm rope_table rotate attention swiglu gelu gelu_tanh relu silu "
     "softcap add mul scale cast shift conv recurrence reshape cross_entropy sum split slice concat permute iota "
     "reduce softmax contract take_along topk map"},
    {"\"loss\": \"total\"", "\"loss\": \"totals\"", "graph.json: loss is \"totals\", expected the name of a tensor"},
    {"\"loss\": \"total\"", "\"loss\": \"ce\"",
     "graph.json: inputs[3].name is \"importance\", expected an input that the loss depends on"},
    {"\"mean_over\": \"labels\"", "\"mean_over\": \"batch\"",
     "graph.json: mean_over is \"batch\", expected labels or tokens"},
    {"\"mean_over\": \"labels\"", "\"mean_over\": 3", "graph.json: mean_over is 3, expected a text"},
    {"\"mean_over\": \"labels\"", "\"mean_over\": {\"product\": []}",
     "graph.json: mean_over.product is an array of 0, expected 1 to 4 inputs"},
    {"\"mean_over\": \"labels\"", "\"mean_over\": {\"product\": [{\"input\": \"ids\"}]}",
     "graph.json: mean_over.product[0].input is \"ids\", expected an input without a meaning of its own"},
    {"\"mean_over\": \"labels\"", "\"mean_over\": {\"product\": [{\"of\": \"ids\"}]}",
     "graph.json: mean_over.product[0].of is \"ids\", expected no such field; known are input shift"},
    {"\"mean_over\": \"labels\"", "\"mean_over\": {\"sum\": 1}",
     "graph.json: mean_over.sum is 1, expected no such field; known are product labels least plus"},
    {"\"logits\": \"scores\"", "\"logits\": \"y\", \"at\": 1",
     "graph.json: at is 1, expected no such field; known are format version made_by dtype tokens "
     "inputs parameters constants nodes loss mean_over logits sources documents"},
    {"\"logits\": \"scores\"", "\"logits\": \"r\"",
     "graph.json: logits is \"r\", f32[2,16,2,4], expected the result of a node, f32[B,S,V]"},
    {"\"line\": 12", "\"line\": \"12\"",
     "graph.json: sources[0].line is \"12\", expected an integer from 0 to 2147483647"},
    {"\"op\": \"sum\"", "\"op\": \"sum\", \"dims\": [0]",
     "graph.json: nodes[14].dims is an array of 1, expected no such field; known are op in out at "
     "(sum)"},
};

static ls_status open_graph(void **state, const char *text) {
    ls_model *model = NULL;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", (const char *)*state);
    (void)scratch_text(state, "graph.json", text);
    const ls_status status = ls_model_open(folder, &model);
    if (status.code == LS_OK) ls_model_close(model);
    return status;
}

/* The line without the folder of the test. */
static const char *line_of(void **state, const ls_status *status) {
    const size_t folder = strlen((const char *)*state) + 1;
    return strncmp(status->text, *state, folder - 1) == 0 ? status->text + folder : status->text;
}

static void test_mistakes(void **state) {
    assert_ok(open_graph(state, small_graph));
    for (size_t i = 0; i < LS_COUNT(mistakes); i++) {
        char *text = changed_graph(small_graph, mistakes[i].from, mistakes[i].to);
        if (text == NULL) fail_msg("the small graph has no %s", mistakes[i].from);
        const ls_status status = open_graph(state, text);
        free(text);
        if (status.code == LS_OK) fail_msg("%s is taken", mistakes[i].to);
        if (strcmp(line_of(state, &status), mistakes[i].line) != 0)
            fail_msg("%s: \"%s\", expected \"%s\"", mistakes[i].to, line_of(state, &status), mistakes[i].line);
    }
}

/* --- long files --------------------------------------------------------------------------------------------------- */

/* The small graph with n copies of `item` behind the text `from`; # in it is the copy's number. */
static char *with_many(const char *from, const char *item, int n) {
    char *many = malloc(strlen(from) + (strlen(item) + 24) * (size_t)n + 1);
    size_t used = strlen(from);
    strcpy(many, from);
    for (int i = 0; i < n; i++)
        for (const char *c = item; *c != 0; c++)
            used += *c == '#' ? (size_t)sprintf(many + used, "%d", i) : (size_t)sprintf(many + used, "%c", *c);
    char *text = changed_graph(small_graph, from, many);
    assert_non_null(text);
    free(many);
    return text;
}

static void refuse(void **state, char *text, const char *line) {
    const ls_status status = open_graph(state, text);
    free(text);
    if (status.code == LS_OK || strcmp(line_of(state, &status), line) != 0)
        fail_msg("\"%s\", expected \"%s\"", line_of(state, &status), line);
}

#define NODES "\"nodes\": ["
#define RELU "{\"op\": \"relu\", \"in\": [\"x\"], \"out\": [\"#\"]},"

static void test_long(void **state) {
    refuse(state, with_many(NODES, RELU, 1 << 16),
           "graph.json: nodes is an array of 65551, expected an array of at most 65536");
    refuse(state, with_many("\"parameters\": [", "{\"name\": \"p#\", \"shape\": [1048576, 268435456]},", 1100),
           "graph.json: parameters has more than 2^58 elements with parameters[1024], expected fewer");
    refuse(
        state, with_many("\"name\": \"norm", "abcdefgh", 26),
        "graph.json: parameters[1].name is \"normabcdefghabcdefghabcdefghabcdefghabcdefghabcdefghabcdefg..., expected a name of 1 to 200 bytes");
}

/* A chain of ten thousand shifts of the tokens is read, built and asked what ids it may hold. */
static void test_deep(void **state) {
    static const char shift[] = "{\"op\": \"shift\", \"in\": [\"s$\"], \"out\": [\"s#\"], \"tokens\": 1},";
    char *text = changed_graph(small_graph, "{\"name\": \"ids\", \"dtype\": \"i32\"}",
                               "{\"name\": \"s-1\", \"dtype\": \"i32\"}");
    char *named = changed_graph(text, "\"tokens\": \"ids\"", "\"tokens\": \"s-1\"");
    free(text);
    char *longer = changed_graph(named, "[\"ids\", \"table\"]", "[\"s9999\", \"table\"]");
    free(named);
    const size_t room = sizeof shift * 10000 + 10000 * 16;
    char *many = malloc(room);
    size_t used = (size_t)snprintf(many, room, NODES);
    for (int i = 0; i < 10000; i++)
        used +=
            (size_t)snprintf(many + used, room - used,
                             "{\"op\": \"shift\", \"in\": [\"s%d\"], \"out\": [\"s%d\"], \"tokens\": 1},", i - 1, i);
    char *deep = changed_graph(longer, NODES, many);
    free(longer);
    free(many);
    assert_ok(open_graph(state, deep));
    free(deep);
}

/* What a folder holds decides, and a folder with both kinds is refused. */
static void test_both(void **state) {
    ls_model *model;
    assert_ok(open_graph(state, small_graph));
    (void)scratch_text(state, "config.json", "{}");
    const ls_status both = ls_model_open(*state, &model);
    assert_error(both, LS_USAGE, "holds both config.json and graph.json", "expected one");
    assert_ok(ls_model_open(scratch_path(state, "graph.json"), &model));
    ls_model_close(model);
    assert_ok(ls_file_remove_tree(scratch_path(state, "config.json")));
}

/* What an imported model cannot do is refused by name. */
static void test_cannot(void **state) {
    ls_model *model;
    ls_language_model lm;
    bool longer;
    assert_ok(open_graph(state, small_graph));
    assert_error(ls_model_open_changed(*state, &(ls_rope_change){.scaling = "linear:2"}, &model), LS_USAGE,
                 "--rope-scaling for", "rotary positions are part of the nodes of a graph.json");
    assert_ok(ls_model_open(*state, &model));
    assert_error(ls_model_check_fed(model), LS_UNSUPPORTED, "input \"importance\" is neither",
                 "--input importance=FILE.npy");
    assert_ok(ls_model_lengthen(model, 1 << 20, &longer));
    assert_false(longer);
    ls_graph *g = ls_graph_create(LS_F32);
    assert_ok(ls_model_build(model, g, 1, 8, false, &lm));
    assert_ok(ls_model_need_logits(model, &lm, "this"));
    assert_ok(ls_model_need_token_loss(model, &lm, "this"));
    lm.logits = lm.token_loss = LS_NO_TENSOR;
    assert_error(ls_model_need_logits(model, &lm, "generation"), LS_UNSUPPORTED, "logits is null",
                 "generation needs them");
    assert_error(ls_model_need_token_loss(model, &lm, "an evaluation"), LS_UNSUPPORTED, "no sum over tokens",
                 "an evaluation");
    ls_graph_destroy(g);
    ls_model_close(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mistakes), cmocka_unit_test(test_long),   cmocka_unit_test(test_deep),
        cmocka_unit_test(test_both),     cmocka_unit_test(test_cannot),
    };
    return cmocka_run_group_tests(tests, scratch_make, scratch_remove);
}
