"""Judges the program of a task of a compiled pipeline: a custom job, its launcher, a ladder of jobs, or a container."""

import re
from dataclasses import replace

from vgp.base.documents.bounded_text import spend
from vgp.base.documents.json_text import JsonObject
from vgp.base.documents.node import Node
from vgp.check import api_object, container_facts, plain_step, task_inputs
from vgp.check.check_finding import RungRow, StepRow, unknown_machine
from vgp.check.judgement import Judgement
from vgp.check.spec import spec_ladder
from vgp.check.spec.spec_ladder import position
from vgp.machines.catalog import catalog
from vgp.machines.placement import job_fields, plain
from vgp.machines.placement.dearest import RungTime, Terms, find_dearest_course


def judge(judgement: Judgement, step: str, executor: Node) -> None:
    """Judges an executor of the deployment spec, with the inputs of its task as scope."""
    kinds: JsonObject = executor.value
    if kinds.get("customJob") is not None:
        job = executor.get("customJob")
        inner = job.get("customJob")
        api_object.judge(judgement, step, inner if inner.value else job)
    elif kinds.get("container") is not None:
        _judge_container(judgement, step, executor.get("container"))


def _judge_container(judgement: Judgement, step: str, container: Node) -> None:
    if not isinstance(container.value, dict):
        judgement.report_malformed(step, container, "container", "an object")
        return
    if position(container.value) is not None:
        judge_ladder(judgement, step, container)
        return
    if container_facts.sends_mail(container.get("image").text() or "", container.get("command").value):
        return
    job = task_inputs.launched_job(container) or job_of_method(container)
    if job is not None:
        location, before = task_inputs.option(container, "--location"), len(judgement.steps)
        api_object.judge(judgement, step, job, location=location, strict=True)
        where = judgement.regions[0] if judgement.regions else catalog.DEFAULT_REGION
        judgement.steps[before : before + 1] = [
            replace(row, launcher_region=where) for row in judgement.steps[before : before + 1]
        ]
        _report_launcher_resources(judgement, step, container)
        _check_timeout(judgement, step, job)
    elif container_facts.is_launcher(container.get("image").text() or "") and (
        unread := task_inputs.find_unreadable_job(container)
    ):
        # The step's machine is that of the launcher, not the job's.
        text = "The job that the launcher starts is not checkable: its text is not JSON."
        judgement.add(step, unread, "GPU024", text, severity="warning")
        judgement.steps.append(unknown_machine(step, "STANDARD", judgement.regions))
    else:
        plain_step.judge(judgement, step, container)


def _check_timeout(judgement: Judgement, step: str, job: Node) -> None:
    """Reports a job that may run longer than the task that waits for it."""
    spec = job.decode().get("jobSpec")
    timeout = (spec if spec.value else job.decode()).get("scheduling").get("timeout")
    seconds = job_fields.duration_s(timeout.value) if timeout.known and timeout.value else None
    if seconds is not None and seconds > plain.MAX_TIMEOUT_S:
        text = f"Vertex AI ends a pipeline task after 7 days; the job's timeout is {seconds:,.0f} s."
        judgement.add(step, timeout, "GPU028", text, f"Set timeout to {plain.MAX_TIMEOUT_S}s or less.")


def _report_launcher_resources(judgement: Judgement, step: str, container: Node) -> None:
    """Reports resources on the task of a wrapped job: they apply to the launcher only."""
    accelerator = container.get("resources").get("accelerator")
    if accelerator.value:
        text = "The GPU is requested for the launcher, which only waits for the job; the job does not get it."
        judgement.add(step, accelerator, "GPU029", text, "Request it in the worker pool's machineSpec.")
    env = container.get("env")
    names = [item.get("name").text() or "" for item in env.items()]
    lost = [name for name in names if name and not name.startswith("VERTEX_AI_")]
    if lost:
        text = f"{', '.join(lost)} is set on the launcher; the training container does not get it."
        judgement.add(step, env, "GPU029", text, "Set it when the component is wrapped (env=).")


#: The SDK's machine type if none is given (google-cloud-aiplatform 1.x, CustomTrainingJob.run).
_DEFAULT_MACHINE = "n1-standard-4"


#: Steps of Google Cloud Pipeline Components 0.x and 1.x call the SDK by its method's name. Their container gets
#: `--cls_name CustomContainerTrainingJob --method_name run --method.machine_type ...`: the arguments of the SDK's
#: method. `job_of_method` returns the object that the SDK would send.
def job_of_method(container: Node) -> Node | None:
    """Returns the job, batch prediction or deployment of the step; None if the step is not one of these."""
    command = container.get("command")
    words = command.value if isinstance(command.value, list) else []
    if not any(isinstance(word, str) and "remote_runner" in word for word in words):
        return None
    options = _read_method_options(container.get("args").value)
    if "cls_name" not in options:
        return None
    value = _build_method_object(options)
    return None if value is None else Node(value, (*container.path, "args"), container.scope)


def _read_method_options(args: object) -> JsonObject:
    """Returns the values by the last part of the option's name: `--method.machine_type x` gives machine_type."""
    items = args if isinstance(args, list) else []
    return {
        name.lstrip("-").rsplit(".", 1)[-1]: value
        for name, value in zip(items, items[1:], strict=False)
        if isinstance(name, str) and name.startswith("--")
    }


