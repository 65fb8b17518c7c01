"""What a run can cost at most: for each step timeout x machines x price, and the ceiling of `--max-usd`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.errors import RequestError
from pipelines.machines.finding import StepRow

if TYPE_CHECKING:
    from rich.table import Table

_COLUMNS = (
    ("step", "left"), ("machine", "left"), ("GPUs", "left"), ("nodes", "right"), ("region", "left"),
    ("provisioning", "left"), ("$/hour", "right"), ("at most", "right"),
)  # fmt: skip

#: Columns of a terminal on which every step's line fits.
_WIDE = 100


def most_usd(rows: Sequence[StepRow]) -> float:
    """The sum of what the priced steps can cost at most."""
    return sum(row.max_usd or 0.0 for row in rows)


def refuse_above(rows: Sequence[StepRow], max_usd: float | None) -> None:
    """Raises RequestError if the rows can cost more than `max_usd`, or if that cannot be said."""
    if max_usd is None:
        return
    unpriced = sorted(
        {f"{row.step} ({row.machine_type or 'machine not known'})" for row in rows if row.max_usd is None}
    )
    if unpriced:
        raise RequestError(
            f"--max-usd {max_usd:g} cannot be promised: no price is known for {', '.join(unpriced)}.\n"
            "  Name another machine or region, or refresh the prices: pipelines machines --refresh."
        )
    total = most_usd(rows)
    if total > max_usd:
        dearest = max(rows, key=lambda row: row.max_usd or 0)
        hours = (dearest.timeout_s or 0) / 3600
        raise RequestError(
            f"a run can cost ${total:,.2f}, more than --max-usd {max_usd:g}.\n"
            f"  The most goes to {dearest.step}: {dearest.replicas} x {dearest.machine_type} for up to {hours:g} h, "
            f"${dearest.max_usd:,.2f}.\n"
            "  Shorten its timeout, take a smaller machine, or raise --max-usd."
        )


def table(rows: Sequence[StepRow], *, width: int = _WIDE) -> "Table":
    """Step x machine x GPUs x nodes x region x provisioning x $/hour of all nodes x the most it can cost.

    On a terminal of fewer than 100 columns, `width`, what is the same for every step stands below instead.
    """
    from rich.table import Table

    cells = [_cells(row) for row in rows]
    shared = _shared(cells) if cells and width < _WIDE else {}
    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2 if width < _WIDE else 3, 0, 0))
    shown = [place for place, (title, _) in enumerate(_COLUMNS) if title not in shared]
    for title, justify in (_COLUMNS[place] for place in shown):
        drawn.add_column(title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in cells:
        drawn.add_row(*(row[place] for place in shown))
    if len(rows) > 1:
        drawn.add_row("[bold]total[/]", *[""] * (len(shown) - 2), f"[bold]{_usd(most_usd(rows))}[/]")
    if shared:
        drawn.caption, drawn.caption_justify = "every step: " + ", ".join(shared.values()), "left"
    return drawn


def _shared(cells: Sequence[Sequence[str]]) -> dict[str, str]:
    """Region and provisioning, where all steps have the same."""
    columns = zip((title for title, _ in _COLUMNS), zip(*cells, strict=True), strict=True)
    return {title: of[0] for title, of in columns if title in ("region", "provisioning") and len(set(of)) == 1}


def _cells(row: StepRow) -> list[str]:
    gpus = f"{row.accelerator_count} x {row.accelerator_type}" if row.accelerator_type else "-"
    hourly = None if row.usd_per_hour is None or row.replicas is None else row.usd_per_hour * row.replicas
    nodes = "?" if row.replicas is None else str(row.replicas)
    return [
        row.step, row.machine_type or "?", gpus, nodes, row.region or "?", row.strategy.lower(),
        _usd(hourly), _usd(row.max_usd),
    ]  # fmt: skip


def _usd(amount: float | None) -> str:
    return "no price" if amount is None else f"{amount:,.2f}"
