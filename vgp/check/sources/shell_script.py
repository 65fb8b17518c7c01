"""Reads shell scripts as documents of their gcloud commands, without running anything.

Variables and arrays that the script sets once, to a text, are followed, and `${NAME:-TEXT}` is its default where the
script does not set NAME; what else they hold is not known. A file that the script writes with `cat > FILE << EOF` may
be that of --config.
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path

from vgp.base.documents.bounded_text import Exhausted, FieldPath, Unreadable
from vgp.base.documents.document import At, Document, Place, load, number_documents, parse
from vgp.base.documents.json_text import with_texts
from vgp.base.documents.node import Computed
from vgp.base.errors import RequestError
from vgp.base.text.figures import join_words
from vgp.check.sources import command_line, gcloud_line
from vgp.check.sources.shell_commands import (
    GCLOUD,
    LITERAL,
    POSTED_FIELDS,
    Command,
    Heredocs,
    blank_printed,
    commands_in_lines,
    commands_in_variables,
    may_ask,
    posts_request,
    take_heredocs,
)
from vgp.check.sources.shell_variables import (
    MAX_COMMAND,
    VARIABLE,
    Lines,
    Unclosed,
    Variables,
    fill_variables,
    find_assignments,
    read_variables,
    split,
)

MAX_LINES, MAX_COMMANDS = 100_000, 1_000
#: Characters behind options of curl that are split into words.
MAX_POSTED = 1_000_000
#: The option of curl before the text that it sends.
_POSTED = re.compile(r"\s(?:-d|--data(?:-raw|-binary)?|--json)(?:\s+|=)(?=\$?['\"]\s*\{)")
_FIX = (
    "Write the missing values into the script, or check the file of --config: this command's machines are not judged."
)


@dataclass(frozen=True)
class _Script:
    """The parts of a script that its commands refer to."""

    file: str
    written: Heredocs
    #: Names of the written files that a command's --config reads.
    configs: set[str]
    #: First line, from 0, and variables of each separate shell.
    shells: Sequence[int]
    variables: Sequence[Variables]
    folder: Path | None
    at: At

    def variables_at(self, line: int) -> Variables:
        """Returns the variables at a line, from 1."""
        return self.variables[bisect_right(self.shells, line - 1) - 1]


def documents(
    file: str, text: str, folder: Path | None = None, at: At = Place, shells: Sequence[int] = (0,)
) -> list[Document]:
    """Returns the jobs and deployments that the script requests, in their order.

    Args:
        file: Name of the script in findings.
        folder: Where the files of --config lie; None: none is read.
        at: Where the lines of the text stand.
        shells: The lines, from 0, at which a shell begins that has no variables of those above; the first is 0.
    """
    every = text.replace("\r\n", "\n").split("\n")
    lines = Lines(every[:MAX_LINES])
    written = take_heredocs(lines)
    try:
        assignments = list(find_assignments(lines))
        starts = [*shells, len(lines)]
        variables = [read_variables(lines, assignments, *part) for part in zip(starts, starts[1:], strict=False)]
        script = _Script(file, written, set(), shells, variables, folder, at)
        commands = [*islice(commands_in_variables(lines, assignments), MAX_COMMANDS + 1)]
        blank_printed(lines)
        commands += islice(commands_in_lines(lines, script.variables_at), MAX_COMMANDS + 1)
    except Exhausted as error:
        return [Document(file, None, "", fault=error, asks=may_ask(text))]
    commands.sort(key=lambda command: command.line)
    found = [_document(command, script) for command in commands[:MAX_COMMANDS]]
    found += _find_posted_requests(text, script)
    if len(commands) > MAX_COMMANDS:
        fault = Exhausted(f"The script has more than {MAX_COMMANDS:,} commands of gcloud.")
        found.append(Document(file, None, "", above=at(commands[MAX_COMMANDS].line).line - 1, fault=fault))
    elif len(every) > MAX_LINES and any(GCLOUD.search(line) for line in every[MAX_LINES:]):
        fault = Exhausted(f"The script has more than {MAX_LINES:,} lines.")
        found.append(Document(file, None, "", above=at(MAX_LINES).line, fault=fault))
    return number_documents([document for document in found if document is not None])


def _document(command: Command, script: _Script) -> Document | None:
    file, at, variables = script.file, script.at, script.variables_at(command.line)
    broken = tuple(((str(at(line)),), text, fix) for line, text, fix in command.broken)
    places: dict[FieldPath, Place] = {(): at(command.line)}
    places |= {(str(at(line)),): at(line) for line, _, _ in command.broken}
    try:
        text = fill_variables(variables.get(command.name) or command.text, variables)
        if len(text) > MAX_COMMAND:
            raise Exhausted(f"The command has more than {MAX_COMMAND:,} characters.")
        line = _parse_line(text)
        if not gcloud_line.recognises(line.command):
            return None
        unknown = gcloud_line.take_unknown(line)
        unknown += [f"${command.name}"] if command.name and variables.get(command.name) is None else []
        line.read = lambda path: _read_config(path, command.line, script)
        data, dropped = gcloud_line.data(line)
        if not gcloud_line.has_machines(data) and (unknown or command.name):
            added = join_words(unknown or [f"${command.name}"], "and")
            raise RequestError(f"no flag names machines, and only the shell knows the value of {added}.")
    except (RequestError, Exhausted) as error:
        fault = error if isinstance(error, Exhausted) else Unreadable(f"{file}:{at(command.line).line}", str(error))
        above = at(command.line).line - 1
        return Document(file, None, "", above=above, fault=fault, places=places, broken=broken, fix=_FIX)
    places |= {path: at(line) for path, line in _locate_flags(data, command).items()}
    texts = [f"Only the shell knows the value of {word}: it is not judged." for word in unknown]
    return Document(
        file, with_texts(data, mark_variables), "", places=places, broken=broken, unread=tuple(texts),
        dropped=tuple((note.field, note.became) for note in dropped),
    )  # fmt: skip


def _find_posted_requests(text: str, script: _Script) -> Iterator[Document]:
    """Yields the API's objects that curl sends: the text after -d, and files that the script writes."""
    if not posts_request(text):
        return
    bodies = [each for name, written in script.written.items() if name not in script.configs for each in written]
    left = MAX_POSTED
    for match in _POSTED.finditer(text):
        rest = text[match.end() :].lstrip()[:MAX_COMMAND]
        left -= len(rest)
        if left < 0:
            fault = Exhausted("The script sends more texts with curl than are followed.")
            yield Document(script.file, None, "", fault=fault)
            return
        try:
            words = split(rest).words
        except Unclosed:
            words = [rest]  # not JSON, which is reported
        bodies += [(text.count("\n", 0, match.end()), word) for word in words[:1]]
    for above, body in bodies:
        if not any(field in body for field in POSTED_FIELDS):
            continue
        filled = fill_variables(body.replace(LITERAL, "$"), script.variables_at(above + 1))
        for document in parse(script.file, filled):
            yield replace(document, above=script.at(above + 1).line - 1 + document.above)


