"""Shell scripts -> the documents that their gcloud commands stand for, without running anything.

Variables and arrays that the script sets once, to a text, are followed, and `${NAME:-TEXT}` is its default where the
script does not set NAME; what else they hold is not known. A file that the script writes with `cat > FILE << EOF` may
be that of --config.
"""

import re
import shlex
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from vgp.base.documents.bounded_text import FieldPath, Unreadable
from vgp.base.documents.budget import Exhausted
from vgp.base.documents.document import At, Document, Place, load, numbered, parse
from vgp.base.documents.node import Computed
from vgp.base.errors import RequestError
from vgp.base.text.figures import listed
from vgp.check.sources import command_line, gcloud_line
from vgp.check.sources.shell_variables import (
    MAX_COMMAND,
    MAX_QUOTED,
    VARIABLE,
    Assignment,
    Lines,
    Variables,
    assignments_of,
    filled,
    variables_of,
    with_quoted,
)
from vgp.check.sources.shell_words import Unclosed, close, opened, split

#: Words without which no line asks for a machine.
_HINT = re.compile(r"gcloud|custom-jobs|hp-tuning-jobs|ai-platform|ml-engine|deploy-model")
_GCLOUD = re.compile(
    r"(?<![\w.-])(?:gcloud(?=[\s\\]|$)"
    r"|\$\{?\w+\}?(?=\s+(?:alpha\s+|beta\s+)?(?:ai|ai-platform|ml-engine)\s))"
)
#: Words of which a command that asks for machines has all of a line.
_ASKING = (("custom-jobs", "create"), ("hp-tuning-jobs", "create"), ("deploy-model",), ("submit", "training"))
_LATE_BACKSLASH = re.compile(r"\\[ \t]+(#.*)?$")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_WRITTEN = re.compile(r"(?<![<>&\d])>\s*(['\"]?)([^\s'\"<>|&;]+)\1")
_SHELL = re.compile(r"(?:^|[\s|;&/])(?:ba|z|da|k|s)?sh(?:\s|$)")
_ESCAPED = re.compile(r"\\([$`\"\\])")
_SUBSTITUTED = re.compile(r"(?:\$\(|`)\s*gcloud\s")
_PRINTED = re.compile(r"^\s*(?:echo|printf)\s")
#: What runs the text in the quotes behind it.
_RUNS = re.compile(r"\beval\s|\s-\w*c\s|\bssh\s")
MAX_LINES, MAX_COMMANDS = 100_000, 1_000
#: Name of a file -> (line, text) of each time that the script writes it.
Written = dict[str, list[tuple[int, str]]]
_FIX = "Write what is missing into the script, or check the file of --config by itself: no machine of this is judged."
#: Stands for a dollar sign that the shell leaves alone.
_LITERAL = "\0"


@dataclass
class _Command:
    """A gcloud command: where it begins, its text with the lines that it goes over, and what breaks it."""

    line: int
    text: str
    lines: list[tuple[int, str]]
    broken: list[tuple[int, str, str]] = field(default_factory=list)
    #: The variable or array that holds the command.
    name: str = ""


@dataclass(frozen=True)
class _Script:
    """The parts of a script that its commands refer to."""

    file: str
    written: Written
    #: Where a shell of its own begins, from line 0, and what is set in it.
    shells: Sequence[int]
    variables: Sequence[Variables]
    folder: Path | None
    at: At

    def variables_at(self, line: int) -> Variables:
        """Those of a line, from 1."""
        return self.variables[bisect_right(self.shells, line - 1) - 1]


def may_ask(text: str) -> bool:
    """Whether a script, or a notebook, has the words of a command that asks for machines."""
    return any(all(word in text for word in words) for words in _ASKING)


