/* A column of a row group: reads its pages one after the other, and the entries (levels and values) of each page. */
#include "parquet/parquet_impl.h"

#include <stdlib.h>
#include <string.h>

/* ---- headers of pages ---- */

enum { DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_2 };
enum { PLAIN = 0, PLAIN_DICTIONARY = 2, RLE = 3 };

typedef struct page_data {
    bool there;
    int64_t values, encoding, def_encoding, rep_encoding;
} page_data;

typedef struct page_dictionary {
    bool there;
    int64_t values, encoding;
} page_dictionary;

typedef struct page_data_2 {
    bool there;
    int64_t values, encoding, def_bytes, rep_bytes, compressed;
} page_data_2;

typedef struct page_header {
    bool there;
    int64_t type, whole, stored; /* bytes, decompressed and in the file */
    page_data data;
    page_dictionary dictionary;
    page_data_2 data_2;
} page_header;

#define FIELDS(type, fields) \
    { sizeof(type), fields, LS_COUNT(fields) }
static const thrift_field data_fields[] = {{1, THRIFT_INT, offsetof(page_data, values), NULL},
                                           {2, THRIFT_INT, offsetof(page_data, encoding), NULL},
                                           {3, THRIFT_INT, offsetof(page_data, def_encoding), NULL},
                                           {4, THRIFT_INT, offsetof(page_data, rep_encoding), NULL}};
static const thrift_struct data = FIELDS(page_data, data_fields);
static const thrift_field dictionary_fields[] = {{1, THRIFT_INT, offsetof(page_dictionary, values), NULL},
                                                 {2, THRIFT_INT, offsetof(page_dictionary, encoding), NULL}};
static const thrift_struct dictionary = FIELDS(page_dictionary, dictionary_fields);
static const thrift_field data_2_fields[] = {{1, THRIFT_INT, offsetof(page_data_2, values), NULL},
                                             {4, THRIFT_INT, offsetof(page_data_2, encoding), NULL},
                                             {5, THRIFT_INT, offsetof(page_data_2, def_bytes), NULL},
                                             {6, THRIFT_INT, offsetof(page_data_2, rep_bytes), NULL},
                                             {7, THRIFT_TRUTH, offsetof(page_data_2, compressed), NULL}};
static const thrift_struct data_2 = FIELDS(page_data_2, data_2_fields);
static const thrift_field header_fields[] = {
    {1, THRIFT_INT, offsetof(page_header, type), NULL},
    {2, THRIFT_INT, offsetof(page_header, whole), NULL},
    {3, THRIFT_INT, offsetof(page_header, stored), NULL},
    {5, THRIFT_STRUCT, offsetof(page_header, data), &data},
    {7, THRIFT_STRUCT, offsetof(page_header, dictionary), &dictionary},
    {8, THRIFT_STRUCT, offsetof(page_header, data_2), &data_2},
};
static const thrift_struct header_type = FIELDS(page_header, header_fields);

/* ---- bytes of pages ---- */

/*
 * A page whose size is more than MOST_RATIO times its bytes in the file, plus ALLOWANCE, is refused: the size may be
 * false.
 */
enum { MOST_RATIO = 1024, ALLOWANCE = 16 << 20 };

/* The decompressed bytes of a page, in memory that the caller frees. */
static bool decompress(const parquet_column *c, parquet_bytes in, int64_t room, uint8_t **out, parquet_error *error) {
    if (c->codec->decompress == NULL && c->codec->package == NULL)
        return parquet_fail(error, "is compressed as %s, which is not read", c->codec->name);
    if (c->codec->decompress == NULL)
        return parquet_fail(error, "this build reads no %s; build with %s installed", c->codec->name,
                            c->codec->package);
    if (room > ALLOWANCE + (int64_t)parquet_smaller(in.n, INT32_MAX) * MOST_RATIO)
        return parquet_fail(error, "a page of %zu bytes expands to %lld, expected at most %d times as many", in.n,
                            (long long)room, MOST_RATIO);
    uint8_t *made = malloc((size_t)room + 1);
    if (made == NULL) {
        error->no_memory = true;
        return parquet_fail(error, "no memory for a page of %lld bytes", (long long)room);
    }
    const char *wrong = room > 0 ? c->codec->decompress(in.at, in.n, made, (size_t)room) : NULL;
    if (wrong == NULL) {
        *out = made;
        return true;
    }
    free(made);
    return parquet_fail(error, "a page cannot be decompressed as %s: %.100s", c->codec->name, wrong);
}