def _parse_line(text: str) -> command_line.Line:
    """Returns the flags of a gcloud command; raises RequestError if it cannot be split into words."""
    try:
        words = split(text).words
    except Unclosed as error:
        if not gcloud_line.recognises(command_line.of_words(text.split()).command):
            return command_line.of_words([])
        raise RequestError(f"the command cannot be split into words: {error}.") from None
    return command_line.of_words(["gcloud" if words[0].startswith("$") else words[0], *words[1:]])


def _read_config(path: str, line: int, script: _Script) -> list[Document]:
    """Returns the documents of a command's --config file: one that the script writes, or one in its folder."""
    if path in script.written:
        script.configs.add(path)
        text = fill_variables(_find_places(script.written[path], line), script.variables_at(line))
        return parse(path, text.replace(LITERAL, "$"))
    if VARIABLE.search(path) or "$(" in path or "`" in path:
        raise RequestError(f"--config={path}: only the shell knows the path.")
    if script.folder is None:
        raise RequestError(f"--config={path}: files of a script without a folder are not read.")
    return load(_find_file(script.folder, path))


def _find_file(folder: Path, path: str) -> Path:
    """Returns the file next to the script, or in the nearest folder above it, up to the current one."""
    here, around = Path.cwd(), [folder.absolute(), *folder.absolute().parents]
    own = around[: around.index(here) + 1] if here in around else around[:1]
    return next(
        (parent / path for parent in own[1:] if not (folder / path).exists() and (parent / path).is_file()),
        folder / path,
    )


def _find_places(texts: list[tuple[int, str]], line: int) -> str:
    """Returns the text written last above the line; if all are below, as around a function, the first."""
    return texts[max(bisect_left(texts, line, key=itemgetter(0)) - 1, 0)][1]


def _locate_flags(data: object, command: Command) -> dict[tuple[str | int, ...], int]:
    """Returns the lines of the flags behind the parts of the job."""
    at: dict[tuple[str | int, ...], int] = {}
    pools = [number for number, line in command.lines for _ in re.findall(r"--worker-pool-spec\b", line)]
    for index, number in enumerate(pools):
        at["jobSpec", "workerPoolSpecs", index] = number
    for number, line in command.lines:
        if "--config" in line:
            at["jobSpec",] = at["trialJobSpec",] = at["trainingInput",] = number
    return at


def mark_variables(text: str) -> str:
    """Returns the text of a flag, marked as unknown if it contains a shell variable."""
    if "$(" in text or "`" in text:
        return Computed("the shell computes it", text)
    match = VARIABLE.search(text)
    return Computed(f"{match.group()} is set to no constant text", text) if match else text
