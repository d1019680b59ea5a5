/*
 * Offload: results of the forward pass wait in memory of the host until the backward pass reads them (Rhu et al.,
 * "vDNN", arXiv 1602.08124; only the inputs of layers: Bekman et al., "Arctic long sequence training", arXiv
 * 2506.13996).
 *
 * A result is copied to the host as soon as it has been made, while the nodes that follow still read it on the device.
 * It is fetched one mixing node (such as an attention) before the backward pass first reads it: with long sequences
 * that node takes longer than the copy. The results that are made first wait longest, so they are the first to be
 * offloaded.
 *
 * The optimiser's state waits in memory of the host from one update to the next (Ren et al., "ZeRO-Offload", arXiv
 * 2101.06840, where the host also updates it). Each piece is fetched for its update and offloaded after it. The link is
 * busy all the time, since an update is much shorter than a copy.
 */
#include "compile/pass.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- the user's choice -------------------------------------------------------------------------------------------- */

static bool is_word(const char *text, size_t length, const char *word) {
    return strlen(word) == length && strncmp(text, word, length) == 0;
}

/* Parses one part of the text. */
static bool parse_part(const char *text, size_t length, int *results, int *state) {
    if (is_word(text, length, "optimizer")) {
        *state = 1;
        return true;
    }
    if (is_word(text, length, "results")) {
        *results = LS_OFFLOAD_ALL;
        return true;
    }
    char *end;
    errno = 0;
    const long n = strtol(text, &end, 10);
    if (end != text + length || text[0] < '0' || text[0] > '9' || errno != 0 || n > INT_MAX) return false;
    *results = (int)n;
    return true;
}

ls_status ls_offload_parse(const char *text, int *results, int *state) {
    *results = *state = -1;
    if (text == NULL || strcmp(text, "auto") == 0) return ls_ok();
    const bool all = strcmp(text, "all") == 0;
    *results = all ? LS_OFFLOAD_ALL : 0;
    *state = all;
    if (all || strcmp(text, "none") == 0) return ls_ok();
    const size_t first = strcspn(text, "+");
    bool fine = parse_part(text, first, results, state);
    if (fine && text[first] != 0) fine = parse_part(text + first + 1, strlen(text + first + 1), results, state);
    if (fine) return ls_ok();
    return ls_error(LS_USAGE,
                    "--offload %s; expected auto, none, optimizer, results, a number of results, all, or two of these "
                    "with a plus in between, as optimizer+12",
                    text);
}

void ls_offload_print(const ls_saving *saving, char out[LS_OFFLOAD_TEXT]) {
    const bool some = saving->offload != 0, all = saving->offload == LS_OFFLOAD_ALL, state = saving->offload_state;
    snprintf(out, LS_OFFLOAD_TEXT, "%s",
             !some && !state ? "none"
             : all && state  ? "all"
             : all           ? "results"
                             : "optimizer");
    if (some && !all) snprintf(out, LS_OFFLOAD_TEXT, "%s%d", state ? "optimizer+" : "", saving->offload);
}

/* --- which results ------------------------------------------------------------------------------------------------ */

/* A result that waits in memory of the host. */
typedef struct waiting {
    ls_tensor storage;
    int away, back;   /* the nodes before which it is offloaded and fetched */
    ls_operand there; /* in memory of the host, once it is offloaded; buffer -1: it stays */
} waiting;

/*
 * The nodes of a job. In a stage of a pipeline each micro-batch has its own nodes, whose turns alternate with those of
 * other micro-batches.
 */
typedef struct turns {
    const ls_graph *graph;
    const ls_node_slot *slots; /* by node; NULL: the forward pass is one turn, the backward pass the next */
} turns;

static bool is_forward(const turns *of, int n) {
    return of->slots != NULL ? of->slots[n].forward : n < of->graph->forward_nodes;
}

static bool are_one_turn(const turns *of, int m, int n) {
    return of->slots != NULL ? of->slots[m].slot == of->slots[n].slot : is_forward(of, m) == is_forward(of, n);
}

