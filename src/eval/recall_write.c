/* The grid of a recall evaluation as text, JSON and a picture. */
#include "eval/recall_impl.h"
#include "format/format.h"

#include <stdio.h>

static double part(const ls_recall_cell *c) {
    return c->samples > 0 ? (double)c->right / (double)c->samples : 0;
}

static ls_recall_cell total(const ls_recall_result *r) {
    ls_recall_cell all = {0, 0, 0};
    for (int l = 0; l < r->n_lengths; l++) {
        for (int d = 0; d < r->n_depths; d++) {
            all.samples += r->cell[l][d].samples;
            all.right += r->cell[l][d].right;
            all.loss += r->cell[l][d].loss / (double)(r->n_lengths * r->n_depths);
        }
    }
    return all;
}

/* A result as ls_recall makes it, and somewhere to write it. */
static bool can_write(const ls_recall_result *r, FILE *out) {
    return r != NULL && out != NULL && r->n_lengths <= LS_RECALL_LENGTHS && r->n_depths <= LS_RECALL_DEPTHS;
}

void ls_recall_print(const ls_recall_result *r, FILE *out) {
    if (!can_write(r, out)) return;
    fprintf(out, "%-8s", "depth");
    for (int l = 0; l < r->n_lengths; l++) fprintf(out, " %9lld", (long long)r->length[l]);
    fputs("   tokens\n", out);
    for (int d = 0; d < r->n_depths; d++) {
        fprintf(out, "%5.0f %% ", 100 * r->depth[d]);
        for (int l = 0; l < r->n_lengths; l++) fprintf(out, " %7.0f %%", 100 * part(&r->cell[l][d]));
        fputc('\n', out);
    }
    const ls_recall_cell all = total(r);
    fprintf(out, "\n%lld of %lld pass keys right · loss of an answer's token %.4f nats\n",
            (long long)all.right, (long long)all.samples, all.loss);
}

static void put(const ls_recall_result *r, ls_json_writer *w) {
    const ls_recall_cell all = total(r);
    ls_json_put_double(w, "accuracy", part(&all));
    ls_json_put_double(w, "loss", all.loss);
    ls_json_put_int(w, "samples", all.samples);
    ls_json_put_double(w, "seconds", r->seconds);
    ls_json_open_array(w, "cells");
    for (int l = 0; l < r->n_lengths; l++) {
        for (int d = 0; d < r->n_depths; d++) {
            const ls_recall_cell *c = &r->cell[l][d];
            ls_json_open_object(w, NULL);
            ls_json_put_int(w, "length", r->length[l]);
            ls_json_put_double(w, "depth", r->depth[d]);
            ls_json_put_int(w, "samples", c->samples);
            ls_json_put_int(w, "right", c->right);
            ls_json_put_double(w, "accuracy", part(c));
            ls_json_put_double(w, "loss", c->loss);
            ls_json_close(w);
        }
    }
    ls_json_close(w);
}

void ls_recall_result_json(const ls_recall_result *result, FILE *out) {
    if (!can_write(result, out)) return;
    ls_json_writer *w = ls_json_begin(0);
    put(result, w);
    ls_json_end(w, out);
}

/* --- the picture ----------------------------------------------------------------------------------------------------------- */

enum {
    LEFT = 92,
    TOP = 92,
    RIGHT = 40,
    BOTTOM = 64,
    CELL_WIDTH = 84,
    CELL_HEIGHT = 44,
    SHADES = 6,
    LEAST_COLUMNS = 5
};

/* From nothing right to all right: one hue, told apart by lightness too. */
static const char *const light_shades[SHADES] = {"#f3f4f6", "#d3e4f5", "#a5c9ea",
                                                 "#6ba6d9", "#2f7fc1", "#0b5394"};
static const char *const dark_shades[SHADES] = {"#23262c", "#1f3a54", "#22527c",
                                                "#2a6ea8", "#3d8dd0", "#6cb4f2"};