def documents(
    file: str, text: str, folder: Path | None = None, at: At = Place, shells: Sequence[int] = (0,)
) -> list[Document]:
    """The jobs and deployments that the script asks for, in their order.

    Args:
        file: What the script is called in findings.
        folder: Where the files of --config lie; None: none is read.
        at: Where the lines of the text stand.
        shells: The lines, from 0, at which a shell begins that has no variables of those above; the first is 0.
    """
    every = text.replace("\r\n", "\n").split("\n")
    lines = Lines(every[:MAX_LINES])
    written = _written(lines)
    try:
        assignments = list(assignments_of(lines))
        starts = [*shells, len(lines)]
        variables = [variables_of(lines, assignments, *part) for part in zip(starts, starts[1:], strict=False)]
        script = _Script(file, written, shells, variables, folder, at)
        commands = [*islice(_commands_in_variables(lines, assignments), MAX_COMMANDS + 1)]
        _blank_printed(lines)
        commands += islice(_commands(lines, script), MAX_COMMANDS + 1)
    except Exhausted as error:
        return [Document(file, None, "", fault=error, asks=may_ask(text))]
    commands.sort(key=lambda command: command.line)
    found = [_document(command, script) for command in commands[:MAX_COMMANDS]]
    if len(commands) > MAX_COMMANDS:
        fault = Exhausted(f"The script has more than {MAX_COMMANDS:,} commands of gcloud.")
        found.append(Document(file, None, "", above=at(commands[MAX_COMMANDS].line).line - 1, fault=fault))
    elif len(every) > MAX_LINES and any(_GCLOUD.search(line) for line in every[MAX_LINES:]):
        fault = Exhausted(f"The script has more than {MAX_LINES:,} lines.")
        found.append(Document(file, None, "", above=at(MAX_LINES).line, fault=fault))
    return numbered([document for document in found if document is not None])


def _commands(lines: Lines, script: _Script) -> Iterator[_Command]:
    number = 0
    while number < len(lines):
        first, line = number, lines[number]
        number += 1
        if line.lstrip().startswith("#") or not _HINT.search(line):
            continue
        end = 0
        for match in _GCLOUD.finditer(line):
            own = match.start() >= end  # gcloud --project=${P} ai: one command
            command = _gathered(lines, first, match.start(), script.variables_at(first + 1)) if own else None
            if command is not None:
                number = max(number, command.lines[-1][0])
                end = match.start() + len(command.text.split("\n", 1)[0])
                yield command


def _gathered(lines: Lines, first: int, start: int, variables: Variables) -> _Command | None:
    """The command that begins in a line; None where it asks for no machine, or is a text that nothing runs."""
    before = lines[first][:start]
    lines.spend(lines[first])
    around = (opened(before[-MAX_COMMAND:]) or [""])[-1]
    if around in ("'", '"') and not (before.endswith(around) or _RUNS.search(before)):
        return None
    command = _Command(first + 1, "", [(first + 1, lines[first][start:])])
    number = first + 1
    while number < len(lines) and _goes_on(command, lines, number):
        if lines[number].lstrip().startswith("#") and _flag_follows(lines, number):
            why = "a line that is a comment ends the command: the shell takes no flag below it"
            command.broken.append((number + 1, f"The command is cut here: {why}.", "Move the comment above it."))
        command.lines.append((number + 1, lines[number]))
        lines.spend(lines[number])
        number += 1
    command.text = "\n".join([*(_joined(part) for _, part in command.lines[:-1]), _bare(command.lines[-1][1])])
    if not may_ask(filled(command.text, variables)):
        return None
    if len(command.text) <= MAX_COMMAND:
        _take_quoted(command, lines, opened(before))
    return command


def _take_quoted(command: _Command, lines: Lines, around: list[str]) -> None:
    """Adds the lines over which the quotes of the command go; `around`: what closes the quotes that it stands in."""
    own, number, text = len(command.lines), command.lines[-1][0], command.text
    waiting = opened(f"{text}\n", around)
    for line in lines[number : number + MAX_QUOTED]:
        if not waiting or len(text) > MAX_COMMAND:
            break
        number += 1
        lines.spend(line)
        command.lines.append((number, line))
        text += f"\n{line}"
        waiting = opened(f"{line}\n", waiting)
    try:
        end = close(text, 0, around[-1]) - 1 if around and around[-1] != ")" else len(text)
        text = _ESCAPED.sub(r"\1", text[:end]) if around[-1:] == ['"'] else text[:end]
        end = split(text).end
        own = text.count("\n", 0, end) + 1
        command.text = text[:end]
    except Unclosed:
        text = command.text.rstrip()  # the quote may be one that begins above
        command.text = text[:-1] if text.endswith(("'", '"')) else text
    del command.lines[own:]


