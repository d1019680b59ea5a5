/*
 * How many ranks exchange data with each other at a time. Among many ranks a collective has stages, each among few
 * ranks. A reduce-scatter goes first among ranks with neighbouring numbers, then each part among the ranks that hold
 * the same part, and so on; an all-gather goes through the same stages in the other direction. That sends no more bytes
 * than one exchange among all ranks, in far fewer messages: with 64 ranks each has 7 + 7 peers instead of 63; with
 * 10,240 ranks each has 28. (Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice,
 * and experience", 2007, section 7: meshes.) Few ranks take one stage, as that has fewer waits.
 *
 * All-gather, reduce-scatter and all-reduce share one table of algorithms, because the ranks that scatter and those
 * that gather must agree on who owns which piece.
 */
#include "compile/redistribute/redistribute.h"

#include <limits.h>
#include <math.h>

/* Fewer ranks than MANY take one stage; more take stages of about MEMBERS each. */
enum { MANY = 16, MEMBERS = 8 };

/*
 * The size of the next stage for n ranks: the smallest divisor of n with which the number of stages is no larger than
 * with stages of MEMBERS ranks; n itself if it has no other.
 */
static int first_factor(int n) {
    const double stages = ceil(log(n) / log(MEMBERS) - 1e-9);
    const double least = pow(n, 1 / stages) - 1e-9;
    int factor = 2;
    while (factor < least || n % factor != 0) factor++;
    return factor;
}

/* These functions write the teams of the stages, nearest ranks first, and return how many there are. */
static int cut_direct(ls_builder *b, const ls_team *team, int stages[LS_TEAM_DIGITS]) {
    stages[0] = ls_build_team(b, team);
    return 1;
}

static int cut_near_first(ls_builder *b, const ls_team *team, int stages[LS_TEAM_DIGITS]) {
    const ls_team whole = ls_team_merged(team);
    int n = 0;
    for (int d = whole.digits - 1; d >= 0; d--) {
        int left = whole.digit[d].size, stride = whole.digit[d].stride;
        while (left > 1) {
            const bool last = n + d + 1 == LS_TEAM_DIGITS; /* each digit further out still needs a stage */
            const int size = last ? left : first_factor(left);
            const ls_team stage = {.digits = 1, .digit = {{size, stride}}};
            stages[n++] = ls_build_team(b, &stage);
            stride *= size;
            left /= size;
        }
    }
    return n;
}

/*
 * The first row that allows the team's number of ranks, and makes the kind of sums asked for, is taken. Canonical sums
 * are made where all addends have arrived.
 */
static const struct algorithm {
    const char *name;
    bool canonical;
    int most_ranks;
    int (*cut)(ls_builder *b, const ls_team *team, int stages[LS_TEAM_DIGITS]);
    ls_slots_add add;
} algorithms[] = {
    {"direct", false, MANY - 1, cut_direct, ls_slots_add_in_order},
    {"staged", false, INT_MAX, cut_near_first, ls_slots_add_in_order},
    {"canonical", true, INT_MAX, cut_direct, ls_slots_add_canonically},
};

ls_stages ls_stages_of(ls_builder *b, const ls_team *team) {
    const struct algorithm *algorithm = algorithms;
    while (ls_team_size(team) > algorithm->most_ranks || algorithm->canonical != b->target->canonical) algorithm++;
    int teams[LS_TEAM_DIGITS];
    ls_stages stages = {.n = algorithm->cut(b, team, teams), .add = algorithm->add};
    for (int s = 0; s < stages.n; s++)
        stages.stage[s] = (ls_stage){.team = teams[s], .ranks = ls_build_team_size(b, teams[s])};
    return stages;
}

ls_stages ls_stages_direct(const ls_builder *b, int team) {
    return (ls_stages){.n = 1, .stage = {{team, ls_build_team_size(b, team)}}, .add = ls_slots_add_in_order};
}

ls_team ls_stages_owners(const ls_builder *b, const ls_stages *stages) {
    ls_team team = {0};
    for (int s = 0; s < stages->n; s++) {
        const ls_team *stage = &b->image->teams[stages->stage[s].team];
        for (int d = 0; d < stage->digits; d++) team.digit[team.digits++] = stage->digit[d];
    }
    return team;
}

int64_t ls_stages_count(const ls_stages *stages, int64_t whole, int stage) {
    for (int s = 0; s <= stage; s++) whole /= stages->stage[s].ranks;
    return whole;
}

int64_t ls_stages_piece_count(const ls_stages *stages, int64_t whole) {
    return ls_stages_count(stages, whole, stages->n - 1);
}

ls_operand ls_stages_part(ls_builder *b, const ls_stages *stages, ls_operand whole, int dim, int stage, int shift) {
    const int64_t count = whole.view.size[dim];
    for (int s = 0; s < stage; s++)
        whole = ls_build_share(b, whole, dim, ls_stages_count(stages, count, s), stages->stage[s].team, 0);
    return ls_build_share(b, whole, dim, ls_stages_count(stages, count, stage), stages->stage[stage].team, shift);
}

ls_operand ls_stages_piece(ls_builder *b, const ls_stages *stages, ls_operand whole, int dim) {
    return ls_stages_part(b, stages, whole, dim, stages->n - 1, 0);
}
