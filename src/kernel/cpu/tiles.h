/*
 * The tile registers of AMX (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18), for
 * attention_tiles.h and matmul_tiles.c.
 */
#ifndef LS_KERNEL_CPU_TILES_H
#define LS_KERNEL_CPU_TILES_H

#include <immintrin.h>
#include <stdint.h>

enum { TILE_ROWS = 16, TILE_ROW_BYTES = 64 };

/* Configures eight tiles of 16 rows of 64 bytes on this thread, until tiles_end. */
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
 * Eight instructions that do nothing, to be placed between two tile instructions. While the core's other hardware
 * thread works, adjacent tile instructions are slow: products alone take 1.8 times as long as with eight other
 * instructions between them, a loop of products and loads 1.6 times. Fewer than six instructions help less, more than
 * eight no more; without a busy second thread they cost nothing. Useful instructions in their place have the same
 * effect.
 */
static inline void tiles_apart(void) { __asm__ volatile("nop\n nop\n nop\n nop\n nop\n nop\n nop\n nop"); }

#endif
