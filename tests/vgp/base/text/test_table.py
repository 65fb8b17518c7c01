"""Tables look alike, lose nothing on a narrow terminal, and show names from elsewhere as plain characters."""

import io

from rich.console import Console
from rich.text import Text

from vgp.base.text.figures import facts_table, table, with_caption


def printed(drawn, width=80):
    out = io.StringIO()
    Console(file=out, width=width).print(drawn)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_titles_stand_over_columns_and_numbers_to_the_right():
    drawn = table(("step", "$/hour"), [("train", "12.00"), ("evaluate", "0.50")], right=("$/hour",))
    assert printed(drawn) == ["step       $/hour", "train       12.00", "evaluate     0.50"]


def test_without_titles_there_is_no_line_of_them():
    assert printed(facts_table([("region", "us-central1"), ("gap", "")])) == ["region   us-central1", "gap"]


def test_markup_and_control_characters_of_a_cell_are_plain_characters():
    lines = printed(table(("[red]name[/]",), [("[bold]a[/] \x1b[2J\x1b]0;x\x07",)]))
    assert lines == ["[red]name[/]", r"[bold]a[/] \x1b[2J\x1b]0;x\x07"]


def test_a_text_keeps_its_style():
    assert table(("a",), [(Text("x", "red"),)]).columns[0]._cells == [Text("x", "red")]


def test_on_a_narrow_terminal_every_character_is_still_there():
    cells = ("europe-west4", "x" * 60)
    lines = printed(table(("region", "what"), [cells]), width=40)
    text = "".join("".join(line.split()) for line in lines)
    assert text.count("x") == 60 and "…" not in text and max(map(len, lines)) <= 40


def test_a_column_that_is_copied_stays_whole():
    lines = printed(table(("run", "what"), [("training-20261121", "b" * 60)], whole=("run",)), width=40)
    assert any(line.startswith("training-20261121 ") for line in lines)


def test_a_line_below_a_narrow_table_is_as_wide_as_the_terminal_so_that_a_command_in_it_can_be_copied():
    drawn, line = table(("a", "b"), [("1", "2")]), "refresh them (vgp machines --refresh --write)"
    assert printed(with_caption(drawn, [line]))[-1] == line
    assert printed(with_caption(drawn, ["[red]x"]))[-1] == "[red]x"
    assert printed(with_caption(drawn, [])) == printed(drawn)
