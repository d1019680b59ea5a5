/*
 * attention strategies: how one attention op is computed by the ranks that share a sequence. One strategy is one file
 * and one const row, and LS_STRATEGIES lists them.
 *
 * Words: the ranks that differ only along axes that exchange heads (ulysses) form a block of U ranks; the block's
 * tokens are theirs in rank order, neighbouring entries of the positions table. Of the query heads that the ranks of a
 * block have (Hq; along tp a share of the model's), rank u works on floor(u*Hq/U) .. floor((u+1)*Hq/U)-1, and on every
 * KV head that these use. The ranks with the same place in R blocks form a ring.
 */
#ifndef LS_ATTENTION_H
#define LS_ATTENTION_H

#include "compile/redistribute/redistribute.h"

typedef struct ls_strategy ls_strategy;
typedef struct ls_queries ls_queries;

/* In which order queries go out and results come home: what strategies by which queries travel differ in. */
typedef void (*ls_query_schedule)(ls_builder *b, const ls_queries *q);

/* The tensors of a node of attention, or of its gradient, which alone has the last ones. */
typedef struct ls_attention_tensors {
    int node; /* its index */
    int sink; /* the input that has a logit per query head; -1: none */
    ls_tensor q, k, v, o, lse;
    ls_tensor grad_o, dq, dk, dv;
    ls_tensor dsink; /* the sum to which the gradient of the sink is added */
} ls_attention_tensors;

typedef struct ls_site ls_site;

enum { LS_KEYS, LS_VALUES, LS_KV };

/* All that a strategy may know of a node (site.c). */
struct ls_site {
    const ls_strategy *strategy;
    ls_attention_tensors forward;
    int64_t B, Hq, Hkv;
    int64_t D[LS_KV]; /* elements of a head of keys, and so of queries; of values, and so of results */
    ls_axes features; /* those of kind feature (tp) along which query heads are cut */
    int64_t fewest;   /* query heads of a block, where the cut along `features` leaves fewest */
    /*
     * Several ranks along `features` may use one KV head. skipped: of the query heads that use this rank's first KV
     * head, those that come before its own and belong to other ranks.
     */
    int64_t skipped;
    bool kv_whole;              /* `features` cut query heads only: k and v have all KV heads */
    ls_parts shares;            /* by rank along `features`: the KV heads that its queries use */
    ls_attention_params params; /* what kernels are told: scale, soft cap, this rank's heads */
    int mask; /* index into ls_image.masks: of my block of queries; where queries travel, + h is of those h hops away */
    ls_parts q_heads, kv_heads; /* over the ulysses ranks; with shared KV heads the parts overlap */
    /*
     * Where gradients of KV heads are collected: side by side, a head once for each ulysses rank that uses it; with
     * canonical sums once for each query head.
     */
    ls_parts kv_parts;
    /*
     * What this rank's attention works on, kept for the gradient: its heads of its block's tokens. Where another
     * program runs the gradient they are set anew for it; nothing else of the forward pass is there then.
     */
    ls_operand q, k, v; /* T[B,n,heads,D[LS_KEYS]], v T[B,n,heads,D[LS_VALUES]] */
    ls_operand lse;     /* G[B,heads,n]; with the sink */
    ls_operand scores;  /* of rsa alone: G[B,heads,n,tokens seen]; buffer -1: not there */
    /*
     * Where sequences are cut into slices: the site of the slice before this one (NULL: it is the first), and what
     * queries of later slices have added to the gradients of its keys and values (slices.c).
     */
    ls_site *before;
    ls_operand carried[LS_KV]; /* like k and v, in type G; buffer -1: nothing yet */
};

/* k or v, by its number. */
static inline const ls_operand *ls_site_held(const ls_site *site, int which) {
    return which == LS_KEYS ? &site->k : &site->v;
}

/* --- who has which heads (heads.c) -------------------------------------------------------------------------------- */

/* What that follows from: queries and keys of a node, and how they are spread. */
typedef struct ls_head_question {
    const ls_graph *graph;
    const ls_sharding *sharding;
    const ls_mesh *mesh;
    ls_tensor q, k;
} ls_head_question;

