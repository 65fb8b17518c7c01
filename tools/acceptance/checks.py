"""The checks of behaviour that the documents call not verified, each with a row: expected, seen, verdict."""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import Any

from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.catalog import catalog
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import advice
from vgp.vertex.preflight.preflight_questions import call_options
from vgp.vertex.runs import outputs
from vgp.vertex.runs.remote_run import Run

from .cloud import CRON, Cloud
from .transcript import AS_EXPECTED, DIFFERENT, UNKNOWN, Row

#: The oldest driver for CUDA 12: https://docs.nvidia.com/cuda/cuda-toolkit-release-notes/
OLDEST_DRIVER = (525, 60, 13)
MISSING_ACCOUNT = "acceptance-missing"


def rows(cloud: Cloud, specs: Mapping[str, PipelineSpec]) -> Iterator[Row]:
    """Yields each row as soon as it is known, behaviour that would break every run first."""
    first = cloud.start("main", specs["main"], {"value": cloud.stamp})
    stop, late = cloud.start("stop", specs["stop"]), cloud.start("late", specs["late"])
    gpu = cloud.start("gpu", specs["gpu"]) if "gpu" in specs else ""
    schedule = cloud.schedule(specs["tick"])
    yield from _check_schedule(cloud, schedule)
    yield _check_sigterm(cloud, stop)  # while the longer first run goes on
    run = cloud.wait_for_end(first)
    yield from (_check_non_root(cloud, run), _check_without_schedule(run), _check_exit_step(run))
    yield _check_second_exit_step(cloud, specs["exits"])
    yield from (_check_placeholders(cloud, run), _check_from_a_job(run), _check_iterations(run))
    yield from _check_errors(cloud, specs["tick"])
    yield _check_quotas(cloud)
    yield from _check_cache(cloud.wait_for_end(cloud.start("second", specs["main"], {"value": cloud.stamp})))
    yield from _check_lists(cloud, run)
    yield _check_tick(cloud, schedule)
    yield from _check_timeout(cloud.wait_for_end(late))
    yield _check_driver(cloud.wait_for_end(gpu)) if gpu else Row("driver", _VERTEX, "", "left out: --no-gpu", UNKNOWN)


_VERTEX, _RUNS = "docs/reference/not-verified.md", "docs/how-to/follow-a-run.md"
_PREFLIGHT, _SCHEDULES = "docs/how-to/preflight.md", "docs/tutorials/nightly.md"
_NOTIFICATIONS, _DECISIONS = "docs/how-to/alerts.md", "docs/internals/decisions.md"


def _judge(check: str, docs: str, expected: str, seen: str, holds: bool | None) -> Row:
    verdict = UNKNOWN if holds is None else AS_EXPECTED if holds else DIFFERENT
    return Row(check, docs, expected, seen, verdict)


def _check_non_root(cloud: Cloud, run: Run) -> Row:
    expected = "a step that is not root writes its outputs below /gcs"
    written = [artifact for artifact in outputs.artifacts(run) if artifact.step == "write"]
    if not written:
        return _judge("non-root-gcs", _VERTEX, expected, _explain_failure(run, "write"), False)
    uid, path = written[0].metadata.get("uid"), written[0].uri.split("/", 3)[-1]
    seen = f"uid {uid}; the object {'is there' if path in cloud.objects() else 'is missing'}"
    return _judge("non-root-gcs", _VERTEX, expected, seen, bool(uid) and path in cloud.objects())


def _check_from_a_job(run: Run) -> Row:
    expected = "metadata (steps: 3) and URI (...-kept) that were set inside the custom job are the artifact's"
    made = [artifact for artifact in outputs.artifacts(run) if artifact.step == "fit"]
    if not made:
        return _judge("artifact-from-job", _VERTEX, expected, _explain_failure(run, "fit"), False)
    steps, uri = made[0].metadata.get("steps"), made[0].uri
    seen = f"steps: {steps}; URI ends in {uri.rpartition('/')[2]}"
    return _judge("artifact-from-job", _VERTEX, expected, seen, steps == 3 and uri.endswith("-kept"))


def _check_placeholders(cloud: Cloud, run: Run) -> Row:
    expected = "the custom job has account, network and key of its run"
    try:
        job = cloud.custom_job(run, "fit")
    except Exception as error:  # any error is a result
        return _judge("placeholders", _DECISIONS, expected, f"{type(error).__name__}: {error}", None)
    if job is None:
        return _judge("placeholders", _DECISIONS, expected, "the run names no custom job", None)
    of_run = (run.job.service_account, run.job.network, run.job.encryption_spec.kms_key_name)
    of_job = (job.job_spec.service_account, job.job_spec.network, job.encryption_spec.kms_key_name)
    words = [
        f"{what}: {'not set' if not asked else 'the same' if asked == has else f'{has!r} instead of {asked!r}'}"
        for what, asked, has in zip(("account", "network", "key"), of_run, of_job, strict=True)
    ]
    holds = all(asked == has for asked, has in zip(of_run, of_job, strict=True) if asked)
    return _judge("placeholders", _DECISIONS, expected, "; ".join(words), holds if any(of_run) else None)


