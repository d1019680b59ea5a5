/*
 * Images: what a rank executes. A flat list of instructions over four arenas: private memory, its part of the
 * symmetric heap, which peers access, memory of the host, where something waits until it is used again, and what ranks
 * of a host have in common. One meaning, several readers: run executes it, explain prints it, plan reads its bytes.
 *
 * Ranks whose programs read the same share one image: they are a class. An image names no rank. Peers are given by a
 * team and a distance, and where an offset depends on the rank, the operand says how (ls_displacement).
 *
 * The list, executed one after the other, each put done before the next instruction starts, would be right. Each
 * instruction stands on a queue, and `after` names, for other queues, the last instruction that must have been executed
 * before it starts (a queue keeps its own order), and for any queue the last put that must be done, so queues may run
 * concurrently, and puts while what follows them runs. At the end of a run all its puts are done. Queues are orders,
 * not threads. A cursor (cursor.h) goes through a program.
 *
 * Programs of two classes need not be alike. What one says of a channel's use, the class at the other end says, too;
 * who has nothing to send says nothing. Where a slot or a block lies in the heap is its rank's own business: the other
 * end of the channel is told when programs are prepared (address.h).
 */
#ifndef LS_PROGRAM_IMAGE_H
#define LS_PROGRAM_IMAGE_H

#include <stdio.h>

#include "base/base.h"
#include "kernel/kernel.h"
#include "tensor/tensor.h"

/*
 * LS_HOST: memory of the host beside that of the device, which only the kernels offload and fetch access. On a device
 * without memory of its own it lies in the same memory as the others.
 * LS_COMMON: values of parameters that no program changes, which ranks of a host have once for all of them (common.h).
 */
typedef enum ls_space { LS_PRIVATE, LS_SYMMETRIC, LS_HOST, LS_COMMON, LS_SPACES } ls_space;
typedef struct ls_space_text {
    const char *name, *title; /* "private", "private memory" */
} ls_space_text;
extern const ls_space_text ls_space_texts[LS_SPACES];
/* Whether every rank has it; of the others a rank may have nothing. */
static inline bool ls_space_is_usual(ls_space space) { return space == LS_PRIVATE || space == LS_SYMMETRIC; }

typedef enum ls_buffer_kind {
    LS_BUFFER_INPUT,      /* written by the host: tokens, labels, step parameters */
    LS_BUFFER_TABLE,      /* written by the host once: positions, mask spans, settings of the update */
    LS_BUFFER_PARAMETER,  /* weights in the working type */
    LS_BUFFER_GRADIENT,   /* sums of gradients */
    LS_BUFFER_OPTIMIZER,  /* this rank's part of the optimiser's state */
    LS_BUFFER_OUTPUT,     /* read by the host */
    LS_BUFFER_ACTIVATION, /* lives within a program */
    LS_BUFFER_SLOT,       /* where peers put */
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
    int first, last; /* instructions of that program between which its bytes are live (inclusive); where another buffer
                        takes them over in place, the last is the one before */
    int64_t flat;    /* of parameters or gradients that follow each other as in the flat space: where they begin there;
                        -1: it holds anything else */
} ls_buffer;

/*
 * A rank relative to the one that executes the program: so many places further in a team of the image. Zeroed: the rank
 * itself.
 */
typedef struct ls_peer {
    int team;  /* index into ls_image.teams */
    int shift; /* 0 < shift < the team's size */
} ls_peer;

static inline bool ls_peer_is_self(ls_peer peer) { return peer.shift == 0; }
static inline bool ls_peer_equal(ls_peer a, ls_peer b) { return a.team == b.team && a.shift == b.shift; }

/*
 * Bytes that an operand lies further on a rank: the sum of the terms, each the place in a team of the rank that stands
 * `shift` places further, times `bytes`. The place is less than the team's size also when the shift passes the last
 * place.
 */
