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


def table(rows: Sequence[StepRow]) -> "Table":
    """Step x machine x GPUs x nodes x region x provisioning x $/hour of all nodes x the most it can cost."""
    from rich.table import Table

    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 3, 0, 0))
    for title, justify in _COLUMNS:
        drawn.add_column(title, justify=justify, overflow="fold")  # type: ignore[arg-type]
    for row in rows:
        drawn.add_row(*_cells(row))
    if len(rows) > 1:
        drawn.add_row("[bold]total[/]", "", "", "", "", "", "", f"[bold]{_usd(most_usd(rows))}[/]")
    return drawn


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
