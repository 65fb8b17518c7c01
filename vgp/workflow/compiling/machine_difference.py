"""The difference between two compiled pipelines, their machines told as the checker reads them."""

from collections.abc import Sequence

from vgp.base.documents.document import Document
from vgp.check.check_finding import StepRow
from vgp.check.checker import check
from vgp.check.spec import spec_difference
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.check.spec.spec_difference import Difference, unified
from vgp.machines.placement import plain
from vgp.workflow.compiling.capacity import IMAGE_VARIABLE

__all__ = ["differences", "unified"]

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
