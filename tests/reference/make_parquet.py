#!/usr/bin/env python3
"""Small Parquet files by pyarrow: each codec, each encoding, both versions of pages, nested columns, several row groups; and their rows as JSON.

    make_parquet.py

Writes tests/reference/parquet/: ROWS.NAME.parquet, and ROWS.jsonl, what pyarrow reads from each of these files. The stored files were made by pyarrow 26.0.1.
"""
import base64
import datetime
import decimal
import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq

written = set()
OUT = pathlib.Path(__file__).resolve().parent / "parquet"


def plain(value, kind):
    """A value as the reader writes it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: plain(value[f.name], f.type) for f in kind}
    if pa.types.is_map(kind):
        if pa.types.is_string(kind.key_type):
            return {k: plain(v, kind.item_type) for k, v in value}
        return [{"key": plain(k, kind.key_type), "value": plain(v, kind.item_type)} for k, v in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [plain(v, kind.value_type) for v in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, datetime.datetime):
        return value.replace(tzinfo=None).isoformat()
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    return value


def write(name, table, **options):
    path = OUT / f"{name}.parquet"
    pq.write_table(table, path, **options)
    read = pq.read_table(path)
    rows = [{f.name: plain(row[f.name], f.type) for f in read.schema} for row in read.to_pylist(maps_as_pydicts=None)]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    expected = OUT / f"{name.split('.')[0]}.jsonl"
    if expected in written:
        assert expected.read_text() == lines, name
    written.add(expected)
    expected.write_text(lines)
    print(name, path.stat().st_size, "bytes,", read.num_rows, "rows")


WORDS = ["long", "span", "", "shared beginning", "shared begin", "數字", "é" * 5, "\"quoted\" \\ \n\t\x01", None]
texts = pa.array([WORDS[i % len(WORDS)] for i in range(60)])
numbers = pa.array([None if i % 7 == 3 else (i * i * 2654435761) % (1 << 40) - (1 << 39) for i in range(60)], pa.int64())
small = pa.array([(i * 37) % 101 - 50 for i in range(60)], pa.int32())
reals = pa.array([i / 7 - 3 for i in range(60)], pa.float64())
singles = pa.array([None if i % 5 == 0 else i * 0.5 for i in range(60)], pa.float32())
truths = pa.array([None if i % 11 == 0 else i % 3 == 0 for i in range(60)])
table = pa.table({"text": texts, "number": numbers, "small": small, "real": reals, "single": singles, "truth": truths})

for codec in ("none", "snappy", "gzip", "zstd", "lz4"):
    write(f"table.{codec}", table, compression=codec)
for version in ("1.0", "2.0"):
    v = version[0]
    write(f"table.page{v}-plain", table, use_dictionary=False, data_page_version=version, compression="snappy")
    write(f"table.page{v}-dictionary", table, data_page_version=version, compression="none", data_page_size=64, max_rows_per_page=10)
    write(f"table.page{v}-groups", table, data_page_version=version, row_group_size=17, compression="zstd")
ENCODINGS = {"text": "DELTA_BYTE_ARRAY", "number": "DELTA_BINARY_PACKED", "small": "DELTA_BINARY_PACKED", "real": "BYTE_STREAM_SPLIT", "single": "BYTE_STREAM_SPLIT", "truth": "RLE"}
write("table.delta", table, use_dictionary=False, column_encoding=ENCODINGS, version="2.6", data_page_version="2.0")
write("part.lengths", table.select(["text", "number", "small"]), use_dictionary=False, column_encoding={"text": "DELTA_LENGTH_BYTE_ARRAY", "number": "BYTE_STREAM_SPLIT", "small": "BYTE_STREAM_SPLIT"}, version="2.6")
many = pa.table({"n": pa.array([(i * i) % 1000003 for i in range(700)], pa.int64()), "same": pa.array([5] * 700, pa.int32()), "text": [f"row {i // 3}" for i in range(700)]})
write("many", many, use_dictionary=["same"], column_encoding={"n": "DELTA_BINARY_PACKED", "text": "DELTA_BYTE_ARRAY"}, compression="zstd", data_page_size=2048)

message = pa.struct([("role", pa.string()), ("content", pa.string()), ("weight", pa.int64())])
talks = [
    [{"role": "user", "content": "Hi", "weight": None}, {"role": "assistant", "content": "Ho", "weight": 1}],
    [],
    None,
    [{"role": "user", "content": None, "weight": 0}],
    [None, {"role": "system", "content": "", "weight": None}, {"role": "user", "content": "x", "weight": 2}],
]
nested = pa.table({
    "messages": pa.array(talks * 3, pa.list_(message)),
    "deep": pa.array([[[1, 2], [], None, [None, 3]], [], None, [[4]], [None]] * 3, pa.list_(pa.list_(pa.int32()))),
    "meta": pa.array([{"a": {"b": [1.5, None]}, "c": "x"}, None, {"a": None, "c": None}, {"a": {"b": None}, "c": "y"}, {"a": {"b": []}, "c": ""}] * 3, pa.struct([("a", pa.struct([("b", pa.list_(pa.float64()))])), ("c", pa.string())])),
    "map": pa.array([[("k", 1), ("l", None)], [], None, [("", 2)], [("m", 3)]] * 3, pa.map_(pa.string(), pa.int64())),
    "pairs": pa.array([[(1, ["a"])], [], None, [(2, None), (3, [])], [(4, ["b", None])]] * 3, pa.map_(pa.int32(), pa.list_(pa.string()))),
    "fixed": pa.array([[1, 2], [3, None], None, [5, 6], [7, 8]] * 3, pa.list_(pa.int16(), 2)),
    "nothing": pa.nulls(15),
})
write("nested.page1", nested, compression="snappy")
write("nested.page2", nested, compression="gzip", data_page_version="2.0", row_group_size=4, use_dictionary=False)
write("nested-old", nested.select(["messages", "deep", "meta"]), compression="none", use_compliant_nested_type=False, data_page_size=32, max_rows_per_page=2)
required = pa.schema([pa.field("text", pa.string(), nullable=False), pa.field("list", pa.list_(pa.field("item", pa.int64(), nullable=False)), nullable=False)])
write("required", pa.table({"text": ["a", "b"], "list": [[1, 2], []]}, schema=required))

day, at = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 12, 30, 15, 250000)
types = pa.table({
    "date": pa.array([day, datetime.date(1969, 12, 31), None]),
    "milli": pa.array([at, datetime.datetime(1969, 12, 31, 23, 59, 59), None], pa.timestamp("ms")),
    "micro": pa.array([at, datetime.datetime(1900, 1, 1), None], pa.timestamp("us", tz="UTC")),
    "time": pa.array([datetime.time(1, 2, 3, 4), None, datetime.time(23, 59, 59)], pa.time64("us")),
    "decimal": pa.array([decimal.Decimal("12.34"), decimal.Decimal("-0.05"), None], pa.decimal128(9, 2)),
    "large": pa.array([decimal.Decimal("123456789012345678901234.5"), None, decimal.Decimal("-1.0")], pa.decimal128(30, 1)),
    "u32": pa.array([4294967295, 0, None], pa.uint32()),
    "u64": pa.array([(1 << 63) - 1, 0, None], pa.uint64()),
    "i8": pa.array([-128, 127, None], pa.int8()),
    "half": pa.array([1.5, -0.25, None], pa.float16()),
    "bytes": pa.array([b"text", b"\xff\x00\x01", None]),
    "fixed": pa.array([b"\x80\x81\x82", b"abc", None], pa.binary(3)),
    "large_text": pa.array(["a", None, "b"], pa.large_string()),
    "category": pa.array(["x", "y", None]).dictionary_encode(),
})
write("types", types)
write("int96", pa.table({"at": pa.array([at, datetime.datetime(1960, 1, 1), None], pa.timestamp("us"))}), use_deprecated_int96_timestamps=True)
write("empty", pa.table({"text": pa.array([], pa.string())}))
pq.write_table(table, OUT / "refused-brotli.parquet", compression="brotli")
