"""Shell scripts -> the documents that their gcloud commands stand for, without running anything.

Variables that the script sets once, to a text, are followed, and `${NAME:-TEXT}` is its default where the script does
not set NAME; what else they hold is not known. A file that the script writes with `cat > FILE << EOF` may be that of
--config.
"""

import re
import shlex
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any

from vgp.documents.budget import Exhausted
from vgp.documents.document import Document, load, numbered, parse
from vgp.documents.field_path import FieldPath
from vgp.documents.node import Computed
from vgp.documents.place import At, Place
from vgp.documents.reading import Unreadable
from vgp.errors import RequestError
from vgp.sources import command_line, gcloud_line

_GCLOUD = re.compile(r"(?:^|[\s;&|(`!])gcloud\s+(?:alpha\s+|beta\s+)?(?:ai|ai-platform|ml-engine)\s")
_ASSIGNED = re.compile(r"^\s*(?:export\s+|readonly\s+|local\s+|declare\s+(?:-\w+\s+)?)?([A-Za-z_]\w*)=(.*)$")
#: $NAME, $1, and ${NAME} with what may follow the name: a default, or an operation.
_VARIABLE = re.compile(r"\$(?:\{(\w+)([^\w{}][^{}]*)?\}|([A-Za-z_]\w*|\d))")
_DEFAULT = re.compile(r":?[-=](.*)", re.DOTALL)
_LATE_BACKSLASH = re.compile(r"\\[ \t]+(#.*)?$")
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_WRITTEN = re.compile(r"(?<![<>&\d])>\s*(['\"]?)([^\s'\"<>|&;]+)\1")
_OPERATOR = re.compile(r"[();<>|&]+")
MAX_LINES, MAX_COMMANDS = 100_000, 1_000
#: Of one command, and of what a variable holds: words are split character by character.
MAX_COMMAND, MAX_VARIABLE = 100_000, 10_000
#: Name of a file -> (line, text) of each time that the script writes it.
Written = dict[str, list[tuple[int, str]]]
#: Name -> text; None for what only the shell knows.
Variables = Mapping[str, str | None]
#: Stands for a dollar sign that the shell leaves alone.
_LITERAL = "\0"


@dataclass
class _Command:
    """A gcloud command: where it begins, its text in one line, and what breaks it."""

    line: int
    text: str
    lines: list[tuple[int, str]]
    broken: list[tuple[int, str, str]] = field(default_factory=list)


def documents(file: str, text: str, folder: Path | None = None, at: At = Place) -> list[Document]:
    """The jobs and deployments that the script asks for, in their order.

    Args:
        file: What the script is called in findings.
        folder: Where the files of --config lie; None: none is read.
        at: Where the lines of the text stand.
    """
    every = text.replace("\r\n", "\n").split("\n")
    lines = every[:MAX_LINES]
    written = _written(lines)
    variables = _variables(lines)
    commands = list(islice(_commands(lines), MAX_COMMANDS + 1))
    found = [_document(file, command, variables, written, folder, at) for command in commands[:MAX_COMMANDS]]
    if len(commands) > MAX_COMMANDS:
        fault = Exhausted(f"The script has more than {MAX_COMMANDS:,} commands of gcloud.")
        found.append(Document(file, None, "", above=at(commands[-1].line).line - 1, fault=fault))
    elif len(every) > MAX_LINES and any(_GCLOUD.search(line) for line in every[MAX_LINES:]):
        fault = Exhausted(f"The script has more than {MAX_LINES:,} lines.")
        found.append(Document(file, None, "", above=at(MAX_LINES).line, fault=fault))
    return numbered([document for document in found if document is not None])


def _commands(lines: list[str]) -> Iterator[_Command]:
    number = 0
    while number < len(lines):
        first, line = number, lines[number]
        number += 1
        if line.lstrip().startswith("#") or not _GCLOUD.search(line):
            continue
        command = _Command(first + 1, "", [(first + 1, line)])
        while number < len(lines) and _goes_on(command, lines, number):
            if lines[number].lstrip().startswith("#") and _flag_follows(lines, number):
                why = "a line that is a comment ends the command: the shell takes no flag below it"
                command.broken.append((number + 1, f"The command is cut here: {why}.", "Move the comment above it."))
            command.lines.append((number + 1, lines[number]))
            number += 1
        command.text = " ".join(_bare(part) for _, part in command.lines)
        yield command


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


def _bare(line: str) -> str:
    """A line without its backslash, and without the comment behind it."""
    if line.lstrip().startswith("#"):
        return ""
    return _LATE_BACKSLASH.sub("", line.rstrip()).rstrip("\\")


