"""PipelineJobs as Vertex AI's REST API gives them: a small workflow with an exit handler, night after night."""

import copy
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

BEGIN = datetime(2026, 11, 20, 1, 30, tzinfo=UTC)
ROOT = "gs://my-bucket/runs"
#: Dollars per hour.
PRICES = {
    step: [usd, "2026-07-30"]
    for step, usd in {"resolve": 0.15, "prepare": 0.3, "train": 2.4, "evaluate": 0.8, "decide": 0.15}.items()
}
_MADE = {"prepare": {"dataset": "Dataset"}, "train": {"model": "Model"}, "evaluate": {"evaluation": "Artifact"},
         "decide": {"report": "HTML"}}  # fmt: skip
ORDER = ("resolve", "prepare", "train", "evaluate", "decide")


def _task(name: str) -> dict[str, Any]:
    run = {"runtimeValue": {"constant": "{{$.pipeline_job_name}}"}}
    more = {"inputs": {"parameters": {"run": run}}} if name == "resolve" else {}
    cached = {} if name == "resolve" else {"enableCache": True}
    return {"componentRef": {"name": f"comp-{name}"}, "cachingOptions": cached, **more}


def _component(name: str) -> dict[str, Any]:
    made = {key: {"artifactType": {"schemaTitle": f"system.{kind}"}} for key, kind in _MADE.get(name, {}).items()}
    return {"executorLabel": f"exec-{name}", "outputDefinitions": {"artifacts": made}}


SPEC: dict[str, Any] = {
    "pipelineInfo": {"name": "training"},
    "root": {
        "dag": {
            "tasks": {
                "exit-handler-1": {"componentRef": {"name": "comp-exit-handler-1"}},
                "notify": {
                    "componentRef": {"name": "comp-notify"},
                    "inputs": {"parameters": {"status": {"taskFinalStatus": {"producerTask": "exit-handler-1"}}}},
                },
            }
        }
    },
    "components": {
        "comp-exit-handler-1": {"dag": {"tasks": {name: _task(name) for name in ORDER}}},
        "comp-notify": {"executorLabel": "exec-notify"},
        **{f"comp-{name}": _component(name) for name in ORDER},
    },
}


def name_of(run: str) -> str:
    return f"projects/123456789012/locations/us-central1/pipelineJobs/{run}"


def night(
    run: str,
    states: Mapping[str, str],
    *,
    since: Mapping[str, str] | str = "",
    decision: str = "promote",
    error: str = "",
) -> dict[str, Any]:
    """The job while its exit step runs: a state for each step, `since` the runs that made what was cached."""
    times = [BEGIN + timedelta(minutes=10 * number) for number in range(len(ORDER) + 1)]
    details = [
        _detail("1", run, "0", "RUNNING", times[0], None),
        _detail("2", "exit-handler-1", "1", "SUCCEEDED", times[0], times[-1]),
    ]
    for number, step in enumerate(step for step in ORDER if step in states):
        state, maker = states[step], since if isinstance(since, str) else since.get(step, "")
        detail = _detail(str(10 + number), step, "2", state, times[number], times[number + 1])
        home = f"{ROOT}/123456789012/{maker if state == 'SKIPPED' else run}/{step}_-{70 + number}"
        if state in ("SUCCEEDED", "SKIPPED"):
            detail["outputs"] = {
                key: {"artifacts": [{"uri": f"{home}/{key}", "schemaTitle": f"system.{kind}"}]}
                for key, kind in _MADE.get(step, {}).items()
            }
            detail["execution"] = {"metadata": {"output:Output": decision} if step == "decide" else {}}
        if state == "FAILED":
            detail["error"] = {"code": 9, "message": error}
        details.append(detail)
    details.append(_detail("30", "notify", "1", "RUNNING", times[-1], None))
    return {
        "name": name_of(run),
        "state": "PIPELINE_STATE_RUNNING",
        "createTime": "2026-11-20T01:29:50.123456789Z",
        "startTime": "2026-11-20T01:30:00Z",
        "scheduleName": "projects/123456789012/locations/us-central1/schedules/5077",
        "pipelineSpec": copy.deepcopy(SPEC),
        "jobDetail": {"taskDetails": details},
    }


def _detail(id: str, name: str, parent: str, state: str, start: datetime, end: datetime | None) -> dict[str, Any]:
    times = {"startTime": start.isoformat(), "createTime": start.isoformat()} | (
        {"endTime": end.isoformat()} if end else {}
    )
    return {"taskId": id, "taskName": name, "parentTaskId": parent, "state": state, **times}


def all_of(state: str, **others: str) -> dict[str, str]:
    """Every pinned step in that state, but for `others`; resolve runs every night."""
    return {name: "SUCCEEDED" if name == "resolve" else state for name in ORDER} | others
