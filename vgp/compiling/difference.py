"""The difference between two compiled pipelines, their machines told as the checker reads them."""

from vgp.check.check import check
from vgp.check.finding import StepRow
from vgp.documents.document import Document
from vgp.spec import difference
from vgp.spec.difference import Difference, unified
from vgp.spec.pipeline_spec import PipelineSpec

__all__ = ["differences", "unified"]


def differences(before: PipelineSpec, after: PipelineSpec) -> list[Difference]:
    """What a person would tell of two specs: vgp/spec/difference.py."""
    return difference.differences(before, after, (_machines(before), _machines(after)))


def _machines(spec: PipelineSpec) -> dict[str, str]:
    """Step -> its machines in words."""
    machines: dict[str, list[str]] = {}
    for row in check([Document("template", dict(spec.content), "")]).steps:
        machines.setdefault(row.step.rsplit("/", 1)[-1], []).append(_machine(row))
    return {step: " + ".join(words) for step, words in machines.items()}


def _machine(row: StepRow) -> str:
    gpus = f" with {row.accelerator_count} x {row.accelerator_type}" if row.accelerator_type else ""
    limit = f", at most {row.timeout_s / 3600:g} h" if row.timeout_s else ""
    tries = f", {row.tries} tries" if row.tries and row.tries > 1 else ""
    return f"{row.replicas or '?'} x {row.machine_type or '?'}{gpus} ({row.strategy.lower()}{limit}{tries})"
