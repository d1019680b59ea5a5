/* The description at the end of a file: its schema as a tree, and where the columns of each row group lie. */
#include "parquet/parquet_impl.h"

#include <stdarg.h>
#include <string.h>

enum { MOST_DEPTH = 64, MAGIC = 4 };

bool parquet_fail(parquet_error *error, const char *format, ...) {
    va_list arguments;
    size_t used = 0;
    if (error->text[0] != 0) return false;
    if (error->column != NULL)
        used = (size_t)snprintf(error->text, sizeof error->text / 2, "column %.60s: ", error->column);
    va_start(arguments, format);
    ls_vprint(error->text + used, sizeof error->text - used, format, arguments);
    va_end(arguments);
    return false;
}

/* ---- the structs of the format ---- */

typedef struct schema_unit {
    bool there;
    struct schema_part {
        bool there;
    } milli, micro, nano;
} schema_unit;

typedef struct schema_logical {
    bool there;
    struct schema_part string, map, list, enumeration, date, json, uuid, half;
    struct schema_decimal {
        bool there;
        int64_t scale;
    } decimal;
    struct schema_time {
        bool there;
        schema_unit unit;
    } time, timestamp;
    struct schema_integer {
        bool there;
        int64_t is_signed;
    } integer;
} schema_logical;

typedef struct schema_element {
    bool there;
    int64_t type, length, repetition, children, converted, scale;
    thrift_text name;
    schema_logical logical;
} schema_element;

typedef struct column_meta {
    bool there;
    int64_t type, codec, values, bytes, data, dictionary;
} column_meta;

typedef struct column_chunk {
    bool there;
    thrift_text path;
    column_meta meta;
} column_chunk;

typedef struct row_group {
    bool there;
    thrift_list columns;
    int64_t rows;
} row_group;

typedef struct file_meta {
    bool there;
    thrift_list schema, groups;
} file_meta;

#define FIELDS(type, fields) \
    { sizeof(type), fields, LS_COUNT(fields) }
static const thrift_struct part = {sizeof(struct schema_part), NULL, 0};
static const thrift_field unit_fields[] = {{1, THRIFT_STRUCT, offsetof(schema_unit, milli), &part},
                                           {2, THRIFT_STRUCT, offsetof(schema_unit, micro), &part},
                                           {3, THRIFT_STRUCT, offsetof(schema_unit, nano), &part}};
static const thrift_struct unit = FIELDS(schema_unit, unit_fields);
static const thrift_field time_fields[] = {{2, THRIFT_STRUCT, offsetof(struct schema_time, unit), &unit}};
static const thrift_struct time_type = FIELDS(struct schema_time, time_fields);
static const thrift_field decimal_fields[] = {{1, THRIFT_INT, offsetof(struct schema_decimal, scale), NULL}};
static const thrift_struct decimal = FIELDS(struct schema_decimal, decimal_fields);
static const thrift_field integer_fields[] = {{2, THRIFT_TRUTH, offsetof(struct schema_integer, is_signed), NULL}};
static const thrift_struct integer = FIELDS(struct schema_integer, integer_fields);
#define LOGICAL(id, field, of) \
    { id, THRIFT_STRUCT, offsetof(schema_logical, field), of }
static const thrift_field logical_fields[] = {LOGICAL(1, string, &part),      LOGICAL(2, map, &part),
                                              LOGICAL(3, list, &part),        LOGICAL(4, enumeration, &part),
                                              LOGICAL(5, decimal, &decimal),  LOGICAL(6, date, &part),
                                              LOGICAL(7, time, &time_type),   LOGICAL(8, timestamp, &time_type),
                                              LOGICAL(10, integer, &integer), LOGICAL(12, json, &part),
                                              LOGICAL(14, uuid, &part),       LOGICAL(15, half, &part)};
static const thrift_struct logical = FIELDS(schema_logical, logical_fields);
static const thrift_field element_fields[] = {{1, THRIFT_INT, offsetof(schema_element, type), NULL},
                                              {2, THRIFT_INT, offsetof(schema_element, length), NULL},
                                              {3, THRIFT_INT, offsetof(schema_element, repetition), NULL},
                                              {4, THRIFT_TEXT, offsetof(schema_element, name), NULL},
                                              {5, THRIFT_INT, offsetof(schema_element, children), NULL},
                                              {6, THRIFT_INT, offsetof(schema_element, converted), NULL},
                                              {7, THRIFT_INT, offsetof(schema_element, scale), NULL},
                                              {10, THRIFT_STRUCT, offsetof(schema_element, logical), &logical}};
