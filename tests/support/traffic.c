#include "traffic.h"

#include <string.h>

/*
 * Elements per local token that one rank sends: of the working type T, and of the type G in which results and gradients
 * add up.
 */
typedef struct moved {
    double T, G;
} moved;

static moved rotated_keys(const traffic_problem *p) { return (moved){(p->R - 1) * 2 * p->e, 0}; }
/* One hop less than published for the gradients of a ring: a rank's own part does not leave. */
static moved keys_back(const traffic_problem *p) { return (moved){(p->R - 1) * 2 * p->e, (p->R - 1) * 2 * p->e}; }
static moved queries_out(const traffic_problem *p) { return (moved){(p->R - 1) * p->d, (p->R - 1) * (p->d + p->h)}; }
static moved queries_back(const traffic_problem *p) {
    return (moved){(p->R - 1) * 2 * p->d, (p->R - 1) * (2 * p->h + p->d)};
}

/* What goes across blocks, by strategy, as published, with o, lse, delta and gradients on their way in G. */
static const struct {
    const char *strategy;
    moved (*forward)(const traffic_problem *), (*backward)(const traffic_problem *);
} across[] = {
    {"local", rotated_keys, keys_back},    {"ring", rotated_keys, keys_back},
    {"ulysses", rotated_keys, keys_back},  {"usp", rotated_keys, keys_back},
    {"gather", rotated_keys, keys_back},   {"tokenring", queries_out, queries_back},
    {"decode", queries_out, queries_back}, {"double-ring", rotated_keys, keys_back},
    {"burst", rotated_keys, queries_back}, {"rsa", rotated_keys, keys_back},
};

/*
 * Heads are exchanged within a block of U: q, k, v in and o out, with lse where it is asked for; grad_o, delta in and
 * the gradients out.
 */
bool traffic_published(const traffic_problem *p, traffic *out) {
    const double T = (double)ls_dtype_bytes(p->T), G = (double)ls_dtype_bytes(p->G), leaves = (p->U - 1.0) / p->U;
    for (size_t a = 0; a < LS_COUNT(across); a++) {
        if (strcmp(across[a].strategy, p->strategy) != 0) continue;
        const moved f = across[a].forward(p), b = across[a].backward(p);
        out->forward = (f.T + leaves * (2 * p->d + 2 * p->e)) * T + (f.G + (p->lse ? leaves * p->h : 0)) * G;
        out->backward = (b.T + leaves * 2 * p->d) * T + (b.G + leaves * (2 * p->e + p->h)) * G;
        return true;
    }
    return false;
}
