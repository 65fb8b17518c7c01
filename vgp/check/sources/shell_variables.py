"""Splits shell commands into words, as bash does, and resolves the script's constant variables and arrays."""

import re
import shlex
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vgp.base.documents.bounded_text import Exhausted

_OPENERS = {"'": "'", '"': '"', "`": "`", "$(": ")", "${": "}", "(": ")", "<(": ")", ">(": ")"}
_COMMENT = r"(?<![^\s;&|()])#[^\n]*"
#: A closer -> the text that may stand before it: an escape, an opener, the end, a comment.
_INSIDE = {
    closer: re.compile(pattern, re.DOTALL)
    for closer, pattern in {
        "'": r"'",
        '"': r'\\.|"|`|\$[({]',
        "}": r"\\.|['\"`}]|\$[({]",
        ")": rf"\\.|['\"`()]|\$[({{]|{_COMMENT}",
        "`": rf"\\.|['\"`]|\$[({{]|{_COMMENT}",
    }.items()
}
_WORD_PART = re.compile(
    rf"""(?P<continued>\\(?:\n|\Z))|(?P<escaped>\\.)|(?P<opener>['"`]|\$[({{]|[<>]\()|(?P<placeholder><[A-Za-z][\w.-]*>)"""
    rf"""|(?P<redirection>&>>?|<<<|<<-?|<>|>>|>\||[<>]&?)|(?P<operator>[;&|()\n])|(?P<comment>{_COMMENT})"""
    r"""|(?P<blank>[ \t]+)|(?P<plain>[^\s\\'"`$<>;&|()#]+|[\s\S])""",
    re.DOTALL,
)
_ESCAPED_IN_QUOTES = re.compile(r"\\(?:([$`\"\\])|\n)")


class Unclosed(ValueError):
    """A quote, substitution or list that is not closed."""


@dataclass
class Split:
    """The words of one command, and the position of its end in the text."""

    words: list[str] = field(default_factory=list)
    end: int = 0
    #: The text from the first redirection on, such as `2>&1`.
    redirection: str = ""


def close(text: str, start: int, closer: str) -> int:
    """Returns the position behind the closer of what is open at `start`; raises Unclosed."""
    stack, position = [closer], start
    while stack:
        match = _INSIDE[stack[-1]].search(text, position)
        if match is None:
            raise Unclosed(
                f"nothing closes the {stack[-1]} that is open" if stack[-1] in ")}" else "No closing quotation"
            )
        mark, position = match.group(), match.end()
        if mark == stack[-1]:
            stack.pop()
        elif mark in _OPENERS:
            stack.append(_OPENERS[mark])
    return position


def find_open_quotes(text: str, stack: Sequence[str] = ()) -> list[str]:
    """Returns what closes the quotes, substitutions and lists that go on below the text, the innermost last.

    `stack`: what is open where the text begins.
    """
    waiting, position = list(stack), 0
    while match := _INSIDE[waiting[-1] if waiting else ")"].search(text, position):
        mark, position = match.group(), match.end()
        if waiting and mark == waiting[-1]:
            waiting.pop()
        elif mark in _OPENERS:
            waiting.append(_OPENERS[mark])
    return waiting


def split(text: str, *, is_list: bool = False) -> Split:
    """Returns the words up to where the command ends; what a substitution does stays as it is written.

    Args:
        text: Begins with the command.
        is_list: Words of an array: they end with the closing bracket, and line breaks are blanks.

    Raises:
        Unclosed: a quote, a substitution or the list does not end.
    """
    result = Split()
    word: str | None = None
    position, is_target = 0, False
    while position < len(text):
        match = _WORD_PART.match(text, position)
        assert match is not None
        kind, part, position = str(match.lastgroup), match.group(), match.end()
        if kind in ("blank", "comment") or is_list and part == "\n":
            is_target, word = _finish(result, word, is_target), None
        elif kind == "redirection":
            is_descriptor = word is not None and word.isdigit() and text[match.start() - 1].isdigit()
            is_target, word = _finish(result, None if is_descriptor else word, is_target), None
            result.redirection = result.redirection or text[match.start() - is_descriptor :]
            is_target = True
        elif kind == "operator":
            _finish(result, word, is_target)
            result.end = match.start()
            return result
        else:
            piece, position = _expand_part(text, match.start(), kind, part, position)
            word = piece if word is None and kind != "continued" else word if kind == "continued" else f"{word}{piece}"
    if is_list:
        raise Unclosed("nothing closes the list")
    _finish(result, word, is_target)
    result.end = position
    return result


