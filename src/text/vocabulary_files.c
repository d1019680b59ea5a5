/*
 * Converts the tokenizer files of older folders into a tokenizer.json: vocab.json and merges.txt, with the added tokens
 * in tokenizer_config.json, special_tokens_map.json and added_tokens.json. The result is the one that the Python
 * library transformers 5 builds, so the other files of src/text read one form only.
 */
#include "base/base.h"
#include "text/bpe_impl.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ROLES = 7, MOST_TYPES = 3 };

/* The fields that name special tokens, in the order of transformers. */
static const char *const roles[MOST_ROLES] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                              "pad_token", "cls_token", "mask_token"};

/* A tokenizer_class that is supported. */
typedef struct class_row {
    const char *name;                    /* "Fast" may follow */
    const char *model_types[MOST_TYPES]; /* model_type in config.json, for folders that name no class */
    const char *normalizer, *regex;      /* normalizer NULL: none; regex NULL: ByteLevel's own */
    const char *initial[MOST_ROLES];     /* by role: the special token when no file names one */
} class_row;

static const class_row classes[] = {
    {"GPT2Tokenizer", {"gpt2"}, NULL, NULL, {"<|endoftext|>", "<|endoftext|>", "<|endoftext|>"}},
    {"Qwen2Tokenizer",
     {"qwen2", "qwen3"},
     "NFC",
     "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|"
     "\\s+(?!\\S)|\\s+",
     {NULL, "<|endoftext|>", "<|endoftext|>", NULL, "<|endoftext|>"}},
};

/* The files of a folder. The root of a file that does not exist has no fields. */
typedef struct files {
    const char *folder;
    ls_json *document[5];
    ls_json_value vocab, config, special, added, model;
    char *merges;
    size_t merges_bytes;
    const class_row *class;
} files;

static ls_status read_file(files *f, const char *name, size_t at, ls_json_value *root) {
    LS_PATH path = NULL;
    *root = (ls_json_value){.file = name};
    LS_TRY(ls_path_join(f->folder, name, &path));
    if (!ls_file_exists(path)) return ls_ok();
    LS_TRY(ls_json_read(path, LS_JSON_MOST_BYTES, &f->document[at]));
    *root = ls_json_root(f->document[at]);
    return ls_json_as_object(*root);
}

static bool names_class(const char *name, const class_row *row) {
    const size_t length = strlen(row->name);
    return strncmp(name, row->name, length) == 0 && (name[length] == 0 || strcmp(name + length, "Fast") == 0);
}

static bool has_type(const char *type, const class_row *row) {
    for (size_t i = 0; i < MOST_TYPES && row->model_types[i]; i++)
        if (strcmp(type, row->model_types[i]) == 0) return true;
    return false;
}

/* Sets the class: tokenizer_class of tokenizer_config.json, else the one for model_type of config.json. */
static ls_status find_class(files *f) {
    const bool named = ls_json_has(f->config, "tokenizer_class");
    const ls_json_value where =
        named ? ls_json_field(f->config, "tokenizer_class") : ls_json_field(f->model, "model_type");
    const char *name;
    if (!where.json)
        return ls_error(
            LS_INVALID,
            "%s: vocab.json and merges.txt are read by a tokenizer_class, and tokenizer_config.json names none",
            f->folder);
    LS_TRY(ls_json_as_text(where, &name));
    for (size_t i = 0; i < LS_COUNT(classes) && !f->class; i++)
        if (named ? names_class(name, &classes[i]) : has_type(name, &classes[i])) f->class = &classes[i];
    if (f->class) return ls_ok();
    return ls_error(LS_UNSUPPORTED,
                    "%s: %s is \"%.60s\"; vocab.json and merges.txt are read for GPT2Tokenizer and "
                    "Qwen2Tokenizer, for others expected a tokenizer.json",
                    where.file, where.path, name);
}

