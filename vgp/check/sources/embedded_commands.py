"""Reads gcloud commands in files of other kinds: CI workflows, Cloud Build, Makefiles and calls in Python programs."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

from vgp.base.documents.bounded_text import Exhausted, FieldPath
from vgp.base.documents.document import At, Document, Place
from vgp.check.sources import gcloud_line, shell_commands, shell_script
from vgp.check.sources.shell_script import MAX_COMMANDS

#: The end of a key in YAML whose text begins on the next line.
_BLOCK = re.compile(r"[|>][-+\d]*\s*(?:#.*)?$")
#: The fence of a block in Markdown, and its language.
_FENCE = re.compile(r"\s*(`{3,}|~{3,})\s*\{?\.?([\w-]*)")
_SHELL_BLOCKS = {"bash", "sh", "shell", "zsh", "console", "shell-session", ""}
_MAKE_VARIABLE = re.compile(r"\$\((\w+)\)")
_MAKE_ASSIGNMENT = re.compile(r"^(\w+)[ \t]*[:?]?:?=[ \t]*(.*)$")
_LATE_CONTINUATION = re.compile(r"[ \t][\^`][ \t\r]*$", re.MULTILINE)


def may_ask(text: str) -> bool:
    """Whether a text has the words of a gcloud command that requests machines."""
    return "gcloud" in text and shell_commands.may_ask(text)


def documents(document: Document, folder: Path | None) -> list[Document]:
    """Returns the requests of the commands in the texts and word lists of a document."""
    if document.fault is not None or not may_ask(document.text):
        return []
    commands = list(islice(_find_commands(document.data, ()), MAX_COMMANDS + 1))
    if len(commands) > MAX_COMMANDS:
        return [replace(document, fault=Exhausted(f"The document has more than {MAX_COMMANDS:,} commands of gcloud."))]
    starts = document.lines([path for path, _ in commands])
    lines = document.text.split("\n")
    requests = []
    for path, script in commands:
        first = starts[path]
        is_block = "\n" in script and _BLOCK.search(lines[first - document.above - 1]) is not None
        requests += shell_script.documents(document.file, script, folder, _after(first + is_block - 1, "\n" in script))
    return requests


def _after(above: int, has_lines: bool) -> At:
    return lambda line: Place(above + (line if has_lines else 1))


def _find_commands(value: Any, path: FieldPath) -> Iterator[tuple[FieldPath, str]]:
    """Yields path and shell text of each command in a tree of values."""
    if isinstance(value, str) and may_ask(value):
        yield path, value
    elif isinstance(value, list) and (line := join_words(value)):
        yield path, line
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _find_commands(item, (*path, key))


def join_words(words: list[Any]) -> str:
    """Returns the words of a gcloud command, with or without its first word, as a line; "" for other lists."""
    if not all(isinstance(word, str) for word in words):
        return ""
    command = words if words[:1] == ["gcloud"] else ["gcloud", *words]
    plain = [word for word in command if not word.startswith("-")]
    return shlex.join(command) if gcloud_line.recognises(plain) else ""


def read_makefile(text: str) -> str:
    """Returns the recipes of a Makefile as a shell script with the same lines."""
    lines = []
    for line in text.split("\n"):
        match = _MAKE_ASSIGNMENT.match(line)
        line = f"{match.group(1)}={shlex.quote(match.group(2).strip())}" if match else line.lstrip("\t@-")
        lines.append(_MAKE_VARIABLE.sub(r"${\1}", line).replace("$$", "$"))
    return "\n".join(lines)


def read_windows_script(text: str) -> str:
    """Returns a script of cmd or PowerShell with the shell's sign for continued lines."""
    return _LATE_CONTINUATION.sub(r" \\", text)


def read_markdown(text: str) -> str:
    """Returns the shell blocks of a page as one script with the same lines."""
    lines, fence, is_shell = [], "", False
    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and (not fence or mark[1].startswith(fence) and not mark[2]):
            fence, is_shell = ("", False) if fence else (mark[1], mark[2] in _SHELL_BLOCKS)
            line = ""
        lines.append(line.strip().removeprefix("$ ") if is_shell else "")
    return "\n".join(lines)
