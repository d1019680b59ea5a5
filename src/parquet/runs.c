/* Runs of small numbers, and integers as differences: read one at a time, however many a page says that there are. */
#include "parquet/parquet_impl.h"

/* The `width` bits from bit `at` on, lowest bit first. The caller has checked that they exist. */
static uint64_t read_bits(const uint8_t *bytes, uint64_t at, unsigned width) {
    uint64_t value = 0;
    for (unsigned done = 0; done < width;) {
        const unsigned from = (unsigned)(at % 8), n = (unsigned)parquet_smaller(8 - from, width - done);
        value |= (uint64_t)(bytes[at / 8] >> from & ((1u << n) - 1)) << done;
        done += n;
        at += n;
    }
    return value;
}

/* ---- runs ---- */

parquet_runs parquet_runs_of(const uint8_t *at, const uint8_t *end, unsigned width) {
    return (parquet_runs){.at = at, .end = end, .width = width};
}

/* Begins a run, which may be empty. */
static bool next_run(parquet_runs *r) {
    uint64_t head;
    r->at += r->to_skip;
    r->to_skip = 0;
    if (!thrift_varint(&r->at, r->end, &head) || head >> 1 > UINT32_MAX) return false;
    const uint64_t room = (uint64_t)(r->end - r->at);
    r->packed = head & 1;
    r->left = head >> 1;
    if (r->packed) {
        /* Groups of 8 numbers, of which the last group may be cut off. */
        r->to_skip = parquet_smaller(r->left * r->width, room);
        r->left = r->width > 0 ? parquet_smaller(r->left * 8, r->to_skip * 8 / r->width) : r->left * 8;
        r->bit = 0;
        return true;
    }
    const unsigned bytes = (r->width + 7) / 8;
    if (bytes > room) return false;
    r->number = 0;
    for (unsigned i = 0; i < bytes; i++) r->number |= (uint32_t)r->at[i] << 8 * i;
    r->at += bytes;
    return true;
}

bool parquet_runs_next(parquet_runs *r, uint32_t *out) {
    while (r->left == 0)
        if (r->at + r->to_skip == r->end || !next_run(r)) return false;
    r->left--;
    if (!r->packed) {
        *out = r->number;
        return true;
    }
    *out = (uint32_t)read_bits(r->at, r->bit, r->width);
    r->bit += r->width;
    r->at += r->bit / 8;
    r->to_skip -= r->bit / 8;
    r->bit %= 8;
    return true;
}

/* ---- differences ---- */

bool parquet_deltas_begin(parquet_deltas *d, const uint8_t *at, const uint8_t *end) {
    uint64_t block, first;
    *d = (parquet_deltas){.at = at, .end = end, .first = true};
    if (!thrift_varint(&d->at, end, &block) || !thrift_varint(&d->at, end, &d->blocks) ||
        !thrift_varint(&d->at, end, &d->left) || !thrift_varint(&d->at, end, &first))
        return false;
    if (d->blocks == 0 || block % d->blocks != 0 || block > INT32_MAX || d->left > INT32_MAX) return false;
    d->per_mini = block / d->blocks;
    d->mini = d->blocks;
    d->value = (uint64_t)thrift_zigzag(first);
    return d->per_mini > 0 && d->per_mini % 8 == 0;
}

/* Begins the next miniblock, and first the next block if the last miniblock was the last of its block. */
static bool next_mini(parquet_deltas *d) {
    d->at += d->bit / 8;
    d->bit = 0;
    if (d->mini == d->blocks) {
        uint64_t least;
        if (!thrift_varint(&d->at, d->end, &least) || d->blocks > (uint64_t)(d->end - d->at)) return false;
        d->least = thrift_zigzag(least);
        d->widths = d->at;
        d->at += d->blocks;
        d->mini = 0;
    }
    d->width = d->widths[d->mini++];
    d->mini_left = d->per_mini;
    return d->width <= 64 && d->per_mini / 8 * d->width <= (uint64_t)(d->end - d->at);
}

bool parquet_deltas_next(parquet_deltas *d, int64_t *out) {
    if (d->left == 0) return false;
    if (!d->first) {
        if (d->mini_left == 0 && !next_mini(d)) return false;
        d->value += (uint64_t)d->least + read_bits(d->at, d->bit, d->width);
        d->bit += d->width;
        d->mini_left--;
    }
    d->first = false;
    d->left--;
    *out = (int64_t)d->value;
    return true;
}

bool parquet_deltas_end(parquet_deltas d, const uint8_t **end) {
    uint64_t left = d.left > 0 ? d.left - d.first : 0; /* the first value lies in the head */
    while (left > d.mini_left) {
        left -= d.mini_left;
        d.bit += d.mini_left * d.width;
        if (!next_mini(&d)) return false;
    }
    d.bit += d.mini_left * d.width;
    *end = d.at + d.bit / 8;
    return true;
}