/* All that a site says of heads, but who collects canonical sums, and params.group and first_q. */
void ls_deal_heads(const ls_head_question *of, int rank, ls_arena *arena, ls_site *site);
/* The axes along which ranks have uneven parts of the heads. */
ls_axes ls_heads_tell_apart(const ls_head_question *of);
/* Of k, v or their gradients, as they lie on this rank, the heads that its queries use. */
ls_operand ls_site_kv(ls_builder *b, const ls_site *site, ls_operand all);

/* What nodes of a job leave for others on this rank: those of attention, with what is known of their masks. */
struct ls_sites {
    ls_site **of_node;                  /* by node of the graph; NULL: it has not been lowered */
    struct ls_visible **visible;        /* by mask: which tokens see which (visible.c); NULL: not asked yet */
    struct ls_chunk_view **chunk_views; /* by mask: which keys chunks see (canonical.c); NULL: not asked yet */
    ls_operand *fronts;                 /* by node: of a recurrence, the states in front of its runs */
    bool two_rings;                     /* of the strategy at work: the inner ring is one of its own (geometry.c) */
    bool reads_positions;               /* some kernels read the positions of all tokens (ls_image.positions) */
};

/*
 * What happens across blocks, between ranks of one ring; within blocks usp.c deals the heads out, for all strategies,
 * so that which strategy goes with which blocks is only the mesh. site->q, k, v are set: this rank's heads of its
 * block's tokens.
 */
struct ls_strategy {
    const char *name;
    const char *about;    /* one line */
    bool reads_in_place;  /* blocks of other ranks of a ring may also be read where they lie, with the same bits */
    bool two_rings;       /* of several axes of blocks the innermost is a ring of its own, around which others lie */
    const char *unsliced; /* why sequences are not cut into slices with it; NULL: they can be */
    const char *on_host;  /* what it needs of kernels that only processors have; NULL: GPUs have all */
    bool ordered;         /* canonical.c does it in its place where sums are canonical; else that is refused */
    ls_status (*applicable)(const ls_strategy *strategy, const ls_attention_problem *problem);
    /*
     * NULL, both, of one that is for one rank alone (local.c). o G[B,n,heads,D[LS_VALUES]] and site->lse are written,
     * without the node's sink.
     */
    void (*across_forward)(ls_builder *b, ls_site *site, ls_operand o);
    /*
     * dq G[B,n,heads,D[LS_KEYS]] is written; dk and dv come out where they were made, in type G with KV heads: an
     * ls_exchange_room or a slot.
     */
    void (*across_backward)(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                            ls_operand *dk, ls_operand *dv);
    ls_query_schedule query_schedule; /* of those whose queries travel (queries.c); else NULL */
};

/* All strategies, the plainest first: the row of X is ls_strategy_X. */
#define LS_STRATEGIES(X) \
    X(local), X(ring), X(ulysses), X(usp), X(gather), X(tokenring), X(decode), X(double_ring), X(burst), X(rsa)
#define LS_STRATEGY_ROW(name) ls_strategy_##name
extern const ls_strategy LS_STRATEGIES(LS_STRATEGY_ROW);
LS_MUST_USE ls_status ls_strategy_find(const char *name, const ls_strategy **out);
/* That of a node with the mask. */
LS_MUST_USE ls_status ls_strategy_under(const ls_target *target, const ls_mask *mask, const ls_strategy **out);

/* --- what strategies ask of a mesh (applicable.c) ----------------------------------------------------------------- */

/* `applicable` that asks of a mesh only that every rank of a block has a query head; the error names the strategy. */
LS_MUST_USE ls_status ls_strategy_heads(const ls_strategy *strategy, const ls_attention_problem *problem);
/* LS_OK if there are none of these axes, which the strategy has no use for; the error names both. */
LS_MUST_USE ls_status ls_strategy_without(const ls_strategy *strategy, const ls_mesh *mesh, ls_axes axes);

/* --- geometry (geometry.c) ---------------------------------------------------------------------------------------- */

