/*
 * comm, for this folder alone: SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), for data that strangers must not be
 * able to forge. Execution time does not depend on secrets, except through the length of what is hashed.
 */
#ifndef LS_COMM_SHA256_IMPL_H
#define LS_COMM_SHA256_IMPL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LS_SHA256_BYTES = 32, LS_SHA256_BLOCK = 64 };

/* The hash of bytes that are added in pieces. */
typedef struct ls_sha256 {
    uint32_t state[8];
    uint64_t bytes; /* so far */
    uint8_t block[LS_SHA256_BLOCK];
} ls_sha256;

void ls_sha256_begin(ls_sha256 *hash);
void ls_sha256_add(ls_sha256 *hash, const void *data, size_t bytes);
/* Writes the hash of all bytes added; afterwards *hash must be begun again. */
void ls_sha256_end(ls_sha256 *hash, uint8_t out[LS_SHA256_BYTES]);

/* HMAC of bytes that are added in pieces, with a key of any length. */
typedef struct ls_hmac {
    ls_sha256 inner, outer;
} ls_hmac;

void ls_hmac_begin(ls_hmac *mac, const void *key, size_t bytes);
void ls_hmac_add(ls_hmac *mac, const void *data, size_t bytes);
void ls_hmac_end(ls_hmac *mac, uint8_t out[LS_SHA256_BYTES]);

/* Whether two codes are equal, in constant time. */
bool ls_is_same_code(const uint8_t a[LS_SHA256_BYTES], const uint8_t b[LS_SHA256_BYTES]);

#endif
