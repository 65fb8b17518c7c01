"""Checks specs of any kind and author against the catalog: files in, a report out.

from vgp.check.checker import check
report = check(["build/training.json"], regions=["us-central1"])
report.errors
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import date
from pathlib import Path

from vgp.base.documents import bounded_text, toml_text
from vgp.base.documents.bounded_text import Unreadable, read, standard_input
from vgp.base.documents.document import Document
from vgp.base.documents.node import Node
from vgp.base.documents.toml_text import settings_file
from vgp.base.errors import RequestError
from vgp.check import document_kinds
from vgp.check.check_report import Report
from vgp.check.document_kinds import is_checked, is_program, load, parse
from vgp.check.judgement import Judgement
from vgp.machines.placement.machine_rules import rule
from vgp.machines.placement.provisioning import STRATEGIES, strategy_known

#: Bytes of an oversized or binary file that are searched for the words of a request.
_CHUNK, _MOST_CHUNKS = 1_000_000, 200


def check(
    inputs: Iterable[str | Path | Document],
    *,
    regions: Sequence[str] = (),
    strategy: str | None = None,
    ignore: Sequence[str] = (),
    as_of: date | None = None,
    skip_others: bool = False,
) -> Report:
    """Checks files, folders (their specs, programs, scripts and notebooks) and documents.

    Args:
        inputs: What to check; the text `-` is standard input.
        regions: The specs must work in each of these; empty: in at least one region.
        strategy: Strategy of jobs that name none (standard, spot, flex_start).
        ignore: Ids or names of rules to leave out.
        as_of: Day on which retirements are judged; today by default.
        skip_others: Skips files that request no machine, even if you name them.

    Raises:
        RequestError: an unknown rule or strategy.
    """
    ignored = _ids(ignore)
    strategy, as_of = _check_strategy(strategy), as_of or date.today()
    report = Report()
    for document in _read_documents(inputs, report, skip_others):
        judgement = Judgement(document, as_of, tuple(regions), strategy)
        try:
            _judge_within_budget(judgement)
        except Unreadable as error:
            if document_kinds.recognises(document):
                _report_unreadable(judgement, error)
            else:
                report.unreadable.append(str(error))
        report.findings += [finding for finding in judgement.findings if finding.rule not in ignored]
        report.steps += judgement.steps
        report.by_file.setdefault(document.file, []).extend(judgement.steps)
    return report


def _report_unreadable(judgement: Judgement, error: Unreadable) -> None:
    """Reports a request that is recognised but unreadable; no mode of the check skips it."""
    document = judgement.document
    fix = document.fix or "Correct the file, and check it again."
    judgement.add(
        document.default_step, Node(None, error.path), "GPU031", f"This request is not judged: {error.reason}", fix
    )


def _judge_within_budget(judgement: Judgement) -> None:
    """Judges the document within its budgets; exceeding one is a finding of this document alone."""
    document = judgement.document
    whole, step = Node(None), document.default_step
    try:
        with bounded_text.document() as searches, judgement.report_exceptions(step, whole):
            for path, text, fix in document.broken:
                judgement.add(step, Node(None, path), "GPU034", text, fix)
            for path, text in document.notes:
                judgement.add(Node(document.data).get("displayName").text() or step, Node(None, path), "GPU024", text)
            if document.fault is not None:
                raise document.fault
            for path in document.repeated:
                text = f"The key '{path[-1]}' is given twice: strict parsers refuse it, others use the last value."
                judgement.add(step, Node(None, path), "GPU025", text, "Keep one of them.")
            for text in document.unread:
                judgement.add(step, whole, "GPU024", text, "Name the flags in the script.", "warning")
            document_kinds.judge(judgement)
    except bounded_text.Exhausted as error:
        fix = "Split the file, or write it with fewer aliases and less nesting."
        judgement.add(step, whole, "GPU031", f"{error} The rest is not judged.", fix)
        return
    if searches.left < 0:
        text = f"The document needs more than {bounded_text.SIMILAR_NAMES} searches for similar names."
        judgement.add(
            step, whole, "GPU031", f"{text} The remaining findings propose no similar names.", severity="note"
        )


def _ids(names: Sequence[str]) -> set[str]:
    try:
        return {rule(name).id for name in names}
    except ValueError as error:
        raise RequestError(str(error)) from None


def _check_strategy(name: str | None) -> str | None:
    if name is None:
        return None
    upper = name.upper().replace("-", "_")
    if upper not in STRATEGIES:
        problem = strategy_known(upper)[0]
        raise RequestError(f"{problem.message} {problem.suggestion}")
    return upper


def read_project_regions(file: Path | None = None) -> list[str]:
    """Returns the region of pipelines.toml, if there is one. Mistakes in its other settings are ignored."""
    try:
        file = file or settings_file()
        region = toml_text.load(file).get("region") if file else None
    except RequestError:
        return []
    return [region] if isinstance(region, str) else []


def _read_documents(inputs: Iterable[str | Path | Document], report: Report, skip_others: bool) -> Iterator[Document]:
    for item in inputs:
        if isinstance(item, Document):
            yield item
        elif item == "-":
            yield from _read_standard_input()
        else:
            for path in files(Path(item), report):
                named = path == Path(item) and not skip_others
                if named or not _lacks_request(path):
                    yield from _read_file(path, named)


def _read_file(path: Path, named: bool) -> list[Document]:
    """Returns the documents of a file. Unless the file was named, only requests count. An unreadable file gives its
    fault."""
    try:
        documents = load(path)
    except Unreadable as error:
        return [Document(str(path), None, "", fault=error, asks=_has_words(path))]
    requests = [document for document in documents if document_kinds.recognises(document)]
    if requests or not named:  # a folder may hold other YAML; a named file is meant to be judged
        documents = requests
    if any(document.fault for document in documents) and _lacks_request(path):
        documents = [replace(document, asks=False) for document in documents]
    return documents if documents or not named else _judge_empty_file(str(path))


def _read_standard_input() -> list[Document]:
    try:
        text = standard_input()
    except Unreadable as error:
        return [Document("<stdin>", None, "", fault=error, asks=False)]
    asks = document_kinds.may_ask("<stdin>", text)
    return [replace(document, asks=document.asks and asks) for document in parse("<stdin>", text)] or _judge_empty_file(
        "<stdin>"
    )


def _judge_empty_file(file: str) -> list[Document]:
    """Returns the document that stands for an empty file; empty programs give none, because they need not request
    machines."""
    fault = Unreadable(file, "the file is empty")
    return [] if is_program(file) else [Document(file, None, "", fault=fault, asks=False)]


def _lacks_request(path: Path) -> bool:
    """Whether an existing file has none of the words of a request; a quick test before megabytes are parsed."""
    if not (os.path.isfile(path) and os.access(path, os.R_OK)):
        return False
    try:
        return not document_kinds.may_ask(str(path), read(path))
    except Unreadable:  # binary, or larger than any request
        return not _has_words(path)


def _has_words(path: Path) -> bool:
    """Whether the bytes of a file contain a word of a request, in any encoding."""
    tail = ""
    if not os.path.isfile(path):
        return False
    try:
        with path.open("rb") as file:
            for _ in range(_MOST_CHUNKS):
                chunk = file.read(_CHUNK)
                text = tail + chunk.replace(b"\0", b"").decode("latin-1")
                if not chunk or document_kinds.may_ask(str(path), text):
                    return bool(chunk)
                tail = text[-100:]
    except OSError:
        pass
    return False


def files(path: Path, report: Report) -> list[Path]:
    """Returns the file itself, or the files of a folder with a known name; links to folders are not followed."""
    if not os.path.isdir(path):
        return [path]

    def note_unreadable(error: OSError) -> None:
        report.unreadable.append(str(Unreadable(str(error.filename), error.strerror or str(error))))

    paths = [Path(folder, name) for folder, _, names in os.walk(path, onerror=note_unreadable) for name in names]
    known = (file for file in paths if is_checked(file.name))
    # A broken link is reported as unreadable.
    return sorted(file for file in known if os.path.isfile(file) or os.path.islink(file) and not os.path.exists(file))
