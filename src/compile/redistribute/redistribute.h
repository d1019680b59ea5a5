/*
 * Redistribution: a tensor that the ranks of a team hold in one form is brought into the form that they need.
 *
 *   cut -> whole       all-gather       all_gather.c
 *   partial -> cut     reduce-scatter   reduce_scatter.c
 *   partial -> whole   all-reduce       all_reduce.c
 *   cut -> other cut   all-to-all       all_to_all.c
 *   neighbours         halo             halo.c
 *   all before         scan             scan.c, scan_owners.c
 *   all before         chain            chain.c
 *   by index           deal             deal.c
 *
 * Halo, scan and chain, and the ops that use them, work run by run (runs.c).
 *
 * Besides these files only the attention strategies, which have hops of their own, send messages
 * (tools/check-layers.py).
 *
 * A collective has parts, so that the caller decides where each part stands in the list of instructions. All ranks of
 * the team emit the same parts in the same order:
 *
 *   expect    the memory where others' parts will arrive is no longer read here
 *   begin     this rank's part is sent
 *   advance   the parts that arrived in one stage are sent on in the next
 *   finish    the remaining stages; after it everything has arrived, and the result may be read
 *   settle    (all-to-all) after it this rank's part may be overwritten
 *
 * Any other instructions may stand between the parts, also parts of other collectives. The label of a collective
 * identifies its channels. A program may use a label any number of times, but the next expect must stand after the last
 * finish.
 */
#ifndef LS_REDISTRIBUTE_H
#define LS_REDISTRIBUTE_H

#include "compile/compile_impl.h"

/* --- stages (stages.c) -------------------------------------------------------------------------------------------- */

/* One exchange of a collective: each member of the team with every other member. */
typedef struct ls_stage {
    int team, ranks;
} ls_stage;

/* What a stage of a reduce-scatter has received: the addends of each rank, in the order of places. */
typedef struct ls_slots {
    ls_operand all; /* `addends` x `count` elements of each rank */
    const ls_stage *stage;
    int addends;
    int64_t count;
} ls_slots;

/*
 * Writes the sum of the addends to `to` (`count` elements), or, with `adds`, adds it there. It may overwrite the slots.
 */
typedef void (*ls_slots_add)(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds);

/*
 * The exchanges of a collective over many ranks, nearest ranks first. They also decide which rank owns which piece: the
 * members of the first stage divide the whole in the order of their places, the members of the second stage divide the
 * part that the first stage left to them, and so on. A tensor that is reduce-scattered through some stages is
 * all-gathered through the same stages in reverse order.
 */
struct ls_stages {
    int n;
    ls_stage stage[LS_TEAM_DIGITS];
    ls_slots_add add; /* how a reduce-scatter adds */
};

/* The stages of a team, by the first algorithm of the table that fits the team. */
ls_stages ls_stages_of(ls_builder *b, const ls_team *team);
/* One exchange among all members, however many there are; pieces lie, and are added, in the order of places. */
ls_stages ls_stages_direct(const ls_builder *b, int team);
/* All ranks of the stages, in the order in which they own the pieces. */
ls_team ls_stages_owners(const ls_builder *b, const ls_stages *stages);
/* Of `whole` elements: how many are left to a rank after `stage`; and after all stages, which is its piece. */
int64_t ls_stages_count(const ls_stages *stages, int64_t whole, int stage);
int64_t ls_stages_piece_count(const ls_stages *stages, int64_t whole);
/*
 * Parts of dimension dim of `whole`. part: the part that after `stage` is left to the rank `shift` places after this
 * one in that stage; piece: the part that is left to this rank after all stages.
 */
ls_operand ls_stages_part(ls_builder *b, const ls_stages *stages, ls_operand whole, int dim, int stage, int shift);
ls_operand ls_stages_piece(ls_builder *b, const ls_stages *stages, ls_operand whole, int dim);

/* --- slots (slots.c) ---------------------------------------------------------------------------------------------- */

/* Adds one addend of each rank, in the order of places. */
void ls_slots_add_in_order(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds);
/*
 * Adds in an order that does not depend on the number of ranks: by a tree over the ranks of a sequence, then over the
 * addends of a rank, then over the sequences. The stage must have all ranks.
 */
void ls_slots_add_canonically(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds);

/* --- messages (messages.c) ---------------------------------------------------------------------------------------- */

