"""Data files and folders that a generator of random numbers writes: whole ones, and what damage makes of them."""

import contextlib
import datetime
import decimal
import gzip
import importlib.util
import io
import json
import os
import random
import socket
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from PIL import Image
from pyarrow import parquet

LABELS = (
    "label",
    "label",
    "label",
    "label",
    "target",
    "class",
    "y",
    "Label",
    "label ",
    " y",
    "clean_label",
    "label.1",
    "given_label",
    "id",
)
NAMES = ("a", "b", "size", "größe", "x\u200b", "Unnamed: 0", "0", "", "\x1b[31m", "image", "text")
WORDS = (
    "cat",
    "dog",
    "=1+1",
    "\u202egnp",
    "NA",
    "",
    "a b c d",
    "007",
    "1.0",
    "True",
    "2026-01-31",
    "\x1b]0;x\x07",
    "é",
)
TOKENS = (
    b"\x00", b'"', b'""', b'"' * 300, b"\xff\xfe", b"\xef\xbb\xbf", b"1e999", b"-1e-999", b"9" * 400, b"nan", b"inf",
    b"\r", b"\n\n", b",", b"," * 500, b"\t", b"0x1p3", b"1_000", b"1970-99-99", b"99999-01-01", b"2026-01-31T25:00",
    b"\\N", b"'", b"label", b"label,label", b"\x1a", b"#", b"x" * 70_000, "\u202e\u0661\u2028".encode(),
    b"18446744073709551616", b"-9223372036854775809", b"1e308", b"1e39", b"True", b"?", b"[red]",
)  # fmt: skip
DTYPES = (
    "<f8", "<f4", "<f2", ">f4", "<i8", "|i1", "<u8", "|u1", "|b1", "<c16", "<U3", "|S3", "<M8[s]", "<m8[D]", "|V8",
    "<f16", "<U0", "|S0", "|V0", "O", "<M8[as]", "<U999999999",
)  # fmt: skip
LENGTHS = (0, 1, 2, 3, 12, 24, 2**31, 2**63, 10**18, 10**30, -1)
SUFFIXES = ("png", "jpg", "gif", "bmp", "tiff", "webp", "ppm", "jp2", "PNG", "txt")
ENCODINGS = ("utf-8", "utf-8", "utf-8", "utf-8-sig", "utf-16", "cp1252", "latin-1", "cp1251", "gbk")
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "JPEG2000", "EPS", "ICO", "TGA")

Rng = random.Random


def damage(rng: Rng, content: bytes, tokens: tuple[bytes, ...] = TOKENS) -> bytes:
    """Some bytes flipped, cut, doubled, swapped for others, or a hostile token put between them."""
    data = bytearray(content)
    for _ in range(rng.choice((0, 1, 1, 2, 5, 20))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 2, 4, 30, 1000)))
        match rng.randrange(7):
            case 0 if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
            case 1:
                del data[at:]
            case 2:
                del data[at:end]
            case 3:
                data[at:at] = data[at:end] * rng.choice((1, 2, 50))
            case 4:
                data[at:at] = rng.choice(tokens)
            case 5:
                data[at:end] = rng.randbytes(end - at)
            case _:
                data[at:end] = rng.choice(tokens)[: end - at]
    return bytes(data)


def column(rng: Rng, rows: int) -> list[Any]:
    """Cells of one kind, some of them missing."""
    day = datetime.date(2026, 1, 31)
    makers: tuple[Callable[[], Any], ...] = (
        lambda: rng.randrange(-3, 3),
        lambda: rng.choice((0.0, -1.5, 1e300, float("inf"), float("nan"), 2.0)),
        lambda: rng.choice(WORDS),
        lambda: bool(rng.randrange(2)),
        lambda: day + datetime.timedelta(days=rng.randrange(999)),
        lambda: " ".join(rng.choices(WORDS, k=9)),
        lambda: rng.randrange(2**64),
        lambda: f"row{rng.random()}",
    )
    make = rng.choice(makers)
    return [None if rng.random() < 0.05 else make() for _ in range(rows)]


