/*
 * Images: what a rank executes. A program is a flat list of instructions over four arenas: private memory; the rank's
 * part of the symmetric heap, which peers access; memory of the host, where data waits until it is used again; and
 * memory that ranks of a host have in common. The list has one meaning and several readers: run executes it, explain
 * prints it, plan reads its bytes.
 *
 * Ranks with identical programs share one image: they are a class. An image names no rank. Peers are given by a team
 * and a distance. If an offset depends on the rank, the operand says how (ls_displacement).
 *
 * The list would be correct if its instructions were executed one after the other, each put done before the next
 * instruction starts. Each instruction is on a queue, which keeps its own order. For each other queue, `after` names
 * the last instruction that must have been executed before this one starts; and for any queue, the last put that must
 * be done. So queues may run concurrently, and puts while the instructions after them run. At the end of a run all its
 * puts are done. Queues are orders, not threads. A cursor (cursor.h) goes through a program.
 *
 * Programs of two classes may differ, but the classes at both ends of a channel must agree on each use of it; a use
 * that would transfer nothing is in neither program. Each rank decides where a slot or a block lies in its heap: the
 * other end of the channel is told the address when programs are prepared (address.h).
 */
#ifndef LS_PROGRAM_IMAGE_H
#define LS_PROGRAM_IMAGE_H

#include <stdio.h>

#include "base/base.h"
#include "kernel/kernel.h"
#include "tensor/tensor.h"

/*
 * LS_HOST: memory of the host, which only the kernels offload and fetch access. On a device without memory of its own
 * it is in the same memory as the other arenas. LS_COMMON: values of parameters that no program changes; the ranks of a
 * host share one copy (common.h).
 */
typedef enum ls_space { LS_PRIVATE, LS_SYMMETRIC, LS_HOST, LS_COMMON, LS_SPACES } ls_space;
typedef struct ls_space_text {
    const char *name, *title; /* "private", "private memory" */
} ls_space_text;
extern const ls_space_text ls_space_texts[LS_SPACES];
/* Whether every rank uses this space; in the other spaces a rank may have nothing. */
static inline bool ls_space_is_usual(ls_space space) { return space == LS_PRIVATE || space == LS_SYMMETRIC; }

typedef enum ls_buffer_kind {
    LS_BUFFER_INPUT,      /* written by the host: tokens, labels, step parameters */
    LS_BUFFER_TABLE,      /* written by the host once: positions, mask spans, settings of the update */
    LS_BUFFER_PARAMETER,  /* weights in the working type */
    LS_BUFFER_GRADIENT,   /* sums of gradients */
    LS_BUFFER_OPTIMIZER,  /* this rank's part of the optimiser's state */
    LS_BUFFER_OUTPUT,     /* read by the host */
    LS_BUFFER_ACTIVATION, /* lives within a program */
    LS_BUFFER_SLOT,       /* peers put data there */
    LS_BUFFER_WORKSPACE,  /* scratch of one kernel call */
    LS_BUFFER_KINDS
} ls_buffer_kind;

typedef struct ls_buffer {
    const char *name;
    ls_space space;
    ls_buffer_kind kind;
    size_t bytes;
    size_t offset;   /* in its arena; set by placement */
    int program;     /* the only program that uses it: index into ls_image.programs; -1: persistent */
    int first, last; /* instructions of that program between which its bytes are live (inclusive); if another buffer
                        takes the bytes over in place, `last` is the instruction before */
    int64_t flat;    /* if it holds parameters or gradients in the order of the flat space: the index there of its first
                        element; else -1 */
} ls_buffer;

/*
 * A rank relative to the one that executes the program: `shift` places further in a team of the image. Zeroed: the rank
 * itself.
 */
typedef struct ls_peer {
    int team;  /* index into ls_image.teams */
    int shift; /* 0 < shift < the team's size */
} ls_peer;

static inline bool ls_peer_is_self(ls_peer peer) { return peer.shift == 0; }
static inline bool ls_peer_equal(ls_peer a, ls_peer b) { return a.team == b.team && a.shift == b.shift; }

/*
 * Bytes by which an operand lies further on a rank: a sum of terms. A term is `bytes` times the place in a team of the
 * rank that is `shift` places further than the executing rank. If the shift passes the last place, it continues with
 * place 0.
 */
