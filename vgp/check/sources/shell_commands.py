"""Finds the gcloud commands of a shell script: their first line, their other lines, and faults that cut them.

Here-documents that no shell runs, and the output of echo and printf, are not commands.
"""

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from vgp.check.sources.shell_variables import (
    MAX_COMMAND,
    MAX_QUOTED,
    Assignment,
    Lines,
    Unclosed,
    Variables,
    close,
    fill_variables,
    find_open_quotes,
    join_quoted,
    split,
)

#: Every line that requests a machine contains these words.
_HINT = re.compile(r"gcloud|custom-jobs|hp-tuning-jobs|ai-platform|ml-engine|deploy-model")
GCLOUD = re.compile(
    r"(?<![\w.-])(?:gcloud(?=[\s\\]|$)"
    r"|\$\{?\w+\}?(?=\s+(?:alpha\s+|beta\s+)?(?:ai|ai-platform|ml-engine)\s))"
)
#: Sets of words; a command that requests machines contains all words of one set.
_REQUESTING = (("custom-jobs", "create"), ("hp-tuning-jobs", "create"), ("deploy-model",), ("submit", "training"))
#: Fields of the API's objects that request machines.
POSTED_FIELDS = ("machineSpec", "machine_spec")
#: A backslash that a blank or a comment follows, so that the command ends in its line.
LATE_BACKSLASH = re.compile(r"\\[ \t]+(#.*)?$")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_OUTPUT_FILE = re.compile(r"(?<![<>&\d])>\s*(['\"]?)([^\s'\"<>|&;]+)\1")
_SHELL = re.compile(r"(?:^|[\s|;&/])(?:ba|z|da|k|s)?sh(?:\s|$)")
_ESCAPED = re.compile(r"\\([$`\"\\])")
_SUBSTITUTED = re.compile(r"(?:\$\(|`)\s*gcloud\s")
_PRINTED = re.compile(r"^\s*(?:echo|printf)\s")
#: Programs that run the text in the quotes after them.
_RUNS = re.compile(r"\beval\s|\s-\w*c\s|\bssh\s")
#: Stands for a dollar sign that the shell does not expand.
LITERAL = "\0"


@dataclass
class Command:
    """A gcloud command: its first line, its text with all lines, and the faults that cut it."""

    line: int
    text: str
    lines: list[tuple[int, str]]
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    #: The variable or array that holds the command.
    name: str = ""


#: Name of a file -> (line, text) for each time that the script writes it.
Heredocs = dict[str, list[tuple[int, str]]]


def may_ask(text: str) -> bool:
    """Whether a script or a notebook has the words of a command that requests machines."""
    return any(all(word in text for word in words) for words in _REQUESTING) or posts_request(text)


def posts_request(text: str) -> bool:
    """Whether a script calls Vertex AI's API and has a field of a request for machines."""
    return "aiplatform.googleapis.com" in text and any(field in text for field in POSTED_FIELDS)


def commands_in_lines(lines: Lines, variables_at: Callable[[int], Variables]) -> Iterator[Command]:
    """Yields the commands on the script's own lines; `variables_at` returns the variables of a line, from 1."""
    number = 0
    while number < len(lines):
        first, line = number, lines[number]
        number += 1
        if line.lstrip().startswith("#") or not _HINT.search(line):
            continue
        end = 0
        for match in GCLOUD.finditer(line):
            own = match.start() >= end  # gcloud --project=${P} ai: one command
            command = _read_command(lines, first, match.start(), variables_at(first + 1)) if own else None
            if command is not None:
                number = max(number, command.lines[-1][0])
                end = match.start() + len(command.text.split("\n", 1)[0])
                yield command


def _read_command(lines: Lines, first: int, start: int, variables: Variables) -> Command | None:
    """Returns the command that begins on a line; None if it requests no machine, or is a text that nothing runs."""
    before = lines[first][:start]
    lines.use_budget(lines[first])
    around = (find_open_quotes(before[-MAX_COMMAND:]) or [""])[-1]
    if around in ("'", '"') and not (before.endswith(around) or _RUNS.search(before)):
        return None
    command = Command(first + 1, "", [(first + 1, lines[first][start:])])
    number = first + 1
    while number < len(lines) and _is_continued(command, lines, number):
        if lines[number].lstrip().startswith("#") and _flag_follows(lines, number):
            why = "a comment line ends the command, so the shell ignores the flags below it"
            command.broken.append((number + 1, f"The command is cut here: {why}.", "Move the comment above it."))
        command.lines.append((number + 1, lines[number]))
        lines.use_budget(lines[number])
        number += 1
    command.text = "\n".join(
        [*(_join_next(part) for _, part in command.lines[:-1]), _strip_backslash(command.lines[-1][1])]
    )
    if not may_ask(fill_variables(command.text, variables)):
        return None
    if len(command.text) <= MAX_COMMAND:
        _take_quoted(command, lines, find_open_quotes(before))
    return command


