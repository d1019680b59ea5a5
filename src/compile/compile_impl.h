/* What the passes share: the builder, through which all instructions are made. */
#ifndef LS_COMPILE_IMPL_H
#define LS_COMPILE_IMPL_H

#include "compile/compile.h"
#include "device/device.h"

/* --- sharding ----------------------------------------------------------------------------------------------------- */

/*
 * Placements of a tensor along all axes: those that cut each dimension, and those along which it is a partial sum.
 * Along the others it is whole. Of the axes that cut a dimension those of the batch and the sequence come first, the
 * outermost before the others, as in the mesh; those of features (tp) share what a rank then has.
 */
typedef struct ls_placements {
    ls_axes cut[LS_MAX_DIMS], partial;
} ls_placements;

static inline bool ls_placements_equal(const ls_placements *a, const ls_placements *b) {
    bool equal = a->partial == b->partial;
    for (int i = 0; i < LS_MAX_DIMS; i++) equal &= a->cut[i] == b->cut[i];
    return equal;
}

/* How often the bytes of a tensor travel when one becomes the other, about; -1: nothing makes it so (shard/price.c). */
double ls_placements_travel(const ls_placements *from, const ls_placements *to);
/* Whether ranks of some axis then have all of what each had a part of. */
bool ls_placements_gather(const ls_placements *from, const ls_placements *to);

/* When a node has its turn. What stands in front of all nodes of a program has slot 0; behind them, `last`. */
typedef struct ls_node_slot {
    int slot, micro; /* in epochs (ls_epoch), 1 .. last - 1; the micro-batch, or slice of one, that it belongs to */
    int before;      /* the node that is this one for the slice before; -1: there is none */
    bool forward;    /* it has its turn in the forward pass of the micro-batch */
} ls_node_slot;
typedef struct ls_node_slots {
    ls_node_slot *node; /* by node of the graph; NULL: all have slot 0 */
    int last;           /* the same on all ranks */
} ls_node_slots;

typedef struct ls_sharding {
    ls_placements *tensor; /* by tensor */
    ls_placements *wanted; /* by node * LS_NODE_INPUTS + input: as the node needs it */
    ls_axes *first_only;   /* by node: it adds only on the first rank along these */
    ls_dim_units *units;   /* by tensor * LS_MAX_DIMS + dimension: what of it stays together; NULL: single elements */
    ls_node_slots slots;   /* in time: where stages of a pipeline take turns */
} ls_sharding;

/*
 * Placements of all tensors of the first n_nodes nodes. Errors name op, tensor, axis, or the parameter that has too few
 * heads or features for an axis.
 */
LS_MUST_USE ls_status ls_shard(const ls_graph *graph, int n_nodes, const ls_mesh *mesh, ls_arena *arena,
                               ls_sharding *out);
/*
 * Puts a node between where a tensor is spread otherwise than a node needs it, once for all nodes of a program that
 * need it so (redistribution.c). Graph, programs and sharding become new ones in the arena, or stay where nothing is
 * redistributed.
 */
void ls_redistribute(ls_job *job, const ls_mesh *mesh, ls_arena *arena, ls_sharding *sharding);
/* A graph on its way into another one (rewriting.c). */
typedef struct ls_rewriting {
    const ls_graph *from;
    ls_graph *to;
    ls_arena *arena; /* of the new graph */
    int *moved;      /* by node: its new number */
    int *begins;     /* by node: the new number of the first that stands in its place, what is put before it included */
} ls_rewriting;
ls_rewriting ls_rewriting_begin(const ls_graph *from, ls_arena *arena);
/* All that is added from now on, until the next node is reached, stands in the place of node n. For each n, in order.
 */
