"""Google's generated clients against the loopback cloud, and a small pipeline."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tools.emulator.cloud import Cloud

PARENT = "projects/test-project/locations/us-central1"


def component(image: str) -> dict[str, Any]:
    return {"container": {"image": image}}


def task(component: str, after: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
    return {"componentRef": {"name": component}, "dependentTasks": list(after), **more}


@pytest.fixture
def spec() -> dict[str, Any]:
    """prepare -> train -> evaluate, and by itself look; train has a parameter and makes metrics."""
    trained = {"artifacts": {"metrics": {"artifactType": {"schemaTitle": "system.Metrics", "schemaVersion": "0.0.1"}}}}
    epochs = {"parameters": {"epochs": {"parameterType": "NUMBER_INTEGER"}}}
    cached: dict[str, Any] = {"cachingOptions": {"enableCache": True}}
    given: dict[str, Any] = {"inputs": {"parameters": {"epochs": {"componentInputParameter": "epochs"}}}}
    return {
        "pipelineInfo": {"name": "hello"},
        "root": {
            "dag": {
                "tasks": {
                    "prepare": task("comp-prepare", **cached),
                    "train": task("comp-train", ("prepare",), **given, **cached),
                    "evaluate": task("comp-evaluate", ("train",), **cached),
                    "look": task("comp-look"),
                }
            },
            "inputDefinitions": {"parameters": {"epochs": {"parameterType": "NUMBER_INTEGER", "defaultValue": 1}}},
        },
        "components": {
            "comp-prepare": {"executorLabel": "exec-prepare"},
            "comp-train": {"executorLabel": "exec-train", "inputDefinitions": epochs, "outputDefinitions": trained},
            "comp-evaluate": {"executorLabel": "exec-evaluate"},
            "comp-look": {"executorLabel": "exec-look"},
        },
        "deploymentSpec": {
            "executors": {f"exec-{n}": component(f"image/{n}") for n in ("prepare", "train", "evaluate", "look")}
        },
        "schemaVersion": "2.1.0",
        "sdkVersion": "kfp-2.17.0",
    }


@pytest.fixture
def job(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "display_name": "x",
        "pipeline_spec": spec,
        "runtime_config": {"gcs_output_directory": "gs://test-bucket/r"},
    }


@pytest.fixture
def client(cloud: Cloud) -> Iterator[Callable[[Any, str], Any]]:
    """Makes a client of a kind for an API."""
    from google.api_core.client_options import ClientOptions

    with ExitStack() as made:

        def make(kind: Any, api: str) -> Any:
            options = ClientOptions(api_endpoint=cloud.endpoint(api))
            return made.enter_context(kind(transport="rest", client_options=options))

        yield make


@pytest.fixture
def pipelines(client: Callable[[Any, str], Any]) -> Any:
    from google.cloud.aiplatform_v1 import PipelineServiceClient

    return client(PipelineServiceClient, "aiplatform")


@pytest.fixture
def schedules(client: Callable[[Any, str], Any]) -> Any:
    from google.cloud.aiplatform_v1 import ScheduleServiceClient

    return client(ScheduleServiceClient, "aiplatform")


@pytest.fixture
def post(cloud: Cloud) -> Iterator[Callable[..., Any]]:
    """Sends what no client of Google's would."""
    import google.auth
    from google.auth.transport.requests import AuthorizedSession

    scope = "https://www.googleapis.com/auth/cloud-platform"
    with AuthorizedSession(google.auth.default(scopes=[scope])[0]) as session:

        def send(api: str, path: str, method: str = "POST", **more: Any) -> Any:
            return session.request(method, f"{cloud.endpoint(api)}/{path}", **more)

        yield send
