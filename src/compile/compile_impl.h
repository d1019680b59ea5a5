/* What the passes share: above all the builder, which makes all instructions. */
#ifndef LS_COMPILE_IMPL_H
#define LS_COMPILE_IMPL_H

#include "compile/compile.h"
#include "device/device.h"

/* --- sharding ----------------------------------------------------------------------------------------------------- */

/*
 * A tensor's placements along all axes: the axes that cut each dimension, and the axes along which the tensor is a
 * partial sum. Along the other axes it is whole. A dimension is cut first along axes of the batch and the sequence, the
 * outermost axis of the mesh first; then axes of features (tp) divide the part of each rank further.
 */
typedef struct ls_placements {
    ls_axes cut[LS_MAX_DIMS], partial;
} ls_placements;

static inline bool ls_placements_equal(const ls_placements *a, const ls_placements *b) {
    bool equal = a->partial == b->partial;
    for (int i = 0; i < LS_MAX_DIMS; i++) equal &= a->cut[i] == b->cut[i];
    return equal;
}

/* About how often a tensor's bytes travel when `from` becomes `to`; -1: this cannot be done (shard/price.c). */
double ls_placements_travel(const ls_placements *from, const ls_placements *to);
/* Whether ranks along some axis get all of a dimension of which each had a part. */
bool ls_placements_gather(const ls_placements *from, const ls_placements *to);

/* When a node has its turn. Slot 0 is before all nodes of a program, slot `last` after them. */
typedef struct ls_node_slot {
    int slot, micro; /* as in ls_epoch, 1 .. last - 1; the micro-batch, or slice of one, of the node */
    int before;      /* the same node for the previous slice; -1: there is none */
    bool forward;    /* its turn is in the forward pass of the micro-batch */
} ls_node_slot;
typedef struct ls_node_slots {
    ls_node_slot *node; /* by node of the graph; NULL: all have slot 0 */
    int last;           /* the same on all ranks */
} ls_node_slots;

typedef struct ls_sharding {
    ls_placements *tensor; /* by tensor */
    ls_placements *wanted; /* by node * LS_NODE_INPUTS + input: the placements that the node needs */
    ls_axes *first_only;   /* by node: along these axes, only the first rank adds to the result */
    ls_dim_units *units;   /* by tensor * LS_MAX_DIMS + dimension: what stays together; NULL: single elements */
    ls_node_slots slots;   /* the nodes' turns, with stages of a pipeline */
} ls_sharding;

/*
 * Finds the placements of all tensors of the first n_nodes nodes. Errors name op, tensor and axis, or the parameter
 * that has too few heads or features for an axis.
 */
LS_MUST_USE ls_status ls_shard(const ls_graph *graph, int n_nodes, const ls_mesh *mesh, ls_arena *arena,
                               ls_sharding *out);
/*
 * Inserts a redistribution node wherever a tensor is spread otherwise than its reader needs it, one for all readers in
 * a program that need the same placements (redistribution.c). Graph, programs and sharding become new ones in the
 * arena; they stay if nothing is redistributed.
 */
void ls_redistribute(ls_job *job, const ls_mesh *mesh, ls_arena *arena, ls_sharding *sharding);
/* A graph that is being rewritten into another one (rewriting.c). */
typedef struct ls_rewriting {
    const ls_graph *from;
    ls_graph *to;
    ls_arena *arena; /* has the new graph */
    int *moved;      /* by node: its new number */
    int *begins;     /* by node: the new number of the first node that takes its place, inserted nodes included */
} ls_rewriting;
ls_rewriting ls_rewriting_begin(const ls_graph *from, ls_arena *arena);
/* Nodes added from now on take the place of node n, until the next node is reached. For each n, in order. */
void ls_rewriting_reach(ls_rewriting *r, int n);
/* Adds a node whose outputs are tensors of the new graph; and one that is node n of the old graph. */
void ls_rewriting_add(ls_rewriting *r, const ls_node *node);
void ls_rewriting_copy(ls_rewriting *r, int n, ls_node node);
/* Gives the job the new graph, and its programs the new numbers of nodes. */
void ls_rewriting_end(ls_rewriting *r, ls_job *job);
/*
 * Frozen parameters that are kept in another type than the graph's get that type, and a cast is inserted before each
 * node that reads one (kept.c). Graph and programs become new ones in the arena; they stay if nothing is changed.
 */
