/*
 * Attention strategies: how the ranks that share a sequence compute one attention op. One strategy is one file and one
 * const row; LS_STRATEGIES lists them.
 *
 * Words used here: the U ranks that differ only along axes that exchange heads (ulysses) form a block. The tokens of a
 * block are those of its ranks, in rank order; in the table of positions they are neighbours. The ranks of a block have
 * Hq query heads together (all of the model's; along tp a share of them). Rank u of a block works on query heads
 * floor(u*Hq/U) .. floor((u+1)*Hq/U)-1, and on every KV head that these use. There are R blocks; the ranks with the
 * same place in each of them form a ring.
 */
#ifndef LS_ATTENTION_H
#define LS_ATTENTION_H

#include "compile/redistribute/redistribute.h"

typedef struct ls_strategy ls_strategy;
typedef struct ls_queries ls_queries;

/* The order in which queries are sent and results come back. Strategies whose queries travel differ only in this. */
typedef void (*ls_query_schedule)(ls_builder *b, const ls_queries *q);

/* The tensors of an attention node or of its gradient node. grad_o and those after it are the gradient's alone. */
typedef struct ls_attention_tensors {
    int node; /* index of the node */
    int sink; /* index of the input that has a logit per query head; -1: none */
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
    int64_t D[LS_KV]; /* elements of one head: of queries and keys; of values and results */
    ls_axes features; /* the feature axes (tp) along which query heads are cut */
    int64_t fewest;   /* query heads of a block, at the place along `features` where there are fewest */
    /*
     * Several ranks along `features` may use one KV head. skipped: how many query heads use this rank's first KV head,
     * come before this rank's own heads, and belong to other ranks.
     */
    int64_t skipped;
    bool kv_whole;              /* only query heads are cut along `features`: k and v have all KV heads */
    ls_parts shares;            /* by rank along `features`: the KV heads that its queries use */
    ls_attention_params params; /* for the kernels: scale, soft cap, this rank's heads */
    int mask; /* index into ls_image.masks, of my block's queries; if queries travel, mask + h is that of the queries
                 that come over h hops */
    ls_parts q_heads, kv_heads; /* over the ulysses ranks; with shared KV heads the parts overlap */
    /*
     * How gradients of KV heads are collected: side by side, each head once for each ulysses rank that uses it; with
     * canonical sums once for each query head.
     */
    ls_parts kv_parts;
    /*
     * The inputs of this rank's attention: its heads, for all tokens of its block. They are kept for the gradient. If
     * another program runs the gradient, they are made again there; nothing else of the forward pass exists then.
     */
    ls_operand q, k, v; /* q and k T[B,n,heads,D[LS_KEYS]], v T[B,n,heads,D[LS_VALUES]] */
    ls_operand lse;     /* G[B,heads,n]; includes the sink */
    ls_operand scores;  /* only with rsa: G[B,heads,n,tokens seen]; buffer -1: none */
    /*
     * If sequences are cut into slices: the site of the previous slice (NULL: this is the first), and what queries of
     * later slices have added to the gradients of this slice's keys and values (slices.c).
     */
    ls_site *before;
    ls_operand carried[LS_KV]; /* shaped like k and v, in type G; buffer -1: nothing yet */
};

/* k or v, by its index LS_KEYS or LS_VALUES. */
static inline const ls_operand *ls_site_held(const ls_site *site, int which) {
    return which == LS_KEYS ? &site->k : &site->v;
}

/* --- who has which heads (heads.c) -------------------------------------------------------------------------------- */

/* What the distribution of heads follows from: queries and keys of a node, and how they are spread. */
typedef struct ls_head_question {
    const ls_graph *graph;
    const ls_sharding *sharding;
    const ls_mesh *mesh;
    ls_tensor q, k;
} ls_head_question;

/* Sets all that a site says of heads, except kv_parts with canonical sums, params.group and params.first_q. */
void ls_deal_heads(const ls_head_question *of, int rank, ls_arena *arena, ls_site *site);
/* The axes along which ranks have unequal parts of the heads. */
ls_axes ls_heads_tell_apart(const ls_head_question *of);
/* The heads that this rank's queries use, of k, v or their gradients as this rank holds them. */
ls_operand ls_site_kv(ls_builder *b, const ls_site *site, ls_operand all);

