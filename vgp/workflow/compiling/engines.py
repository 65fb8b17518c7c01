"""What a step is told that it may use to prepare data: of the settings, with what they have for every step."""

from vgp.base.errors import RequestError
from vgp.base.text import bucket_uri, google_names
from vgp.machines.placement.engines import BigQuery, Dataflow, Engines, Job
from vgp.settings import Settings


def on_vertex(settings: Settings, step: str, bigquery_of: str, image: str) -> Engines:
    """Of a step on Vertex AI, in that image. Raises RequestError for a subnetwork of another region."""
    request = settings.request(step)
    return Engines(
        memory_gb=request.memory_gb or 0,
        bigquery=_bigquery(settings, step, bigquery_of),
        dataflow=_job(settings, step, request.dataflow, image) if request.dataflow else None,
    )


def here(settings: Settings, step: str, bigquery_of: str) -> Engines:
    """Of a step on this machine: it has another memory than the one of the settings, and no machine of Dataflow's
    could read its files."""
    return Engines(bigquery=_bigquery(settings, step, bigquery_of))


def _bigquery(settings: Settings, step: str, of: str) -> BigQuery | None:
    asked = settings.request(step).bigquery or (settings.request(of).bigquery if of else None)
    return asked and asked.model_copy(update={"project": asked.project or settings.project or ""})


def _job(settings: Settings, step: str, asked: Dataflow, image: str) -> Job:
    region = asked.region or settings.region
    if asked.subnetwork and (its := google_names.subnetwork_region(asked.subnetwork)) != region:
        raise RequestError(
            f"steps.{step}.dataflow.subnetwork is in {its}, and the job is in {region}, the region of the settings: "
            f"name a subnetwork of {region}, or set region under [steps.{step}.dataflow]."
        )
    given = {
        **asked.model_dump(),
        "region": region,
        "service_account": asked.service_account or settings.service_account or "",
    }
    temp = bucket_uri.join(*bucket_uri.cut(settings.bucket), "dataflow") if settings.bucket else ""
    return Job(**given, project=settings.project or "", temp=temp, image=image)