def _check_iterations(run: Run) -> Row:
    expected = "both iterations of a loop are steps of their own"
    turns = [step.name for step in run.steps if step.task == "turn"]
    return _judge("loop-iterations", _RUNS, expected, ", ".join(turns) or "none", len(turns) == 2)


def _check_schedule(cloud: Cloud, name: str) -> Iterator[Row]:
    client = clients.schedule_service(cloud.settings)
    request = {"parent": resource_names.location(cloud.settings), "filter": f'display_name="acceptance-{cloud.stamp}"'}
    listed = [schedule.name for schedule in client.list_schedules(request=request, **clients.reading())]
    text = "a list shows a schedule right after its creation"
    yield _judge("schedule-listed", _SCHEDULES, text, "listed" if name in listed else "not listed", name in listed)
    cron = client.get_schedule(name=name, **clients.reading()).cron
    yield _judge("schedule-cron", _SCHEDULES, f"its cron comes back as it was sent: {CRON}", cron, cron == CRON)


def _check_cache(run: Run) -> Iterator[Row]:
    states = {step.task: step.state for step in run.steps if step.task != "turn"}
    hits = [states.get(step) for step in ("write", "echo", "fit")]
    text = "a second run with the same parameters takes write, echo and fit from the cache"
    seen = ", ".join(f"{step}: {state}" for step, state in states.items())
    yield _judge("cache-parameters", _DECISIONS, text, seen, hits == ["cached"] * 3)
    text = "read runs anew: its input has the same bytes and another id"
    holds = states.get("read") == "succeeded" and states.get("again") == "succeeded"
    yield _judge("cache-artifacts", _DECISIONS, text, f"again: {states.get('again')}, read: "
                  f"{states.get('read')}", holds)  # fmt: skip


def _check_sigterm(cloud: Cloud, name: str) -> Row:
    expected = "SIGTERM reaches the Python of a plain step when its run is cancelled"
    began = cloud.wait_until(lambda: _list_marks(cloud, "began") or cloud.read_run(name).over, minutes=20)
    if began is True:
        return _judge("sigterm", _VERTEX, expected, _explain_failure(cloud.read_run(name), "stay"), None)
    cloud.cancel(name)
    cloud.wait_for_end(name)
    seconds = _list_marks(cloud, "sigterm-")
    seen = (
        f"{len(seconds)} s from SIGTERM to the end; the step ends itself after 60"
        if seconds
        else "no SIGTERM was noticed"
    )
    return _judge("sigterm", _VERTEX, expected, seen, bool(seconds))


def _list_marks(cloud: Cloud, beginning: str) -> list[str]:
    return [name for name in cloud.objects() if "/marks/" in name and name.rpartition("/")[2].startswith(beginning)]


def _check_timeout(run: Run) -> Iterator[Row]:
    (step,) = run.steps
    text = "a plain step is ended after its timeout, with exit code 124"
    error = step.error + run.error
    yield _judge("step-timeout", "docs/reference/settings.md", text, step.error or run.error, "124" in error)
    failed = [status for status in step.detail.pipeline_task_status if status.error.message]
    seen = f"{len(step.jobs)} jobs, {len(failed)} failures listed"
    yield _judge("step-retries", "docs/reference/settings.md", "it is tried twice, as in its retryPolicy", seen,
                  2 in (len(step.jobs), len(failed), len(failed) + 1))  # fmt: skip


def _check_without_schedule(run: Run) -> Row:
    """Checks a run without a schedule, which has the placeholder of the schedule's time too."""
    expected = "a run that no schedule started goes on: the placeholder of the schedule's time is some text"
    values = [str(value) for name, value in outputs.return_values(run).items() if name.startswith("tick")]
    seen = f"{', '.join(values)!r}" if values else _explain_failure(run, "tick")
    return _judge("no-schedule", _SCHEDULES, expected, seen, bool(values))


def _check_exit_step(run: Run) -> Row:
    expected = "an exit step gets SUCCEEDED, and the resource name of its run"
    seen = outputs.return_values(run).get("ended.Output") or _explain_failure(run, "ended")
    return _judge("exit-step", _NOTIFICATIONS, expected, str(seen), seen == f"SUCCEEDED {run.name}")


def _check_second_exit_step(cloud: Cloud, spec: PipelineSpec) -> Row:
    expected = "a run may have two exit steps, as [notify] email needs"
    try:
        run = cloud.wait_for_end(cloud.start("exits", spec))
    except Exception as error:  # a refusal is a result
        return _judge("second-exit-step", _NOTIFICATIONS, expected, f"{type(error).__name__}: {error}", False)
    states = {step.task: step.state for step in run.steps if step.task.startswith("ended")}
    seen = ", ".join(f"{task}: {state}" for task, state in states.items())
    holds = states == {"ended": "succeeded", "ended-too": "succeeded"}
    return _judge("second-exit-step", _NOTIFICATIONS, expected, seen, holds)