void ls_rewriting_reach(ls_rewriting *r, int n);
/* Adds a node of the new graph, whose outputs are tensors there; and one that is node n of the old graph. */
void ls_rewriting_add(ls_rewriting *r, const ls_node *node);
void ls_rewriting_copy(ls_rewriting *r, int n, ls_node node);
/* The job has the new graph, and its programs the new numbers. */
void ls_rewriting_end(ls_rewriting *r, ls_job *job);
/*
 * Frozen parameters that are kept in another type than the graph's are of that type, and a cast stands before each node
 * that reads one (kept.c). Graph and programs become new ones in the arena, or stay where there is no such parameter.
 */
void ls_cast_kept(ls_job *job, ls_arena *arena);
/*
 * Maps that stand beside each other, and other nodes of single elements beside them, become one map (fuse.c). Graph and
 * programs become new ones in the arena, or stay where nothing is fused.
 */
void ls_fuse(ls_job *job, ls_arena *arena);
/*
 * The job with the graph that is compiled, before redistribution nodes, and the placements of its tensors: with results
 * made again as the target says, fused, and with casts of parameters kept in another type (compile.c). Errors: those of
 * ls_shard.
 */
LS_MUST_USE ls_status ls_spread_job(const ls_job *job, const ls_target *target, ls_arena *arena, ls_job *out,
                                    ls_sharding *sharding);
/*
 * Whether what is cut of a tensor along one of these axes changes anywhere; that a partial sum becomes whole, or the
 * other way, is no such change.
 */
bool ls_is_redistributed(const ls_graph *graph, const ls_sharding *sharding, ls_axes axes);

/* --- the builder -------------------------------------------------------------------------------------------------- */

/* What a lowering has said of one of a channel's words: for each time that it is set and awaited, also where nothing is
 * transferred and so no instruction is made. */
typedef struct ls_channel_calls {
    ls_epoch *set; /* by call */
    int n_set, n_awaited;
    size_t capacity;
    uint64_t sets, awaits; /* instructions so far: the generation of the next one, but for one */
} ls_channel_calls;

/* Parameters that follow each other in the flat space: their gradients lie together and are complete together. */
typedef struct ls_group {
    int64_t start, count; /* elements of the flat space */
    int first_bucket, n_buckets;
    int first, past; /* its parameters, in the image's flats; a matrix that is updated whole is alone in its group */
} ls_group;

/* A part of a group: what is divided over all ranks and travels at once. */
typedef struct ls_bucket {
    int64_t start, count;
    int group;
} ls_bucket;

typedef struct ls_stages ls_stages; /* how a team exchanges (redistribute/redistribute.h) */

/*
 * The flat space of all parameters (packing.c): which of them is where, what travels together, and what of them is cut
 * over the ranks.
 */
typedef struct ls_packing {
    const ls_shard_mode *cut;
    int *flat_of; /* by tensor: of a parameter and of its gradient sum, its index in flats; else -1 */
    ls_group *groups;
    int n_groups, n_trained; /* the first of them are of trained parameters; the others only travel to be read */
    bool trains;             /* ranks of some stage have trained parameters */
    ls_bucket *buckets;
    int n_buckets;
    size_t bucket_capacity;
    const ls_stages *stages; /* of gradients; parameters go back through them */
} ls_packing;

/* The channels of the program at work, by name, and when their words are set. */
typedef struct ls_channels {
    ls_index names;
    struct ls_channel_words {
        ls_channel_calls data, free;
        bool common;
    } * words; /* by channel */
    int n;
    size_t capacity;
    ls_epoch epoch; /* of the last word that was set; each node of a program begins a new one (lower.c) */
    bool common;    /* what is lowered now, ranks of all stages lower alike */
    int n_halos;    /* exchanges of neighbours' tokens so far (redistribute/halo.c) */
} ls_channels;

/* Tokens of a tile while it is lowered, and the storage that exists for it alone. */
typedef struct ls_tile {
    int64_t start, count;
    int64_t most; /* of this tile on any rank */
    const ls_tensor *inner;
    int n_inner;
    bool goes_on; /* sums go on from the tile before it */
} ls_tile;