enum { LS_DISPLACEMENT_TERMS = LS_TEAM_DIGITS };
typedef struct ls_displacement {
    int n;
    struct {
        int team, shift;
        size_t bytes;
    } term[LS_DISPLACEMENT_TERMS];
    size_t most; /* the most on any rank: all terms at the last place */
} ls_displacement;

/*
 * What an instruction touches: a view whose first element lies `offset` bytes, plus a displacement, after the start of
 * the buffer.
 */
typedef struct ls_operand {
    int buffer;       /* index into ls_image.buffers; -1: none */
    int displacement; /* index into ls_image.displacements; 0: none */
    ls_peer peer; /* the rank whose bytes these are. Bytes of another rank are read in place, in a borrowed block, whose
                     owner says where it lies (address.h) */
    size_t offset;  /* bytes */
    ls_view view;   /* `data` is NULL: addresses exist only in a run */
    uint64_t value; /* name of the value that must be there (name.h); 0: it is not read */
} ls_operand;

/*
 * When a word is set: (slot, node, step), compared in this order. slot: a place in the timetable of all ranks; 0 if all
 * ranks do the same. node: the place of the node in the program. step: the place of the message among those of the
 * node's lowering, counting also messages that this rank omits because they would be empty. So both ends of a channel
 * know the epoch. Epochs rise along every list and along everything that must come after one another: no rank sets a
 * word after an await of a later epoch.
 */
typedef struct ls_epoch {
    int slot, node, step;
} ls_epoch;

/* < 0: a is before b; 0: they are equal. */
static inline int ls_epoch_compare(ls_epoch a, ls_epoch b) {
    if (a.slot != b.slot) return a.slot < b.slot ? -1 : 1;
    if (a.node != b.node) return a.node < b.node ? -1 : 1;
    return a.step < b.step ? -1 : a.step > b.step;
}

typedef enum ls_instr_kind {
    LS_INSTR_KERNEL,  /* operands in[], out[] of a kernel */
    LS_INSTR_GRANT,   /* receiver: the peer may put into the slot out[0] */
    LS_INSTR_ACQUIRE, /* sender: waits until its peer has granted the slot */
    LS_INSTR_PUT,     /* sender: writes in[0] to the peer's slot, at the address of the peer's RECEIVE, in the form of
                         out[0]; done when in[0] may be overwritten. in[1], if there is one, is the number of rows */
    LS_INSTR_RECEIVE, /* receiver: waits until the slot out[0] is filled */
    LS_INSTR_LEASE,   /* owner: the peer may read the block in[0] in place */
    LS_INSTR_BORROW,  /* reader: waits until the peer's block out[0] may be read */
    LS_INSTR_RETURN,  /* reader: the peer's block out[0] has been read */
    LS_INSTR_RECLAIM, /* owner: waits until its block in[0] has been returned */
    LS_INSTR_KINDS
} ls_instr_kind;

/*
 * The queues that the compiler uses; a program says how many it has. Copies between memory of the device and memory of
 * the host are on LS_LINK.
 */
typedef enum ls_queue { LS_COMPUTE, LS_COPY, LS_LINK, LS_QUEUES } ls_queue;

/*
 * What an instruction comes after: on this queue, everything up to and including `instr` has been executed. done: its
 * puts up to there are also done, so the bytes that they read may be overwritten.
 */
typedef struct ls_after {
    int queue; /* with `done` any queue, also its own; else another one */
    int instr;
    bool done;
} ls_after;