/* A message to one rank and a message from another, over one channel. */
typedef struct ls_message_pair {
    int channel;
    ls_peer receiver, sender;
    ls_operand from;  /* what this rank sends */
    ls_operand to;    /* its shape and type at the receiver; the receiver's grant has the address */
    ls_operand land;  /* where this rank receives the sender's message */
    ls_operand there; /* in place: the sender's data, where they lie in its memory */
} ls_message_pair;

/* Messages that are in flight at the same time. */
typedef struct ls_messages {
    int n;
    ls_message_pair *pair;
} ls_messages;

/* Memory for n of them, in the image's arena. */
ls_messages ls_messages_make(ls_builder *b, int n);
/*
 * A message pair for each other member of a stage, beginning with the next member; channel, receiver and sender are
 * set.
 */
ls_messages ls_stage_messages(ls_builder *b, const char *label, const ls_stages *stages, int stage);
/* The three parts of a put. `from` needs to be set only before ls_messages_send. */
void ls_messages_grant(ls_builder *b, const ls_messages *m);
void ls_messages_send(ls_builder *b, const ls_messages *m);
void ls_messages_receive(ls_builder *b, const ls_messages *m);
/*
 * The three parts of a read in place: leases `from`; copies `there` to `land` and returns it; waits until `from` may be
 * overwritten.
 */
void ls_messages_lease(ls_builder *b, const ls_messages *m);
void ls_messages_fetch(ls_builder *b, const ls_messages *m);
void ls_messages_reclaim(ls_builder *b, const ls_messages *m);

/* --- all-gather (all_gather.c) ------------------------------------------------------------------------------------ */

typedef struct ls_all_gather {
    ls_operand all;
    int dim;
    ls_stages stages;
    int stage; /* the stage in which this rank's part is in flight; -1: everything has arrived */
    ls_messages messages[LS_TEAM_DIGITS];
} ls_all_gather;

/*
 * Gathers every rank's piece of dimension dim of `all`, which lies in the heap. The result is `all`, the same bytes on
 * each rank. Between expect and finish nothing on this rank may read or write `all`, except this rank's own piece
 * before begin. If `all` is made for this one use, its lifetime ends with the last instruction that reads it, as any
 * other buffer's does.
 */
ls_all_gather ls_all_gather_expect(ls_builder *b, const char *label, const ls_stages *stages, ls_operand all, int dim);
/* This rank's piece of `all`. */
ls_operand ls_all_gather_piece(ls_builder *b, const ls_all_gather *g);
/*
 * `mine`: the piece itself, if it has been written already; else an operand of the same shape, which is copied there
 * too.
 */
void ls_all_gather_begin(ls_builder *b, ls_all_gather *g, ls_operand mine);
void ls_all_gather_advance(ls_builder *b, ls_all_gather *g);
void ls_all_gather_finish(ls_builder *b, ls_all_gather *g);

/* --- reduce-scatter (reduce_scatter.c) ---------------------------------------------------------------------------- */

/*
 * n reduce-scatters of a program, one after the other, through the same two sets of slots: while one is added, the next
 * is in flight. A rank's piece of the sum is added stage by stage, in the order that `stages` says.
 */
typedef struct ls_reduce_scatter ls_reduce_scatter;

/* What each rank adds: n operands of `count` elements; n > 1 only with canonical sums. */
typedef struct ls_addends {
    int64_t count;
    int n;
} ls_addends;

/* Makes the slots, with the name `slots`. addends [n]: those of each reduce-scatter. */
ls_reduce_scatter *ls_reduce_scatter_make(ls_builder *b, const char *label, const char *slots, const ls_stages *stages,
                                          ls_dtype dtype, int n, const ls_addends *addends);
void ls_reduce_scatter_expect(ls_builder *b, ls_reduce_scatter *r);
/*
 * Begins the next reduce-scatter, and moves each earlier one on by one stage. `from` has this rank's addends, each
 * dense. With s stages they may be overwritten after the begin of the s-th reduce-scatter after this one, or after
 * ls_reduce_scatter_finish. `to` becomes this rank's piece of the sum, or, with `adds`, the piece is added to it.
 */
void ls_reduce_scatter_begin(ls_builder *b, ls_reduce_scatter *r, const ls_operand *from, ls_operand to, bool adds);
/* After all n have begun: completes the sums that are left. */
void ls_reduce_scatter_finish(ls_builder *b, ls_reduce_scatter *r);

