"""Compiles workflows for Vertex AI, and checks their specs before any is written or sent."""

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
from vgp.protocol import environment as variables
from vgp.settings import Settings
from vgp.settings.repository import NO_WORKFLOW
from vgp.workflow import kfp_package
from vgp.workflow.compiling import workflow_files
from vgp.workflow.compiling.capacity import IMAGE_VARIABLE
from vgp.workflow.compiling.vertex import Vertex


@dataclass(frozen=True)
class CompiledPipeline:
    """A pipeline's spec for Vertex AI, with the checker's report."""

    name: str
    spec: PipelineSpec
    report: Report
    #: Collect steps that are not in the pipeline, because their jobs have no command.
    without_command: Collection[str] = ()
    #: Steps whose machines the settings decide. Google's e-mail component and steps that a workflow places are not.
    placed: Collection[str] = ()


def compile_all(
    names: Sequence[str], settings: Settings, *, out: Path, max_usd: float | None = None
) -> dict[Path, CompiledPipeline]:
    """Compiles, checks and writes the pipelines `names` (all if empty) to `<out>/<name>.json`.

    Raises:
        RequestError: a pipeline is unknown, the repository has none, a machine is invalid, or a run can cost more than
            `max_usd`. Then no file is changed.
    """
    names = names or list(workflow_files.find_workflows(settings.repository))
    if not names:
        raise RequestError(NO_WORKFLOW.format(settings.workflows))
    paths = {out / f"{name}.json": name for name in names}
    specs = {path: compile_pipeline(name, settings, max_usd=max_usd, path=path) for path, name in paths.items()}
    for path, pipeline in specs.items():
        whole_files.write(path, pipeline.spec.text)
    return specs


def note_placeholder_image(settings: Settings) -> list[str]:
    """Returns a note if the image is still the example's placeholder."""
    if "/my-project/" not in settings.image or settings.project == "my-project":
        return []
    fix = "run `vgp image build`, or set your own in pipelines.toml, before you submit."
    return [f"note: image = {settings.image} is a placeholder: {fix}"]


def list_unknown_steps(settings: Settings, pipelines: Collection[CompiledPipeline]) -> list[str]:
    """Returns a line for each step of the settings without effect: misspelt, placed by its workflow, or unused."""
    if {pipeline.name for pipeline in pipelines} != set(workflow_files.find_workflows(settings.repository)):
        return []
    known = {row.step for pipeline in pipelines for row in pipeline.report.steps}
    unused = {step for pipeline in pipelines for step in pipeline.without_command}
    placed = {step for pipeline in pipelines for step in pipeline.placed}
    unplaced = {step.task.name for pipeline in pipelines for step in pipeline.spec.steps} - placed - unused
    lines = [
        f"warning: [steps.{step}] of the settings: no pipeline has this step. {did_you_mean(step, known)}"
        for step in sorted(set(settings.steps) - known - unused - unplaced)
    ]
    lines += [
        f"warning: [steps.{step}] of the settings has no effect: the workflow or Google chooses the step's machine."
        for step in sorted(set(settings.steps) & unplaced)
    ]
    return lines + [
        f"note: [steps.{step}] of the settings has no effect: the step collects the files of a step's command, and no "
        "step has a command."
        for step in sorted(set(settings.steps) & unused - known)
    ]


def list_tagged_images(settings: Settings) -> list[str]:
    """Returns a warning for each image of a step that is not named by its digest."""
    images = [(step, image) for step, request in sorted(settings.steps.items()) for image in request.images]
    return [
        f"warning: [steps.{step}] image = {image}: a tag can be moved to other code, and cached results of the old "
        "code would still be used. Name the image by its digest: IMAGE@sha256:..."
        for step, image in dict.fromkeys(images)
        if not has_digest(image)
    ]


def list_world_sizes(pipelines: Collection[CompiledPipeline]) -> list[str]:
    """Returns notes on training steps whose number of GPUs differs between rungs, or is no power of two."""
    lines = [
        line
        for pipeline in pipelines
        for step, sizes in worlds(pipeline.spec).items()
        if step not in scripts(pipeline.spec)
        for size, numbers in sizes.items()
        for line in _describe_world_sizes(f"{step}, size {size}" if size else step, sorted(set(numbers)))
    ]
    return list(dict.fromkeys(lines))


def _describe_world_sizes(step: str, numbers: Sequence[int]) -> Iterator[str]:
    """Yields the effects of these numbers of GPUs on the training's result."""
    exact = 'training_options = {"exact": true}'
    uneven = [number for number in numbers if number & (number - 1)]
    if len(numbers) > 1:
        yield (
            f"note: {step}: its rungs have {join_words(numbers, 'and')} GPUs. Resuming on another number of GPUs gives "
            f"an equal loss curve up to rounding" + ("." if uneven else f", and equal bits with {exact}.")
        )
    if uneven:
        yield (
            f"note: {step}: {join_words(uneven, 'and')} GPUs is no power of two: the GPUs get shares of a global batch "
            f"that can differ in size, and {exact} is refused."
        )


