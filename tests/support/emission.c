#include "emission.h"

#include "meshes.h"
#include "world.h"

void emission_begin(emission *e, int ranks, int rank) {
    static const ls_phase phases[] = {{LS_FIRST, 0, LS_PHASE_ZERO}};
    ls_arena *arena = ls_arena_create();
    ls_image *image = LS_NEW(arena, ls_image);
    *image = (ls_image){.arena = arena,
                        .mesh = mesh_of(ranks, 1, 1),
                        .dtype = LS_F64,
                        .accumulator = LS_F64,
                        .strategy = "none",
                        .threads = 1,
                        .n_programs = 1,
                        .programs = LS_NEW(arena, ls_program),
                        .phases = phases,
                        .n_phases = 1,
                        .positions = {.buffer = -1}};
    (void)LS_PUSH(arena, image->teams, image->n_teams, image->team_capacity);
    (void)LS_PUSH(arena, image->displacements, image->n_displacements, image->displacement_capacity);
    image->layout = ls_layout_make(&(ls_layout_need){.kind = LS_LAYOUT_CONTIGUOUS, .S = 1, .P = 1}, arena);
    *e = (emission){.image = image,
                    .target = {.mesh = image->mesh, .rank = rank, .threads = 1, .isa = LS_ISA_REF},
                    .builder = {.image = image, .status = ls_ok()}};
    e->builder.target = &e->target;
    e->builder.displacements.arena = arena;
}

ls_operand emission_bind(emission *e, const char *name, ls_buffer_kind kind, ls_dtype dtype, int64_t n) {
    ls_image *image = e->image;
    const ls_operand operand = ls_build_private(&e->builder, kind, name, dtype, 1, &n);
    LS_ASSERT(operand.buffer < EMISSION_BUFFERS);
    *LS_PUSH(image->arena, image->bindings, image->n_bindings, image->binding_capacity) =
        (ls_binding){.name = name, .operand = operand, .shape = {1, {{n, LS_FACTOR_NONE}}}};
    return operand;
}

void emission_program(emission *e) {
    *e->image->programs = (ls_program){.name = "collective"};
    ls_build_begin_program(&e->builder, e->image->programs);
}

void emission_declare(emission *e, ls_operand bound, ls_effect effect) { e->effect[bound.buffer] = effect; }

ls_image *emission_end(emission *e) {
    ls_image *image = e->image;
    ls_program *program = image->programs;
    assert_ok(e->builder.status);
    ls_build_end_program(&e->builder);
    program->kept = LS_NEW_ARRAY(image->arena, ls_kept, image->n_buffers);
    for (int i = 0; i < image->n_buffers && i < EMISSION_BUFFERS; i++) program->kept[i].effect = e->effect[i];
    ls_name_values(image);
    ls_schedule(image);
    ls_place(image, 0);
    ls_order(image);
    return image;
}