/* How the nodes of a program touch a storage tensor that the forward pass makes. */
typedef struct touches {
    int written; /* the last node that writes it; -1: the forward pass does not make it */
    int here;    /* the last node that touches it in that turn */
    int later;   /* the first node that touches it in a later turn; -1: none */
    bool needed; /* whether the backward pass touches it */
} touches;

static int storage_of(const ls_graph *g, ls_tensor t) { return ls_graph_tensor(g, t)->storage.id; }

static touches *find_touches(const turns *of, int first, int end, ls_arena *arena) {
    const ls_graph *g = of->graph;
    touches *all = LS_NEW_ARRAY(arena, touches, g->n_tensors + 1);
    for (int t = 0; t < g->n_tensors; t++) all[t] = (touches){.written = -1, .here = -1, .later = -1};
    for (int n = first; n < end; n++) {
        const ls_node *node = &g->nodes[n];
        for (int o = 0; o < node->n_out && is_forward(of, n); o++) all[storage_of(g, node->out[o])].written = n;
        for (int i = 0; i < ls_node_tensors(node); i++) {
            touches *t = &all[storage_of(g, ls_node_tensor(node, i))];
            if (t->written < 0) continue;
            t->needed |= !is_forward(of, n);
            if (are_one_turn(of, t->written, n))
                t->here = n;
            else if (t->later < 0)
                t->later = n;
        }
    }
    return all;
}

/*
 * Whether the tensor is a result that may wait. There must be a mixing node between the last read in its turn and its
 * return: otherwise waiting gains nothing. mixing: the last mixing node before each node; -1: there is none.
 */
static bool may_wait(const ls_job *job, const turns *of, ls_tensor t, const touches *touched, const int *mixing) {
    const ls_tensor_info *info = ls_graph_tensor(job->graph, t);
    if (info->storage.id != t.id || info->role == LS_ROLE_ACCUMULATOR || !touched->needed) return false;
    const int back = mixing[touched->later];
    if (back < 0 || are_one_turn(of, touched->written, back) || mixing[back] <= touched->here) return false;
    return !ls_job_fetches(job, t);
}

/*
 * Finds the results that may wait, in the order in which they are made, in a program that runs nodes first .. end - 1:
 * at most `most` of each micro-batch. slots: by node; NULL: there are no stages.
 */
static int find_waiting(const ls_job *job, const ls_node_slot *slots, int first, int end, int most, ls_arena *arena,
                        waiting **out) {
    const ls_graph *g = job->graph;
    const turns of = {g, slots};
    const touches *all = find_touches(&of, first, end, arena);
    int *mixing = LS_NEW_ARRAY(arena, int, end + 1), n_found = 0;
    int *of_micro = LS_NEW_ARRAY(arena, int, end + 1); /* by micro-batch: the number found */
    for (int n = 0; n <= first; n++) mixing[n] = -1;
    for (int n = first; n < end; n++) mixing[n + 1] = g->nodes[n].op->reach != LS_REACH_OWN ? n : mixing[n];
    size_t capacity = 0;
    for (int n = first; n < end; n++) {
        int *const found = &of_micro[slots != NULL ? slots[n].micro : 0];
        for (int o = 0; o < g->nodes[n].n_out && is_forward(&of, n); o++) {
            const ls_tensor t = g->nodes[n].out[o];
            const touches *touched = &all[t.id];
            if (*found >= most || !may_wait(job, &of, t, touched, mixing)) continue;
            ++*found;
            *LS_PUSH(arena, *out, n_found, capacity) =
                (waiting){t, touched->written + 1, mixing[touched->later], {.buffer = -1}};
        }
    }
    return n_found;
}

int ls_offload_count(const ls_job *job, int drop) {
    ls_arena *arena = ls_arena_create();
    ls_job with = *job;
    waiting *found = NULL;
    with.graph = ls_recompute(job, drop, arena);
    const int n = find_waiting(&with, NULL, 0, with.graph->n_nodes, LS_OFFLOAD_ALL, arena, &found);
    ls_arena_destroy(arena);
    return n;
}

