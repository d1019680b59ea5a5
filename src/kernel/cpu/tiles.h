/* The tile registers of AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18), as all products use them. */
#ifndef LS_KERNEL_CPU_TILES_H
#define LS_KERNEL_CPU_TILES_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

/* Eight tiles of 16 rows of 64 bytes, from here to tiles_end, on this thread. */
static inline void tiles_begin(void) {
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) config.row_bytes[i] = TILE_ROW_BYTES, config.rows[i] = TILE_ROWS;
    _tile_loadconfig(&config);
}

static inline void tiles_end(void) { _tile_release(); }

/*
 * Between one tile instruction and the next. While the core's other hardware thread works, tile instructions that follow one another closely hold
 * each other up: products alone take 1.8 times as long as eight other instructions apart, a loop of products and loads 1.6 times.
 * Fewer than six do less, more do no more; alone on the core they cost nothing. Other work serves as well.
 */
static inline void tiles_apart(void) { __asm__ volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop"); }

#endif
