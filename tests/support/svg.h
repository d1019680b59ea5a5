/* Checks for any SVG. Include after the header of cmocka and support/scratch.h. */
#ifndef TESTS_SVG_H
#define TESTS_SVG_H

/* Every tag is closed in order, and every & and < is escaped. */
static inline void assert_well_formed(const char *text) {
    const char *open[16];
    int depth = 0;
    for (const char *p = text; *p; p++) {
        if (*p == '&') assert_true(!strncmp(p, "&amp;", 5) || !strncmp(p, "&lt;", 4) || !strncmp(p, "&gt;", 4));
        if (*p != '<') continue;
        const char *end = strchr(p, '>');
        assert_non_null(end);
        if (p[1] == '/') {
            assert_true(depth > 0);
            size_t n = (size_t)(end - p - 2);
            assert_memory_equal(open[--depth], p + 2, n);
        } else if (end[-1] != '/') {
            assert_true(depth < 16);
            open[depth++] = p + 1;
        }
        p = end;
    }
    assert_int_equal(depth, 0);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
}

static inline int occurrences(const char *text, const char *word) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, word)); p += strlen(word)) n++;
    return n;
}

#endif
