"""Writes the tests' rows (chats, prompts with completions, texts) as JSON Lines and as Parquet, and columns of types that
no row has. Needs pyarrow: python make_rows.py FOLDER."""

import json
import pathlib
import sys

import pyarrow as pa
import pyarrow.parquet as pq

CHATS = [
    {"messages": [{"role": "system", "content": "Be short.", "train": None, "weight": None},
                  {"role": "user", "content": "One?", "train": None, "weight": None},
                  {"role": "assistant", "content": "First \u00e4 \U0001f389.", "train": None, "weight": 0.5},
                  {"role": "user", "content": "Two?\n", "train": None, "weight": None},
                  {"role": "assistant", "content": "Second.", "train": False, "weight": None},
                  {"role": "user", "content": "Three?", "train": None, "weight": None},
                  {"role": "assistant", "content": "Third.", "train": True, "weight": None}], "source": 1},
    {"messages": [{"role": "user", "content": "Four?", "train": None, "weight": None},
                  {"role": "assistant", "content": "Fourth.", "train": None, "weight": None}], "source": None},
]
COMPLETIONS = [{"prompt": "2 + 2 = ", "completion": "4"}, {"prompt": "", "completion": "Caf\u00e9"}]
TEXTS = [{"text": "A text of\ntwo lines."}, {"text": "\u4e2d\u6587"}, {"text": "The last."}]

STRUCT = pa.struct([("role", pa.string()), ("content", pa.string()), ("train", pa.bool_()), ("weight", pa.float64())])


def main():
    folder = pathlib.Path(sys.argv[1])

    def write(name, table):
        pq.write_table(table, folder / f"{name}.parquet", compression="none", store_schema=False)

    for name, rows, schema in [
            ("chats", CHATS, pa.schema([("messages", pa.list_(STRUCT)), ("source", pa.int64())])),
            ("completions", COMPLETIONS, pa.schema([("prompt", pa.string()), ("completion", pa.large_string())])),
            ("texts", TEXTS, pa.schema([("text", pa.binary())]))]:
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        (folder / f"{name}.jsonl").write_text("".join(lines), encoding="utf-8")
        if name == "texts":
            rows = [{"text": row["text"].encode()} for row in rows]
        write(name, pa.Table.from_pylist(rows, schema=schema))
    write("numbers", pa.table({"text": [1, 2]}))
    write("bytes", pa.table({"text": [b"\xff\xfe"]}))
    write("joined", pa.table({"messages": ["user: One?"]}))
    # These values are far larger than the files: one text of 100 MB, and one row of 2 million values.
    pq.write_table(pa.table({"text": ["a" * 100_000_000]}), folder / "long.parquet", compression="zstd",
                   use_dictionary=False, write_statistics=False, store_schema=False)
    pq.write_table(pa.table({"messages": pa.array([[None] * 2_000_000], pa.list_(pa.string()))}),
                   folder / "many.parquet", compression="zstd", store_schema=False)


main()
