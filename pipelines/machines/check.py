"""Checks specs of any kind and author against the catalog: files in, a report out.

from pipelines.machines.check import check
report = check(["build/training.json"], regions=["us-central1"])
report.errors
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from pipelines.machines import api_object, kfp_spec, legacy
from pipelines.machines.documents import Document, Unreadable, load
from pipelines.machines.finding import Finding, Judgement, StepRow
from pipelines.machines.node import Node
from pipelines.machines.provisioning import STRATEGIES, strategy_known
from pipelines.machines.rules import rule

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
        """0 no error, 1 errors, 2 something could not be read."""
        return 2 if self.unreadable else 1 if self.errors else 0

    def as_json(self) -> dict[str, Any]:
        return {
            "findings": [finding.as_json() for finding in self.findings],
            "steps": [row.as_json() for row in self.steps],
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
            _judge(judgement)
        except Unreadable as error:
            report.unreadable.append(str(error))
        report.findings += [finding for finding in judgement.findings if finding.rule not in ignored]
        report.steps += judgement.steps
    return report


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
        for path in _files(Path(given)):
            try:
                documents = load(path)
            except Unreadable as error:
                report.unreadable.append(str(error))
                continue
            if not documents:
                report.unreadable.append(f"{path}: the file is empty")
            # A folder may hold other YAML; a file that was named is meant.
            yield from documents if path == Path(given) else filter(recognised, documents)


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.rglob("*") if each.suffix in SUFFIXES and each.is_file())


def recognised(document: Document) -> bool:
    """Whether the document is of a kind that can be judged."""
    data = document.data
    kinds = (kfp_spec.recognises, legacy.recognises, api_object.telling_field, api_object.is_pool_list)
    return any(bool(kind(data)) for kind in kinds)


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
            api_object.judge(judgement, item.get("displayName").text() or f"job[{index}]", item)
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