/* --- all-reduce (all_reduce.c) ------------------------------------------------------------------------------------ */

typedef struct ls_all_reduce {
    ls_operand slots, to, sum;
    int64_t most;
    ls_stages stages;
    int stage;
    ls_all_gather gather; /* of the current stage */
} ls_all_reduce;

/*
 * The sum of a private, dense operand over the ranks of a team, in the order of places, stage by stage: the same bits
 * on each member. `sum` may be read after finish. most: elements of the operand on the team where it is largest.
 */
ls_all_reduce ls_all_reduce_begin(ls_builder *b, int team, ls_operand part, ls_operand sum, int64_t most);
void ls_all_reduce_finish(ls_builder *b, ls_all_reduce *r);

/* --- runs (runs.c) ------------------------------------------------------------------------------------------------ */

/*
 * The image's layout as runs. Kernels that need neighbours or states are called once for each run. With canonical sums
 * the runs are chunks, so that the calls are the same for any number of ranks. The arrays live while the program is
 * lowered.
 */
ls_layout ls_runs_of(const ls_builder *b);
/* The runs of this rank's positions (returns how many); and the largest number of runs of any rank. */
int ls_my_runs(const ls_builder *b, const ls_layout_run **runs);
int ls_most_runs(const ls_builder *b);

/* --- halo (halo.c) ------------------------------------------------------------------------------------------------ */

/* The tokens of this rank's runs with their neighbours, some of which other ranks hold. */
typedef struct ls_halo {
    ls_operand out;
    ls_messages messages;
    const struct ls_halo_pieces *takes; /* of each message */
} ls_halo;

/*
 * Whether most neighbours in the sequence are on the same rank, in not too many runs per rank. If not, the error says
 * so and names the node. ls_halo_can also fails the compilation then.
 */
LS_MUST_USE ls_status ls_halo_fits(const ls_builder *b, const ls_node *node);
bool ls_halo_can(ls_builder *b, const ls_node *node);
/* The number of tokens in this rank's runs, each run counted with its neighbours. */
int64_t ls_halo_tokens(const ls_builder *b, const ls_neighbours *around);
/* From x [B,tokens of this rank,..] to out [B,ls_halo_tokens,..]; tokens outside the sequence are zeros. */
ls_halo ls_halo_begin(ls_builder *b, const ls_neighbours *w, ls_operand x, ls_operand out);
void ls_halo_finish(ls_builder *b, const ls_halo *halo);

/* --- scan (scan.c) ------------------------------------------------------------------------------------------------ */

/* Finds the state in front of each run of this rank; backwards: the state behind it. */
typedef struct ls_scan {
    bool backwards;
    bool whole; /* each run gets the state that all runs of the sequence make together */
    ls_all_gather gather;
} ls_scan;

/*
 * The op's part of a scan: applies the maps [n,map..] to `state` [1,state..] one after the other, the last one first if
 * `reverse`. context: the pointer that the op passed to ls_scan_finish.
 */
typedef void (*ls_scan_follow)(ls_builder *b, const void *context, ls_operand maps, bool reverse, ls_operand state);

/* Below, room is ls_most_runs: every rank makes this number of maps and states. */
/* maps [room,map..]: what each run of this rank does to a state; the maps after its last run may have any value. */
ls_scan ls_scan_begin(ls_builder *b, bool backwards, ls_operand maps);
/* states [room,state..] become those in front of each run of this rank; the first run of all begins with zeros. */
void ls_scan_finish(ls_builder *b, ls_scan *scan, ls_scan_follow follow, const void *context, ls_operand states);

/* --- scan by owners (scan_owners.c) ------------------------------------------------------------------------------- */

/*
 * The runs of all ranks, in the order in which the state passes through them. Run i of rank p is number p * room + i.
 */
typedef struct ls_scan_order {
    int n;
    int64_t *at;
} ls_scan_order;
ls_scan_order ls_scan_order_of(ls_builder *b, bool backwards);

typedef struct ls_scan_owners {
    bool backwards;
    int64_t most_heads; /* heads on the rank along feature axes with the most; every rank must have at least as many
                           heads as the team has members */
} ls_scan_owners;

