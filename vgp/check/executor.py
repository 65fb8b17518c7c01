"""Judges what a task of a compiled pipeline runs: a custom job, a launcher that starts one, or a plain container."""

from dataclasses import replace
from typing import Any

from vgp.base.documents.node import Node
from vgp.check import api_object, images, ladder, launcher_job, plain_step, remote_runner
from vgp.check.finding import unknown_machine
from vgp.check.judgement import Judgement
from vgp.check.spec.ladder import position
from vgp.machines.placement import job_fields, plain


def judge(judgement: Judgement, step: str, executor: Node) -> None:
    """An executor of the deployment spec, with the inputs of its task as scope."""
    kinds: dict[str, Any] = executor.value
    if kinds.get("customJob") is not None:
        job = executor.get("customJob")
        inner = job.get("customJob")
        api_object.judge(judgement, step, inner if inner.value else job)
    elif kinds.get("container") is not None:
        _container(judgement, step, executor.get("container"))


def _container(judgement: Judgement, step: str, container: Node) -> None:
    if not isinstance(container.value, dict):
        judgement.malformed(step, container, "container", "an object")
        return
    if position(container.value) is not None:
        ladder.judge(judgement, step, container)
        return
    if images.sends_mail(container.get("image").text() or "", container.get("command").value):
        return
    job = launcher_job.job(container) or remote_runner.job(container)
    if job is not None:
        location, before = launcher_job.option(container, "--location"), len(judgement.steps)
        api_object.judge(judgement, step, job, location=location, strict=True)
        judgement.steps[before:] = [replace(row, has_launcher=True) for row in judgement.steps[before:]]
        _on_launcher(judgement, step, container)
        _too_long(judgement, step, job)
    elif images.is_launcher(container.get("image").text() or "") and (unread := launcher_job.unread(container)):
        # The machine that the job would ask for is not the one of the step.
        text = "The job that the launcher starts is not checkable: its text is no JSON."
        judgement.add(step, unread, "GPU024", text, severity="warning")
        judgement.steps.append(unknown_machine(step, "STANDARD", judgement.regions))
    else:
        plain_step.judge(judgement, step, container)


def _too_long(judgement: Judgement, step: str, job: Node) -> None:
    """The job may run for longer than the task that waits for it."""
    spec = job.decoded().get("jobSpec")
    timeout = (spec if spec.value else job.decoded()).get("scheduling").get("timeout")
    seconds = job_fields.duration_s(timeout.value) if timeout.known and timeout.value else None
    if seconds is not None and seconds > plain.MAX_TIMEOUT_S:
        text = f"Vertex AI ends a pipeline task after 7 days; the job's timeout is {seconds:,.0f} s."
        judgement.add(step, timeout, "GPU028", text, f"Set timeout to {plain.MAX_TIMEOUT_S}s or less.")


def _on_launcher(judgement: Judgement, step: str, container: Node) -> None:
    """Requests on the task of a wrapped job stay with the launcher."""
    accelerator = container.get("resources").get("accelerator")
    if accelerator.value:
        text = "The GPU is asked for on the launcher, which only waits for the job; the job does not get it."
        judgement.add(step, accelerator, "GPU029", text, "Ask for it in the worker pool's machineSpec.")
    env = container.get("env")
    names = [item.get("name").text() or "" for item in env.items()]
    lost = [name for name in names if name and not name.startswith("VERTEX_AI_")]
    if lost:
        text = f"{', '.join(lost)} is set on the launcher; the training container does not get it."
        judgement.add(step, env, "GPU029", text, "Set it when the component is wrapped (env=).")
