/* Methods of texts, those of Python's str: a table has one row for each. */
#include "jinja/run_impl.h"

#include <string.h>

/* --- cases -------------------------------------------------------------------------------------------------------- */

static void put_case(jinja_run *r, jinja_buffer *b, jinja_text text, size_t at, jinja_case to) {
    jinja_char chars[3];
    const int n = jinja_in_case(text, at, to, chars);
    for (int i = 0; i < n; i++) jinja_put_char(r, b, chars[i]);
}

jinja_value jinja_text_in_case(jinja_run *r, jinja_text text, jinja_case to) {
    jinja_buffer b = {0};
    for (size_t i = 0; i < text.n && !r->failed; i++) put_case(r, &b, text, i, to);
    return jinja_buffer_value(&b);
}

static jinja_value text_lower(JINJA_ARGUMENTS) { return jinja_text_in_case(r, of.text, JINJA_LOWER); }

static jinja_value text_upper(JINJA_ARGUMENTS) { return jinja_text_in_case(r, of.text, JINJA_UPPER); }

jinja_value jinja_capitalized(jinja_run *r, jinja_text text) {
    jinja_buffer b = {0};
    for (size_t i = 0; i < text.n && !r->failed; i++) put_case(r, &b, text, i, i == 0 ? JINJA_TITLE : JINJA_LOWER);
    return jinja_buffer_value(&b);
}

static jinja_value text_capitalize(JINJA_ARGUMENTS) { return jinja_capitalized(r, of.text); }

static jinja_value text_title(JINJA_ARGUMENTS) {
    jinja_buffer b = {0};
    bool inside = false;
    for (size_t i = 0; i < of.text.n && !r->failed; i++) {
        put_case(r, &b, of.text, i, inside ? JINJA_LOWER : JINJA_TITLE);
        inside = jinja_is_case(of.text.at[i] & JINJA_CODE, JINJA_TITLE);
    }
    return jinja_buffer_value(&b);
}

/* --- ends --------------------------------------------------------------------------------------------------------- */

static jinja_value strip(jinja_run *r, jinja_value of, jinja_value drop, jinja_side side) {
    if (!jinja_given(drop)) return jinja_of_text(jinja_strip(r, of.text, NULL, side));
    const jinja_text drop_chars = jinja_need_text(r, drop, "the argument of strip");
    return jinja_of_text(jinja_strip(r, of.text, &drop_chars, side));
}

static jinja_value text_strip(JINJA_ARGUMENTS) { return strip(r, of, arg[0], JINJA_BOTH); }
static jinja_value text_lstrip(JINJA_ARGUMENTS) { return strip(r, of, arg[0], JINJA_LEFT); }
static jinja_value text_rstrip(JINJA_ARGUMENTS) { return strip(r, of, arg[0], JINJA_RIGHT); }

/* Whether a text begins (end: ends) with a part. */
static bool has_end(jinja_run *r, jinja_text text, jinja_text part, bool end) {
    if (part.n > text.n) return false;
    const size_t at = end ? text.n - part.n : 0;
    return jinja_text_equal(r, jinja_part(text, at, at + part.n), part);
}

/* text[start:end] for the optional arguments bounds[0] and bounds[1]. */
static jinja_text within(jinja_run *r, jinja_text text, const jinja_value *bounds) {
    const jinja_value all[3] = {jinja_given(bounds[0]) ? bounds[0] : jinja_none(),
                                jinja_given(bounds[1]) ? bounds[1] : jinja_none(), jinja_none()};
    return jinja_slice(r, jinja_of_text(text), all).text;
}

static jinja_value has_any_end(jinja_run *r, jinja_value of, const jinja_value *arg, bool end) {
    const jinja_text text = within(r, of.text, arg + 1);
    if (arg[0].kind != JINJA_TUPLE)
        return jinja_bool(has_end(r, text, jinja_need_text(r, arg[0], "a prefix or suffix"), end));
    for (size_t i = 0; i < arg[0].list->n && jinja_step(r, 1); i++)
        if (has_end(r, text, jinja_need_text(r, arg[0].list->item[i], "a prefix or suffix"), end))
            return jinja_bool(true);
    return jinja_bool(false);
}