/* The bytes of a page, decompressed to `owned`, or where they lie in the file if it is not compressed. */
static bool open_bytes(const parquet_column *c, parquet_bytes in, int64_t room, bool compressed, uint8_t **owned,
                       parquet_bytes *out, parquet_error *error) {
    *out = in;
    if (!compressed || c->codec->name == NULL) {
        if ((uint64_t)room != in.n) return parquet_fail(error, "a page that is not compressed has two different sizes");
        return true;
    }
    if (!decompress(c, in, room, owned, error)) return false;
    *out = (parquet_bytes){*owned, (size_t)room};
    return true;
}

static bool read_header(parquet_column *c, page_header *header, parquet_bytes *body, parquet_error *error) {
    thrift_reader reader = {.at = c->at, .end = c->end};
    if (!thrift_read(&reader, &header_type, header))
        return parquet_fail(error, "the header of a page %s", reader.wrong);
    const size_t room = (size_t)(c->end - reader.at);
    if (header->stored < 0 || (uint64_t)header->stored > room || header->whole < 0 || header->whole > INT32_MAX)
        return parquet_fail(error, "a page has %lld bytes, expected at most %zu", (long long)header->stored, room);
    *body = (parquet_bytes){reader.at, (size_t)header->stored};
    c->at = reader.at + header->stored;
    return true;
}

/* ---- dictionaries ---- */

static void free_dictionary(parquet_dictionary *d) {
    free(d->data);
    free(d->value);
    *d = (parquet_dictionary){0};
}

static bool read_dictionary(parquet_column *c, const page_header *h, parquet_bytes body, parquet_error *error) {
    parquet_bytes bytes;
    parquet_dictionary *d = &c->dictionary;
    const int64_t n = h->dictionary.values, encoding = h->dictionary.encoding;
    parquet_values values = {0};
    if (d->value != NULL || c->leaf->type == PARQUET_BOOLEAN)
        return parquet_fail(error, "has two dictionaries, or one of booleans");
    if (!h->dictionary.there || n < 0 || (encoding != PLAIN && encoding != PLAIN_DICTIONARY))
        return parquet_fail(error, "has a dictionary that is not plain");
    if (!open_bytes(c, body, h->whole, true, &d->data, &bytes, error)) return false;
    if ((uint64_t)n > bytes.n) return parquet_fail(error, "has a dictionary with more values than bytes");
    d->value = malloc(((size_t)n + 1) * sizeof *d->value);
    if (d->value == NULL) {
        error->no_memory = true;
        return parquet_fail(error, "no memory for its dictionary");
    }
    if (!parquet_values_begin(&values, c->leaf, PLAIN, bytes.at, bytes.n, NULL, error)) return false;
    for (; d->n < (size_t)n; d->n++) {
        if (!parquet_values_next(&values, &d->value[d->n], error)) return false;
        /* A boolean is decoded into the reader, so a dictionary cannot refer to it. */
        if (c->leaf->type == PARQUET_BOOLEAN) return parquet_fail(error, "has a dictionary of booleans");
    }
    return true;
}

/* ---- pages of data ---- */

static unsigned width_of(int most) {
    unsigned width = 0;
    while (most >> width > 0) width++;
    return width;
}

/* Takes the levels of a page of version 1, before which their length is stored. */
static bool take_levels(parquet_bytes *page, int most, int64_t encoding, parquet_runs *out, parquet_error *error) {
    uint32_t n;
    *out = parquet_runs_of(page->at, page->at, 0);
    if (most == 0) return true;
    if (encoding != RLE) return parquet_fail(error, "has levels in the encoding BIT_PACKED, which is not read");
    if (page->at == NULL || page->n < sizeof n) return parquet_fail(error, "a page ends inside of its levels");
    memcpy(&n, page->at, sizeof n);
    if (n > page->n - sizeof n) return parquet_fail(error, "a page ends inside of its levels");
    *out = parquet_runs_of(page->at + sizeof n, page->at + sizeof n + n, width_of(most));
    page->at += sizeof n + n;
    page->n -= sizeof n + n;
    return true;
}

static bool begin_data(parquet_column *c, const page_header *h, parquet_bytes body, parquet_error *error) {
    parquet_bytes page = {NULL, 0};
    if (!open_bytes(c, body, h->whole, true, &c->page, &page, error)) return false;
    if (!take_levels(&page, c->leaf->rep, h->data.rep_encoding, &c->rep, error) ||
        !take_levels(&page, c->leaf->def, h->data.def_encoding, &c->def, error))
        return false;
    c->page_left = h->data.values;
    return parquet_values_begin(&c->values, c->leaf, h->data.encoding, page.at, page.n, &c->dictionary, error);
}