typedef struct ls_instr {
    ls_instr_kind kind;
    int queue;
    const char *op; /* for display: the name of the op or kernel */
    int n_in, n_out;
    ls_operand *in, *out;    /* n_in and n_out of them in the image's arena; a copied instruction shares them */
    const ls_kernel *kernel; /* of LS_INSTR_KERNEL */
    const void *params;
    const ls_operand *workspace; /* buffer -1: none */
    double flops;
    double rows;    /* of attention: the number of (query, head) pairs that see any key */
    size_t counted; /* of a put of counted rows, and of its receive: bytes of a row. The put's in[1], an i32 that is
                       read when the put runs, is the number of rows that travel: at most all of in[0], for which the
                       slot has room. 0: all of in[0] travels */
    double likely;  /* of a put of counted rows: the bytes by which it is timed */
    ls_peer peer;   /* of all kinds except kernels */
    int channel;    /* index into ls_program.channels */
    uint64_t generation; /* of this use within one run of the program: 1, 2, ... */
    ls_epoch epoch;      /* when it sets its word; of an await: when the word that it awaits is set */
    int n_after;
    ls_after *after; /* n_after of them in the image's arena; for each queue at most one with `done` and one without */
    int number;      /* its place in emission order; it keeps the number when it is moved */
    uint64_t transfer; /* of what sets a "data" word and of the wait for it: name of the payload (name.h); else 0 */
    /*
     * Of a receive from another stage of a pipeline, whose arrival the timetable gives: nominal seconds from the time
     * at which this rank has nothing else to do; less than 0: the data arrives before that time.
     */
    bool timed;
    double behind;
} ls_instr;

/*
 * One kind of transfer between two ranks: a word "data" at the receiver ("data is there") and a word "free" at the
 * sender. Either the payload is put into a slot of the receiver:
 *   receiver  GRANT sets "free"    sender    ACQUIRE awaits it
 *   sender    PUT sets "data"      receiver  RECEIVE awaits it
 * or it is read in place; the reader's operands have `peer` set:
 *   owner     LEASE sets "data"    reader    BORROW awaits it, then instructions read the block
 *   reader    RETURN sets "free"   owner     RECLAIM awaits it, then the block may be overwritten
 * A channel has the same index at both ends. A rank may be at both ends, towards two other ranks; each end counts its
 * own uses.
 */
typedef enum ls_channel_side { LS_SIDE_RECEIVES, LS_SIDE_SENDS, LS_SIDES } ls_channel_side;
typedef struct ls_channel {
    const char *name;
    uint64_t uses[LS_SIDES]; /* transfers in one run of the program; 0: this rank does not have that end. Run r adds
                                r*uses to every generation there */
} ls_channel;

/* What a persistent buffer holds while no program runs. */
typedef enum ls_kept_state {
    LS_STATE_ZERO, /* zeros */
    LS_STATE_SUM,  /* what has been added so far */
    LS_STATE_SET,  /* values: the host's, or a program's result */
    LS_STATES
} ls_kept_state;

/*
 * The effect of a program on a persistent buffer. It determines the state that the program needs and the state that it
 * leaves (states.h).
 */
typedef enum ls_effect {
    LS_EFFECT_NONE,   /* does not access it */
    LS_EFFECT_READ,   /* reads it */
    LS_EFFECT_MAKE,   /* writes it, whatever it held before */
    LS_EFFECT_CHANGE, /* reads it, and leaves other values */
    LS_EFFECT_ADD,    /* adds to zeros or to a sum */
    LS_EFFECT_TAKE,   /* adds to zeros or to a sum, uses the sum, and leaves zeros */
    LS_EFFECT_FINISH, /* adds to zeros or to a sum, and leaves other values in its place */
    LS_EFFECTS
} ls_effect;

/* What a program declares about a persistent buffer. */
typedef struct ls_kept {
    ls_effect effect;
    uint64_t left; /* name of the value that it leaves there (name.h) */
} ls_kept;

/* A pass of the compiler over the nodes of a program, and the number of nodes that it has inserted. */
typedef struct ls_program_pass {
    const char *name, *about;
    int nodes;
} ls_program_pass;

typedef struct ls_program {
    const char *name;
    ls_program_pass *passes; /* in their order */
    int n_passes;
    int queues;
    int n_nodes; /* nodes of the graph that it runs */
    int runs; /* how often it runs in a step, or in the unit of work that the job defines: plans are costed and timed by
                 this; 0: it is no part of that. The image's programs of a step follow one another */
    ls_kept *kept; /* by buffer; for persistent ones */
    ls_instr *instrs;
    int n_instrs;
    size_t instr_capacity;
    ls_channel *channels;
    int n_channels;
    size_t channel_capacity;
    int n_common;             /* the first n_common channels are those that ranks of all stages of a pipeline have */
    int first_word, own_word; /* channel c of these has words first_word + 2c (data) and + 2c + 1 (free), channel
                                 n_common + c has words own_word + 2c and + 2c + 1 */
} ls_program;