def _build_method_object(options: JsonObject) -> JsonObject | None:
    kind, method = str(options["cls_name"]), str(options.get("method_name", ""))
    machine: JsonObject = {
        name: options[name] for name in ("machine_type", "accelerator_type", "accelerator_count") if name in options
    }
    if "TrainingJob" in kind and kind.startswith("Custom"):
        return {
            "job_spec": {
                "worker_pool_specs": _build_method_pools({"machine_type": _DEFAULT_MACHINE, **machine}, options)
            }
        }
    if not machine:
        return None
    if method == "batch_predict":
        return {"dedicated_resources": {"machine_spec": machine}}
    return {"deployed_model": {"dedicated_resources": {"machine_spec": machine}}} if method == "deploy" else None


def _build_method_pools(machine: JsonObject, options: JsonObject) -> list[JsonObject]:
    image = options.get("container_uri", options.get("image_uri", ""))
    pool: JsonObject = {"machine_spec": machine, "replica_count": 1, "container_spec": {"image_uri": image}}
    disk = {name: options[name] for name in ("boot_disk_type", "boot_disk_size_gb") if name in options}
    return [{**pool, "disk_spec": disk} if disk else pool]


#: The name of a rung in a compiled spec: 2-flex_start-us-central1.
_NAME = re.compile(r"(?P<number>\d+)-(?P<way>[a-z_]+)-(?P<region>[a-z]+-[a-z]+\d+)")


def judge_ladder(judgement: Judgement, step: str, container: Node) -> None:
    """Judges the launcher's machine and each rung; adds one row, with the rungs and their most expensive course."""
    plain_step.judge(judgement, step, container)
    at = (*container.path, "args", spec_ladder.position(container.value) or 0)
    spend("characters", len(str(container.value)))
    value = spec_ladder.plan(container.value)
    if value is None:
        text = "The rungs of the ladder are not checkable: the plan is not JSON."
        judgement.add(step, Node(None, at), "GPU024", text, severity="warning")
        judgement.steps.append(unknown_machine(step, "STANDARD", judgement.regions))
        return
    plan = Node(value, at, container.scope)
    nodes = list(plan.get("rungs").items())
    if not nodes:
        judgement.report_malformed(step, plan.get("rungs"), "rungs", "a list with at least one rung")
        judgement.steps.append(unknown_machine(step, "STANDARD", judgement.regions))
        return
    limit_s = min(_read_positive(plan.get("deadline_s")) or plain.MAX_TIMEOUT_S, plain.MAX_TIMEOUT_S)
    rungs = [_judge_rung(judgement, step, node, number) for number, node in enumerate(nodes, 1)]
    row = judgement.steps.pop()
    shares = tuple(_share_time(rungs, limit_s))
    judgement.steps.append(replace(row, rungs=shares, ladder_s=limit_s))


def _judge_rung(judgement: Judgement, step: str, node: Node, number: int) -> tuple[str, RungRow]:
    """Returns the size of the rung, and the rung."""
    spend("steps")
    name, size = node.get("name").text() or str(number), node.get("size").text() or ""
    label = f"{step}, {f'size {size}, ' if size else ''}rung {_format_rung_name(name)}"
    before = len(judgement.steps)
    with judgement.report_exceptions(label, node):
        _judge_job(judgement, label, node)
    rows = tuple(replace(row, step=step) for row in judgement.steps[before:])
    del judgement.steps[before:]
    timeout_s = _read_positive(node.get("timeout_s")) or next((row.timeout_s for row in rows if row.timeout_s), None)
    title = f"{size} {_format_rung_name(name)}".strip()
    return size, RungRow(
        title, rows or (_unknown_step_row(step, node),), timeout_s or plain.MAX_TIMEOUT_S, size=size,
        strategy=node.get("strategy").text() or "standard",
    )  # fmt: skip


def _judge_job(judgement: Judgement, label: str, node: Node) -> None:
    job, region = node.get("job"), node.get("region")
    if not api_object.judge(judgement, label, job, location=region if region.text() else None, strict=True):
        judgement.report_malformed(label, job, "job", "a custom job")
    retries = job.get("jobSpec").get("scheduling").get("disableRetries")
    if retries.known and retries.value is not True:
        text = "Vertex AI may retry the job of a rung, which the ladder must do itself."
        judgement.add(label, retries, "GPU028", text, "Set scheduling.disableRetries to true.", "warning")


def _share_time(rungs: list[tuple[str, RungRow]], limit_s: float) -> list[RungRow]:
    """Returns the rungs with their shares of the most expensive course; of several sizes, only the most expensive
    one's."""
    if any(rung.usd_per_hour is None for _, rung in rungs):
        return [rung for _, rung in rungs]
    courses: dict[str, list[RungTime]] = {}
    for size in dict.fromkeys(size for size, _ in rungs):
        members = [rung for other, rung in rungs if other == size]
        terms = [Terms(rung.held_usd_per_hour, rung.timeout_s, rung.strategy) for rung in members]
        courses[size] = find_dearest_course(terms, limit_s)

    def most_usd(size: str) -> float:
        members = [rung for other, rung in rungs if other == size]
        return sum(rung.held_usd_per_hour * held.total_s for rung, held in zip(members, courses[size], strict=True))

    dearest = max(courses, key=most_usd, default="")
    left = iter(courses.get(dearest, []))
    return [replace(rung, held=next(left) if size == dearest else RungTime(0.0)) for size, rung in rungs]


def _format_rung_name(name: str) -> str:
    """Returns `2 (flex_start, us-central1)` for a compiled rung name, and any other name unchanged."""
    match = _NAME.fullmatch(name)
    return f"{match['number']} ({match['way']}, {match['region']})" if match else name[:60]


def _unknown_step_row(step: str, node: Node) -> StepRow:
    region = node.get("region").text()
    return unknown_machine(step, "STANDARD", [region] if region else [])


def _read_positive(node: Node) -> float | None:
    value = node.value if node.known else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
