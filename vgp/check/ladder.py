"""Judges a ladder: each rung of the plan in the arguments of the container that climbs it, as the job that it is."""

import re
from dataclasses import replace

from vgp.base.documents.budget import spend
from vgp.base.documents.node import Node
from vgp.check import api_object, plain_step
from vgp.check.finding import RungRow, StepRow, unknown_machine
from vgp.check.judgement import Judgement
from vgp.check.spec import ladder
from vgp.machines.placement import plain
from vgp.machines.placement.dearest import Held, Terms, dearest_way

#: 2-flex_start-us-central1, as compile names rungs.
_NAME = re.compile(r"(?P<number>\d+)-(?P<way>[a-z_]+)-(?P<region>[a-z]+-[a-z]+\d+)")


def judge(judgement: Judgement, step: str, container: Node) -> None:
    """The machine that climbs, and each rung; one row, with the rungs and the dearest way up."""
    plain_step.judge(judgement, step, container)
    at = (*container.path, "args", ladder.position(container.value) or 0)
    spend("characters", len(str(container.value)))
    value = ladder.plan(container.value)
    if value is None:
        text = "The rungs of the ladder are not checkable: the plan is no JSON."
        judgement.add(step, Node(None, at), "GPU024", text, severity="warning")
        judgement.steps.append(unknown_machine(step, "STANDARD", judgement.regions))
        return
    plan = Node(value, at, container.scope)
    nodes = list(plan.get("rungs").items())
    if not nodes:
        judgement.malformed(step, plan.get("rungs"), "rungs", "a list with at least one rung")
        judgement.steps.append(unknown_machine(step, "STANDARD", judgement.regions))
        return
    limit_s = min(_seconds(plan.get("deadline_s")) or plain.MAX_TIMEOUT_S, plain.MAX_TIMEOUT_S)
    rungs = [_rung(judgement, step, node, number) for number, node in enumerate(nodes, 1)]
    probes_s = _seconds(plan.get("probes_an_hour_s")) or 0.0
    row = judgement.steps.pop()
    way = tuple(_with_way(rungs, limit_s, probes_s))
    judgement.steps.append(replace(row, rungs=way, ladder_s=limit_s, probes_an_hour_s=probes_s))


def _rung(judgement: Judgement, step: str, node: Node, number: int) -> tuple[str, RungRow]:
    """The size that the rung is one of, and the rung."""
    spend("steps")
    name, size = node.get("name").text() or str(number), node.get("size").text() or ""
    label = f"{step}, {f'size {size}, ' if size else ''}rung {_words(name)}"
    before = len(judgement.steps)
    with judgement.guarded(label, node):
        _job(judgement, label, node)
    rows = tuple(replace(row, step=step) for row in judgement.steps[before:])
    del judgement.steps[before:]
    timeout_s = _seconds(node.get("timeout_s")) or next((row.timeout_s for row in rows if row.timeout_s), None)
    shown = f"{size} {_words(name)}".strip()
    return size, RungRow(
        shown, rows or (_unknown(step, node),), timeout_s or plain.MAX_TIMEOUT_S, size=size,
        strategy=node.get("strategy").text() or "standard",
    )  # fmt: skip


def _job(judgement: Judgement, label: str, node: Node) -> None:
    job, region = node.get("job"), node.get("region")
    if not api_object.judge(judgement, label, job, location=region if region.text() else None, strict=True):
        judgement.malformed(label, job, "job", "a custom job")
    retries = job.get("jobSpec").get("scheduling").get("disableRetries")
    if retries.known and retries.value is not True:
        text = "Vertex AI may try the job of a rung again by itself, and the ladder counts on that it does not."
        judgement.add(label, retries, "GPU028", text, "Set scheduling.disableRetries to true.", "warning")


def _with_way(rungs: list[tuple[str, RungRow]], limit_s: float, probes_s: float) -> list[RungRow]:
    """The rungs with their parts of the dearest way; of several sizes, of which a run takes one, of the dearest."""
    if any(rung.usd_per_hour is None for _, rung in rungs):
        return [rung for _, rung in rungs]
    ways: dict[str, list[Held]] = {}
    for size in dict.fromkeys(size for size, _ in rungs):
        own = [rung for other, rung in rungs if other == size]
        terms = [Terms(rung.usd_per_hour or 0.0, rung.timeout_s, rung.strategy) for rung in own]
        ways[size] = dearest_way(terms, limit_s, probes_s)

    def most_usd(size: str) -> float:
        own = [rung for other, rung in rungs if other == size]
        return sum((rung.usd_per_hour or 0.0) * held.both_s for rung, held in zip(own, ways[size], strict=True))

    dearest = max(ways, key=most_usd, default="")
    left = iter(ways.get(dearest, []))
    return [replace(rung, held=next(left) if size == dearest else Held(0.0)) for size, rung in rungs]


def _words(name: str) -> str:
    """`2 (flex_start, us-central1)` for the names of compile, any other as it is."""
    match = _NAME.fullmatch(name)
    return f"{match['number']} ({match['way']}, {match['region']})" if match else name[:60]


def _unknown(step: str, node: Node) -> StepRow:
    region = node.get("region").text()
    return unknown_machine(step, "STANDARD", [region] if region else [])


def _seconds(node: Node) -> float | None:
    value = node.value if node.known else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None
