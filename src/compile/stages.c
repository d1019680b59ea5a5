/*
 * How much is exchanged among many ranks: in stages, each among few. A bucket of gradients is reduced and
 * scattered among ranks with neighbouring numbers, then each part among the ranks that hold the same part, and
 * so on; parameters are gathered through the same stages in the other direction. That sends no more bytes than
 * one exchange among all ranks, in far fewer messages: of 64 ranks each has 7 + 7 peers, not 63; of 10,240 it
 * has 28. (Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and
 * experience", 2007, section 7: meshes.) Few ranks take one stage: fewer waits.
 */
#include "compile/compile_impl.h"

#include <math.h>

/* Fewer ranks than MANY take one stage; more take stages of about MEMBERS each. */
enum { MANY = 16, MEMBERS = 8 };

/* Digits whose members follow each other without gaps are one. */
static ls_team merged(const ls_team *team) {
    ls_team out = {0};
    for (int d = 0; d < team->digits; d++) {
        const int size = team->digit[d].size, stride = team->digit[d].stride;
        if (out.digits > 0 && out.digit[out.digits - 1].stride == size * stride) {
            out.digit[out.digits - 1].size *= size;
            out.digit[out.digits - 1].stride = stride;
        } else {
            out.digit[out.digits].size = size;
            out.digit[out.digits++].stride = stride;
        }
    }
    return out;
}

/*
 * The least divisor of n that leaves so little that stages of about MEMBERS suffice for the rest; n itself
 * where it has no other.
 */
static int first_factor(int n) {
    const double stages = ceil(log(n) / log(MEMBERS) - 1e-9);
    const double least = pow(n, 1 / stages) - 1e-9;
    int factor = 2;
    while (factor < least || n % factor != 0) factor++;
    return factor;
}

int ls_build_stages(ls_builder *b, const ls_team *team, int stages[LS_TEAM_DIGITS]) {
    const ls_team whole = merged(team);
    int n = 0;
    if (ls_team_size(team) < MANY) {
        stages[n++] = ls_build_team(b, team);
        return n;
    }
    for (int d = whole.digits - 1; d >= 0; d--) {
        int left = whole.digit[d].size, stride = whole.digit[d].stride;
        while (left > 1) {
            const bool last = n + d + 1 == LS_TEAM_DIGITS; /* each digit further out needs a stage */
            const int size = last ? left : first_factor(left);
            const ls_team stage = {.digits = 1, .digit = {{size, stride}}};
            stages[n++] = ls_build_team(b, &stage);
            stride *= size;
            left /= size;
        }
    }
    return n;
}

/* The team of the ranks that exchange in the first n stages, the first stage's digits first. */
static ls_team joined(const ls_image *image, const int *stages, int n) {
    ls_team team = {0};
    for (int s = 0; s < n; s++) {
        const ls_team *stage = &image->teams[stages[s]];
        for (int d = 0; d < stage->digits; d++) team.digit[team.digits++] = stage->digit[d];
    }
    return team;
}

void ls_find_stages(ls_builder *b) {
    const bool all[LS_AXES] = {true, true, true};
    const ls_team world = ls_mesh_team(&b->target->mesh, all);
    int teams[LS_TEAM_DIGITS];
    b->n_stages = ls_build_stages(b, &world, teams);
    for (int s = 0; s < b->n_stages; s++)
        b->stage[s] = (ls_stage){.team = teams[s], .ranks = ls_build_team_size(b, teams[s])};
    b->image->owners = joined(b->image, teams, b->n_stages);
}

int ls_stage_channel(const ls_builder *b, int stage, int j) {
    int before = 0;
    for (int s = 0; s < stage; s++) before += b->stage[s].ranks - 1;
    return before + j;
}

int64_t ls_stage_count(const ls_builder *b, int64_t bucket, int stage) {
    for (int s = 0; s <= stage; s++) bucket /= b->stage[s].ranks;
    return bucket;
}

ls_operand ls_stage_part(ls_builder *b, ls_operand buckets, int stage, int shift) {
    const int last = buckets.view.ndim - 1;
    const int64_t whole = buckets.view.size[last];
    for (int s = 0; s < stage; s++)
        buckets = ls_build_share(b, buckets, last, ls_stage_count(b, whole, s), b->stage[s].team, 0);
    return ls_build_share(b, buckets, last, ls_stage_count(b, whole, stage), b->stage[stage].team, shift);
}
