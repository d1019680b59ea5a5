/*
 * A program as a page for readers. After the head come the states of persistent buffers, as the program needs and
 * leaves them:
 *
 *   states  NAME needed → left · ...
 *
 * without an arrow if it leaves the state that it found, and without inputs and tables, which the host sets. Then there
 * is one line for each instruction:
 *
 *   NUMBER  QUEUE  OP  inputs → outputs   [rank R "channel" gen G]   [after N, put N done, ...]
 *
 * Operands print as name[sizes], with +offset if they begin inside their buffer, and @R if they lie in the heap of rank
 * R.
 */
#include "program/program.h"

#include "base/base.h"

#include <string.h>

static void print_bytes(FILE *out, size_t bytes) {
    char text[LS_BYTES_TEXT];
    fputs(ls_bytes_text((double)bytes, text), out);
}

/* The parameter that begins at element `start` of the flat space and has `count` elements, or NULL. */
static const ls_flat *flat_at(const ls_image *image, int64_t start, int64_t count) {
    for (int i = 0; i < image->n_flats; i++) {
        if (image->flats[i].start == start && image->flats[i].count == count) return &image->flats[i];
    }
    return NULL;
}

/* A program as one rank runs it. */
typedef struct program_page {
    const ls_image *image;
    const ls_program *program;
    int rank;
} program_page;

/*
 * Prints the name of the operand's buffer; if the buffer has many parameters or gradients, the name of the parameter.
 */
static void print_name(const program_page *page, const ls_operand *o, FILE *out) {
    const ls_image *image = page->image;
    const ls_buffer *b = &image->buffers[o->buffer];
    const size_t offset = o->offset + ls_operand_displacement(image, o, page->rank);
    const int64_t start = (int64_t)(offset / ls_dtype_bytes(o->view.dtype));
    const ls_flat *flat = NULL;
    if (b->flat >= 0) flat = flat_at(image, b->flat + start, ls_view_elements(&o->view));
    if (flat != NULL)
        fprintf(out, "%s%s", b->kind == LS_BUFFER_GRADIENT ? "grad " : "", flat->name);
    else if (offset != 0)
        fprintf(out, "%s+%zu", b->name, offset);
    else
        fputs(b->name, out);
}

static void print_operand(const program_page *page, const ls_operand *o, FILE *out) {
    print_name(page, o, out);
    fputc('[', out);
    for (int i = 0; i < o->view.ndim; i++) fprintf(out, "%s%lld", i > 0 ? "," : "", (long long)o->view.size[i]);
    fputc(']', out);
    if (!ls_peer_is_self(o->peer)) fprintf(out, "@%d", ls_peer_rank(page->image, o->peer, page->rank));
}

static void print_list(const program_page *page, const ls_operand *list, int n, const char *between, FILE *out) {
    for (int i = 0; i < n; i++) {
        if (i > 0) fputs(between, out);
        print_operand(page, &list[i], out);
    }
}

static void print_word(const program_page *page, const ls_instr *instr, FILE *out) {
    fprintf(out, "rank %d \"%s\" gen %llu", ls_peer_rank(page->image, instr->peer, page->rank),
            page->program->channels[instr->channel].name, (unsigned long long)instr->generation);
}

static void print_kernel(const program_page *page, const ls_instr *instr, FILE *out) {
    print_list(page, instr->in, instr->n_in, " · ", out);
    fputs(instr->n_in > 0 ? " → " : "→ ", out);
    print_list(page, instr->out, instr->n_out, ", ", out);
    if (instr->kernel->row != NULL) fprintf(out, "   by %s", instr->kernel->row);
}

static void print_put(const program_page *page, const ls_instr *instr, FILE *out) {
    if (instr->counted > 0) {
        print_operand(page, ls_instr_count(instr), out);
        fputs(" rows of ", out);
    }
    print_operand(page, &instr->in[0], out);
    fputs(" → ", out);
    print_operand(page, &instr->out[0], out);
    fputs(" of ", out);
    print_word(page, instr, out);
}

