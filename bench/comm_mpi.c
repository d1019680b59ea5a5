/*
 * A put with a signal, as `longspan bench comm` measures it, beside Open MPI and MPICH: messages, one-sided puts, and a
 * window of shared memory (bench/peers/comm_mpi.c). Each end has its own processor, and the receiver of bytes reads
 * them.
 *
 *   comm_mpi          one JSON object per size. LS_ROUNDS=N overrides the number of rounds
 *
 * In each round every method is measured once, one after the other; the figures are medians over the rounds. For 8
 * bytes the figure is nanoseconds one way; for more it is the bytes divided by the time until they have arrived, are
 * read, and are answered. put and in_place are Longspan's. floor: a bare flag, and a plain copy with such a flag, as in
 * `bench comm`. An MPI that is not installed is left out, and the reason is printed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/bench/trip.h"
#include "cli/cli.h"
#include "format/format.h"
#include "format/json.h"

enum { SIZES = LS_COUNT(ls_trip_sizes), WAYS = 3, MOST_ROUNDS = 32 };

static const char *const way_names[WAYS] = {"send", "put", "shared"};

typedef struct mpi {
    const char *name;    /* by which Debian distinguishes them: mpicc.NAME, mpiexec.NAME */
    const char *package; /* there */
} mpi;

static const mpi mpis[] = {{"openmpi", "libopenmpi-dev openmpi-bin"}, {"mpich", "libmpich-dev mpich"}};

/* One column of the table. */
typedef struct column {
    double figure[SIZES][MOST_ROUNDS];
} column;

typedef struct table {
    int rounds;
    column floor, put, in_place, ways[LS_COUNT(mpis)][WAYS];
    char program[LS_COUNT(mpis)][4096]; /* empty: this MPI is left out */
} table;

/* --- Longspan ----------------------------------------------------------------------------------------------------- */

/* A row is for one size and kind; the latency is that of the put of the smallest size. */
static ls_status take_row(ls_json_value row, table *t, int round) {
    const char *what;
    int64_t bytes;
    double floor, figure;
    LS_TRY(ls_json_text(row, "what", &what));
    LS_TRY(ls_json_int(row, "bytes", 1, INT64_MAX, &bytes));
    LS_TRY(ls_json_double(row, "floor", 0, 1e18, &floor));
    LS_TRY(ls_json_double(row, "figure", 0, 1e18, &figure));
    const bool in_place = strcmp(what, "in place") == 0;
    for (size_t i = 0; i < SIZES; i++) {
        if ((int64_t)ls_trip_sizes[i] != bytes) continue;
        (in_place ? &t->in_place : &t->put)->figure[i][round] = figure;
        if (!in_place) t->floor.figure[i][round] = floor;
    }
    return ls_ok();
}

static ls_status take_rows(const char *text, size_t length, table *t, int round) {
    ls_json *document;
    LS_TRY(ls_json_parse("bench comm", text, length, &document));
    ls_json_value list;
    ls_status status = ls_json_array(ls_json_root(document), "rows", &list);
    for (size_t i = 0, n = status.code == LS_OK ? ls_json_count(list) : 0; i < n && status.code == LS_OK; i++)
        status = take_row(ls_json_item(list, i), t, round);
    ls_json_free(document);
    return status;
}

static ls_status run_longspan(table *t, int round) {
    const ls_bench_job job = {.name = "comm", .json = true, .options = {.rounds = 3}};
    char *text = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&text, &length);
    if (out == NULL) return ls_error(LS_NO_MEMORY, "no memory for what bench comm says");
    ls_status status = ls_run_bench(&job, out);
    fclose(out);
    if (status.code == LS_OK) status = take_rows(text, length, t, round);
    free(text);
    return status;
}

/* --- MPI ---------------------------------------------------------------------------------------------------------- */

/* A figure in the unit of bench comm. */
static double figure_of(size_t size, int64_t bytes, double seconds) {
    return size == 0 ? seconds / 2 * 1e9 : (double)bytes * 1e-9 / seconds;
}

