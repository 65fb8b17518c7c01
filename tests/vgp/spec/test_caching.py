"""Nothing takes the result of an earlier run unless it is asked to: a second night is a second night."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from google.cloud.aiplatform_v1.types import PipelineJob
from loopback.cloud import Cloud
from rich.console import Console

from vgp.compiling.compile import compiled
from vgp.settings import Schedule, Settings, load
from vgp.spec.caching import cached, switched
from vgp.spec.pipeline_spec import PipelineSpec
from vgp.vertex import clients
from vgp.vertex.runs.state import read
from vgp.vertex.runs.submission import Options, submit
from vgp.vertex.schedules.apply import apply
from vgp.vertex.schedules.declaration import declaration
from vgp.vertex.schedules.terraform import text

#: As kfp compiles it, and as older versions of this tool uploaded it: every step asks for the cache.
ASKING = switched(PipelineSpec.read(Path(__file__).parents[2] / "golden/training.json"), True).content
QUIET = Console(quiet=True)


@pytest.fixture
def settings(cloud: Cloud) -> Any:
    clients.credentials.cache_clear()
    yield load()
    clients.credentials.cache_clear()


def states(job: Any) -> set[str]:
    return {step.state for step in read(PipelineJob.wrap(job)).steps}


def schedule(settings: Settings, spec: dict[str, Any], **changes: Any) -> Any:
    nightly = Schedule.model_validate({"pipeline": "training", "cron": "0 4 * * *"})
    known = settings.model_copy(update={"schedules": {"nightly": nightly}, **changes})
    return declaration(known, "nightly", spec, {"data": "gs://test-bucket/raw"})


@pytest.mark.parametrize("caching", [None, True, False])
def test_every_night_of_a_schedule_trains(cloud: Cloud, settings: Settings, caching: bool | None) -> None:
    apply(settings, schedule(settings, ASKING, caching=caching))
    for _ in range(3):
        cloud.clock.set(cloud.clock.now() + timedelta(days=1))
    cloud.clock.advance(7200)
    assert len(cloud.jobs) == 3
    assert [states(job) for job in cloud.jobs.values()] == [{"succeeded"}] * 3


def test_steps_in_groups_and_loops_are_switched_too(branching: dict[str, Any]) -> None:
    spec = PipelineSpec(branching)
    assert {"flip", "flip-2", "say-2", "say-4"} <= set(cached(spec)), "as kfp compiles them"
    assert cached(switched(spec, False)) == []
    assert set(cached(spec)) <= set(cached(switched(spec, True)))
    assert spec.content == branching, "the spec itself stays"


def test_the_resource_for_terraform_has_no_cache_either(settings: Settings) -> None:
    assert "enableCache" not in text(settings, [schedule(settings, ASKING)])


def test_what_is_compiled_and_uploaded_takes_nothing_from_the_cache(settings: Settings) -> None:
    assert cached(compiled("training", settings).spec) == []


@pytest.fixture
def runs(cloud: Cloud, settings: Settings) -> Callable[..., set[str]]:
    """Submits, waits, and tells in which states the steps ended."""

    def submitted(*parameters: str, caching: bool | None = None, **options: Any) -> set[str]:
        changed = settings.model_copy(update={"caching": caching})
        told = submit("training", parameters, settings=changed, options=Options(**options), console=QUIET)
        assert told["started"]
        cloud.clock.advance(3 * 3600)
        return states(cloud.jobs[told["name"]])

    return submitted


def test_a_request_that_starts_anew_runs_every_step(runs: Callable[..., set[str]]) -> None:
    assert [runs(), runs(), runs(new=True), runs(id="tonight"), runs(labels=["night=4"])] == [{"succeeded"}] * 5


def test_the_cache_is_taken_where_somebody_asks_for_it(runs: Callable[..., set[str]]) -> None:
    runs()
    assert runs(caching=True) == {"cached"}, "caching = true in the settings"
    assert runs(caching=True, new=True) == {"succeeded"}, "--new asks for another result"
    assert runs(new=True, caching=None) == {"succeeded"}


def test_the_flag_is_stronger_than_the_settings(cloud: Cloud, settings: Settings) -> None:
    for flag, setting, new in [(True, False, True), (False, True, False)]:
        changed = settings.model_copy(update={"caching": setting})
        options = Options(caching=flag, new=new, dry_run=True)
        body = submit("training", (), settings=changed, options=options, console=QUIET)["job"]
        assert bool(cached(PipelineSpec(body["pipelineSpec"]))) is flag
