#include "tensor/tensor.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The axes that --mesh names, outermost first: neighbours along the innermost exchange most. */
static const ls_axis table[] = {
    {.name = "pp", .kind = LS_AXIS_STAGE, .divides = "the layers of a model"},
    {.name = "dp", .kind = LS_AXIS_BATCH, .divides = "the sequences of a micro-batch"},
    {.name = "outer", .kind = LS_AXIS_SEQUENCE, .of_rings = true, .divides = "the tokens of a sequence"},
    {.name = "ring", .kind = LS_AXIS_SEQUENCE, .divides = "the tokens of a sequence"},
    {.name = "ulysses", .kind = LS_AXIS_SEQUENCE, .exchanges_heads = true, .divides = "the heads of attention"},
    {.name = "tp", .kind = LS_AXIS_FEATURE, .divides = "the heads, hidden features and words of parameters"},
};
_Static_assert(LS_COUNT(table) <= LS_MESH_AXES, "a mesh lists all axes of the table");

static const ls_factor factor_of_kind[LS_AXIS_KINDS] = {
    [LS_AXIS_STAGE] = LS_FACTOR_NONE,
    [LS_AXIS_BATCH] = LS_FACTOR_BATCH,
    [LS_AXIS_SEQUENCE] = LS_FACTOR_SEQUENCE,
    [LS_AXIS_FEATURE] = LS_FACTOR_NONE,
};

const ls_axis *ls_axis_at(int index) { return index >= 0 && index < (int)LS_COUNT(table) ? &table[index] : NULL; }

ls_factor ls_axis_factor(const ls_axis *axis) { return factor_of_kind[axis->kind]; }

/* --- axes --------------------------------------------------------------------------------------------------------- */

ls_axes ls_mesh_axes(const ls_mesh *mesh, ls_axis_kind kind) {
    ls_axes axes = 0;
    for (int i = 0; i < mesh->n; i++) {
        if (mesh->along[i].size > 1 && mesh->along[i].axis->kind == kind) axes |= ls_axis_bit(i);
    }
    return axes;
}

ls_axes ls_mesh_axes_of_factor(const ls_mesh *mesh, ls_factor factor) {
    ls_axes axes = 0;
    for (int kind = 0; kind < LS_AXIS_KINDS; kind++) {
        if (factor_of_kind[kind] == factor) axes |= ls_mesh_axes(mesh, (ls_axis_kind)kind);
    }
    return axes;
}

ls_axes ls_mesh_head_axes(const ls_mesh *mesh) {
    ls_axes axes = ls_mesh_axes(mesh, LS_AXIS_SEQUENCE);
    for (int i = 0; i < mesh->n; i++) {
        if (!mesh->along[i].axis->exchanges_heads) axes &= ~ls_axis_bit(i);
    }
    return axes;
}

ls_axes ls_mesh_block_axes(const ls_mesh *mesh) {
    return ls_mesh_axes(mesh, LS_AXIS_SEQUENCE) & ~ls_mesh_head_axes(mesh);
}

int ls_mesh_inner_size(const ls_mesh *mesh, ls_axes axes) {
    int size = 1;
    for (int i = 0; i < mesh->n; i++)
        if (axes & ls_axis_bit(i)) size = mesh->along[i].size;
    return size;
}

ls_axes ls_mesh_shard_axes(const ls_mesh *mesh) {
    return LS_ALL_AXES & ~ls_mesh_axes(mesh, LS_AXIS_FEATURE) & ~ls_mesh_axes(mesh, LS_AXIS_STAGE);
}

int ls_mesh_size(const ls_mesh *mesh, ls_axes axes) {
    int size = 1;
    for (int i = 0; i < mesh->n; i++) {
        if (axes & ls_axis_bit(i)) size *= mesh->along[i].size;
    }
    return size;
}

int ls_mesh_ranks(const ls_mesh *mesh) { return ls_mesh_size(mesh, LS_ALL_AXES); }
int ls_mesh_sequence_ranks(const ls_mesh *mesh) { return ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_SEQUENCE)); }
int ls_mesh_replicas(const ls_mesh *mesh) { return ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_BATCH)); }

int ls_mesh_index(const ls_mesh *mesh, ls_axes axes, int rank) {
    LS_ASSERT(rank >= 0 && rank < ls_mesh_ranks(mesh));
    const ls_team team = ls_mesh_team(mesh, axes);
    return ls_team_place(&team, rank);
}

int ls_mesh_sequence_index(const ls_mesh *mesh, int rank) {
    return ls_mesh_index(mesh, ls_mesh_axes(mesh, LS_AXIS_SEQUENCE), rank);
}

