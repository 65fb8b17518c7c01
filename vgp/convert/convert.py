"""Any request for a training job as a job of Vertex AI, and whether that would run."""

from datetime import date

from vgp.check import legacy
from vgp.check.check import check
from vgp.check.judgement import Judgement
from vgp.check.report import Report
from vgp.convert import job_body, legacy_job
from vgp.convert.conversion import IMAGE, Conversion, as_yaml
from vgp.documents.document import Document, parse
from vgp.errors import RequestError


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
    """What `pipelines check` says to the result, with what could not be read of the source."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    report = check([document], regions=[conversion.region] if conversion.region else [], as_of=as_of)
    findings = [finding for finding in report.findings if not finding.message.startswith(f"{IMAGE} has no tag")]
    report.findings = [*(finding for finding in conversion.findings if finding.rule != "GPU027"), *findings]
    return report