static const thrift_struct element = FIELDS(schema_element, element_fields);
static const thrift_field meta_fields[] = {
    {1, THRIFT_INT, offsetof(column_meta, type), NULL},   {4, THRIFT_INT, offsetof(column_meta, codec), NULL},
    {5, THRIFT_INT, offsetof(column_meta, values), NULL}, {7, THRIFT_INT, offsetof(column_meta, bytes), NULL},
    {9, THRIFT_INT, offsetof(column_meta, data), NULL},   {11, THRIFT_INT, offsetof(column_meta, dictionary), NULL},
};
static const thrift_struct meta = FIELDS(column_meta, meta_fields);
static const thrift_field chunk_fields[] = {{1, THRIFT_TEXT, offsetof(column_chunk, path), NULL},
                                            {3, THRIFT_STRUCT, offsetof(column_chunk, meta), &meta}};
static const thrift_struct chunk = FIELDS(column_chunk, chunk_fields);
static const thrift_field group_fields[] = {{1, THRIFT_LIST, offsetof(row_group, columns), &chunk},
                                            {3, THRIFT_INT, offsetof(row_group, rows), NULL}};
static const thrift_struct group = FIELDS(row_group, group_fields);
static const thrift_field file_fields[] = {{2, THRIFT_LIST, offsetof(file_meta, schema), &element},
                                           {4, THRIFT_LIST, offsetof(file_meta, groups), &group}};
static const thrift_struct file_type = FIELDS(file_meta, file_fields);

/* ---- the schema ---- */

/* Repetitions, and the older form of meanings (converted types), by their numbers in files. */
enum { REQUIRED, OPTIONAL, REPEATED };
enum {
    UTF8,
    AS_MAP,
    MAP_PAIRS,
    AS_LIST,
    ENUM,
    AS_DECIMAL,
    AS_DATE,
    TIME_MILLIS,
    TIME_MICROS,
    TIMESTAMP_MILLIS,
    TIMESTAMP_MICROS,
    UINT_8,
    UINT_64 = UINT_8 + 3,
    AS_JSON = 19
};

static int64_t digits(const schema_unit *of) { return of->nano.there ? 9 : of->micro.there ? 6 : 3; }

static void find_meaning(const schema_element *e, parquet_node *node) {
    const schema_logical *l = &e->logical;
    const int64_t old = l->there ? THRIFT_MISSING : e->converted;
    if (l->string.there || l->enumeration.there || l->json.there || old == UTF8 || old == ENUM || old == AS_JSON)
        node->meaning = PARQUET_TEXT;
    if (l->uuid.there) node->meaning = PARQUET_UUID;
    if (l->half.there) node->meaning = PARQUET_HALF;
    if (l->date.there || old == AS_DATE) node->meaning = PARQUET_DATE;
    if ((l->integer.there && l->integer.is_signed == 0) || (old >= UINT_8 && old <= UINT_64))
        node->meaning = PARQUET_UNSIGNED;
    if (l->decimal.there || old == AS_DECIMAL) {
        node->meaning = PARQUET_DECIMAL;
        node->scale = l->decimal.there ? l->decimal.scale : e->scale;
    }
    if (l->time.there || old == TIME_MILLIS || old == TIME_MICROS) {
        node->meaning = PARQUET_TIME;
        node->scale = l->time.there ? digits(&l->time.unit) : old == TIME_MILLIS ? 3 : 6;
    }
    if (l->timestamp.there || old == TIMESTAMP_MILLIS || old == TIMESTAMP_MICROS) {
        node->meaning = PARQUET_TIMESTAMP;
        node->scale = l->timestamp.there ? digits(&l->timestamp.unit) : old == TIMESTAMP_MILLIS ? 3 : 6;
    }
    node->scale = ls_max(node->scale, 0);
}

typedef struct schema_walk {
    parquet_file *file;
    const schema_element *element;
    size_t n, next;
    parquet_error *error;
    int leaf_capacity;
} schema_walk;