def _take_quoted(command: Command, lines: Lines, around: list[str]) -> None:
    """Adds the lines of the command's quotes; `around`: the closers of the enclosing quotes."""
    count, number, text = len(command.lines), command.lines[-1][0], command.text
    waiting = find_open_quotes(f"{text}\n", around)
    for line in lines[number : number + MAX_QUOTED]:
        if not waiting or len(text) > MAX_COMMAND:
            break
        number += 1
        lines.use_budget(line)
        command.lines.append((number, line))
        text += f"\n{line}"
        waiting = find_open_quotes(f"{line}\n", waiting)
    try:
        end = close(text, 0, around[-1]) - 1 if around and around[-1] != ")" else len(text)
        text = _ESCAPED.sub(r"\1", text[:end]) if around[-1:] == ['"'] else text[:end]
        end = split(text).end
        count = text.count("\n", 0, end) + 1
        command.text = text[:end]
    except Unclosed:
        text = command.text.rstrip()  # the quote may be one that begins above
        command.text = text[:-1] if text.endswith(("'", '"')) else text
    del command.lines[count:]


def commands_in_variables(lines: list[str], assignments: list[Assignment]) -> Iterator[Command]:
    """Yields the commands in variables and arrays, which $NAME runs; their lines are blanked."""
    for each in assignments:
        if "gcloud" not in each.text:
            continue
        words = each.words or []
        text = shlex.join(words) if each.is_array else words[0] if len(words) == 1 else ""
        if text.lstrip().startswith("gcloud") and may_ask(text):
            lines_of_command = [(each.line + at, lines[each.line + at - 1]) for at in range(each.lines)]
            yield Command(each.line, text, lines_of_command, name=each.name)
            lines[each.line - 1 : each.line - 1 + each.lines] = [""] * each.lines


def _is_continued(command: Command, lines: list[str], number: int) -> bool:
    """Whether a command continues at line `number`, from 0; notes a continuation that the shell does not see."""
    line = lines[number - 1]
    match = LATE_BACKSLASH.search(line)
    if len(command.lines) > 1 and line.lstrip().startswith("#"):
        return _flag_follows(lines, number - 1)
    if match is None:
        return line.endswith("\\")
    cause = "a comment" if match.group(1) else "a blank"
    text = f"The command is cut here: {cause} follows the backslash, so the shell ignores the flags below it."
    command.broken.append((number, text, "Make the backslash the last character of its line."))
    return True


def _flag_follows(lines: list[str], number: int) -> bool:
    """Whether the next line after the comments is a flag."""
    below = (line.lstrip() for line in lines[number + 1 : number + 21])
    return next((line.startswith("-") for line in below if not line.startswith("#")), False)


def _join_next(line: str) -> str:
    """Returns a line joined with the next one of the command, without a blank, as in bash."""
    return line if line.endswith("\\") and not line.lstrip().startswith("#") else f"{_strip_backslash(line)} \\"


def _strip_backslash(line: str) -> str:
    """Returns a line without a misplaced backslash and the comment after it."""
    return "" if line.lstrip().startswith("#") else LATE_BACKSLASH.sub("", line)


def blank_printed(lines: Lines) -> None:
    """Blanks the arguments of echo and printf, because they are printed and not run."""
    number = 0
    while number < len(lines):
        first, text = number, lines[number]
        number += 1
        if not _PRINTED.match(text):
            continue
        text, number = join_quoted(lines, number, text)
        if not _HINT.search(text) or _SUBSTITUTED.search(text) or find_open_quotes(text):
            number = first + 1
            continue
        end = split(text).end
        blank = re.sub(r"[^\n]", " ", text[:end])
        lines[first:number] = f"{blank}{text[end:]}".split("\n")


def take_heredocs(lines: list[str]) -> Heredocs:
    """Returns the text and the line of every `cat > FILE << EOF`, without a name of those that curl reads; blanks the
    lines that no shell runs."""
    texts: Heredocs = {}
    last = {line.strip(): at for at, line in enumerate(lines)}
    number = 0
    while number < len(lines):
        opening = lines[number]
        match = None if opening.lstrip().startswith("#") else _HEREDOC.search(opening)
        name = _OUTPUT_FILE.search(opening) if match else None
        number += 1
        if match is None or last.get(match.group(2), 0) < number:
            continue
        end = next(at for at in range(number, len(lines)) if lines[at].strip() == match.group(2))
        if name or "curl" in opening:
            expands = not match.group(1)
            body = "\n".join(lines[number:end])
            text = body if expands else body.replace("$", LITERAL)
            texts.setdefault(name.group(2) if name else "", []).append((number, text))
        if not (_SHELL.search(opening) or name and name.group(2).endswith((".sh", ".bash"))):
            lines[number:end] = [""] * (end - number)
        lines[end] = ""
        number = end + 1
    return texts