int ls_blocks(const ls_builder *b);                    /* R */
int ls_block_members(const ls_builder *b);             /* U */
int ls_ring_index(const ls_builder *b);                /* my block, and place in the ring */
int ls_member_index(const ls_builder *b);              /* my place in the block */
int ls_block_team(ls_builder *b);                      /* my block */
ls_peer ls_rank_in_ring(ls_builder *b, int ring);      /* the rank of that block, at my place in it */
int64_t ls_block_start(const ls_builder *b, int ring); /* first entry of the positions table */
int64_t ls_block_tokens(const ls_builder *b, int ring);
int64_t ls_block_most(const ls_builder *b);
int64_t ls_member_tokens(const ls_builder *b, int member); /* tokens of a rank of my block */
int64_t ls_member_start(const ls_builder *b, int member);  /* its first token within the block */
/* Positions of a block's tokens of a slice, in the order in which it holds them, in the arena given. */
int32_t *ls_block_positions(const ls_builder *b, ls_arena *scratch, int ring, int slice);
/* Those of `count` keys that a mask is for, from that entry of the table on. */
ls_operand ls_key_positions(const ls_builder *b, int mask, int64_t start, int64_t count);

/*
 * Blocks of the inner ring. Of a strategy with two rings it has those along the innermost axis of blocks, and its rank
 * i forms the outer ring with rank i of the other inner ones; else there is one ring, of all.
 */
int ls_inner_blocks(const ls_builder *b);
/* What its channels are called: those of other nodes with one ring have other ends. */
const char *ls_ring_name(const ls_builder *b);
/*
 * The block that is here at a hop: it started so many ranks back. Of W blocks of the inner ring, hop h is h / W outer
 * and h % W inner hops. And an operand of one block with the sizes of another.
 */
int ls_block_at(const ls_builder *b, int hop);
/* The rank that it is from; of a negative hop, the one to which mine goes. */
ls_peer ls_rank_at(ls_builder *b, int hop);
ls_operand ls_with_tokens(ls_operand o, int64_t tokens);

/* --- masks as they are bound (masks.c) ---------------------------------------------------------------------------- */

/*
 * The mask of a node between queries and keys of its own slice, without its spans. Those of micro-batches differ where
 * sequences hold several documents.
 */
ls_mask_binding ls_mask_of(const ls_builder *b, int n);
/* The first of the image's masks that is of the same slices and micro-batch; n_masks: there is none. */
int ls_find_mask(const ls_builder *b, const ls_mask_binding *wanted);
/*
 * Binds the node's mask with the spans of this rank's block of queries, and behind it of the blocks that come here, hop
 * after hop, `blocks` of them in all; and the same between its queries and the keys of each earlier slice that they
 * see. Once for equal masks.
 */
void ls_place_masks(ls_builder *b, int n, int blocks);

/* --- what is seen (visible.c) ------------------------------------------------------------------------------------- */

/* Tokens of a block, in the order in which it holds them: ascending ranges, apart from each other, none empty. */
typedef struct ls_token_range {
    int64_t start, count;
} ls_token_range;

typedef struct ls_token_set {
    int n;
    int64_t count; /* of all ranges */
    ls_token_range *range;
} ls_token_set;

/*
 * Of block `keys`, the tokens that queries of block `queries` see, one of them mine, or both the same: of its own block
 * a rank has all.
 */
const ls_token_set *ls_seen(ls_builder *b, int mask, int queries, int keys);
/*
 * Sums of what pairs of blocks see. in_front: what `queries` see of the blocks in front of `keys`, with R for `keys` of
 * all. seers: what those in front of `queries` see of `keys`, which does not count itself; with R for `queries` all.
 * The other block is mine, where it is not R.
 */
int64_t ls_seen_in_front(ls_builder *b, int mask, int queries, int keys);
int64_t ls_seers_in_front(ls_builder *b, int mask, int queries, int keys);
/*
 * Those that somebody sees who is `hop` or more further in the ring: what must come that far. Of the block that comes
 * to me on this hop, or of the one that goes on from me.
 */
const ls_token_set *ls_wanted(ls_builder *b, int mask, int keys, int hop);
/*
 * The most tokens of any two different blocks that are seen; and of any block that are wanted behind it. The same on
 * every rank.
 */
int64_t ls_most_seen(ls_builder *b, int mask);
int64_t ls_most_wanted(ls_builder *b, int mask);
/*
 * The hops, ascending, over which some rank sees something of the block that is so far behind it; returns how many.
 * What is not among them is on no rank's program; what is, is on all of them, with nothing in it where a rank sees
 * nothing. Whether a hop is one of them, or 0.
 */
int ls_hops(ls_builder *b, int mask, const int **hops);
bool ls_hop_is_used(ls_builder *b, int mask, int hop);
/* The first and the last of those over which the queries of a block see something of another one; 0: they see nothing.
 */
