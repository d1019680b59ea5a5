/* A small graph.json with most of what such a file may have. Include after the header of cmocka. */
#ifndef TESTS_SMALL_GRAPH_H
#define TESTS_SMALL_GRAPH_H

#include <stdlib.h>
#include <string.h>

static const char small_graph[] =
    "{\"format\": \"longspan-graph\", \"version\": 1, \"made_by\": \"test\", \"dtype\": \"f32\", \"tokens\": \"ids\",\n"
    " \"documents\": true,\n"
    " \"inputs\": [{\"name\": \"ids\", \"dtype\": \"i32\"},\n"
    "  {\"name\": \"targets\", \"dtype\": \"i32\", \"is\": \"labels\", \"shift\": 1},\n"
    "  {\"name\": \"places\", \"dtype\": \"i32\", \"is\": \"positions\"},\n"
    "  {\"name\": \"importance\", \"dtype\": \"f32\"}],\n"
    " \"parameters\": [{\"name\": \"table\", \"shape\": [32, 8], \"also\": [\"head\"]},\n"
    "  {\"name\": \"norm\", \"shape\": [8]},\n"
    "  {\"name\": \"query\", \"shape\": [8, 8]},\n"
    "  {\"name\": \"bias\", \"shape\": [8], \"frozen\": true, \"buffer\": true}],\n"
    " \"constants\": [],\n"
    " \"nodes\": [{\"op\": \"embedding\", \"in\": [\"ids\", \"table\"], \"out\": [\"x\"], \"padding\": 0, \"at\": 0},\n"
    "  {\"op\": \"rmsnorm\", \"in\": [\"x\", \"norm\"], \"out\": [\"h\"], \"epsilon\": 1e-6, \"at\": 1},\n"
    "  {\"op\": \"linear\", \"in\": [\"h\", \"query\", \"bias\"], \"out\": [\"p\"]},\n"
    "  {\"op\": \"reshape\", \"in\": [\"p\"], \"out\": [\"r\"], \"size\": [\"B\", \"S\", 2, 4]},\n"
    "  {\"op\": \"rope_table\", \"in\": [\"places\"], \"out\": [\"cs\"], \"D\": 4, \"rope\": {\"theta\": 100}},\n"
    "  {\"op\": \"rotate\", \"in\": [\"r\", \"cs\"], \"out\": [\"q\"]},\n"
    "  {\"op\": \"attention\", \"in\": [\"q\", \"q\", \"r\", null], \"out\": [\"o\"], \"scale\": 0.5,\n"
    "   \"mask\": [{\"kind\": \"window\", \"window\": 5, \"first\": 1}, {\"kind\": \"documents\"}], \"at\": 2},\n"
    "  {\"op\": \"reshape\", \"in\": [\"o\"], \"out\": [\"om\"], \"size\": [\"B\", \"S\", 8]},\n"
    "  {\"op\": \"softcap\", \"in\": [\"om\"], \"out\": [\"c\"], \"cap\": 30},\n"
    "  {\"op\": \"cast\", \"in\": [\"c\"], \"out\": [\"t\"], \"dtype\": \"T\"},\n"
    "  {\"op\": \"add\", \"in\": [\"t\", \"x\"], \"out\": [\"y\"]},\n"
    "  {\"op\": \"linear_wide\", \"in\": [\"y\", \"head\"], \"out\": [\"scores\"]},\n"
    "  {\"op\": \"cross_entropy\", \"in\": [\"scores\", \"targets\"], \"out\": [\"ce\"]},\n"
    "  {\"op\": \"mul\", \"in\": [\"ce\", \"importance\"], \"out\": [\"weighted\"]},\n"
    "  {\"op\": \"sum\", \"in\": [\"weighted\"], \"out\": [\"total\"]}],\n"
    " \"loss\": \"total\", \"mean_over\": \"labels\", \"logits\": \"scores\",\n"
    " \"sources\": [{\"file\": \"model.py\", \"line\": 12, \"code\": \"x = self.embed(ids)\"},\n"
    "  {\"file\": \"model.py\", \"line\": 13, \"code\": \"h = self.norm(x)\"},\n"
    "  {\"file\": \"model.py\", \"line\": 20, \"code\": \"o = attention(q, q, r)\"}]}\n";

/* The text with the first `from` replaced; the caller frees it. NULL: it has no `from`. */
static inline char *changed_graph(const char *text, const char *from, const char *to) {
    const char *at = strstr(text, from);
    if (at == NULL) return NULL;
    const size_t before = (size_t)(at - text), after = strlen(at + strlen(from)),
                 room = before + strlen(to) + after + 1;
    char *out = malloc(room);
    memcpy(out, text, before);
    memcpy(out + before, to, strlen(to));
    memcpy(out + before + strlen(to), at + strlen(from), after + 1);
    return out;
}

#endif