def _commands_in_variables(lines: list[str], assignments: list[Assignment]) -> Iterator[_Command]:
    """The commands that variables and arrays hold, to be run by $NAME: their lines are blanked."""
    for each in assignments:
        if "gcloud" not in each.text:
            continue
        words = each.words or []
        text = shlex.join(words) if each.is_array else words[0] if len(words) == 1 else ""
        if text.lstrip().startswith("gcloud") and may_ask(text):
            own = [(each.line + at, lines[each.line + at - 1]) for at in range(each.lines)]
            yield _Command(each.line, text, own, name=each.name)
            lines[each.line - 1 : each.line - 1 + each.lines] = [""] * each.lines


def _goes_on(command: _Command, lines: list[str], number: int) -> bool:
    """Whether a command is meant to go on at line `number`, from 0; noted where it only looks so."""
    line = lines[number - 1]
    match = _LATE_BACKSLASH.search(line)
    if len(command.lines) > 1 and line.lstrip().startswith("#"):
        return _flag_follows(lines, number - 1)
    if match is None:
        return line.endswith("\\")
    what = "a comment" if match.group(1) else "a blank"
    text = f"The command is cut here: {what} follows the backslash, so the shell takes no flag below it."
    command.broken.append((number, text, "Let the backslash be the last character of its line."))
    return True


def _flag_follows(lines: list[str], number: int) -> bool:
    """Whether a comment's line, and what comments follow it, stand above a flag."""
    below = (line.lstrip() for line in lines[number + 1 : number + 21])
    return next((line.startswith("-") for line in below if not line.startswith("#")), False)


def _joined(line: str) -> str:
    """A line that another follows in the command: bash joins the two without a blank."""
    return line if line.endswith("\\") and not line.lstrip().startswith("#") else f"{_bare(line)} \\"


def _bare(line: str) -> str:
    """A line without a backslash that does not end it, and without the comment behind that."""
    return "" if line.lstrip().startswith("#") else _LATE_BACKSLASH.sub("", line)


def _blank_printed(lines: Lines) -> None:
    """Blanks what echo and printf print: such a command is shown, and not run."""
    number = 0
    while number < len(lines):
        first, text = number, lines[number]
        number += 1
        if not _PRINTED.match(text):
            continue
        text, number = with_quoted(lines, number, text)
        if not _HINT.search(text) or _SUBSTITUTED.search(text) or opened(text):
            number = first + 1
            continue
        end = split(text).end
        blank = re.sub(r"[^\n]", " ", text[:end])
        lines[first:number] = f"{blank}{text[end:]}".split("\n")


def _written(lines: list[str]) -> Written:
    """What every `cat > FILE << EOF` writes, and on which line; the lines of what no shell runs are blanked."""
    texts: Written = {}
    last = {line.strip(): at for at, line in enumerate(lines)}
    number = 0
    while number < len(lines):
        opening = lines[number]
        match = None if opening.lstrip().startswith("#") else _HEREDOC.search(opening)
        name = _WRITTEN.search(opening) if match else None
        number += 1
        if match is None or last.get(match.group(2), 0) < number:
            continue
        end = next(at for at in range(number, len(lines)) if lines[at].strip() == match.group(2))
        if name:
            expands = not match.group(1)
            body = "\n".join(lines[number:end])
            text = body if expands else body.replace("$", _LITERAL)
            texts.setdefault(name.group(2), []).append((number, text))
        if not (_SHELL.search(opening) or name and name.group(2).endswith((".sh", ".bash"))):
            lines[number:end] = [""] * (end - number)
        lines[end] = ""
        number = end + 1
    return texts


