"""A page of the documentation: its console blocks, and the files that it shows."""

import re
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"( *)```(\w*)\s*(.*)")
_OPTIONS = re.compile(r"<!-- run: (.*?) -->")
_TITLE = re.compile(r'title="([^"]+)"')


@dataclass(frozen=True)
class Command:
    """A command of a console block, and the lines that the page shows below it."""

    text: str
    shown: list[str]
    #: Index of the page's line after the command, and the indent of the block.
    line: int
    indent: str


@dataclass(frozen=True)
class File:
    """A block with a title, which is the content of the file of that name."""

    name: str
    content: str


@dataclass(frozen=True)
class Page:
    """A page with the options of its `<!-- run: ... -->` and its parts in order."""

    path: Path
    lines: list[str]
    options: dict[str, str]
    parts: list[Command | File]

    @property
    def commands(self) -> list[Command]:
        return [part for part in self.parts if isinstance(part, Command)]

    @property
    def is_fast(self) -> bool:
        """Whether the page has commands, and none that takes long."""
        return bool(self.commands) and not {"slow", "cloud"} & set(self.options)

    def with_outputs(self, outputs: list[list[str]]) -> str:
        """Returns the page's text with `outputs` below its commands, one list of lines a command."""
        lines = list(self.lines)
        for command, output in reversed(list(zip(self.commands, outputs, strict=True))):
            lines[command.line : command.line + len(command.shown)] = [
                (command.indent + line).rstrip() for line in output
            ]
        return "\n".join(lines) + "\n"


def read_page(path: Path) -> Page:
    """Reads the page's options, console blocks and titled blocks."""
    lines = path.read_text().splitlines()
    options = _OPTIONS.search("\n".join(lines))
    words = options[1].split() if options else []
    parts: list[Command | File] = []
    start = 0
    while start < len(lines):
        fence = _FENCE.fullmatch(lines[start])
        if not fence:
            start += 1
            continue
        indent, language, attributes = fence[1], fence[2], fence[3]
        end = next(number for number in range(start + 1, len(lines)) if lines[number].strip() == "```")
        block = [line.removeprefix(indent) for line in lines[start + 1 : end]]
        if language == "console":
            parts += _commands(block, start + 1, indent)
        elif title := _TITLE.search(attributes):
            parts.append(File(title[1], "\n".join(block) + "\n"))
        start = end + 1
    return Page(path, lines, dict(word.partition("=")[::2] for word in words), parts)


def _commands(block: list[str], first: int, indent: str) -> list[Command]:
    commands: list[Command] = []
    continued = False
    for number, line in enumerate(block, first):
        if line.startswith("$ ") or continued:
            text = f"{commands.pop().text} {line.strip()}" if continued else line.removeprefix("$ ")
            continued = text.endswith("\\")
            commands.append(Command(text.rstrip("\\").rstrip(), [], number + 1, indent))
        elif commands:
            commands[-1].shown.append(line)
        else:
            raise ValueError(f"line {number + 1}: a console block begins with a line that starts with '$ '")
    for command in commands:
        while command.shown and not command.shown[-1].strip():
            command.shown.pop()
    return commands