typedef struct ls_hop_span {
    int first, last;
} ls_hop_span;
ls_hop_span ls_hops_of_queries(ls_builder *b, int mask, int queries);
/*
 * A walk over the hops, from 0 on, also over those that are not used where blocks are passed on over them; 0 behind the
 * last. The same along the inner ring alone, and to the next inner ring along the outer one.
 */
int ls_next_hop(ls_builder *b, int mask, int hop);
int ls_inner_hop(ls_builder *b, int mask, int hop);
int ls_outer_hop(ls_builder *b, int mask, int hop);
/*
 * Of the block that has come here over the outer hops of a hop: what the rank of my inner ring sees of it that is the
 * inner hops further. Of the block after `out` outer hops, what all ranks of my inner ring see; of my own, what all
 * those of the inner ring see that is so much further.
 */
const ls_token_set *ls_seen_in_ring(ls_builder *b, int mask, int hop);
const ls_token_set *ls_seen_by_ring(ls_builder *b, int mask, int out);
const ls_token_set *ls_seen_of_mine(ls_builder *b, int mask, int out);
/* What a mask leaves between some queries and some keys: (query, key) pairs, and queries that see any of the keys. */
typedef struct ls_area {
    double pairs, queries;
} ls_area;

/* Between a block's queries and that range of what they see of another; nothing beyond the last. */
ls_area ls_seen_area(ls_builder *b, int mask, int queries, int keys, int range);
/* All that they see of it. A query that sees several ranges counts for each, up to the number of queries. */
ls_area ls_seen_areas(ls_builder *b, int mask, int queries, int keys);
/* Counted, for any tokens of the block of keys; and the sum of two for that many queries (area.c). */
ls_area ls_count_area(const ls_builder *b, int mask, int queries, int keys, ls_token_range range);
ls_area ls_area_sum(ls_area a, ls_area b, int64_t queries);

/*
 * Where some tokens lie in an operand that holds ranges of a block one after the other, each dense: [B,count,heads,..].
 * `wanted` lies within one of the ranges held, or is empty.
 */
ls_operand ls_tokens_at(ls_operand held, const ls_token_set *tokens, ls_token_range wanted);

/* --- how other ranks' blocks arrive (put.c, in_place.c) ----------------------------------------------------------- */

/* What is here of a block. */
typedef struct ls_kv_block {
    const ls_token_set *tokens;
    ls_operand kv[LS_KV]; /* they, as ls_tokens_at finds them */
} ls_kv_block;

/* What goes round: LS_KEYS, LS_VALUES or both, from `first` to before `end`; and whether gradients come home. */
typedef struct ls_kv_pass {
    int first, end;
    bool backward;
} ls_kv_pass;

/*
 * Two ways, the same bits: put.c (blocks are put into slots of their readers) and in_place.c (they are read where they
 * lie). Ring: begin; then for each hop of the walk receive_block, in the backward pass gradient_room and send_gradient
 * where the hop is used, and release_block; after the last hop sum_gradients (backward, also with one rank); end. Of
 * arrays [LS_KV] the entries of the pass are used.
 */
typedef struct ls_kv_transfer {
    void *(*begin)(ls_builder *b, ls_site *site, ls_kv_pass pass);
    /* The block of this hop (0: my own, whole), at least what I see of it. It may be read until release_block. */
    void (*receive_block)(ls_builder *b, void *state, int hop, ls_kv_block *out);
    void (*release_block)(ls_builder *b, void *state, int hop);
    /*
     * Where my part of the gradient of this hop's block is made, of the tokens that I see; then it leaves for the
     * block's rank. Returns the tokens for which there is room.
     */
    const ls_token_set *(*gradient_room)(ls_builder *b, void *state, int hop, ls_operand part[LS_KV]);
    void (*send_gradient)(ls_builder *b, void *state, int hop, const ls_operand part[LS_KV]);
    /* The sum for my own block, when all ranks' parts have been added to it, in the order of the hops. */
    void (*sum_gradients)(ls_builder *b, void *state, ls_operand sum[LS_KV]);
    void (*end)(ls_builder *b, void *state);
} ls_kv_transfer;

extern const ls_kv_transfer ls_kv_transfer_put, ls_kv_transfer_in_place;