enum { LS_DISPLACEMENT_TERMS = LS_TEAM_DIGITS };
typedef struct ls_displacement {
    int n;
    struct {
        int team, shift;
        size_t bytes;
    } term[LS_DISPLACEMENT_TERMS];
    size_t most; /* on any rank: all terms at the last place */
} ls_displacement;

/* What an instruction touches: a view whose first element lies `offset` bytes, and a displacement, into the buffer. */
typedef struct ls_operand {
    int buffer;       /* index into ls_image.buffers; -1: none */
    int displacement; /* index into ls_image.displacements; 0: none */
    ls_peer peer;     /* the rank whose bytes these are; another one's are read in place: in a borrowed block, which
                         lies where its owner says (address.h) */
    size_t offset;    /* bytes */
    ls_view view;     /* data is NULL: addresses exist only in a run */
    uint64_t value;   /* name of what must be there (name.h); 0: it is not read */
} ls_operand;

/*
 * When a word is set: (slot, node, step), the first one first. slot: its place in a table of what ranks do one after
 * the other; 0 where all do the same. node: its place among the nodes of the program. step: its place in what the
 * node's lowering says to other ranks, which counts also what this rank leaves out because it would carry nothing. So
 * both ends of a channel know it, and it rises along every list and everything that must come after it: no rank sets a
 * word after an await of a later one.
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
    LS_INSTR_ACQUIRE, /* sender: until its peer has granted the slot */
    LS_INSTR_PUT,     /* sender: in[0] to the peer's slot, which lies where the peer receives it and has the form of
                         out[0]; done when in[0] may be overwritten. With in[1] as many rows of it as that says */
    LS_INSTR_RECEIVE, /* receiver: until the slot out[0] is filled */
    LS_INSTR_LEASE,   /* owner: the peer may read the block in[0] where it lies */
    LS_INSTR_BORROW,  /* reader: until the peer's block out[0] may be read */
    LS_INSTR_RETURN,  /* reader: the peer's block out[0] has been read */
    LS_INSTR_RECLAIM, /* owner: until its block in[0] has been returned */
    LS_INSTR_KINDS
} ls_instr_kind;

/*
 * The queues that the compiler uses; a program says how many it has. What is copied between memory of the device and
 * that of the host stands on the link's.
 */
typedef enum ls_queue { LS_COMPUTE, LS_COPY, LS_LINK, LS_QUEUES } ls_queue;

/*
 * What an instruction comes after. Everything on that queue up to and including an instruction has been executed; done:
 * and all its puts up to there are done, which means that the bytes they read may be overwritten.
 */
typedef struct ls_after {
    int queue; /* done: any queue, also its own; else another one */
    int instr;
    bool done;
} ls_after;

typedef struct ls_instr {
    ls_instr_kind kind;
    int queue;
    const char *op; /* what to call it: the op's or kernel's name */
    int n_in, n_out;
    ls_operand *in, *out;    /* n_in and n_out of them in the image's arena; a copied instruction shares them */
    const ls_kernel *kernel; /* of LS_INSTR_KERNEL */
    const void *params;
    const ls_operand *workspace; /* buffer -1: none */
    double flops;
    double rows;         /* of attention: queries of heads that see a key at all */
    size_t counted;      /* of a put of rows whose number is known when it runs, and of the receive: bytes of a row. So
                            many of them travel as the put's in[1], an i32, then says, at most all of in[0], for which the
                            slot has room. 0: all of in[0] does */
    double likely;       /* of such a put: the bytes that it is timed by */
    ls_peer peer;        /* of all kinds but kernels */
    int channel;         /* index into ls_program.channels */
    uint64_t generation; /* of this use within one run of the program: 1, 2, ... */
    ls_epoch epoch;      /* of what sets a word; of an await, that of what sets the word that it awaits */
    int n_after;
    ls_after *after;   /* n_after of them in the image's arena, at most one of each sort for each queue */
    int number;        /* in emission order; kept when instructions are moved */
    uint64_t transfer; /* of what says "data is there" and the wait for it: name of the payload (name.h); else 0 */
    /*
     * Of a receive from another stage of a pipeline, whose timetable says when it comes: in nominal seconds, so long
     * after this rank has nothing else to do; less than 0: before.
     */
    bool timed;
    double behind;
} ls_instr;

