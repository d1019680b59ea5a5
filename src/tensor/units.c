/* Shares of a dimension of heads, features or words. */
#include "tensor/tensor.h"

int64_t ls_units_fewest(const ls_dim_units *dim) {
    int64_t fewest = dim->segment[0].units;
    for (int s = 1; s < dim->n; s++) fewest = ls_min(fewest, dim->segment[s].units);
    return fewest;
}

static int64_t count_in(const ls_dim_units *dim, int s, int parts, int part) {
    const int64_t units = dim->segment[s].units;
    return (ls_part_start(units, parts, part + 1) - ls_part_start(units, parts, part)) * dim->segment[s].elements;
}

int64_t ls_units_count(const ls_dim_units *dim, int parts, int part) {
    int64_t count = 0;
    for (int s = 0; s < dim->n; s++) count += count_in(dim, s, parts, part);
    return count;
}

int64_t ls_units_most(const ls_dim_units *dim, int parts) {
    int64_t most = 0;
    for (int part = 0; part < parts; part++) most = ls_max(most, ls_units_count(dim, parts, part));
    return most;
}

int64_t ls_units_place(const ls_dim_units *dim, int parts, int part, int64_t at, int64_t *follow) {
    int64_t start = 0; /* of the segment */
    for (int s = 0; s < dim->n; s++) {
        const int64_t count = count_in(dim, s, parts, part);
        if (at < count) {
            *follow = count - at;
            return start + ls_part_start(dim->segment[s].units, parts, part) * dim->segment[s].elements + at;
        }
        at -= count;
        start += dim->segment[s].units * dim->segment[s].elements;
    }
    *follow = 0;
    return start;
}
