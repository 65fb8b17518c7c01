"""The maximum cost of a run: timeout x machines x price for each step, and the limit `--max-usd`."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import chain

from rich.console import RenderableType
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError
from vgp.base.text.figures import format_dollars, format_duration, format_usd, join_words, table, with_caption
from vgp.base.text.times import price_dates as words
from vgp.check.check_finding import RungRow, StepRow
from vgp.machines.catalog import prices
from vgp.machines.placement import plain
from vgp.protocol.capacity.plan import HANDOVER_S

_COLUMNS = ("step", "machine", "GPUs", "nodes", "region", "provisioning", "$/hour", "at most")
_NUMBERS = ("nodes", "$/hour", "at most")
#: Columns of a terminal that fits every step on one line.
_WIDE = 100


@dataclass(frozen=True)
class Cost:
    """The cost in US dollars of the steps that have a price; `unpriced` names the other steps."""

    usd: float
    unpriced: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"at least {format_usd(self.usd)}" if self.unpriced else format_usd(self.usd)

    @property
    def words(self) -> str:
        """Returns the cost with the names of the unpriced steps: `at least $20.50 (no price: tune)`."""
        return f"{self} (no price: {', '.join(self.unpriced)})" if self.unpriced else str(self)


def most_usd(rows: Sequence[StepRow]) -> float:
    """Returns the maximum cost of the priced steps; it bounds the whole only if `unpriced` is empty."""
    return sum(row.max_usd or 0.0 for row in rows)


def find_unpriced_steps(rows: Sequence[StepRow]) -> dict[str, str]:
    """Returns the steps without a maximum cost, each with the reason."""
    return {row.step: row.unknown_reason for row in rows if row.max_usd is None}


def as_json(rows: Sequence[StepRow]) -> JsonObject:
    """Returns `max_usd`, the bound; it is null if a step is unpriced. Then the priced part and the other steps
    follow."""
    left_out = find_unpriced_steps(rows)
    most = most_usd(rows)
    return {
        "max_usd": None if left_out else most,
        "max_usd_of_priced_steps": most,
        "unpriced": left_out,
        "price_dates": price_dates(rows),
        "not_counted": list_uncounted_items(rows),
    }


def price_dates(rows: Sequence[StepRow]) -> list[str]:
    """Returns the dates of all prices in the rows, the oldest first."""
    every = [each for row in rows for each in row.every]
    dates = {row.price_date for row in every} | {used.price_date for row in every for used in row.services if used.usd}
    dates |= {price.date for row in every for price in (row.disk_price, *row.launcher_prices) if price}
    return sorted(day for day in dates if day)


def list_uncounted_items(rows: Sequence[StepRow]) -> list[str]:
    """Returns the billed items that the maximum leaves out, because they have no price or no limit."""
    every = [row for row in rows for row in row.every]
    bare = dict.fromkeys(row.step for row in every if row.usd_per_hour is not None and row.disk_price is None)
    waits = dict.fromkeys(row.step for row in rows if row.launcher_region is not None)
    alone = dict.fromkeys(row.step for row in rows if row.launcher_region is not None and not row.launcher_prices)
    texts = {
        "boot disks of": bare,
        f"the {plain.DEFAULT_MACHINE} of Google's launcher for": alone,
        "the launcher's cost while waiting for the machines of": [step for step in waits if step not in alone],
    }
    return [f"{text} {join_words(steps, 'and')}" for text, steps in texts.items() if steps]


def format_unpriced_steps(rows: Sequence[StepRow]) -> str:
    """Returns `tune (no price of a4x-highgpu-4g in us-central1, reservation)`; empty if every step has a price."""
    return ", ".join(f"{step} ({why})" for step, why in find_unpriced_steps(rows).items())


def refuse_above(rows: Sequence[StepRow], max_usd: float | None) -> None:
    """Raises RequestError if the rows can cost more than `max_usd`, or if their cost is unknown."""
    if max_usd is None:
        return
    if not 0 <= max_usd < math.inf:
        raise RequestError(f"--max-usd {max_usd:g}: give dollars, like 20.")
    total, left_out = most_usd(rows), format_unpriced_steps(rows)
    if total > max_usd:
        raise RequestError(
            f"a run can cost {'at least ' if left_out else ''}${format_dollars(total)}, more than --max-usd "
            f"{max_usd:g}.\n"
            + _describe_dearest(rows)
            + (f"  Not included: {left_out}.\n" if left_out else "")
            + f"  {_advise_cheaper(_find_dearest_row(rows))}, or raise --max-usd."
        )
    if left_out:
        raise RequestError(
            f"--max-usd {max_usd:g} cannot be guaranteed: part of the cost is unknown: "
            f"{left_out}.\n"
            f"  The other steps cost at most ${format_dollars(total)}. Choose another machine or region, "
            "refresh the prices\n"
            "  (vgp machines --refresh), or leave --max-usd out."
        )


def _find_dearest_row(rows: Sequence[StepRow]) -> StepRow:
    return max(rows, key=lambda row: row.max_usd or 0)


def _advise_cheaper(row: StepRow) -> str:
    """Returns advice that makes a step cheaper; retries add nothing to the maximum of a ladder."""
    if row.rungs:
        return "Shorten its deadline, use cheaper rungs"
    if row.is_endless:
        return "Only Vertex AI's limit of 7 days ends it: set one in its command, timeout -k 60 4h PROGRAM"
    return "Shorten its timeout, give it fewer retries, use a smaller machine"


def _describe_dearest(rows: Sequence[StepRow]) -> str:
    row = _find_dearest_row(rows)
    if row.rungs:
        held = [(rung.name, rung.held.jobs_s) for rung in row.rungs if rung.held and rung.held.jobs_s]
        course = [
            ", ".join(f"rung {name} for {format_duration(jobs_s)}" for name, jobs_s in held),
            *filter(None, [_describe_handover(row)]),
        ]
        most = format_dollars(row.max_usd or 0)
        return f"  Most expensive step: {row.step}, a ladder with {'; '.join(course)}: ${most}.\n"
    hours, times = (row.timeout_s or 0) / 3600, (row.tries or 1) * (row.turns or 1)
    return (
        f"  Most expensive step: {row.step}, {row.replicas} x {row.machine_type} for up to {hours:g} h"
        f"{f', {times} times' if times > 1 else ''}{_format_services(row)}, ${format_dollars(row.max_usd or 0)}.\n"
    )


def _format_services(row: StepRow) -> str:
    return "".join(f", with {used.name} ({used.what})" for used in row.services)


def steps_table(
    rows: Sequence[StepRow], *, width: int = _WIDE, today: date | None = None, dated: bool = True
) -> RenderableType:
    """Returns the table: step, machine, GPUs, nodes, region, provisioning, $/hour of all nodes, maximum cost.

    On a terminal of fewer than 100 columns (`width`), values that all steps share stand below the table. `dated`: print
    the dates of the prices below the table; of several tables, only one needs them.
    """
    lines = [build_line(row) for row in rows]
    shared = _find_shared_cells(lines) if width < _WIDE else {}
    titles = [title for title in _COLUMNS if title not in shared]
    drawn_lines = [
        each
        for line, row in zip(lines, rows, strict=True)
        for each in (line, *_list_services(row), *chain.from_iterable(map(_describe_rung, row.rungs)))
    ]
    cells: list[list[str | Text]] = [[line[title] for title in titles] for line in drawn_lines]
    if len(rows) > 1:
        cells.append([Text("total", "bold"), *[""] * (len(titles) - 2), Text(_describe_total(rows), "bold")])
    body = table(titles, cells, right=_NUMBERS, gap=2 if width < _WIDE else 3)
    below = ["every step: " + ", ".join(shared.values())] if shared else []
    below += [f"not included: {format_unpriced_steps(rows)}"] if find_unpriced_steps(rows) else []
    below += [f"not included: {'; '.join(left_out)}"] if (left_out := list_uncounted_items(rows)) else []
    below += [*_warn_of_shuffle(rows), *chain.from_iterable(map(_describe_ladder, rows))]
    below += [text for text in [words(price_dates(rows), today)] if text and dated]
    return with_caption(body, below)


def _list_services(row: StepRow) -> list[dict[str, str]]:
    """Returns a line for each service that a step may use, Google's launcher included; they follow the step's line."""
    times = None if row.tries is None or row.turns is None else row.tries * row.turns
    used = [("", f"{each.name}: {each.what}", each.region, each.usd) for each in row.services]
    if row.launcher_prices:
        used.append(("launcher", plain.DEFAULT_MACHINE, row.launcher_region or "", row.launcher_usd))
    return [
        dict.fromkeys(_COLUMNS, "")
        | {
            "step": name,
            "machine": machine,
            "region": region,
            "at most": "no price" if most is None else "?" if times is None else format_dollars(most * times),
        }
        for name, machine, region, most in used
    ]


def _describe_rung(rung: RungRow) -> list[dict[str, str]]:
    """Returns the lines of a rung, which follow the line of the step's launcher."""
    lines = [
        build_line(each) | {"step": "", "at most": ""} | ({"provisioning": "persistent"} if each.is_persistent else {})
        for each in rung.rows
    ]
    unknown = "no price" if rung.usd_per_hour is None else "?"
    most = unknown if rung.most_usd is None else format_dollars(rung.most_usd) if rung.most_usd else "-"
    lines[0] |= {"step": f"  size {rung.size}" if rung.size else f"  rung {rung.name.split(' ')[0]}", "at most": most}
    return lines


