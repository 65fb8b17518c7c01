"""Workflows compiled for Vertex AI, and checked and read strictly before anything is written or sent."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from vgp.base import whole_files
from vgp.base.documents.document import Document
from vgp.base.errors import RequestError
from vgp.base.text.figures import join_words
from vgp.base.text.google_names import has_digest
from vgp.base.text.nearest import did_you_mean
from vgp.check import cost_bound
from vgp.check.check_finding import StepRow
from vgp.check.check_report import Report, headline
from vgp.check.checker import check
from vgp.check.spec import spec_difference
from vgp.check.spec.container_settings import scripts
from vgp.check.spec.dag import Component, Task, table
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_difference import Difference, diff_texts
from vgp.check.spec.spec_ladder import worlds
from vgp.machines.placement import plain
from vgp.machines.placement.machine_rules import PlacementError
from vgp.settings import Settings
from vgp.settings.repository import NO_WORKFLOW
from vgp.workflow import kfp_package
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.capacity import IMAGE_VARIABLE
from vgp.workflow.compiling.vertex import Vertex


@dataclass(frozen=True)
class Compiled:
    """A pipeline's spec for Vertex, with what the checker said of it."""

    name: str
    spec: PipelineSpec
    report: Report
    #: Steps that would take up what a command leaves, of jobs that have none.
    without_command: Collection[str] = ()
    #: Steps whose machines the settings decide; no others: Google's e-mail component, what a workflow places itself.
    placed: Collection[str] = ()


def compile_all(
    names: Sequence[str], settings: Settings, *, out: Path, max_usd: float | None = None
) -> dict[Path, Compiled]:
    """Compiles, checks and writes the pipelines `names` (all if none) to `<out>/<name>.json`.

    Raises:
        RequestError: an unknown pipeline or none at all, a machine that cannot be, or a run that can cost more than
            `max_usd`. No spec is written then; those from before stay.
    """
    names = names or list(workflow_files.find(settings.repository))
    if not names:
        raise RequestError(NO_WORKFLOW.format(settings.workflows))
    paths = {out / f"{name}.json": name for name in names}
    specs = {path: compiled(name, settings, max_usd=max_usd, path=path) for path, name in paths.items()}
    for path, made in specs.items():
        whole_files.write(path, made.spec.text)
    return specs


def placeholder_image(settings: Settings) -> list[str]:
    """Returns a note if the image is still the example's placeholder."""
    if "/my-project/" not in settings.image or settings.project == "my-project":
        return []
    fix = "run `vgp image build`, or set your own in pipelines.toml, before you submit."
    return [f"note: image = {settings.image} is a placeholder: {fix}"]


def unknown_steps(settings: Settings, compiled: Collection[Compiled]) -> list[str]:
    """A line for each step of the settings that no pipeline has: a misspelt one runs on a machine that nobody chose."""
    if {made.name for made in compiled} != set(workflow_files.find(settings.repository)):
        return []
    known = {row.step for made in compiled for row in made.report.steps}
    waiting = {step for made in compiled for step in made.without_command}
    lines = [
        f"warning: [steps.{step}] of the settings: no pipeline has this step. {did_you_mean(step, known)}"
        for step in sorted(set(settings.steps) - known - waiting)
    ]
    placed = {step for made in compiled for step in made.placed}
    written = {step.task.name for made in compiled for step in made.spec.steps} - placed - waiting
    lines = [line for line in lines if not any(line.startswith(f"warning: [steps.{step}] ") for step in written)]
    lines += [
        f"warning: [steps.{step}] of the settings has no effect: its workflow places the step itself, or Google does."
        for step in sorted(set(settings.steps) & written)
    ]
    return lines + [
        f"note: [steps.{step}] of the settings has no effect: the step takes up what a command leaves, and no step has "
        "a command."
        for step in sorted(set(settings.steps) & waiting - known)
    ]


def tagged_images(settings: Settings) -> list[str]:
    """A line for each image of a step that is not named by its digest."""
    images = [(step, image) for step, request in sorted(settings.steps.items()) for image in request.images]
    return [
        f"warning: [steps.{step}] image = {image}: a tag can be moved, which changes what runs, and cached steps "
        "do not notice. Name it by its digest: IMAGE@sha256:..."
        for step, image in dict.fromkeys(images)
        if not has_digest(image)
    ]


def different_worlds(compiled: Collection[Compiled]) -> list[str]:
    """Lines on each step of our training whose GPUs may differ from rung to rung, or are no power of two."""
    lines = [
        line
        for made in compiled
        for step, sizes in worlds(made.spec).items()
        if step not in scripts(made.spec)
        for size, numbers in sizes.items()
        for line in _of_worlds(f"{step}, size {size}" if size else step, sorted(set(numbers)))
    ]
    return list(dict.fromkeys(lines))


def _of_worlds(step: str, numbers: Sequence[int]) -> Iterator[str]:
    """What these numbers of GPUs do to the result."""
    exact = 'training_options = {"exact": true}'
    uneven = [number for number in numbers if number & (number - 1)]
    if len(numbers) > 1:
        yield (
            f"note: {step}: its rungs have {join_words(numbers, 'and')} GPUs. Going on with another number gives "
            f"the same curve up to rounding" + ("." if uneven else f"; the same bits with {exact}.")
        )
    if uneven:
        yield (
            f"note: {step}: {join_words(uneven, 'and')} GPUs, no power of two: a global batch is divided among them as "
            f"evenly as it can be; {exact} is refused."
        )


