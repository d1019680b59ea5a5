/* A recorded training as a file for trace viewers. */
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The threads that a viewer shows for a rank. The queues come first, with their own numbers. */
enum { TRACK_PROGRAM = LS_QUEUES, TRACK_ASLEEP, TRACKS };
static const char *const track_names[TRACKS] = {"compute", "copy", "link", "program", "asleep"};
static const int track_order[TRACKS] = {1, 2, 3, 0, 4}; /* sort key of each track */

typedef struct tracing {
    const ls_rank *rank;
    double base; /* time of the clock that becomes 0 in the file */
    ls_json_writer *writer;
} tracing;

size_t ls_trace_spans(const ls_image *image, int program, int64_t runs) {
    /* One span for each instruction and for the program, and about one sleep per instruction. */
    return program >= 0 ? (size_t)runs * (2 * (size_t)image->programs[program].n_instrs + 1) : 0;
}

enum { THREADS = 10 }; /* thread ids reserved for each rank */

/* --- events ------------------------------------------------------------------------------------------------------- */

static double microseconds(const tracing *t, double seconds) { return (seconds - t->base) * 1e6; }

static void open_event(const tracing *t, const char *phase, const char *name, int track) {
    ls_json_open_object(t->writer, NULL);
    ls_json_put_text(t->writer, "ph", phase);
    ls_json_put_text(t->writer, "name", name);
    /* Viewers reserve process 0 and thread 0 for the idle task, and expect thread ids that differ between processes. */
    ls_json_put_int(t->writer, "pid", t->rank->rank + 1);
    ls_json_put_int(t->writer, "tid", (t->rank->rank + 1) * THREADS + track);
}

/* Gives the process or a thread its name or, if text is NULL, its position in the order. */
static void put_label(const tracing *t, const char *label, int track, const char *text, int order) {
    open_event(t, "M", label, track);
    ls_json_open_object(t->writer, "args");
    if (text != NULL)
        ls_json_put_text(t->writer, "name", text);
    else
        ls_json_put_int(t->writer, "sort_index", order);
    ls_json_close(t->writer);
    ls_json_close(t->writer);
}

/* Whether the track has any span; only few programs have a link. */
static bool is_used(const tracing *t, int track) {
    bool used = track != LS_LINK;
    for (int p = 0; p < t->rank->image->n_programs; p++) used |= t->rank->image->programs[p].queues > track;
    return used;
}

static void put_labels(const tracing *t) {
    char name[32];
    snprintf(name, sizeof name, "rank %d", t->rank->rank);
    put_label(t, "process_name", 0, name, 0);
    put_label(t, "process_sort_index", 0, NULL, t->rank->rank);
    for (int i = 0; i < TRACKS; i++) {
        if (!is_used(t, i)) continue;
        put_label(t, "thread_name", i, track_names[i], 0);
        put_label(t, "thread_sort_index", i, NULL, track_order[i]);
    }
}

/*
 * The id of a transfer or signal, equal on both sides. It has 53 bits, so that it is exact for readers that use
 * doubles.
 */
static int64_t arrow_number(const ls_instr *instr, const ls_span_time *span, int from, int to, uint64_t generation) {
    const uint64_t word = (uint64_t)instr->channel * 2 + ls_traits(instr)->free;
    const uint64_t key[] = {(uint64_t)span->program, (uint64_t)from, (uint64_t)to, word, generation};
    return (int64_t)(ls_hash_bytes(key, sizeof key) >> 11);
}

static void put_arrow(const tracing *t, const ls_instr *instr, const ls_span_time *span, uint64_t generation) {
    const bool arrives = ls_traits(instr)->awaits;
    const int me = t->rank->rank, peer = ls_peer_rank(t->rank->image, instr->peer, me);
    open_event(t, arrives ? "f" : "s", "signal", instr->queue);
    ls_json_put_text(t->writer, "cat", "signal");
    if (arrives) ls_json_put_text(t->writer, "bp", "e");
    ls_json_put_int(t->writer, "id", arrow_number(instr, span, arrives ? peer : me, arrives ? me : peer, generation));
    /* An arrow must begin and end within a span: at the beginning of the put, just before the end of the wait. */
    const double at = arrives ? fmax(span->begin, span->end - 1e-7) : span->begin;
    ls_json_put_double(t->writer, "ts", microseconds(t, at));
    ls_json_close(t->writer);
}

static void open_span(const tracing *t, const char *name, const char *category, int track, const ls_span_time *span) {
    open_event(t, "X", name, track);
    ls_json_put_text(t->writer, "cat", category);
    ls_json_put_double(t->writer, "ts", microseconds(t, span->begin));
    ls_json_put_double(t->writer, "dur", (span->end - span->begin) * 1e6);
    ls_json_open_object(t->writer, "args");
    ls_json_put_text(t->writer, "program", t->rank->image->programs[span->program].name);
    ls_json_put_int(t->writer, "run", (int64_t)span->run);
}

static void close_span(const tracing *t) {
    ls_json_close(t->writer);
    ls_json_close(t->writer);
}