def _finish(result: Split, word: str | None, is_target: bool) -> bool:
    """Adds the word unless it names the file of a redirection; returns whether that name is still to come."""
    if word is None:
        return is_target
    if not is_target:
        result.words.append(word)
    return False


def _expand_part(text: str, start: int, kind: str, part: str, end: int) -> tuple[str, int]:
    """Returns the text that one part adds to a word, and the position of its end."""
    if kind == "escaped":
        return part[1:], end
    if kind != "opener":
        return part, end
    end = close(text, end, _OPENERS[part])
    if part == "'":
        return text[start + 1 : end - 1], end
    return (unescape(text[start + 1 : end - 1]) if part == '"' else text[start:end]), end


def unescape(text: str) -> str:
    """Returns the text between double quotes as the shell reads it."""
    return _ESCAPED_IN_QUOTES.sub(lambda match: match.group(1) or "", text)


_ASSIGNED = re.compile(
    r"^(\s*)(?:export\s+|readonly\s+|(?:local|declare|typeset)\s+(?:-\w+\s+)*)?([A-Za-z_]\w*)(\+?)=(.*)$"
)
#: Other ways to set a variable within a line.
_ALSO_SET = re.compile(
    r"(?:[;&|{(]|\b(?:then|do|else))\s*(?:export\s+|local\s+)?([A-Za-z_]\w*)\+?=|\bfor\s+(\w+)\s+in\b"
)
#: $NAME, $1, and ${NAME} with what may follow the name: a default, or an operation.
VARIABLE = re.compile(r"\$(?:\{(\w+)([^\w{}][^{}]*)?\}|([A-Za-z_]\w*|\d))")
#: "${NAME[@]}", and ${NAME[@]+"${NAME[@]}"}, which a script without set -u does not need.
_ARRAY = re.compile(r'("?)\$\{(\w+)\[[@*]\](?::?\+"?\$\{\2\[[@*]\]\}"?)?\}\1')
_DEFAULT = re.compile(r":?[-=](.*)", re.DOTALL)
#: Limit for one command and one variable, because words are split character by character.
MAX_COMMAND, MAX_VARIABLE = 100_000, 10_000
#: Characters that are looked at again for quotes, with some for each line.
_MAX_WORK, _A_LINE = 10_000_000, 20
#: Maximum lines of a quote, and between a variable and an addition to it.
MAX_QUOTED, _MAX_BETWEEN = 200, 500
#: Name -> text, for an array its quoted words; None if only the shell knows the value.
Variables = Mapping[str, str | None]


@dataclass(frozen=True)
class Assignment:
    """An assignment on a line: `text` follows the equals sign, over any number of lines."""

    line: int
    name: str
    text: str
    indent: str
    #: Whether it appends: NAME+=VALUE, or NAME="$NAME and more".
    adds: bool
    names_itself: bool
    lines: int

    @property
    def is_array(self) -> bool:
        return self.text.startswith("(")

    @property
    def words(self) -> list[str] | None:
        """Returns the words; None if they cannot be split or exceed the limit."""
        try:
            return split(self.text[1:], is_list=True).words if self.is_array else split(self.text).words
        except Unclosed:
            return None


class Lines(list[str]):
    """The lines of a script, with a budget for repeated reading."""

    budget_left = _MAX_WORK

    def use_budget(self, text: str) -> None:
        """Uses the budget. Raises Exhausted if the script has more multi-line text than any real one."""
        self.budget_left -= len(text) + _A_LINE
        if self.budget_left < 0:
            raise Exhausted("The script has more commands and quotes over several lines than are followed.")


def find_assignments(lines: Lines) -> Iterator[Assignment]:
    number = 0
    while number < len(lines):
        match = _ASSIGNED.match(lines[number])
        number += 1
        if match is None:
            continue
        first, (indent, name, plus, text) = number, match.groups()
        text, number = join_quoted(lines, number, text)
        named = {match.group(1) or match.group(3) for match in VARIABLE.finditer(text) if not match.group(2)}
        names_itself = name in named | {match.group(2) for match in _ARRAY.finditer(text)}
        yield Assignment(first, name, text, indent, bool(plus) or names_itself, names_itself, number - first + 1)