def compiled(name: str, settings: Settings, *, max_usd: float | None = None, path: Path | None = None) -> Compiled:
    """The pipeline `name`, compiled for Vertex and checked; findings name `path`.

    Raises:
        RequestError: an unknown pipeline, a machine that cannot be, or a run that can cost more than `max_usd`.
    """
    target = Vertex(settings)
    try:
        spec = workflow_files.compiled(name, target, settings.repository)
    except PlacementError as error:
        raise PlacementError(error.problem, f"{name}: {error.asked}") from None
    report = checked(name, spec, settings, max_usd=max_usd, path=path)
    return Compiled(
        name, spec, report, without_command=target.without_command, placed={*target.placements, *target.ladders}
    )


def checked(
    name: str, spec: PipelineSpec, settings: Settings, *, max_usd: float | None = None, path: Path | None = None
) -> Report:
    """What the checker says of a spec, with its steps in the order in which they run.

    Raises:
        RequestError: the spec is none, has a machine that cannot be, or can cost more than `max_usd`.
    """
    verify(spec)
    document = Document(str(path or f"{name}.json"), dict(spec.content), spec.text)
    report = check([document], regions=[settings.region])
    _refuse(name, report)
    cost_bound.refuse_above(report.steps, max_usd)
    order = [step.name for step in spec.steps]
    report.steps.sort(key=lambda row: order.index(row.step) if row.step in order else len(order))
    return report


def _refuse(name: str, report: Report) -> None:
    errors = report.of_severity("error")
    if errors:
        lines = [f"{headline(finding)}\n  {finding.suggestion}".rstrip() for finding in errors]
        raise RequestError(f"{name} cannot run as it is:\n" + "\n".join(lines))


def verify(spec: PipelineSpec) -> None:
    """Parses a compiled spec into `PipelineSpec` and `PipelineDeploymentConfig`, and follows its references.

    Raises:
        RequestError: the spec does not parse, or a task, component or executor that it names does not exist.
    """
    kfp_package.load()
    from google.protobuf import json_format
    from kfp.pipeline_spec import pipeline_spec_pb2 as messages

    try:
        json_format.ParseDict(dict(spec.content), messages.PipelineSpec())
        json_format.ParseDict(dict(table(spec.content, "deploymentSpec")), messages.PipelineDeploymentConfig())
    except json_format.ParseError as error:
        raise RequestError(f"the spec is not a PipelineSpec: {error}") from None
    for name, component in {**spec.components, "root": spec.root}.items():
        if component.executor and component.executor not in spec.executors:
            raise RequestError(f"component {name} names executor {component.executor}, which does not exist.")
        for task in component.tasks.values():
            _follow(f"{name}.{task.name}", task, component, spec)


def _follow(name: str, task: Task, group: Component, spec: PipelineSpec) -> None:
    if task.component.name not in spec.components:
        raise RequestError(f"task {name} names component {task.component.name}, which does not exist.")
    for producer in sorted(task.producers | set(task.dependencies)):
        if producer not in group.tasks:
            raise RequestError(f"task {name} waits for task {producer}, which does not exist.")


# ---- the difference between two compiled pipelines, their machines as the checker reads them


__all__ = ["differences", "diff_texts"]

#: Follow from a step's machine as it is told, and from its image, whose name they hold.
_OF_MACHINE = ("input strategy", "input timeout", "retryPolicy.maxRetryCount", f"env.{plain.TIMEOUT_VARIABLE}")
_OF_IMAGE = f"env.{IMAGE_VARIABLE}"


def differences(before: PipelineSpec, after: PipelineSpec) -> list[Difference]:
    """What a person would tell of two specs: vgp/check/spec/spec_difference.py."""
    told = spec_difference.differences(before, after, (_machines(before), _machines(after)))
    return [one for one in told if not _follows(one, told)]


def _follows(one: Difference, told: Sequence[Difference]) -> bool:
    """Whether it repeats what another one says of the same step."""
    step, _, field = one.field.partition(": ")
    if field in _OF_MACHINE:
        return any(other.field == f"{step}: machine" for other in told)
    same = (other for other in told if other is not one and (other.before, other.after) == (one.before, one.after))
    return field.endswith(_OF_IMAGE) and any(other.field.startswith(f"{step}: ") for other in same)


def _machines(spec: PipelineSpec) -> dict[str, str]:
    """Step -> its machines in words."""
    machines: dict[str, list[str]] = {}
    for row in check([Document("template", dict(spec.content), "")]).steps:
        machines.setdefault(row.step.rsplit("/", 1)[-1], []).append(_machine(row))
    return {step: " + ".join(words) for step, words in machines.items()}


def _machine(row: StepRow) -> str:
    gpus = f" with {row.count_text} x {row.accelerator_type}" if row.accelerator_type else ""
    limit = f", at most {row.timeout_s / 3600:g} h" if row.timeout_s else ""
    tries = f", {row.tries} tries" if row.tries and row.tries > 1 else ""
    return f"{row.replicas or '?'} x {row.machine_type or '?'}{gpus} ({row.strategy.lower()}{limit}{tries})"