static jinja_value text_startswith(JINJA_ARGUMENTS) { return has_any_end(r, of, arg, false); }
static jinja_value text_endswith(JINJA_ARGUMENTS) { return has_any_end(r, of, arg, true); }

static jinja_value text_removeprefix(JINJA_ARGUMENTS) {
    const jinja_text part = jinja_need_text(r, arg[0], "a prefix");
    return has_end(r, of.text, part, false) ? jinja_of_text(jinja_part(of.text, part.n, of.text.n)) : of;
}

static jinja_value text_removesuffix(JINJA_ARGUMENTS) {
    const jinja_text part = jinja_need_text(r, arg[0], "a suffix");
    return has_end(r, of.text, part, true) ? jinja_of_text(jinja_part(of.text, 0, of.text.n - part.n)) : of;
}

/* --- places ------------------------------------------------------------------------------------------------------- */

/* The index of a part within optional bounds; -1 when it is not there. */
static int64_t place(jinja_run *r, jinja_value of, const jinja_value *arg, bool last) {
    const jinja_text part = jinja_need_text(r, arg[0], "the text to find");
    const jinja_text inside = within(r, of.text, arg + 1);
    if (r->failed) return -1;
    if (jinja_given(arg[1]) && jinja_need_int(r, arg[1], "start") > (int64_t)of.text.n) return -1;
    const size_t at = (last ? jinja_find_last : jinja_find)(r, inside, part, 0, inside.n);
    return at == SIZE_MAX ? -1 : (int64_t)at + (inside.at - of.text.at);
}

static jinja_value text_find(JINJA_ARGUMENTS) { return jinja_int(place(r, of, arg, false)); }
static jinja_value text_rfind(JINJA_ARGUMENTS) { return jinja_int(place(r, of, arg, true)); }

static jinja_value index_of(jinja_run *r, int64_t at) {
    return at < 0 ? jinja_fail(r, LS_INVALID, "index: the text has no such part") : jinja_int(at);
}

static jinja_value text_index(JINJA_ARGUMENTS) { return index_of(r, place(r, of, arg, false)); }
static jinja_value text_rindex(JINJA_ARGUMENTS) { return index_of(r, place(r, of, arg, true)); }

static jinja_value text_count(JINJA_ARGUMENTS) {
    const jinja_text part = jinja_need_text(r, arg[0], "the text to count"), inside = within(r, of.text, arg + 1);
    int64_t count = 0;
    if (r->failed) return of;
    if (part.n == 0) return jinja_int((int64_t)inside.n + 1);
    for (size_t at = 0; jinja_step(r, 1) && (at = jinja_find(r, inside, part, at, inside.n)) != SIZE_MAX; at += part.n)
        count++;
    return jinja_int(count);
}

/* --- replacing ---------------------------------------------------------------------------------------------------- */

jinja_value jinja_replaced(jinja_run *r, jinja_text text, jinja_text old, jinja_text new, int64_t most) {
    jinja_buffer b = {0};
    size_t done = 0;
    for (size_t at = 0; most != 0 && !r->failed && jinja_step(r, 1); most--) {
        const size_t found = jinja_find(r, text, old, at, text.n);
        if (found == SIZE_MAX) break;
        jinja_put(r, &b, jinja_part(text, done, found));
        jinja_put(r, &b, new);
        done = found + old.n;
        at = old.n > 0 ? done : found + 1; /* an empty `old` is replaced between all characters */
    }
    jinja_put(r, &b, jinja_part(text, done, text.n));
    return jinja_buffer_value(&b);
}

static jinja_value text_replace(JINJA_ARGUMENTS) {
    const jinja_text old = jinja_need_text(r, arg[0], "the first argument of replace");
    const jinja_text new = jinja_need_text(r, arg[1], "the second argument of replace");
    const int64_t most = jinja_given(arg[2]) ? jinja_need_int(r, arg[2], "the count of replace") : -1;
    return r->failed ? of : jinja_replaced(r, of.text, old, new, most);
}

/* --- splitting and joining ---------------------------------------------------------------------------------------- */

static void add_part(jinja_run *r, jinja_list *list, jinja_text text, size_t from, size_t to) {
    jinja_add(r, list, jinja_of_text(jinja_part(text, from, to)));
}

