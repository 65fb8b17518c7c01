"""CSV files that break readers, and the message of `prepare` for each."""

import bz2
import gzip
import io
import lzma
import os
import random
import socket
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

HEADER = "n,size,word,yes"


def rows(count: int = 400) -> list[str]:
    """Lines of a good file; the size is likelier to be large where the answer is yes."""
    draw = random.Random(7)
    return [f"{i},{draw.gauss(i % 2, 1):.4f},w{i % 5},{'true' if i % 2 else 'false'}" for i in range(count)]


def table(*lines: str, end: str = "\n", header: str = HEADER) -> bytes:
    """A good file with some lines more, from line 402 on."""
    return end.join([header, *rows(), *lines, ""]).encode()


GOOD = table()


def zipped(name: str = "x.csv", data: bytes = GOOD, method: int = zipfile.ZIP_DEFLATED, members: int = 1) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for i in range(members):
            archive.writestr(f"{i or ''}{name}", data)
    return buffer.getvalue()


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


def encrypted() -> bytes:
    """Marks its member as encrypted, in both of its headers."""
    data = bytearray(zipped())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


def method(number: int) -> bytes:
    """Marks its member as packed by the method of this number."""
    data = bytearray(zipped())
    data[8] = number
    data[data.index(b"PK\x01\x02") + 10] = number
    return bytes(data)