void ls_cast_kept(ls_job *job, ls_arena *arena);
/*
 * Fuses neighbouring maps, and elementwise nodes next to them, into one map (fuse.c). Graph and programs become new
 * ones in the arena; they stay if nothing is fused.
 */
void ls_fuse(ls_job *job, ls_arena *arena);
/*
 * The job with the graph that is compiled, without redistribution nodes yet, and the placements of its tensors
 * (compile.c). In this graph results are recomputed as the target says, maps are fused, and parameters kept in another
 * type are cast. Errors: those of ls_shard.
 */
LS_MUST_USE ls_status ls_spread_job(const ls_job *job, const ls_target *target, ls_arena *arena, ls_job *out,
                                    ls_sharding *sharding);
/*
 * Whether, for some tensor, the dimension that one of these axes cuts changes anywhere. A partial sum that becomes
 * whole, or the reverse, is no such change.
 */
bool ls_is_redistributed(const ls_graph *graph, const ls_sharding *sharding, ls_axes axes);

/* --- the builder -------------------------------------------------------------------------------------------------- */

/*
 * The uses of one of a channel's words: each time that it is set or awaited, even where no instruction is made because
 * nothing is transferred.
 */
typedef struct ls_channel_calls {
    ls_epoch *set; /* by call */
    int n_set, n_awaited;
    size_t capacity;
    uint64_t sets, awaits; /* instructions so far: the generation of the last one */
} ls_channel_calls;

/* Consecutive parameters of the flat space, whose gradients lie together and are complete together. */
typedef struct ls_group {
    int64_t start, count; /* elements of the flat space */
    int first_bucket, n_buckets;
    int first, past; /* its parameters: indices in the image's flats; a matrix that is updated whole is alone */
} ls_group;

/* A part of a group that is divided over all ranks and reduced in one piece. */
typedef struct ls_bucket {
    int64_t start, count;
    int group;
} ls_bucket;

typedef struct ls_stages ls_stages; /* how a team exchanges (redistribute/redistribute.h) */

/* The flat space of all parameters (packing.c): where each lies, what travels together, and what is sharded. */
typedef struct ls_packing {
    const ls_shard_mode *cut;
    int *flat_of; /* by tensor: for a parameter or its gradient sum, the parameter's index in flats; else -1 */
    ls_group *groups;
    int n_groups, n_trained; /* first come the n_trained groups of trained parameters; the others are only read */
    bool trains;             /* some stage has trained parameters */
    ls_bucket *buckets;
    int n_buckets;
    size_t bucket_capacity;
    const ls_stages *stages; /* of the gradients' reduce-scatter; parameters go back through them */
} ls_packing;

/* The channels of the program that is being lowered, by name, and when their words are set. */
typedef struct ls_channels {
    ls_index names;
    struct ls_channel_words {
        ls_channel_calls data, free;
        bool common;
    } * words; /* by channel */
    int n;
    size_t capacity;
    ls_epoch epoch; /* of the last word that was set; each node of a program begins a new one (lower.c) */
    bool common;    /* ranks of all stages lower the current node alike */
    int n_halos;    /* exchanges of neighbours' tokens so far (redistribute/halo.c) */
} ls_channels;

/* The tokens of the tile that is being lowered, and the storage that exists for this tile alone. */
typedef struct ls_tile {
    int64_t start, count;
    int64_t most; /* most tokens of this tile on any rank */
    const ls_tensor *inner;
    int n_inner;
    bool goes_on; /* sums continue from the previous tile */
} ls_tile;

