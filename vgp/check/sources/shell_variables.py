"""What the variables and arrays of a shell script hold, as far as that is the same in every run."""

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vgp.base.documents.budget import Exhausted
from vgp.check.sources.shell_words import Unclosed, opened, split

_ASSIGNED = re.compile(
    r"^(\s*)(?:export\s+|readonly\s+|(?:local|declare|typeset)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)(\+?)=(.*)$"
)
#: Further ways to set a variable, within a line.
_ALSO_SET = re.compile(
    r"(?:[;&|{(]|\b(?:then|do|else))\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)\+?=|\bfor\s+(\w+)\s+in\b"
)
#: $NAME, $1, and ${NAME} with what may follow the name: a default, or an operation.
VARIABLE = re.compile(r"\$(?:\{(\w+)([^\w{}][^{}]*)?\}|([A-Za-z_]\w*|\d))")
#: "${NAME[@]}", and ${NAME[@]+"${NAME[@]}"}, which a script without set -u does not need.
_ARRAY = re.compile(r'("?)\$\{(\w+)\[[@*]\](?::?\+"?\$\{\2\[[@*]\]\}"?)?\}\1')
_DEFAULT = re.compile(r":?[-=](.*)", re.DOTALL)
#: Of one command, and of what a variable holds: words are split character by character.
MAX_COMMAND, MAX_VARIABLE = 100_000, 10_000
#: Characters that are looked at again for quotes, with some for each line.
_MAX_WORK, _A_LINE = 10_000_000, 20
#: Lines over which a quote may go, and between a variable and what is added to it.
MAX_QUOTED, _MAX_BETWEEN = 200, 500
#: Name -> text, of an array its words in quotes; None for what only the shell knows.
Variables = Mapping[str, str | None]


@dataclass(frozen=True)
class Assignment:
    """What a line sets: `text` is what stands behind the equals sign, over as many lines as it takes."""

    line: int
    name: str
    text: str
    indent: str
    #: Whether it adds to what was there: NAME+=VALUE, or NAME="$NAME and more".
    adds: bool
    names_itself: bool
    lines: int

    @property
    def is_array(self) -> bool:
        return self.text.startswith("(")

    @property
    def words(self) -> list[str] | None:
        """None for what cannot be split, or takes more than an assignment."""
        try:
            return split(self.text[1:], is_list=True).words if self.is_array else split(self.text).words
        except Unclosed:
            return None


class Lines(list[str]):
    """The lines of a script, and how much more of them may be looked at again."""

    left = _MAX_WORK

    def spend(self, text: str) -> None:
        """Raises Exhausted: the script has more that goes over several lines than any real one."""
        self.left -= len(text) + _A_LINE
        if self.left < 0:
            raise Exhausted("The script has more commands and quotes over several lines than are followed.")


def assignments_of(lines: Lines) -> Iterator[Assignment]:
    number = 0
    while number < len(lines):
        match = _ASSIGNED.match(lines[number])
        number += 1
        if match is None:
            continue
        first, (indent, name, plus, text) = number, match.groups()
        text, number = with_quoted(lines, number, text)
        named = {match.group(1) or match.group(3) for match in VARIABLE.finditer(text) if not match.group(2)}
        names_itself = name in named | {match.group(2) for match in _ARRAY.finditer(text)}
        yield Assignment(first, name, text, indent, bool(plus) or names_itself, names_itself, number - first + 1)


def with_quoted(lines: Lines, number: int, text: str) -> tuple[str, int]:
    """The text with the lines from `number` over which its quotes go, and the line behind; not if they never end."""
    if len(text) > MAX_VARIABLE:
        return text, number
    first, whole, waiting = number, text, opened(f"{text}\n")
    while waiting or whole.endswith("\\"):
        if number == min(len(lines), first + MAX_QUOTED) or len(whole) > MAX_VARIABLE:
            return text, first
        lines.spend(lines[number])
        whole += f"\n{lines[number]}"
        waiting = opened(f"{lines[number]}\n", waiting)
        number += 1
    return whole, number


