#include "base/base.h"

enum { FIRST_HEADS = 64 };

static void link_item(ls_index *index, int item) {
    LS_ASSERT(index->heads > 0);
    int *head = &index->head[index->hash[item] % index->heads];
    index->next[item] = *head;
    *head = item;
}

/* Rehashes into more heads when there are many items, so that the lists stay short. */
static void grow(ls_index *index) {
    index->heads = index->heads == 0 ? FIRST_HEADS : 2 * index->heads;
    index->head = LS_NEW_ARRAY(index->arena, int, index->heads);
    for (size_t h = 0; h < index->heads; h++) index->head[h] = -1;
    for (int i = 0; i < index->n; i++) link_item(index, i);
}

void ls_index_add(ls_index *index, uint64_t hash) {
    if ((size_t)index->n == index->heads) grow(index);
    int n = index->n;
    *LS_PUSH(index->arena, index->next, n, index->capacity) = -1;
    *LS_PUSH(index->arena, index->hash, index->n, index->room) = hash;
    link_item(index, index->n - 1);
}

/* The first item with that hash in the list that begins at `item`; -1: there is none. */
static int find(const ls_index *index, int item, uint64_t hash) {
    while (item >= 0 && index->hash[item] != hash) item = index->next[item];
    return item;
}

int ls_index_first(const ls_index *index, uint64_t hash) {
    return index->n == 0 ? -1 : find(index, index->head[hash % index->heads], hash);
}

int ls_index_next(const ls_index *index, int item) { return find(index, index->next[item], index->hash[item]); }
