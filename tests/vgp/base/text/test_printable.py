"""Text from elsewhere cannot steer the terminal."""

import io
import time
import unicodedata
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from rich.text import Text

from vgp.base.text.figures import format_duration, format_usd
from vgp.base.text.printable import one_line, printable
from vgp.base.text.times import rfc3339


@given(st.text(st.characters()))
def test_no_control_character_comes_through_but_line_feeds(text: str) -> None:
    left = {unicodedata.category(letter) for letter in printable(text) if letter != "\n"}
    assert not left & {"Cc", "Cs", "Zl", "Zp"}
    printable(text).encode("utf-8")


@given(st.text(st.characters()), st.integers(1, 40))
def test_one_line_is_one_line_and_no_longer_than_allowed(text: str, most: int) -> None:
    assert "\n" not in one_line(text)
    assert len(one_line(text, most)) <= most


def test_colours_are_dropped_and_other_sequences_are_shown() -> None:
    assert printable("\x1b[1;31mred\x1b[0m") == "red"
    assert printable("a\x1b]0;title\x07b\x1b[2Jc") == "a\\x1b]0;title\\x07b\\x1b[2Jc"
    assert printable("\u202eevil") == "\\u202eevil"


def test_a_progress_bar_becomes_lines() -> None:
    assert printable("10%\r20%\r\ndone\r\n") == "10%\n20%\ndone"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("at https://user:pass@host/p", "at https://***@host/p"),
        ("at https://ghp_token@host/p", "at https://***@host/p"),
        ("HTTP://:p%40ss@host", "HTTP://***@host"),
        ("git+ssh://git:pass@host:22/p", "git+ssh://***@host:22/p"),
        ("https://user:pa/ss@word@host/p", "https://***@host/p"),
        ("two: https://a:b@c, https://d:e@f", "two: https://***@c, https://***@f"),
        *[
            (plain, plain)
            for plain in (
                "ssh://git@host/p", "https://host:8080/a@b", "https://eu-kfp.pkg.dev/p/r/t@sha256:00", "gs://bucket/a:b@c",
                "me@example.com", "python:3.12@sha256:00", "https://host:443", "https://host: me@example.com",
            )
        ],
    ],
)  # fmt: skip
def test_a_password_within_an_address_is_not_shown(text: str, shown: str) -> None:
    assert printable(text) == shown


def test_masking_takes_time_in_proportion_to_the_text() -> None:
    began = time.monotonic()
    printable("://a:b" * 100_000)
    assert time.monotonic() - began < 30


def test_what_is_printable_stays_so_through_rich() -> None:
    out = io.StringIO()
    Console(file=out, force_terminal=True, width=200).print(Text(printable("[bold]x[/] \x1b[2J")))
    assert "\x1b[2J" not in out.getvalue() and "[bold]x[/]" in out.getvalue()


def test_times_and_sums_as_people_write_them() -> None:
    assert [format_duration(each) for each in (0, 59.4, 59.6, 3599, 3600, 86400 * 2 + 3 * 3600)] == [
        "0s", "59s", "1m 00s", "59m 59s", "1h 00m", "2d 03h"
    ]  # fmt: skip
    assert [format_usd(each) for each in (0.0, 0.001, 1204.5, None)] == ["$0.00", "<$0.01", "$1,204.50", "no price"]
    assert rfc3339(datetime(2026, 11, 20, 14, 3, tzinfo=UTC)) == "2026-11-20T14:03:00Z"
