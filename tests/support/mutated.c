/* The programs that tests edit at random. */
#include "linear_recurrences.h"
#include "meshes.h"
#include "mutate.h"

mutation_verdicts judge_mutations(uint64_t first, int edits, int seeds) {
    static const struct {
        int dp, outer, ring, ulysses;
        const char *strategy;
        int layers;
        bool accumulates;
        images_reads reads;
    } meshes[] = {{1, 1, 2, 1, "ring", 2, true, READS_NOTHING},
                  {1, 1, 3, 1, "ring", 1, false, READS_NOTHING},
                  {1, 1, 4, 1, "ring", 1, false, READS_NOTHING},
                  {1, 1, 1, 2, "ulysses", 2, false, READS_NOTHING},
                  {1, 1, 1, 3, "ulysses", 1, true, READS_NOTHING},
                  {1, 1, 2, 2, "usp", 1, true, READS_NOTHING},
                  {2, 1, 2, 1, "ring", 1, false, READS_NOTHING},
                  {2, 1, 1, 2, "ulysses", 1, true, READS_NOTHING},
                  {3, 1, 1, 1, "local", 1, false, READS_NOTHING},
                  {1, 1, 2, 1, "ring", 2, false, READS_ALL},
                  {1, 1, 3, 1, "ring", 1, true, READS_ALL},
                  {1, 1, 4, 1, "ring", 1, false, READS_ALL},
                  {1, 1, 1, 2, "ulysses", 2, true, READS_ALL},
                  {1, 1, 2, 2, "usp", 1, true, READS_BLOCK},
                  {1, 1, 2, 2, "usp", 1, false, READS_ALL},
                  {1, 1, 3, 1, "gather", 1, false, READS_NOTHING},
                  {1, 2, 2, 1, "double-ring", 1, false, READS_NOTHING},
                  {1, 1, 3, 1, "burst", 1, false, READS_NOTHING},
                  {1, 1, 3, 1, "rsa", 1, false, READS_NOTHING}};
    image_set sets[LS_COUNT(meshes)];
    for (size_t i = 0; i < LS_COUNT(meshes); i++)
        sets[i] = images_of_kind(mesh_of_outer(meshes[i].dp, meshes[i].outer, meshes[i].ring, meshes[i].ulysses),
                                 meshes[i].strategy, LS_LAYOUT_ZIGZAG, 13, meshes[i].layers, meshes[i].accumulates,
                                 meshes[i].reads);
    return judge_mutations_of(sets, LS_COUNT(meshes), first, edits, seeds);
}

mutation_verdicts judge_sharded_mutations(uint64_t first, int edits, int seeds) {
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
        int layers, shard;
        const ls_optimizer *optimizer;
    } jobs[] = {{1, 2, 1, "ring", 1, LS_SHARD_NONE, &ls_optimizer_adamw},
                {1, 3, 1, "ring", 1, LS_SHARD_GRADIENTS, &ls_optimizer_adamw},
                {1, 2, 1, "ring", 2, LS_SHARD_PARAMETERS, &ls_optimizer_adamw},
                {2, 1, 2, "ulysses", 1, LS_SHARD_PARAMETERS, &ls_optimizer_adamw},
                {3, 1, 1, "local", 2, LS_SHARD_PARAMETERS, &ls_optimizer_adamw},
                {1, 2, 1, "ring", 1, LS_SHARD_OPTIMIZER, &ls_optimizer_muon},
                {2, 1, 1, "local", 1, LS_SHARD_GRADIENTS, &ls_optimizer_muon},
                {1, 3, 1, "gather", 1, LS_SHARD_PARAMETERS, &ls_optimizer_muon},
                {1, 2, 2, "usp", 1, LS_SHARD_GRADIENTS, &ls_optimizer_muon}};
    image_set sets[LS_COUNT(jobs)];
    for (size_t i = 0; i < LS_COUNT(jobs); i++)
        sets[i] = images_of_shard(mesh_of(jobs[i].dp, jobs[i].ring, jobs[i].ulysses), jobs[i].strategy, jobs[i].layers,
                                  &ls_shard_modes[jobs[i].shard], jobs[i].optimizer);
    return judge_mutations_of(sets, LS_COUNT(jobs), first, edits, seeds);
}