def table(rng: Rng) -> pd.DataFrame:
    """A table with labels, mostly."""
    rows = rng.choice((0, 1, 2, 12, 24, 40))
    columns = {rng.choice(NAMES) + rng.choice(("", "", "1", ".1")): column(rng, rows) for _ in range(rng.randrange(6))}
    classes = rng.choice((("a", "b"), (0, 1, 2), (0.0, 1.0), (True, False), WORDS, range(99), ("a",)))
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2))):
        columns[rng.choice(LABELS)] = [rng.choice(classes) for _ in range(rows)]
    return pd.DataFrame(columns)


def write_text(rng: Rng, folder: Path) -> Path:
    """A .csv, .tsv or .txt file, compressed or not, mostly of the usual form."""
    suffix = rng.choice((".csv", ".csv", ".tsv", ".csv.gz", ".tsv.gz", ".txt"))
    usual = "\t" if "tsv" in suffix else ","
    separator, encoding = rng.choice((usual, usual, ";", "\t", "|")), rng.choice(ENCODINGS)
    made = table(rng).to_csv(index=rng.random() < 0.2, sep=separator, decimal=rng.choice("..,"))
    text = made.encode(encoding, "replace")
    if rng.random() < 0.2:
        header, _, rest = text.partition(b"\n")
        text = header + separator.encode() + header + b"\n" + rest
    path = folder / f"data{suffix}"
    if suffix.endswith("gz"):
        packed = gzip.compress(damage(rng, text))
        path.write_bytes(damage(rng, packed) if rng.random() < 0.5 else packed)
    else:
        path.write_bytes(damage(rng, text))
    return path


def write_lines(rng: Rng, folder: Path) -> Path:
    """A .jsonl file of objects, some of which are none."""
    cells = table(rng)
    rows = [json.dumps(row, default=str) for row in cells.astype(object).where(cells.notna(), None).to_dict("records")]
    for at in range(len(rows)):
        if rng.random() < 0.03:
            rows[at] = rng.choice(
                ('{"a": [1]}', "[]", "3", "", '{"a": {"b": 1}}', '{"a": "\\ud800"}', "[" * 9999, "NaN")
            )
        if rng.random() < 0.03:
            rows[at] = json.dumps({f"x{rng.random()}": 1})
    text = rng.choice(("\n", "\r\n")).join(rows).encode(rng.choice(("utf-8", "utf-8-sig", "utf-16", "latin-1")))
    path = folder / "data.jsonl"
    path.write_bytes(damage(rng, text) if rng.random() < 0.5 else text)
    return path


def write_workbook(rng: Rng, folder: Path) -> Path:
    """A .xlsx file, with damage to the archive or to one of its parts."""
    path = folder / "data.xlsx"
    made = table(rng)
    made = made.map(lambda cell: "".join(c for c in cell if c >= " ") if isinstance(cell, str) else cell)
    made.columns = ["".join(c for c in str(name) if c >= " ") for name in made.columns]
    with contextlib.suppress(Exception):  # what Excel cannot hold leaves no file
        made.to_excel(path, index=rng.random() < 0.2, sheet_name=rng.choice(("rows", "=1+1")))
    content = path.read_bytes() if path.exists() else b"PK"
    if rng.random() < 0.5 and path.exists():
        content = other_parts(rng, content)
    path.write_bytes(damage(rng, content) if rng.random() < 0.3 else content)
    return path


def other_parts(rng: Rng, archive: bytes) -> bytes:
    """The archive with damage inside of a part, which is packed again."""
    buffer = io.BytesIO()
    tokens = (
        b'r="A99999999"',
        b"<c/>",
        b"</row>",
        b'<row r="0">',
        b't="e"',
        b't="s"',
        b"&a;",
        b"<!DOCTYPE a>",
        b"1e999",
    )
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        damaged = rng.choice((*names, *[name for name in names if "sheet" in name]))
        for name in names:
            content = old.read(name)
            if rng.random() < 0.98:
                new.writestr(name, damage(rng, content, tokens) if name == damaged else content)
    return buffer.getvalue()