def _describe_ladder(row: StepRow) -> Iterator[str]:
    """Yields the assumptions behind the maximum cost of a step with a ladder."""
    if row.rungs and row.ladder_s:
        yield f"{row.step}: {_explain_ladder_bound(row, row.ladder_s)}"
        if handover := _describe_handover(row):
            yield f"{row.step}: {handover}"


def _describe_handover(row: StepRow) -> str:
    """Returns the time in which two jobs hold machines: a ladder of 12 hours may pay for 13 machine hours."""
    handover_s = sum(rung.held.handover_s for rung in row.rungs if rung.held)
    share = f"{HANDOVER_S / 60:g} minutes for each hour on demand"
    return f"plus {format_duration(handover_s)} of Spot while a job takes over, {share}" if handover_s else ""


def _explain_ladder_bound(row: StepRow, ladder_s: float) -> str:
    sizes = dict.fromkeys(rung.size for rung in row.rungs if rung.size)
    if sizes:
        return f"a run uses one size, {join_words(sizes)}; the maximum is for the most expensive"
    return (
        f"a ladder, one rung at a time, {format_duration(ladder_s)} at most; the maximum is for its most "
        "expensive course"
    )


def _warn_of_shuffle(rows: Sequence[StepRow]) -> list[str]:
    """Returns a warning if Dataflow shuffles: the number of bytes is known only at run time, so their cost has no
    limit."""
    steps = [row.step for row in rows if any(used.name == "Dataflow" for used in row.services)]
    rate = prices.shuffle_usd_per_gb()
    return [f"not included: ${rate:g} for each GB that Dataflow shuffles ({', '.join(steps)})"] if steps else []