/*
 * One transfer seen from both sides: a word that says "data is there" at the receiver and one that says "free" at the
 * sender. Either the payload is put into a slot of the receiver:
 *   receiver  GRANT sets "free"    sender    ACQUIRE awaits it
 *   sender    PUT sets "data"      receiver  RECEIVE awaits it
 * or it is read where it lies; the reader's operands say `peer`:
 *   owner     LEASE sets "data"    reader    BORROW awaits it, then instructions read the block
 *   reader    RETURN sets "free"   owner     RECLAIM awaits it, then the block may be overwritten
 * A channel has the same index at both its ends. A rank may have both, towards two others, and each end counts its own
 * uses.
 */
typedef enum ls_channel_side { LS_SIDE_RECEIVES, LS_SIDE_SENDS, LS_SIDES } ls_channel_side;
typedef struct ls_channel {
    const char *name;
    uint64_t uses[LS_SIDES]; /* transfers in one run of the program, 0: this rank does not have that end; run r adds
                                r*uses to every generation there */
} ls_channel;

/* What lies in a persistent buffer while no program runs. */
typedef enum ls_kept_state {
    LS_STATE_ZERO, /* zeros */
    LS_STATE_SUM,  /* what has been added so far */
    LS_STATE_SET,  /* values: the host's, or a program's result */
    LS_STATES
} ls_kept_state;

/*
 * The effect of a program on a persistent buffer: with it go the state that it needs and the one that it leaves
 * (states.h).
 */
typedef enum ls_effect {
    LS_EFFECT_NONE,   /* it does not access it */
    LS_EFFECT_READ,   /* it reads it */
    LS_EFFECT_MAKE,   /* it writes it, whatever lay there */
    LS_EFFECT_CHANGE, /* it reads it, and leaves other values */
    LS_EFFECT_ADD,    /* it adds to zeros or to a sum */
    LS_EFFECT_TAKE,   /* it adds to zeros or to a sum, uses the sum, and leaves zeros */
    LS_EFFECT_FINISH, /* it adds to zeros or to a sum, and leaves other values in its place */
    LS_EFFECTS
} ls_effect;

/* What a program declares of a persistent buffer. */
typedef struct ls_kept {
    ls_effect effect;
    uint64_t left; /* name of what it leaves there (name.h) */
} ls_kept;

/* A pass of the compiler over the nodes of a program, and how many it has put there. */
typedef struct ls_program_pass {
    const char *name, *about;
    int nodes;
} ls_program_pass;

typedef struct ls_program {
    const char *name;
    ls_program_pass *passes; /* in their order */
    int n_passes;
    int queues;
    int n_nodes;   /* of the graph that it runs */
    int runs;      /* so often a step runs it, by which plans are costed and timed, or other work of which the job says
                      so; 0: it is no part of that. The image's programs of a step follow one another */
    ls_kept *kept; /* by buffer; of those that persist */
    ls_instr *instrs;
    int n_instrs;
    size_t instr_capacity;
    ls_channel *channels;
    int n_channels;
    size_t channel_capacity;
    int n_common;             /* the first channels, which ranks of all stages of a pipeline have */
    int first_word, own_word; /* channel c of these owns words first_word + 2c (data) and + 2c + 1 (free), and channel
                                 n_common + c words own_word + 2c and + 2c + 1 */
} ls_program;

/* The sums that program `to` of a row adds to (ls_effect_sums), between the two programs. */
typedef enum ls_phase_sums {
    LS_PHASE_ZERO,    /* they are zero, and the host does nothing */
    LS_PHASE_CLEARED, /* the host sets them to zero */
    LS_PHASE_GOES_ON  /* they may have been begun: `to` goes on with them, unless the host clears them */
} ls_phase_sums;