def _variables(lines: list[str]) -> Variables:
    """What the script sets, and to what: a text where that is done once."""
    values: dict[str, str | None] = {}
    for line in lines:
        match = _ASSIGNED.match(line)
        if match:
            name, value = match.groups()
            values[name] = None if name in values else _text(value, name)
    for _ in range(5):
        values = {name: _short(value) for name, value in values.items()}
        values = {name: value and _filled(value, values)[:MAX_VARIABLE] for name, value in values.items()}
    return {name: _short(value) for name, value in values.items()}


def _short(value: str | None) -> str | None:
    """The text of a variable; None for one that is too long to be a flag's."""
    return value if value is not None and len(value) < MAX_VARIABLE else None


def _text(value: str, name: str) -> str | None:
    """What an assignment to a name sets; None for what the shell computes."""
    value = _filled(value, {}, name)  # GPU=${GPU:-NVIDIA_L4}: what was there before is the caller's
    if "$(" in value or "`" in value:
        return None
    try:
        words = shlex.split(value, comments=True)
    except ValueError:
        return None
    return words[0] if len(words) == 1 else "" if not words else None


def _filled(text: str, variables: Variables, only: str | None = None) -> str:
    """The text with its variables; `only`: of no other is the default taken."""

    def fill(match: re.Match[str]) -> str:
        name, operation = match.group(1) or match.group(3), match.group(2) or ""
        default = _DEFAULT.fullmatch(operation)
        value = variables.get(name)
        if name in variables or not default:
            return match.group() if value is None or (operation and not default) else value
        return default.group(1) if only in (None, name) else match.group()

    for _ in range(3 if "}}" in text else 1):  # ${A:-${B:-TEXT}}: from the inside
        text = text if len(text) > MAX_COMMAND else _VARIABLE.sub(fill, text)
    return text


def _written(lines: list[str]) -> Written:
    """What every `cat > FILE << EOF` writes, and on which line; and the lines of the texts are blanked."""
    texts: Written = {}
    last = {line.strip(): at for at, line in enumerate(lines)}
    number = 0
    while number < len(lines):
        match = None if lines[number].lstrip().startswith("#") else _HEREDOC.search(lines[number])
        name = _WRITTEN.search(lines[number]) if match else None
        number += 1
        if match is None or last.get(match.group(2), 0) < number:
            continue
        end = next(at for at in range(number, len(lines)) if lines[at].strip() == match.group(2))
        if name:
            expands = not match.group(1)
            body = "\n".join(lines[number:end])
            text = body if expands else body.replace("$", _LITERAL)
            texts.setdefault(name.group(2), []).append((number, text))
        lines[number:end] = [""] * (end - number)
        number = end + 1
    return texts


def _document(
    file: str,
    command: _Command,
    variables: Variables,
    written: Written,
    folder: Path | None,
    at: At,
) -> Document | None:
    broken = tuple(((str(at(line)),), text, fix) for line, text, fix in command.broken)
    places: dict[FieldPath, Place] = {(): at(command.line)}
    places |= {(str(at(line)),): at(line) for line, _, _ in command.broken}
    try:
        text = _filled(command.text, variables)
        if len(text) > MAX_COMMAND:
            raise Exhausted(f"The command has more than {MAX_COMMAND:,} characters.")
        words = _words(text)
        if not gcloud_line.recognises(words):
            return None
        data, _ = gcloud_line.data(words, lambda path: _config(path, command.line, written, variables, folder))
    except (RequestError, Exhausted) as error:
        line = at(command.line).line
        fault = error if isinstance(error, Exhausted) else Unreadable(f"{file}:{line}", str(error))
        return Document(file, None, "", above=line - 1, fault=fault, places=places, broken=broken)
    places |= {path: at(line) for path, line in _places(data, command).items()}
    return Document(file, _marked(data), "", places=places, broken=broken)


def _words(text: str) -> list[str]:
    """The words of the gcloud command in a line, up to where another command begins."""
    match = _GCLOUD.search(text)
    assert match
    command = command_line.shielded(text[match.start() :].lstrip(" \t;&|(`!"))
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, "#"
    words: list[str] = []
    try:
        for word in lexer:
            if _OPERATOR.fullmatch(word):
                break
            words.append(command_line.unshielded(word.rstrip("`")))
    except ValueError as error:
        raise RequestError(f"the command cannot be split into words: {error}.") from None
    return [word for word in words[:2] if word not in ("alpha", "beta")] + words[2:]


def _config(path: str, line: int, written: Written, variables: Variables, folder: Path | None) -> list[Document]:
    """The documents of the file of --config of the command at a line: one that the script writes, or one beside it."""
    if path in written:
        return parse(path, _filled(_standing(written[path], line), variables).replace(_LITERAL, "$"))
    if _VARIABLE.search(path):
        raise RequestError(f"--config={path}: which file that is, only the shell knows.")
    if folder is None:
        raise RequestError(f"--config={path}: no file is read for a script without a folder.")
    return load(folder / path)


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
    match = _VARIABLE.search(value) if isinstance(value, str) else None
    return Computed(f"the script gives {match.group()} no text of its own") if match else value