static ls_status read_files(files *f) {
    LS_PATH path = NULL;
    LS_TRY(read_file(f, "vocab.json", 0, &f->vocab));
    LS_TRY(read_file(f, "tokenizer_config.json", 1, &f->config));
    LS_TRY(read_file(f, "special_tokens_map.json", 2, &f->special));
    LS_TRY(read_file(f, "added_tokens.json", 3, &f->added));
    LS_TRY(read_file(f, "config.json", 4, &f->model));
    LS_TRY(ls_path_join(f->folder, "merges.txt", &path));
    LS_TRY(ls_file_read(path, LS_JSON_MOST_BYTES, &f->merges, &f->merges_bytes));
    const size_t good = ls_utf8_valid_prefix(f->merges, f->merges_bytes);
    if (good < f->merges_bytes || memchr(f->merges, 0, f->merges_bytes))
        return ls_error(LS_INVALID, "%s: byte %zu is not UTF-8 text", path,
                        good < f->merges_bytes ? good : strlen(f->merges));
    return find_class(f);
}

/* Reads a flag; `initial` when the object lacks it, or when the value is not an object. */
static ls_status flag_of(ls_json_value object, const char *name, bool initial, bool *out) {
    *out = initial;
    return ls_json_has(object, name) ? ls_json_bool(object, name, out) : ls_ok();
}

/* ---- added tokens ---- */

/* The text of a token, which is written as a text or as an object with a "content". */
static ls_status content_of(ls_json_value value, const char **out) {
    const ls_json_value content = ls_json_field(value, "content");
    return ls_json_as_text(content.json ? content : value, out);
}

/* The added tokens that have been written so far. */
typedef struct listing {
    const files *files;
    ls_vocabulary written; /* their texts and ids */
    ls_vocabulary special; /* the texts of the tokens with a role */
    int32_t next;          /* the id for the next token that vocab.json lacks */
    ls_json_writer *out;
} listing;

static ls_status no_memory(const files *f) {
    return ls_error(LS_NO_MEMORY, "no memory for the tokenizer of %s", f->folder);
}

/*
 * Finds the id of a token, the id `wanted`, that of vocab.json, or the next after all others, and records it. An id of
 * another token is an error.
 */
static ls_status assign_id(listing *l, ls_json_value value, const char *content, int64_t wanted, int64_t *id) {
    LS_TRY(ls_json_int_or(l->files->vocab, content, -1, 0, INT32_MAX, id));
    if (*id < 0) *id = l->next++;
    if (wanted >= 0) *id = wanted;
    if (*id >= l->written.room || l->written.token[*id].flags != 0)
        return ls_error(LS_INVALID, "%s: the added token \"%.60s\" has id %lld, expected one of its own below %d",
                        value.file, content, (long long)*id, (int)l->written.room);
    return ls_vocabulary_add(&l->written, (int32_t)*id, content, strlen(content)) ? ls_ok() : no_memory(l->files);
}

/* Writes a member of "added_tokens". value: may be an object with flags. wanted: the id in a file, or -1. */
static ls_status put_token(listing *l, ls_json_value value, const char *content, int64_t wanted, bool special) {
    static const char *const flags[] = {"single_word", "lstrip", "rstrip"};
    int64_t id;
    bool flag;
    if (content[0] == 0 || ls_vocabulary_find(&l->written, content, strlen(content)) >= 0) return ls_ok();
    LS_TRY(assign_id(l, value, content, wanted, &id));
    if (ls_vocabulary_find(&l->special, content, strlen(content)) >= 0) special = true;
    if (!special) LS_TRY(flag_of(value, "special", false, &special));
    ls_json_open_object(l->out, NULL);
    ls_json_put_int(l->out, "id", id);
    ls_json_put_text(l->out, "content", content);
    for (size_t i = 0; i < LS_COUNT(flags); i++) {
        LS_TRY(flag_of(value, flags[i], false, &flag));
        ls_json_put_bool(l->out, flags[i], flag);
    }
    LS_TRY(flag_of(value, "normalized", !special, &flag));
    ls_json_put_bool(l->out, "normalized", flag);
    ls_json_put_bool(l->out, "special", special);
    ls_json_close(l->out);
    return ls_ok();
}

/* A member of an object of tokens, {"7": {"content": ...}} or {"text": 7}; rows are sorted by id. */
typedef struct row {
    int64_t id;
    const char *key;
    ls_json_value value;
} row;