typedef struct ls_workspaces ls_workspaces; /* workspace.c */
typedef struct ls_sites ls_sites;           /* attention nodes on this rank (attention/attention.h) */

/* What emits: the image that is made, the program at work in it, and where tensors lie. */
typedef struct ls_builder {
    const ls_job *job;
    const ls_target *target;
    const ls_sharding *sharding;
    ls_packing *packing;
    ls_image *image;
    ls_program *program;       /* NULL: what outlives programs is made */
    ls_arena *scratch;         /* while it is lowered, for what the image does not keep */
    const ls_job_program *row; /* of the program */
    ls_channels channels;
    ls_index displacements; /* of the image's, but the first */
    ls_workspaces *workspaces;
    ls_operand *tensor;  /* by storage tensor: where it lies; buffer -1: nowhere yet */
    bool *shared;        /* by storage tensor: other ranks read it in place, so it belongs into the heap */
    const ls_tile *tile; /* while one is lowered */
    ls_sites *sites;
    ls_status status; /* the first error; later calls do nothing harmful */
} ls_builder;

/* The number of the program at work; -1: there is none. */
static inline int ls_build_program(const ls_builder *b) {
    return b->program != NULL ? (int)(b->program - b->image->programs) : -1;
}

void ls_build_fail(ls_builder *b, ls_status status);

/* Bytes of scratch that the kernel asks for in such a call. The params must stay where they are. */
size_t ls_workspace_bytes(ls_builder *b, const ls_kernel *kernel, const ls_kernel_request *request,
                          size_t params_bytes);

/* A new buffer of the program at work; where there is none, one that outlives programs. */
int ls_build_buffer(ls_builder *b, ls_space space, ls_buffer_kind kind, size_t bytes, const char *name);
/* A private dense operand in a new buffer. */
ls_operand ls_build_private(ls_builder *b, ls_buffer_kind kind, const char *name, ls_dtype dtype, int ndim,
                            const int64_t *size);
/*
 * A dense operand in a new buffer of the heap; capacity: elements, the same on every rank and enough for the largest.
 */
ls_operand ls_build_symmetric(ls_builder *b, ls_buffer_kind kind, const char *name, int64_t capacity, ls_dtype dtype,
                              int ndim, const int64_t *size);

/* A kernel call; finds the kernel and gives it its workspace. Lists may hold operands without buffer only beyond n. */
typedef struct ls_kernel_build {
    ls_queue queue;
    const char *op;
    ls_kernel_id kernel;
    ls_dtype dtype;
    const void *params; /* copied: bytes */
    size_t params_bytes;
    double flops, rows; /* see ls_instr; flops where the contract does not say them */
    int n_in, n_out;
    ls_operand in[LS_KERNEL_INPUTS];
    ls_operand out[LS_KERNEL_OUTPUTS];
} ls_kernel_build;
void ls_build_kernel(ls_builder *b, const ls_kernel_build *k);

/* Frequent kernels. accumulate adds `from` into `to` (type G); fill zeroes; cast converts or, of one type, copies. */
void ls_build_copy(ls_builder *b, ls_operand from, ls_operand to);
void ls_build_cast(ls_builder *b, ls_operand from, ls_operand to);
void ls_build_fill(ls_builder *b, ls_operand to);
/* Copies between memory of the device and that of the host, on the link's queue. Both are dense. */
void ls_build_offload(ls_builder *b, ls_operand from, ls_operand to);
void ls_build_fetch(ls_builder *b, ls_operand from, ls_operand to);
/*
 * A call that updates the optimiser's state: of what lies in memory of the host a copy is fetched for it, and offloaded
 * when it has been changed.
 */