/* What the lowering of a node leaves for other nodes of a job on this rank. */
struct ls_sites {
    ls_site **of_node;                  /* by graph node: its attention site; NULL: not lowered yet */
    struct ls_visible **visible;        /* by mask: which tokens see which (visible.c); NULL: not needed so far */
    struct ls_chunk_view **chunk_views; /* by mask: which keys the chunks see (canonical.c); NULL: not needed so far */
    ls_operand *fronts;                 /* by graph node: the states in front of the runs of a recurrence */
    bool two_rings;       /* whether the strategy of the node that is being lowered has an inner and an outer ring
                             (geometry.c) */
    bool reads_positions; /* some kernels read the positions of all tokens (ls_image.positions) */
};

/*
 * What happens between blocks, among the ranks of one ring. Within blocks usp.c distributes the heads, for all
 * strategies; so the mesh alone decides which strategy meets which blocks. site->q, k and v have been set: this rank's
 * heads, for all tokens of its block.
 */
struct ls_strategy {
    const char *name;
    const char *about;   /* one line */
    bool reads_in_place; /* other blocks of the ring may also be read in place, with the same bits */
    bool two_rings; /* if blocks lie along several axes, the innermost one is the inner ring, and the others form the
                       outer ring */
    const char *unsliced; /* why sequences cannot be cut into slices; NULL: they can */
    bool ordered;         /* with canonical sums, canonical.c takes its place; if false, canonical sums are refused */
    ls_status (*applicable)(const ls_strategy *strategy, const ls_attention_problem *problem);
    /*
     * Both functions are NULL for a strategy of a single rank (local.c). Forward writes o G[B,n,heads,D[LS_VALUES]] and
     * site->lse, without the node's sink.
     */
    void (*across_forward)(ls_builder *b, ls_site *site, ls_operand o);
    /*
     * Writes dq G[B,n,heads,D[LS_KEYS]]. Returns in *dk and *dv where it made these gradients, in type G with KV heads:
     * an ls_exchange_room or a slot.
     */
    void (*across_backward)(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                            ls_operand *dk, ls_operand *dv);
    ls_query_schedule query_schedule; /* only if queries travel (queries.c); else NULL */
};

/* All strategies, the simplest first; the row of strategy X is ls_strategy_X. */
#define LS_STRATEGIES(X) \
    X(local), X(ring), X(ulysses), X(usp), X(gather), X(tokenring), X(decode), X(double_ring), X(burst), X(rsa)
#define LS_STRATEGY_ROW(name) ls_strategy_##name
extern const ls_strategy LS_STRATEGIES(LS_STRATEGY_ROW);
LS_MUST_USE ls_status ls_strategy_find(const char *name, const ls_strategy **out);
/* The strategy of a node with this mask. */
LS_MUST_USE ls_status ls_strategy_under(const ls_target *target, const ls_mask *mask, const ls_strategy **out);

/* --- what strategies ask of a mesh (applicable.c) ----------------------------------------------------------------- */

/* An `applicable` that only asks for a query head for every rank of a block. The error names the strategy. */
LS_MUST_USE ls_status ls_strategy_heads(const ls_strategy *strategy, const ls_attention_problem *problem);
/* LS_OK if the mesh has none of these axes, which are of no use to the strategy; the error names both. */
LS_MUST_USE ls_status ls_strategy_without(const ls_strategy *strategy, const ls_mesh *mesh, ls_axes axes);

/* --- geometry (geometry.c) ---------------------------------------------------------------------------------------- */

int ls_blocks(const ls_builder *b);                    /* R */
int ls_block_members(const ls_builder *b);             /* U */
int ls_ring_index(const ls_builder *b);                /* index of my block, which is my place in the ring */
int ls_member_index(const ls_builder *b);              /* my place in the block */
int ls_block_team(ls_builder *b);                      /* the team of my block */
ls_peer ls_rank_in_ring(ls_builder *b, int ring);      /* the rank at my place in block `ring` */
int64_t ls_block_start(const ls_builder *b, int ring); /* index of its first token in the positions table */
int64_t ls_block_tokens(const ls_builder *b, int ring);
int64_t ls_block_most(const ls_builder *b);
int64_t ls_member_tokens(const ls_builder *b, int member); /* tokens of a rank of my block */
int64_t ls_member_start(const ls_builder *b, int member);  /* index of its first token within the block */
/* The positions of a block's tokens in a slice, in the order in which the block holds them; memory from `scratch`. */
int32_t *ls_block_positions(const ls_builder *b, ls_arena *scratch, int ring, int slice);
/* The positions of `count` keys for which a mask is bound, from entry `start` of the table of positions on. */
ls_operand ls_key_positions(const ls_builder *b, int mask, int64_t start, int64_t count);