def _describe_total(rows: Sequence[StepRow]) -> str:
    if not find_unpriced_steps(rows):
        return format_dollars(most_usd(rows))
    return f"at least {format_dollars(most_usd(rows))}" if most_usd(rows) else "not known"


def _find_shared_cells(lines: Sequence[dict[str, str]]) -> dict[str, str]:
    """Returns the region and the provisioning, if all steps share them."""
    values = {title: {line[title] for line in lines} for title in ("region", "provisioning")}
    return {title: next(iter(same)) for title, same in values.items() if len(same) == 1}


def build_line(row: StepRow) -> dict[str, str]:
    """Returns the cells of a step's line by the title of their column."""
    gpus = f"{row.count_text} x {row.accelerator_type}" if row.accelerator_type else "-"
    hourly = None if row.usd_per_hour is None or row.replicas is None else row.usd_per_hour * row.replicas
    nodes = "?" if row.replicas is None else str(row.replicas)
    unknown = "no price" if row.usd_per_hour is None else "?"
    times = None if row.tries is None or row.turns is None else row.tries * row.turns
    most = None if row.machines_usd is None or times is None else row.machines_usd * times
    costs = (unknown if amount is None else format_dollars(amount) for amount in (hourly, most))
    texts = [row.step, row.machine_type or "?", gpus, nodes, row.region or "?", row.strategy.lower(), *costs]
    return dict(zip(_COLUMNS, texts, strict=True))