typedef struct ls_workspaces ls_workspaces; /* workspace.c */
typedef struct ls_sites ls_sites;           /* attention nodes on this rank (attention/attention.h) */

/* What lowering writes to: the image, its program that is being lowered, and where tensors lie. */
typedef struct ls_builder {
    const ls_job *job;
    const ls_target *target;
    const ls_sharding *sharding;
    ls_packing *packing;
    ls_image *image;
    ls_program *program;       /* NULL: what outlives programs is being made */
    ls_arena *scratch;         /* during lowering, for what the image does not keep */
    const ls_job_program *row; /* the job's row of this program */
    ls_channels channels;
    ls_index displacements; /* hash index of the image's displacements, except the first */
    ls_workspaces *workspaces;
    ls_operand *tensor;  /* by storage tensor: where it lies; buffer -1: not placed yet */
    bool *shared;        /* by storage tensor: other ranks read it in place, so it must be in the heap */
    const ls_tile *tile; /* during the lowering of a tile, else NULL */
    ls_sites *sites;
    ls_status status; /* the first error; calls after it are harmless */
} ls_builder;

/* The index of the program that is being lowered; -1: there is none. */
static inline int ls_build_program(const ls_builder *b) {
    return b->program != NULL ? (int)(b->program - b->image->programs) : -1;
}

void ls_build_fail(ls_builder *b, ls_status status);

/* Bytes of scratch that the kernel needs for this request. The params must stay at their address. */
size_t ls_workspace_bytes(ls_builder *b, const ls_kernel *kernel, const ls_kernel_request *request,
                          size_t params_bytes);

/* A new buffer of the program that is being lowered; if there is none, a buffer that outlives programs. */
int ls_build_buffer(ls_builder *b, ls_space space, ls_buffer_kind kind, size_t bytes, const char *name);
/* A private dense operand in a new buffer. */
ls_operand ls_build_private(ls_builder *b, ls_buffer_kind kind, const char *name, ls_dtype dtype, int ndim,
                            const int64_t *size);
/* A dense operand in a new buffer of the heap. capacity: elements, the same on every rank, enough for any rank. */
ls_operand ls_build_symmetric(ls_builder *b, ls_buffer_kind kind, const char *name, int64_t capacity, ls_dtype dtype,
                              int ndim, const int64_t *size);

/* A call of a kernel, which is found and given its workspace. The first n_in and n_out operands must have buffers. */
typedef struct ls_kernel_build {
    ls_queue queue;
    const char *op;
    ls_kernel_id kernel;
    ls_dtype dtype;
    const void *params; /* copied: bytes */
    size_t params_bytes;
    double flops, rows; /* as in ls_instr; flops: only if the contract does not define them */
    int n_in, n_out;
    ls_operand in[LS_KERNEL_INPUTS];
    ls_operand out[LS_KERNEL_OUTPUTS];
} ls_kernel_build;
void ls_build_kernel(ls_builder *b, const ls_kernel_build *k);

/* Frequent kernels. accumulate adds `from` to `to` (type G); fill zeroes; cast converts, or copies one type. */
void ls_build_copy(ls_builder *b, ls_operand from, ls_operand to);
void ls_build_cast(ls_builder *b, ls_operand from, ls_operand to);
void ls_build_fill(ls_builder *b, ls_operand to);
/* Copies from memory of the device to memory of the host, and back, on the queue `link`. Both operands are dense. */
void ls_build_offload(ls_builder *b, ls_operand from, ls_operand to);
void ls_build_fetch(ls_builder *b, ls_operand from, ls_operand to);
/* A call that updates the optimiser's state. State in memory of the host is fetched before and offloaded after it. */
void ls_build_kernel_on_state(ls_builder *b, const ls_kernel_build *k);
void ls_build_accumulate(ls_builder *b, ls_operand from, ls_operand to);
/* `to` becomes the sum of n equal parts of `rows`, which is dense, added in their order. */
void ls_build_add_rows(ls_builder *b, ls_operand rows, int64_t n, ls_operand to);

