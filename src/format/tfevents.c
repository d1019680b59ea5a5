/* TensorBoard event files. The wire format is written without a library: five kinds of fields, and CRC-32C. */
#include "format/tfevents.h"

#include "base/base.h"
#include "format/file.h"

#include <math.h>
#include <string.h>

/* ---- the bytes of a message ---- */

enum { VALUE_BYTES = LS_TFEVENTS_TAG + 16, EVENT_BYTES = LS_TFEVENTS_MOST * VALUE_BYTES + 64 };

typedef struct message {
    uint8_t bytes[EVENT_BYTES];
    size_t n;
} message;

/* Types of the wire format. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

static void put_varint(message *m, uint64_t value) {
    for (; value >= 0x80; value >>= 7) m->bytes[m->n++] = (uint8_t)(value | 0x80);
    m->bytes[m->n++] = (uint8_t)value;
}

static void put_little_endian(message *m, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) m->bytes[m->n++] = (uint8_t)(value >> 8 * i);
}

static void put_field(message *m, int field, int type) { put_varint(m, (uint64_t)(field << 3 | type)); }

static void put_double(message *m, int field, double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field(m, field, FIXED64);
    put_little_endian(m, bits, 8);
}

static void put_float(message *m, int field, float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_field(m, field, FIXED32);
    put_little_endian(m, bits, 4);
}

static void put_int(message *m, int field, int64_t value) {
    put_field(m, field, VARINT);
    put_varint(m, (uint64_t)value);
}

static void put_bytes(message *m, int field, const void *data, size_t n) {
    LS_ASSERT(m->n + n + 12 <= sizeof m->bytes);
    put_field(m, field, BYTES);
    put_varint(m, n);
    memcpy(m->bytes + m->n, data, n);
    m->n += n;
}

/* ---- records ---- */

/* CRC-32C (Castagnoli). Bit by bit is fast enough: a step has a few hundred bytes. */
static uint32_t crc32c(const uint8_t *bytes, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* The form in which a checksum is stored: the CRC of data that contains unmasked CRCs would be weak. */
static uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xa282ead8u; }

static ls_status append_record(const char *path, const message *event) {
    message record = {.n = 0};
    put_little_endian(&record, event->n, 8);
    put_little_endian(&record, masked(crc32c(record.bytes, 8)), 4);
    LS_ASSERT(record.n + event->n + 4 <= sizeof record.bytes);
    memcpy(record.bytes + record.n, event->bytes, event->n);
    record.n += event->n;
    put_little_endian(&record, masked(crc32c(event->bytes, event->n)), 4);
    const ls_file_piece piece = {record.bytes, record.n};
    return ls_file_append(path, &piece, 1);
}

/* ---- events, with the field numbers of TensorFlow's event.proto and summary.proto ---- */

enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION_LOG = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE_VALUE = 2, SESSION_LOG_STATUS = 1, STATUS_START = 1 };

ls_status ls_tfevents_begin(const char *path, double wall, int64_t step) {
    static const char version[] = "brain.Event:2";
    message event = {.n = 0};
    put_double(&event, EVENT_WALL_TIME, wall);
    put_bytes(&event, EVENT_FILE_VERSION, version, sizeof version - 1);
    LS_TRY(append_record(path, &event));
    if (step <= 0) return ls_ok();
    message start = {.n = 0}, log = {.n = 0};
    put_int(&log, SESSION_LOG_STATUS, STATUS_START);
    put_double(&start, EVENT_WALL_TIME, wall);
    put_int(&start, EVENT_STEP, step);
    put_bytes(&start, EVENT_SESSION_LOG, log.bytes, log.n);
    return append_record(path, &start);
}

ls_status ls_tfevents_append(const char *path, double wall, int64_t step, const ls_tfevents_scalar *scalars, int n) {
    message event = {.n = 0}, summary = {.n = 0};
    LS_ASSERT(n <= LS_TFEVENTS_MOST);
    for (int i = 0; i < n; i++) {
        if (!isfinite(scalars[i].value)) continue;
        message value = {.n = 0};
        LS_ASSERT(strlen(scalars[i].tag) < LS_TFEVENTS_TAG);
        put_bytes(&value, VALUE_TAG, scalars[i].tag, strlen(scalars[i].tag));
        put_float(&value, VALUE_SIMPLE_VALUE, (float)scalars[i].value);
        put_bytes(&summary, SUMMARY_VALUE, value.bytes, value.n);
    }
    put_double(&event, EVENT_WALL_TIME, wall);
    put_int(&event, EVENT_STEP, step);
    put_bytes(&event, EVENT_SUMMARY, summary.bytes, summary.n);
    return append_record(path, &event);
}
