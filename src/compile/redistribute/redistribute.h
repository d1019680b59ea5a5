/*
 * Redistribution: what the ranks of a team hold of a tensor becomes what they need of it.
 *
 *   cut -> whole       all-gather       all_gather.c
 *   partial -> cut     reduce-scatter   reduce_scatter.c
 *   partial -> whole   all-reduce       all_reduce.c
 *   cut -> other cut   all-to-all       all_to_all.c
 *   neighbours         halo             halo.c
 *   all before         scan             scan.c, scan_owners.c
 *   by index           deal             deal.c
 *
 * Halo and scan, and what is called behind them, work by runs of positions (runs.c).
 *
 * Beside these files only the attention strategies, which have hops of their own, send anything
 * (tools/check-layers.py).
 *
 * A collective has parts, so that the caller decides where in the list each of them stands. All ranks of the team emit
 * the same parts in the same order:
 *
 *   expect    nothing here reads any more what lies where others' parts are going to land
 *   begin     this rank's part leaves
 *   advance   what has come by one stage goes on by the next
 *   finish    the stages that are left; then everything has come, and its result may be read
 *   settle    (all-to-all) what left may be overwritten
 *
 * Anything else may stand between them, also parts of other collectives. A collective finds its channels by its label,
 * and the same label may be used any number of times in a program: its next expect stands behind the last finish.
 */
#ifndef LS_REDISTRIBUTE_H
#define LS_REDISTRIBUTE_H

#include "compile/compile_impl.h"

/* --- stages (stages.c) -------------------------------------------------------------------------------------------- */

/* One of the exchanges that a collective consists of: every member of the team with every other. */
typedef struct ls_stage {
    int team, ranks;
} ls_stage;

/* What has come through a stage of a reduce-scatter: of each rank, in the order of their places, its addends. */
typedef struct ls_slots {
    ls_operand all; /* `addends` x `count` elements of each rank */
    const ls_stage *stage;
    int addends;
    int64_t count;
} ls_slots;

/* `to`, of `count` elements, becomes the sum, or, with `adds`, the sum is added to it. Slots may be overwritten. */
typedef void (*ls_slots_add)(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds);

/*
 * The exchanges of a collective over many ranks, nearest ranks first. They also say which rank owns which piece of what
 * is scattered: the members of the first stage share the whole in the order of their places, those of the next one the
 * part of each, and so on. So what is reduce-scattered through some stages is all-gathered through the same ones,
 * backwards.
 */
struct ls_stages {
    int n;
    ls_stage stage[LS_TEAM_DIGITS];
    ls_slots_add add; /* how a reduce-scatter adds */
};

/* Those of a team, by the first algorithm of the table that serves it. */
ls_stages ls_stages_of(ls_builder *b, const ls_team *team);
/* One exchange among all, however many they are: the pieces lie, and are added, in the order of places. */
ls_stages ls_stages_direct(const ls_builder *b, int team);
/* All ranks of the stages, in the order in which they own the pieces. */
ls_team ls_stages_owners(const ls_builder *b, const ls_stages *stages);
/* Of so many elements those of the part that is left to a rank after the stage, and after all: of its piece. */
int64_t ls_stages_count(const ls_stages *stages, int64_t whole, int stage);
int64_t ls_stages_piece_count(const ls_stages *stages, int64_t whole);
/*
 * Of dimension dim of an operand which is whole: the part that is left after the stage to the rank `shift` places
 * further in it; and what is left to this rank after all stages.
 */
ls_operand ls_stages_part(ls_builder *b, const ls_stages *stages, ls_operand whole, int dim, int stage, int shift);
ls_operand ls_stages_piece(ls_builder *b, const ls_stages *stages, ls_operand whole, int dim);

/* --- slots (slots.c) ---------------------------------------------------------------------------------------------- */

/* One addend of each rank, in the order of their places. */
void ls_slots_add_in_order(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds);
/*
 * The same order for any number of ranks: by a tree over the ranks of a sequence, then over the addends of a rank, then
 * over the sequences. For a stage of all ranks.
 */