def crowded(entries: int) -> bytes:
    """An archive whose directory lists one small member very often."""
    buffer = zipped("x.csv", b"a\n", zipfile.ZIP_STORED)
    start, end = buffer.index(b"PK\x01\x02"), buffer.index(b"PK\x05\x06")
    directory = buffer[start:end] * entries
    shown = min(entries, 0xFFFF).to_bytes(2, "little")
    size = len(directory).to_bytes(4, "little") + start.to_bytes(4, "little")
    return buffer[:start] + directory + buffer[end : end + 8] + shown * 2 + size + b"\0\0"


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listener(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as unix:
        here = os.getcwd()
        os.chdir(path.parent)  # the name of a socket may be a hundred letters long
        unix.bind(path.name)
        os.chdir(here)


def link(target: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(target)


def folder(path: Path) -> None:
    path.mkdir()
    (path / "notes.txt").write_text("no data")


def bomb(bytes_: int, line: bytes = b"") -> bytes:
    """So many zeros, or so many bytes of a line, packed a thousand to one."""
    return gzip.compress((line or b"\0") * (bytes_ // len(line or b"\0")), 6)


def as_json(row: str) -> bytes:
    n, size, word, yes = row.split(",")
    return f'{{"n": {n}, "size": {size}, "word": "{word}", "yes": {yes}}}\n'.encode()


def as_parquet() -> bytes:
    buffer = io.BytesIO()
    table = pa.csv.read_csv(io.BytesIO(GOOD))
    pa.parquet.write_table(table, buffer, write_page_checksum=True)
    return buffer.getvalue()


@dataclass(frozen=True)
class Case:
    #: The file's bytes, or what makes it.
    content: bytes | Callable[[Path], None]
    #: The pattern of the message; "" = the file is good.
    message: str
    name: str = "x.csv"


NAMES_100_000 = ",".join(f"c{i}" for i in range(100_000))
BAD = "x.csv, line 402"

CASES = {
    # ---- what people have
    "a good file": Case(GOOD, ""),
    "Windows line ends": Case(table(end="\r\n"), ""),
    "old Mac line ends": Case(table(end="\r"), "x.csv ends its lines with CR alone"),
    "old Mac line ends, quoted": Case(table('7,1,"a b",true', end="\r"), "x.csv ends its lines with CR alone"),
    "a header with CR and lines with LF": Case(GOOD.replace(b"yes\n", b"yes\r"), "x.csv.* CR alone"),
    "no last line end": Case(GOOD.rstrip(b"\n"), ""),
    "blank lines between": Case(GOOD.replace(b"\n", b"\n\n"), ""),
    "a byte order mark": Case(b"\xef\xbb\xbf" + GOOD, ""),
    "columns that the task does not name, some without a name": Case(
        b"\n".join(b",,%b,z" % line if i == 0 else b"1,2,%b,4" % line for i, line in enumerate(GOOD.splitlines())),
        "",
    ),
    "a line break inside of a quoted name": Case(
        GOOD.replace(b"n,size", b'n,"more\nwords",size'), "x.csv, line 3 has 4 fields where the header has 5"
    ),
    "words that stand for nothing in a column of numbers": Case(table("7,NaN,w1,true", "8,NA,w1,true"), ""),
    "inches": Case(table(*(f'{i},1,{i}" pipe,true' for i in range(21))), ""),
    "a field of 200 kB": Case(table(f"7,1,{'w' * 200_000},true"), ""),
    "a quoted field of 200 kB": Case(table(f'7,1,"{"w" * 200_000}",true'), ""),
    # ---- no table at all
    "nothing": Case(b"", "x.csv is empty: .* or move it away"),
    "only a byte order mark": Case(b"\xef\xbb\xbf", "x.csv is empty"),
    "only a header": Case(b"n,size,word,yes\n", "x.csv has no rows"),
    "only a header, without line end": Case(b"n,size,word,yes", "x.csv has no rows"),
    "only a header and blank lines": Case(b"n,size,word,yes\n\n\r\n\n", "x.csv has no rows"),
    "a header and many blank lines": Case(b"n,size,word,yes\n" + b"\n" * 3_000_000, "x.csv has no rows"),
    "a blank first line": Case(b"\n" + GOOD, "x.csv is empty: the first line must name the columns"),
    "spaces for rows": Case(b"n,size,word,yes\n  \n \n", "x.csv, line 2 has 1 field.* where the header has 4"),
    "semicolons": Case(GOOD.replace(b",", b";"), ""),
    "tabs": Case(GOOD.replace(b",", b"\t"), ""),
    "an image": Case(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40, "x.csv is not UTF-8 text"),
    "zeros": Case(bytes(100_000), "x.csv has NUL bytes"),
    "carets": Case(
        GOOD.replace(b",", b"^"), "x.csv lacks the columns n, size, word, yes; it has n\\^size\\^word\\^yes"
    ),
    "UTF-16": Case(GOOD.decode().encode("utf-16"), ""),
    "UTF-16 cut in the middle of a letter": Case(GOOD.decode().encode("utf-16")[:-3], "x.csv, line 401: .*utf-16-le"),
    "decimals behind a comma": Case(GOOD.replace(b",", b";").replace(b".", b","), ""),
    "upper case": Case(
        GOOD.upper(), "x.csv lacks the columns .* it has N, SIZE, WORD, YES. Is 'N' meant to be 'n'.* case"
    ),
    "two tables, one behind the other": Case(GOOD + GOOD, "x.csv, line 402 repeats the header"),
    "UTF-16 without a mark": Case(GOOD.decode().encode("utf-16-le"), "x.csv has NUL bytes.*UTF-16"),
    "Latin-1 in the header": Case(b"caf\xe9,n,size,word,yes\n", "x.csv is not UTF-8 text"),
    # ---- one bad row
    "Latin-1 in a row": Case(table() + b"7,1,caf\xe9,true\n", "x.csv.*column word.*UTF-?8"),
    "a row too short": Case(table("7,1"), f"{BAD} has 2 fields where the header has 4"),
    "a row too long": Case(table("7,1,w1,true,5,6"), f"{BAD} has 6 fields where the header has 4"),
    "a number beyond its type": Case(table(f"{'9' * 40},1,w1,true"), f"{BAD}, column n: '9999999.* not of type"),
    "a number of a megabyte": Case(table(f"{'9' * 1_000_000},1,w1,true"), f"{BAD}, column n: '999.* not of type"),
    "a number that is no number": Case(table("7,1e999,w1,true"), "size.*infinite"),
    "a bad number after a field of 200 kB": Case(
        table(f'7,1,"{"w" * 200_000}",true', "x,1,w1,true"), "x.csv, line 403, column n: 'x' is not of type"
    ),
    "a bad number after a quoted line break": Case(
        table('7,1,"a\nb",true', "x,1,w1,true"), "x.csv, line 404, column n"
    ),
    "zeros in a number": Case(table("7,1\0,w1,true"), rf"{BAD}, column size: '1\\x00' is not of type"),
    "escapes for the terminal": Case(table("7,\x1b[2J\x1b]0;owned\x07,w1,true"), rf"{BAD}, column size: '\\x1b"),
    "an empty field": Case(table(",1,w1,true"), f"{BAD}: column n is empty"),
    "a row without end": Case(GOOD + b"7,1," + b"w" * 3_000_000, "x.csv, line 402: a record of more than 2 MB"),
    # ---- quotes
    "a quote that is not closed in the header": Case(
        GOOD.replace(b"word", b'"word') + GOOD * 200, "x.csv, line 1: .* never closed"
    ),
    "a quote in the header that a later one closes": Case(
        GOOD.replace(b"word", b'"word') * 200, "x.csv lacks the column word; it has n, size, 'word,yes.n0,"
    ),
    "a quote that is not closed in the last row": Case(table('7,1,"w,true'), f"{BAD}: .*never closed"),
    "a quote that is not closed in the first row": Case(
        b'n,size,word,yes\n"7,1,w,true\n' + b"1,2\n" * 1_000_000, "x.csv, line 2: .*never closed"
    ),
    "many quotes in short lines": Case(b'n,size,word,yes\n"' + b'""\n' * 900_000, "x.csv, line 2: .*never closed"),
    # ---- wide
    "100,000 columns": Case(
        f"n,size,word,yes,{NAMES_100_000}\n".encode()
        + b"".join(f"{row}{',1' * 100_000}\n".encode() for row in rows(40)),
        "",
    ),
    "100,000 columns, and ours are not among them": Case(
        f"{NAMES_100_000}\n1{',1' * 99_999}\n".encode(), "x.csv lacks the columns n, size, word, yes; it has c0, c1, "
    ),
    "100,000 columns of two names": Case(b"a,b," * 50_000 + b"\n1\n", "x.csv, line 1: the columns a, b.* occur twice"),
    "a header of 20 MB": Case(b"n" * 20_000_000 + b"\n1\n", "x.csv, line 1: .* longer than"),
    "a name of 200 kB": Case(
        b"n,size,word,yes," + b"n" * 200_000 + b"\n" + b"1,2,w,true,4\n",
        "x.csv, line 1: the name of the column .* too long",
    ),
    "a name twice": Case(GOOD.replace(b"size", b"word"), "x.csv, line 1: the column word occurs twice"),
    "more words than a category has": Case(
        "\n".join([HEADER, *(f"{i},1,word{i},{'true' if i % 2 else 'false'}" for i in range(9_000))]).encode(),
        "the category word has .* values: drop the column, or group its values",
    ),
    "long words": Case(
        "\n".join([HEADER, *(f"{i},1,{'w' * 900}{i},{'true' if i % 2 else 'false'}" for i in range(3_000))]).encode(),
        "the category word .* drop the column, or group its values",
    ),
    # ---- packed
    "gzip": Case(gzip.compress(GOOD), "", "x.csv.gz"),
    "gzip in two parts": Case(gzip.compress(GOOD[:500]) + gzip.compress(GOOD[500:]), "", "x.csv.gz"),
    "zip": Case(zipped(), "", "x.csv.zip"),
    "gzip of nothing": Case(gzip.compress(b""), "x.csv.gz is empty", "x.csv.gz"),
    "no gzip": Case(GOOD, "x.csv.gz is damaged or truncated", "x.csv.gz"),
    "an empty file for gzip": Case(b"", "x.csv.gz is empty", "x.csv.gz"),
    "gzip cut off": Case(gzip.compress(GOOD)[:-20], "x.csv.gz is damaged or truncated", "x.csv.gz"),
    "gzip with more behind": Case(gzip.compress(GOOD) + b"more", "x.csv.gz is damaged or truncated", "x.csv.gz"),
    "gzip with another checksum": Case(flipped(gzip.compress(GOOD), -6), "x.csv.gz is damaged or", "x.csv.gz"),
    "gzip of a flipped bit": Case(flipped(gzip.compress(GOOD), 300), "x.csv.gz is damaged or truncated", "x.csv.gz"),
    "a gzip bomb of zeros": Case(bomb(12 << 20), "x.csv.gz has NUL bytes", "x.csv.gz"),
    "a gzip bomb of rows": Case(
        gzip.compress(GOOD) + bomb(12 << 20, b"7,1,w1,true\n"), "x.csv.gz inflates to more than", "x.csv.gz"
    ),
    "a zip bomb": Case(
        zipped(data=GOOD + b"7,1,w1,true\n" * 1_000_000), "x.csv.zip inflates to more than", "x.csv.zip"
    ),
    "no zip": Case(GOOD, "x.csv.zip is damaged or truncated", "x.csv.zip"),
    "a zip cut off": Case(zipped()[:-30], "x.csv.zip is damaged or truncated", "x.csv.zip"),
    "a zip of a flipped bit": Case(flipped(zipped(), 300), "x.csv.zip is damaged or truncated", "x.csv.zip"),
    "a zip of nothing": Case(zipped(members=0), "x.csv.zip must hold exactly one .csv file", "x.csv.zip"),
    "a zip of two": Case(zipped(members=2), "x.csv.zip must hold exactly one .csv file", "x.csv.zip"),
    "a zip of a zip": Case(zipped(data=zipped()), "x.csv.zip", "x.csv.zip"),
    "a crowded zip": Case(crowded(400_000), "x.csv.zip lists", "x.csv.zip"),
    "an encrypted zip": Case(encrypted(), "x.csv.zip is encrypted", "x.csv.zip"),
    "a zip of an unknown method": Case(method(97), "x.csv.zip .*not supported", "x.csv.zip"),
    "a zip of bzip2": Case(zipped(method=zipfile.ZIP_BZIP2), "", "x.csv.zip"),
    "a zip of damaged bzip2": Case(flipped(zipped(method=zipfile.ZIP_BZIP2), 60), "x.csv.zip is damaged", "x.csv.zip"),
    "a zip of damaged LZMA": Case(flipped(zipped(method=zipfile.ZIP_LZMA), 60), "x.csv.zip is damaged", "x.csv.zip"),
    "a zip of LZMA that wants memory": Case(
        (lambda data: data[:44] + b"\xff\xff\xff\xff" + data[48:])(zipped(method=zipfile.ZIP_LZMA)),
        "x.csv.zip",
        "x.csv.zip",
    ),
    "zstd": Case(pa.compress(GOOD, "zstd", asbytes=True), "", "x.csv.zst"),
    "zstd cut off": Case(
        pa.compress(GOOD, "zstd", asbytes=True)[:-9], "x.csv.zst is damaged or truncated", "x.csv.zst"
    ),
    "no zstd": Case(GOOD, "x.csv.zst is damaged or truncated", "x.csv.zst"),
    "bzip2": Case(bz2.compress(GOOD), "x.csv.bz2 is not a table .* Pack it as .gz", "x.csv.bz2"),
    "xz": Case(lzma.compress(GOOD), "x.csv.xz is not a table .* Pack it as .gz", "x.csv.xz"),
    "zlib for gzip": Case(zlib.compress(GOOD), "x.csv.gz is damaged or truncated", "x.csv.gz"),
    # ---- of other kinds
    "JSON lines": Case(b"".join(map(as_json, rows())), "", "x.jsonl"),
    "JSON lines, packed": Case(gzip.compress(b"".join(map(as_json, rows()))), "", "x.ndjson.gz"),
    "one JSON array": Case(b"[" + b",".join(map(as_json, rows())) + b"]", "x.jsonl is one JSON array", "x.jsonl"),
    "JSON called so": Case(b"".join(map(as_json, rows())), "x.json is not a table .* call it .jsonl", "x.json"),
    "CSV for JSON": Case(GOOD, "x.jsonl, line 1 is not one JSON object", "x.jsonl"),
    "nothing for JSON": Case(b"\n \n", "x.jsonl has no rows", "x.jsonl"),
    "JSON nested 300,000 deep": Case(b'{"n":' * 300_000, "x.jsonl, line 1 is nested too deeply", "x.jsonl"),
    "a JSON line without end": Case(
        b'{"n":"' + b"w" * 3_000_000, "x.jsonl, line 1: a record of more than 2 MB; is it one object", "x.jsonl"
    ),
    "Parquet": Case(as_parquet(), "", "x.parquet"),
    "Parquet cut off": Case(as_parquet()[:-9], "x.parquet is no Parquet file, or damaged or cut off", "x.parquet"),
    "Parquet of a flipped bit": Case(flipped(as_parquet(), 300), "x.parquet", "x.parquet"),
    "Parquet of a flipped footer": Case(flipped(as_parquet(), -60), "x.parquet is no Parquet file", "x.parquet"),
    "CSV for Parquet": Case(GOOD, "x.parquet is no Parquet file", "x.parquet"),
    # ---- no file
    "a pipe": Case(pipe, "x.csv is .*not a regular file"),
    "a packed pipe": Case(pipe, "x.csv.gz is .*not a regular file", "x.csv.gz"),
    "a socket": Case(listener, "x.csv is .*not a regular file"),
    "a link to a device": Case(link("/dev/zero"), "x.csv is .*not a regular file"),
    "a link to nothing": Case(link("nowhere.csv"), "x.csv matches no file"),
    "a link to itself": Case(link("x.csv"), "x.csv matches no file"),
    "a folder without tables": Case(folder, "x.csv has no file that ends in .csv"),
}