void ls_build_kernel_on_state(ls_builder *b, const ls_kernel_build *k);
void ls_build_accumulate(ls_builder *b, ls_operand from, ls_operand to);
/* `to` becomes the sum of n equal parts of `rows`, which is dense, added in their order. */
void ls_build_add_rows(ls_builder *b, ls_operand rows, int64_t n, ls_operand to);

/*
 * Transfers. The channel of that name in this program (made on first use). For each use: the receiver grants what will
 * come of its slot, the sender waits for that and puts (send), the receiver waits for the data (receive). Each rank
 * calls all three, for its two neighbours on the channel, equally often and in one order with all others; of what is
 * empty, no instruction is made.
 */
int ls_build_channel(ls_builder *b, const char *format, ...) LS_PRINTF(2, 3);
void ls_build_grant(ls_builder *b, int channel, ls_peer sender, ls_operand slot);
void ls_build_send(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to);
void ls_build_receive(ls_builder *b, int channel, ls_peer sender, ls_operand slot);
/*
 * The same of rows (the first dimension of what is dense), of which only as many travel, the first ones, as `count`
 * says when they leave: an i32 in this rank's memory. There is room for all; what lies behind those that came is
 * undefined. likely: rows that the put is timed by.
 */
void ls_build_send_rows(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to, ls_operand count,
                        double likely);
void ls_build_receive_rows(ls_builder *b, int channel, ls_peer sender, ls_operand slot);
/*
 * The same of ranks whose lists differ, so that each calls its own end alone, and both give the epochs: of the grant
 * and of the put. behind: as in ls_instr.
 */
void ls_build_grant_at(ls_builder *b, int channel, ls_peer sender, ls_operand slot, ls_epoch granted);
void ls_build_send_at(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to, ls_epoch granted,
                      ls_epoch sent);
void ls_build_receive_at(ls_builder *b, int channel, ls_peer sender, ls_operand slot, ls_epoch sent, double behind);
/*
 * Reading in place over the same channels: the owner of a block in the heap leases it to a reader, who borrows it
 * (`block` is then the owner's, ls_operand_of_peer), reads it, and returns it; the owner reclaims it before it writes
 * there again.
 */
void ls_build_lease(ls_builder *b, int channel, ls_peer reader, ls_operand block);
void ls_build_borrow(ls_builder *b, int channel, ls_operand block);
void ls_build_return(ls_builder *b, int channel, ls_operand block);
void ls_build_reclaim(ls_builder *b, int channel, ls_peer reader, ls_operand block);
/* A program from its beginning to its end, when the image gets its list, and knows how often ends of channels are used.
 */
void ls_build_begin_program(ls_builder *b, ls_program *program);
void ls_build_end_program(ls_builder *b);
/* After all programs: signal words for the channels that the rank's stage has alone. */
void ls_build_end_words(ls_builder *b);

/*
 * The number of the team in the image, added on first use; of the ranks that differ from this one only on some axes.
 */
int ls_build_team(ls_builder *b, const ls_team *team);
int ls_build_team_of(ls_builder *b, ls_axes axes);
int ls_build_team_size(const ls_builder *b, int team);
int ls_build_team_place(const ls_builder *b,
                        int team); /* of the rank that is compiled; what depends on it, its class must share */
/* As by ls_team_split, which can: the team by digit, and that of its outer digits. */
int ls_build_split_team(ls_builder *b, int team, int inner);
int ls_build_outer_team(ls_builder *b, int team, int inner);
/* The rank `shift` places further in the team; shift may be negative. */
ls_peer ls_build_peer(const ls_builder *b, int team, int shift);
/*
 * `count` elements of dimension dim of an operand that has them for each member of a team, one after the other: those
 * of the peer, or of the rank itself (shift 0).
 */
ls_operand ls_build_share(ls_builder *b, ls_operand all, int dim, int64_t count, int team, int shift);

/* --- lowering ----------------------------------------------------------------------------------------------------- */