/* What happens to the sums to which program `to` of a row adds (ls_effect_sums), between the two programs. */
typedef enum ls_phase_sums {
    LS_PHASE_ZERO,    /* they are zero, and the host does nothing */
    LS_PHASE_CLEARED, /* the host sets them to zero */
    LS_PHASE_GOES_ON  /* they may have been begun: `to` continues them, unless the host clears them */
} ls_phase_sums;

/*
 * A row of the phase table: program `to` may follow program `from` (LS_FIRST: it may be the first program). Between the
 * two the host writes the inputs; before the first program also parameters, the optimiser's state and tables; and sums
 * as `sums` says.
 */
typedef struct ls_phase {
    int from, to;
    ls_phase_sums sums;
} ls_phase;

enum { LS_FIRST = -1 };

/* A tensor that the host reads or writes by name. */
typedef struct ls_binding {
    const char *name;
    ls_operand operand;       /* local shape */
    ls_shape shape;           /* global */
    int slice;                /* the slice of the sequence (ls_image.slices) whose tokens it has */
    ls_axes cut[LS_MAX_DIMS]; /* axes that cut the dimension: this rank holds a part */
    ls_axes partial;          /* axes over whose ranks it is a sum: this rank holds a term */
    ls_axes alone;            /* axes along which only one rank has it: the rank in its stage of a pipeline */
    bool elsewhere;           /* the tensor is on another stage: the operand has no buffer */
    /* Of the flat space of parameters: this rank holds only its pieces, one after the other; else all of it. */
    bool sharded;
    bool flat;       /* it is of the flat space of parameters; the host has it as whole parameters */
    int first, past; /* of the flat space: it has only buckets first .. past - 1 */
} ls_binding;

/* A mask of the graph, whose spans for a block of queries the host writes. */
typedef struct ls_mask_binding {
    ls_mask mask;                     /* its ends are a copy in the image */
    int micro;                        /* the micro-batch of the mask; 0 if all have the same spans */
    int slice, keys;                  /* slices of the sequence: of the queries, and of the keys that they attend to */
    int64_t query_start, query_count; /* the block: a run of positions[] */
    ls_operand spans;                 /* i32[B,query_count,2*width]; the same for all `keys` */
} ls_mask_binding;

/*
 * Which rows of a table a rank has: the index of the first, and the number. The host writes them, so that ranks with
 * different rows run the same program.
 */
typedef struct ls_rows_binding {
    ls_dim_units units; /* of the rows */
    ls_axes axes;       /* along which ranks have different rows */
    bool all;           /* for each rank along the axes, in order: i32[ranks,2]; else for this rank: i32[2] */
    ls_operand rows;
} ls_rows_binding;

/*
 * A parameter's place in the flat space of all parameters (in elements). Trained parameters come first. If axes of
 * heads and features cut a parameter, the flat space of a rank has only its part, in the order of memory (parts.h).
 */
typedef struct ls_flat {
    const char *name;
    ls_shape shape;       /* whole */
    int number;           /* its place among the tensors of a file: the same on every mesh */
    int64_t start, count; /* of this rank's part */
    int64_t whole_start;  /* its index among whole parameters, as the host has them */
    int64_t whole_count;
    ls_axes cut;        /* axes along which ranks have different parts; 0: all ranks have the whole parameter */
    int cut_dim;        /* the dimension that is cut */
    ls_dim_units units; /* of that dimension */
    ls_axes summed;     /* axes of heads and features over which gradients in the shards are also summed */
    ls_dtype dtype;     /* of its values */
    bool elsewhere;     /* only ranks of other stages of a pipeline have it: count is 0 */
    bool trained;       /* else it has only values: no gradient, no master, no state of the optimiser */
    bool borrowed;      /* its values stay those of the model's files: it is not in checkpoints */
    bool added;         /* it belongs to an adapter: it is not in the model's files */
    int group;          /* its row of ls_image.settings; -1: it is frozen, or nothing is updated */
    bool matrix;        /* the optimiser updates it as a whole matrix, not element by element */
} ls_flat;