/*
 * The same as a scan, from maps [room,B,heads,map..] to states [room,B,heads,state..], but one rank composes all maps
 * of a head. `follow` is called with some of the heads.
 */
void ls_scan_by_owners(ls_builder *b, const ls_scan_owners *scan, ls_scan_follow follow, const void *context,
                       ls_operand maps, ls_operand states);

/* --- chain (chain.c) ---------------------------------------------------------------------------------------------- */

/* One run of this rank, for a slice of the sequences. from, count: the run's tokens among those of the rank. */
typedef struct ls_chain_step {
    int run;
    int64_t from, count;
    int64_t first, sequences;
} ls_chain_step;

typedef struct ls_chain {
    bool backwards;
    int slices;   /* slices into which this rank's sequences are cut */
    int64_t most; /* elements of `states` on the rank that has most */
    /*
     * The op's part of a chain: computes the run; `state` [sequences,..] is that in front of the run, and becomes that
     * behind it.
     */
    void (*pass)(ls_builder *b, const void *context, const ls_chain_step *step, ls_operand state);
    const void *context;
} ls_chain;

/*
 * Calls `pass` for each run and slice. states [room,B,..] become those in front of each run of this rank (backwards:
 * behind it); the first run of all begins with zeros.
 */
void ls_chain_states(ls_builder *b, const ls_chain *chain, ls_operand states);

/* --- rows by the ids of tokens (deal.c) --------------------------------------------------------------------------- */

typedef struct ls_deal_round {
    ls_operand ids; /* of this rank's tokens, as row numbers within the receiving member's part of the table */
    ls_operand numbers, rows, back;
} ls_deal_round;

typedef struct ls_deal {
    const char *label;
    int team, members, node;
    ls_operand ids, rows;
    int64_t room;  /* the most rows of any rank; a message may have as many */
    double likely; /* expected number of rows in a message */
    ls_deal_round *round;
} ls_deal;

/*
 * Rows of another rank, and their ids as row numbers within this rank's part of the table; ids after the last row are
 * LS_ID_ELSEWHERE.
 */
typedef struct ls_dealt {
    ls_operand ids, rows;
} ls_dealt;

/*
 * Exchanges the rows [..,E] of this rank's tokens, with ids [..], for node `node` along the axes that ls_exchanged
 * gives. Each round j from 1 to members - 1 has these parts, in this order:
 *
 *   begin     sends the rows whose ids belong to the member j places after this rank
 *   receive   gives the rows that the member j places before this rank sent
 *   return    sends as many rows back to that member, from `made` [room,E]
 *   finish    writes the rows that come back to the rows of `result` [..,E] whose ids belong to the member of begin
 *
 * If `returns` is false, there is no return and no finish. The parts of several rounds may overlap in time.
 */
ls_deal ls_deal_make(ls_builder *b, const char *label, int team, int node, ls_operand ids, ls_operand rows,
                     int64_t room);
void ls_deal_begin(ls_builder *b, const ls_deal *d, int j, bool returns);
ls_dealt ls_deal_receive(ls_builder *b, const ls_deal *d, int j);
void ls_deal_return(ls_builder *b, const ls_deal *d, int j, ls_operand made);
void ls_deal_finish(ls_builder *b, const ls_deal *d, int j, ls_operand result);

/* --- all-to-all (all_to_all.c) ------------------------------------------------------------------------------------ */

/* How a dimension is cut over the members of a team. Parts may overlap (KV heads that several members use). */
typedef struct ls_parts {
    int64_t total;            /* elements of the dimension, over all members */
    int64_t *start, *count;   /* by place in the team */
    int64_t most, most_total; /* the largest count of any rank, and the largest total of any team */
    /*
     * The number of consecutive members that have the same part (1: each has its own), if all parts have one size and
     * lie one after the other. Where a part begins then follows from the place, and all members run one program. 0: the
     * parts are uneven.
     */
    int sharers;
} ls_parts;

/* Sets `sharers` from start and count, for this team. */
void ls_parts_find_sharers(ls_parts *parts, const ls_team *team);
/*
 * The part of dimension dim of `all` that belongs to the member `shift` places after this rank; `all` has the parts of
 * all members.
 */
ls_operand ls_part_at(ls_builder *b, int team, ls_operand all, int dim, const ls_parts *cut, int shift);

