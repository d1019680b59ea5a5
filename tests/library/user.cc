// A user's program in C++: all public headers, and a small graph that trains on two ranks (tests/library/test_library_install.sh).
#include <longspan/longspan.h>

#include <cmath>
#include <cstdio>

namespace {

enum { B = 1, S = 8, V = 5, E = 4 };

ls_status work(ls_worker *worker, const void *, void *result) {
    const int32_t tokens[B * S] = {0, 1, 2, 3, 4, 0, 1, 2}, labels[B * S] = {1, 2, 3, 4, 0, 1, 2, 3};
    ls_step step = {};
    ls_step_result done;
    step.tokens = B * S;
    step.lr = 0.05;
    LS_TRY(ls_worker_set_random(worker, 0.5, 1));
    LS_TRY(ls_worker_set_input(worker, "tokens", tokens));
    LS_TRY(ls_worker_set_input(worker, "labels", labels));
    for (int i = 0; i < 30; i++) {
        LS_TRY(ls_worker_step(worker, &step, &done));
        static_cast<double *>(result)[i > 0] = done.loss;
    }
    return ls_ok();
}

ls_status learn(double losses[2]) {
    const int64_t table[] = {V, E}, head[] = {V, E};
    ls_graph *graph = ls_graph_create(LS_F32);
    const ls_tensor tokens = ls_tokens(graph, "tokens", B, S), labels = ls_input_like(graph, "labels", tokens);
    const ls_tensor x = ls_embedding(graph, tokens, ls_parameter(graph, "table", 2, table));
    const ls_tensor logits = ls_linear(graph, x, ls_parameter(graph, "head", 2, head), LS_NO_TENSOR);
    const ls_tensor loss = ls_sum(graph, ls_cross_entropy(graph, logits, labels));
    ls_engine_options options = {};
    ls_engine *engine = nullptr;
    options.spread.ranks = 2;
    ls_status status = ls_engine_open(graph, loss, &options, &engine);
    if (status.code == LS_OK) status = ls_engine_run(engine, work, nullptr, losses, 2 * sizeof *losses);
    ls_engine_close(engine);
    ls_graph_destroy(graph);
    return status;
}

} // namespace

int main() {
    double losses[2] = {0, 0};
    const ls_status status = learn(losses);
    if (status.code != LS_OK) {
        std::fprintf(stderr, "%s: %s\n", ls_code_name(status.code), status.text);
        return 1;
    }
    std::printf("loss %.4f -> %.4f\n", losses[0], losses[1]);
    return losses[1] < losses[0] && std::isfinite(losses[1]) ? 0 : 1;
}
