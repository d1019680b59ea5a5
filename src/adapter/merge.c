/* Merging: the weights of a model plus what its adapter adds to them. */
#include "adapter/adapter_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * W[i][k] += scaling · Σ_r left[i][r] · right[r][k], where W is as it lies in memory. left and right are B and A or, if
 * W is [from, to] or a table, Aᵀ and Bᵀ. factor: DoRA's factors of rows or, if W is [from, to], of columns; NULL: none.
 */
typedef struct change {
    const ls_adapted *module; /* NULL: no module has been read */
    double *left, *right, *factor;
} change;

typedef struct merging {
    const ls_adapter *a;
    const ls_image *image;
    ls_weight_source with;
    change now; /* of the module that was read last */
    double squares;
} merging;

static void forget(change *c) {
    free(c->left);
    free(c->right);
    free(c->factor);
    *c = (change){.module = NULL};
}

/* Reads all elements of a part of a module; *out becomes NULL on failure. */
static ls_status read_part(const merging *m, const ls_adapted *module, ls_adapter_part part, double **out) {
    const ls_flat *flat = ls_adapter_flat(m->image, module, ls_adapter_endings[part]);
    LS_ASSERT(flat != NULL);
    const int64_t count = ls_shape_elements(&flat->shape);
    *out = malloc(sizeof **out * (size_t)count);
    if (*out == NULL) return ls_error(LS_NO_MEMORY, "no memory for %s", flat->name);
    return m->with.read(m->with.context, flat, 0, count, *out);
}

/* Transposes: [rows, columns] becomes [columns, rows]. */
static ls_status turn(double **x, int64_t rows, int64_t columns) {
    double *turned = malloc(sizeof *turned * (size_t)(rows * columns));
    if (turned == NULL) return ls_error(LS_NO_MEMORY, "no memory to merge an adapter");
    for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < columns; k++) turned[k * rows + i] = (*x)[i * columns + k];
    free(*x);
    *x = turned;
    return ls_ok();
}

/* Adds the change to elements [start, start + count) of a matrix with this number of columns. */
static void add(const change *c, int64_t columns, int64_t start, int64_t count, double *out) {
    const int64_t r = c->module->r;
    for (int64_t at = start; at < start + count;) {
        const int64_t row = at / columns, column = at % columns, n = ls_min(columns - column, start + count - at);
        double *x = out + (at - start);
        for (int64_t j = 0; j < r; j++) {
            const double *right = c->right + j * columns + column;
            const double by = c->module->scaling * c->left[row * r + j];
            for (int64_t k = 0; k < n; k++) x[k] += by * right[k];
        }
        at += n;
    }
}

/* Finds DoRA's factors of rows (or columns): m divided by their lengths. */
static ls_status find_factors(const merging *m, change *c, const ls_flat *w) {
    const int64_t rows = w->shape.dim[0].size, columns = w->shape.dim[1].size;
    const int64_t lengths = c->module->transposed ? columns : rows;
    double *row = malloc(sizeof *row * (size_t)columns), *squares = calloc((size_t)lengths, sizeof *squares);
    ls_status status = row != NULL && squares != NULL ? read_part(m, c->module, LS_ADAPTER_MAGNITUDE, &c->factor)
                                                      : ls_error(LS_NO_MEMORY, "no memory to merge %s", w->name);
    for (int64_t i = 0; i < rows && status.code == LS_OK; i++) {
        status = m->with.read(m->with.context, w, i * columns, columns, row);
        if (status.code == LS_OK) add(c, columns, i * columns, columns, row);
        for (int64_t k = 0; k < columns && status.code == LS_OK; k++)
            squares[c->module->transposed ? k : i] += row[k] * row[k];
    }
    for (int64_t i = 0; i < lengths && status.code == LS_OK; i++) c->factor[i] /= sqrt(squares[i]);
    free(row);
    free(squares);
    return status;
}

static ls_status prepare(merging *m, const ls_adapted *module, const ls_flat *w) {
    change *c = &m->now;
    if (c->module == module) return ls_ok();
    const int64_t rows = w->shape.dim[0].size, columns = w->shape.dim[1].size, r = module->r;
    const bool turned = module->transposed || module->table;
    forget(c);
    c->module = module;
    double **const a = turned ? &c->left : &c->right, **const b = turned ? &c->right : &c->left;
    ls_status status = read_part(m, module, module->table ? LS_ADAPTER_TABLE_A : LS_ADAPTER_A, a);
    if (status.code == LS_OK) status = read_part(m, module, module->table ? LS_ADAPTER_TABLE_B : LS_ADAPTER_B, b);
    if (status.code == LS_OK && turned) status = turn(&c->left, r, rows);
    if (status.code == LS_OK && turned) status = turn(&c->right, columns, r);
    if (status.code == LS_OK && m->a->dora) status = find_factors(m, c, w);
    if (status.code != LS_OK) forget(c);
    return status;
}

static ls_status read_merged(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    merging *m = context;
    const ls_adapted *module = ls_adapter_of(m->a, flat->name);
    LS_TRY(m->with.read(m->with.context, flat, start, count, out));
    m->squares = 0;
    if (module == NULL) return ls_ok();
    LS_TRY(prepare(m, module, flat));
    const int64_t columns = flat->shape.dim[1].size;
    double *before = malloc(sizeof *before * (size_t)count);
    if (before == NULL) return ls_error(LS_NO_MEMORY, "no memory to merge %s", flat->name);
    memcpy(before, out, sizeof *before * (size_t)count);
    add(&m->now, columns, start, count, out);
    for (int64_t i = 0; i < count; i++) {
        const int64_t row = (start + i) / columns, column = (start + i) % columns;
        if (m->now.factor != NULL) out[i] *= m->now.factor[module->transposed ? column : row];
        m->squares += (out[i] - before[i]) * (out[i] - before[i]);
    }
    free(before);
    return ls_ok();
}

static int64_t bytes_read(void *context) {
    const merging *m = context;
    return m->with.bytes_read != NULL ? m->with.bytes_read(m->with.context) : 0;
}

static void close_merging(void *context) {
    merging *m = context;
    forget(&m->now);
    ls_weights_close(&m->with);
    free(m);
}

ls_status ls_adapter_merged(const ls_adapter *a, const ls_image *image, const ls_weight_source *with,
                            ls_weight_source *out) {
    merging *m = calloc(1, sizeof *m);
    if (m == NULL) {
        ls_weight_source mine = *with;
        ls_weights_close(&mine);
        return ls_error(LS_NO_MEMORY, "no memory to merge an adapter");
    }
    *m = (merging){.a = a, .image = image, .with = *with};
    *out = (ls_weight_source){.read = read_merged,
                              .context = m,
                              .bytes_read = bytes_read,
                              .left_out = with->left_out,
                              .close = close_merging};
    return ls_ok();
}

bool ls_adapter_merged_change(const ls_weight_source *merged, const ls_flat *flat, double *squares) {
    const merging *m = merged->context;
    *squares = m->squares;
    return ls_adapter_of(m->a, flat->name) != NULL;
}
