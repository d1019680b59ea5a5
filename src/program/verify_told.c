/* What the peer tells about an instruction's use, and the error for an instruction. */
#include "program/verify_impl.h"

ls_status ls_play_fault(const ls_play *p, ls_point at, const char *what) {
    return ls_instr_fault(p->rank[at.rank].image, at.program, at.rank, at.instr, what);
}

const ls_instr *ls_play_told(const ls_play *p, int rank, const ls_instr *instr) {
    const ls_play_rank *r = &p->rank[rank];
    const int program = ls_play_index(r);
    const ls_play_rank *peer = &p->rank[ls_peer_rank(r->image, instr->peer, rank)];
    const ls_program *there = &peer->image->programs[program];
    const int tells = ls_use_told(&peer->uses[program], there, instr);
    return tells < 0 ? NULL : &there->instrs[tells];
}