/* Begins a page of version 2, in which levels come first and are not compressed. */
static bool begin_data_2(parquet_column *c, const page_header *h, parquet_bytes body, parquet_error *error) {
    const page_data_2 *of = &h->data_2;
    parquet_bytes page;
    if (of->rep_bytes < 0 || of->def_bytes < 0 || (uint64_t)of->rep_bytes > body.n ||
        (uint64_t)of->def_bytes > body.n - (uint64_t)of->rep_bytes || h->whole < of->rep_bytes + of->def_bytes)
        return parquet_fail(error, "a page ends inside of its levels");
    const uint8_t *def = body.at + of->rep_bytes, *rest = def + of->def_bytes;
    const parquet_bytes in = {rest, body.n - (size_t)(rest - body.at)};
    c->rep = parquet_runs_of(body.at, def, width_of(c->leaf->rep));
    c->def = parquet_runs_of(def, rest, width_of(c->leaf->def));
    if (!open_bytes(c, in, h->whole - of->rep_bytes - of->def_bytes, of->compressed != 0, &c->page, &page, error))
        return false;
    c->page_left = of->values;
    return parquet_values_begin(&c->values, c->leaf, of->encoding, page.at, page.n, &c->dictionary, error);
}

static bool begin_page(parquet_column *c, parquet_error *error) {
    page_header header = {0};
    parquet_bytes body = {NULL, 0};
    bool read = true;
    if (c->at == c->end) return parquet_fail(error, "has fewer pages than values");
    if (!read_header(c, &header, &body, error)) return false;
    free(c->page);
    c->page = NULL;
    if (header.type == DICTIONARY_PAGE)
        read = read_dictionary(c, &header, body, error);
    else if (header.type == DATA_PAGE && header.data.there)
        read = begin_data(c, &header, body, error);
    else if (header.type == DATA_PAGE_2 && header.data_2.there)
        read = begin_data_2(c, &header, body, error);
    else if (header.type != INDEX_PAGE)
        return parquet_fail(error, "has a page of type %lld, which is unknown", (long long)header.type);
    if (!read) return false;
    if (c->page_left < 0 || c->page_left > c->left)
        return parquet_fail(error, "a page has %lld entries, expected at most %lld", (long long)c->page_left,
                            (long long)c->left);
    return true;
}

/* ---- entries ---- */

bool parquet_column_begin(parquet_column *c, const parquet_file *file, int number, const parquet_chunk *chunk,
                          parquet_error *error) {
    *c = (parquet_column){.file = file,
                          .leaf = file->leaf[number],
                          .name = file->name[number],
                          .codec = parquet_codec_of(chunk->codec),
                          .at = file->map.data + chunk->from,
                          .end = file->map.data + chunk->from + chunk->bytes,
                          .left = chunk->values};
    error->column = c->name;
    return c->codec != NULL ||
           parquet_fail(error, "is compressed by codec %lld, which is unknown", (long long)chunk->codec);
}

static bool next_level(parquet_runs *runs, int most, int *out, parquet_error *error) {
    uint32_t level = 0;
    if (most > 0 && (!parquet_runs_next(runs, &level) || level > (uint32_t)most))
        return parquet_fail(error, "a page has levels that are damaged");
    *out = (int)level;
    return true;
}

bool parquet_column_peek(parquet_column *c, parquet_error *error) {
    if (c->ready) return true;
    error->column = c->name;
    if (c->left == 0) return parquet_fail(error, "has fewer values than its row group has rows");
    while (c->page_left == 0)
        if (!begin_page(c, error)) return false;
    if (!next_level(&c->rep, c->leaf->rep, &c->entry_rep, error) ||
        !next_level(&c->def, c->leaf->def, &c->entry_def, error))
        return false;
    c->page_left--;
    c->left--;
    c->ready = true;
    return true;
}

bool parquet_column_take(parquet_column *c, parquet_bytes *value, parquet_error *error) {
    error->column = c->name;
    c->ready = false;
    return value == NULL || parquet_values_next(&c->values, value, error);
}

bool parquet_column_ended(const parquet_column *c) { return !c->ready && c->left == 0; }

void parquet_column_end(parquet_column *c) {
    free(c->page);
    free_dictionary(&c->dictionary);
    parquet_values_free(&c->values);
}