static bool add_leaf(schema_walk *w, const schema_element *e, parquet_node *node) {
    if (e->type < 0 || e->type >= PARQUET_TYPES)
        return parquet_fail(w->error, "its schema has a column of type %lld, expected 0 to %d", (long long)e->type,
                            PARQUET_TYPES - 1);
    node->type = (parquet_type)e->type;
    node->length = e->length;
    if (node->type == PARQUET_FIXED && (node->length < 1 || node->length > INT32_MAX))
        return parquet_fail(w->error, "its schema has a column with values of %lld bytes", (long long)e->length);
    find_meaning(e, node);
    node->leaves = 1;
    size_t capacity = (size_t)w->leaf_capacity;
    w->file->leaf =
        ls_arena_grow(w->file->arena, w->file->leaf, (size_t)w->file->columns, &capacity, sizeof(parquet_node *));
    w->leaf_capacity = (int)capacity;
    w->file->leaf[w->file->columns++] = node;
    return true;
}

static bool is_named(thrift_text name, const char *word) {
    return name.n == strlen(word) && memcmp(name.at, word, name.n) == 0;
}

/*
 * A list is a group with one repeated node, whose only child is the items. In older files the repeated node itself is
 * the items, if it has several children, or none, or a name that says so.
 */
static void find_list(parquet_node *node) {
    parquet_node *repeated = node->n == 1 ? node->child[0] : NULL;
    if (repeated == NULL || !repeated->repeated) return;
    const size_t n = repeated->name.n;
    const bool tuple = n > 6 && memcmp(repeated->name.at + n - 6, "_tuple", 6) == 0;
    node->shape = PARQUET_LIST;
    if (repeated->shape != PARQUET_STRUCT || repeated->n != 1 || is_named(repeated->name, "array") || tuple) return;
    repeated->shape = PARQUET_LIST; /* a list of its only child, not of structs */
}

/* A map is a group with one repeated group of a key and a value. */
static void find_map(parquet_node *node) {
    const parquet_node *pairs = node->n == 1 ? node->child[0] : NULL;
    if (pairs != NULL && pairs->repeated && pairs->shape == PARQUET_STRUCT && pairs->n == 2) node->shape = PARQUET_MAP;
}

static parquet_node *read_node(schema_walk *w, const parquet_node *parent, int depth);

static bool read_children(schema_walk *w, parquet_node *node, int64_t n, int depth) {
    if (n < 1 || (uint64_t)n > w->n - w->next)
        return parquet_fail(w->error, "its schema has a group of %lld, expected 1 to %zu", (long long)n,
                            w->n - w->next);
    node->child = LS_NEW_ARRAY(w->file->arena, parquet_node *, n);
    for (; node->n < (int)n; node->n++) {
        parquet_node *child = read_node(w, node, depth + 1);
        if (child == NULL) return false;
        node->child[node->n] = child;
        node->leaves += child->leaves;
    }
    return true;
}

/* Reads an element and all below it; NULL on an error. */
static parquet_node *read_node(schema_walk *w, const parquet_node *parent, int depth) {
    if (w->next == w->n) {
        parquet_fail(w->error, "its schema ends too early");
        return NULL;
    }
    const schema_element *e = &w->element[w->next++];
    parquet_node *node = LS_NEW(w->file->arena, parquet_node);
    if (depth > MOST_DEPTH) parquet_fail(w->error, "its schema is more than %d levels deep", MOST_DEPTH);
    if (e->name.at == NULL) parquet_fail(w->error, "its schema has an element without a name");
    *node = (parquet_node){.name = e->name, .first = w->file->columns};
    if (parent != NULL) {
        node->optional = e->repetition == OPTIONAL;
        node->repeated = e->repetition == REPEATED;
        node->def = parent->def + (node->optional || node->repeated);
        node->rep = parent->rep + node->repeated;
        if (e->repetition < REQUIRED || e->repetition > REPEATED)
            parquet_fail(w->error, "its schema has an element of repetition %lld", (long long)e->repetition);
    }
    if (w->error->text[0] != 0) return NULL;
    const bool leaf =
        parent != NULL && (e->children == THRIFT_MISSING || e->children == 0) && e->type != THRIFT_MISSING;
    if (leaf) return add_leaf(w, e, node) ? node : NULL;
    node->shape = PARQUET_STRUCT;
    if (!read_children(w, node, e->children, depth)) return NULL;
    const int64_t old = e->logical.there ? THRIFT_MISSING : e->converted;
    if (e->logical.list.there || old == AS_LIST) find_list(node);
    if (e->logical.map.there || old == AS_MAP || old == MAP_PAIRS) find_map(node);
    return node;
}

/* Names of columns: "a.list.element". */
static void name_leaves(parquet_file *file, const parquet_node *node, const char *before) {
    for (int i = 0; i < node->n; i++) {
        const parquet_node *child = node->child[i];
        char clean[64];
        ls_utf8_printable(child->name.at, child->name.n < 30 ? child->name.n : 30, clean, sizeof clean);
        char *name = ls_arena_printf(file->arena, "%.120s%s%s", before, before[0] != 0 ? "." : "", clean);
        if (child->shape == PARQUET_SCALAR) file->name[child->first] = name;
        name_leaves(file, child, name);
    }
}

