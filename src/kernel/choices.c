/* The preferred rows as text: "attention/bf16=own matmul/f32=cublaslt", or "table". */
#include "kernel/kernel.h"

#include <stdio.h>
#include <string.h>

static bool read_type(const char *name, ls_dtype *out) {
    static const ls_dtype types[] = {LS_F32, LS_BF16, LS_F64, LS_I32};
    for (size_t t = 0; t < LS_COUNT(types); t++) {
        if (strcmp(ls_dtype_name(types[t]), name) != 0) continue;
        *out = types[t];
        return true;
    }
    return false;
}

/* false: it is not of the form CONTRACT/TYPE=ROW with an existing contract and type. */
static bool read_choice(const char *word, int length, ls_kernel_choice *out) {
    char text[80], contract[32], type[8];
    int end = 0;
    if (length >= (int)sizeof text) return false;
    snprintf(text, sizeof text, "%.*s", length, word);
    if (sscanf(text, "%31[a-z_0-9]/%7[a-z0-9]=%15[a-z0-9]%n", contract, type, out->row, &end) != 3 || end != length)
        return false;
    out->id = ls_kernel_named(contract);
    return out->id != LS_KERNEL_NONE && read_type(type, &out->dtype);
}

/* LS_USAGE unless the device has that row. */
static ls_status check_row(const ls_kernel_choice *c, ls_kernel_device device, ls_isa isa) {
    const ls_kernel *rows[LS_KERNEL_ROWS];
    const ls_kernel_request request = {.id = c->id, .dtype = c->dtype, .device = device, .isa = isa};
    char names[LS_KERNEL_ROWS * (sizeof c->row + sizeof ", ")] = "";
    size_t used = 0;
    int n;
    LS_TRY(ls_kernel_find_rows(&request, rows, &n));
    for (int i = 0; i < n; i++) {
        if (strcmp(ls_kernel_row(rows[i]), c->row) == 0) return ls_ok();
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i > 0 ? ", " : "", ls_kernel_row(rows[i]));
        LS_ASSERT(used < sizeof names);
    }
    return ls_error(LS_USAGE, "--kernels: there is no row '%s' of %s for %s; expected one of: %s", c->row,
                    ls_contracts[c->id].name, ls_dtype_name(c->dtype), names);
}

ls_status ls_kernel_choices_parse(const char *text, ls_kernel_device device, ls_isa isa, ls_kernel_choices *out) {
    ls_kernel_choices read = {.n = 0};
    const bool none = strcmp(text, "table") == 0;
    for (const char *at = none ? "" : text; *(at += strspn(at, " ")) != 0;) {
        const int length = (int)strcspn(at, " ");
        ls_kernel_choice *c = &read.of[read.n];
        if (read.n == LS_KERNEL_CHOICES)
            return ls_error(LS_USAGE, "--kernels: more than %d choices", LS_KERNEL_CHOICES);
        if (!read_choice(at, length, c))
            return ls_error(LS_USAGE, "--kernels: '%.*s' is no choice; expected a text like attention/bf16=own", length,
                            at);
        LS_TRY(check_row(c, device, isa));
        read.n++;
        at += length;
    }
    *out = read;
    return ls_ok();
}

void ls_kernel_choices_text(const ls_kernel_choices *choices, char out[LS_KERNEL_CHOICES_ROOM]) {
    size_t used = 0;
    snprintf(out, LS_KERNEL_CHOICES_ROOM, "table");
    for (int i = 0; i < choices->n; i++) {
        const ls_kernel_choice *c = &choices->of[i];
        used += (size_t)snprintf(out + used, LS_KERNEL_CHOICES_ROOM - used, "%s%s/%s=%s", i > 0 ? " " : "",
                                 ls_contracts[c->id].name, ls_dtype_name(c->dtype), c->row);
        LS_ASSERT(used < LS_KERNEL_CHOICES_ROOM);
    }
}