static int by_id(const void *a, const void *b) {
    const row *left = a, *right = b;
    return left->id < right->id ? -1 : left->id > right->id;
}

static ls_status read_id(const char *key, ls_json_value value, int64_t *id) {
    char *end;
    *id = strtoll(key, &end, 10);
    if (*end == 0 && end != key && *id >= 0 && *id < INT32_MAX) return ls_ok();
    return ls_json_error(value, "a token's id as its name, 0 to %d", INT32_MAX - 1);
}

static ls_status sorted(const files *f, ls_json_value object, bool ids_are_keys, row **out, size_t *n) {
    const size_t count = ls_json_count(object);
    row *rows = malloc((count + 1) * sizeof *rows);
    if (!rows) return no_memory(f);
    void *cursor = NULL;
    ls_status status = ls_ok();
    for (*n = 0; *n < count && status.code == LS_OK; ++*n) {
        row *r = &rows[*n];
        if (!ls_json_next(object, &cursor, &r->key, &r->value)) break;
        status = ids_are_keys ? read_id(r->key, r->value, &r->id) : ls_json_as_int(r->value, 0, INT32_MAX - 1, &r->id);
    }
    if (status.code != LS_OK) {
        free(rows);
        return status;
    }
    qsort(rows, *n, sizeof *rows, by_id);
    *out = rows;
    return ls_ok();
}

/* Finds a member, which may be null. */
static bool find_member(ls_json_value object, const char *key, ls_json_value *out) {
    void *cursor = NULL;
    const char *name;
    while (object.json && ls_json_next(object, &cursor, &name, out))
        if (strcmp(name, key) == 0) {
            *out = ls_json_field(object, key); /* no value when it is null */
            return true;
        }
    return false;
}

/*
 * Finds the field of a special token: in special_tokens_map.json, if tokenizer_config.json has no added_tokens_decoder,
 * else in tokenizer_config.json. False: neither has it, not even as null.
 */
static bool find_special(const files *f, const char *name, ls_json_value *out) {
    const bool mapped = !ls_json_has(f->config, "added_tokens_decoder");
    return (mapped && find_member(f->special, name, out)) || find_member(f->config, name, out);
}

/* The text of the special token of a role, or NULL. *value has no json when the token is the default of the class. */
static ls_status role_of(const files *f, size_t role, ls_json_value *value, const char **content) {
    const bool found = find_special(f, roles[role], value);
    *content = NULL;
    if (found && value->json) return content_of(*value, content);
    if (!found) *content = f->class->initial[role];
    *value = (ls_json_value){.file = f->folder};
    return ls_ok();
}

/* The list of further special tokens: "additional_special_tokens" (transformers 4) or "extra_special_tokens" (5). */
static ls_status further_of(const files *f, ls_json_value *out) {
    if (!find_special(f, "additional_special_tokens", out) && !find_special(f, "extra_special_tokens", out))
        *out = (ls_json_value){.file = f->folder};
    return out->json ? ls_json_as_array(*out) : ls_ok();
}

/* Records the texts of all tokens with a role. */
static ls_status record_special(listing *l) {
    ls_json_value value;
    for (int32_t i = 0; i < MOST_ROLES; i++) {
        const char *content;
        LS_TRY(role_of(l->files, (size_t)i, &value, &content));
        if (content && ls_vocabulary_find(&l->special, content, strlen(content)) < 0 &&
            !ls_vocabulary_add(&l->special, i, content, strlen(content)))
            return no_memory(l->files);
    }
    return ls_ok();
}

/* Writes the tokens of added_tokens_decoder, {"7": {"content": ...}}, or else of added_tokens.json, {"text": 7}. */
static ls_status put_listed(listing *l) {
    const ls_json_value decoder = ls_json_field(l->files->config, "added_tokens_decoder");
    const ls_json_value object = decoder.json ? decoder : l->files->added;
    row *rows = NULL;
    size_t n = 0;
    if (!object.json) return ls_ok();
    LS_TRY(ls_json_as_object(object));
    LS_TRY(sorted(l->files, object, decoder.json != NULL, &rows, &n));
    ls_status status = ls_ok();
    for (size_t i = 0; i < n && status.code == LS_OK; i++) {
        const char *content = rows[i].key;
        if (decoder.json) status = content_of(rows[i].value, &content);
        if (status.code == LS_OK) status = put_token(l, rows[i].value, content, rows[i].id, false);
    }
    free(rows);
    return status;
}