/*
 * The indices of a tensor's dimension d that a rank holds where these axes cut it: `count` from `start` on, those of
 * the sequence in the order of the layout. Of a dimension in several segments only the count says anything.
 */
typedef struct ls_indices {
    int64_t start, count;
} ls_indices;
ls_indices ls_indices_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut, int rank);
/* Size of a tensor on this rank; and spread so. */
void ls_local_size(const ls_builder *b, ls_tensor t, int64_t size[LS_MAX_DIMS]);
void ls_placements_size(const ls_builder *b, ls_tensor t, const ls_placements *spread, int64_t size[LS_MAX_DIMS]);
/* The least and the most that a rank has of dimension d, where these axes cut it. */
typedef struct ls_sizes {
    int64_t least, most;
} ls_sizes;
ls_sizes ls_sizes_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut);
/* Elements of a tensor on the rank that has most of each dimension. */
int64_t ls_most_elements(const ls_builder *b, ls_tensor t);
/* A new buffer for a storage tensor: in the heap when other ranks read it in place. */
ls_operand ls_lower_place(ls_builder *b, ls_buffer_kind kind, ls_tensor storage);
/* The tensor as an operand, of the tile at work its tokens; values that lie nowhere yet get a buffer. */
ls_operand ls_lower_tensor(ls_builder *b, ls_tensor t);
/* The same of what a node changes for later programs, which fails where that is a copy. */
ls_operand ls_lower_kept(ls_builder *b, const ls_node *node, int input);
/* Says that the tensor lies there (dense), instead of in a buffer of its own. */
void ls_lower_bind(ls_builder *b, ls_tensor t, ls_operand operand);

/*
 * Lookups in a table of which ranks along axes of features have some rows each (local_ids.c). Before any program: what
 * says which rows this rank has, for node n. Then whether input i of the node is ids of such a lookup, and these ids
 * among this rank's rows.
 */
void ls_place_rows(ls_builder *b, int n);
/* The axes of features along which the rows are cut that a node looks up, and their dimension; 0: none. */
ls_axes ls_cut_rows(const ls_builder *b, int n, int *d);
bool ls_is_local_id(const ls_builder *b, int n, int i);
ls_operand ls_local_ids(ls_builder *b, int n, ls_operand ids);
/*
 * The axes along which the node's rows of tokens go to the ranks that have the rows which their ids name (LS_EXCHANGE);
 * 0: they stay. And the ids among the rows of the rank `shift` places further along these.
 */
ls_axes ls_exchanged(const ls_builder *b, int n);
ls_operand ls_local_ids_at(ls_builder *b, int n, ls_operand ids, int shift);

/* Persistent buffers (persistent.c): inputs, parameters, gradients, tables, optimiser. Before any program. */
void ls_lower_persistent(ls_builder *b);
/* Whether some program of the job ends with an update that does at least as much. */
bool ls_job_updates(const ls_job *job, ls_update least);
/* Whether the host reads what lies in that storage. */
bool ls_job_fetches(const ls_job *job, ls_tensor storage);
/*
 * Whether a program's gradients are added up over the ranks: those of a step's last micro-batch, and of each where a
 * rank keeps only its shard of the sums.
 */
bool ls_program_reduces(const ls_builder *b, const ls_job_program *row);
/* --- slices of sequences (pipeline/slice.c) ----------------------------------------------------------------------- */

/* Into how many parts sequences are cut, 1 where they are whole; LS_USAGE where those of S tokens cannot be cut so. */
int ls_target_slices(const ls_target *target);
LS_MUST_USE ls_status ls_slices_check(const ls_target *target, int64_t S);

/* --- the flat space (packing.c) ----------------------------------------------------------------------------------- */

/* Lays the flat space of parameters: cuts it into groups and buckets, and finds this rank's pieces. */
void ls_lay_flat(ls_builder *b);
/*
 * Whether gradients go through no reduce-scatter: there is one rank, and its shard is the gradients. Canonical sums of
 * one rank go through it like those of several.
 */