/* A tensor that is cut along from_dim and whole along to_dim becomes cut along to_dim and whole along from_dim. */
typedef struct ls_recut {
    const char *label; /* also the name of the result */
    int team;
    int from_dim, to_dim;
    const ls_parts *from, *to;
    bool in_place; /* members read each other's parts in place instead of putting them; the bits are the same */
    bool leasable; /* others will read the result in place, so it must lie in the heap */
    int64_t rest;  /* product of the other dimensions on the rank where it is largest; 0: it is the same on all ranks */
} ls_recut;

typedef struct ls_all_to_all {
    ls_operand result;
    const struct ls_way *way;
    ls_messages messages;
} ls_all_to_all;

/*
 * mine: cut along from_dim. Nothing may write it between begin and settle. Settle stands after the finish of all ranks.
 */
ls_all_to_all ls_all_to_all_begin(ls_builder *b, const ls_recut *recut, ls_operand mine);
/* The result: cut along to_dim. */
ls_operand ls_all_to_all_finish(ls_builder *b, const ls_all_to_all *x);
void ls_all_to_all_settle(ls_builder *b, const ls_all_to_all *x);

/* --- ways by which states come to the ranks of a sequence (state_ways.c) ------------------------------------------ */

/*
 * What is needed to choose a way; the first member of a way's row. site: the site of an op, whose type the way knows.
 */
typedef struct ls_state_way {
    const char *name, *about; /* about: one line */
    /* The error says why the way is not applicable. */
    ls_status (*applicable)(const ls_builder *b, const void *site);
    /*
     * Bytes that a rank sends in the forward and the backward pass. Operations beyond those of a single rank, and the
     * operations that could be executed while a rank waits, are counted as bytes too. The cost must be the same on all
     * ranks, since they must take the same way.
     */
    double (*cost)(const ls_builder *b, const void *site);
} ls_state_way;

/* The way with this name; for NULL, the cheapest of those that are applicable. what: the kind of op, for the error. */
LS_MUST_USE ls_status ls_state_way_of(const ls_builder *b, const char *name, const char *what,
                                      const ls_state_way *const *ways, int n, const void *site,
                                      const ls_state_way **out);

/* --- tokens to heads (by_heads.c) --------------------------------------------------------------------------------- */

/* Tokens of consecutive positions that also lie one after the other in memory when the parts of all ranks do. */
typedef struct ls_stretch {
    int64_t position, from, count;
} ls_stretch;

/* How a rank gets some heads of all tokens of a sequence. */
typedef struct ls_by_heads {
    int team;
    ls_parts tokens;     /* how the ranks share the tokens */
    ls_parts marks;      /* each token has one mark, which goes to all ranks */
    ls_stretch *stretch; /* in the order of positions */
    int n;
} ls_by_heads;
ls_by_heads ls_by_heads_of(ls_builder *b);
/*
 * Whether the layout has few runs (ls_halo_fits), and each rank gets a head. least: the number of `what` on the rank
 * along tp with the fewest.
 */
LS_MUST_USE ls_status ls_by_heads_fits(const ls_builder *b, const ls_node *node, const char *what, int64_t least);
/*
 * How `heads` * `each` heads are shared by the ranks, in groups of `each`. most: the largest `heads` on any rank along
 * tp.
 */
ls_parts ls_parts_of_heads(ls_builder *b, const ls_by_heads *by, int64_t heads, int64_t each, int64_t most);

enum { LS_MOST_MOVES = 8 };
/* All-to-alls that are in flight together, from tokens to heads or back. */
typedef struct ls_moves {
    const ls_by_heads *by;
    bool back;
    int n;
    ls_all_to_all under_way[LS_MOST_MOVES];
    ls_operand *to[LS_MOST_MOVES];
} ls_moves;
/*
 * After ls_end_moves: `to` is the operand, cut the other way; with `back`, the result has been copied to the operand
 * `to`. An operand without elements is left out, and `to` is unchanged.
 */
void ls_move(ls_builder *b, ls_moves *moves, const char *label, ls_operand from, const ls_parts *heads, ls_operand *to);
void ls_end_moves(ls_builder *b, ls_moves *moves);

/* The operand, or a copy of it in the heap if it does not lie there. capacity: elements on the rank that has most. */
ls_operand ls_in_heap(ls_builder *b, ls_operand operand, int64_t capacity);

#endif
