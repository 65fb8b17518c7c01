"""Every `vgp ...` of the pages is a command with options that there are."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from vgp.__main__ import app

REPOSITORY = Path(__file__).parents[2]
PAGES = [REPOSITORY / "README.md", REPOSITORY / "infra/README.md", *sorted((REPOSITORY / "docs").glob("*.md"))]


def lines(page: Path) -> Iterator[str]:
    """The commands in the fenced blocks of a page, without comments and what the shell does with their output."""
    for block in re.findall(r"(?ms)^ *```\w*\n(.*?)^ *```$", page.read_text()):
        for line in block.replace("\\\n", " ").splitlines():
            found = re.match(r" *(?:\$ )?(?:\.venv/bin/)?vgp ((?!--help)[a-z].*)", line)
            if found and " | " not in found[1]:  # README: `runs | show | logs` is a list of verbs
                yield re.split(r"\s(?:#|>)", found[1])[0].strip()


COMMANDS = sorted({line for page in PAGES for line in lines(page)})


@pytest.mark.parametrize("line", COMMANDS)
def test_every_command_of_the_pages_is_one_that_the_command_line_takes(line: str) -> None:
    command: Any = typer.main.get_command(app)
    words = shlex.split(line)
    assert words[0] in command.commands
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    command.make_context(line, [word for word in words if word != "..."])


def test_there_are_some() -> None:
    assert len(COMMANDS) > 40