static void take_line(const char *line, table *t, size_t who, int round) {
    char name[16];
    long long bytes;
    double seconds;
    if (sscanf(line, "said %15s %lld %lf", name, &bytes, &seconds) != 3) return;
    for (size_t i = 0; i < SIZES; i++)
        for (int w = 0; w < WAYS; w++)
            if ((int64_t)ls_trip_sizes[i] == bytes && strcmp(name, way_names[w]) == 0)
                t->ways[who][w].figure[i][round] = figure_of(i, bytes, seconds);
}

static ls_status run_mpi(table *t, size_t who, int round) {
    char command[sizeof t->program[who] + 64], line[256];
    snprintf(command, sizeof command, "mpiexec.%s -n 2 '%s'", mpis[who].name, t->program[who]);
    FILE *pipe = popen(command, "r");
    if (pipe == NULL) return ls_error(LS_IO, "cannot start %s", command);
    while (fgets(line, sizeof line, pipe) != NULL) take_line(line, t, who, round);
    const int code = pclose(pipe);
    return code == 0 ? ls_ok() : ls_error(LS_IO, "%s ended with %d", command, code);
}

/* Finds the MPIs: if CMake found an MPI's compiler, its program lies in peers/ beside this one. */
static void find_mpis(const char *self, table *t) {
    const char *slash = strrchr(self, '/');
    const int folder = slash == NULL ? 0 : (int)(slash - self) + 1;
    for (size_t who = 0; who < LS_COUNT(mpis); who++) {
        char *program = t->program[who];
        snprintf(program, sizeof t->program[who], "%.*speers/comm_%s", folder, self, mpis[who].name);
        if (access(program, X_OK) == 0) continue;
        program[0] = '\0';
        fprintf(stderr, "%s: left out, CMake found no mpicc.%s (on Debian: apt-get install %s, then cmake)\n",
                mpis[who].name, mpis[who].name, mpis[who].package);
    }
    /* By default Open MPI refuses to run as root, and binds ranks itself. */
    setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 0);
    setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 0);
    setenv("OMPI_MCA_hwloc_base_binding_policy", "none", 0);
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void print_field(const char *name, const column *c, size_t size, int rounds) {
    double figure[MOST_ROUNDS];
    memcpy(figure, c->figure[size], sizeof figure);
    printf(", \"%s\": %.*f", name, size == 0 ? 0 : 2, ls_median(figure, rounds));
}

static void print_row(const table *t, size_t size) {
    printf("{\"bytes\": %zu, \"unit\": \"%s\"", ls_trip_sizes[size], size == 0 ? "ns" : "GB/s");
    print_field("floor", &t->floor, size, t->rounds);
    print_field("put", &t->put, size, t->rounds);
    if (size > 0)
        print_field("in_place", &t->in_place, size, t->rounds);
    else
        printf(", \"in_place\": \"-\"");
    for (size_t who = 0; who < LS_COUNT(mpis); who++) {
        for (int w = 0; w < WAYS && t->program[who][0] != '\0'; w++) {
            char name[32];
            snprintf(name, sizeof name, "%s_%s", mpis[who].name, way_names[w]);
            print_field(name, &t->ways[who][w], size, t->rounds);
        }
    }
    printf("}\n");
}

static ls_status measure(table *t) {
    for (int round = 0; round < t->rounds; round++) {
        LS_TRY(run_longspan(t, round));
        for (size_t who = 0; who < LS_COUNT(mpis); who++)
            if (t->program[who][0] != '\0') LS_TRY(run_mpi(t, who, round));
    }
    return ls_ok();
}

int main(int argc, char **argv) {
    static table t;
    (void)argc;
    const char *wanted = getenv("LS_ROUNDS");
    const int rounds = wanted != NULL ? atoi(wanted) : 5;
    t.rounds = rounds < 1 ? 1 : rounds > MOST_ROUNDS ? MOST_ROUNDS : rounds;
    find_mpis(argv[0], &t);
    const ls_status status = measure(&t);
    if (status.code != LS_OK) {
        fprintf(stderr, "%s\n", status.text);
        return 1;
    }
    for (size_t i = 0; i < SIZES; i++) print_row(&t, i);
    return 0;
}
