/*
 * All-gathers the elements of a group from the ranks that own their pieces: parameters for the nodes that read them or
 * after their update, and sums of gradients.
 */
#include "compile/pass.h"
#include "compile/redistribute/redistribute.h"

struct ls_group_gather {
    const char *label; /* of its channels */
    int group;
    const char *from;     /* as for ls_group_gather_make */
    const ls_operand *in; /* an operand with all elements of the flat space; NULL: the group has a buffer */
    ls_operand all;       /* the group's elements, once they are allocated */
    ls_all_gather gather; /* once it has begun */
};

ls_group_gather *ls_group_gather_make(const ls_builder *b, const char *label, int group, const char *from,
                                      const ls_operand *all) {
    ls_group_gather *g = LS_NEW(b->image->arena, ls_group_gather);
    *g = (ls_group_gather){.label = label, .group = group, .from = from, .in = all};
    return g;
}

/* The operand to which the group is gathered: in a new buffer, or its part of `in`. */
static ls_operand make_room(ls_builder *b, const ls_group_gather *g) {
    const ls_group *group = &b->packing->groups[g->group];
    if (g->in != NULL) return ls_operand_slice(*g->in, 0, group->start, group->count);
    const ls_operand own = ls_build_symmetric(b, LS_BUFFER_PARAMETER, ls_group_name(b, "parameters", g->group),
                                              group->count, b->image->flats[group->first].dtype, 1, &group->count);
    ls_group_note(b, g->group, own);
    return own;
}

static void lower_expect(ls_builder *b, const ls_program_node *node) {
    ls_group_gather *g = node->params;
    g->all = make_room(b, g);
    g->gather = ls_all_gather_expect(b, g->label, b->packing->stages, ls_group_buckets(b, g->group, g->all), 1);
}

static void lower_gather(ls_builder *b, const ls_program_node *node) {
    ls_group_gather *g = node->params;
    const ls_operand mine =
        g->from == NULL ? ls_all_gather_piece(b, &g->gather) : ls_group_pieces(b, g->group, g->from);
    ls_all_gather_begin(b, &g->gather, mine);
}

static void lower_stage(ls_builder *b, const ls_program_node *node) {
    ls_group_gather *g = node->params;
    ls_all_gather_advance(b, &g->gather);
}

static void lower_gathered(ls_builder *b, const ls_program_node *node) {
    ls_group_gather *g = node->params;
    const ls_graph *graph = b->job->graph;
    const ls_group *group = &b->packing->groups[g->group];
    ls_all_gather_finish(b, &g->gather);
    for (int t = 1; t < graph->n_tensors && g->in == NULL; t++) {
        const int f = b->packing->flat_of[t];
        if (graph->tensors[t].role != LS_ROLE_PARAMETER || f < group->first || f >= group->past) continue;
        b->tensor[t] = ls_group_parameter(b, g->group, f, g->all);
    }
}

const ls_lowering ls_lowering_gather_expect = {.name = "gather expect", .lower = lower_expect},
                  ls_lowering_gather = {.name = "gather", .lower = lower_gather},
                  ls_lowering_gather_stage = {.name = "gather stage", .lower = lower_stage},
                  ls_lowering_gathered = {.name = "gathered", .lower = lower_gathered};