/*
 * The number of blocks in the inner ring. With two rings, the inner ring lies along the innermost axis of blocks, and
 * rank i of it forms the outer ring with rank i of the other inner rings. Otherwise all blocks form one ring.
 */
int ls_inner_blocks(const ls_builder *b);
/*
 * The name of the ring in the names of channels. It differs from that of strategies with one ring, whose channels
 * connect other ranks.
 */
const char *ls_ring_name(const ls_builder *b);
/*
 * The block that is at this rank after a hop: it began that many ranks back. With W blocks in the inner ring, hop h
 * means h / W outer and h % W inner hops.
 */
int ls_block_at(const ls_builder *b, int hop);
/*
 * The rank that holds this block; for a negative hop, the rank to which my block goes. And an operand of one block with
 * the number of tokens of another.
 */
ls_peer ls_rank_at(ls_builder *b, int hop);
ls_operand ls_with_tokens(ls_operand o, int64_t tokens);

/* --- masks as they are bound (masks.c) ---------------------------------------------------------------------------- */

/*
 * The mask of a node between queries and keys of its own slice, without spans. Micro-batches have masks of their own if
 * sequences hold several documents.
 */
ls_mask_binding ls_mask_of(const ls_builder *b, int n);
/* The index of the image's first mask with the same slices and micro-batch; n_masks: there is none. */
int ls_find_mask(const ls_builder *b, const ls_mask_binding *wanted);
/*
 * Binds the node's mask: `blocks` times, with the spans of my block's queries and of the blocks whose queries arrive
 * here, hop after hop. Then the same mask between my block's queries and the keys of each earlier slice that they see.
 * Equal masks are bound once.
 */
void ls_place_masks(ls_builder *b, int n, int blocks);

/* --- what is seen (visible.c) ------------------------------------------------------------------------------------- */

/* Tokens of a block, in the order in which the block holds them: ascending ranges that do not touch, none empty. */
typedef struct ls_token_range {
    int64_t start, count;
} ls_token_range;

typedef struct ls_token_set {
    int n;
    int64_t count; /* tokens of all ranges */
    ls_token_range *range;
} ls_token_set;

/*
 * The tokens of block `keys` that queries of block `queries` see. One of the two blocks must be mine, or both the same;
 * a block counts as seeing all of its own tokens.
 */
const ls_token_set *ls_seen(ls_builder *b, int mask, int queries, int keys);
/*
 * Sums of tokens over blocks. in_front: the tokens that `queries` see of the blocks before `keys`; keys = R: of all
 * blocks. seers: the tokens of `keys` that the blocks before `queries` see, without `keys` itself; queries = R: that
 * all blocks see. One of the two blocks must be mine, unless the one just named is R.
 */
int64_t ls_seen_in_front(ls_builder *b, int mask, int queries, int keys);
int64_t ls_seers_in_front(ls_builder *b, int mask, int queries, int keys);
/*
 * The tokens of block `keys` that must travel at least `hop` hops, as a rank at that distance or beyond sees them.
 * Allowed for the block that comes to me over this hop, and for the one that I pass on over it.
 */
const ls_token_set *ls_wanted(ls_builder *b, int mask, int keys, int hop);
/* The most tokens that any block sees of another one; and the most that travel over any hop. The same on every rank. */
int64_t ls_most_seen(ls_builder *b, int mask);
int64_t ls_most_wanted(ls_builder *b, int mask);
/*
 * The hops, ascending, over which some rank sees something of the block that is so far behind it; returns how many. A
 * hop that is not in the list has no instructions on any rank. A hop in the list has them on all ranks, with empty
 * operands where a rank sees nothing. And whether a hop is in the list, or 0.
 */
int ls_hops(ls_builder *b, int mask, const int **hops);
bool ls_hop_is_used(ls_builder *b, int mask, int hop);
/* The first and the last hop over which the queries of a block see something of another block; 0: they see nothing. */
typedef struct ls_hop_span {
    int first, last;
} ls_hop_span;
ls_hop_span ls_hops_of_queries(ls_builder *b, int mask, int queries);
/*
 * The next hop of a walk over the hops from 0 on; 0 after the last. Hops that are not used are included if blocks are
 * passed on over them. inner: the next hop along the inner ring alone; outer: along the outer ring, to the next inner
 * ring.
 */
