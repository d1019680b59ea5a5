/* The rows of a file: assembled from the entries of the columns, and written as lines of JSON. */
#include "parquet/parquet_impl.h"

#include <stdlib.h>
#include <string.h>

/*
 * The file is refused if all lines together are more than MOST_RATIO times its size, once they are more than FROM
 * bytes: no text is that regular, and a small file must not fill memory.
 */
enum { MOST_RATIO = 1024 };
#define FROM ((int64_t)64 << 20)

struct ls_parquet {
    parquet_file file;
    parquet_error error;
    char broken[260];
    bool described;
    int64_t group, row, rows; /* the group under way, its next row, rows before it */
    parquet_column *column;   /* of the group; NULL: none is under way */
    ls_json_buffer lines;
    size_t given;     /* bytes of the lines that were read */
    int64_t in_lines; /* bytes of all lines so far */
};

bool ls_parquet_begins(const unsigned char *bytes, size_t n) {
    return n >= 4 && (memcmp(bytes, "PAR1", 4) == 0 || memcmp(bytes, "PARE", 4) == 0);
}

/* ---- values ---- */

/* Appending fails only when there is no memory. */
static bool written(ls_parquet *p, ls_status status) {
    if (status.code == LS_OK) return true;
    p->error.no_memory = true;
    return parquet_fail(&p->error, "%s", status.text);
}

static bool fits(ls_parquet *p) {
    const int64_t made = p->in_lines + (int64_t)p->lines.n;
    return made <= FROM || made / MOST_RATIO <= (int64_t)p->file.map.bytes ||
           parquet_fail(&p->error, "its values expand to more than %d times the file: no text", MOST_RATIO);
}

static bool add(ls_parquet *p, const char *text) {
    return written(p, ls_json_buffer_add(&p->lines, text, strlen(text)));
}

static bool disagree(ls_parquet *p) { return parquet_fail(&p->error, "repeats its values otherwise than the others"); }

/* Makes the next entry of a column ready, whose repetition level must be the current one. */
static bool expect(ls_parquet *p, parquet_column *column, int rep) {
    if (!parquet_column_peek(column, &p->error)) return false;
    p->error.column = column->name;
    return column->entry_rep == rep || disagree(p);
}

/* Takes the entries of all columns below an absent node; their definition level is that of the node's parent. */
static bool take_missing(ls_parquet *p, const parquet_node *node, int rep) {
    for (int i = 0; i < node->leaves; i++) {
        parquet_column *column = &p->column[node->first + i];
        if (!expect(p, column, rep)) return false;
        if (column->entry_def != node->def - 1) return disagree(p);
        if (!parquet_column_take(column, NULL, &p->error)) return false;
    }
    return true;
}

static bool write_node(ls_parquet *p, const parquet_node *node, int rep);

static bool write_scalar(ls_parquet *p, const parquet_node *node, int rep) {
    parquet_column *column = &p->column[node->first];
    parquet_bytes value;
    if (!expect(p, column, rep)) return false;
    if (column->entry_def != node->def) return disagree(p);
    return parquet_column_take(column, &value, &p->error) && written(p, parquet_scalar_write(node, value, &p->lines));
}

static bool write_name(ls_parquet *p, const parquet_node *node) {
    return written(p, ls_json_buffer_text(&p->lines, node->name.at, node->name.n)) && add(p, ":");
}

static bool write_struct(ls_parquet *p, const parquet_node *node, int rep) {
    if (!add(p, "{")) return false;
    for (int i = 0; i < node->n; i++) {
        if (i > 0 && !add(p, ",")) return false;
        if (!write_name(p, node->child[i]) || !write_node(p, node->child[i], rep)) return false;
    }
    return add(p, "}");
}

/* Sets whether the node's next value is a further item of the current list. */
static bool goes_on(ls_parquet *p, const parquet_node *node, bool *out) {
    parquet_column *column = &p->column[node->first];
    *out = !parquet_column_ended(column);
    if (!*out) return true;
    if (!parquet_column_peek(column, &p->error)) return false;
    *out = column->entry_rep == node->rep;
    return true;
}

/* Writes a pair of a map whose keys are texts as a member of an object. */
static bool write_pair(ls_parquet *p, const parquet_node *pair, int rep) {
    return write_node(p, pair->child[0], rep) && add(p, ":") && write_node(p, pair->child[1], rep);
}

/* Writes the value of a node that is present, of any shape, leaving aside that the node may be repeated. */
static bool write_present(ls_parquet *p, const parquet_node *node, int rep) {
    switch (node->shape) {
    case PARQUET_SCALAR:
        return write_scalar(p, node, rep);
    case PARQUET_STRUCT:
        return write_struct(p, node, rep);
    default:
        return write_node(p, node->child[0], rep);
    }
}

/* Whether a node is a map whose keys can be names of an object's members. */
static bool is_object(const parquet_node *map) {
    const parquet_node *pairs = map->child[0], *key = pairs->child[0];
    return key->shape == PARQUET_SCALAR && !key->optional && !key->repeated && key->type == PARQUET_BYTES &&
           key->meaning != PARQUET_DECIMAL;
}

