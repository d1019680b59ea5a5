/*
 * The operands of a call in places of their own: an arena of addresses in which they lie far apart, so that an access
 * to any byte of the arena that belongs to none of them is found.
 */
#include "watch_impl.h"

#include <sys/mman.h>

namespace watch {

namespace {

constexpr size_t ARENA = (size_t)1 << 36, APART = 1 << 20, PAGE = 4096;

struct place {
    char *own; /* where the test has it */
    range in_arena;
};

struct operand {
    const ls_view *view; /* of the call; nullptr: the workspace */
    std::string name;
};

char *arena;
std::vector<place> places;
std::vector<operand> operands;

size_t extent(const ls_view &v) {
    int64_t last = 0;
    for (int d = 0; d < v.ndim; d++) last += (v.size[d] - 1) * v.stride[d];
    return ls_dtype_bytes(v.dtype) * (size_t)(last + 1);
}

/* Bytes that the test has in one piece. */
struct piece {
    char *begin, *end;
    size_t unit;
};

/* Pieces that overlap become one. */
void add_piece(std::vector<piece> *pieces, piece added) {
    for (size_t i = 0; i < pieces->size();) {
        const piece p = (*pieces)[i];
        if (p.begin < added.end && added.begin < p.end) {
            added = {std::min(p.begin, added.begin), std::max(p.end, added.end), std::min(p.unit, added.unit)};
            pieces->erase(pieces->begin() + (std::ptrdiff_t)i);
            i = 0;
        } else {
            i++;
        }
    }
    pieces->push_back(added);
}

/* At the same distance from the begin of a page, so that it is aligned to as much. */
void place_pieces(const std::vector<piece> &pieces) {
    char *at = arena + APART;
    places.clear();
    for (const auto &[begin, end, unit] : pieces) {
        const size_t bytes = (size_t)(end - begin);
        at += (uintptr_t)begin % PAGE;
        memcpy(at, begin, bytes);
        places.push_back({begin, {at, bytes, unit, std::vector<cell>((bytes + unit - 1) / unit)}});
        at = (char *)ls_round_up((size_t)at + bytes + APART, PAGE);
    }
}

void *moved(void *own) {
    for (const place &p : places)
        if (own >= p.own && (char *)own < p.own + p.in_arena.bytes)
            return (char *)p.in_arena.begin + ((char *)own - p.own);
    return own;
}

void *moved_back(void *there) {
    for (const place &p : places)
        if (p.in_arena.has(there)) return p.own + ((char *)there - p.in_arena.begin);
    return there;
}

void mark(const void *at, size_t bytes, bool may_write, bool written) {
    range *const r = find_operand(at);
    for (size_t b = 0; b < bytes; b += r->unit) {
        cell *const c = r->at((const char *)at + b);
        c->may_read = true;
        c->may_write |= may_write;
        c->written |= written;
    }
}

void mark_view(const ls_view &v, bool may_write, bool written) {
    const size_t bytes = ls_dtype_bytes(v.dtype);
    const int64_t n = ls_view_elements(&v);
    for (int64_t i = 0; i < n; i++) {
        int64_t rest = i, at = 0;
        for (int d = v.ndim - 1; d >= 0; rest /= v.size[d], d--) at += rest % v.size[d] * v.stride[d];
        mark((const char *)v.data + (int64_t)bytes * at, bytes, may_write, written);
    }
}

} // namespace

range *find_operand(const void *p) {
    if ((const char *)p < arena || (const char *)p >= arena + ARENA) return nullptr;
    for (place &each : places)
        if (each.in_arena.has(p)) return &each.in_arena;
    return nullptr;
}

bool is_beside_operands(const void *p) {
    return !places.empty() && (const char *)p >= arena && (const char *)p < arena + ARENA && find_operand(p) == nullptr;
}

/* That one of which the byte is, or the nearest. */
std::string name_of_operand(const void *p) {
    std::string name = "no operand";
    size_t least = SIZE_MAX;
    for (const operand &o : operands) {
        const char *const begin = (const char *)(o.view != nullptr ? o.view->data : nullptr);
        if (begin == nullptr || ls_view_elements(o.view) == 0) continue;
        const size_t bytes = extent(*o.view);
        const std::ptrdiff_t at = (const char *)p - begin;
        const size_t away = at < 0 ? (size_t)-at : (size_t)at >= bytes ? (size_t)at - bytes + 1 : 0;
        if (away >= least) continue;
        least = away;
        name = "byte " + std::to_string(at) + " of " + o.name + ", which has " + std::to_string(bytes);
    }
    return name;
}

} // namespace watch

using namespace watch;

static ls_view of_workspace; /* while a call runs */

void watch_call_begins(const ls_kernel *kernel, ls_kernel_call *call, size_t workspace) {
    std::vector<piece> pieces;
    if (arena == nullptr)
        arena =
            (char *)mmap(nullptr, ARENA, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED) found("there are no addresses for operands");
    const int64_t bytes[] = {(int64_t)(workspace / 2)};
    of_workspace = ls_view_dense(call->workspace, LS_BF16, 1, bytes);
    std::vector<ls_view *> views;
    operands.clear();
    for (int i = 0; i < call->n_in; i++) operands.push_back({&call->in[i], "input " + std::to_string(i)});
    for (int i = 0; i < call->n_out; i++) operands.push_back({&call->out[i], "output " + std::to_string(i)});
    operands.push_back({&of_workspace, "the workspace"});
    for (const operand &o : operands)
        if (ls_view_elements(o.view) > 0)
            add_piece(&pieces, {(char *)o.view->data, (char *)o.view->data + extent(*o.view),
                                std::min((size_t)4, ls_dtype_bytes(o.view->dtype))});
    place_pieces(pieces);
    for (int i = 0; i < call->n_in; i++) call->in[i].data = moved(call->in[i].data);
    for (int i = 0; i < call->n_out; i++) call->out[i].data = moved(call->out[i].data);
    call->workspace = of_workspace.data = moved(call->workspace);
    for (int i = 0; i < call->n_in; i++) mark_view(call->in[i], false, true);
    for (int i = 0; i < call->n_out; i++)
        mark_view(call->out[i], true, ls_kernel_reads_output(kernel->id, call->params, i));
    mark_view(of_workspace, true, false);
    begin_counting();
}

void watch_call_ends(ls_kernel_call *call) {
    for (const place &p : places) memcpy(p.own, p.in_arena.begin, p.in_arena.bytes);
    for (int i = 0; i < call->n_in; i++) call->in[i].data = moved_back(call->in[i].data);
    for (int i = 0; i < call->n_out; i++) call->out[i].data = moved_back(call->out[i].data);
    call->workspace = moved_back(call->workspace);
    places.clear();
    operands.clear();
}

void watch_stream_writes(const void *data, size_t bytes) {
    for (size_t b = 0; b < bytes; b += 2) {
        range *const r = find_operand((const char *)data + b);
        if (r != nullptr) r->at((const char *)data + b)->written = true;
    }
}