def join_quoted(lines: Lines, number: int, text: str) -> tuple[str, int]:
    """Returns the text with the lines of its quotes, and the line after it; unchanged if they never end."""
    if len(text) > MAX_VARIABLE:
        return text, number
    first, whole, waiting = number, text, find_open_quotes(f"{text}\n")
    while waiting or whole.endswith("\\"):
        if number == min(len(lines), first + MAX_QUOTED) or len(whole) > MAX_VARIABLE:
            return text, first
        lines.use_budget(lines[number])
        whole += f"\n{lines[number]}"
        waiting = find_open_quotes(f"{lines[number]}\n", waiting)
        number += 1
    return whole, number


def read_variables(lines: list[str], assignments: list[Assignment], start: int, end: int) -> Variables:
    """Returns the variables that the lines from `start` to `end` set once to a text, or set once and append to."""
    values: dict[str, str | None] = {}
    last: dict[str, Assignment] = {}
    bounds = (bisect_right(assignments, line, key=lambda each: each.line) for line in (start, end))
    for each in assignments[slice(*bounds)]:
        if each.is_array:
            value = None if each.words is None else shlex.join(each.words)
        else:
            value = _read_assigned_text(each.text, each.name)
        before = last.get(each.name)
        known = values.get(each.name) if before and each.adds and _always_follows(lines, before, each) else None
        whole = None if value is None or known is None else _append_value(known, value, each)
        values[each.name] = whole if before or each.adds else value
        last[each.name] = each
    for line in lines[start:end]:
        values |= dict.fromkeys((name for pair in _ALSO_SET.findall(line) for name in pair if name in values), None)
    for _ in range(5):
        values = {name: _limit_length(value) for name, value in values.items()}
        values = {name: value and fill_variables(value, values)[:MAX_VARIABLE] for name, value in values.items()}
    return {name: _limit_length(value) for name, value in values.items()}


def _always_follows(lines: list[str], before: Assignment, assignment: Assignment) -> bool:
    """Whether every run of the assignment follows one of the earlier: equal indentation, and no block ends between
    them."""
    start, indent = before.line + before.lines - 1, len(assignment.indent)
    between = lines[start : min(assignment.line - 1, start + _MAX_BETWEEN)]
    return (
        before.indent == assignment.indent
        and assignment.line - start <= _MAX_BETWEEN
        and all(len(line) - len(line.lstrip()) >= indent for line in between if line.strip())
    )


def _append_value(known: str, value: str, assignment: Assignment) -> str | None:
    """Returns a variable after NAME+=VALUE, or after NAME="$NAME and more"; None if it is too long for a flag."""
    if len(known) * max(value.count("$"), 1) + len(value) > MAX_VARIABLE:
        return None
    if assignment.is_array:
        reference = shlex.quote(f"${{{assignment.name}[@]}}")
        return value.replace(reference, known) if reference in value else f"{known} {value}"
    if not assignment.names_itself:
        return known + value
    return VARIABLE.sub(lambda match: known if assignment.name in match.groups() else match.group(), value)


def _limit_length(value: str | None) -> str | None:
    """Returns the text of a variable; None if it is too long for a flag."""
    return value if value is not None and len(value) < MAX_VARIABLE else None


def _read_assigned_text(value: str, name: str) -> str | None:
    """Returns the text that an assignment sets; None if the shell computes it."""
    value = fill_variables(value, {}, name)  # in GPU=${GPU:-NVIDIA_L4} the earlier value comes from the caller
    if "$(" in value or "`" in value:
        return None
    try:
        words = split(value).words
    except Unclosed:
        return None
    return words[0] if len(words) == 1 else "" if not words else None


def fill_variables(text: str, variables: Variables, only: str | None = None) -> str:
    """Returns the text with its variables replaced; `only`: the one whose default is used."""

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
    for _ in range(3 if "}}" in text else 1):  # from the inside: ${A:-${B:-TEXT}}
        text = text if len(text) > MAX_COMMAND else VARIABLE.sub(fill, text)
    return text