/*
 * Transfers. ls_build_channel finds the channel of that name in this program, or makes it on first use. A node that
 * ranks of all stages lower alike does not take a channel that an earlier node of this stage alone has made: other
 * stages may have no such channel, and the words of common channels are numbered alike in all stages. For each use of a
 * channel the receiver grants the part of its slot that will be written; the sender waits for this and puts (send);
 * the receiver waits for the data (receive). Each rank calls all three, for its two neighbours on the channel, equally
 * often and in the same order as all other ranks. An empty transfer makes no instruction.
 */
int ls_build_channel(ls_builder *b, const char *format, ...) LS_PRINTF(2, 3);
void ls_build_grant(ls_builder *b, int channel, ls_peer sender, ls_operand slot);
void ls_build_send(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to);
void ls_build_receive(ls_builder *b, int channel, ls_peer sender, ls_operand slot);
/*
 * The same for counted rows (the first dimension of a dense operand). Only the first rows travel; their number is
 * `count`, an i32 in this rank's memory that is read when the put runs. The slot has room for all rows; what it holds
 * after those that arrived is undefined. likely: the number of rows by which the put is timed.
 */
void ls_build_send_rows(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to, ls_operand count,
                        double likely);
void ls_build_receive_rows(ls_builder *b, int channel, ls_peer sender, ls_operand slot);
/*
 * The same between ranks whose lists differ: each rank calls only its own end, and both ends give the epochs of the
 * grant and of the put. behind: as in ls_instr.
 */
void ls_build_grant_at(ls_builder *b, int channel, ls_peer sender, ls_operand slot, ls_epoch granted);
void ls_build_send_at(ls_builder *b, int channel, ls_peer receiver, ls_operand from, ls_operand to, ls_epoch granted,
                      ls_epoch sent);
void ls_build_receive_at(ls_builder *b, int channel, ls_peer sender, ls_operand slot, ls_epoch sent, double behind);
/*
 * Reading in place over the same channels: the owner of a block in the heap leases the block to a reader. The reader
 * borrows it (`block` is then the owner's, ls_operand_of_peer), reads it and returns it. The owner reclaims the block
 * before it writes there again.
 */
void ls_build_lease(ls_builder *b, int channel, ls_peer reader, ls_operand block);
void ls_build_borrow(ls_builder *b, int channel, ls_operand block);
void ls_build_return(ls_builder *b, int channel, ls_operand block);
void ls_build_reclaim(ls_builder *b, int channel, ls_peer reader, ls_operand block);
/* Begin and end a program. The end gives the image the program's list, and how often ends of channels are used. */
void ls_build_begin_program(ls_builder *b, ls_program *program);
void ls_build_end_program(ls_builder *b);
/* After all programs: makes signal words for the channels that only this rank's stage has. */
void ls_build_end_words(ls_builder *b);

/*
 * The team's number in the image, which is added on first use. ls_build_team_of: the team of the ranks that differ from
 * this rank only along `axes`.
 */
int ls_build_team(ls_builder *b, const ls_team *team);
int ls_build_team_of(ls_builder *b, ls_axes axes);
int ls_build_team_size(const ls_builder *b, int team);
/* The place of the rank that is compiled. Whatever depends on it must be the same for all ranks of its class. */
int ls_build_team_place(const ls_builder *b, int team);
/* The team by digit, and the team of its outer digits, as ls_team_split splits `team`; it must be able to. */
int ls_build_split_team(ls_builder *b, int team, int inner);
int ls_build_outer_team(ls_builder *b, int team, int inner);
/* The rank `shift` places further in the team; shift may be negative. */
ls_peer ls_build_peer(const ls_builder *b, int team, int shift);
/*
 * `all` has, in dimension dim, `count` elements for each member of a team, one member after the other. Returns the
 * elements of the member `shift` places further; shift 0: those of this rank.
 */
ls_operand ls_build_share(ls_builder *b, ls_operand all, int dim, int64_t count, int team, int shift);