/*
 * A row of the phase table: program `to` may follow program `from` (LS_FIRST: it may be the first). What the host
 * writes in between: the inputs at every row; parameters, the optimiser's state and tables before the first program;
 * and sums as `sums` says.
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
    int slice;                /* of the sequence (ls_image.slices), whose tokens it has */
    ls_axes cut[LS_MAX_DIMS]; /* axes that cut the dimension: this rank holds a part */
    ls_axes partial;          /* axes over whose ranks it is a sum: this rank holds a term */
    ls_axes alone;            /* axes along which one rank alone has it: the one of its stage of a pipeline */
    bool elsewhere;           /* that is not this rank: the operand has no buffer */
    /* Of the flat space of parameters: this rank holds its pieces, one after the other; else all of it. */
    bool sharded;
    bool flat;       /* of the flat space of parameters; the host has it as whole parameters */
    int first, past; /* of the flat space: it has buckets first .. past-1 alone */
} ls_binding;

/* A mask of the graph, whose spans for a block of queries the host writes. */
typedef struct ls_mask_binding {
    ls_mask mask;                     /* ends are the image's own copy */
    int micro;                        /* the micro-batch that has it; 0 where all have the same spans */
    int slice, keys;                  /* of the sequence: that of the queries, and that of the keys that they meet */
    int64_t query_start, query_count; /* the block: a run of positions[] */
    ls_operand spans;                 /* i32[B,query_count,2*width]; the same for all `keys` */
} ls_mask_binding;

/*
 * Which rows of a table a rank has: the first, and how many. The host writes it, so that ranks with other rows run the
 * same program.
 */
typedef struct ls_rows_binding {
    ls_dim_units units; /* of the rows */
    ls_axes axes;       /* along which ranks have different ones */
    bool all;           /* of each rank along them, in order: i32[ranks,2]; else of this rank: i32[2] */
    ls_operand rows;
} ls_rows_binding;

/*
 * A parameter's place in the flat space of all parameters (elements). Those that are trained come first. Where axes of
 * heads and features cut it, the flat space of a rank has its part alone, in the order of memory (parts.h).
 */
typedef struct ls_flat {
    const char *name;
    ls_shape shape;       /* whole */
    int number;           /* its place among the tensors of a file: the same on every mesh */
    int64_t start, count; /* of this rank's part */
    int64_t whole_start;  /* where it begins among whole parameters, as the host has them */
    int64_t whole_count;
    ls_axes cut;        /* axes along which ranks have different parts; 0: all have all of it */
    int cut_dim;        /* the dimension of which they have parts */
    ls_dim_units units; /* of that dimension */
    ls_axes summed;     /* axes of heads and features over which gradients in the shards are summed, too */
    ls_dtype dtype;     /* of its values */
    bool elsewhere;     /* ranks of another stage of a pipeline have it: count is 0 */
    bool trained;       /* else it has neither gradient nor master nor any state: its values are all there is of it */
    bool borrowed;      /* its values stay those of the model's files: checkpoints do not have it */
    bool added;         /* it is an adapter's: the model's files do not have it */
    int group;   /* the row of ls_image.settings that it is updated with; -1: it is frozen, or nothing is updated */
    bool matrix; /* the optimiser updates it as a whole matrix, not element by element */
} ls_flat;

/* A run of the flat space. */
typedef struct ls_flat_piece {
    int64_t start, count; /* in the flat space */
    int64_t at;           /* in the shard of the rank that owns it */
} ls_flat_piece;

/* What an optimiser keeps for each element of a rank's shard, in the type of sums. */
typedef struct ls_optimizer_state {
    const char *binding; /* the host finds it by this name */
    const char *saved;   /* in checkpoints it stands before the name of a parameter */
    bool not_matrices;   /* parameters that are updated as whole matrices do without: those before them alone have it */
} ls_optimizer_state;