static void split_space(jinja_run *r, jinja_text text, int64_t most, jinja_list *out) {
    jinja_step_text(r, text.n);
    for (size_t at = 0; !r->failed; most--) {
        while (at < text.n && jinja_is_space(text.at[at] & JINJA_CODE)) at++;
        if (at == text.n) return;
        size_t end = at;
        while (end < text.n && !jinja_is_space(text.at[end] & JINJA_CODE)) end++;
        if (most == 0) end = text.n;
        add_part(r, out, text, at, end);
        if (most == 0) return;
        at = end;
    }
}

static void reverse(jinja_list *list) {
    for (size_t i = 0, k = list->n; i + 1 < k; i++) {
        const jinja_value other = list->item[--k];
        list->item[k] = list->item[i];
        list->item[i] = other;
    }
}

static void split_space_back(jinja_run *r, jinja_text text, int64_t most, jinja_list *out) {
    jinja_step_text(r, text.n);
    for (size_t end = text.n; !r->failed; most--) {
        while (end > 0 && jinja_is_space(text.at[end - 1] & JINJA_CODE)) end--;
        if (end == 0) break;
        size_t at = end;
        while (at > 0 && !jinja_is_space(text.at[at - 1] & JINJA_CODE)) at--;
        if (most == 0) at = 0;
        add_part(r, out, text, at, end);
        if (most == 0) break;
        end = at;
    }
    reverse(out);
}

static void split_at(jinja_run *r, jinja_text text, jinja_text between, int64_t most, jinja_list *out) {
    size_t done = 0;
    for (; most != 0 && !r->failed; most--) {
        const size_t found = jinja_find(r, text, between, done, text.n);
        if (found == SIZE_MAX) break;
        add_part(r, out, text, done, found);
        done = found + between.n;
    }
    add_part(r, out, text, done, text.n);
}

static void split_at_back(jinja_run *r, jinja_text text, jinja_text between, int64_t most, jinja_list *out) {
    size_t end = text.n;
    for (; most != 0 && !r->failed; most--) {
        const size_t found = jinja_find_last(r, text, between, 0, end);
        if (found == SIZE_MAX) break;
        add_part(r, out, text, found + between.n, end);
        end = found;
    }
    add_part(r, out, text, 0, end);
    reverse(out);
}

static jinja_value split(jinja_run *r, jinja_value of, const jinja_value *arg, bool back) {
    jinja_list *list = jinja_new_list(r, 0);
    const int64_t most = jinja_given(arg[1]) ? jinja_need_int(r, arg[1], "maxsplit") : -1;
    if (!jinja_given(arg[0])) {
        (back ? split_space_back : split_space)(r, of.text, most, list);
        return jinja_of_list(JINJA_LIST, list);
    }
    const jinja_text between = jinja_need_text(r, arg[0], "the separator of split");
    if (between.n == 0) return jinja_fail(r, LS_INVALID, "split: the separator is empty");
    (back ? split_at_back : split_at)(r, of.text, between, most, list);
    return jinja_of_list(JINJA_LIST, list);
}

static jinja_value text_split(JINJA_ARGUMENTS) { return split(r, of, arg, false); }
static jinja_value text_rsplit(JINJA_ARGUMENTS) { return split(r, of, arg, true); }

static jinja_value partition(jinja_run *r, jinja_value of, jinja_value at, bool last) {
    const jinja_text between = jinja_need_text(r, at, "the separator of partition"), nothing = {0};
    if (between.n == 0) return jinja_fail(r, LS_INVALID, "partition: the separator is empty");
    const size_t found = (last ? jinja_find_last : jinja_find)(r, of.text, between, 0, of.text.n);
    const bool there = found != SIZE_MAX;
    jinja_list *list = jinja_new_list(r, 3);
    if (there) {
        add_part(r, list, of.text, 0, found);
        jinja_add(r, list, at);
        add_part(r, list, of.text, found + between.n, of.text.n);
    } else {
        jinja_add(r, list, jinja_of_text(last ? nothing : of.text));
        jinja_add(r, list, jinja_of_text(nothing));
        jinja_add(r, list, jinja_of_text(last ? of.text : nothing));
    }
    return jinja_of_list(JINJA_TUPLE, list);
}