/* --- lowering ----------------------------------------------------------------------------------------------------- */

/*
 * The indices of a tensor's dimension d that a rank holds if the axes `cut` cut it: `count` indices from `start` on; in
 * the sequence, by the order of the layout. For a dimension in several segments only the count has a meaning.
 */
typedef struct ls_indices {
    int64_t start, count;
} ls_indices;
ls_indices ls_indices_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut, int rank);
/* The size of a tensor on this rank: with its own placements, and with the placements `spread`. */
void ls_local_size(const ls_builder *b, ls_tensor t, int64_t size[LS_MAX_DIMS]);
void ls_placements_size(const ls_builder *b, ls_tensor t, const ls_placements *spread, int64_t size[LS_MAX_DIMS]);
/* The least and the most elements of dimension d that a rank has if the axes `cut` cut it. */
typedef struct ls_sizes {
    int64_t least, most;
} ls_sizes;
ls_sizes ls_sizes_of(const ls_builder *b, ls_tensor t, int d, ls_axes cut);
/* The number of elements of a tensor on a rank that has the most of every dimension. */
int64_t ls_most_elements(const ls_builder *b, ls_tensor t);
/* A new buffer for a storage tensor, in the heap if other ranks read it in place. */
ls_operand ls_lower_place(ls_builder *b, ls_buffer_kind kind, ls_tensor storage);
/* The tensor as an operand; in a region, only the current tile's tokens. One that is not placed yet gets a buffer. */
ls_operand ls_lower_tensor(ls_builder *b, ls_tensor t);
/* The same for an input that a node changes for later programs; fails if the operand would be a copy. */
ls_operand ls_lower_kept(ls_builder *b, const ls_node *node, int input);
/* Places the tensor at this dense operand, instead of in a buffer of its own. */
void ls_lower_bind(ls_builder *b, ls_tensor t, ls_operand operand);

/*
 * Lookups in a table whose rows are cut over ranks along axes of features (local_ids.c). ls_place_rows, before any
 * program: places the table that says which rows this rank has, for node n. ls_is_local_id: whether input i of the node
 * is the ids of such a lookup. ls_local_ids: these ids as indices of this rank's rows.
 */
void ls_place_rows(ls_builder *b, int n);
/* The axes of features along which the table's rows that a node looks up are cut; 0: none. *d: their dimension. */
ls_axes ls_cut_rows(const ls_builder *b, int n, int *d);
bool ls_is_local_id(const ls_builder *b, int n, int i);
ls_operand ls_local_ids(ls_builder *b, int n, ls_operand ids);
/*
 * ls_exchanged: the axes along which the node's rows of tokens go to the ranks that have the table's rows for their ids
 * (LS_EXCHANGE); 0: the tokens stay. ls_local_ids_at: the ids as indices of the rows of the rank `shift` places further
 * along these axes.
 */
ls_axes ls_exchanged(const ls_builder *b, int n);
ls_operand ls_local_ids_at(ls_builder *b, int n, ls_operand ids, int shift);

/* Before any program: persistent buffers (persistent.c) of inputs, parameters, gradients, tables, optimiser state. */
void ls_lower_persistent(ls_builder *b);
/* Whether some program of the job ends with the update `least` or one that does more. */
bool ls_job_updates(const ls_job *job, ls_update least);
/* Whether the host reads a tensor that lies in that storage. */
bool ls_job_fetches(const ls_job *job, ls_tensor storage);
/*
 * Whether a program's gradients are summed over the ranks: those of the last micro-batch of a step; of every
 * micro-batch if a rank keeps only its shard of the sums.
 */
bool ls_program_reduces(const ls_builder *b, const ls_job_program *row);
/* --- slices of sequences (pipeline/slice.c) ----------------------------------------------------------------------- */

/* The number of slices of a sequence, 1: it is whole. LS_USAGE if S tokens cannot be cut into so many slices. */
int ls_target_slices(const ls_target *target);
LS_MUST_USE ls_status ls_slices_check(const ls_target *target, int64_t S);