void ls_slots_add_canonically(ls_builder *b, const ls_slots *slots, ls_operand to, bool adds);

/* --- messages (messages.c) ---------------------------------------------------------------------------------------- */

/* What goes to one rank, and what comes from another, over one channel. */
typedef struct ls_message_pair {
    int channel;
    ls_peer receiver, sender;
    ls_operand from;  /* what leaves */
    ls_operand to;    /* the form in which it lands there; where that is, the receiver says */
    ls_operand land;  /* where the sender's lands here */
    ls_operand there; /* what is read in place: the sender's, where it lies there */
} ls_message_pair;

/* Messages that are under way at the same time. */
typedef struct ls_messages {
    int n;
    ls_message_pair *pair;
} ls_messages;

/* Room for n of them in the image's arena. */
ls_messages ls_messages_make(ls_builder *b, int n);
/* One for each other member of a stage, the next one first; channel, receiver and sender are set. */
ls_messages ls_stage_messages(ls_builder *b, const char *label, const ls_stages *stages, int stage);
/* The three sides of each message. Of `from`, only ls_messages_send need know. */
void ls_messages_grant(ls_builder *b, const ls_messages *m);
void ls_messages_send(ls_builder *b, const ls_messages *m);
void ls_messages_receive(ls_builder *b, const ls_messages *m);
/* In place: `from` is leased; `there` is copied to `land` and given back; `from` may be overwritten. */
void ls_messages_lease(ls_builder *b, const ls_messages *m);
void ls_messages_fetch(ls_builder *b, const ls_messages *m);
void ls_messages_reclaim(ls_builder *b, const ls_messages *m);

/* --- all-gather (all_gather.c) ------------------------------------------------------------------------------------ */

typedef struct ls_all_gather {
    ls_operand all;
    int dim;
    ls_stages stages;
    int stage; /* through which this rank's part is under way; -1: everything has come */
    ls_messages messages[LS_TEAM_DIGITS];
} ls_all_gather;

/*
 * Every rank's piece of dimension dim of `all`, which lies in the heap, to every rank. The result is `all`, the same
 * bytes on each rank; nothing here may read or write it between expect and finish, but for this rank's own piece until
 * begin. A buffer that is made for one use ends with the last instruction that reads it, as any other does.
 */
ls_all_gather ls_all_gather_expect(ls_builder *b, const char *label, const ls_stages *stages, ls_operand all, int dim);
/* This rank's piece of `all`. */
ls_operand ls_all_gather_piece(ls_builder *b, const ls_all_gather *g);
/* `mine`: that, where the piece has been written already; else an operand like it, from which it is copied there too.
 */
void ls_all_gather_begin(ls_builder *b, ls_all_gather *g, ls_operand mine);
void ls_all_gather_advance(ls_builder *b, ls_all_gather *g);
void ls_all_gather_finish(ls_builder *b, ls_all_gather *g);

/* --- reduce-scatter (reduce_scatter.c) ---------------------------------------------------------------------------- */

/*
 * Reduce-scatters that follow each other through the same two sets of slots, n of them in a program: while one is added
 * up, the next is under way. A rank's piece of the sum is added stage by stage, in the order that `stages` says.
 */
typedef struct ls_reduce_scatter ls_reduce_scatter;

/* What each rank adds: so many operands of `count` elements; more than one only where sums are canonical. */
typedef struct ls_addends {
    int64_t count;
    int n;
} ls_addends;

/* Makes the slots, named so. addends: of each in turn. */
ls_reduce_scatter *ls_reduce_scatter_make(ls_builder *b, const char *label, const char *slots, const ls_stages *stages,
                                          ls_dtype dtype, int n, const ls_addends *addends);
void ls_reduce_scatter_expect(ls_builder *b, ls_reduce_scatter *r);
/*
 * The next one leaves: `from` has this rank's addends, each dense, which may be overwritten after
 * ls_reduce_scatter_finish or the begin of the one that follows as many later as there are stages. Each of those before
 * goes on by one stage. `to` becomes this rank's piece of the sum, or, with `adds`, that is added to it.
 */