static jinja_value text_partition(JINJA_ARGUMENTS) { return partition(r, of, arg[0], false); }
static jinja_value text_rpartition(JINJA_ARGUMENTS) { return partition(r, of, arg[0], true); }

jinja_list *jinja_lines(jinja_run *r, jinja_text text, bool keep_ends) {
    jinja_list *list = jinja_new_list(r, 0);
    jinja_step_text(r, text.n);
    for (size_t from = 0, at = 0; at < text.n && !r->failed; from = at) {
        while (at < text.n && !jinja_is_line_end(text.at[at] & JINJA_CODE)) at++;
        const size_t end = at;
        if (at + 1 < text.n && (text.at[at] & JINJA_CODE) == '\r' && (text.at[at + 1] & JINJA_CODE) == '\n') at++;
        if (at < text.n) at++;
        add_part(r, list, text, from, keep_ends ? at : end);
    }
    return list;
}

static jinja_value text_splitlines(JINJA_ARGUMENTS) {
    return jinja_of_list(JINJA_LIST, jinja_lines(r, of.text, jinja_true(arg[0])));
}

static jinja_value text_join(JINJA_ARGUMENTS) {
    jinja_buffer b = {0};
    const jinja_list *list = jinja_iterate(r, arg[0]);
    for (size_t i = 0; i < list->n && jinja_step(r, 1); i++) {
        if (i > 0) jinja_put(r, &b, of.text);
        jinja_put(r, &b, jinja_need_text(r, list->item[i], "an item of join"));
    }
    return jinja_buffer_value(&b);
}

static jinja_value text_format(JINJA_ARGUMENTS) { return jinja_format_braces(r, of.text, all); }

/* --- padding ------------------------------------------------------------------------------------------------------ */

static jinja_value padded(jinja_run *r, jinja_text text, jinja_value to, jinja_value with,
                          int64_t (*left)(int64_t, int64_t)) {
    const int64_t width = jinja_need_int(r, to, "a width"), n = (int64_t)text.n;
    const jinja_text fill =
        jinja_given(with) ? jinja_need_text(r, with, "fillchar") : jinja_text_of_ascii(r->arena, " ");
    jinja_buffer b = {0};
    if (r->failed || width <= n) return jinja_of_text(text);
    if (fill.n != 1) return jinja_fail(r, LS_INVALID, "fillchar has %zu characters, expected 1", fill.n);
    const int64_t before = left(width - n, width);
    for (int64_t i = 0; i < before && !r->failed; i++) jinja_put(r, &b, fill);
    jinja_put(r, &b, text);
    for (int64_t i = before; i < width - n && !r->failed; i++) jinja_put(r, &b, fill);
    return jinja_buffer_value(&b);
}

static int64_t left_of_center(int64_t room, int64_t width) { return room / 2 + (room & width & 1); }
static int64_t left_of_left(int64_t room, int64_t width) {
    (void)room, (void)width;
    return 0;
}
static int64_t left_of_right(int64_t room, int64_t width) {
    (void)width;
    return room;
}

jinja_value jinja_centered(jinja_run *r, jinja_text text, jinja_value width) {
    return padded(r, text, width, jinja_none(), left_of_center);
}
static jinja_value text_center(JINJA_ARGUMENTS) { return padded(r, of.text, arg[0], arg[1], left_of_center); }
static jinja_value text_ljust(JINJA_ARGUMENTS) { return padded(r, of.text, arg[0], arg[1], left_of_left); }
static jinja_value text_rjust(JINJA_ARGUMENTS) { return padded(r, of.text, arg[0], arg[1], left_of_right); }

/* --- classes ------------------------------------------------------------------------------------------------------ */

static jinja_value all_are(jinja_run *r, jinja_text text, bool (*is)(uint32_t code)) {
    jinja_step_text(r, text.n);
    for (size_t i = 0; i < text.n; i++)
        if (!is(text.at[i] & JINJA_CODE)) return jinja_bool(false);
    return jinja_bool(text.n > 0);
}

static bool is_alphanumeric(uint32_t code) { return jinja_is_word(code) && code != '_'; }
static bool is_ascii(uint32_t code) { return code < 128; }