bool ls_gradients_stay(const ls_builder *b);
/* The group that holds a parameter, which is given by its index in flats. */
int ls_group_of(const ls_builder *b, int flat);
/*
 * A group as [its buckets, elements of a bucket], of each of which every rank owns a piece: of an operand that has the
 * group's elements. And this rank's pieces of it, [its buckets, elements of a piece]: of one that has the rank's shard.
 */
ls_operand ls_group_buckets(const ls_builder *b, int group, ls_operand all);
ls_operand ls_group_pieces(const ls_builder *b, int group, const char *shard);
/* Of an operand that has the group's elements those of a parameter, which is given by its index in flats. */
ls_operand ls_group_parameter(const ls_builder *b, int group, int flat, ls_operand all);
/* This rank's piece of a bucket in its shard, and those of groups first .. past-1. */
ls_operand ls_bucket_shard(const ls_builder *b, int bucket);
ls_operand ls_groups_shard(const ls_builder *b, int first, int past);
/* Notes that a buffer of its own has the group's elements. */
void ls_group_note(const ls_builder *b, int group, ls_operand all);
/* "WHAT from NAME": NAME is the group's first parameter. */
const char *ls_group_name(const ls_builder *b, const char *what, int group);

/* --- the nodes of a program --------------------------------------------------------------------------------------- */

typedef struct ls_lowering ls_lowering;

/*
 * What a program runs: a node of the graph, or what a pass has put between them (pass.h). The nodes of a region, which
 * are run for one tile of tokens after the other, stand behind it.
 */
typedef struct ls_program_node {
    const ls_lowering *lowering;
    int of; /* the graph's node; -1: a pass has put it there */
    /*
     * Nodes with the same number stand together: nothing may come between them. It is the first of the graph's nodes
     * among them; of a node alone, itself.
     */
    int together;
    void *params;    /* of what a pass has put there; nodes of one exchange share them */
    unsigned begins; /* bit o: output o is a sum, and nothing has been added to it */
    int n_body;      /* of a region: so many nodes behind it are its own */
} ls_program_node;

typedef struct ls_program_nodes {
    ls_program_node *list;
    int n;
    size_t capacity;
} ls_program_nodes;

static inline const ls_node *ls_graph_node(const ls_builder *b, const ls_program_node *node) {
    return &b->job->graph->nodes[node->of];
}

/* Lowers `n` nodes, one after the other, until the first error. */
void ls_lower_nodes(ls_builder *b, const ls_program_node *list, int n);

/* --- canonical sums (chunks.c) ------------------------------------------------------------------------------------ */

/* Neighbouring chunks of the sequence. */
typedef struct ls_chunks {
    int first, n;
} ls_chunks;

/* Those of one of `parts` equal parts of the sequence. */
ls_chunks ls_chunks_of(const ls_builder *b, int part, int parts);
ls_chunks ls_my_chunks(const ls_builder *b); /* this rank's */
/* The position with which a chunk begins; of the number of chunks, the length of the sequence. */
int64_t ls_chunk_start(const ls_builder *b, int chunk);

/*
 * A sum over `chunks` of them, a power of two, along a binary tree. `sum` is where it ends up. The addends, of that
 * form, are made one after the other: chunk i's where ls_chunk_sum_addend says. It is zero outside of the elements
 * start to end - 1 of dimension dim, which alone are written, as ls_chunk_sum_add is told.
 */
typedef struct ls_sum_part ls_sum_part;
typedef struct ls_chunk_sum {
    int dim;
    ls_sum_part *part;
} ls_chunk_sum;
ls_chunk_sum ls_chunk_sum_begin(ls_builder *b, const char *name, ls_operand sum, int dim, int chunks);
ls_operand ls_chunk_sum_addend(const ls_chunk_sum *s, int chunk);
void ls_chunk_sum_add(ls_builder *b, const ls_chunk_sum *s, int chunk, int64_t start, int64_t end);
void ls_chunk_sum_end(ls_builder *b, const ls_chunk_sum *s);