int ls_mesh_replica(const ls_mesh *mesh, int rank) {
    return ls_mesh_index(mesh, ls_mesh_axes(mesh, LS_AXIS_BATCH), rank);
}

int ls_mesh_stages(const ls_mesh *mesh) { return ls_mesh_size(mesh, ls_mesh_axes(mesh, LS_AXIS_STAGE)); }

int ls_mesh_stage(const ls_mesh *mesh, int rank) {
    return ls_mesh_index(mesh, ls_mesh_axes(mesh, LS_AXIS_STAGE), rank);
}

int ls_mesh_sequence_rank(const ls_mesh *mesh, int index) {
    const ls_team team = ls_mesh_team(mesh, ls_mesh_axes(mesh, LS_AXIS_SEQUENCE));
    return ls_team_member(&team, 0, index);
}

/* The size that is listed for an axis; 0: none. */
static int listed_size(const ls_mesh *mesh, const ls_axis *axis) {
    for (int i = 0; i < mesh->n; i++) {
        if (mesh->along[i].axis == axis) return mesh->along[i].size;
    }
    return 0;
}

bool ls_mesh_lists(const ls_mesh *mesh, const ls_axis *axis) { return listed_size(mesh, axis) > 0; }

bool ls_mesh_allows(const ls_mesh *wanted, const ls_mesh *mesh) {
    bool allows = true;
    for (int i = 0; i < wanted->n; i++)
        allows &= ls_max(listed_size(mesh, wanted->along[i].axis), 1) == wanted->along[i].size;
    return allows;
}

bool ls_mesh_equal(const ls_mesh *a, const ls_mesh *b) {
    bool equal = a->n == b->n;
    for (int i = 0; equal && i < a->n; i++)
        equal = a->along[i].axis == b->along[i].axis && a->along[i].size == b->along[i].size;
    return equal;
}

/* --- teams -------------------------------------------------------------------------------------------------------- */

static void push_digit(ls_team *team, int size, int stride) {
    team->digit[team->digits].size = size;
    team->digit[team->digits++].stride = stride;
}

ls_team ls_mesh_team(const ls_mesh *mesh, ls_axes axes) {
    ls_team team = {0};
    int stride = ls_mesh_ranks(mesh); /* of the axis: the product of the sizes of the axes inside it */
    for (int i = 0; i < mesh->n; i++) {
        const int size = mesh->along[i].size;
        stride /= size;
        if ((axes & ls_axis_bit(i)) && size > 1) push_digit(&team, size, stride);
    }
    return team;
}

int ls_team_size(const ls_team *team) {
    int size = 1;
    for (int d = 0; d < team->digits; d++) size *= team->digit[d].size;
    return size;
}

int ls_team_place(const ls_team *team, int rank) {
    int place = 0;
    for (int d = 0; d < team->digits; d++)
        place = place * team->digit[d].size + rank / team->digit[d].stride % team->digit[d].size;
    return place;
}

int ls_team_back(const ls_team *team, int shift) {
    const int size = ls_team_size(team);
    if (!team->by_digit) return (size - shift) % size;
    int back = 0, step = size;
    for (int d = 0; d < team->digits; d++) {
        const int n = team->digit[d].size;
        step /= n;
        back += (n - shift / step % n) % n * step;
    }
    return back;
}

int ls_team_place_at(const ls_team *team, int rank, int shift) {
    const int size = ls_team_size(team), place = ls_team_place(team, rank);
    shift = shift % size < 0 ? ls_team_back(team, -(shift % size)) : shift % size;
    if (!team->by_digit) return (place + shift) % size;
    int there = 0, step = size;
    for (int d = 0; d < team->digits; d++) {
        const int n = team->digit[d].size;
        step /= n;
        there += (place / step + shift / step) % n * step;
    }
    return there;
}

int ls_team_member(const ls_team *team, int rank, int shift) {
    int place = ls_team_place_at(team, rank, shift);
    for (int d = team->digits - 1; d >= 0; d--) {
        const int digit = rank / team->digit[d].stride % team->digit[d].size;
        rank += (place % team->digit[d].size - digit) * team->digit[d].stride;
        place /= team->digit[d].size;
    }
    return rank;
}

bool ls_team_equal(const ls_team *a, const ls_team *b) {
    bool equal = a->digits == b->digits && a->by_digit == b->by_digit;
    for (int d = 0; equal && d < a->digits; d++)
        equal = a->digit[d].size == b->digit[d].size && a->digit[d].stride == b->digit[d].stride;
    return equal;
}

ls_team ls_team_merged(const ls_team *team) {
    ls_team out = {.by_digit = team->by_digit};
    for (int d = 0; d < team->digits; d++) {
        const int size = team->digit[d].size, stride = team->digit[d].stride;
        if (out.digits > 0 && out.digit[out.digits - 1].stride == size * stride) {
            out.digit[out.digits - 1].size *= size;
            out.digit[out.digits - 1].stride = stride;
        } else {
            push_digit(&out, size, stride);
        }
    }
    return out;
}

