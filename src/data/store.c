#include "data/data_impl.h"
#include "data/shard.h"

#include <stdlib.h>

ls_store ls_store_empty(int32_t vocabulary) { return (ls_store){.width = ls_token_width(vocabulary)}; }

static ls_status reserve(ls_store *store, int64_t n) {
    if (n <= store->capacity - store->count) return ls_ok();
    int64_t wanted = ls_max(ls_max(2 * store->capacity, store->count + n), 1 << 20);
    void *grown = realloc(store->data, (size_t)wanted * (size_t)store->width);
    if (!grown)
        return ls_error(LS_NO_MEMORY, "no memory for %lld tokens of %d bytes", (long long)wanted,
                        store->width);
    store->data = grown;
    store->capacity = wanted;
    return ls_ok();
}

ls_status ls_store_append(ls_store *store, const int32_t *ids, int64_t n) {
    if (n == 0) return ls_ok(); /* of an empty store there may be no data yet */
    LS_TRY(reserve(store, n));
    if (store->width == 1) {
        uint8_t *to = (uint8_t *)store->data + store->count;
        for (int64_t i = 0; i < n; i++) to[i] = (uint8_t)ids[i];
    } else if (store->width == 2) {
        uint16_t *to = (uint16_t *)store->data + store->count;
        for (int64_t i = 0; i < n; i++) to[i] = (uint16_t)ids[i];
    } else {
        int32_t *to = (int32_t *)store->data + store->count;
        for (int64_t i = 0; i < n; i++) to[i] = ids[i];
    }
    store->count += n;
    return ls_ok();
}

void ls_store_read(const ls_store *store, int64_t first, int64_t n, int32_t *out) {
    LS_ASSERT(first >= 0 && n >= 0 && first <= store->count - n);
    ls_tokens_widen(store->data, store->width, first, n, out);
}

void ls_store_free(ls_store *store) {
    free(store->data);
    *store = (ls_store){0};
}