/* --- lowering ----------------------------------------------------------------------------------------------------- */

/*
 * Whether the whole tensor, and nothing else, lies in a buffer of the program. A tensor that other ranks read in place
 * is in the heap and stays there; a tensor that a lowering has placed in another tensor's memory stays too.
 */
static bool is_alone(const ls_builder *b, const ls_operand *operand) {
    if (operand->buffer < 0 || ls_operand_is_empty(operand) || operand->displacement != 0) return false;
    const ls_buffer *buffer = &b->image->buffers[operand->buffer];
    return buffer->program == ls_build_program(b) && buffer->space == LS_PRIVATE && ls_view_is_dense(&operand->view) &&
           ls_view_bytes(&operand->view) == buffer->bytes;
}

static void lower_offload(ls_builder *b, const ls_program_node *node) {
    waiting *w = node->params;
    const ls_operand here = b->tensor[w->storage.id];
    if (!is_alone(b, &here)) return;
    const char *name = ls_graph_tensor(b->job->graph, w->storage)->name;
    w->there = here;
    w->there.buffer = ls_build_buffer(b, LS_HOST, LS_BUFFER_ACTIVATION, ls_view_bytes(&here.view), name);
    ls_build_offload(b, here, w->there);
}

/* Fetches the result; from here on nodes find it in a new buffer of its own. */
static void lower_fetch(ls_builder *b, const ls_program_node *node) {
    const waiting *w = node->params;
    if (w->there.buffer < 0) return;
    b->tensor[w->storage.id].buffer = -1;
    b->tensor[w->storage.id] = ls_lower_place(b, LS_BUFFER_ACTIVATION, w->storage);
    ls_build_fetch(b, w->there, b->tensor[w->storage.id]);
}

static const ls_lowering offload = {.name = "offload", .lower = lower_offload},
                         fetch = {.name = "fetch", .lower = lower_fetch};

/* --- the pass ----------------------------------------------------------------------------------------------------- */

static int by_away(const void *x, const void *y) { return (*(waiting *const *)x)->away - (*(waiting *const *)y)->away; }
static int by_back(const void *x, const void *y) { return (*(waiting *const *)x)->back - (*(waiting *const *)y)->back; }

/* The results, sorted by another order. */
static waiting **sorted(ls_arena *arena, waiting *const *results, int n, int (*by)(const void *x, const void *y)) {
    waiting **list = ls_arena_copy(arena, results, sizeof *list * (size_t)n);
    qsort(list, (size_t)n, sizeof *list, by);
    return list;
}

static ls_status run(const ls_builder *b, ls_program_nodes *nodes) {
    ls_arena *arena = b->image->arena;
    waiting *found = NULL;
    const int most = b->target->saving.offload, end = (int)ls_min(b->row->end_node, b->job->graph->n_nodes);
    if (most == 0) return ls_ok();
    const int n = find_waiting(b->job, b->sharding->slots.node, b->row->first_node, end, most, arena, &found);
    if (n == 0) return ls_ok();
    waiting **results = LS_NEW_ARRAY(arena, waiting *, n);
    for (int i = 0; i < n; i++) results[i] = &found[i];
    waiting **leaving = sorted(arena, results, n, by_away), **returning = sorted(arena, leaving, n, by_back);
    int left = 0, returned = 0;
    ls_program_nodes to = {0};
    for (int first = 0, past; first < nodes->n; first = past) {
        past = ls_nodes_past(nodes, first);
        const int together = nodes->list[first].together;
        for (; left < n && leaving[left]->away <= together; left++)
            ls_nodes_put(b, &to, &offload, together, leaving[left]);
        for (; returned < n && returning[returned]->back <= together; returned++)
            ls_nodes_put(b, &to, &fetch, together, returning[returned]);
        ls_nodes_copy(b, &to, &nodes->list[first], past - first);
    }
    *nodes = to;
    return ls_ok();
}

const ls_pass ls_pass_offload = {.name = "offload", .about = "results that wait in memory of the host", .run = run};