static inline bool ls_flat_has(const ls_flat *flat, const ls_optimizer_state *state) {
    return flat->trained && (!flat->matrix || !state->not_matrices);
}

/* The programs of a class of ranks, and the memory that they share. */
typedef struct ls_image {
    ls_arena *arena;
    ls_mesh mesh;
    ls_team *teams; /* the first is the rank alone */
    int n_teams;
    size_t team_capacity;
    ls_displacement *displacements; /* the first is none */
    int n_displacements;
    size_t displacement_capacity;
    ls_layout layout;
    ls_dtype dtype, accumulator;
    const char *strategy; /* of the attention nodes; "none" when there are none */
    ls_axes in_place;     /* along these attention reads other ranks' blocks where they lie; else they are put */
    ls_isa isa;
    const char *device;        /* as for ls_device_open; NULL: the environment's */
    ls_kernel_device kernels;  /* what that executes */
    ls_kernel_choices choices; /* of rows of these */
    int threads;

    ls_buffer *buffers;
    int n_buffers;
    size_t buffer_capacity;
    bool host_apart;         /* the device has memory of its own, so that of the host is apart from it */
    int host_ranks;          /* so many ranks, one after the other, lie on one host (ls_target) */
    int sharers;             /* ranks of each host that have their common memory once, at least; 1: there is none */
    size_t bytes[LS_SPACES]; /* of each arena */
    size_t least[LS_SPACES]; /* largest sum of live bytes: no placement could need less */
    ls_program *programs;
    int n_programs;
    int micro_batches;      /* that each program runs; several where the mesh has stages */
    int slices;             /* parts of each sequence, one after the other, which programs run like micro-batches */
    const ls_phase *phases; /* the phase table: no other order of programs is proved, or run */
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
    bool tells_masks; /* some kernel was told what its spans come to, so they may not change */
    ls_operand
        positions; /* i32[slices*S]: of all tokens, slice after slice, rank after rank; buffer -1: no attention */

    /*
     * All parameters, in the order of the flat space (compile/packing.c): those that are updated element by element, of
     * these first what tp cuts; matrices that are updated whole; those that are not trained.
     */
    ls_flat *flats;
    int n_flats;
    int64_t flat_elements;        /* of this rank's parts, with padding: as many on every rank */
    int64_t whole_elements;       /* of whole parameters, as the host has them, with padding */
    int64_t trained_elements;     /* of flat_elements, those before the first parameter that is not trained */
    ls_update_settings *settings; /* of each group of parameters that are updated alike */
    int n_settings;
    const ls_optimizer_state *states; /* of the optimiser, and an average, where a program updates parameters */
    int n_states;
    ls_flat_piece *pieces; /* of the rank at place 0 of `owners`: one piece of each bucket, in order (ls_image_piece) */
    int n_pieces;
    int n_typed_pieces;   /* those of parameters in type T, which come first; the others are kept in another type */
    int n_trained_pieces; /* the first of them */
    int64_t shard_count;
    int64_t trained_shard; /* of a shard, the elements of the first pieces */
    ls_team owners; /* the ranks that have the same parts, in the order in which they own the pieces of a bucket */
} ls_image;

void ls_image_destroy(ls_image *image); /* NULL is allowed */

/*
 * A rank's bytes of the arenas that lie where the device computes: all, or all but that of the host where that is
 * apart. Of common memory its share counts.
 */
size_t ls_image_mapped(const ls_image *image);
/* Of common memory the share of a rank. */
size_t ls_image_common_share(const ls_image *image);