/* A contiguous part of the flat space. */
typedef struct ls_flat_piece {
    int64_t start, count; /* in the flat space */
    int64_t at;           /* in the shard of the rank that owns it */
} ls_flat_piece;

/* A state of the optimiser: what it keeps for each element of a rank's shard, in the type of sums. */
typedef struct ls_optimizer_state {
    const char *binding; /* the host finds it by this name */
    const char *saved;   /* its prefix of a parameter's name in checkpoints */
    bool not_matrices;   /* parameters that are updated as whole matrices do not have it, only those before them */
} ls_optimizer_state;

static inline bool ls_flat_has(const ls_flat *flat, const ls_optimizer_state *state) {
    return flat->trained && (!flat->matrix || !state->not_matrices);
}

/* The programs of a class of ranks, and the memory that they share. */
typedef struct ls_image {
    ls_arena *arena;
    ls_mesh mesh;
    ls_team *teams; /* the first is the team of this rank alone */
    int n_teams;
    size_t team_capacity;
    ls_displacement *displacements; /* the first is none */
    int n_displacements;
    size_t displacement_capacity;
    ls_layout layout;
    ls_dtype dtype, accumulator;
    const char *strategy; /* of the attention nodes; "none" when there are none */
    ls_axes in_place; /* along these axes attention reads other ranks' blocks in place; along the others they are put */
    ls_isa isa;
    const char *device;        /* as for ls_device_open; NULL: the environment's */
    ls_kernel_device kernels;  /* the kind of kernels that the device executes */
    ls_kernel_choices choices; /* which rows of kernels are chosen */
    int threads;

    ls_buffer *buffers;
    int n_buffers;
    size_t buffer_capacity;
    bool host_apart; /* the device has its own memory, apart from the host's */
    int host_ranks;  /* the number of consecutive ranks on one host (ls_target) */
    int sharers;     /* least number of ranks of a host that share one copy of common memory; 1: there is none */
    size_t bytes[LS_SPACES]; /* of each arena */
    size_t least[LS_SPACES]; /* largest sum of live bytes: no placement can need less */
    ls_program *programs;
    int n_programs;
    int micro_batches;      /* that one run of a program takes; several if the mesh has stages */
    int slices;             /* consecutive parts of each sequence, which programs run like micro-batches */
    const ls_phase *phases; /* the phase table: programs are proved and run in no other order */
    int n_phases;
    int words;

    ls_binding *bindings;
    int n_bindings;
    size_t binding_capacity;

    ls_mask_binding *masks;
    int n_masks;
    size_t mask_capacity;
    ls_rows_binding *rows;
    int n_rows;
    size_t row_capacity;
    bool tells_masks;     /* some kernel was told the band of keys of its spans, so spans must not change */
    ls_operand positions; /* i32[slices*S]: of all tokens, slice by slice, rank by rank; buffer -1: no attention */

    /*
     * All parameters, in the order of the flat space (compile/packing.c): parameters that are updated element by
     * element, first those that tp cuts; matrices that are updated whole; parameters that are not trained.
     */
    ls_flat *flats;
    int n_flats;
    int64_t flat_elements;        /* of this rank's parts, with padding: the same number on every rank */
    int64_t whole_elements;       /* of whole parameters, as the host has them, with padding */
    int64_t trained_elements;     /* elements before the first parameter that is not trained */
    ls_update_settings *settings; /* one row for all parameters that are updated alike */
    int n_settings;
    const ls_optimizer_state *states; /* of the optimiser, and the average; if a program updates parameters */
    int n_states;
    ls_flat_piece *pieces; /* of the rank at place 0 of `owners`: one piece of each bucket, in order (ls_image_piece) */
    int n_pieces;
    int n_typed_pieces;   /* pieces of parameters in type T, which come first; the others are kept in another type */
    int n_trained_pieces; /* pieces of trained parameters, the first of these */
    int64_t shard_count;
    int64_t trained_shard; /* elements of the trained pieces of a shard */
    ls_team owners;        /* ranks that have the same parts, in the order of their pieces in a bucket */
} ls_image;

void ls_image_destroy(ls_image *image); /* NULL is allowed */

