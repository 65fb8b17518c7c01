"""The launcher's options and command, whole numbers in variables, and their errors."""

from __future__ import annotations

import argparse
import contextlib
import os
import re
from collections.abc import Mapping


class Mistake(Exception):
    """An error in the request, reported in one sentence before anything starts."""


def log(text: str) -> None:
    with contextlib.suppress(OSError):  # stderr is closed
        os.write(2, sentence(text))


def sentence(text: str) -> bytes:
    return f"launch: {text}\n".encode("utf-8", "backslashreplace")


def parse(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """Parses the options, and the command after `--`."""
    parser = argparse.ArgumentParser(prog="launch", allow_abbrev=False)
    parser.add_argument("--launch", choices=("torchrun", "tensorflow", "jax", "plain"), default="plain")
    for name in ("data", "model", "checkpoints"):
        parser.add_argument("--" + name, required=True)
    for name in ("pins", "key"):
        parser.add_argument("--" + name, default="")
    for name in ("number", "text"):
        parser.add_argument("--" + name, action="append", default=[])
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options, command = parser.parse_args(arguments[:end]), arguments[end + 1 :]
    if not command or not command[0]:
        parser.error("the command is missing: write it after --")
    return options, command


def parameters(options: argparse.Namespace) -> dict[str, str]:
    """Returns the step's parameters by name; whole numbers without .0."""
    texts, numbers = (dict(pair.split("=", 1) for pair in pairs) for pairs in (options.text, options.number))
    return {**texts, **{name: trim_zero(text) for name, text in numbers.items()}}


def fill(words: list[str], values: Mapping[str, object]) -> list[str]:
    """Replaces each {name} in the words by its value; other braces stay."""
    pattern = re.compile("{(" + "|".join(map(re.escape, values)) + ")}")
    return [pattern.sub(lambda match: str(values[match.group(1)]), word) for word in words] if values else words


def trim_zero(text: str) -> str:
    """Returns 3 for 3.0, because JSON has no whole numbers and a script may require them."""
    try:
        return str(int(float(text))) if float(text).is_integer() and abs(float(text)) < 1e15 else text
    except ValueError:
        return text


def integer(environment: Mapping[str, str], name: str, default: int, least: int) -> int:
    """Returns the whole number in a variable."""
    text = environment.get(name) or str(default)
    if not re.fullmatch("[0-9]{1,4}", text) or int(text) < least:
        raise Mistake(f"{name}={text!r}: write a whole number of at least {least}.")
    return int(text)