static bool read_schema(parquet_file *file, const thrift_list *list, parquet_error *error) {
    schema_walk w = {.file = file, .element = list->items, .n = list->n, .error = error};
    file->root = read_node(&w, NULL, 0);
    if (file->root == NULL) return false;
    if (w.next != w.n) return parquet_fail(error, "its schema has %zu elements too many", w.n - w.next);
    file->name = LS_NEW_ARRAY(file->arena, char *, file->columns);
    name_leaves(file, file->root, "");
    return true;
}

/* ---- row groups ---- */

static bool read_chunk(const parquet_file *file, int column, const column_chunk *c, parquet_chunk *out,
                       parquet_error *error) {
    const column_meta *m = &c->meta;
    const char *name = file->name[column];
    if (c->path.n > 0) return parquet_fail(error, "column %s lies in another file", name);
    if (!m->there) return parquet_fail(error, "column %s is encrypted, or has no description", name);
    if (m->type != (int64_t)file->leaf[column]->type)
        return parquet_fail(error, "column %s has type %lld in a row group, and %d in the schema", name,
                            (long long)m->type, (int)file->leaf[column]->type);
    const int64_t from = m->dictionary > 0 && m->dictionary < m->data ? m->dictionary : m->data;
    *out = (parquet_chunk){.codec = m->codec, .values = m->values, .from = from, .bytes = m->bytes};
    if (m->values == 0) { /* some writers give a place although there are no values */
        *out = (parquet_chunk){.codec = m->codec};
        return true;
    }
    if (from < MAGIC || m->bytes < 0 || m->values < 0 || (uint64_t)from > file->map.bytes ||
        (uint64_t)m->bytes > file->map.bytes - (uint64_t)from)
        return parquet_fail(error, "column %s has %lld bytes from %lld on, expected them within the file's %zu", name,
                            (long long)m->bytes, (long long)from, file->map.bytes);
    return true;
}

static bool read_groups(parquet_file *file, const thrift_list *list, parquet_error *error) {
    const row_group *from = list->items;
    file->groups = (int64_t)list->n;
    file->group = LS_NEW_ARRAY(file->arena, parquet_group, list->n);
    for (size_t i = 0; i < list->n; i++) {
        const column_chunk *columns = from[i].columns.items;
        if (from[i].columns.n != (size_t)file->columns || from[i].rows < 0)
            return parquet_fail(error, "row group %zu has %lld rows in %zu columns, expected %d columns", i,
                                (long long)from[i].rows, from[i].columns.n, file->columns);
        file->group[i].rows = from[i].rows;
        file->group[i].chunk = LS_NEW_ARRAY(file->arena, parquet_chunk, file->columns);
        for (int c = 0; c < file->columns; c++)
            if (!read_chunk(file, c, &columns[c], &file->group[i].chunk[c], error)) return false;
    }
    return true;
}

bool parquet_describe(parquet_file *file, parquet_error *error) {
    const uint8_t *data = file->map.data, *end = data + file->map.bytes;
    uint32_t n;
    if (file->map.bytes < 2 * MAGIC + sizeof n || memcmp(data, "PAR1", MAGIC) != 0)
        return parquet_fail(error, file->map.bytes >= MAGIC && memcmp(data, "PARE", MAGIC) == 0
                                       ? "is encrypted, which is not supported"
                                       : "is no Parquet file: expected it to begin with PAR1");
    if (memcmp(end - MAGIC, "PAR1", MAGIC) != 0)
        return parquet_fail(error, "is cut off or damaged: expected a Parquet file to end with PAR1");
    memcpy(&n, end - MAGIC - sizeof n, sizeof n);
    if (n > file->map.bytes - 2 * MAGIC - sizeof n)
        return parquet_fail(error, "its description has %u bytes, which is more than the file", n);
    thrift_reader reader = {.at = end - MAGIC - sizeof n - n, .end = end - MAGIC - sizeof n};
    file_meta of;
    file->arena = ls_arena_create();
    reader.arena = file->arena;
    if (!thrift_read(&reader, &file_type, &of)) return parquet_fail(error, "its description %s", reader.wrong);
    return read_schema(file, &of.schema, error) && read_groups(file, &of.groups, error);
}