def compile_pipeline(
    name: str, settings: Settings, *, max_usd: float | None = None, path: Path | None = None
) -> CompiledPipeline:
    """Compiles the pipeline `name` for Vertex AI and checks it; findings name `path`.

    Raises:
        RequestError: the pipeline is unknown, a machine is invalid, or a run can cost more than `max_usd`.
    """
    target = Vertex(settings)
    try:
        spec = workflow_files.compile_workflow(name, target, settings.repository)
    except PlacementError as error:
        raise PlacementError(error.problem, f"{name}: {error.asked}") from None
    report = check_spec(name, spec, settings, max_usd=max_usd, path=path)
    return CompiledPipeline(
        name, spec, report, without_command=target.without_command, placed={*target.placements, *target.ladders}
    )


def check_spec(
    name: str, spec: PipelineSpec, settings: Settings, *, max_usd: float | None = None, path: Path | None = None
) -> Report:
    """Returns the checker's report of a spec, with the steps in the order in which they run.

    Raises:
        RequestError: the spec is malformed, a machine is invalid, or a run can cost more than `max_usd`.
    """
    verify(spec)
    document = Document(str(path or f"{name}.json"), dict(spec.content), spec.text)
    report = check([document], regions=[settings.region])
    _refuse_errors(name, report)
    cost_bound.refuse_above(report.steps, max_usd)
    order = [step.name for step in spec.steps]
    report.steps.sort(key=lambda row: order.index(row.step) if row.step in order else len(order))
    return report


def _refuse_errors(name: str, report: Report) -> None:
    errors = report.of_severity("error")
    if errors:
        lines = [f"{headline(finding)}\n  {finding.suggestion}".rstrip() for finding in errors]
        raise RequestError(f"{name} cannot run:\n" + "\n".join(lines))


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
            _check_references(f"{name}.{task.name}", task, component, spec)


def _check_references(name: str, task: Task, group: Component, spec: PipelineSpec) -> None:
    if task.component.name not in spec.components:
        raise RequestError(f"task {name} names component {task.component.name}, which does not exist.")
    for producer in sorted(task.producers | set(task.dependencies)):
        if producer not in group.tasks:
            raise RequestError(f"task {name} waits for task {producer}, which does not exist.")


# ---- the difference between two compiled pipelines, their machines as the checker reads them


__all__ = ["compare_specs", "diff_texts"]

#: Fields that change with a step's machine, and with its image.
_MACHINE_FIELDS = ("input strategy", "input timeout", "retryPolicy.maxRetryCount", f"env.{plain.TIMEOUT_VARIABLE}")
_IMAGE_FIELD, _CODE_IMAGE_FIELD = f"env.{IMAGE_VARIABLE}", f"env.{variables.STEP_IMAGE}"


def compare_specs(before: PipelineSpec, after: PipelineSpec) -> list[Difference]:
    """Returns the differences between two specs (`vgp.check.spec.spec_difference`), each cause once."""
    machines = (_describe_machines(before), _describe_machines(after))
    differences = spec_difference.differences(before, after, machines)
    return [difference for difference in differences if not _is_consequence(difference, differences)]


def _is_consequence(difference: Difference, differences: Sequence[Difference]) -> bool:
    """Whether a difference follows from another difference of its step."""
    step, _, field = difference.field.partition(": ")
    if field in _MACHINE_FIELDS:
        return any(other.field == f"{step}: machine" for other in differences)
    if field.endswith(_CODE_IMAGE_FIELD):
        return any(other.field == f"{step}: image" for other in differences)
    values = (difference.before, difference.after)
    equal = (other for other in differences if other is not difference and (other.before, other.after) == values)
    return field.endswith(_IMAGE_FIELD) and any(other.field.startswith(f"{step}: ") for other in equal)


def _describe_machines(spec: PipelineSpec) -> dict[str, str]:
    """Returns a description of each step's machines, by the name of the step."""
    machines: dict[str, list[str]] = {}
    for row in check([Document("template", dict(spec.content), "")]).steps:
        machines.setdefault(row.step.rsplit("/", 1)[-1], []).append(_describe_machine(row))
    return {step: " + ".join(words) for step, words in machines.items()}


def _describe_machine(row: StepRow) -> str:
    gpus = f" with {row.count_text} x {row.accelerator_type}" if row.accelerator_type else ""
    limit = f", at most {row.timeout_s / 3600:g} h" if row.timeout_s else ""
    tries = f", {row.tries} tries" if row.tries and row.tries > 1 else ""
    return f"{row.replicas or '?'} x {row.machine_type or '?'}{gpus} ({row.strategy.lower()}{limit}{tries})"
