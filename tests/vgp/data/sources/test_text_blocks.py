"""Text as people have it: other separators, quotes, decimal marks and encodings."""

import gzip

import pyarrow as pa
import pytest

from vgp.base.exits import UserError
from vgp.data.schema import Field
from vgp.data.sources.data_files import Reading

FIELDS = (Field("n", pa.int64()), Field("size", pa.float64(), True), Field("word", pa.string()))
EXPECTED = {"n": [1, 2], "size": [0.5, 1.25], "word": ["é", "b"]}
SEMICOLONS = "n;size;word\n1;0,5;é\n2;1,25;b\n"


@pytest.mark.parametrize(
    ("name", "content", "notes"),
    [
        ("x.csv", "n,size,word\n1,0.5,é\n2,1.25,b\n".encode(), []),
        ("x.csv", "\ufeffn,size,word\r\n1,0.5,é\r\n2,1.25,b\r\n".encode(), []),
        ("x.csv", SEMICOLONS.encode(), ["fields are separated by ';'", "decimals follow a comma"]),
        ("x.csv", 'n,size,word\n1,"0,5",é\n2,"1,25",b\n'.encode(), ["decimals follow a comma"]),
        ("x.csv", "n|size|word\n1|0.5|é\n2|1.25|b\n".encode(), ["fields are separated by '|'"]),
        ("x.tsv", "n\tsize\tword\n1\t0.5\té\n2\t1.25\tb\n".encode(), []),
        ("x.csv", "n\tsize\tword\n1\t0.5\té\n2\t1.25\tb\n".encode("utf-16"), ["text is utf-16-le", r"by '\t'"]),
        ("x.csv", ("\ufeff" + SEMICOLONS).encode("utf-16-be"), ["text is utf-16-be", "';'", "a comma"]),
        ("x.csv", "'n','size','word'\n'1','0.5','é'\n'2','1.25','b'\n".encode(), ['fields are quoted by "\'"']),
        ("x.csv", b"sep=;\r\n" + SEMICOLONS.encode(), ["fields are separated by ';'", "decimals follow a comma"]),
        ("x.csv", "WORD,n,size;ratio,size,word\nx,1,y,0.5,é\nx,2,y,1.25,b\n".encode(), []),
    ],
)
def test_the_format_of_a_file_is_found_and_reported_where_it_is_unusual(opened, name, content, notes):
    files = opened({name: content}, FIELDS)
    assert pa.Table.from_batches(files.batches()).select(["n", "size", "word"]).to_pydict() == EXPECTED
    assert len(files.notes) == len(notes)
    for warning, note in zip(notes, files.notes, strict=True):
        assert warning in note and name in note


def test_a_file_is_named_however_long_its_path_is(opened):
    files = opened({f"{n}{'x' * 120}.csv": SEMICOLONS.encode() for n in "ab"}, FIELDS)
    assert len(list(files.batches())) and f"a{'x' * 120}.csv and 1 more: fields are separated" in files.notes[0]


@pytest.mark.parametrize("encoding", ["windows-1252", "latin-1", "iso8859-15", "cp437", "koi8-r"])
@pytest.mark.parametrize("name", ["x.csv", "x.csv.gz"])
def test_utf_8_is_not_read_as_another_encoding(opened, name, encoding):
    lines = b"".join(b"%d,0.5,b\n" % i for i in range(1, 99)) + "99,0.5,Zürich\n1,2,caffè\n".encode()
    content = b"n,size,word\n" + lines
    content = gzip.compress(content) if name.endswith("gz") else content
    words = f"{name}, line 100: the text is UTF-8, and its encoding is said to be .*: 'Zürich' would be read as 'Z"
    with pytest.raises(UserError, match=words):
        list(opened({name: content}, FIELDS, encoding=encoding).batches())


@pytest.mark.parametrize(
    ("word", "encoding"),
    [("Zürich", "windows-1252"), ("SÃO", "latin-1"), ("Москва", "windows-1251"), ("京都", "gbk"), ("plain", "latin-1")],
)
def test_text_of_another_encoding_is_read_as_declared(opened, word, encoding):
    content = f"n,size,word\n1,0.5,{word}\n".encode(encoding)
    assert (
        pa.Table.from_batches(opened({"x.csv": content}, FIELDS, encoding=encoding).batches())["word"][0].as_py()
        == word
    )


def test_quotes_around_text_make_no_file_be_parted_twice(opened, monkeypatch):
    monkeypatch.setattr("vgp.data.sources.text_blocks._list_numbers", None)
    files = opened({"x.csv": b'n,size,word\n1,0.5,"b, 1,2, c"\n'}, FIELDS)
    assert pa.Table.from_batches(files.batches())["word"].to_pylist() == ["b, 1,2, c"]