mutation_verdicts judge_offload_mutations(uint64_t first, int edits, int seeds) {
    static const struct {
        int dp, ring, ulysses;
        const char *strategy;
        ls_saving saving;
        const ls_optimizer *optimizer;
    } jobs[] = {{1, 1, 1, "local", {.offload = LS_OFFLOAD_ALL, .offload_state = true}, &ls_optimizer_adamw},
                {1, 2, 1, "ring", {.offload = LS_OFFLOAD_ALL}, &ls_optimizer_muon},
                {2, 1, 1, "local", {.drop = 1 << 20, .offload = 2, .offload_state = true}, &ls_optimizer_muon},
                {1, 1, 2, "ulysses", {.drop = 5, .offload = LS_OFFLOAD_ALL}, &ls_optimizer_adamw}};
    image_set sets[LS_COUNT(jobs)];
    for (size_t i = 0; i < LS_COUNT(jobs); i++)
        sets[i] = images_of_saving(mesh_of(jobs[i].dp, jobs[i].ring, jobs[i].ulysses), jobs[i].strategy, 2,
                                   &jobs[i].saving, jobs[i].optimizer);
    return judge_mutations_of(sets, LS_COUNT(jobs), first, edits, seeds);
}

mutation_verdicts judge_state_mutations(uint64_t first, int edits, int seeds) {
    static const struct {
        const char *network;
        int dp, ring, ulysses;
        const char *way;
        bool zigzag, accumulates;
        int shard;
    } jobs[] = {{"gated_delta", 1, 2, 1, "maps", true, false, LS_SHARD_OPTIMIZER},
                {"packed_gated_delta", 1, 2, 1, "owners", true, true, LS_SHARD_GRADIENTS},
                {"packed_delta", 1, 1, 2, "heads", false, false, LS_SHARD_PARAMETERS},
                {"unmasked", 1, 2, 1, "maps", false, true, LS_SHARD_OPTIMIZER},
                {"packed_mamba", 2, 2, 1, "owners", true, false, LS_SHARD_OPTIMIZER}};
    image_set sets[LS_COUNT(jobs)];
    for (size_t i = 0; i < LS_COUNT(jobs); i++) {
        const ls_target target = {.mesh = mesh_of(jobs[i].dp, jobs[i].ring, jobs[i].ulysses),
                                  .strategy = "local",
                                  .layout = jobs[i].zigzag ? LS_LAYOUT_ZIGZAG : LS_LAYOUT_CONTIGUOUS,
                                  .recurrence_way = jobs[i].way,
                                  .shard = &ls_shard_modes[jobs[i].shard],
                                  .threads = 1};
        ls_graph *graph = ls_graph_create(LS_F64);
        const ls_tensor loss = linear_network(jobs[i].network)->loss(graph);
        sets[i] = images_of_loss(graph, loss, &target, jobs[i].accumulates, NULL);
    }
    return judge_mutations_of(sets, LS_COUNT(jobs), first, edits, seeds);
}

mutation_verdicts judge_stage_mutations(uint64_t first, int edits, int seeds) {
    static const struct {
        const char *mesh, *strategy, *pipeline;
        int shard;
    } jobs[] = {{"pp=2", "local", "1f1b", LS_SHARD_NONE},
                {"pp=3", "local", "zero-bubble", LS_SHARD_OPTIMIZER},
                {"pp=2", "local", "interleaved:2", LS_SHARD_NONE},
                {"pp=2,ring=2", "ring", "1f1b", LS_SHARD_GRADIENTS},
                {"pp=2,dp=2", "local", "zero-bubble", LS_SHARD_PARAMETERS}};
    image_set sets[LS_COUNT(jobs)];
    for (size_t i = 0; i < LS_COUNT(jobs); i++)
        sets[i] = images_of_stages(jobs[i].mesh, jobs[i].strategy, jobs[i].pipeline, &ls_shard_modes[jobs[i].shard]);
    return judge_mutations_of(sets, LS_COUNT(jobs), first, edits, seeds);
}
