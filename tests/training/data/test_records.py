import io
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from training.data import records


def plainly(block: bytes) -> int:
    """The end of the last record, character by character."""
    quoted, end = False, 0
    for position, character in enumerate(block):
        quoted ^= character == ord('"')
        end = position + 1 if character == ord("\n") and not quoted else end
    return end


@given(text=st.text(st.sampled_from('a"\n,'), max_size=60), window=st.integers(1, 20))
def test_the_last_record_ends_outside_of_quotes_whatever_the_window(text, window):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records, "WINDOW_BYTES", window)
        assert records.last_end(text.encode()) == plainly(text.encode())


@pytest.mark.parametrize("block", [b'"' + b"\n" * (8 << 20), b'"' + b'"\n"' * (2 << 20), b"x" * (8 << 20)])
def test_a_block_without_end_is_told_in_no_time(block):
    began = time.process_time()
    records.last_end(block)
    assert time.process_time() - began < 1.0


@given(rows=st.lists(st.sampled_from([b"1,2\n", b'"a\nb",3\n', b"\n", b"4,5\r\n", b'"",""\n']), max_size=20))
def test_each_record_knows_its_line(rows):
    line, expected = 0, []
    for row in rows:
        if row != b"\n":
            expected.append(line)
        line += row.count(b"\n")
    assert [line for _, line in records.of(b"".join(rows))] == expected


def test_a_header_may_be_longer_than_the_first_look_at_it():
    names = [f"column_{i}" for i in range(20_000)]
    columns, lines, start = records.header("x.csv", io.BytesIO((",".join(names) + "\n1,2\n").encode()))
    assert (columns, lines, start) == (tuple(names), 1, len(",".join(names)) + 1)