@pytest.mark.parametrize(
    ("content", "reading"),
    [
        (SEMICOLONS.encode("windows-1252"), {"encoding": "windows-1252"}),
        (SEMICOLONS.encode("utf-16-le"), {"encoding": "utf-16-le"}),
        (SEMICOLONS.replace(";", "~").encode(), {"separator": "~", "decimal": ","}),
        (SEMICOLONS.encode(), {"separator": ";", "quote": "none"}),
    ],
)
def test_a_given_option_is_taken_and_not_reported(opened, content, reading):
    files = opened({"x.csv": content}, FIELDS, **reading)
    assert pa.Table.from_batches(files.batches()).select(["n", "size", "word"]).to_pydict() == EXPECTED
    assert not any(value in note for note in files.notes for value in reading.values())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            SEMICOLONS.encode("windows-1252"),
            r"column word: the text is not UTF-8; in Windows-1252 the word is 'é'",
        ),
        ("n;größe;word\n".encode("latin-1"), r"x.csv is not UTF-8 text; in Windows-1252 .*'größe'.*\"windows-1252\""),
        (
            SEMICOLONS.encode("utf-16-le"),
            r"it is UTF-16: set task_options={\"encoding\": \"utf-16-le\"}",
        ),
        (
            gzip.compress(SEMICOLONS.encode(), mtime=0),
            "x.csv is compressed: by its first bytes, its name should end in .gz",
        ),
        (b"PAR1" + bytes(80), "by its first bytes, its name should end in .parquet"),
        (
            b"n;size;word\n1;1,500;b\n2;3,250;c\n",
            "column size: '1,500' may be 1500 or 1.500. For the latter",
        ),
        (b"n;size;word\n1;1,5;b\n2;1.5;c\n", "line 2, column size: '1,5' is not of type double.*decimal"),
        (b"n;size;word\n1;1.234,5;b\n", "line 2, column size: '1.234,5' is not of type double"),
        (b"n;size;word;x\n1;0,5;b\n", "line 2 has 3 fields where the header has 4"),
        (b"N,SIZE,Word\n1,2,b\n", "lacks the columns n, size, word; it has N, SIZE, Word. Is 'N' meant.* case differ"),
        (b"1,0.5,b\n2,0.5,c\n", "lacks the columns n, size, word; it has 1, 0.5, b"),
        (b"1,0.5\n2,0.5\n", "it has 1, 0.5. Its first line must name the columns"),
        (b"n,size,word\r1,2,b\r", "ends its lines with CR alone"),
        (b"sep=;\nn;size;word\nx;1,5;b\n", "x.csv, line 3, column n: 'x' is not of type int64"),
        (b'n,size,word\n1,2,"a\nb"\n1,2,"a \\"b\\" c"\n', "x.csv, line 4 has a quote behind a backslash: .* twice"),
        (
            b'n,size,word\n1,2,"a \\"b\\", c"\n',
            r"line 2 has 4 fields where .* 3: .* twice \(\"\"\), not behind",
        ),
    ],
)
def test_a_doubtful_file_is_refused_with_the_fix(read, content, message):
    with pytest.raises(UserError, match=message):
        read({"x.csv": content}, FIELDS)


def test_a_backslash_is_a_letter_where_it_is_one(read):
    content = {"x.csv": b'n,size,word\n1,2,"C:\\"\n1,2,5\\" pipe\n1,2,"a \\""b"""\n'}
    assert read(content, FIELDS)["word"].to_pylist() == ["C:\\", '5\\" pipe', 'a \\"b"']


def test_several_kinds_are_read_together_and_reported(opened):
    files = opened({"a.csv": b"n,size,word\n1,0.5,x\n", "b.jsonl": b'{"n": 2, "word": "y", "size": null}\n'}, FIELDS)
    assert pa.Table.from_batches(files.batches())["word"].to_pylist() == ["x", "y"]
    assert files.notes == ("The data is of several kinds, and all are read: 1 .csv and 1 .jsonl.",)


def test_two_separators_that_both_fit_are_refused(read):
    content = {"x.csv": b"n;a|n\n1;2|3\n"}
    with pytest.raises(
        UserError, match=r"x.csv, line 1 can be split at ';' or at '\|': set the separator, such as task_opt"
    ):
        read(content, FIELDS[:1])
    assert read({"x.csv": b"n;a|n\n1;2|3\n"}, [Field("n", pa.int64())], separator=";")["n"].to_pylist() == [1]


def test_text_that_its_encoding_does_not_have_is_named_with_its_line(read):
    with pytest.raises(UserError, match="x.csv, line 3: the text is not ascii, .* bytes c3"):
        read({"x.csv": b"n,size,word\n1,2,a\n2,2,\xc3\xa9\n"}, FIELDS, encoding="ascii")


def test_all_columns_of_text_may_not_hide_a_header_within(read):
    fields = [Field("a", pa.string()), Field("b", pa.string())]
    with pytest.raises(UserError, match="x.csv, line 4 repeats the header: the file was put together from several"):
        read({"x.csv": b"a,b\na,y\nx,b\na,b\nx,y\n"}, fields)
    assert read({"y.csv": b"a,b\na,b \n"}, fields)["b"].to_pylist() == ["b "]


@pytest.mark.parametrize(
    ("reading", "message"),
    [
        ({"separator": "--"}, "the option separator must be one character, such as ';'"),
        ({"separator": "a"}, "the option separator must be one character"),
        ({"quote": "»"}, "the option quote must be one character"),
        ({"decimal": ";"}, "the option decimal must be '.' or ','; it is ';'"),
        ({"separator": ",", "decimal": ","}, "the options separator and decimal are both ','"),
        ({"encoding": "klingon"}, "the option encoding is 'klingon', which is none"),
        ({"encoding": "zlib"}, "the option encoding is 'zlib', which is none"),
    ],
)
def test_an_option_that_cannot_be_is_refused(reading, message):
    with pytest.raises(UserError, match=message):
        Reading(**reading)


def test_an_encoding_with_a_mark_that_a_text_lacks_is_reported(read):
    with pytest.raises(
        UserError, match=r"x.csv is not utf-16: UTF-16 stream does not start with BOM\. Leave the option"
    ):
        read({"x.csv": SEMICOLONS.encode()}, FIELDS, encoding="utf-16")