/* --- the flat space (packing.c) ----------------------------------------------------------------------------------- */

/* Lays out the flat space of parameters: cuts it into groups and buckets, and finds this rank's pieces. */
void ls_lay_flat(ls_builder *b);
/*
 * Whether gradients need no reduce-scatter: there is one rank, and its shard is all gradients. Canonical sums of one
 * rank go through the reduce-scatter like those of several ranks.
 */
bool ls_gradients_stay(const ls_builder *b);
/* The group of a parameter, which is given by its index in flats. */
int ls_group_of(const ls_builder *b, int flat);
/*
 * ls_group_buckets: `all`, an operand with the group's elements, as [buckets, elements of a bucket]; every rank owns a
 * piece of each bucket. ls_group_pieces: this rank's pieces of the group as [buckets, elements of a piece], in the
 * operand that is bound as `shard`.
 */
ls_operand ls_group_buckets(const ls_builder *b, int group, ls_operand all);
ls_operand ls_group_pieces(const ls_builder *b, int group, const char *shard);
/* The elements of a parameter, given by its index in flats, in an operand with the group's elements. */
ls_operand ls_group_parameter(const ls_builder *b, int group, int flat, ls_operand all);
/* This rank's piece of a bucket in its shard; and its pieces of groups first .. past - 1. */
ls_operand ls_bucket_shard(const ls_builder *b, int bucket);
ls_operand ls_groups_shard(const ls_builder *b, int first, int past);
/* Records that a buffer of its own has the group's elements. */
void ls_group_note(const ls_builder *b, int group, ls_operand all);
/* "WHAT from NAME": NAME is the group's first parameter. */
const char *ls_group_name(const ls_builder *b, const char *what, int group);

/* --- the nodes of a program --------------------------------------------------------------------------------------- */

typedef struct ls_lowering ls_lowering;

/*
 * A node of a program: a node of the graph, or one that a pass has inserted (pass.h). A region is followed by its own
 * nodes, which run for one tile of tokens after the other.
 */
typedef struct ls_program_node {
    const ls_lowering *lowering;
    int of; /* the graph's node; -1: a pass has inserted this node */
    /*
     * Nodes with the same number stand together: nothing may be inserted between them. The number is that of the first
     * graph node among them; for a node that stands alone, its own.
     */
    int together;
    void *params;    /* of a pass's node; the nodes of one exchange share them */
    unsigned begins; /* bit o: output o is a sum to which nothing has been added yet */
    int n_body;      /* of a region: the number of nodes after it that are its own */
} ls_program_node;

typedef struct ls_program_nodes {
    ls_program_node *list;
    int n;
    size_t capacity;
} ls_program_nodes;

static inline const ls_node *ls_graph_node(const ls_builder *b, const ls_program_node *node) {
    return &b->job->graph->nodes[node->of];
}

/* Lowers `n` nodes, one after the other, up to the first error. */
void ls_lower_nodes(ls_builder *b, const ls_program_node *list, int n);

/* --- canonical sums (chunks.c) ------------------------------------------------------------------------------------ */

/* Neighbouring chunks of the sequence. */
typedef struct ls_chunks {
    int first, n;
} ls_chunks;

/* The chunks of one of `parts` equal parts of the sequence. */
ls_chunks ls_chunks_of(const ls_builder *b, int part, int parts);
ls_chunks ls_my_chunks(const ls_builder *b); /* the chunks of this rank */
/* The first position of a chunk; for a `chunk` equal to the number of chunks, the length of the sequence. */
int64_t ls_chunk_start(const ls_builder *b, int chunk);