bool ls_team_split(const ls_team *team, int inner, ls_team *split, ls_team *outer) {
    const ls_team whole = ls_team_merged(team);
    ls_team front = {0}, all = {.by_digit = true};
    int behind = ls_team_size(team); /* members that the remaining digits count */
    for (int d = 0; d < whole.digits; d++) {
        const int size = whole.digit[d].size, stride = whole.digit[d].stride, from = behind;
        behind /= size;
        if (inner > behind && inner < from) {
            const int last = inner / behind; /* how many consecutive values of the digit belong to the inner members */
            if (inner % behind != 0 || size % last != 0 || whole.digits == LS_TEAM_DIGITS) return false;
            push_digit(&front, size / last, stride * last);
            push_digit(&all, size / last, stride * last);
            push_digit(&all, last, stride);
        } else {
            if (behind >= inner) push_digit(&front, size, stride);
            push_digit(&all, size, stride);
        }
    }
    *split = all;
    *outer = front;
    return true;
}

/* --- meshes of so many ranks -------------------------------------------------------------------------------------- */

typedef struct choice {
    const ls_mesh *given;
    ls_mesh mesh;
    ls_axes open; /* axes that have no size yet */
    ls_mesh_visit visit;
    void *context;
} choice;

/*
 * Visits the mesh whose sizes are chosen. An axis of rings that `given` does not list is left out when it has one rank.
 * If it has several ranks but each inner ring has one, the mesh is not visited: the axis would itself be a ring, and a
 * mesh with that ring is visited anyway.
 */
static ls_status visit_chosen(const choice *c) {
    ls_mesh mesh = {0};
    for (int i = 0; i < c->mesh.n; i++) {
        const ls_axis *axis = c->mesh.along[i].axis;
        const int size = c->mesh.along[i].size;
        const bool unasked = axis->of_rings && listed_size(c->given, axis) == 0;
        if (unasked && size > 1 && ls_mesh_size(&c->mesh, ls_mesh_block_axes(&c->mesh)) == size) return ls_ok();
        if (unasked && size == 1) continue;
        mesh.along[mesh.n++] = c->mesh.along[i];
    }
    return c->visit(c->context, &mesh);
}

/*
 * Gives the innermost open axis each of its possible sizes in turn, and the open axes outside it the ranks that then
 * remain.
 */
static ls_status choose_sizes(choice *c, int left) {
    int inner = c->mesh.n - 1;
    while (inner >= 0 && !(c->open & ls_axis_bit(inner))) inner--;
    if (inner < 0) return left == 1 ? visit_chosen(c) : ls_ok();
    c->open &= ~ls_axis_bit(inner);
    for (int size = c->open ? 1 : left; size <= left; size++) {
        if (left % size != 0) continue;
        c->mesh.along[inner].size = size;
        LS_TRY(choose_sizes(c, left / size));
    }
    c->mesh.along[inner].size = 1;
    c->open |= ls_axis_bit(inner);
    return ls_ok();
}

static bool lists_kind(const ls_mesh *mesh, ls_axis_kind kind) {
    for (int i = 0; i < mesh->n; i++)
        if (mesh->along[i].axis->kind == kind) return true;
    return false;
}

/* Whether an axis that `given` does not list gets all sizes. */
static bool is_open(const ls_mesh *given, bool features, const ls_axis *axis) {
    if (axis->of_rings) return !lists_kind(given, axis->kind);
    return axis->kind == LS_AXIS_SEQUENCE || (axis->kind == LS_AXIS_FEATURE && features);
}

/* Meshes of one ring first. rings: the index of the open axis of rings; -1: there is none. */
static ls_status choose_rings(choice *c, int rings, int ranks) {
    for (int size = 1; size <= (rings >= 0 ? ranks : 1); size++) {
        if (rings >= 0) c->mesh.along[rings].size = size;
        const int fixed = ls_mesh_ranks(&c->mesh);
        if (ranks % fixed == 0) LS_TRY(choose_sizes(c, ranks / fixed));
    }
    return ls_ok();
}

ls_status ls_meshes_visit(const ls_mesh *given, bool features, int ranks, ls_mesh_visit visit, void *context) {
    choice c = {.given = given, .visit = visit, .context = context};
    int rings = -1;
    for (int i = 0; i < (int)LS_COUNT(table); i++) {
        const int size = listed_size(given, &table[i]), at = c.mesh.n;
        if (size == 0 && table[i].kind == LS_AXIS_STAGE) continue;
        const bool open = size == 0 && is_open(given, features, &table[i]);
        if (open && table[i].of_rings) rings = at;
        if (open && !table[i].of_rings) c.open |= ls_axis_bit(at);
        c.mesh.along[at].axis = &table[i];
        c.mesh.along[at].size = (int)ls_max(size, 1);
        c.mesh.n++;
    }
    return choose_rings(&c, rings, ranks);
}