/* Names that images bind, beside the graph's inputs, parameters, fetched tensors and the optimiser's states. */
#define LS_BIND_TOTALS "step.totals" /* f64[LS_TOTALS]: this rank's part in, the host sets [STOP] */
#define LS_BIND_RESULT "step.result" /* f64[LS_TOTALS]: summed over the ranks */
#define LS_BIND_EXACT_LOSS                                                                                     \
    "step.exact_loss"                  /* f64[LS_EXACT_WORDS]: this rank's loss of a step; canonical sums only \
                                        */
#define LS_BIND_HYPER "step.hyper"     /* f64[LS_HYPERS] */
#define LS_BIND_CONTROL "step.control" /* f64[LS_CONTROLS] */
/*
 * Tensors of the flat space: n is flat_elements, or shard_count where they are sharded; m is trained_elements, or
 * trained_shard.
 */
#define LS_BIND_PARAMETERS "parameters"    /* T[n]: of those that are trained */
#define LS_BIND_FROZEN "parameters.frozen" /* T: of the others, */
#define LS_BIND_KEPT "parameters.kept"     /* but for those that are kept in another type */
#define LS_BIND_GRADIENTS "gradients"      /* G[m]: the sums of a step so far; where they outlive a program */
/*
 * G[trained_shard]: after step, summed over the ranks that have the same part of a parameter, and over tp where its
 * ranks have different terms. Where one rank has all of it, or gradients are sharded, it lies where `gradients` does.
 */
#define LS_BIND_SHARD "gradient.shard"
#define LS_BIND_MASTER "optimizer.master"   /* G[m]; only where T is not G (ls_image_master) */
#define LS_BIND_AVERAGE "optimizer.average" /* G[m]; only where parameters have an average */
#define LS_BIND_GROUPS "update.groups"      /* i32[m/LS_FLAT_UNIT]: row of the settings, or -1 */
#define LS_BIND_SETTINGS "update.settings"  /* f64[n_settings,2]: ls_update_settings */

/* Tokens of a sequence, of all its slices. */
static inline int64_t ls_image_tokens(const ls_image *image) { return image->layout.S * image->slices; }

/* The binding of that name, or NULL. */
const ls_binding *ls_image_find(const ls_image *image, const char *name);
/*
 * By what name the host finds an input, or what it fetches, of micro-batch `micro` of a program that runs several
 * (ls_image.micro_batches), or of a slice of one, slice after slice: "labels", "labels of micro-batch 1".
 */
enum { LS_MICRO_NAME = 160 };
const char *ls_micro_name(const char *name, int micro, char out[LS_MICRO_NAME]);
/* The same of a slice of a micro-batch of a step, which may have more of these than a program runs; or NULL. */
const ls_binding *ls_image_find_micro(const ls_image *image, const char *name, int64_t micro_batch, int slice);
/* ls_operand_elements of a bound tensor's local part. Buffer -1 if the name is not bound. */
ls_operand ls_image_elements(const ls_image *image, const char *name, int64_t start, int64_t count);

/* Where a piece of this rank, or part of one, lies in a bound tensor of the flat space; buffer -1: it is not bound. */
ls_operand ls_image_part(const ls_image *image, const char *name, const ls_flat_piece *part);
/* The bound tensor in which the values of the parameter lie. */
const char *ls_flat_values(const ls_image *image, const ls_flat *flat);
/*
 * The masters of a part of a parameter: of type G, where it is trained; else, and where T is G, the parameter itself.
 * The job updates parameters.
 */
ls_operand ls_image_master(const ls_image *image, const ls_flat_piece *part);
/* The element of the flat space, or of the shard, with which a bound tensor of the flat space begins. */
int64_t ls_binding_base(const ls_image *image, const ls_binding *binding);
/* The rank's piece of bucket k: its shard has one of each bucket, in order. */
ls_flat_piece ls_image_piece(const ls_image *image, int k, int rank);
/*
 * Of bucket k what a rank holds in a bound tensor of the flat space, and where in it (`at`): its piece, or the bucket;
 * count 0: the tensor has nothing of it.
 */