/* --- saving memory ------------------------------------------------------------------------------------------------ */

/*
 * The job's graph with the first `drop` candidates not kept for the backward pass but made again there (recompute.c).
 * New nodes and tensors lie in the arena; tensors of the old graph keep their numbers. The old graph itself when
 * nothing is dropped.
 */
const ls_graph *ls_recompute(const ls_job *job, int drop, ls_arena *arena);

/*
 * Width of what a loss is taken of: the first input of a node that gives one number for a token's many; 0: there is
 * none.
 */
int64_t ls_logits_width(const ls_graph *graph);
/* How much the target's device computes at a time (tile_size.c). */
ls_device_tiles ls_tiles_of(const ls_target *target);
/* The tokens of a tile of such a device, where a rank has so many and one of them takes so many bytes. */
int64_t ls_tile_choose(const ls_device_tiles *of, int64_t rows, double bytes);

/* --- tokens as rows (token_rows.c) -------------------------------------------------------------------------------- */

/* Whether batch and sequence come first, so that tokens are rows of memory. */
bool ls_has_token_rows(const ls_graph *g, ls_tensor t);
/* Elements of one token of such a tensor. */
int64_t ls_row_width(const ls_graph *g, ls_tensor t);
/* Whether the storage exists for the tile at work only; and a tensor's part of that tile, where the tensor lies. */
bool ls_tile_is_inner(const ls_builder *b, ls_tensor storage);
ls_operand ls_tile_view(const ls_builder *b, ls_tensor t, ls_operand whole);

/*
 * The row of the image's settings for parameter `number` in the order of declaration: a new one where no earlier is
 * equal. -1: none.
 */
int ls_update_group(ls_builder *b, const ls_tensor_info *parameter, int number);
/* What an optimiser updates at once: operands of a piece of the shard, which have an element for each of its. */
typedef struct ls_update_piece {
    int64_t count;                       /* of elements */
    ls_operand gradients;                /* summed over the ranks */
    ls_operand masters, parameters;      /* of type G and T; where these are one type, the same elements */
    ls_operand state[LS_KERNEL_OUTPUTS]; /* in the order of the optimiser's row */
    ls_operand control;                  /* LS_BIND_CONTROL, of the whole step */
    ls_operand groups, settings; /* of each unit of the piece its row in the settings, or -1: it is kept as it is */
} ls_update_piece;
/*
 * What this rank updates of a bucket: its piece, or all, and `sums` then has all gradients. Of a matrix, the states
 * that it does not have are empty.
 */
ls_update_piece ls_update_piece_of(ls_builder *b, int bucket, ls_operand sums);
/* The job's graph with parameters marked that its optimiser updates as whole matrices (optimizer/matrices.c). */
const ls_graph *ls_mark_matrices(const ls_job *job, ls_arena *arena);
/* Numbers the teams of the totals, before stages of a pipeline number others. */
void ls_totals_teams(ls_builder *b);
/* Adds to the loss of a step, exactly, where sums are canonical. */
void ls_totals_add_loss(ls_builder *b, ls_operand addend);
/* What the host finds by that name, which there is. */
ls_operand ls_bound(const ls_builder *b, const char *name);
/*
 * How nodes become instructions: those of an op (LS_LOWERED_OPS, graph/graph.h) where one call of its kernel does not
 * do, since most need other ranks' tokens; and those that passes put between nodes. Only `lower` is always there.
 */