/*
 * A sum over `chunks` chunks, a power of two, along a binary tree. The result is left in `sum`. Each chunk has an
 * addend of the same form as `sum`; they are made one after the other, chunk i's at ls_chunk_sum_addend. An addend is
 * zero outside elements start to end - 1 of dimension dim: only these are written, and ls_chunk_sum_add is given them.
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
 * The job's graph in which the first `drop` candidates are made again in the backward pass instead of kept
 * (recompute.c). New nodes and tensors lie in the arena; tensors of the old graph keep their numbers. If drop is 0, the
 * old graph itself.
 */
const ls_graph *ls_recompute(const ls_job *job, int drop, ls_arena *arena);

/* Logits of a token: the width of the first input of a node that makes one number for each token; 0: none does. */
int64_t ls_logits_width(const ls_graph *graph);
/* The sizes of tiles that suit the target's device (tile_size.c). */
ls_device_tiles ls_tiles_of(const ls_target *target);
/* The tokens of a tile for such a device. rows: tokens of a rank; bytes: of one token. */
int64_t ls_tile_choose(const ls_device_tiles *of, int64_t rows, double bytes);

/* --- tokens as rows (token_rows.c) -------------------------------------------------------------------------------- */

/* Whether batch and sequence are the first dimensions, so that tokens are rows of memory. */
bool ls_has_token_rows(const ls_graph *g, ls_tensor t);
/* Elements of one token of such a tensor. */
int64_t ls_row_width(const ls_graph *g, ls_tensor t);
/*
 * ls_tile_is_inner: whether the storage exists only for the current tile. ls_tile_view: the current tile's part of a
 * tensor that lies at `whole`.
 */
bool ls_tile_is_inner(const ls_builder *b, ls_tensor storage);
ls_operand ls_tile_view(const ls_builder *b, ls_tensor t, ls_operand whole);

/*
 * The row of the image's settings for the parameter with this number in the order of declaration, added if no earlier
 * one is equal. -1: none.
 */
int ls_update_group(ls_builder *b, const ls_tensor_info *parameter, int number);
/* What an optimiser updates at once: operands with one element for each element of a piece of the shard. */
typedef struct ls_update_piece {
    int64_t count;                       /* elements of the piece */
    ls_operand gradients;                /* summed over the ranks */
    ls_operand masters, parameters;      /* of types G and T; if G is T, the same memory */
    ls_operand state[LS_KERNEL_OUTPUTS]; /* in the order of the optimiser's `states` */
    ls_operand control;                  /* LS_BIND_CONTROL, of the whole step */
    ls_operand groups, settings;         /* for each unit of the piece its row in the settings; -1: not updated */
} ls_update_piece;
/*
 * What this rank updates of a bucket: its piece, or the whole bucket; `sums` then has all gradients. States that a
 * whole matrix does not have are empty.
 */
ls_update_piece ls_update_piece_of(ls_builder *b, int bucket, ls_operand sums);
/* The job's graph with marks on the parameters that its optimiser updates as whole matrices (optimizer/matrices.c). */
const ls_graph *ls_mark_matrices(const ls_job *job, ls_arena *arena);
/* Gives the teams of the totals their numbers, before stages of a pipeline add other teams. */
void ls_totals_teams(ls_builder *b);
/* If sums are canonical: adds to the loss of a step, exactly. */
void ls_totals_add_loss(ls_builder *b, ls_operand addend);
/* The operand that is bound to that name; there must be one. */
ls_operand ls_bound(const ls_builder *b, const char *name);
/*
 * How nodes become instructions: nodes of an op (LS_LOWERED_OPS, graph/graph.h) for which one call of the op's kernel
 * is not enough, mostly because they need other ranks' tokens; and nodes that passes insert. Only `lower` is never
 * NULL.
 */