/* Prints an instruction that only sets or awaits a word. */
static void print_plain(const program_page *page, const ls_instr *instr, FILE *out) {
    const ls_operand *subject = ls_instr_subject(instr);
    if (subject != NULL) {
        print_operand(page, subject, out);
        fputc(' ', out);
    }
    print_word(page, instr, out);
}

static void print_instr(const program_page *page, const ls_instr *instr, FILE *out) {
    if (instr->kind == LS_INSTR_KERNEL)
        print_kernel(page, instr, out);
    else if (instr->kind == LS_INSTR_PUT)
        print_put(page, instr, out);
    else
        print_plain(page, instr, out);
}

static void print_after(const ls_instr *instr, FILE *out) {
    for (int i = 0; i < instr->n_after; i++) {
        const ls_after *after = &instr->after[i];
        fprintf(out, after->done ? "%sput %d done" : "%s%d", i == 0 ? "   after " : ", ", after->instr);
    }
}

/* Prints the states of each buffer that programs leave to each other. */
static void print_states(const ls_image *image, const ls_program *p, FILE *out) {
    const char *between = "states  ";
    for (int i = 0; i < image->n_buffers; i++) {
        const ls_buffer *b = &image->buffers[i];
        if (b->program >= 0 || b->kind == LS_BUFFER_INPUT || b->kind == LS_BUFFER_TABLE) continue;
        const ls_effect_traits *effect = &ls_effect_traits_of[p->kept[i].effect];
        if (effect->needs == 0 && effect->leaves == 0) continue;
        char needs[LS_STATES_TEXT], leaves[LS_STATES_TEXT];
        fprintf(out, "%s%s %s%s%s", between, b->name,
                effect->needs != 0 ? ls_states_text(effect->needs, needs) : "anything",
                effect->leaves != 0 ? " → " : "", ls_states_text(effect->leaves, leaves));
        between = " · ";
    }
    fputc('\n', out);
}

void ls_program_print(const ls_image *image, int program, int rank, FILE *out) {
    const ls_program *p = &image->programs[program];
    const program_page page = {image, p, rank};
    char mesh[64];
    ls_mesh_print(&image->mesh, mesh, sizeof mesh);
    const ls_program_cost cost = ls_program_measure(image, program);
    fprintf(out, "program %s · rank %d of %d · %s · %s · %s · S %lld · %s · private ", p->name, rank,
            ls_mesh_ranks(&image->mesh), mesh, image->strategy, ls_layout_name(image->layout.kind),
            (long long)image->layout.S, ls_dtype_name(image->dtype));
    print_bytes(out, image->bytes[LS_PRIVATE]);
    fputs(" · symmetric ", out);
    print_bytes(out, image->bytes[LS_SYMMETRIC]);
    for (int s = 0; s < LS_SPACES; s++) {
        if (ls_space_is_usual((ls_space)s) || image->bytes[s] == 0) continue;
        fprintf(out, " · %s ", ls_space_texts[s].name);
        print_bytes(out, image->bytes[s]);
    }
    ls_print_to(out, " · %.4g GFLOP · sends ", cost.flops * 1e-9);
    print_bytes(out, (size_t)cost.bytes_sent);
    fprintf(out, " in %d puts", cost.transfers);
    if (cost.bytes_read > 0) {
        fputs(" · reads ", out);
        print_bytes(out, (size_t)cost.bytes_read);
        fputs(" in place", out);
    }
    fputc('\n', out);
    print_states(image, p, out);
    for (int i = 0; i < p->n_instrs; i++) {
        const ls_instr *instr = &p->instrs[i];
        fprintf(out, "%5d  %-7s  %-16s ", i, ls_queue_name(instr->queue), instr->op);
        print_instr(&page, instr, out);
        print_after(instr, out);
        fputc('\n', out);
    }
}
