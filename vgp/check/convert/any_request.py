"""Converts a file, standard input or a command line into a job of Vertex AI that would run."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from vgp.base.documents.document import Document, parse
from vgp.base.documents.node import placeholder
from vgp.base.errors import RequestError
from vgp.check import legacy
from vgp.check.check_report import Report
from vgp.check.checker import check
from vgp.check.convert import conversion, legacy_job
from vgp.check.convert.conversion import Conversion, as_yaml
from vgp.check.convert.request_source import NOTHING, source_document
from vgp.check.convert.sdk_program import program, snake
from vgp.check.fix import Options, fix_document
from vgp.check.judgement import Judgement
from vgp.check.sources.command_line import IMAGE, Note


def replace_machines(conversion: Conversion, *, as_of: date | None = None) -> None:
    """Writes the nearest machines into the job, with a note for every worker pool that changes."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    regions = [conversion.region] if conversion.region else []
    text, _ = fix_document(document, Options(regions, as_of=as_of))
    if text == document.text:
        return
    before = _describe_machines(conversion)
    conversion.config = parse("config.yaml", text)[0].data
    for index, (old, new) in enumerate(zip(before, _describe_machines(conversion), strict=True)):
        if old != new:
            conversion.note_change(f"workerPoolSpecs[{index}]", f"{new}, the nearest to {old}, which is not available")


def _describe_machines(conversion: Conversion) -> list[str]:
    """Returns each pool's machine, GPUs and disk in words."""
    pools = conversion.job.get("workerPoolSpecs")
    return [_describe_pool(pool) for pool in pools] if isinstance(pools, list) else []


def _describe_pool(pool: object) -> str:
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
    def has_failed(self) -> bool:
        return self.report.exit_code != 0


def result(conversion: Conversion, *, as_of: date | None = None) -> Result:
    """Returns the checked conversion in every form."""
    report = check_conversion(conversion, as_of=as_of)
    if report.exit_code:
        return Result(conversion, report)
    sdk, notes = program(conversion)
    pools = snake(conversion.job["workerPoolSpecs"])
    return Result(conversion, report, as_yaml(conversion.config), pools, sdk, tuple(notes))


def convert_source(text: str, *, as_of: date | None = None) -> Conversion:
    """Converts a file, standard input (`-`) or a gcloud line into a Vertex AI job; raises RequestError."""
    document, notes = source_document(text)
    conversion = convert_document(document, as_of=as_of)
    conversion.notes[:0] = notes
    return conversion


def convert_document(document: Document, *, as_of: date | None = None) -> Conversion:
    """Converts the document into a Vertex AI job.

    Raises:
        RequestError: it is neither a legacy job nor a Vertex AI job.
    """
    data = document.data
    if legacy.recognises(data):
        return legacy_job.conversion(document, Judgement(document, as_of or date.today()))
    if conversion.recognises(data):
        return conversion.conversion(data)
    raise RequestError(f"{document.file}: {NOTHING}")


def check_conversion(conversion: Conversion, *, as_of: date | None = None) -> Report:
    """Returns the report of `vgp check` on the result, with the unreadable fields of the source."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    is_known = conversion.region and not placeholder(conversion.region)
    report = check([document], regions=[str(conversion.region)] if is_known else [], as_of=as_of)
    findings = [
        finding for finding in report.findings if not finding.message.startswith(f"imageUri is not checkable: {IMAGE} ")
    ]
    report.findings = [*(finding for finding in conversion.findings if finding.rule != "GPU027"), *findings]
    return report