struct ls_lowering {
    const char *name; /* of what a pass puts there; ops have their own */
    bool has_heads;   /* which it deals out along axes that exchange heads: such an axis is of use */
    void (*lower)(ls_builder *b, const ls_program_node *node);
    /* Before any program: places the tables that the node reads and the host fills. */
    void (*tables)(ls_builder *b, int node);
    /* Before any node is lowered: says what other ranks read in place (ls_lower_shared). */
    void (*share)(ls_builder *b, int node);
    /*
     * The axes, of those that exchange heads and those of kind feature, along which ranks with equally many tokens run
     * other instructions for the node, and not one program whose operands are displaced by their places
     * (ls_build_share). NULL: none.
     */
    ls_axes (*tells_apart)(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding);
    bool ordered; /* where sums are canonical, what it makes has the same bits for any number of ranks */
    bool common;  /* ranks of all stages lower it alike, and exchange something */
};

#define LS_LOWERING(op) ls_lowering_##op
extern const ls_lowering LS_LOWERED_OPS(LS_LOWERING);

/* The op's; one call of its kernel where it has none of its own. */
const ls_lowering *ls_lowering_of(const ls_op *op);
extern const ls_lowering ls_lowering_called;
/*
 * Whether this rank's addition to a sum counts: where the ranks of some axis all hold the same addend, that of the
 * first one does.
 */
bool ls_lower_adds_here(const ls_builder *b, int node);
/* What a node's kernel adds to: the sum where this rank's addition counts, else a place that nothing reads. */
ls_operand ls_lower_sum(ls_builder *b, int node, ls_operand sum);
/* The call's floating-point operations, by the op's rule. */
double ls_lower_flops(const ls_op *op, const ls_kernel_build *call);
/* The tensor is read in place by other ranks, so its bytes lie in the heap. The empty tensor is allowed. */
void ls_lower_shared(ls_builder *b, ls_tensor t);
/*
 * Along which axes blocks are read in place (attention/kv_transfer.c): as asked for, or what is better on the mesh.
 * LS_USAGE when it is asked for and none can be.
 */
LS_MUST_USE ls_status ls_choose_transfers(const ls_target *target, ls_axes *in_place);
/* Finds what other ranks read in place. Before any node is lowered. */
void ls_lower_share(ls_builder *b, int n_nodes);

/* Declares the effects of each program on what persists (program/states.h). After all programs are lowered. */
void ls_declare_effects(const ls_builder *b);

/* Numbers instructions and names what they read (program/name.h), from the lists as they were emitted. */
void ls_name_values(ls_image *image);

/* --- the order of the list ---------------------------------------------------------------------------------------- */

/* Instruction i must stay behind on[first[i]] ... on[first[i + 1] - 1]. */
typedef struct ls_dependencies {
    int *first, *on;
} ls_dependencies;
/* Of the list in emission order, before placement (depend.c). They lie in the arena given. */
void ls_depend(const ls_image *image, int program, ls_arena *arena, ls_dependencies *out);

/* A new order, for communication that hides behind kernels (schedule.c). Lists must have their numbers. */
void ls_schedule(ls_image *image);

/* --- placement and order ------------------------------------------------------------------------------------------ */

enum { LS_PLACE_ALIGN = 64 };

/*
 * Fills first and last of the program's buffers, and finds which buffers take over another's bytes (ls_reuse_in_place:
 * taker).
 */
void ls_find_lifetimes(ls_image *image, int program, int *taker);
/* Largest sum of live bytes over the program's instructions; live (may be NULL): the sum at each. */
int64_t ls_find_live(const ls_image *image, int program, ls_space space, int64_t *live);

/*
 * Which buffers of the program take over another's bytes. taker[b], -1 before the call, becomes the buffer that takes
 * over the bytes of b; b.last then becomes the instruction before the one that writes the taker.
 */
void ls_reuse_in_place(ls_image *image, int program, int *taker);
/* Lifetimes, then offsets. allowed: 0, or the bytes of LS_FOR_BYTES; no offsets where the lower bound is more. */
void ls_place(ls_image *image, size_t allowed);
/* Fills `after`. */
void ls_order(ls_image *image);

#endif