void ls_mesh_widen(ls_mesh *mesh, ls_axis_kind kind, int times) {
    int i = 0;
    while (i < mesh->n && mesh->along[i].axis->kind != kind) i++;
    LS_ASSERT(i < mesh->n);
    mesh->along[i].size *= times;
}

/* --- as text ------------------------------------------------------------------------------------------------------ */

/* "pp, dp, outer, ring, ulysses or tp" */
static void list_names(char *out, size_t bytes) {
    size_t used = 0;
    for (size_t i = 0; i < LS_COUNT(table) && used < bytes; i++) {
        const char *before = i == 0 ? "" : i + 1 < LS_COUNT(table) ? ", " : " or ";
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", before, table[i].name);
    }
}

/* Reads one "axis=number" of the given length; sizes are those of the table's axes so far, 0 where none is given. */
static ls_status parse_part(const char *text, int length, int sizes[LS_COUNT(table)]) {
    const char *equals = memchr(text, '=', (size_t)length);
    char known[80];
    list_names(known, sizeof known);
    if (!equals)
        return ls_error(LS_USAGE, "mesh part '%.*s' has no '='; expected AXIS=RANKS, where AXIS is %s", length, text,
                        known);
    const int name_length = (int)(equals - text);
    size_t axis = 0;
    while (axis < LS_COUNT(table) && (strlen(table[axis].name) != (size_t)name_length ||
                                      strncmp(table[axis].name, text, (size_t)name_length) != 0))
        axis++;
    if (axis == LS_COUNT(table))
        return ls_error(LS_USAGE, "mesh axis '%.*s' is unknown; expected %s", name_length, text, known);
    if (sizes[axis]) return ls_error(LS_USAGE, "mesh axis '%s' is given twice", table[axis].name);

    const int digits = length - name_length - 1;
    char number[16] = "";
    if (digits < (int)sizeof number) snprintf(number, sizeof number, "%.*s", digits, equals + 1);
    char *end = number;
    const long size = number[0] >= '0' && number[0] <= '9' ? strtol(number, &end, 10) : 0;
    if (*end || size < 1 || size > INT_MAX)
        return ls_error(LS_USAGE, "mesh axis '%s' has size '%.*s'; expected an integer from 1 to %d", table[axis].name,
                        digits, equals + 1, INT_MAX);
    int64_t ranks = size;
    for (size_t other = 0; other < LS_COUNT(table); other++) {
        ranks *= ls_max(sizes[other], 1);
        if (ranks > INT_MAX) return ls_error(LS_USAGE, "the mesh has more than %d ranks", INT_MAX);
    }
    sizes[axis] = (int)size;
    return ls_ok();
}

ls_status ls_mesh_parse(const char *text, ls_mesh *out) {
    int sizes[LS_COUNT(table)] = {0};
    for (const char *part = text;;) {
        const size_t length = strcspn(part, ",");
        LS_TRY(parse_part(part, (int)length, sizes));
        if (!part[length]) break;
        part += length + 1;
    }
    ls_mesh mesh = {0};
    for (size_t i = 0; i < LS_COUNT(table); i++) {
        if (sizes[i] == 0) continue;
        mesh.along[mesh.n].axis = &table[i];
        mesh.along[mesh.n++].size = sizes[i];
    }
    *out = mesh;
    return ls_ok();
}

void ls_mesh_text(const ls_mesh *mesh, ls_axes axes, char *out, size_t bytes) {
    if (bytes == 0) return;
    out[0] = 0;
    size_t used = 0;
    for (int i = 0; i < mesh->n && used < bytes; i++) {
        if (!(axes & ls_axis_bit(i))) continue;
        used += (size_t)snprintf(out + used, bytes - used, "%s%s=%d", used ? "," : "", mesh->along[i].axis->name,
                                 mesh->along[i].size);
    }
}

void ls_mesh_print(const ls_mesh *mesh, char *out, size_t bytes) {
    if (bytes == 0) return;
    out[0] = 0;
    size_t used = 0;
    for (int i = 0; i < mesh->n && used < bytes; i++) {
        if (mesh->along[i].size == 1) continue;
        used += (size_t)snprintf(out + used, bytes - used, "%s%s %d", used ? " · " : "", mesh->along[i].axis->name,
                                 mesh->along[i].size);
    }
    if (used == 0) snprintf(out, bytes, "1 rank");
}