static jinja_value text_isspace(JINJA_ARGUMENTS) { return all_are(r, of.text, jinja_is_space); }
static jinja_value text_isdigit(JINJA_ARGUMENTS) { return all_are(r, of.text, jinja_is_digit); }
static jinja_value text_isdecimal(JINJA_ARGUMENTS) { return all_are(r, of.text, jinja_is_decimal); }
static jinja_value text_isalpha(JINJA_ARGUMENTS) { return all_are(r, of.text, jinja_is_alphabetic); }
static jinja_value text_isalnum(JINJA_ARGUMENTS) { return all_are(r, of.text, is_alphanumeric); }
static jinja_value text_isascii(JINJA_ARGUMENTS) {
    return jinja_bool(of.text.n == 0 || jinja_true(all_are(r, of.text, is_ascii)));
}

bool jinja_text_is_case(jinja_run *r, jinja_text text, jinja_case which) {
    bool some = false;
    jinja_step_text(r, text.n);
    for (size_t i = 0; i < text.n; i++) {
        const uint32_t code = text.at[i] & JINJA_CODE;
        const bool is = jinja_is_case(code, which);
        if (!is && jinja_is_case(code, JINJA_TITLE)) return false;
        some |= is;
    }
    return some;
}

static jinja_value text_islower(JINJA_ARGUMENTS) { return jinja_bool(jinja_text_is_case(r, of.text, JINJA_LOWER)); }
static jinja_value text_isupper(JINJA_ARGUMENTS) { return jinja_bool(jinja_text_is_case(r, of.text, JINJA_UPPER)); }

/* --- the table ---------------------------------------------------------------------------------------------------- */

static const jinja_function methods[] = {
    {"strip", text_strip, 0, {"chars"}, false},
    {"lstrip", text_lstrip, 0, {"chars"}, false},
    {"rstrip", text_rstrip, 0, {"chars"}, false},
    {"startswith", text_startswith, 1, {"prefix", "start", "end"}, false},
    {"endswith", text_endswith, 1, {"suffix", "start", "end"}, false},
    {"removeprefix", text_removeprefix, 1, {"prefix"}, false},
    {"removesuffix", text_removesuffix, 1, {"suffix"}, false},
    {"lower", text_lower, 0, {NULL}, false},
    {"upper", text_upper, 0, {NULL}, false},
    {"title", text_title, 0, {NULL}, false},
    {"capitalize", text_capitalize, 0, {NULL}, false},
    {"find", text_find, 1, {"sub", "start", "end"}, false},
    {"rfind", text_rfind, 1, {"sub", "start", "end"}, false},
    {"index", text_index, 1, {"sub", "start", "end"}, false},
    {"rindex", text_rindex, 1, {"sub", "start", "end"}, false},
    {"count", text_count, 1, {"sub", "start", "end"}, false},
    {"replace", text_replace, 2, {"old", "new", "count"}, false},
    {"split", text_split, 0, {"sep", "maxsplit"}, false},
    {"rsplit", text_rsplit, 0, {"sep", "maxsplit"}, false},
    {"partition", text_partition, 1, {"sep"}, false},
    {"rpartition", text_rpartition, 1, {"sep"}, false},
    {"splitlines", text_splitlines, 0, {"keepends"}, false},
    {"join", text_join, 1, {"iterable"}, false},
    {"format", text_format, 0, {NULL}, true},
    {"center", text_center, 1, {"width", "fillchar"}, false},
    {"ljust", text_ljust, 1, {"width", "fillchar"}, false},
    {"rjust", text_rjust, 1, {"width", "fillchar"}, false},
    {"isspace", text_isspace, 0, {NULL}, false},
    {"isdigit", text_isdigit, 0, {NULL}, false},
    {"isdecimal", text_isdecimal, 0, {NULL}, false},
    {"isalpha", text_isalpha, 0, {NULL}, false},
    {"isalnum", text_isalnum, 0, {NULL}, false},
    {"isascii", text_isascii, 0, {NULL}, false},
    {"islower", text_islower, 0, {NULL}, false},
    {"isupper", text_isupper, 0, {NULL}, false},
};

const jinja_function *jinja_find_text_method(jinja_text name) {
    for (size_t i = 0; i < LS_COUNT(methods); i++)
        if (jinja_is(name, methods[i].name)) return &methods[i];
    return NULL;
}
