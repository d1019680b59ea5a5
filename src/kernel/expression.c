/*
 * Expressions of maps (longspan/map.h): what every implementation of the kernel needs before it computes. Slots are
 * assigned in one pass over the steps; a slot is free again after the last step that reads its value (Poletto, Sarkar
 * 1999).
 */
#include "kernel/kernel_impl.h"

#include <math.h>
#include <stddef.h>

#define NAME(id, name, operands) [LS_MAP_##id] = name,
#define OPERANDS(id, name, operands) [LS_MAP_##id] = operands,

const char *ls_map_name(ls_map_code code) {
    static const char *const names[LS_MAP_KINDS] = {LS_MAP_CODES(NAME)};
    return names[code];
}

int ls_map_operands(ls_map_code code) {
    static const signed char operands[LS_MAP_KINDS] = {LS_MAP_CODES(OPERANDS)};
    return operands[code];
}

size_t ls_map_bytes(const ls_map_params *params) {
    return offsetof(ls_map_params, step) + (size_t)params->n_steps * sizeof(ls_map_step);
}

ls_status ls_map_check(const ls_map_params *p) {
    if (p->n_in < 1 || p->n_in > LS_MAP_TENSORS - 1)
        return ls_error(LS_INVALID, "map: %d inputs, expected 1 to %d", p->n_in, LS_MAP_TENSORS - 1);
    if (p->n_steps < 0 || p->n_steps > LS_MAP_STEPS)
        return ls_error(LS_INVALID, "map: %d steps, expected 0 to %d", p->n_steps, LS_MAP_STEPS);
    if (p->n_results < 1 || p->n_results > LS_MAP_RESULTS)
        return ls_error(LS_INVALID, "map: %d results, expected 1 to %d", p->n_results, LS_MAP_RESULTS);
    for (int i = 0; i < p->n_steps; i++) {
        const ls_map_step *s = &p->step[i];
        if ((unsigned)s->code >= LS_MAP_KINDS)
            return ls_error(LS_INVALID, "map: step %d is of kind %d, expected 0 to %d", i, (int)s->code,
                            LS_MAP_KINDS - 1);
        if (s->code == LS_MAP_NUMBER && isnan(s->number))
            return ls_error(LS_INVALID, "map: the number of step %d is NaN", i);
        const int by[] = {s->a, s->b, s->c}, operands = ls_map_operands(s->code);
        LS_ASSERT(operands <= (int)LS_COUNT(by));
        for (int k = 0; k < operands; k++) {
            if (by[k] >= 0 && by[k] < p->n_in + i) continue;
            return ls_error(LS_INVALID, "map: operand %d of step %d (%s) is %d, expected 0 to %d", k, i,
                            ls_map_name(s->code), by[k], p->n_in + i - 1);
        }
    }
    for (int o = 0; o < p->n_results; o++)
        if (p->result[o] < 0 || p->result[o] >= p->n_in + p->n_steps)
            return ls_error(LS_INVALID, "map: result %d is operand %d, expected 0 to %d", o, p->result[o],
                            p->n_in + p->n_steps - 1);
    return ls_ok();
}

void ls_map_assign_slots(const ls_map_params *p, ls_map_program *out) {
    int last[LS_MAP_TENSORS + LS_MAP_STEPS]; /* by operand: the last step that reads it */
    int16_t slot[LS_MAP_TENSORS + LS_MAP_STEPS];
    bool taken[LS_MAP_TENSORS + LS_MAP_STEPS] = {false};
    *out = (ls_map_program){.n_in = p->n_in, .n_steps = p->n_steps, .n_results = p->n_results, .n_slots = p->n_in};
    LS_ASSERT(p->n_in > 0);
    for (int i = 0; i < p->n_in + p->n_steps; i++) last[i] = -1;
    for (int i = 0; i < p->n_steps; i++) {
        const int by[] = {p->step[i].a, p->step[i].b, p->step[i].c}, operands = ls_map_operands(p->step[i].code);
        LS_ASSERT(operands <= (int)LS_COUNT(by));
        for (int k = 0; k < operands; k++) last[by[k]] = i;
    }
    for (int o = 0; o < p->n_results; o++) last[p->result[o]] = p->n_steps;
    for (int i = 0; i < p->n_in; i++) slot[i] = (int16_t)i, taken[i] = true;
    for (int i = 0; i < p->n_steps; i++) {
        const ls_map_step *s = &p->step[i];
        const int by[] = {s->a, s->b, s->c}, operands = ls_map_operands(s->code);
        ls_map_slot_step *to = &out->step[i];
        *to = (ls_map_slot_step){.code = s->code, .number = s->number};
        int16_t *const in[] = {&to->a, &to->b, &to->c};
        LS_ASSERT(operands <= (int)LS_COUNT(by));
        for (int k = 0; k < operands; k++) {
            *in[k] = slot[by[k]];
            if (by[k] >= p->n_in && last[by[k]] == i) taken[slot[by[k]]] = false;
        }
        int free = p->n_in;
        while (taken[free]) free++;
        to->to = slot[p->n_in + i] = (int16_t)free;
        taken[free] = last[p->n_in + i] > i;
        if (free >= out->n_slots) out->n_slots = free + 1;
    }
    for (int o = 0; o < p->n_results; o++) out->result[o] = slot[p->result[o]];
}

void ls_map_shape_of(const ls_kernel_call *call, ls_map_shape *out) {
    *out = (ls_map_shape){0};
    const ls_view *all = &call->out[0];
    const int operands = call->n_in + call->n_out;
    for (int d = 0; d < all->ndim; d++) {
        if (all->size[d] == 1) continue;
        bool joins = out->ndim > 0; /* whether it merges with the dimension before it */
        for (int i = 0; i < operands; i++) {
            const ls_view *view = i < call->n_in ? &call->in[i] : &call->out[i - call->n_in];
            joins = joins && out->stride[i][out->ndim - 1] == view->stride[d] * view->size[d];
        }
        const int at = joins ? out->ndim - 1 : out->ndim++;
        out->size[at] = joins ? out->size[at] * all->size[d] : all->size[d];
        for (int i = 0; i < operands; i++)
            out->stride[i][at] = i < call->n_in ? call->in[i].stride[d] : call->out[i - call->n_in].stride[d];
    }
    if (out->ndim > 0) return;
    out->ndim = 1;
    out->size[0] = 1;
}
