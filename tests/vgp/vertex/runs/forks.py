"""A process that submits, to be killed: see tests/killing.py."""

from google.cloud.aiplatform_v1.services.pipeline_service import PipelineServiceClient
from killing import serve

from vgp.settings import load
from vgp.vertex.runs import attempts, pipeline_job
from vgp.vertex.runs.start_policy import parse_policy

assert PipelineServiceClient, "imported once, before the forks"


def submit(spec: dict[str, object], options: dict[str, object]) -> None:
    settings = load()
    body = pipeline_job.build_body(settings, spec, {}, key=str(options.get("key") or ""))
    attempts.start(settings, body, policy(**options))


def policy(**options: object) -> object:
    return parse_policy(
        **{"id": None, "key": None, "window": None, "retry": False, "if_exists": None, "new": False, **options}
    )


if __name__ == "__main__":
    serve(submit)