def arrow_column(rng: Rng, rows: int) -> pa.Array:
    """Values of any type that a .parquet file can hold."""
    numbers = [None if rng.random() < 0.1 else rng.randrange(5) for _ in range(rows)]
    some = [n or 0 for n in numbers]
    makers: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.array(np.array(some, dtype=np.float16)),
        lambda: pa.array([[n, n] for n in some]),
        lambda: pa.array([{"a": n, "b": {"c": str(n)}} for n in some]),
        lambda: pa.array([[("k", n)] for n in some], type=pa.map_(pa.string(), pa.int64())),
        lambda: pa.array([None if n is None else decimal.Decimal(n) / 8 for n in numbers], type=pa.decimal128(38, 9)),
        lambda: pa.array(numbers, type=pa.int32()).cast(pa.date32()),
        lambda: pa.array(numbers, type=pa.timestamp("ns", tz="Asia/Kathmandu")),
        lambda: pa.array(numbers, type=pa.timestamp(rng.choice(("s", "ms", "us", "ns")))),
        lambda: pa.array(numbers, type=pa.duration("us")),
        lambda: pa.array(numbers, type=pa.time64("us")),
        lambda: pa.array([None if n is None else str(n) for n in numbers]).dictionary_encode(),
        lambda: pa.array([None if n is None else str(n).encode() for n in numbers], type=pa.binary()),
        lambda: pa.array([b"abcd"] * rows, type=pa.binary(4)),
        lambda: pa.nulls(rows),
        lambda: pa.array([n + 2**63 for n in some], type=pa.uint64()),
        lambda: pa.array([bool(n) for n in some]),
        lambda: pa.array([str(n) for n in some], type=pa.large_string()),
        lambda: pa.array([[float(n)] * 3 for n in some], type=pa.list_(pa.float32(), 3)),
        lambda: pa.array([2**62 + n for n in some], type=pa.timestamp("s")),
        lambda: pa.array(some),
    )
    return rng.choice(makers)()


def write_parquet(rng: Rng, folder: Path) -> Path:
    """A .parquet file of any types, some with words for pandas that mean nothing."""
    rows = rng.choice((0, 1, 12, 30))
    names = [rng.choice(NAMES) for _ in range(rng.randrange(5))] + [rng.choice(LABELS)]
    arrays = [arrow_column(rng, rows) for _ in names]
    if rng.random() < 0.5:
        arrays[-1] = pa.array([rng.choice("abc") for _ in range(rows)])
    made = pa.table(arrays, names=names)
    if rng.random() < 0.3:
        with contextlib.suppress(Exception):  # what pandas cannot hold is written without its words
            made = pa.Table.from_pandas(made.to_pandas().set_index(names[0]))
    if rng.random() < 0.5:
        words = (made.schema.metadata or {}).get(b"pandas") or b'{"columns": [], "index_columns": ["a"]}'
        noise = (b"", b"{", b"[]", b'{"columns": 5}', b'{"index_columns": [{"kind": "range"}], "columns": []}', b"null")
        made = made.replace_schema_metadata({b"pandas": rng.choice((*noise, damage(rng, words, noise)))})
    buffer = io.BytesIO()
    with contextlib.suppress(pa.ArrowException):
        parquet.write_table(made, buffer, compression=rng.choice(("none", "snappy", "gzip")))
    path = folder / "data.parquet"
    path.write_bytes(damage(rng, buffer.getvalue()) if rng.random() < 0.5 else buffer.getvalue())
    return path


