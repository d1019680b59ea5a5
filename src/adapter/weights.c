/* The source of the parameters of a model with an adapter. */
#include "adapter/adapter_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The initial values of a new adapter, whose magnitudes follow from the weights of the model. */
typedef struct fresh {
    const ls_adapter *a;
    const ls_image *image;
    uint64_t seed;
    ls_weight_source base;
} fresh;

/* Writes initial values of a part of a module's adapter: elements [start, start + count). */
typedef ls_status (*begin)(const fresh *f, const ls_adapted *m, const ls_flat *flat, int64_t start, int64_t count,
                           double *out);

static ls_status uniform(const fresh *f, const ls_adapted *m, const ls_flat *flat, int64_t start, int64_t count,
                         double *out) {
    const double bound = 1 / sqrt((double)flat->shape.dim[1].size);
    const uint64_t stream = ls_rng_stream(flat->name);
    (void)m;
    for (int64_t i = 0; i < count; i++)
        out[i] = bound * (2 * ls_rng_uniform(f->seed, stream, (uint64_t)(start + i)) - 1);
    return ls_ok();
}

static ls_status normal(const fresh *f, const ls_adapted *m, const ls_flat *flat, int64_t start, int64_t count,
                        double *out) {
    const uint64_t stream = ls_rng_stream(flat->name);
    (void)m;
    for (int64_t i = 0; i < count; i++) out[i] = ls_rng_normal(f->seed, stream, (uint64_t)(start + i));
    return ls_ok();
}

static ls_status zero(const fresh *f, const ls_adapted *m, const ls_flat *flat, int64_t start, int64_t count,
                      double *out) {
    (void)f, (void)m, (void)flat, (void)start;
    for (int64_t i = 0; i < count; i++) out[i] = 0;
    return ls_ok();
}

/* Finds the lengths of the rows of W, or of its columns if W is transposed. */
static ls_status lengths(const fresh *f, const ls_adapted *m, const ls_flat *flat, int64_t start, int64_t count,
                         double *out) {
    (void)flat;
    const ls_flat *w = ls_adapter_flat(f->image, m, ".weight");
    LS_ASSERT(w != NULL);
    const int64_t row = w->shape.dim[1].size * ls_dtype_values(w->dtype), rows = w->shape.dim[0].size;
    double *values = malloc(sizeof *values * (size_t)row);
    ls_status status = values != NULL ? ls_ok() : ls_error(LS_NO_MEMORY, "no memory for a row of %s", w->name);
    for (int64_t i = 0; i < count; i++) out[i] = 0;
    const int64_t first = m->transposed ? 0 : start, n = m->transposed ? rows : count;
    for (int64_t i = first; i < first + n && status.code == LS_OK; i++) {
        status = f->base.read(f->base.context, w, i * row, row, values);
        for (int64_t k = 0; k < row && status.code == LS_OK && !m->transposed; k++)
            out[i - start] += values[k] * values[k];
        for (int64_t k = 0; k < count && status.code == LS_OK && m->transposed; k++)
            out[k] += values[start + k] * values[start + k];
    }
    free(values);
    for (int64_t i = 0; i < count; i++) out[i] = sqrt(out[i]);
    return status;
}

static const begin begins[LS_ADAPTER_PARTS] = {[LS_ADAPTER_A] = uniform,
                                               [LS_ADAPTER_B] = zero,
                                               [LS_ADAPTER_TABLE_A] = zero,
                                               [LS_ADAPTER_TABLE_B] = normal,
                                               [LS_ADAPTER_MAGNITUDE] = lengths};

/* Finds the module and the part that a parameter belongs to. */
static const ls_adapted *find(const ls_adapter *a, const char *name, int *part) {
    for (int i = 0; i < a->n_modules; i++) {
        const size_t n = strlen(a->modules[i].name);
        if (strncmp(name, a->modules[i].name, n) != 0) continue;
        for (*part = 0; *part < LS_ADAPTER_PARTS; ++*part)
            if (strcmp(name + n, ls_adapter_endings[*part]) == 0) return &a->modules[i];
    }
    return NULL;
}

static ls_status read_fresh(void *context, const ls_flat *flat, int64_t start, int64_t count, double *out) {
    const fresh *f = context;
    int part = 0;
    const ls_adapted *m = find(f->a, flat->name, &part);
    LS_ASSERT(m != NULL);
    return begins[part](f, m, flat, start, count, out);
}

static bool is_added(const ls_flat *flat) { return flat->added; }

static ls_status open_fresh(const ls_adapter *a, const ls_image *image, uint64_t seed, const ls_weight_source *base,
                            ls_weight_source *out) {
    fresh *f = malloc(sizeof *f);
    if (f == NULL) return ls_error(LS_NO_MEMORY, "no memory for a source of weights");
    *f = (fresh){a, image, seed, *base};
    *out = (ls_weight_source){.read = read_fresh, .context = f, .close = free};
    return ls_ok();
}

ls_status ls_adapter_weights(const ls_adapter *a, const ls_image *image, uint64_t seed, const ls_weight_source *base,
                             ls_weight_source *out) {
    ls_weight_source own = {.context = NULL};
    const ls_status status = a->is_new ? open_fresh(a, image, seed, base, &own)
                                       : ls_weights_open_file(ls_st_path(a->file), image, &ls_adapter_files, &own);
    if (status.code != LS_OK) {
        ls_weight_source mine = *base;
        ls_weights_close(&mine);
        return status;
    }
    return ls_weights_compose(base, &own, a->is_new ? is_added : ls_adapter_has, out);
}