void ls_reduce_scatter_begin(ls_builder *b, ls_reduce_scatter *r, const ls_operand *from, ls_operand to, bool adds);
/* All n have begun: the sums that are left. */
void ls_reduce_scatter_finish(ls_builder *b, ls_reduce_scatter *r);

/* --- all-reduce (all_reduce.c) ------------------------------------------------------------------------------------ */

typedef struct ls_all_reduce {
    ls_operand slots, to, sum;
    int64_t most;
    ls_stages stages;
    int stage;
    ls_all_gather gather; /* of the stage */
} ls_all_reduce;

/*
 * The sum of a private operand (dense) over the ranks of a team, in the order of their places, stage by stage: the same
 * bits on each member. `sum` may be read after finish. most: its elements in the team that has most.
 */
ls_all_reduce ls_all_reduce_begin(ls_builder *b, int team, ls_operand part, ls_operand sum, int64_t most);
void ls_all_reduce_finish(ls_builder *b, ls_all_reduce *r);

/* --- runs (runs.c) ------------------------------------------------------------------------------------------------ */

/*
 * The image's layout, in the runs for each of which kernels that need neighbours or states are called: where sums are
 * canonical these are chunks, so that calls are the same for any number of ranks. Its arrays live as long as the
 * program is lowered.
 */
ls_layout ls_runs_of(const ls_builder *b);
/* The runs of this rank's positions; returns how many. And the most that a rank has. */
int ls_my_runs(const ls_builder *b, const ls_layout_run **runs);
int ls_most_runs(const ls_builder *b);

/* --- halo (halo.c) ------------------------------------------------------------------------------------------------ */

/* Tokens of other ranks before and after the runs of this rank's positions. */
typedef struct ls_halo {
    ls_operand out;
    ls_messages messages;
    const struct ls_halo_pieces *takes; /* of each message */
} ls_halo;

/*
 * Whether the layout leaves neighbours in the sequence together, in not too many runs a rank. If not, the error has the
 * node's name and the reason; and the compilation fails.
 */
LS_MUST_USE ls_status ls_halo_fits(const ls_builder *b, const ls_node *node);
bool ls_halo_can(ls_builder *b, const ls_node *node);
/* The tokens of this rank's runs, each with its neighbours: so many of the result. */
int64_t ls_halo_tokens(const ls_builder *b, const ls_neighbours *around);
/* From x [B,tokens held,..], `out` [B,those tokens,..]: zeros outside the sequence. */
ls_halo ls_halo_begin(ls_builder *b, const ls_neighbours *w, ls_operand x, ls_operand out);
void ls_halo_finish(ls_builder *b, const ls_halo *halo);

/* --- scan (scan.c) ------------------------------------------------------------------------------------------------ */

/* The state in front of each run of this rank's positions, or behind it (backwards). */
typedef struct ls_scan {
    bool backwards;
    bool whole; /* the state of all runs together, for each of them */
    ls_all_gather gather;
} ls_scan;

/*
 * The op's own part: `state` [1,state..] becomes what the maps [n,map..] make of it one after the other, the last first
 * if `reverse`. context: what the op gives to ls_scan_finish.
 */
typedef void (*ls_scan_follow)(ls_builder *b, const void *context, ls_operand maps, bool reverse, ls_operand state);

/* room: the most runs that a rank has (ls_most_runs). So many maps and states are made on every rank. */
/* maps [room,map..]: what each run of this rank does to a state; where it has fewer, anything. */
ls_scan ls_scan_begin(ls_builder *b, bool backwards, ls_operand maps);
/* states [room,state..]: of each run of this rank, from a state of zeros in front of the first of all. */
void ls_scan_finish(ls_builder *b, ls_scan *scan, ls_scan_follow follow, const void *context, ls_operand states);

/* --- scan by owners (scan_owners.c) ------------------------------------------------------------------------------- */

/* The runs of all ranks in the order in which states follow each other: run i of rank p is p * room + i. */
typedef struct ls_scan_order {
    int n;
    int64_t *at;
} ls_scan_order;
ls_scan_order ls_scan_order_of(ls_builder *b, bool backwards);