int ls_next_hop(ls_builder *b, int mask, int hop);
int ls_inner_hop(ls_builder *b, int mask, int hop);
int ls_outer_hop(ls_builder *b, int mask, int hop);
/*
 * For two rings. in_ring: the block that came to me over the outer hops of `hop`; what the rank of my inner ring that
 * is the inner hops of `hop` after me sees of it. by_ring: the block that came to me over `out` outer hops; what all
 * ranks of my inner ring see of it. of_mine: my own block; what all ranks of the inner ring `out` outer hops after mine
 * see of it.
 */
const ls_token_set *ls_seen_in_ring(ls_builder *b, int mask, int hop);
const ls_token_set *ls_seen_by_ring(ls_builder *b, int mask, int out);
const ls_token_set *ls_seen_of_mine(ls_builder *b, int mask, int out);
/* What a mask leaves between some queries and some keys: (query, key) pairs, and queries that see any of the keys. */
typedef struct ls_area {
    double pairs, queries;
} ls_area;

/*
 * Of a block's queries and one range of the tokens that they see of another block; zeros for an index beyond the last
 * range.
 */
ls_area ls_seen_area(ls_builder *b, int mask, int queries, int keys, int range);
/* Of all these ranges. A query that sees several ranges counts once for each, up to the number of queries. */
ls_area ls_seen_areas(ls_builder *b, int mask, int queries, int keys);
/*
 * Counts the area for any tokens of block `keys`; and adds the areas of two sets of keys for `queries` queries
 * (area.c).
 */
ls_area ls_count_area(const ls_builder *b, int mask, int queries, int keys, ls_token_range range);
ls_area ls_area_sum(ls_area a, ls_area b, int64_t queries);

/*
 * Where the tokens `wanted` lie in an operand `held` that has the ranges of `tokens` one after the other, each dense:
 * [B,count,heads,..]. `wanted` must lie within one of these ranges, or be empty.
 */
ls_operand ls_tokens_at(ls_operand held, const ls_token_set *tokens, ls_token_range wanted);

/* --- how other ranks' blocks arrive (put.c, in_place.c) ----------------------------------------------------------- */

/* The part of a block that is here. */
typedef struct ls_kv_block {
    const ls_token_set *tokens;
    ls_operand kv[LS_KV]; /* the tokens' keys and values, laid out as ls_tokens_at expects */
} ls_kv_block;

/* What goes round the ring: LS_KEYS, LS_VALUES or both, from `first` to `end` - 1; and whether gradients come back. */
typedef struct ls_kv_pass {
    int first, end;
    bool backward;
} ls_kv_pass;

/*
 * Two ways with the same bits: put.c (blocks are put into slots of their readers) and in_place.c (blocks are read where
 * they lie). A pass over a ring calls begin; then for each hop of the walk receive_block, in the backward pass
 * gradient_room and send_gradient if the hop is used, and release_block; after the last hop sum_gradients (backward
 * only, also with a single rank); then end. Of arrays [LS_KV] the entries of the pass are used.
 */
typedef struct ls_kv_transfer {
    void *(*begin)(ls_builder *b, ls_site *site, ls_kv_pass pass);
    /*
     * The block of this hop (hop 0: my own, whole); at least the part of it that I see. Readable until release_block.
     */
    void (*receive_block)(ls_builder *b, void *state, int hop, ls_kv_block *out);
    void (*release_block)(ls_builder *b, void *state, int hop);
    /*
     * gradient_room: where to make my part of the gradient of this hop's block, for the tokens that I see; returns the
     * tokens for which there is memory. send_gradient: sends that part to the block's rank.
     */
    const ls_token_set *(*gradient_room)(ls_builder *b, void *state, int hop, ls_operand part[LS_KV]);
    void (*send_gradient)(ls_builder *b, void *state, int hop, const ls_operand part[LS_KV]);
    /* The gradients of my own block: the parts of all ranks, added in the order of the hops. */
    void (*sum_gradients)(ls_builder *b, void *state, ls_operand sum[LS_KV]);
    void (*end)(ls_builder *b, void *state);
} ls_kv_transfer;

extern const ls_kv_transfer ls_kv_transfer_put, ls_kv_transfer_in_place;

/* --- what is read where it lies (exchange.c) ---------------------------------------------------------------------- */

/* Whether other ranks' blocks are read in place; and whether what the ranks of a block exchange is. */
bool ls_ring_reads(const ls_image *image);
bool ls_block_reads(const ls_image *image);
/* How blocks arrive round the ring. */
static inline const ls_kv_transfer *ls_kv_transfer_of(const ls_builder *b) {
    return ls_ring_reads(b->image) ? &ls_kv_transfer_in_place : &ls_kv_transfer_put;
}

