/*
 * Shapes from which pictures in SVG are drawn: text, lines, boxes, in one look. A picture carries its own background
 * and follows the reader's colour scheme, so it reads on white and on dark.
 *
 * css names one or more classes of the look: "title" "strong" "small" for text, "x" (centred), "y" (to the left of the point),
 * "grid" "axis" "level" "paper" for lines and boxes; and those of the picture's own palettes.
 */
#ifndef LS_FORMAT_SVG_SHAPES_H
#define LS_FORMAT_SVG_SHAPES_H

#include <stdio.h>

#include "longspan/status.h"

/* Colours of classes NAME0, NAME1, ..., on white and on dark. */
typedef struct ls_svg_palette {
    const char *name;
    const char *property; /* "fill" or "stroke" */
    const char *const *light, *const *dark;
    int n;
} ls_svg_palette;

typedef struct ls_svg_look {
    int width, height;
    const char *light, *dark; /* further rules of CSS; NULL: none */
    const ls_svg_palette *palettes;
    int n_palettes;
} ls_svg_look;

typedef void (*ls_svg_draw)(FILE *out, const void *context);

/* Background, then what draw adds, as a whole file. LS_IO errors name it. */
LS_MUST_USE ls_status ls_svg_write(const char *path, const ls_svg_look *look, ls_svg_draw draw,
                                   const void *context);

void ls_svg_text(FILE *out, const char *css, double x, double y, const char *text);
/* The same upwards, turned about (x,y). */
void ls_svg_text_upwards(FILE *out, const char *css, double x, double y, const char *text);
void ls_svg_line(FILE *out, const char *css, double x1, double y1, double x2, double y2);
/* tip: shown when the pointer rests on the box; NULL: none. */
void ls_svg_box(FILE *out, const char *css, double x, double y, double width, double height, const char *tip);

/* The smallest of 1, 2, 5 times a power of ten that cuts the span > 0 into at most `most` parts: the distance of ticks. */
double ls_svg_round_step(double span, int most);

/* About how wide a text of this font size is, and the first characters of a text that fit; out has room bytes. */
double ls_svg_text_width(const char *text, double font_size);
const char *ls_svg_fit(const char *text, double font_size, double width, char *out, size_t room);

#endif
