#include "serve.h"

#include "base/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t peers_memory(const char *field) {
    FILE *file = fopen("/proc/self/status", "re");
    if (file == NULL) return 0;
    char line[256];
    long long kilobytes = 0;
    const size_t n = strlen(field);
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, field, n) == 0 && line[n] == ':') (void)sscanf(line + n + 1, "%lld", &kilobytes);
    fclose(file);
    return kilobytes * 1024;
}

static int64_t count(const ls_attention_array *a) {
    int64_t n = 1;
    for (int d = 0; d < a->ndim; d++) n *= a->size[d];
    return n;
}

void peers_numbers(uint32_t seed, const ls_attention_array *a) {
    const int64_t n = count(a);
    for (int64_t i = 0; i < n; i++) {
        uint32_t x = ((uint32_t)i + (seed << 26)) * 0x9E3779B9u;
        x = (x ^ x >> 15) * 0x85EBCA6Bu;
        x ^= x >> 13;
        const float y = (float)((int64_t)x - (INT64_C(1) << 31)) * 0x1p-31f;
        if (a->dtype == LS_BF16)
            ((ls_bf16 *)a->data)[i] = ls_bf16_from_f32(y);
        else
            ((float *)a->data)[i] = y;
    }
}

double peers_mean(const ls_attention_array *a) {
    const int64_t n = count(a);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += fabs(a->dtype == LS_BF16 ? (double)ls_bf16_to_f32(((const ls_bf16 *)a->data)[i])
                                        : (double)((const float *)a->data)[i]);
    return sum / (double)n;
}

ls_status peers_serve(const peers_server *s) {
    for (int i = 0; i < 2; i++) LS_TRY(s->run(s->context));
    printf("{\"ready\": true, \"isa\": \"%s\", \"resident\": %lld, \"peak\": %lld, \"check\": [", s->isa,
           (long long)s->resident, (long long)peers_memory("VmHWM"));
    for (int i = 0; i < s->n_check; i++) printf("%s%.9g", i > 0 ? ", " : "", s->check(s->context, i));
    printf("]}\n");
    fflush(stdout);
    char line[64];
    while (fgets(line, sizeof line, stdin) != NULL && strcmp(line, "go\n") == 0) {
        const double start = ls_seconds();
        LS_TRY(s->run(s->context));
        printf("{\"seconds\": %.9g}\n", ls_seconds() - start);
        fflush(stdout);
    }
    return ls_ok();
}