static void put_instr(const tracing *t, const ls_span_time *span) {
    const ls_program *p = &t->rank->image->programs[span->program];
    const ls_instr *instr = &p->instrs[span->instr];
    const char *channel = instr->channel >= 0 ? p->channels[instr->channel].name : NULL;
    char name[160];
    snprintf(name, sizeof name, "%s%s%s %d", instr->op, channel != NULL ? " " : "", channel != NULL ? channel : "",
             span->instr);
    open_span(t, name, ls_traits(instr)->name, instr->queue, span);
    ls_json_put_text(t->writer, "op", instr->op);
    ls_json_put_int(t->writer, "instruction", span->instr);
    if (instr->flops > 0) {
        ls_json_put_double(t->writer, "flops", instr->flops);
        ls_json_put_double(t->writer, "gflops_per_second", instr->flops * 1e-9 / fmax(span->end - span->begin, 1e-9));
    }
    const uint64_t generation = channel == NULL ? 0 : ls_instr_generation(p, instr, span->run);
    if (channel != NULL) {
        ls_json_put_int(t->writer, "peer", ls_peer_rank(t->rank->image, instr->peer, t->rank->rank));
        ls_json_put_int(t->writer, "generation", (int64_t)generation);
    }
    if (instr->kind == LS_INSTR_PUT) {
        const ls_range range = ls_operand_range(t->rank->image, &instr->in[0], t->rank->rank);
        ls_json_put_int(t->writer, "bytes", (int64_t)ls_range_bytes(&range));
    }
    close_span(t);
    if (channel != NULL) put_arrow(t, instr, span, generation);
}

static void put_span(const tracing *t, const ls_span_time *span) {
    if (span->instr >= 0) {
        put_instr(t, span);
    } else if (span->instr == LS_SPAN_ASLEEP) {
        open_span(t, "asleep", "wait", TRACK_ASLEEP, span);
        close_span(t);
    } else {
        char name[64];
        snprintf(name, sizeof name, "%s %llu", t->rank->image->programs[span->program].name,
                 (unsigned long long)span->run);
        open_span(t, name, "program", TRACK_PROGRAM, span);
        close_span(t);
    }
}

/* --- files -------------------------------------------------------------------------------------------------------- */

static ls_status part_path(const char *path, int rank, char **out) {
    return ls_path_print(out, "%s.rank-%d", path, rank);
}

/* Writes the events of this rank, without the brackets of their array. */
static ls_status write_part(const ls_rank *rank, const char *path, double base) {
    LS_PATH part = NULL;
    LS_TRY(part_path(path, rank->rank, &part));
    const tracing t = {rank, base, ls_json_writer_create(0)};
    ls_json_open_array(t.writer, NULL);
    put_labels(&t);
    for (size_t i = 0, n = ls_executor_spans(rank->executor); i < n; i++)
        put_span(&t, ls_executor_span(rank->executor, i));
    ls_json_close(t.writer);
    size_t bytes;
    const char *text = ls_json_written(t.writer, &bytes);
    const ls_status status = ls_file_write(part, text + 1, bytes - 2);
    ls_json_writer_destroy(t.writer);
    return status;
}

static ls_status join_pieces(const char *path, int ranks, ls_file_map *maps, ls_file_piece *pieces) {
    static const char begin[] = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [\n", between[] = ",\n",
                      end[] = "\n]}\n";
    LS_PATH part = NULL;
    for (int r = 0; r < ranks; r++) {
        LS_TRY(part_path(path, r, &part));
        LS_TRY(ls_file_map_open(part, &maps[r]));
        pieces[2 * r] =
            r == 0 ? (ls_file_piece){begin, sizeof begin - 1} : (ls_file_piece){between, sizeof between - 1};
        pieces[2 * r + 1] = (ls_file_piece){maps[r].data, maps[r].bytes};
    }
    pieces[2 * ranks] = (ls_file_piece){end, sizeof end - 1};
    return ls_file_write_pieces(path, pieces, 2 * ranks + 1);
}

static ls_status join_parts(const char *path, int ranks) {
    ls_file_map *maps = calloc((size_t)ranks, sizeof *maps);
    ls_file_piece *pieces = calloc(2 * (size_t)ranks + 1, sizeof *pieces);
    ls_status status = maps == NULL || pieces == NULL ? ls_error(LS_NO_MEMORY, "no memory to join %s", path)
                                                      : join_pieces(path, ranks, maps, pieces);
    for (int r = 0; maps != NULL && r < ranks; r++) ls_file_map_close(&maps[r]);
    free(maps);
    free(pieces);
    return status;
}

static void keep_earlier(void *into, const void *from, size_t bytes) {
    if (*(const double *)from < *(double *)into) memcpy(into, from, bytes);
}

/* *out: the earliest beginning of a span on any rank. Collective. */
static ls_status find_base(const ls_rank *rank, double *out) {
    double first = INFINITY;
    for (size_t i = 0, n = ls_executor_spans(rank->executor); i < n; i++)
        first = fmin(first, ls_executor_span(rank->executor, i)->begin);
    LS_TRY(ls_comm_reduce(rank->comm, &first, sizeof first, keep_earlier));
    *out = first;
    return ls_ok();
}

static ls_status try_part(const ls_rank *rank, const char *path) {
    LS_PATH part = NULL;
    LS_TRY(part_path(path, rank->rank, &part));
    return ls_file_try(part);
}

ls_status ls_trace_try(const ls_rank *rank, const char *path) {
    return ls_comm_agree(rank->comm, try_part(rank, path));
}

ls_status ls_trace_write(const ls_rank *rank, const char *path) {
    double base = 0;
    LS_PATH part = NULL;
    LS_TRY(find_base(rank, &base));
    LS_TRY(ls_comm_agree(rank->comm, write_part(rank, path, base)));
    ls_status status = rank->rank == 0 ? join_parts(path, rank->ranks) : ls_ok();
    status = ls_comm_agree(rank->comm, status); /* a part must not be removed before it is joined */
    if (part_path(path, rank->rank, &part).code == LS_OK) (void)unlink(part);
    return status;
}