/* --- what is read where it lies (exchange.c) ---------------------------------------------------------------------- */

/* Whether other ranks' blocks are read in place; within a block, what its ranks exchange. */
bool ls_ring_reads(const ls_image *image);
bool ls_block_reads(const ls_image *image);
/* The way in which blocks arrive round the ring. */
static inline const ls_kv_transfer *ls_kv_transfer_of(const ls_builder *b) {
    return ls_ring_reads(b->image) ? &ls_kv_transfer_in_place : &ls_kv_transfer_put;
}

/* A buffer for what an exchange is to send: where the others read it in place it lies in the heap. */
ls_operand ls_exchange_room(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size,
                            int64_t capacity);

/* --- the two halves of USP ---------------------------------------------------------------------------------------- */

/* This rank's heads along dimension dim of an operand that has all of them. */
ls_operand ls_my_heads(ls_builder *b, ls_operand all, int dim, const ls_parts *heads);
/*
 * All-to-all within the block: my tokens of all heads become all of the block's tokens of my heads (to_heads), or back
 * (to_tokens). `token` and `head` say which dimensions are which.
 */
ls_all_to_all ls_to_heads_begin(ls_builder *b, const char *label, ls_operand mine, const ls_parts *heads, int token,
                                int head);
ls_all_to_all ls_to_tokens_begin(ls_builder *b, const char *label, ls_operand mine, const ls_parts *heads, int token,
                                 int head);

/*
 * KV blocks go round the ring (ring.c): the rows of all that have no other way across blocks. Of one block, only
 * attention itself.
 */
void ls_ring_forward(ls_builder *b, ls_site *site, ls_operand o);
void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq, ls_operand *dk,
                      ls_operand *dv);

/*
 * Canonical sums (canonical.c): the two ways across blocks. dk and dv come out with a part for each query head of mine,
 * and of the parts that have come to the tokens' rank [B,n,Hq,..], ls_canonical_kv makes the gradient [B,n,Hkv,..].
 */
void ls_canonical_forward(ls_builder *b, ls_site *site, ls_operand o);
void ls_canonical_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                           ls_operand *dk, ls_operand *dv);
ls_operand ls_canonical_kv(ls_builder *b, const ls_site *site, ls_operand parts, const char *name);

/*
 * All of it where one rank holds the sequence (local.c), which needs no other's tokens: results go straight to their
 * tensors.
 */
void ls_local_forward(ls_builder *b, ls_site *site);
void ls_local_backward(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient, ls_operand grad_o,
                       ls_operand delta);

/*
 * A node's sink, if it has one (sink.c). forward: into o G[B,n,heads,..] and site->lse, when all blocks have been
 * attended to. backward: its gradient, from site->lse and delta G[B,heads,n].
 */
void ls_sink_forward(ls_builder *b, const ls_site *site, ls_operand o);
void ls_sink_backward(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand delta);

/* --- slices of a sequence (slices.c) ------------------------------------------------------------------------------ */

/*
 * Queries of a slice attend to its own keys and to those of the slices before it, of each by the same strategy; partial
 * results merge as those of blocks do. A walk begins with the site itself and ends with NULL; slices of which the mask
 * leaves nothing to any of the queries are left out.
 */
ls_site *ls_slice_before(const ls_builder *b, const ls_site *site, const ls_site *keys);
/* The site with the keys, values and mask of the slice `keys`. Beyond its own, results are added to what is there. */
ls_site ls_site_with(const ls_builder *b, const ls_site *site, const ls_site *keys);
/* Adds to what is carried for the slice `keys`: parts of its gradients, like its k and v, in type G. */
void ls_slice_carry(ls_builder *b, ls_site *keys, const ls_operand part[LS_KV]);
/* Where they are carried, for what is added there. */
void ls_slice_room(ls_builder *b, ls_site *keys, ls_operand room[LS_KV]);
/* Whether something is carried for the slice. */
bool ls_slice_is_carried(const ls_site *site);

/* --- calls of the kernels (call.c) -------------------------------------------------------------------------------- */

/* Some queries and some keys; see kernel/kernel.h for sizes and strides. */
typedef struct ls_attention_call {
    ls_attention_params params;
    ls_operand q, k, v;
    ls_operand spans, positions; /* of the queries, of the keys */
    ls_area area;                /* that the mask leaves of them, for one head of one sequence */
} ls_attention_call;