static ls_status put_all(listing *l) {
    ls_json_value value;
    const char *content;
    LS_TRY(record_special(l));
    ls_json_open_array(l->out, "added_tokens");
    LS_TRY(put_listed(l));
    for (size_t i = 0; i < MOST_ROLES; i++) {
        LS_TRY(role_of(l->files, i, &value, &content));
        if (content) LS_TRY(put_token(l, value, content, -1, true));
    }
    LS_TRY(further_of(l->files, &value));
    for (size_t i = 0; i < ls_json_count(value); i++) {
        const ls_json_value item = ls_json_item(value, i);
        LS_TRY(content_of(item, &content));
        LS_TRY(put_token(l, item, content, -1, true));
    }
    ls_json_close(l->out);
    return ls_ok();
}

static void put_piece(ls_json_writer *out, const char *kind, const char *id) {
    ls_json_open_object(out, NULL);
    ls_json_open_object(out, kind);
    ls_json_put_text(out, "id", id);
    ls_json_close(out);
    ls_json_close(out);
}

/*
 * Writes the post-processor: bos and eos around a text, as add_bos_token and add_eos_token say, if there are such
 * tokens.
 */
static ls_status put_frame(const listing *l) {
    static const char *const fields[] = {"add_bos_token", "add_eos_token"};
    const char *around[LS_COUNT(fields)];
    ls_json_value value;
    for (size_t i = 0; i < LS_COUNT(fields); i++) {
        bool adds;
        LS_TRY(flag_of(l->files->config, fields[i], false, &adds));
        LS_TRY(role_of(l->files, i, &value, &around[i]));
        if (!adds || !around[i] || !around[i][0]) around[i] = NULL;
    }
    ls_json_open_object(l->out, "post_processor");
    ls_json_put_text(l->out, "type", "TemplateProcessing");
    ls_json_open_array(l->out, "single");
    if (around[0]) put_piece(l->out, "SpecialToken", around[0]);
    put_piece(l->out, "Sequence", "A");
    if (around[1]) put_piece(l->out, "SpecialToken", around[1]);
    ls_json_close(l->out);
    ls_json_open_object(l->out, "special_tokens");
    for (size_t i = 0; i < LS_COUNT(fields); i++) {
        const bool is_bos_too = i > 0 && around[0] && around[i] && strcmp(around[0], around[i]) == 0;
        if (!around[i] || is_bos_too) continue;
        ls_json_open_object(l->out, around[i]);
        ls_json_open_array(l->out, "ids");
        ls_json_put_int(l->out, NULL, ls_vocabulary_find(&l->written, around[i], strlen(around[i])));
        ls_json_close(l->out);
        ls_json_close(l->out);
    }
    ls_json_close(l->out);
    ls_json_close(l->out);
    return ls_ok();
}

/* Writes the added tokens and the post-processor. */
static ls_status put_added(const files *f, ls_json_writer *out) {
    const size_t known = ls_json_count(f->vocab);
    listing l = {.files = f, .next = (int32_t)known, .out = out};
    ls_json_value further;
    LS_TRY(further_of(f, &further));
    const size_t most = ls_json_count(ls_json_field(f->config, "added_tokens_decoder")) + ls_json_count(f->added) +
                        ls_json_count(further) + MOST_ROLES;
    const size_t room = 2 * (known + most) + 1024; /* ids need not be dense */
    if (room > INT32_MAX) return ls_json_error(f->vocab, "fewer than %d tokens", INT32_MAX / 2);
    ls_status status = ls_ok();
    if (!ls_vocabulary_create(&l.written, (int32_t)room, most) ||
        !ls_vocabulary_create(&l.special, MOST_ROLES, MOST_ROLES))
        status = no_memory(f);
    if (status.code == LS_OK) status = put_all(&l);
    if (status.code == LS_OK) status = put_frame(&l);
    ls_vocabulary_free(&l.written);
    ls_vocabulary_free(&l.special);
    return status;
}