def _document(command: _Command, script: _Script) -> Document | None:
    file, at, variables = script.file, script.at, script.variables_at(command.line)
    broken = tuple(((str(at(line)),), text, fix) for line, text, fix in command.broken)
    places: dict[FieldPath, Place] = {(): at(command.line)}
    places |= {(str(at(line)),): at(line) for line, _, _ in command.broken}
    try:
        text = filled(variables.get(command.name) or command.text, variables)
        if len(text) > MAX_COMMAND:
            raise Exhausted(f"The command has more than {MAX_COMMAND:,} characters.")
        line = _line(text)
        if not gcloud_line.recognises(line.command):
            return None
        unknown = gcloud_line.take_unknown(line)
        unknown += [f"${command.name}"] if command.name and variables.get(command.name) is None else []
        line.read = lambda path: _config(path, command.line, script)
        data, _ = gcloud_line.data(line)
        if not gcloud_line.has_machines(data) and (unknown or command.name):
            added = listed(unknown or [f"${command.name}"], "and")
            raise RequestError(f"no flag names machines, and what {added} adds only the shell knows.")
    except (RequestError, Exhausted) as error:
        fault = error if isinstance(error, Exhausted) else Unreadable(f"{file}:{at(command.line).line}", str(error))
        above = at(command.line).line - 1
        return Document(file, None, "", above=above, fault=fault, places=places, broken=broken, fix=_FIX)
    places |= {path: at(line) for path, line in _places(data, command).items()}
    texts = [f"What {word} adds to the command only the shell knows: it is not judged." for word in unknown]
    return Document(file, _marked(data), "", places=places, broken=broken, unread=tuple(texts))


def _line(text: str) -> command_line.Line:
    """The flags of a gcloud command; raises RequestError: it cannot be split into words."""
    try:
        words = split(text).words
    except Unclosed as error:
        if not gcloud_line.recognises(command_line.of_words(text.split()).command):
            return command_line.of_words([])
        raise RequestError(f"the command cannot be split into words: {error}.") from None
    return command_line.of_words(["gcloud" if words[0].startswith("$") else words[0], *words[1:]])


def _config(path: str, line: int, script: _Script) -> list[Document]:
    """The documents of the file of --config of the command at a line: one that the script writes, or one beside it."""
    if path in script.written:
        text = filled(_standing(script.written[path], line), script.variables_at(line))
        return parse(path, text.replace(_LITERAL, "$"))
    if VARIABLE.search(path) or "$(" in path or "`" in path:
        raise RequestError(f"--config={path}: which file that is, only the shell knows.")
    if script.folder is None:
        raise RequestError(f"--config={path}: no file is read for a script without a folder.")
    return load(_beside(script.folder, path))


def _beside(folder: Path, path: str) -> Path:
    """The file beside the script, or in the nearest folder around it, up to the current one, that has such a file."""
    here, around = Path.cwd(), [folder.absolute(), *folder.absolute().parents]
    own = around[: around.index(here) + 1] if here in around else around[:1]
    return next(
        (parent / path for parent in own[1:] if not (folder / path).exists() and (parent / path).is_file()),
        folder / path,
    )


def _standing(texts: list[tuple[int, str]], line: int) -> str:
    """What was written last above the line; where all of it stands below, as around a function, the first."""
    return texts[max(bisect_left(texts, line, key=itemgetter(0)) - 1, 0)][1]


def _places(data: Any, command: _Command) -> dict[tuple[str | int, ...], int]:
    """The lines of the flags that made the parts of the job."""
    at: dict[tuple[str | int, ...], int] = {}
    pools = [number for number, line in command.lines for _ in re.findall(r"--worker-pool-spec\b", line)]
    for index, number in enumerate(pools):
        at["jobSpec", "workerPoolSpecs", index] = number
    for number, line in command.lines:
        if "--config" in line:
            at["jobSpec",] = at["trialJobSpec",] = at["trainingInput",] = number
    return at


def _marked(value: Any) -> Any:
    """The data, with texts that hold a variable of the shell marked as not known."""
    if isinstance(value, dict):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_marked(item) for item in value]
    if isinstance(value, str) and ("$(" in value or "`" in value):
        return Computed("the shell computes it")
    match = VARIABLE.search(value) if isinstance(value, str) else None
    return Computed(f"the script gives {match.group()} no text of its own") if match else value