/* What its spans come to (band.c); unknown where they are data of a run, or no band. */
ls_attention_band ls_band_of(const ls_builder *b, const ls_attention_call *call);

void ls_build_attention(ls_builder *b, const ls_attention_call *call, ls_operand o, ls_operand lse);
/* Positions of all that my queries see, block after block: a part of the table, or a copy where that has gaps. */
ls_operand ls_positions_seen(ls_builder *b, int mask);

/* What the gradient is given besides that, laid out like the queries. */
typedef struct ls_attention_given {
    ls_operand grad_o, lse, delta;
} ls_attention_given;
void ls_build_attention_grad(ls_builder *b, const ls_attention_call *call, const ls_attention_given *given,
                             ls_operand dq, ls_operand dk, ls_operand dv);

/* --- queries that travel (queries.c): tokenring, decode, burst ---------------------------------------------------- */

enum { LS_QUERY_TENSORS = 4 };

/*
 * A pass over all pairs of blocks with resting keys, round after round: over hops[round - 1] to the ranks so much
 * before, round 0 at home. `own` goes to the ranks whose keys it meets; what they find is laid out like `found`, where
 * the owner joins all parts. attend: the queries that are here on a round (my own come first) against my keys, into
 * part.
 */
struct ls_queries {
    ls_site *site;
    const int *hops; /* ls_hops */
    int rounds;      /* besides round 0 */
    int n_own, n_found;
    ls_operand own[LS_QUERY_TENSORS], found[LS_QUERY_TENSORS];
    const char *const *own_name, *const *found_name;
    ls_operand dkv[LS_KV]; /* of the backward pass */
    void (*attend)(ls_builder *b, const ls_queries *q, int round, const ls_operand in[], const ls_operand part[]);
    void (*join)(ls_builder *b, const ls_queries *q, const ls_operand part[]); /* to found */
};

#define LS_QUERIES_UNSLICED "brings queries to the keys, and keys of earlier slices stay"

/* across_forward and across_backward of strategies with a `query_schedule`. */
void ls_queries_forward(ls_builder *b, ls_site *site, ls_operand o);
void ls_queries_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                         ls_operand *dk, ls_operand *dv);

/* Such a tensor, with values or one number for each head of a token, for so many tokens. */
ls_operand ls_query_tokens(ls_operand o, int64_t tokens);

/* The block of queries that comes here on a round, and the one where mine go. */
int ls_queries_from(const ls_builder *b, const ls_queries *q, int round);
int ls_queries_to(const ls_builder *b, const ls_queries *q, int round);
/* Whether the mask leaves anything to the queries that come here on a round; and to mine where they go. */
bool ls_queries_see_mine(ls_builder *b, const ls_queries *q, int round);
bool ls_mine_see_there(ls_builder *b, const ls_queries *q, int round);

/* One direction: own outwards, or what was found home. Each round leads to a slot, `slots` of them in turn. */
typedef struct ls_query_transfer {
    const ls_queries *q;
    bool back;
    int n, slots;
    const char *const *name; /* of the n tensors */
    ls_operand *slot;        /* by tensor * slots + slot, with sizes of the largest block */
} ls_query_transfer;
ls_query_transfer ls_query_transfer_out(ls_builder *b, const ls_queries *q, int slots);
ls_query_transfer ls_query_transfer_back(ls_builder *b, const ls_queries *q, int slots);
/*
 * Each rank calls all three for every round; ls_query_release may be left out for the last `slots` rounds. *out may be
 * read until release.
 */
void ls_query_send(ls_builder *b, const ls_query_transfer *v, int round, const ls_operand from[]);
void ls_query_receive(ls_builder *b, const ls_query_transfer *v, int round, ls_operand out[]);
void ls_query_release(ls_builder *b, const ls_query_transfer *v, int round);
/* A buffer for what is found for the queries of a round; and found made a copy of such a part. */
void ls_round_results(ls_builder *b, const ls_queries *q, int round, ls_operand part[]);
void ls_copy_results(ls_builder *b, const ls_queries *q, const ls_operand part[]);

/* The composition that all of them are: gather heads, across blocks, scatter tokens. */
void ls_usp_forward(ls_builder *b, ls_site *site);
void ls_usp_backward(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient);

#endif