/*
 * A rank's bytes in the memory in which the device computes: those of all arenas, without memory of the host if that is
 * apart. Of common memory the rank's share counts.
 */
size_t ls_image_mapped(const ls_image *image);
/* A rank's share of common memory. */
size_t ls_image_common_share(const ls_image *image);

/* Names that images bind, besides the graph's inputs, parameters, fetched tensors and the optimiser's states. */
#define LS_BIND_TOTALS "step.totals" /* f64[LS_TOTALS]: this rank's part; the host sets [STOP] */
#define LS_BIND_RESULT "step.result" /* f64[LS_TOTALS]: summed over the ranks */
#define LS_BIND_EXACT_LOSS                                                                                     \
    "step.exact_loss"                  /* f64[LS_EXACT_WORDS]: this rank's loss of a step; canonical sums only \
                                        */
#define LS_BIND_HYPER "step.hyper"     /* f64[LS_HYPERS] */
#define LS_BIND_CONTROL "step.control" /* f64[LS_CONTROLS] */
/*
 * Tensors of the flat space: n is flat_elements, or shard_count if they are sharded; m is trained_elements, or
 * trained_shard.
 */
#define LS_BIND_PARAMETERS "parameters"    /* T[n]: values of trained parameters */
#define LS_BIND_FROZEN "parameters.frozen" /* T: values of the others, */
#define LS_BIND_KEPT "parameters.kept"     /* except those that are kept in another type */
#define LS_BIND_GRADIENTS "gradients"      /* G[m]: the sums of a step so far, if they outlive a program */
/*
 * G[trained_shard]: gradients after "step", summed over the ranks that have the same part of a parameter, and over tp
 * if its ranks have different terms. If one rank has all of them, or gradients are sharded, it is the same memory as
 * `gradients`.
 */
#define LS_BIND_SHARD "gradient.shard"
#define LS_BIND_MASTER "optimizer.master"   /* G[m]; only if T is not G (ls_image_master) */
#define LS_BIND_AVERAGE "optimizer.average" /* G[m]; only if parameters have an average */
#define LS_BIND_GROUPS "update.groups"      /* i32[m/LS_FLAT_UNIT]: row of the settings; -1: not updated */
#define LS_BIND_SETTINGS "update.settings"  /* f64[n_settings,2]: ls_update_settings */

/* The tokens of a sequence, all its slices together. */
static inline int64_t ls_image_tokens(const ls_image *image) { return image->layout.S * image->slices; }

/* The binding of that name, or NULL. */
const ls_binding *ls_image_find(const ls_image *image, const char *name);
/*
 * The name of an input, or a fetched tensor, of micro-batch `micro` of a program that runs several
 * (ls_image.micro_batches); slices count like micro-batches, slice by slice: "labels", "labels of micro-batch 1".
 */
enum { LS_MICRO_NAME = 160 };
const char *ls_micro_name(const char *name, int micro, char out[LS_MICRO_NAME]);
/*
 * The binding of a slice of a micro-batch of a step, which may have more micro-batches than a run of a program; or
 * NULL.
 */
const ls_binding *ls_image_find_micro(const ls_image *image, const char *name, int64_t micro_batch, int slice);
/* ls_operand_elements of a bound tensor's local part. Buffer -1 if the name is not bound. */
ls_operand ls_image_elements(const ls_image *image, const char *name, int64_t start, int64_t count);

/* Where a piece of this rank, or part of one, lies in a bound tensor of the flat space; buffer -1: it is not bound. */
ls_operand ls_image_part(const ls_image *image, const char *name, const ls_flat_piece *part);
/* The name of the bound tensor in which the values of the parameter lie. */
const char *ls_flat_values(const ls_image *image, const ls_flat *flat);
/*
 * The masters (of type G) of a part of a trained parameter; if it is not trained, or T is G, the parameter itself. The
 * job must update parameters.
 */
ls_operand ls_image_master(const ls_image *image, const ls_flat_piece *part);
/* The index, in the flat space or in the shard, of the first element of a bound tensor of the flat space. */
int64_t ls_binding_base(const ls_image *image, const ls_binding *binding);
/* The rank's piece of bucket k: its shard has one of each bucket, in order. */
ls_flat_piece ls_image_piece(const ls_image *image, int k, int rank);
/*
 * What a rank holds of bucket k in a bound tensor of the flat space (its piece, or the whole bucket), and where in the
 * tensor (`at`); count 0: nothing.
 */