def _check_tick(cloud: Cloud, schedule: str) -> Row:
    expected = "the schedule's run knows the time that it is for: a multiple of five minutes in UTC, as RFC 3339"
    number = resource_names.short(schedule)

    def ticked() -> list[Any]:
        jobs = cloud.runs(f'labels.acceptance="{cloud.stamp}"')
        return [job for job in jobs if resource_names.short(job.schedule_name) == number]

    jobs = cloud.wait_until(ticked, minutes=15)
    if not jobs:
        return _judge("schedule-tick", _SCHEDULES, expected, "no run within 15 minutes", None)
    run = cloud.wait_for_end(jobs[0].name)
    values = [str(value) for name, value in outputs.return_values(run).items() if name.startswith("tick")]
    seen = ", ".join(values) or _explain_failure(run, "tick")
    return _judge("schedule-tick", _SCHEDULES, expected, seen, any(map(_is_a_tick, values)))


def _is_a_tick(text: str) -> bool:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return False
    return moment.minute % 5 == 0 and moment.tzinfo is not None


def _check_driver(run: Run) -> Row:
    expected = f"the driver is {'.'.join(map(str, OLDEST_DRIVER))} or newer, which CUDA 12 needs"
    drivers = [str(artifact.metadata.get("driver", "")) for artifact in outputs.artifacts(run)]
    numbers = re.match(r"(\d+)\.(\d+)\.(\d+)", drivers[0]) if drivers else None
    if numbers is None:
        return _judge("driver", _VERTEX, expected, _explain_failure(run, "fit"), None)
    return _judge("driver", _VERTEX, expected, drivers[0], tuple(map(int, numbers.groups())) >= OLDEST_DRIVER)


def _check_quotas(cloud: Cloud) -> Row:
    metrics = sorted({row.quota.metric for row in catalog.accelerators().values() if row.quota})
    parent = f"projects/{clients.project(cloud.settings)}/locations/global/services/aiplatform.googleapis.com"
    expected = f"the Cloud Quotas API lists the {len(metrics)} metrics of the catalog's GPUs"
    try:
        listed = {
            info.metric for info in clients.quotas(cloud.settings).list_quota_infos(parent=parent, **call_options())
        }
    except Exception as error:
        return _judge("quota-names", _PREFLIGHT, expected, f"{type(error).__name__}: {error}", None)
    missing = [metric.rpartition("/")[2] for metric in metrics if metric not in listed]
    seen = f"{len(metrics) - len(missing)} are listed; not: {', '.join(missing) or 'none'}"
    return _judge("quota-names", _PREFLIGHT, expected, seen, not missing)


def _check_lists(cloud: Cloud, run: Run) -> Iterator[Row]:
    jobs = cloud.runs(f'labels.acceptance="{cloud.stamp}"')
    whole = [job for job in jobs if job.job_detail.task_details]
    seen = f"{len(whole)} of {len(jobs)}"
    yield _judge("list-details", _RUNS, "a list of runs has their tasks if its mask asks", seen, bool(whole))
    jobs = cloud.runs(f'pipeline_job_user_id:"{run.id[:-2]}*"')
    seen = f"{len(jobs)} runs, that one {'among' if run.name in [job.name for job in jobs] else 'not among'} them"
    yield _judge("list-prefix", _RUNS, "pipeline_job_user_id:\"abc*\" finds a run by the beginning of its id", seen,
                  run.name in [job.name for job in jobs])  # fmt: skip


def _check_errors(cloud: Cloud, spec: PipelineSpec) -> Iterator[Row]:
    """Sends requests that Google must refuse, and checks whether vgp explains the error."""
    account = f"{MISSING_ACCOUNT}@{cloud.settings.project}.iam.gserviceaccount.com"
    job = cloud.body(spec) | {"serviceAccount": account}
    service = clients.pipeline_service(cloud.settings)
    parent = resource_names.location(cloud.settings)

    def act_as() -> Any:
        from vgp.vertex.runs.pipeline_job import message

        request = {
            "parent": parent,
            "pipeline_job": message(job),
            "pipeline_job_id": f"acceptance-{cloud.stamp}-missing",
        }
        return service.create_pipeline_job(request=request, **clients.once())

    def unknown_run() -> Any:
        return service.get_pipeline_job(name=f"{parent}/pipelineJobs/acceptance-never-was", **clients.once())

    yield _check_refusal(cloud, "error-act-as", _VERTEX, act_as, explained=True)
    yield _check_refusal(cloud, "error-not-found", _RUNS, unknown_run, explained=False)


def _check_refusal(cloud: Cloud, check: str, docs: str, call: Callable[[], Any], *, explained: bool) -> Row:
    expected = "refused" + (", in words that this tool explains" if explained else "")
    try:
        call()
    except Exception as error:
        code, message = getattr(error, "code", None), str(getattr(error, "message", error))
        hint = advice(message, cloud.settings, code=int(code) if code else None) if explained else "-"
        return _judge(check, docs, expected, f"{code and int(code)}: {message}", bool(hint))
    return _judge(check, docs, expected, "accepted", False)


def _explain_failure(run: Run, task: str) -> str:
    """Returns Google's reason why a step has no output."""
    errors = [step.error for step in run.steps if step.task == task and step.error]
    return errors[0] if errors else f"the run {run.state}; {run.error or 'no reason is given'}"
