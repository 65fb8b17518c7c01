"""Checks specs of any kind and author against the catalog: files in, a report out.

from vgp.check.check import check
report = check(["build/training.json"], regions=["us-central1"])
report.errors
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from vgp.check import api_object, kfp_spec, legacy
from vgp.check.finding import Finding, Judgement, StepRow
from vgp.documents import budget
from vgp.documents.document import Document, Unreadable, load
from vgp.documents.node import Node
from vgp.placement.provisioning import STRATEGIES, strategy_known
from vgp.placement.rules import rule

SUFFIXES = (".json", ".yaml", ".yml")


@dataclass
class Report:
    """What was found. `unreadable` holds a line for each file or document that could not be judged."""

    findings: list[Finding] = field(default_factory=list)
    steps: list[StepRow] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    @property
    def errors(self) -> int:
        return sum(finding.severity == "error" for finding in self.findings)

    @property
    def warnings(self) -> int:
        return sum(finding.severity == "warning" for finding in self.findings)

    @property
    def exit_code(self) -> int:
        """0 no error, 1 errors, 2 something could not be read, or not judged to its end."""
        partly = any(finding.rule == "GPU031" and finding.severity == "error" for finding in self.findings)
        return 2 if self.unreadable or partly else 1 if self.errors else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "findings": [finding.as_json() for finding in self.findings],
            "steps": [row.as_json() for row in self.steps],
            "unreadable": self.unreadable,
            "errors": self.errors,
            "warnings": self.warnings,
        }


def check(
    inputs: Iterable[str | Path | Document],
    *,
    regions: Sequence[str] = (),
    strategy: str | None = None,
    ignore: Sequence[str] = (),
    as_of: date | None = None,
) -> Report:
    """Checks files, folders (their .json, .yaml and .yml) and documents.

    Args:
        inputs: What to check; a path `-` is not special here.
        regions: The specs must work in each of these; empty: somewhere.
        strategy: Taken where a job names none (standard, spot, flex_start).
        ignore: Ids or names of rules that are left out.
        as_of: Day on which retirements are judged; today by default.

    Raises:
        ValueError: an unknown rule or strategy.
    """
    ignored = {rule(name).id for name in ignore}
    options = {"as_of": as_of or date.today(), "regions": tuple(regions), "strategy": _strategy(strategy)}
    report = Report()
    for document in _documents(inputs, report):
        judgement = Judgement(document, **options)  # type: ignore[arg-type]
        try:
            _within_budget(judgement)
        except Unreadable as error:
            report.unreadable.append(str(error))
        report.findings += [finding for finding in judgement.findings if finding.rule not in ignored]
        report.steps += judgement.steps
    return report


def _within_budget(judgement: Judgement) -> None:
    """Judges the document as far as its budgets go; what ends the judgement is a finding of this document alone."""
    document = judgement.document
    whole, step = Node(None), document.default_step
    try:
        with budget.document() as searches, judgement.guarded(step, whole):
            if document.fault is not None:
                raise document.fault
            for path in document.repeated:
                text = f"The key '{path[-1]}' is given twice: strict readers refuse that, others take the last."
                judgement.say(step, Node(None, path), "GPU025", text, "Keep one of them.")
            _judge(judgement)
    except budget.Exhausted as error:
        fix = "Split the file, or write it with fewer aliases and less nesting."
        judgement.say(step, whole, "GPU031", f"{error} What follows is not judged.", fix)
        return
    if searches.left < 0:
        text = f"The document needs more than {budget.SIMILAR_NAMES} searches for similar names."
        text += " From there on nothing similar is proposed."
        judgement.say(step, whole, "GPU031", text, severity="note")


def _strategy(name: str | None) -> str | None:
    if name is None:
        return None
    upper = name.upper().replace("-", "_")
    if upper not in STRATEGIES:
        problem = strategy_known(upper)[0]
        raise ValueError(f"{problem.message} {problem.suggestion}")
    return upper


def _documents(inputs: Iterable[str | Path | Document], report: Report) -> Iterator[Document]:
    for given in inputs:
        if isinstance(given, Document):
            yield given
            continue
        for path in _files(Path(given), report):
            try:
                documents = load(path)
                if not documents:
                    raise Unreadable(str(path), "the file is empty")
            except Unreadable as error:
                report.unreadable.append(str(error))
                continue
            # A folder may hold other YAML; a file that was named is meant.
            yield from documents if path == Path(given) else filter(meant, documents)


def _files(path: Path, report: Report) -> list[Path]:
    """The file itself, or the files of our suffixes in the folder; links to folders are not followed."""
    if not os.path.isdir(path):
        return [path]

    def unread(error: OSError) -> None:
        report.unreadable.append(str(Unreadable(str(error.filename), error.strerror or str(error))))

    files = [Path(folder, name) for folder, _, names in os.walk(path, onerror=unread) for name in names]
    return sorted(file for file in files if file.suffix in SUFFIXES and os.path.isfile(file))


def meant(document: Document) -> bool:
    """Whether the document is of a kind that can be judged, or may be: nobody knows what it says."""
    data = document.data
    kinds = (kfp_spec.recognises, legacy.recognises, api_object.telling_field, api_object.is_pool_list)
    return document.fault is not None or any(bool(kind(data)) for kind in kinds)


def _judge(judgement: Judgement) -> None:
    """Finds the kind by content."""
    document = judgement.document
    data, node = document.data, Node(document.data)
    if isinstance(data, dict) and set(data) == {"platforms"}:
        return  # kfp's second document: settings of the Kubernetes backend
    if kfp_spec.recognises(data):
        kfp_spec.judge(judgement)
    elif legacy.recognises(data):
        legacy.judge(judgement)
    elif api_object.telling_field(data):
        api_object.judge(judgement, "", node)
    elif api_object.is_pool_list(data):
        api_object.judge_pools(judgement, "", node)
    elif isinstance(data, list) and any(api_object.telling_field(item) for item in data):
        for index, item in enumerate(node.items()):
            step = item.get("displayName").text() or f"job[{index}]"
            with judgement.guarded(step, item):
                api_object.judge(judgement, step, item)
    else:
        raise Unreadable(document.file, _why_not(data))


def _why_not(data: Any) -> str:
    kinds = (
        "a compiled pipeline, a custom job, worker pools, a tuning, prediction or deployment request, or trainingInput"
    )
    if isinstance(data, dict) and str(data.get("apiVersion", "")).startswith("argoproj.io"):
        return "an Argo workflow of KFP 1; Vertex AI runs pipelines compiled by KFP 2"
    if isinstance(data, dict):
        keys = ", ".join(str(key)[:40] for key in list(data)[:8]) or "none"
        return f"nothing that can be judged: its keys are {keys}. Wanted is {kinds}"
    return f"nothing that can be judged: it is {type(data).__name__}. Wanted is {kinds}"