ls_flat_piece ls_image_held(const ls_image *image, const ls_binding *binding, int k, int rank);
/*
 * The part of the piece that lies in elements [start, start+count) of the flat space (a parameter, say); count 0: none.
 */
ls_flat_piece ls_piece_within(const ls_flat_piece *piece, int64_t start, int64_t count);

/* Whether there is none, or it has no elements. */
static inline bool ls_operand_is_empty(const ls_operand *operand) {
    return operand->buffer < 0 || ls_view_elements(&operand->view) == 0;
}
/* Of its elements; 0 when there is none. */
static inline double ls_operand_bytes(const ls_operand *operand) {
    return operand->buffer < 0 ? 0 : (double)ls_view_bytes(&operand->view);
}
/* In how many places its bytes lie: 1 where they are next to each other. */
double ls_operand_pieces(const ls_operand *operand);
/* The rank that a peer of this rank is. */
int ls_peer_rank(const ls_image *image, ls_peer peer, int rank);
/* Bytes by which the operand is displaced on a rank. */
size_t ls_operand_displacement(const ls_image *image, const ls_operand *operand, int rank);
/* Bytes of an operand, on a rank, as one range of its arena. */
ls_range ls_operand_range(const ls_image *image, const ls_operand *operand, int rank);
/* The same bytes in the heap of another rank. */
ls_operand ls_operand_of_peer(ls_operand operand, ls_peer peer);
/* The part of an operand: elements [start, start+count) of dimension dim. */
ls_operand ls_operand_slice(ls_operand operand, int dim, int64_t start, int64_t count);
/* Elements [start, start+count) of a dense operand, in the order of memory, as one dimension. */
ls_operand ls_operand_elements(ls_operand operand, int64_t start, int64_t count);
/* The same bytes, dense, under another shape or as part of a buffer. */
ls_operand ls_operand_dense(int buffer, size_t offset, ls_dtype dtype, int ndim, const int64_t *size);
/* What a kernel gets for an input that a node lacks: the first ndim - 1 sizes of `like`, and 0 elements of each. */
ls_operand ls_operand_nothing(ls_operand like, ls_dtype dtype, int ndim);

/*
 * The bytes of an operand on every rank of a class at once: those at place 0 of its teams, and how they are displaced.
 * Bytes of two extents are compared for all ranks: what holds here holds for each of them.
 */
typedef struct ls_extent {
    ls_range range;
    int displacement;
} ls_extent;
/* start: of the operand's buffer. */
ls_extent ls_operand_extent(const ls_operand *operand, size_t start);
/* The end of its bytes on the rank where they end last. */
size_t ls_extent_end(const ls_image *image, const ls_extent *extent);
/* Whether on some rank they have a byte in common; true where that is not known. */
bool ls_extents_meet(const ls_image *image, const ls_extent *a, const ls_extent *b);
/* Whether on every rank each byte of `part` is one of `whole`; false where that is not known. */
bool ls_extent_covers(const ls_image *image, const ls_extent *whole, const ls_extent *part);

/* What a run of the program moves and computes on a rank. */
typedef struct ls_program_cost {
    double flops;
    double bytes_sent; /* to other ranks */
    double bytes_read; /* of other ranks, in place */
    int transfers;     /* puts to other ranks */
    int kernels;
} ls_program_cost;
ls_program_cost ls_program_measure(const ls_image *image, int program);

/*
 * A hash of what must be the same on every rank: the mesh, the layout, the names of the programs and where their signal
 * words begin. Ranks compare it before they prepare programs. What two ends of a channel must agree on, they compare
 * themselves (address.h).
 */
uint64_t ls_image_frame(const ls_image *image);

/* The page that `explain` shows for one program, as the rank runs it. */
void ls_program_print(const ls_image *image, int program, int rank, FILE *out);
const char *ls_queue_name(int queue); /* "compute", "copy", "link" */
const char *ls_buffer_kind_name(ls_buffer_kind kind);

#endif