/* Of the numbers in them. */
static const char *const light_ink[SHADES] = {"#3b3f46", "#22303c", "#16222d",
                                              "#0d1720", "#ffffff", "#ffffff"};
static const char *const dark_ink[SHADES] = {"#c9ccd2", "#dbe6f0", "#e6eff8",
                                             "#f2f7fc", "#ffffff", "#0d1720"};

static int shade_of(double accuracy) {
    if (accuracy >= 1) return SHADES - 1;
    const int shade = (int)(accuracy * (SHADES - 1) + 0.999);
    return shade < SHADES - 1 ? shade
                              : SHADES - 2; /* the strongest is for all right, the faintest for none */
}

static void draw_cell(FILE *out, const ls_recall_result *r, int l, int d) {
    const ls_recall_cell *c = &r->cell[l][d];
    const double x = LEFT + l * CELL_WIDTH, y = TOP + d * CELL_HEIGHT;
    char css[24], text[160];
    const int shade = shade_of(part(c));
    snprintf(css, sizeof css, "s%d", shade);
    snprintf(text, sizeof text, "%lld tokens, depth %.0f %%: %lld of %lld right, loss %.4f",
             (long long)r->length[l], 100 * r->depth[d], (long long)c->right, (long long)c->samples, c->loss);
    ls_svg_box(out, css, x + 1, y + 1, CELL_WIDTH - 2, CELL_HEIGHT - 2, text);
    snprintf(css, sizeof css, "x i%d", shade);
    snprintf(text, sizeof text, "%.0f %%", 100 * part(c));
    ls_svg_text(out, css, x + CELL_WIDTH / 2.0, y + CELL_HEIGHT / 2.0 + 5, text);
}

static void draw(FILE *out, const void *context) {
    const ls_recall_result *r = context;
    const ls_recall_cell all = total(r);
    const double bottom = TOP + r->n_depths * CELL_HEIGHT;
    char text[120];
    ls_svg_text(out, "title", LEFT, 38, "Recall of a pass key");
    snprintf(text, sizeof text, "%lld of %lld right", (long long)all.right, (long long)all.samples);
    ls_svg_text(out, "small", LEFT, 64, text);
    for (int d = 0; d < r->n_depths; d++) {
        snprintf(text, sizeof text, "%.0f %%", 100 * r->depth[d]);
        ls_svg_text(out, "y", LEFT - 10, TOP + (d + 0.5) * CELL_HEIGHT + 5, text);
        for (int l = 0; l < r->n_lengths; l++) draw_cell(out, r, l, d);
    }
    for (int l = 0; l < r->n_lengths; l++) {
        snprintf(text, sizeof text, "%lld", (long long)r->length[l]);
        ls_svg_text(out, "x", LEFT + (l + 0.5) * CELL_WIDTH, bottom + 22, text);
    }
    ls_svg_text(out, "x", LEFT + r->n_lengths * CELL_WIDTH / 2.0, bottom + 48, "tokens");
    ls_svg_text_upwards(out, "x", 24, (TOP + bottom) / 2, "depth of the key");
}

ls_status ls_recall_write(const ls_recall_result *r, const char *directory) {
    LS_PATH path = NULL;
    LS_TRY(ls_path_join(directory, "recall.json", &path));
    ls_json_writer *w = ls_json_begin(2);
    put(r, w);
    LS_TRY(ls_json_end_file(w, path));
    LS_TRY(ls_path_join(directory, "recall.svg", &path));
    const ls_svg_palette palettes[] = {{"s", "fill", light_shades, dark_shades, SHADES},
                                       {"i", "fill", light_ink, dark_ink, SHADES}};
    const int columns = r->n_lengths > LEAST_COLUMNS ? r->n_lengths : LEAST_COLUMNS;
    const ls_svg_look look = {.width = LEFT + columns * CELL_WIDTH + RIGHT,
                              .height = TOP + r->n_depths * CELL_HEIGHT + BOTTOM,
                              .palettes = palettes,
                              .n_palettes = 2};
    return ls_svg_write(path, &look, draw, r);
}
