/* Trains a model on text, with its sequences spread over two ranks, and prints the result. */
#include <longspan/longspan.h>

#include <stdio.h>

int main(int argc, char **argv) {
    if (argc < 4) {
        fprintf(stderr, "usage: %s CONFIG.json TEXT OUT\n", argv[0]);
        return 2;
    }
    const char *const data[] = {argv[2]};
    const ls_train_options options = {
        .model = argv[1],
        .data = data,
        .n_data = 1,
        .out = argv[3],
        .seq = 1024,
        .steps = 20,
        .lr = 3e-3,
        .spread = {.ranks = 2}, /* Longspan chooses mesh, strategy, layout, threads */
    };
    ls_train_result result;
    const ls_status status = ls_train(&options, &result);
    if (status.code != LS_OK) {
        fprintf(stderr, "%s\n", status.text);
        return 1;
    }
    printf("%s on %s: loss %.3f -> %.3f, %.0f tokens/s\n", result.strategy, result.mesh, result.first_loss,
           result.last_loss, result.tokens_per_second);
    ls_train_result_free(&result);
    return 0;
}
