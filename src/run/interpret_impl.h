/* The interpreter's inside, shared by its files: memory in units, queues, transfers. */
#ifndef LS_INTERPRET_IMPL_H
#define LS_INTERPRET_IMPL_H

#include "run/interpret.h"

#define LS_POISON UINT64_MAX

/* An operand as units of its arena, in the order of its elements. */
typedef struct ls_units {
    ls_space space;
    int n;
    bool outside; /* some lay outside of the arena and are left out */
    uint32_t *at;
} ls_units;

/* One instruction, ready to be interpreted. */
typedef struct ls_interpreted {
    ls_units in[LS_KERNEL_INPUTS], out[LS_KERNEL_OUTPUTS], workspace;
} ls_interpreted;

/* One rank's memory. */
typedef struct ls_hashes {
    const ls_image *image;
    size_t unit; /* bytes */
    size_t n[LS_SPACES];
    uint64_t *value[LS_SPACES];
} ls_hashes;

/* The largest unit for all these images, in bytes. */
size_t ls_hashes_unit(const ls_image *const *images, int ranks);
void ls_hashes_create(ls_hashes *store, const ls_image *image, size_t unit, ls_arena *arena);

ls_units ls_hashes_units(const ls_hashes *store, const ls_operand *operand, ls_arena *arena);

/* Everything as before the first program; and the host's inputs of run `run`. */
void ls_hashes_reset(ls_hashes *store);
void ls_hashes_set_inputs(ls_hashes *store, uint64_t run);

/* A hash of what lies there, never 0, with `hash` before it; *poison is set when some is poison. */
uint64_t ls_hashes_read(const ls_hashes *store, const ls_units *units, uint64_t hash, bool *poison);
/* Writes the value of that hash: each unit its own. */
void ls_hashes_write(ls_hashes *store, const ls_units *units, uint64_t hash);
void ls_hashes_poison(ls_hashes *store, const ls_units *units);
/* A hash of everything that persists. */
uint64_t ls_hashes_left(const ls_hashes *store);

uint64_t ls_hash_mix(uint64_t hash, uint64_t value);

enum { LS_MOST_PIECES = 4, LS_CLASSES = 3 };

/* What can move: each queue of each rank, and what each rank has sent. */
enum { LS_NETWORK = LS_QUEUES, LS_ACTORS };

/* A put or signal under way. */
typedef struct ls_put_under_way {
    struct ls_put_under_way *next; /* later ones of this rank */
    int peer, queue;
    const ls_units *from, *to;    /* NULL: a signal alone */
    int piece[LS_MOST_PIECES][2]; /* from, to: units; in the order in which they will arrive */
    int n, delivered;
    uint64_t sum; /* of what was read */
    size_t read;  /* where it is noted */
    int word;
    uint64_t generation;
} ls_put_under_way;

typedef struct ls_interpreted_queue {
    int *instrs; /* of the present program, in order */
    int n, next, done;
    bool running;   /* a kernel has begun */
    uint64_t found; /* what it read then */
} ls_interpreted_queue;

typedef struct ls_interpreted_rank {
    const ls_image *image;
    ls_hashes store;
    ls_interpreted *instrs[LS_PROGRAMS];
    int sequence[LS_SEQUENCE]; /* of programs */
    int stages, stage;
    uint64_t runs[LS_PROGRAMS];
    ls_interpreted_queue queue[LS_QUEUES];
    uint64_t *words;
    ls_put_under_way *puts;
    int class[LS_ACTORS]; /* of a lower class moves only when nothing of a higher one can */
} ls_interpreted_rank;

struct ls_interpreter {
    ls_arena *arena;
    int ranks;
    ls_interpreted_rank *rank;
    size_t span, n_reads;
    uint64_t *reads;
    ls_put_under_way *free_puts;
    uint64_t seed, draws;
    bool strict;                   /* classes are kept without exception */
    ls_interpreter_result outcome; /* so far */
};

/* interpret.c: a random number below; and what an instruction of the rank's present program means. */
uint64_t ls_interpreter_draw(ls_interpreter *in, uint64_t below);
const ls_program *ls_interpreted_program(const ls_interpreted_rank *r);
uint64_t ls_interpreted_generation(const ls_interpreted_rank *r, const ls_instr *instr);
int ls_interpreted_word(const ls_program *p, const ls_instr *instr);
size_t ls_interpreter_read_index(const ls_interpreter *in, int rank, int number); /* into reads */

/* interpret_network.c: a put or signal begins; something that the rank has sent moves on (false: nothing is under way);
 * the payloads of this queue's puts arrive. */
void ls_network_send(ls_interpreter *in, int rank, int queue, const ls_instr *instr,
                     const ls_interpreted *units);
bool ls_network_move(ls_interpreter *in, int rank);
void ls_network_quiet(ls_interpreter *in, int rank, int queue);
/* Forgets what is under way. */
void ls_network_clear(ls_interpreter *in, int rank);

#endif