typedef struct ls_scan_owners {
    bool backwards;
    int64_t most_heads; /* on the rank along axes of features that has most; no rank has fewer than there are members */
} ls_scan_owners;

/*
 * The same from maps [room,B,heads,map..] to states [room,B,heads,state..], where each head has a rank that composes
 * its maps. `follow` is called for some of the heads.
 */
void ls_scan_by_owners(ls_builder *b, const ls_scan_owners *scan, ls_scan_follow follow, const void *context,
                       ls_operand maps, ls_operand states);

/* --- chain (chain.c) ---------------------------------------------------------------------------------------------- */

/* A run of this rank, its tokens among those of the rank, and a slice of the sequences. */
typedef struct ls_chain_step {
    int run;
    int64_t from, count;
    int64_t first, sequences;
} ls_chain_step;

typedef struct ls_chain {
    bool backwards;
    int slices;   /* of the sequences of this rank */
    int64_t most; /* elements of `states` on the rank that has most */
    /* The op's own part: `state` [sequences,..] in front of the run becomes that behind it. */
    void (*pass)(ls_builder *b, const void *context, const ls_chain_step *step, ls_operand state);
    const void *context;
} ls_chain;

/*
 * states [room,B,..] become those in front of each run of this rank (backwards: behind it), from zeros in front of the
 * first of all; and `pass` is called for each run and slice.
 */
void ls_chain_states(ls_builder *b, const ls_chain *chain, ls_operand states);

/* --- rows by the ids of tokens (deal.c) --------------------------------------------------------------------------- */

typedef struct ls_deal_round {
    ls_operand ids; /* of this rank's tokens, among the rows of the member that they go to */
    ls_operand numbers, rows, back;
} ls_deal_round;

typedef struct ls_deal {
    const char *label;
    int team, members, node;
    ls_operand ids, rows;
    int64_t room;  /* rows that a rank has at most: so many may go to each other one */
    double likely; /* that do */
    ls_deal_round *round;
} ls_deal;

/* Rows of another rank, and their ids among the rows of the table here; behind them LS_ID_ELSEWHERE. */
typedef struct ls_dealt {
    ls_operand ids, rows;
} ls_dealt;

/*
 * Rows [..,E] of this rank's tokens and ids [..] of node n, which exchanges them along the team's axes (ls_exchanged).
 * Of each round from 1 to members - 1, in this order: begin sends the rows that go to one member, receive gives those
 * of another, return sends back as many as came, of `made` [room,E], and finish writes those that come back over the
 * rows of `result` [..,E] whose ids name that member's. Without return and finish nothing comes back. Other rounds may
 * stand between these.
 */
ls_deal ls_deal_make(ls_builder *b, const char *label, int team, int node, ls_operand ids, ls_operand rows,
                     int64_t room);
void ls_deal_begin(ls_builder *b, const ls_deal *d, int j, bool returns);
ls_dealt ls_deal_receive(ls_builder *b, const ls_deal *d, int j);
void ls_deal_return(ls_builder *b, const ls_deal *d, int j, ls_operand made);
void ls_deal_finish(ls_builder *b, const ls_deal *d, int j, ls_operand result);

/* --- all-to-all (all_to_all.c) ------------------------------------------------------------------------------------ */

/* How a dimension is cut over the members of a team. Parts may overlap: KV heads that several members use. */
typedef struct ls_parts {
    int64_t total;            /* elements of the dimension, of all members */
    int64_t *start, *count;   /* by place in the team */
    int64_t most, most_total; /* the largest count of a rank and the largest total of a team */
    /*
     * Where parts have one size and lie one behind the other, places say where they begin and members run one program:
     * so many members that follow each other have the same part (1: each has its own). 0: they are uneven.
     */
    int sharers;
} ls_parts;

/* Fills `sharers` from start and count, for such a team. */
void ls_parts_find_sharers(ls_parts *parts, const ls_team *team);
/* Along dimension dim of what all members have together, the part of the member `shift` places further. */
ls_operand ls_part_at(ls_builder *b, int team, ls_operand all, int dim, const ls_parts *cut, int shift);