def variables_of(lines: list[str], assignments: list[Assignment], start: int, end: int) -> Variables:
    """What the lines from `start` to `end` set, and to what: a text where that is done once, or added to below it."""
    values: dict[str, str | None] = {}
    last: dict[str, Assignment] = {}
    own = (bisect_right(assignments, line, key=lambda each: each.line) for line in (start, end))
    for each in assignments[slice(*own)]:
        value = _array(each) if each.is_array else _text(each.text, each.name)
        before = last.get(each.name)
        known = values.get(each.name) if before and each.adds and _is_below(lines, before, each) else None
        whole = None if value is None or known is None else _added(known, value, each)
        values[each.name] = whole if before or each.adds else value
        last[each.name] = each
    for line in lines[start:end]:
        values |= dict.fromkeys((name for pair in _ALSO_SET.findall(line) for name in pair if name in values), None)
    for _ in range(5):
        values = {name: _short(value) for name, value in values.items()}
        values = {name: value and filled(value, values)[:MAX_VARIABLE] for name, value in values.items()}
    return {name: _short(value) for name, value in values.items()}


def _is_below(lines: list[str], before: Assignment, each: Assignment) -> bool:
    """Whether whatever runs an assignment also ran the one before: both stand alike, and no block ends between them."""
    start, indent = before.line + before.lines - 1, len(each.indent)
    between = lines[start : min(each.line - 1, start + _MAX_BETWEEN)]
    return (
        before.indent == each.indent
        and each.line - start <= _MAX_BETWEEN
        and all(len(line) - len(line.lstrip()) >= indent for line in between if line.strip())
    )


def _added(known: str, value: str, each: Assignment) -> str | None:
    """What a variable holds after NAME+=VALUE, or after NAME="$NAME and more"; None: too long for a flag's."""
    if len(known) * max(value.count("$"), 1) + len(value) > MAX_VARIABLE:
        return None
    if each.is_array:
        own = shlex.quote(f"${{{each.name}[@]}}")
        return value.replace(own, known) if own in value else f"{known} {value}"
    if not each.names_itself:
        return known + value
    return VARIABLE.sub(lambda match: known if each.name in match.groups() else match.group(), value)


def _array(each: Assignment) -> str | None:
    """The words of an array in quotes; None for what the shell computes."""
    return None if each.words is None else shlex.join(each.words)


def _short(value: str | None) -> str | None:
    """The text of a variable; None for one that is too long to be a flag's."""
    return value if value is not None and len(value) < MAX_VARIABLE else None


def _text(value: str, name: str) -> str | None:
    """What an assignment to a name sets; None for what the shell computes."""
    value = filled(value, {}, name)  # GPU=${GPU:-NVIDIA_L4}: what was there before is the caller's
    if "$(" in value or "`" in value:
        return None
    try:
        words = split(value).words
    except Unclosed:
        return None
    return words[0] if len(words) == 1 else "" if not words else None


def filled(text: str, variables: Variables, only: str | None = None) -> str:
    """The text with its variables; `only`: of no other is the default taken."""

    def fill(match: re.Match[str]) -> str:
        name, operation = match.group(1) or match.group(3), match.group(2) or ""
        default = _DEFAULT.fullmatch(operation)
        value = variables.get(name)
        if name in variables or not default:
            return match.group() if value is None or (operation and not default) else value
        return default.group(1) if only in (None, name) else match.group()

    def fill_array(match: re.Match[str]) -> str:
        value = variables.get(match.group(2))
        return match.group() if value is None else value

    text = text if len(text) > MAX_COMMAND else _ARRAY.sub(fill_array, text)
    for _ in range(3 if "}}" in text else 1):  # ${A:-${B:-TEXT}}: from the inside
        text = text if len(text) > MAX_COMMAND else VARIABLE.sub(fill, text)
    return text