def array_bytes(rng: Rng) -> bytes:
    """An array as .npy: a true one, or a header that promises anything."""
    dtype = rng.choice(DTYPES[:16])
    shape = tuple(rng.choice((0, 1, 2, 12, 24)) for _ in range(rng.choice((0, 1, 2, 2, 4))))
    buffer = io.BytesIO()
    with contextlib.suppress(ValueError, TypeError, MemoryError):
        np.save(buffer, (np.arange(int(np.prod(shape))) % 3).reshape(shape).astype(dtype))
    if rng.random() < 0.6:
        return buffer.getvalue()
    shape = tuple(rng.choice(LENGTHS) for _ in range(rng.randrange(4)))
    header = (
        f"{{'descr': {rng.choice(DTYPES)!r}, 'fortran_order': {rng.choice((True, False, 7))}, 'shape': {shape}, }}\n"
    )
    version = rng.choice((b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    size = len(header).to_bytes(2 if version == b"\x01\x00" else 4, "little")
    return damage(rng, b"\x93NUMPY" + version + size + header.encode() + bytes(rng.choice((0, 8, 288))))


def write_npz(rng: Rng, folder: Path) -> Path:
    """A .npz file with the usual arrays or others, some of which are not what they say."""
    rows, buffer = rng.choice((12, 24, 30)), io.BytesIO()
    kind = rng.choice(DTYPES[:13])
    true = {"X": (np.arange(rows * 4) % 7).reshape(rows, 4).astype("<f4"), "y": (np.arange(rows) % 2).astype(kind)}
    with zipfile.ZipFile(
        buffer, "w", rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
    ) as file:
        for name in ("X", "y", *rng.sample(("X_test", "y_test", "clean_labels", "z"), rng.randrange(3))):
            content = io.BytesIO()
            if name in true and rng.random() < 0.6:
                np.save(content, true[name])
            file.writestr(f"{name}.npy", content.getvalue() or array_bytes(rng))
    path = folder / "data.npz"
    path.write_bytes(damage(rng, buffer.getvalue()) if rng.random() < 0.4 else buffer.getvalue())
    return path


def picture(rng: Rng) -> bytes:
    """An image file of any format and mode, damaged or not."""
    mode = rng.choice(("RGB", "L", "RGBA", "P", "1", "I;16", "CMYK", "LA"))
    buffer = io.BytesIO()
    with contextlib.suppress(OSError, KeyError, ValueError):  # not every format takes every mode
        Image.new(mode, (rng.choice((1, 3, 40)), rng.choice((1, 7, 40)))).save(buffer, rng.choice(FORMATS))
    return damage(rng, buffer.getvalue()) if rng.random() < 0.6 else buffer.getvalue()


def put_special(rng: Rng, path: Path) -> None:
    """What is no file: a pipe, a socket, links to devices, to nothing, to themselves, or to the folder above."""
    match rng.randrange(4):
        case 0:
            os.mkfifo(path)
        case 1:
            place = os.getcwd()
            os.chdir(path.parent)  # the address of a socket is short
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as made:
                made.bind(path.name)
            os.chdir(place)
        case 2:
            path.symlink_to(rng.choice(("/dev/zero", "/dev/tty", "/dev/stdin", "/proc/self/mem", "/nothing")))
        case _:
            path.symlink_to(rng.choice((path.name, "..", ".")))


def write_images(rng: Rng, folder: Path) -> Path:
    """A folder of images by class, with whatever else a folder can hold."""
    root = folder / "images"
    split = rng.choice(("", "", "", "train"))
    for name in rng.sample(
        ("cat", "dog", "=x", "\x1b[31m", "a\nb", ".git", "runs", "test", b"caf\xe9".decode(errors="surrogateescape")), 3
    ):
        place = root / split / name / rng.choice(("", "", "deeper"))
        place.mkdir(parents=True, exist_ok=True)
        for i in range(rng.randrange(5)):
            name = rng.choice(("", "", "", "", "\udcff", "\u202e", ".", "\n")) + f"{i}.{rng.choice(SUFFIXES)}"
            if rng.random() < 0.15:
                put_special(rng, place / name)
            else:
                (place / name).write_bytes(picture(rng))
    return root


def write_special(rng: Rng, folder: Path) -> Path:
    """Something that is named like a data file and is none."""
    path = folder / f"data{rng.choice(('.csv', '.tsv.gz', '.parquet', '.npz', '.jsonl', '.xlsx', '', '.png'))}"
    if rng.random() < 0.2:
        path.mkdir()
    else:
        put_special(rng, path)
    return path


def write_list(rng: Rng, folder: Path) -> Path:
    """A table with a column of image files."""
    names = []
    for i in range(rng.randrange(2, 12)):
        path = folder / f"{i}.png"
        if rng.random() < 0.2:
            put_special(rng, path)
        else:
            path.write_bytes(picture(rng))
        names.append(rng.choice((path.name, str(path), path.name, path.name, "", "/dev/zero", "a\x00b", "x" * 5000)))
    made = pd.DataFrame({"image": names, "label": [rng.choice("ab") for _ in names], "other": range(len(names))})
    path = folder / "list.csv"
    text = made.to_csv(index=False).encode()
    path.write_bytes(damage(rng, text) if rng.random() < 0.4 else text)
    return path


WRITERS: dict[str, Callable[[Rng, Path], Path]] = {
    "text": write_text,
    "lines": write_lines,
    "parquet": write_parquet,
    "npz": write_npz,
    "images": write_images,
    "list": write_list,
    "special": write_special,
} | ({"workbook": write_workbook} if importlib.util.find_spec("openpyxl") else {})