/* A buffer for data that an exchange will send. It lies in the heap if the others read it in place. */
ls_operand ls_exchange_room(ls_builder *b, const char *name, ls_dtype dtype, int ndim, const int64_t *size,
                            int64_t capacity);

/* --- the two halves of USP ---------------------------------------------------------------------------------------- */

/* This rank's heads, along dimension dim of an operand that has all of them. */
ls_operand ls_my_heads(ls_builder *b, ls_operand all, int dim, const ls_parts *heads);
/*
 * All-to-all within the block. to_heads: my tokens of all heads become all of the block's tokens of my heads;
 * to_tokens: the reverse. token, head: the indices of these dimensions.
 */
ls_all_to_all ls_to_heads_begin(ls_builder *b, const char *label, ls_operand mine, const ls_parts *heads, int token,
                                int head);
ls_all_to_all ls_to_tokens_begin(ls_builder *b, const char *label, ls_operand mine, const ls_parts *heads, int token,
                                 int head);

/*
 * KV blocks go round the ring (ring.c), also for the strategies that have no other way between blocks. With a single
 * block only the attention itself is left.
 */
void ls_ring_forward(ls_builder *b, ls_site *site, ls_operand o);
void ls_ring_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq, ls_operand *dk,
                      ls_operand *dv);

/*
 * Canonical sums (canonical.c): across_forward and across_backward. dk and dv have a part for each of my query heads.
 * When these parts [B,n,Hq,..] are at the ranks of their tokens, ls_canonical_kv makes the gradient [B,n,Hkv,..] of
 * them.
 */
void ls_canonical_forward(ls_builder *b, ls_site *site, ls_operand o);
void ls_canonical_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                           ls_operand *dk, ls_operand *dv);
ls_operand ls_canonical_kv(ls_builder *b, const ls_site *site, ls_operand parts, const char *name);

/* Attention where one rank holds the whole sequence (local.c): results are written directly to their tensors. */
void ls_local_forward(ls_builder *b, ls_site *site);
void ls_local_backward(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient, ls_operand grad_o,
                       ls_operand delta);

/*
 * A node's sink, if it has one (sink.c). forward: merges it into o G[B,n,heads,..] and site->lse, after all blocks have
 * been attended to. backward: adds the sink's gradient, from site->lse and delta G[B,heads,n].
 */
void ls_sink_forward(ls_builder *b, const ls_site *site, ls_operand o);
void ls_sink_backward(ls_builder *b, const ls_site *site, const ls_attention_tensors *gradient, ls_operand delta);

/* --- slices of a sequence (slices.c) ------------------------------------------------------------------------------ */

/*
 * Queries of a slice attend to the keys of their own slice and of the slices before it, each by the same strategy;
 * partial results merge as those of blocks do. A walk over the slices begins with the site itself and ends with NULL;
 * slices of which the mask shows nothing to any query are left out.
 */
ls_site *ls_slice_before(const ls_builder *b, const ls_site *site, const ls_site *keys);
/*
 * The site with keys, values and mask of the slice `keys`. For an earlier slice the results are added to those that
 * exist.
 */
ls_site ls_site_with(const ls_builder *b, const ls_site *site, const ls_site *keys);
/* Adds `part` to the gradients that are carried for the slice `keys`: shaped like its k and v, in type G. */
void ls_slice_carry(ls_builder *b, ls_site *keys, const ls_operand part[LS_KV]);
/* The operands of the carried gradients, for code that adds to them directly. */
void ls_slice_room(ls_builder *b, ls_site *keys, ls_operand room[LS_KV]);
/* Whether any gradients are carried for the slice. */
bool ls_slice_is_carried(const ls_site *site);

/* --- calls of the kernels (call.c) -------------------------------------------------------------------------------- */

/* Attention of some queries to some keys; sizes and strides are as in kernel/kernel.h. */
typedef struct ls_attention_call {
    ls_attention_params params;
    ls_operand q, k, v;
    ls_operand spans, positions; /* spans of the queries, positions of the keys */
    ls_area area;                /* the area that the mask leaves, for one head of one sequence */
} ls_attention_call;

/* The band that the call's spans describe (band.c); unknown if the spans are known only at run time or form no band. */
ls_attention_band ls_band_of(const ls_builder *b, const ls_attention_call *call);