/* ---- the rest of a tokenizer.json ---- */

static void put_byte_level(ls_json_writer *out, const char *key, bool prefix, bool use_regex) {
    ls_json_open_object(out, key);
    ls_json_put_text(out, "type", "ByteLevel");
    ls_json_put_bool(out, "add_prefix_space", prefix);
    ls_json_put_bool(out, "trim_offsets", true);
    ls_json_put_bool(out, "use_regex", use_regex);
    ls_json_close(out);
}

static ls_status put_pre_tokenizer(const files *f, ls_json_writer *out) {
    bool prefix;
    LS_TRY(flag_of(f->config, "add_prefix_space", false, &prefix));
    if (!f->class->regex) {
        put_byte_level(out, "pre_tokenizer", prefix, true);
        return ls_ok();
    }
    ls_json_open_object(out, "pre_tokenizer");
    ls_json_put_text(out, "type", "Sequence");
    ls_json_open_array(out, "pretokenizers");
    ls_json_open_object(out, NULL);
    ls_json_put_text(out, "type", "Split");
    ls_json_open_object(out, "pattern");
    ls_json_put_text(out, "Regex", f->class->regex);
    ls_json_close(out);
    ls_json_put_text(out, "behavior", "Isolated");
    ls_json_put_bool(out, "invert", false);
    ls_json_close(out);
    put_byte_level(out, NULL, prefix, false);
    ls_json_close(out);
    ls_json_close(out);
    return ls_ok();
}

static ls_status put_model(const files *f, ls_json_writer *out) {
    void *cursor = NULL;
    const char *token;
    ls_json_value value;
    ls_json_open_object(out, "model");
    ls_json_put_text(out, "type", "BPE");
    ls_json_open_object(out, "vocab");
    while (ls_json_next(f->vocab, &cursor, &token, &value)) {
        int64_t id;
        LS_TRY(ls_json_as_int(value, 0, INT32_MAX - 1, &id));
        ls_json_put_int(out, token, id);
    }
    ls_json_close(out);
    ls_json_open_array(out, "merges");
    for (char *line = f->merges; line < f->merges + f->merges_bytes;) {
        char *end = line + strcspn(line, "\n"), *next = end + 1;
        if (end > line && end[-1] == '\r') end--;
        *end = 0;
        ls_json_put_text(out, NULL, line);
        line = next;
    }
    ls_json_close(out);
    ls_json_close(out);
    return ls_ok();
}

static ls_status put_document(const files *f, ls_json_writer *out) {
    bool splits;
    LS_TRY(flag_of(f->config, "split_special_tokens", false, &splits));
    if (splits)
        return ls_error(LS_UNSUPPORTED, "%s: split_special_tokens is true, which is not supported", f->config.file);
    LS_TRY(put_added(f, out));
    if (f->class->normalizer) {
        ls_json_open_object(out, "normalizer");
        ls_json_put_text(out, "type", f->class->normalizer);
        ls_json_close(out);
    }
    LS_TRY(put_pre_tokenizer(f, out));
    put_byte_level(out, "decoder", false, true);
    return put_model(f, out);
}

static ls_status build(files *f, ls_json **out) {
    LS_PATH name = NULL;
    size_t bytes;
    LS_TRY(read_files(f));
    LS_TRY(ls_path_join(f->folder, "vocab.json and merges.txt", &name));
    ls_json_writer *writer = ls_json_begin(0);
    ls_status status = put_document(f, writer);
    if (status.code == LS_OK) {
        ls_json_close(writer);
        const char *text = ls_json_written(writer, &bytes);
        status = ls_json_parse(name, text, bytes, out);
    }
    ls_json_writer_destroy(writer);
    return status;
}

ls_status ls_vocabulary_files_read(const char *folder, ls_json **out) {
    files f = {.folder = folder};
    const ls_status status = build(&f, out);
    for (size_t i = 0; i < LS_COUNT(f.document); i++) ls_json_free(f.document[i]);
    free(f.merges);
    return status;
}
