"""The words of a gcloud command line: its flags with their values, as gcloud parses them, and notes on each."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from vgp.base.documents.document import Document, load
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import placeholder
from vgp.base.errors import RequestError
from vgp.base.text.nearest import nearest
from vgp.check.sources import shell_variables

#: Placeholder for the image of a request that names none.
IMAGE = "IMAGE"


@dataclass(frozen=True)
class Note:
    """A note on one field of the input."""

    field: str
    became: str
    dropped: bool = False


#: Flags that take no value.
_BOOLEAN = (
    "async", "no-async", "stream-logs", "quiet", "enable-web-access", "no-enable-web-access",
    "enable-dashboard-access", "no-enable-dashboard-access", "user-output-enabled", "no-user-output-enabled",
    "log-http", "no-log-http",
)  # fmt: skip
#: Flags whose repeated values gcloud combines.
REPEATED = ("args", "command", "env-vars", "python-package-uris", "packages", "worker-pool-spec", "labels")
_OWN = "it applies to the command, not to the job"
#: Flags without a field in a job.
DROPPED = {
    "async": "gcloud's create never waits for a job, nor does the SDK's submit", "no-async": _OWN, "stream-logs": _OWN,
    "quiet": _OWN, "format": _OWN, "verbosity": _OWN, "user-output-enabled": _OWN, "no-user-output-enabled": _OWN,
    "account": "the account that runs the command starts the job", "configuration": _OWN,
    "impersonate-service-account": "the account that runs the command starts the job", "billing-project": _OWN,
    "log-http": _OWN, "no-log-http": _OWN, "trace-token": _OWN, "flatten": _OWN, "access-token-file": _OWN,
    "staging-bucket": "gcloud uploads packages there; upload them yourself, and use their gs:// addresses",
}  # fmt: skip


class FlagError(RequestError):
    """The line is not understood, or one of its flags has a wrong value."""


@dataclass
class Line:
    """The words of a command: its flags in their order, and the words after a lone `--`."""

    command: list[str]
    flags: list[tuple[str, str]]
    after: list[str]
    dropped: list[Note] = field(default_factory=list)
    #: Returns the documents of the file of --config.
    read: Callable[[str], list[Document]] = lambda path: load(Path(path))

    def values(self, name: str) -> list[str]:
        """Returns every value of a flag."""
        return [value for flag, value in self.flags if flag == name]

    def value(self, name: str) -> str | None:
        """Returns the last value of a flag, which gcloud uses."""
        return next(reversed(self.values(name)), None)

    def read_fields(self, names: Mapping[str, str]) -> JsonObject:
        """Returns the flags of these names that have a value, as fields of an object."""
        return {key: self.value(flag) for flag, key in names.items() if self.value(flag)}

    def labels(self) -> dict[str, str]:
        return {key: value for text in self.values("labels") for key, value in pairs(text, "labels").items()}

    def items(self, name: str) -> list[str]:
        """Returns the items of all values of a flag, which gcloud combines."""
        return [item for value in self.values(name) for item in split(value)]

    def note_dropped(self, flag: str, why: str) -> None:
        self.dropped.append(Note(f"--{flag}", why, dropped=True))

    def read_switch(self, name: str) -> bool | None:
        """Whether the last of --name and --no-name is on; None without either."""
        values = [(flag, value) for flag, value in self.flags if flag in (name, f"no-{name}")]
        if not values:
            return None
        flag, value = values[-1]
        return flag == name and value.lower() not in ("false", "no", "0")

    def kms_key(self) -> str | None:
        """Returns --kms-key, completed with the parts of its name from other flags."""
        key = self.value("kms-key")
        if key is None or "/" in key:
            return key
        parts = [
            ("projects", self.value("kms-project") or self.value("project") or "PROJECT"),
            ("locations", self.value("kms-location") or self.value("region") or "LOCATION"),
            ("keyRings", self.value("kms-keyring") or "KEYRING"),
            ("cryptoKeys", key),
        ]
        return "/".join(word for part in parts for word in part)

    def config(self) -> JsonObject:
        """Returns the object in the file of --config, which flags override.

        Raises:
            RequestError: the file is unreadable, or does not hold an object.
        """
        path = self.value("config")
        if path is None:
            return {}
        if "://" in path:
            raise FlagError(
                f"--config={path}: gcloud reads local files only. Copy the file to this machine, and pass its path."
            )
        documents = self.read(path)
        if len(documents) == 1 and documents[0].fault:
            raise FlagError(f"--config={path}: {documents[0].fault}")
        if len(documents) != 1 or not isinstance(documents[0].data, dict):
            raise FlagError(f"--config={path}: the file must hold one object.")
        data: JsonObject = documents[0].data
        return data


def parse(line: str) -> Line:
    """Parses a command line. Raises FlagError if it cannot be split into words, or has more than one command."""
    joined = re.sub(r"\\[ \t]+\n", " \\\n", line.replace("\r\n", "\n"))
    try:
        words = shell_variables.split(joined)
    except shell_variables.Unclosed as error:
        raise FlagError(f"the line cannot be split into words: {error}.") from None
    rest = words.redirection or joined[words.end :].strip()
    if rest:
        raise FlagError(f"pass one command only: remove '{rest[:100]}'.")
    return of_words(words.words)


def of_words(words: list[str]) -> Line:
    """Parses the words that a shell makes of a line; raises FlagError for a wrong flag."""
    at = words.index("--") if "--" in words else len(words)
    return Line([], [], words[at + 1 :]) if not words else _read(words[:at], words[at + 1 :])


def _read(words: list[str], after: list[str]) -> Line:
    command: list[str] = []
    flags = []
    waiting = list(reversed(words))
    while waiting:
        word = waiting.pop()
        if not word.startswith("-"):
            command.append(word)
            continue
        name, equals, value = {"-q": "--quiet"}.get(word, word).lstrip("-").partition("=")
        if not equals and name not in _BOOLEAN and waiting and not waiting[-1].startswith("--"):
            value = waiting.pop()
        flags.append((name, value))
    return Line(command, flags, after)


def refuse_others(line: Line, known: set[str], words: int) -> None:
    """Raises FlagError for an unknown flag, and for a word that belongs to no flag."""
    for name, _ in line.flags:
        if name not in known | set(DROPPED):
            near = nearest(name, sorted(known), 0.8)
            meant = f" Did you mean --{near}?" if near else ""
            raise FlagError(f"--{name} is not a flag that can be converted.{meant}")
    if len(line.command) > words:
        raise FlagError(f"'{line.command[words]}' belongs to no flag of the command.")


def split(value: str) -> list[str]:
    """Splits a,b,c; also with another delimiter: ^;^a;b.
    https://cloud.google.com/sdk/gcloud/reference/topic/escaping"""
    match = re.match(r"\^([^^]+)\^", value)
    delimiter, rest = (match.group(1), value[match.end() :]) if match else (",", value)
    return rest.split(delimiter) if rest else []


def pairs(value: str, flag: str) -> dict[str, str]:
    """Parses key=value,key=value."""
    items = [item.partition("=") for item in split(value) if item]
    unknown = next((key for key, equals, _ in items if not equals and key.startswith(("$", "`"))), None)
    if unknown:
        raise FlagError(f"--{flag}={value}: only the shell knows the value of {unknown}.")
    if not items or not all(key and equals for key, equals, _ in items):
        raise FlagError(f"--{flag}={value}: write key=value,key=value.")
    values = {key: text for key, _, text in items}
    if len(values) < len(items):
        raise FlagError(f"--{flag}={value}: a key is given twice.")
    return values


def parse_count(value: str, flag: str) -> int | str:
    """Returns a whole number of 0 or more; a placeholder such as a shell variable stays text."""
    if value.startswith("$") or placeholder(value):
        return value
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise FlagError(f"--{flag}: '{value}' is not a whole number.")
    return int(value)


def accelerator(name: str) -> str:
    """Returns NVIDIA_TESLA_T4 for nvidia-tesla-t4."""
    return name.upper().replace("-", "_")