ls_flat_piece ls_image_held(const ls_image *image, const ls_binding *binding, int k, int rank);
/* The part of the piece in elements [start, start+count) of the flat space (such as a parameter); count 0: none. */
ls_flat_piece ls_piece_within(const ls_flat_piece *piece, int64_t start, int64_t count);

/* Whether the operand does not exist or has no elements. */
static inline bool ls_operand_is_empty(const ls_operand *operand) {
    return operand->buffer < 0 || ls_view_elements(&operand->view) == 0;
}
/* The bytes of its elements; 0 if there is no operand. */
static inline double ls_operand_bytes(const ls_operand *operand) {
    return operand->buffer < 0 ? 0 : (double)ls_view_bytes(&operand->view);
}
/* The number of contiguous pieces of its bytes; 1: it is contiguous. */
double ls_operand_pieces(const ls_operand *operand);
/* The rank that is this peer of `rank`. */
int ls_peer_rank(const ls_image *image, ls_peer peer, int rank);
/* Bytes by which the operand is displaced on a rank. */
size_t ls_operand_displacement(const ls_image *image, const ls_operand *operand, int rank);
/* Bytes of an operand, on a rank, as one range of its arena. */
ls_range ls_operand_range(const ls_image *image, const ls_operand *operand, int rank);
/* The same bytes in the heap of another rank. */
ls_operand ls_operand_of_peer(ls_operand operand, ls_peer peer);
/* A part of an operand: elements [start, start+count) of dimension dim. */
ls_operand ls_operand_slice(ls_operand operand, int dim, int64_t start, int64_t count);
/* Elements [start, start+count) of a dense operand, in the order of memory, as one dimension. */
ls_operand ls_operand_elements(ls_operand operand, int64_t start, int64_t count);
/* The same bytes, dense, under another shape or as part of a buffer. */
ls_operand ls_operand_dense(int buffer, size_t offset, ls_dtype dtype, int ndim, const int64_t *size);
/*
 * What a kernel gets for an input that the node lacks: the first ndim - 1 sizes of `like`, and a last dimension of size
 * 0.
 */
ls_operand ls_operand_nothing(ls_operand like, ls_dtype dtype, int ndim);

/*
 * The bytes of an operand on every rank of a class at once: the bytes at place 0 of its teams, and their displacement.
 * Two extents are compared for all ranks of the class.
 */
typedef struct ls_extent {
    ls_range range;
    int displacement;
} ls_extent;
/* start: offset of the operand's buffer. */
ls_extent ls_operand_extent(const ls_operand *operand, size_t start);
/* The end of the extent on the rank on which it ends last. */
size_t ls_extent_end(const ls_image *image, const ls_extent *extent);
/* Whether the extents have a byte in common on some rank; true if this is not known. */
bool ls_extents_meet(const ls_image *image, const ls_extent *a, const ls_extent *b);
/* Whether each byte of `part` is in `whole` on every rank; false if this is not known. */
bool ls_extent_covers(const ls_image *image, const ls_extent *whole, const ls_extent *part);

/* What a run of a program moves and computes on a rank. */
typedef struct ls_program_cost {
    double flops;
    double bytes_sent; /* to other ranks */
    double bytes_read; /* of other ranks, read in place */
    int transfers;     /* puts to other ranks */
    int kernels;
} ls_program_cost;
ls_program_cost ls_program_measure(const ls_image *image, int program);

/*
 * A hash of what must be the same on every rank: the mesh, the layout, the names of the programs and where their signal
 * words begin. Ranks compare the hash before they prepare programs. The two ends of a channel compare themselves what
 * they must agree on (address.h).
 */
uint64_t ls_image_frame(const ls_image *image);

/* Prints the page that `explain` shows for one program, as the rank runs it. */
void ls_program_print(const ls_image *image, int program, int rank, FILE *out);
const char *ls_queue_name(int queue); /* "compute", "copy", "link" */
const char *ls_buffer_kind_name(ls_buffer_kind kind);

#endif
