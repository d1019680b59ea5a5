#include "classes.h"

#include <string.h>

static bool views_equal(const ls_view *a, const ls_view *b) { return a->dtype == b->dtype && ls_view_same_form(a, b); }

static bool operands_equal(const ls_operand *a, const ls_operand *b, int n) {
    for (int i = 0; i < n; i++) {
        if (a[i].buffer != b[i].buffer) return false;
        if (a[i].buffer < 0) continue;
        if (a[i].displacement != b[i].displacement || !ls_peer_equal(a[i].peer, b[i].peer) ||
            a[i].offset != b[i].offset || a[i].value != b[i].value || !views_equal(&a[i].view, &b[i].view))
            return false;
    }
    return true;
}

static bool after_equal(const ls_instr *a, const ls_instr *b) {
    bool equal = a->n_after == b->n_after;
    for (int i = 0; equal && i < a->n_after; i++)
        equal = a->after[i].queue == b->after[i].queue && a->after[i].instr == b->after[i].instr &&
                a->after[i].done == b->after[i].done;
    return equal;
}

/* Of attention, the only kernel whose params follow from which heads a rank has. */
static bool params_equal(const ls_instr *a, const ls_instr *b) {
    if (a->kernel == NULL || (a->kernel->id != LS_KERNEL_ATTENTION && a->kernel->id != LS_KERNEL_ATTENTION_GRAD))
        return true;
    const ls_attention_params *x = a->params, *y = b->params;
    return x->scale == y->scale && x->softcap == y->softcap && x->group == y->group && x->first_q == y->first_q &&
           x->first_kv == y->first_kv && x->merge == y->merge && x->accumulate_dq == y->accumulate_dq &&
           x->accumulate_dkv == y->accumulate_dkv && x->band.known == y->band.known && x->band.low == y->band.low &&
           x->band.high == y->band.high;
}

static bool instrs_equal(const ls_instr *a, const ls_instr *b) {
    return a->kind == b->kind && a->queue == b->queue && strcmp(a->op, b->op) == 0 && a->n_in == b->n_in &&
           a->n_out == b->n_out && a->kernel == b->kernel && params_equal(a, b) && a->flops == b->flops &&
           a->rows == b->rows && a->counted == b->counted && a->likely == b->likely &&
           ls_peer_equal(a->peer, b->peer) && a->channel == b->channel && a->generation == b->generation &&
           ls_epoch_compare(a->epoch, b->epoch) == 0 && after_equal(a, b) && a->number == b->number &&
           a->transfer == b->transfer && operands_equal(a->in, b->in, a->n_in) &&
           operands_equal(a->out, b->out, a->n_out) && operands_equal(a->workspace, b->workspace, 1);
}

static bool kept_equal(const ls_kept *a, const ls_kept *b, int n) {
    bool equal = true;
    for (int i = 0; i < n; i++) equal = equal && a[i].effect == b[i].effect && a[i].left == b[i].left;
    return equal;
}

static bool programs_equal(const ls_program *a, const ls_program *b, int n_buffers) {
    if (strcmp(a->name, b->name) != 0 || !kept_equal(a->kept, b->kept, n_buffers) || a->n_instrs != b->n_instrs ||
        a->n_channels != b->n_channels || a->first_word != b->first_word)
        return false;
    for (int c = 0; c < a->n_channels; c++)
        if (strcmp(a->channels[c].name, b->channels[c].name) != 0 ||
            memcmp(a->channels[c].uses, b->channels[c].uses, sizeof a->channels[c].uses) != 0)
            return false;
    for (int i = 0; i < a->n_instrs; i++)
        if (!instrs_equal(&a->instrs[i], &b->instrs[i])) return false;
    return true;
}

static bool buffers_equal(const ls_buffer *a, const ls_buffer *b) {
    return strcmp(a->name, b->name) == 0 && a->space == b->space && a->kind == b->kind && a->bytes == b->bytes &&
           a->offset == b->offset && a->program == b->program && a->first == b->first && a->last == b->last;
}

static bool displacements_equal(const ls_displacement *a, const ls_displacement *b) {
    bool equal = a->n == b->n;
    for (int t = 0; equal && t < a->n; t++)
        equal = a->term[t].team == b->term[t].team && a->term[t].shift == b->term[t].shift &&
                a->term[t].bytes == b->term[t].bytes;
    return equal;
}

bool images_equal(const ls_image *a, const ls_image *b) {
    if (a->n_buffers != b->n_buffers || a->n_teams != b->n_teams || a->n_displacements != b->n_displacements ||
        a->n_pieces != b->n_pieces || a->flat_elements != b->flat_elements || a->words != b->words ||
        a->n_programs != b->n_programs)
        return false;
    for (int i = 0; i < a->n_buffers; i++)
        if (!buffers_equal(&a->buffers[i], &b->buffers[i])) return false;
    for (int t = 0; t < a->n_teams; t++)
        if (!ls_team_equal(&a->teams[t], &b->teams[t])) return false;
    for (int d = 0; d < a->n_displacements; d++)
        if (!displacements_equal(&a->displacements[d], &b->displacements[d])) return false;
    for (int k = 0; k < a->n_pieces; k++)
        if (memcmp(&a->pieces[k], &b->pieces[k], sizeof a->pieces[k]) != 0) return false;
    for (int p = 0; p < a->n_programs; p++)
        if (!programs_equal(&a->programs[p], &b->programs[p], a->n_buffers)) return false;
    return true;
}

int count_classes(const ls_image *const *images, int n) {
    int classes = 0;
    for (int i = 0; i < n; i++) {
        bool known = false;
        for (int k = 0; k < i; k++) known |= images_equal(images[i], images[k]);
        classes += !known;
    }
    return classes;
}
