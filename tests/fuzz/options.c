/* Any words of a command line, one on each line of the input, are refused, or every value is within its limits. */
#include "fuzz/fuzz.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct values {
    bool flag;
    int64_t count, bytes;
    double rate;
    const char *mesh, *choice;
    ls_option_list list;
} values;

#define AT(field) offsetof(values, field)
static const ls_option table[] = {
    {"json", LS_OPTION_FLAG, NULL, NULL, NULL, 0, 0, false, AT(flag), "a flag"},
    {"ranks", LS_OPTION_INT, "N", "1", NULL, 1, 1024, false, AT(count), "an integer"},
    {"memory", LS_OPTION_BYTES, "BYTES", NULL, NULL, 1, 0x1p62, false, AT(bytes), "bytes"},
    {"lr", LS_OPTION_FLOAT, "X", "0.5", NULL, -2, 2, false, AT(rate), "a number"},
    {"mesh", LS_OPTION_TEXT, "MESH", NULL, NULL, 0, 0, false, AT(mesh), "a text"},
    {"dtype", LS_OPTION_CHOICE, "TYPE", "f32", "f32|bf16", 0, 0, false, AT(choice), "one of two"},
    {"data", LS_OPTION_LIST, "PATH", NULL, NULL, 0, 0, true, AT(list), "words"},
};
#undef AT

static void check_values(const values *v, int words) {
    LS_ASSERT(v->count >= 1 && v->count <= 1024);
    LS_ASSERT(v->bytes >= 0);
    LS_ASSERT(fabs(v->rate) <= 2);
    LS_ASSERT(strcmp(v->choice, "f32") == 0 || strcmp(v->choice, "bf16") == 0);
    LS_ASSERT(v->list.count >= 1 && v->list.count < words);
    for (int i = 0; i < v->list.count; i++) LS_ASSERT(strncmp(v->list.items[i], "--", 2) != 0);
    ls_mesh mesh;
    if (!v->mesh || !fuzz_done(ls_mesh_parse(v->mesh, &mesh))) return;
    for (int i = 0; i < mesh.n; i++) LS_ASSERT(mesh.along[i].size >= 1);
}

static void run(const uint8_t *data, size_t bytes) {
    enum { MOST_WORDS = 32 };
    char *text = fuzz_text(data, bytes), *words[MOST_WORDS];
    int n = 0;
    for (char *rest = text, *word; n < MOST_WORDS && (word = strsep(&rest, "\n"));) words[n++] = word;
    values v = {0};
    bool given[LS_COUNT(table)];
    if (fuzz_done(ls_options_parse(table, LS_COUNT(table), n, words, &v, given))) check_values(&v, n);
    free(text);
}

const fuzz_target fuzz_options = {.name = "options", .run = run};