/* From what is cut along one dimension, and whole along another, to the other way round. */
typedef struct ls_recut {
    const char *label; /* also the name of the result */
    int team;
    int from_dim, to_dim;
    const ls_parts *from, *to;
    bool in_place; /* the members read each other's parts where they lie (the same bits); else they put them */
    bool leasable; /* the result is to be read in place by others, so that it lies in the heap */
    int64_t rest;  /* elements of the other dimensions together on the rank with most; 0: all ranks have as many */
} ls_recut;

typedef struct ls_all_to_all {
    ls_operand result;
    const struct ls_way *way;
    ls_messages messages;
} ls_all_to_all;

/* mine: cut along from_dim. Nothing may write it between begin and settle, which stands behind the finish of all. */
ls_all_to_all ls_all_to_all_begin(ls_builder *b, const ls_recut *recut, ls_operand mine);
/* The result: cut along to_dim. */
ls_operand ls_all_to_all_finish(ls_builder *b, const ls_all_to_all *x);
void ls_all_to_all_settle(ls_builder *b, const ls_all_to_all *x);

/* --- ways by which states come to the ranks of a sequence (state_ways.c) ------------------------------------------ */

/* What choosing one asks of it: the first member of a row. site: that of an op, which knows its type. */
typedef struct ls_state_way {
    const char *name, *about; /* one line */
    /* The error says why not. */
    ls_status (*applicable)(const ls_builder *b, const void *site);
    /*
     * Bytes that a rank sends forward and backward; operations beside those of one rank alone, and those for which it
     * waits, count as parts of them. The same on all ranks, as the way must be.
     */
    double (*cost)(const ls_builder *b, const void *site);
} ls_state_way;

/* That of a name, or for NULL the cheapest of those that are applicable. what: states of which op, for errors. */
LS_MUST_USE ls_status ls_state_way_of(const ls_builder *b, const char *name, const char *what,
                                      const ls_state_way *const *ways, int n, const void *site,
                                      const ls_state_way **out);

/* --- tokens to heads (by_heads.c) --------------------------------------------------------------------------------- */

/* Tokens of neighbouring positions that lie one behind the other among those of all ranks. */
typedef struct ls_stretch {
    int64_t position, from, count;
} ls_stretch;

/* How a rank comes to all tokens of a sequence, of some heads. */
typedef struct ls_by_heads {
    int team;
    ls_parts tokens;     /* of ranks */
    ls_parts marks;      /* the one mark of each token, to all */
    ls_stretch *stretch; /* by position */
    int n;
} ls_by_heads;
ls_by_heads ls_by_heads_of(ls_builder *b);
/* Whether the layout is one for runs (ls_halo_fits), and there are heads enough: `least`, of `what`, on the rank along
 * tp with fewest. */
LS_MUST_USE ls_status ls_by_heads_fits(const ls_builder *b, const ls_node *node, const char *what, int64_t least);
/* Heads of the ranks, `each` for one of `heads`. most: of these, on the rank along tp that has most. */
ls_parts ls_parts_of_heads(ls_builder *b, const ls_by_heads *by, int64_t heads, int64_t each, int64_t most);

enum { LS_MOST_MOVES = 8 };
/* All-to-alls that are under way together, from tokens to heads or back. */
typedef struct ls_moves {
    const ls_by_heads *by;
    bool back;
    int n;
    ls_all_to_all under_way[LS_MOST_MOVES];
    ls_operand *to[LS_MOST_MOVES];
} ls_moves;
/*
 * At the end `to` is the operand, cut the other way; or, back, what comes is copied there. What has no elements stays.
 */
void ls_move(ls_builder *b, ls_moves *moves, const char *label, ls_operand from, const ls_parts *heads, ls_operand *to);
void ls_end_moves(ls_builder *b, ls_moves *moves);

/* The operand, or, where it does not lie in the heap, a copy of it there. capacity: elements on the rank with most. */
ls_operand ls_in_heap(ls_builder *b, ls_operand operand, int64_t capacity);

#endif
