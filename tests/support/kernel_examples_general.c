/* Calls of the kernels of general ops. */
#include "support/kernel_examples.h"

static const int64_t sizes[][2] = {{0, 8},    {1, 1},    {3, 5},    {7, 16},  {2, 33},
                                   {130, 64}, {1, 4099}, {2, 2048}, {700, 96}};

/* Every kind of step, of numbers that it takes, in chains that reuse slots; operands of all types and forms. */
static void maps(visit_example visit) {
    for (size_t s = 1; s < LS_COUNT(sizes); s++) { /* what is repeated has a size */
        const int64_t n = sizes[s][0], E = sizes[s][1];
        const operand x = {'T', NORMAL, 2, {n, E}, 0}, wide = {'W', NORMAL, 2, {n, E}, 0};
        const operand rows = {'R', NORMAL, 2, {n, E}, 0}, column = {'C', NORMAL, 2, {n, E}, 0};
        const operand ids = {'I', IDS, 2, {n, E}, 50}, apart = {'t', NORMAL, 2, {n, E}, 0};
        const operand y = {'T', POISON, 2, {n, E}, 0}, sum = {'G', POISON, 2, {n, E}, 0};
        for (ls_map_code code = 0; code < LS_MAP_KINDS; code++) {
            /* With a = 0.5 + x0 squared and b = 0.5 + x1 squared, so that logarithms, roots and quotients are tame. */
            const ls_map_params p = {.n_in = 3,
                                     .n_steps = 8,
                                     .n_results = 1,
                                     .result = {10},
                                     .step = {{LS_MAP_NUMBER, 0, 0, 0, 0.5},
                                              {LS_MAP_MUL, 0, 0, 0, 0},
                                              {LS_MAP_ADD, 3, 4, 0, 0},
                                              {LS_MAP_MUL, 1, 1, 0, 0},
                                              {LS_MAP_ADD, 6, 3, 0, 0},
                                              {code, 5, 7, 0, 1.25},
                                              {LS_MAP_ADD, 8, 2, 0, 0},
                                              {LS_MAP_MUL, 9, 3, 0, 0}}};
            const example e = {"map", &p, 3, 1, {x, rows, column}, {y}};
            visit(&e);
        }
        static const ls_map_params several = {
            .n_in = 4,
            .n_steps = 3,
            .n_results = 4,
            .wide = 2,
            .result = {6, 1, 4, 0},
            .step = {{LS_MAP_MUL, 0, 3, 0, 0}, {LS_MAP_LT, 0, 1, 0, 0}, {LS_MAP_WHERE, 5, 4, 2, 0}}};
        const operand whole = {'T', NORMAL, 3, {n, E, 1}, 0}, by_column = {'T', NORMAL, 3, {1, n, E}, 0};
        const operand inner = {'W', NORMAL, 3, {n, E, 3}, 0}, of_rows = {'G', NORMAL, 2, {n, 1}, 0};
        const operand of_columns = {'G', NORMAL, 2, {1, E}, 0}, of_inner = {'G', NORMAL, 2, {n, 3}, 0};
        const example examples[] = {{"map", &several, 4, 4, {x, wide, apart, ids}, {y, sum, y, y}},
                                    {"reduce", NULL, 1, 1, {whole}, {of_rows}},
                                    {"reduce", NULL, 1, 1, {by_column}, {of_columns}},
                                    {"reduce", NULL, 1, 1, {inner}, {of_inner}}};
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

static void rows(visit_example visit, int64_t n, int64_t K) {
    static const ls_reduce_max_params first = {false}, shared = {true};
    const int64_t J = (K + 2) / 3;
    const operand x = {'T', NORMAL, 2, {n, K}, 0}, wide = {'W', NORMAL, 2, {n, K}, 0};
    const operand y = {'T', POISON, 2, {n, K}, 0}, wide_y = {'G', POISON, 2, {n, K}, 0};
    const operand sum = {'G', NORMAL, 2, {n, K}, 0};
    const operand ids = {'I', IDS, 2, {n, J}, K}, some = {'T', NORMAL, 2, {n, J}, 0};
    const operand taken = {'T', POISON, 2, {n, J}, 0}, wide_taken = {'G', POISON, 2, {n, J}, 0};
    const operand at = {'I', POISON, 2, {n, J}, 0};
    const operand of_rows = {'T', NORMAL, 3, {n, K, 1}, 0}, of_columns = {'W', NORMAL, 3, {1, n, K}, 0};
    const operand row_max = {'G', POISON, 2, {n, 1}, 0}, column_max = {'G', POISON, 2, {1, K}, 0};
    const operand row_dy = {'G', NORMAL, 2, {n, 1}, 0}, column_dy = {'G', NORMAL, 2, {1, K}, 0};
    const operand row_dx = {'T', POISON, 3, {n, K, 1}, 0}, column_dx = {'G', POISON, 3, {1, n, K}, 0};
    const example examples[] = {{"softmax", NULL, 1, 1, {x}, {y}},
                                {"softmax", NULL, 1, 1, {wide}, {y}},
                                {"softmax_grad", NULL, 2, 1, {x, x}, {y}},
                                {"softmax_grad", NULL, 2, 1, {x, x}, {wide_y}},
                                {"take_along", NULL, 2, 1, {x, ids}, {taken}},
                                {"take_along", NULL, 2, 1, {wide, ids}, {wide_taken}},
                                {"take_along_grad", NULL, 2, 1, {ids, some}, {sum}},
                                {"topk", NULL, 1, 2, {x}, {taken, at}},
                                {"topk", NULL, 1, 2, {wide}, {wide_taken, at}},
                                {"reduce_max", NULL, 1, 1, {of_rows}, {row_max}},
                                {"reduce_max_grad", &first, 2, 1, {of_rows, row_dy}, {row_dx}},
                                {"reduce_max_grad", &shared, 2, 1, {of_rows, row_dy}, {row_dx}},
                                {"reduce_max_grad", &first, 2, 1, {of_columns, column_dy}, {column_dx}},
                                {"reduce_max_grad", &shared, 2, 1, {of_columns, column_dy}, {column_dx}},
                                {"reduce_max", NULL, 1, 1, {of_columns}, {column_max}}};
    const size_t kernels = LS_COUNT(examples) - (n == 0); /* of no elements none is the largest */
    for (size_t i = 0; i < kernels; i++) visit(&examples[i]);
}

/* Operands that are dense, turned, with gaps, or the same for all tokens; results that are written or added to. */
static void products(visit_example visit) {
    static const int64_t shapes[][6] = {{1, 1, 1, 1, 1, 1},   {3, 2, 4, 5, 1, 7},    {1, 2, 6, 130, 3, 9},
                                        {5, 3, 1, 33, 1, 70}, {2, 4, 17, 64, 1, 64}, {1, 1, 3, 4099, 1, 5},
                                        {2, 1, 5, 3, 37, 6},  {1, 2, 3, 1, 2100, 4}};
    static const ls_contract_params writes = {false}, adds = {true};
    for (size_t s = 0; s < LS_COUNT(shapes); s++) {
        const int64_t M = shapes[s][0], N = shapes[s][1], I = shapes[s][2], K = shapes[s][3], L = shapes[s][4],
                      J = shapes[s][5];
        const operand a = {'T', NORMAL, 5, {M, N, I, K, L}, 0}, b = {'T', NORMAL, 5, {M, N, K, L, J}, 0};
        const operand turned_a = {'P', NORMAL, 5, {M, N, I, K, L}, 0}, turned_b = {'P', NORMAL, 5, {M, N, K, L, J}, 0};
        const operand apart_b = {'t', NORMAL, 5, {M, N, K, L, J}, 0}, one_b = {'R', NORMAL, 5, {M, N, K, L, J}, 0};
        const operand y = {'T', POISON, 4, {M, N, I, J}, 0}, sum = {'G', NORMAL, 4, {M, N, I, J}, 0};
        const operand turned_y = {'P', POISON, 4, {M, N, I, J}, 0};
        const example examples[] = {{"contract", &writes, 2, 1, {a, b}, {y}},
                                    {"contract", &writes, 2, 1, {turned_a, turned_b}, {turned_y}},
                                    {"contract", &writes, 2, 1, {a, turned_b}, {y}}, /* terms lie side by side */
                                    {"contract", &writes, 2, 1, {a, one_b}, {y}},
                                    {"contract", &adds, 2, 1, {a, apart_b}, {sum}}};
        for (size_t i = 0; i < LS_COUNT(examples); i++) visit(&examples[i]);
    }
}

void visit_general_examples(visit_example visit) {
    maps(visit);
    for (size_t s = 0; s < LS_COUNT(sizes); s++) rows(visit, sizes[s][0], sizes[s][1]);
    products(visit);
}