struct ls_lowering {
    const char *name; /* of a pass's node; ops have names of their own */
    bool has_heads;   /* it spreads heads over ranks along axes that exchange heads: such an axis is of use */
    void (*lower)(ls_builder *b, const ls_program_node *node);
    /* Before any program: places the tables that the node reads and the host fills. */
    void (*tables)(ls_builder *b, int node);
    /* Before any node is lowered: declares what other ranks read in place (ls_lower_shared). */
    void (*share)(ls_builder *b, int node);
    /*
     * Of the axes that exchange heads or are of kind feature: those along which ranks with equally many tokens run
     * different instructions for the node. Along the others these ranks run one program, in which only the
     * displacements of operands depend on a rank's place (ls_build_share). NULL: none.
     */
    ls_axes (*tells_apart)(const ls_graph *graph, const ls_node *node, const ls_mesh *mesh,
                           const ls_sharding *sharding);
    bool ordered; /* with canonical sums, its results have the same bits for any number of ranks */
    bool common;  /* ranks of all stages lower it alike, and it exchanges something */
};

#define LS_LOWERING(op) ls_lowering_##op
extern const ls_lowering LS_LOWERED_OPS(LS_LOWERING);

/* The lowering of an op; ls_lowering_called, one call of the op's kernel, if it has none of its own. */
const ls_lowering *ls_lowering_of(const ls_op *op);
extern const ls_lowering ls_lowering_called;
/*
 * Whether this rank's addition to a sum counts. If the ranks along some axis all hold the same addend, only that of the
 * first rank counts.
 */
bool ls_lower_adds_here(const ls_builder *b, int node);
/* What a node's kernel adds to: the sum if this rank's addition counts, else memory that nothing reads. */
ls_operand ls_lower_sum(ls_builder *b, int node, ls_operand sum);
/* The floating-point operations of the call, by the op's rule. */
double ls_lower_flops(const ls_op *op, const ls_kernel_build *call);
/* Other ranks read the tensor in place, so its bytes must be in the heap. The empty tensor is allowed. */
void ls_lower_shared(ls_builder *b, ls_tensor t);
/*
 * The axes along which blocks are read in place (attention/kv_transfer.c): as the target asks, or what is better on the
 * mesh. LS_USAGE if the target asks for reading in place and no axis allows it.
 */
LS_MUST_USE ls_status ls_choose_transfers(const ls_target *target, ls_axes *in_place);
/* Finds what other ranks read in place; before any node is lowered. */
void ls_lower_share(ls_builder *b, int n_nodes);

/* After all programs are lowered: declares the effects of each on persistent buffers (program/states.h). */
void ls_declare_effects(const ls_builder *b);

/* Numbers instructions and names the values that they read (program/name.h), from the lists as they were emitted. */
void ls_name_values(ls_image *image);

/* --- the order of the list ---------------------------------------------------------------------------------------- */

/* Instruction i must stay after instructions on[first[i]] ... on[first[i + 1] - 1]. */
typedef struct ls_dependencies {
    int *first, *on;
} ls_dependencies;
/* The dependencies of the list in emission order, before placement (depend.c), allocated in the arena. */
void ls_depend(const ls_image *image, int program, ls_arena *arena, ls_dependencies *out);

/* Reorders lists so that communication hides behind kernels (schedule.c). Instructions must have their numbers. */
void ls_schedule(ls_image *image);

/* --- placement and order ------------------------------------------------------------------------------------------ */

enum { LS_PLACE_ALIGN = 64 };

/* Sets `first` and `last` of the program's buffers. taker: as for ls_reuse_in_place, which it calls. */
void ls_find_lifetimes(ls_image *image, int program, int *taker);
/* The largest sum of live bytes at an instruction of the program. live (may be NULL): the sum at each instruction. */
int64_t ls_find_live(const ls_image *image, int program, ls_space space, int64_t *live);

/*
 * Finds which buffers of the program take over another's bytes. taker[b], -1 before the call, becomes the buffer that
 * takes over the bytes of buffer b. The `last` of b then becomes the instruction before the one that writes the taker.
 */
void ls_reuse_in_place(ls_image *image, int program, int *taker);
/* Finds lifetimes, then offsets. allowed: 0, or that of ls_target: no offsets if the lower bound exceeds it. */
void ls_place(ls_image *image, size_t allowed);
/* Sets `after` of each instruction. */
void ls_order(ls_image *image);

#endif