void ls_build_attention(ls_builder *b, const ls_attention_call *call, ls_operand o, ls_operand lse);
/*
 * The positions of all tokens that my queries see, block after block: a part of the table, or a copy if that has gaps.
 */
ls_operand ls_positions_seen(ls_builder *b, int mask);

/* Inputs of the gradient besides those of the call, laid out like the queries. */
typedef struct ls_attention_given {
    ls_operand grad_o, lse, delta;
} ls_attention_given;
void ls_build_attention_grad(ls_builder *b, const ls_attention_call *call, const ls_attention_given *given,
                             ls_operand dq, ls_operand dk, ls_operand dv);

/* --- queries that travel (queries.c): tokenring, decode, burst ---------------------------------------------------- */

enum { LS_QUERY_TENSORS = 4 };

/*
 * A pass over all pairs of blocks in which keys rest and queries travel. In round r > 0 each block of queries is at the
 * rank hops[r - 1] places before its owner; in round 0 it is at its owner. `own` is sent to the ranks whose keys it
 * meets. Their results are laid out like `found`, into which the owner joins all parts. attend: applies the queries
 * that are here in a round to my keys, and writes `part`; my own queries are the first.
 */
struct ls_queries {
    ls_site *site;
    const int *hops; /* as from ls_hops */
    int rounds;      /* without round 0 */
    int n_own, n_found;
    ls_operand own[LS_QUERY_TENSORS], found[LS_QUERY_TENSORS];
    const char *const *own_name, *const *found_name;
    ls_operand dkv[LS_KV]; /* backward pass only */
    void (*attend)(ls_builder *b, const ls_queries *q, int round, const ls_operand in[], const ls_operand part[]);
    void (*join)(ls_builder *b, const ls_queries *q, const ls_operand part[]); /* adds or merges `part` into q->found */
};

#define LS_QUERIES_UNSLICED "brings queries to the keys, and keys of earlier slices stay"

/* across_forward and across_backward of the strategies that have a `query_schedule`. */
void ls_queries_forward(ls_builder *b, ls_site *site, ls_operand o);
void ls_queries_backward(ls_builder *b, ls_site *site, ls_operand grad_o, ls_operand delta, ls_operand dq,
                         ls_operand *dk, ls_operand *dv);

/* The shape of a tensor of queries, which has elements or one number for each head of a token, for `tokens` tokens. */
ls_operand ls_query_tokens(ls_operand o, int64_t tokens);

/* The block whose queries come here in a round; and the block to which mine go. */
int ls_queries_from(const ls_builder *b, const ls_queries *q, int round);
int ls_queries_to(const ls_builder *b, const ls_queries *q, int round);
/*
 * Whether the queries that come here in a round see any of my keys; and whether my queries see any keys where they go.
 */
bool ls_queries_see_mine(ls_builder *b, const ls_queries *q, int round);
bool ls_mine_see_there(ls_builder *b, const ls_queries *q, int round);

/*
 * One direction of transfers: `own` away from the owner, or results back to it. The rounds use `slots` slots in turn.
 */
typedef struct ls_query_transfer {
    const ls_queries *q;
    bool back;
    int n, slots;
    const char *const *name; /* names of the n tensors */
    ls_operand *slot;        /* index: tensor * slots + slot; each is as large as the largest block */
} ls_query_transfer;
ls_query_transfer ls_query_transfer_out(ls_builder *b, const ls_queries *q, int slots);
ls_query_transfer ls_query_transfer_back(ls_builder *b, const ls_queries *q, int slots);
/*
 * Each rank calls send, receive and release for every round; release may be left out for the last `slots` rounds. *out
 * is readable until release.
 */
void ls_query_send(ls_builder *b, const ls_query_transfer *v, int round, const ls_operand from[]);
void ls_query_receive(ls_builder *b, const ls_query_transfer *v, int round, ls_operand out[]);
void ls_query_release(ls_builder *b, const ls_query_transfer *v, int round);
/* Buffers for the results of a round's queries; and a copy of such results to q->found. */
void ls_round_results(ls_builder *b, const ls_queries *q, int round, ls_operand part[]);
void ls_copy_results(ls_builder *b, const ls_queries *q, const ls_operand part[]);

/* The composition of all strategies: gather heads, attend across blocks, scatter tokens. */
void ls_usp_forward(ls_builder *b, ls_site *site);
void ls_usp_backward(ls_builder *b, ls_site *site, const ls_attention_tensors *gradient);

#endif
