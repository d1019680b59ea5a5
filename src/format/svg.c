/* Pictures in SVG: shapes, the width of text, and the common style. */
#include "format/svg.h"
#include "format/file.h"
#include "format/format_impl.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void print_escaped(FILE *out, const char *text) {
    for (; *text; text++) {
        switch (*text) {
        case '&':
            fputs("&amp;", out);
            break;
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        default:
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
        }
    }
}

void ls_svg_text(FILE *out, const char *css, double x, double y, const char *text) {
    ls_print_to(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", css, x, y);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

void ls_svg_text_upwards(FILE *out, const char *css, double x, double y, const char *text) {
    ls_print_to(out, "<text class=\"%s\" transform=\"translate(%.0f %.0f) rotate(-90)\">", css, x, y);
    print_escaped(out, text);
    fputs("</text>\n", out);
}

void ls_svg_line(FILE *out, const char *css, double x1, double y1, double x2, double y2) {
    ls_print_to(out, "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", css, x1, y1, x2, y2);
}

void ls_svg_box(FILE *out, const char *css, double x, double y, double width, double height, const char *tip) {
    ls_print_to(out, "<rect class=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\"", css, x, y, width,
                height);
    if (tip == NULL) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    print_escaped(out, tip);
    fputs("</title></rect>\n", out);
}

double ls_svg_round_step(double span, int most) {
    double least = span / most, power = pow(10, floor(log10(least)));
    static const double nice[] = {1, 2, 5, 10};
    for (size_t i = 0; i < LS_COUNT(nice); i++)
        if (nice[i] * power >= least * (1 - 1e-9)) return nice[i] * power;
    return 10 * power;
}

/* ---- the width of text, estimated from the number of characters: the reader's font is not known ---- */

static bool begins_character(char byte) { return ((unsigned char)byte & 0xc0) != 0x80; }

static double character_width(double font_size) { return font_size * 0.543; }

double ls_svg_text_width(const char *text, double font_size) {
    int characters = 0;
    for (; *text; text++) characters += begins_character(*text);
    return characters * character_width(font_size);
}

const char *ls_svg_fit(const char *text, double font_size, double width, char *out, size_t room) {
    const int most = (int)(width / character_width(font_size));
    int characters = 0;
    size_t used = 0;
    for (; text[used] && used + 1 < room; used++) {
        if (begins_character(text[used]) && ++characters > most) break;
        out[used] = text[used];
    }
    out[used] = 0;
    return out;
}

/* ---- the common style ---- */

static void print_palettes(FILE *out, const ls_svg_look *look, bool dark) {
    for (int p = 0; p < look->n_palettes; p++) {
        const ls_svg_palette *palette = &look->palettes[p];
        for (int i = 0; i < palette->n; i++)
            fprintf(out, ".%s%d{%s:%s}\n", palette->name, i, palette->property,
                    dark ? palette->dark[i] : palette->light[i]);
    }
}

static void print_style(FILE *out, const ls_svg_look *look) {
    fputs("<style>\n"
          "text{font-family:system-ui,-apple-system,'Segoe UI','Helvetica Neue',Arial,sans-serif;fill:#57606a;"
          "font-size:14px}\n"
          ".title{font-size:20px;font-weight:600;fill:#1f2328}\n"
          ".strong{font-weight:600;fill:#1f2328}.small{font-size:12px}\n"
          ".x{text-anchor:middle}.y{text-anchor:end}.middle{text-anchor:middle;font-size:18px}\n"
          ".paper{fill:#fff;stroke:#d0d7de}.grid{stroke:#e6eaef}.axis{stroke:#8c959f}\n"
          ".level{stroke:#6e7781;stroke-width:1.5;stroke-dasharray:6 5}\n",
          out);
    if (look->light != NULL) fputs(look->light, out);
    print_palettes(out, look, false);
    fputs("@media (prefers-color-scheme:dark){text{fill:#9da7b3}.title,.strong{fill:#e6edf3}\n"
          ".paper{fill:#0d1117;stroke:#30363d}.grid{stroke:#21262d}\n"
          ".axis{stroke:#6e7681}.level{stroke:#8b949e}\n",
          out);
    if (look->dark != NULL) fputs(look->dark, out);
    print_palettes(out, look, true);
    fputs("}\n</style>\n", out);
}

static void print_picture(FILE *out, const ls_svg_look *look, ls_svg_draw draw, const void *context) {
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
            "viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\">\n",
            look->width, look->height, look->width, look->height);
    print_style(out, look);
    fprintf(out, "<rect class=\"paper\" x=\".5\" y=\".5\" width=\"%d\" height=\"%d\" rx=\"8\"/>\n", look->width - 1,
            look->height - 1);
    draw(out, context);
    fputs("</svg>\n", out);
}

ls_status ls_svg_write(const char *path, const ls_svg_look *look, ls_svg_draw draw, const void *context) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out) return ls_error(LS_NO_MEMORY, "no memory to draw %s", path);
    print_picture(out, look, draw, context);
    bool failed = ferror(out) != 0;
    failed = fclose(out) != 0 || failed;
    ls_status status = failed ? ls_error(LS_NO_MEMORY, "no memory to draw %s", path) : ls_file_write(path, text, bytes);
    free(text);
    return status;
}
