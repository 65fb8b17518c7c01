"""Any request for a training job as a job of Vertex AI, and whether that would run."""

from dataclasses import dataclass
from datetime import date
from typing import Any

from vgp.base.documents.document import Document, parse
from vgp.base.documents.node import placeholder
from vgp.base.errors import RequestError
from vgp.check import legacy
from vgp.check.check import check
from vgp.check.convert import job_body, legacy_job, source
from vgp.check.convert.conversion import Conversion, as_yaml
from vgp.check.convert.sdk_program import program, snake
from vgp.check.judgement import Judgement
from vgp.check.report import Report
from vgp.check.sources.account import IMAGE, Note


@dataclass(frozen=True)
class Result:
    """A conversion in its forms, which are empty where it would not run."""

    conversion: Conversion
    report: Report
    config: str = ""
    worker_pool_specs: Any = None
    sdk: str = ""
    #: What the SDK cannot say, or says more.
    sdk_notes: tuple[Note, ...] = ()

    @property
    def failed(self) -> bool:
        return self.report.exit_code != 0


def result(conversion: Conversion, *, as_of: date | None = None) -> Result:
    """The conversion, checked, in every form."""
    report = checked(conversion, as_of=as_of)
    if report.exit_code:
        return Result(conversion, report)
    sdk, notes = program(conversion)
    pools = snake(conversion.job["workerPoolSpecs"])
    return Result(conversion, report, as_yaml(conversion.config), pools, sdk, tuple(notes))


def converted_source(text: str, *, as_of: date | None = None) -> Conversion:
    """What a file, standard input (`-`) or a gcloud line asks for, as a Vertex AI job; raises RequestError."""
    document, notes = source.document(text)
    conversion = converted(document, as_of=as_of)
    conversion.notes[:0] = notes
    return conversion


def converted(document: Document, *, as_of: date | None = None) -> Conversion:
    """The document as a Vertex AI job.

    Raises:
        RequestError: it is neither a legacy job nor a job of Vertex AI.
    """
    data = document.data
    if legacy.recognises(data):
        return legacy_job.conversion(document, Judgement(document, as_of or date.today()))
    if job_body.recognises(data):
        return job_body.conversion(data)
    raise RequestError(
        f"{document.file}: there is nothing to convert: no trainingInput, no custom or tuning job, no worker pools, "
        "no gcloud line."
    )


def checked(conversion: Conversion, *, as_of: date | None = None) -> Report:
    """What `vgp check` says to the result, with what could not be read of the source."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    is_known = conversion.region and not placeholder(conversion.region)
    report = check([document], regions=[str(conversion.region)] if is_known else [], as_of=as_of)
    findings = [
        finding for finding in report.findings if not finding.message.startswith(f"imageUri is not checkable: {IMAGE} ")
    ]
    report.findings = [*(finding for finding in conversion.findings if finding.rule != "GPU027"), *findings]
    return report