/* Writes the items of a repeated node; object: as members of an object. */
static bool write_items(ls_parquet *p, const parquet_node *node, int rep, bool object) {
    parquet_column *column = &p->column[node->first];
    bool more = true;
    if (!add(p, object ? "{" : "[") || !expect(p, column, rep)) return false;
    if (column->entry_def < node->def) {
        if (!take_missing(p, node, rep)) return false;
        more = false;
    }
    for (int at = rep; more; at = node->rep) {
        if (!fits(p) || !(object ? write_pair : write_present)(p, node, at) || !goes_on(p, node, &more)) return false;
        if (more && !add(p, ",")) return false;
    }
    return add(p, object ? "}" : "]");
}

static bool write_node(ls_parquet *p, const parquet_node *node, int rep) {
    parquet_column *column = &p->column[node->first];
    if (!fits(p)) return false;
    if (node->repeated) return write_items(p, node, rep, false);
    if (!expect(p, column, rep)) return false;
    if (node->optional && column->entry_def < node->def) return take_missing(p, node, rep) && add(p, "null");
    if (node->shape == PARQUET_MAP && is_object(node)) return write_items(p, node->child[0], rep, true);
    return write_present(p, node, rep);
}

/* ---- row groups ---- */

static void end_group(ls_parquet *p) {
    for (int i = 0; i < p->file.columns && p->column != NULL; i++) parquet_column_end(&p->column[i]);
    free(p->column);
    p->column = NULL;
}

static bool begin_group(ls_parquet *p) {
    const parquet_group *group = &p->file.group[p->group];
    p->column = calloc((size_t)p->file.columns, sizeof *p->column);
    if (p->column == NULL) {
        p->error.no_memory = true;
        return parquet_fail(&p->error, "no memory for %d columns", p->file.columns);
    }
    for (int i = 0; i < p->file.columns; i++)
        if (!parquet_column_begin(&p->column[i], &p->file, i, &group->chunk[i], &p->error)) return false;
    p->row = 0;
    return true;
}

static bool finish_group(ls_parquet *p) {
    for (int i = 0; i < p->file.columns; i++) {
        p->error.column = p->column[i].name;
        if (!parquet_column_ended(&p->column[i]))
            return parquet_fail(&p->error, "has more values than its row group has rows");
    }
    end_group(p);
    p->rows += p->file.group[p->group++].rows;
    return true;
}

/* Adds a line. *ended: there is no further row. */
static bool next_line(ls_parquet *p, bool *ended) {
    *ended = false;
    if (!p->described && !parquet_describe(&p->file, &p->error)) return false;
    p->described = true;
    while (p->column == NULL || p->row == p->file.group[p->group].rows) {
        if (p->column != NULL && !finish_group(p)) return false;
        *ended = p->group == p->file.groups;
        if (*ended) return true;
        if (!begin_group(p)) return false;
    }
    if (!write_struct(p, p->file.root, 0) || !add(p, "\n")) return false;
    p->row++;
    return true;
}

/* ---- reading ---- */

ls_status ls_parquet_open(const char *path, ls_parquet **out) {
    ls_parquet *p = calloc(1, sizeof *p);
    if (p == NULL) return ls_error(LS_NO_MEMORY, "no memory to read %s", path);
    p->file.path = path;
    const ls_status status = ls_file_map_open(path, &p->file.map);
    if (status.code == LS_OK)
        *out = p;
    else
        ls_parquet_close(p);
    return status;
}

static ls_status describe_error(ls_parquet *p) {
    if (p->error.no_memory) return ls_error(LS_NO_MEMORY, "%s: %s", p->file.path, p->error.text);
    const int64_t row = p->rows + p->row + 1;
    if (p->described)
        snprintf(p->broken, sizeof p->broken, "row %lld: %s", (long long)row, p->error.text);
    else
        snprintf(p->broken, sizeof p->broken, "%s", p->error.text);
    return ls_error(LS_INVALID, "%s: %s", p->file.path, p->broken);
}

ls_status ls_parquet_read(ls_parquet *p, char *out, size_t room, size_t *bytes) {
    bool ended = false;
    *bytes = 0;
    while (*bytes < room && !ended) {
        if (p->given == p->lines.n) {
            p->in_lines += (int64_t)p->lines.n;
            p->given = p->lines.n = 0;
            if (p->error.text[0] != 0 || !next_line(p, &ended)) {
                p->lines.n = 0; /* an incomplete line */
                return describe_error(p);
            }
        }
        const size_t some = parquet_smaller(room - *bytes, p->lines.n - p->given);
        if (some > 0) memcpy(out + *bytes, p->lines.at + p->given, some);
        p->given += some;
        *bytes += some;
    }
    return ls_ok();
}

const char *ls_parquet_broken(const ls_parquet *p) { return p->broken[0] != 0 ? p->broken : NULL; }

void ls_parquet_close(ls_parquet *p) {
    if (p == NULL) return;
    end_group(p);
    ls_json_buffer_free(&p->lines);
    if (p->file.arena != NULL) ls_arena_destroy(p->file.arena);
    ls_file_map_close(&p->file.map);
    free(p);
}
