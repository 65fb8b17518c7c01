"""Converts a file, standard input or a command line into a job of Vertex AI that would run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from vgp.base.documents.bounded_text import format_path, read, standard_input
from vgp.base.documents.document import Document, parse
from vgp.base.documents.node import placeholder
from vgp.base.errors import RequestError
from vgp.base.text.figures import join_words
from vgp.check import legacy
from vgp.check.check_report import Report
from vgp.check.checker import check
from vgp.check.convert import conversion, legacy_job
from vgp.check.convert.conversion import Conversion, as_yaml
from vgp.check.convert.sdk_program import program, snake
from vgp.check.fix import Options, of_document
from vgp.check.judgement import Judgement
from vgp.check.sources import gcloud_line
from vgp.check.sources.command_line import IMAGE, Note

_VARIABLE = re.compile(r"\$(?:\{\w+\}|[A-Za-z_]\w*)")
#: Text before a command in a page, a notebook or a terminal: a prompt, variables, sudo.
_BEFORE = re.compile(r"\s*(?:[$!%]\s*|sudo\s+|[A-Za-z_]\w*=\S*\s+)*(?=gcloud\s)")
_SET = re.compile(r"(?:^|\s)([A-Za-z_]\w*)=")
#: Files that `check` reads and `convert` does not.
_PROGRAMS = (".py", ".ipynb", ".sh", ".bash", ".tf")


def source_document(source: str) -> tuple[Document, list[Note]]:
    """Returns the first document of a path, of standard input (`-`) or of a command, and notes on the rest of the
    source.

    Raises:
        RequestError: it is unreadable or empty.
    """
    text, name = source, "<command>"
    if _BEFORE.match(text) is None:
        is_stdin = source.strip() == "-"
        text, name = (standard_input(), "<stdin>") if is_stdin else (read(Path(source)), source)
    before = _BEFORE.match(text)
    if before is not None:
        data, lost = gcloud_line.data(text[before.end() :].strip())
        if data.get("jobSpec") == {}:
            raise RequestError("the command requests no machine. Add --worker-pool-spec, or --config with a file.")
        _refuse_variables(data)
        why = "it applies to that command only and is in no file"
        return Document(name, data, ""), [Note(each, why, True) for each in _SET.findall(before.group())] + lost
    if name.endswith(_PROGRAMS):
        raise RequestError(
            f"{source}: convert takes a gcloud line, JSON or YAML, and no programs. Pass the line itself, convert "
            "'gcloud ai custom-jobs create ...'; vgp check judges the program as it is."
        )
    documents = parse(name, text)
    if not documents:
        raise RequestError(f"{source}: the file is empty.")
    fault = documents[0].fault
    if fault:
        raise fault if isinstance(fault, RequestError) else RequestError(f"{source}: {fault}")
    return documents[0], _lost(documents)


def _refuse_variables(data: object) -> None:
    """Raises RequestError if shell variables stand where the job needs a value."""
    names = list(dict.fromkeys(_variables(data)))
    if names:
        raise RequestError(
            f"Only your shell knows the value of {join_words(names, 'and')}. Write the value, or let the shell insert "
            'it: pass the line in double quotes, "gcloud ...".'
        )


def _variables(value: object) -> Iterator[str]:
    """Yields the shell variables in the data, except those that a container's command resolves itself."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from () if key in ("args", "command", "env") else _variables(item)
    elif isinstance(value, list):
        for item in value:
            yield from _variables(item)
    elif isinstance(value, str):
        yield from _VARIABLE.findall(value)


def _lost(documents: list[Document]) -> list[Note]:
    lost = [Note(format_path(path), "given twice; the last value is used", True) for path in documents[0].repeated]
    if len(documents) > 1:
        text = f"{len(documents) - 1} more in the file: only the first is converted"
        lost.append(Note("documents", text, True))
    return lost


def replace_machines(conversion: Conversion, *, as_of: date | None = None) -> None:
    """Writes the nearest machines into the job, with a note for every worker pool that changes."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    regions = [conversion.region] if conversion.region else []
    text, _ = of_document(document, Options(regions, as_of=as_of))
    if text == document.text:
        return
    before = _machines(conversion)
    conversion.config = parse("config.yaml", text)[0].data
    for index, (old, new) in enumerate(zip(before, _machines(conversion), strict=True)):
        if old != new:
            conversion.became(f"workerPoolSpecs[{index}]", f"{new}, the nearest to {old}, which is not available")


def _machines(conversion: Conversion) -> list[str]:
    """Returns each pool's machine, GPUs and disk in words."""
    pools = conversion.job.get("workerPoolSpecs")
    return [_words(pool) for pool in pools] if isinstance(pools, list) else []


def _words(pool: object) -> str:
    if not isinstance(pool, dict):
        return str(pool)
    values = [value for part in ("machineSpec", "diskSpec") for value in (pool.get(part) or {}).values()]
    return " ".join(str(value) for value in values if not isinstance(value, dict | list))


@dataclass(frozen=True)
class Result:
    """A conversion in all its forms, which are empty if the job would not run."""

    conversion: Conversion
    report: Report
    config: str = ""
    worker_pool_specs: Any = None
    sdk: str = ""
    #: Notes on fields that the SDK cannot express, or adds.
    sdk_notes: tuple[Note, ...] = ()

    @property
    def failed(self) -> bool:
        return self.report.exit_code != 0


def result(conversion: Conversion, *, as_of: date | None = None) -> Result:
    """Returns the checked conversion in every form."""
    report = checked(conversion, as_of=as_of)
    if report.exit_code:
        return Result(conversion, report)
    sdk, notes = program(conversion)
    pools = snake(conversion.job["workerPoolSpecs"])
    return Result(conversion, report, as_yaml(conversion.config), pools, sdk, tuple(notes))


def converted_source(text: str, *, as_of: date | None = None) -> Conversion:
    """Converts a file, standard input (`-`) or a gcloud line into a Vertex AI job; raises RequestError."""
    document, notes = source_document(text)
    conversion = converted(document, as_of=as_of)
    conversion.notes[:0] = notes
    return conversion


def converted(document: Document, *, as_of: date | None = None) -> Conversion:
    """Converts the document into a Vertex AI job.

    Raises:
        RequestError: it is neither a legacy job nor a Vertex AI job.
    """
    data = document.data
    if legacy.recognises(data):
        return legacy_job.conversion(document, Judgement(document, as_of or date.today()))
    if conversion.recognises(data):
        return conversion.conversion(data)
    raise RequestError(
        f"{document.file}: there is nothing to convert: no trainingInput, no custom or tuning job, no worker pools, "
        "no gcloud line."
    )


def checked(conversion: Conversion, *, as_of: date | None = None) -> Report:
    """Returns the report of `vgp check` on the result, with the unreadable fields of the source."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    is_known = conversion.region and not placeholder(conversion.region)
    report = check([document], regions=[str(conversion.region)] if is_known else [], as_of=as_of)
    findings = [
        finding for finding in report.findings if not finding.message.startswith(f"imageUri is not checkable: {IMAGE} ")
    ]
    report.findings = [*(finding for finding in conversion.findings if finding.rule != "GPU027"), *findings]
    return report
