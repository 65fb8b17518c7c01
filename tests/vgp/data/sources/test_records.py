import csv
import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vgp.data.sources import records


def plainly(block: str) -> list[int]:
    """The ends of all records, character by character: a quote opens a field only at its start."""
    inside, start, ends, position = False, True, [], 0
    while position < len(block):
        letter = block[position]
        if inside and letter == '"' and block[position + 1 : position + 2] == '"':
            position += 1
        elif letter == '"' and (inside or start):
            inside = not inside
            start = False
        elif not inside:
            start = letter in ",\n\r"
            ends += [position + 1] * (letter == "\n")
        position += 1
    return ends


@given(text=st.text(st.sampled_from('a"\n,'), max_size=60), window=st.integers(1, 20))
def test_records_end_outside_of_quotes_that_open_a_field_whatever_the_window(text, window):
    ends = plainly(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "WINDOW_BYTES", window)
        assert records.find_last_end(text.encode(), separators=",") == (ends[-1] if ends else 0)
    assert records.find_first_end(text.encode(), separators=",") == (ends[0] if ends else 0)
    assert records.count(text.encode(), separators=",") == len(ends)


@given(rows=st.lists(st.lists(st.text(st.sampled_from('a"\n,'), max_size=5), min_size=2, max_size=2), min_size=1))
def test_what_was_written_as_csv_ends_where_it_was_ended(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    text = out.getvalue().encode()
    assert (records.find_last_end(text), records.count(text), records.is_open(text)) == (len(text), len(rows), False)


def test_inches_are_letters_and_a_quote_at_the_start_of_a_field_is_none():
    assert not records.is_open(b'a,5" pipe\nb,6\n') and records.find_last_end(b'a,5" pipe\nb,6\n') == 14
    assert records.is_open(b'a,5" pipe\nb,"6\n') and records.find_last_end(b'a,5" pipe\nb,"6\n') == 10


@pytest.mark.parametrize("block", [b'"' + b"\n" * (64 << 20), b'"' + b'"\n"' * (2 << 20), b"x" * (8 << 20)])
def test_a_block_without_end_is_reported_quickly(block):
    began = time.process_time()
    records.find_last_end(block)
    assert time.process_time() - began < 10


@given(rows=st.lists(st.sampled_from([b"1,2\n", b'"a\nb",3\n', b"\n", b"4,5\r\n", b'"",""\n']), max_size=20))
def test_each_record_knows_its_line(rows):
    line, expected = 0, []
    for row in rows:
        if row != b"\n":
            expected.append(line)
        line += row.count(b"\n")
    assert [line for _, line in records.read_records(b"".join(rows))] == expected
