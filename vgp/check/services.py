"""What a step may use besides its machine, as its environment says: BigQuery and Dataflow, with what that can cost."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgp.base.documents.node import Node
from vgp.base.text.figures import number, took
from vgp.machines.catalog import prices
from vgp.machines.placement import plain
from vgp.machines.placement.machine_rules import Problem

if TYPE_CHECKING:
    from vgp.machines.placement.engine_request import BigQuery, Job


@dataclass(frozen=True)
class Service:
    """What one try of a step may use of another service."""

    name: str
    #: 500 GB of queries; 10 x n2-standard-4 for 24 h.
    what: str
    region: str
    #: The most that it can cost; None where that is not known.
    usd: float | None
    #: How long a job may take that the step waits for.
    limit_s: float = 0

    @property
    def not_known(self) -> str:
        return "" if self.usd is not None else f"no price of {self.name}, {self.what} in {self.region or 'its region'}"

    @property
    def price_date(self) -> str:
        """Of which day its price is."""
        return prices.service_price_date(self.name)

    def as_json(self) -> dict[str, object]:
        return {"name": self.name, "what": self.what, "region": self.region, "max_usd_a_try": self.usd}


def of(env: Node) -> tuple[Service, ...]:
    """The services in the variable of a container's environment; none where it has none that can be read."""
    values = [item.get("value") for item in env.items() if item.get("name").text() == plain.ENGINES_VARIABLE]
    text = values[-1].text() if values and values[-1].known else None
    if not text:
        return ()
    from pydantic import ValidationError

    from vgp.machines.placement.engine_request import Engines

    try:
        engines = Engines.model_validate_json(text)
    except ValidationError:
        return ()
    return tuple(
        service
        for service in (
            _bigquery(engines.bigquery) if engines.bigquery else None,
            _dataflow(engines.dataflow) if engines.dataflow else None,
        )
        if service
    )


def ended_early(used: tuple[Service, ...], timeout_s: float | None) -> Iterator[Problem]:
    """A step that is ended cancels its job, and each further try begins another: it has to outlive the job."""
    for service in used:
        if timeout_s is not None and timeout_s <= service.limit_s:
            text = (
                f"The step is ended after {took(timeout_s)} and then cancels its {service.name} job, which max_hours "
                f"lets run for {took(service.limit_s)}."
            )
            fix = "Raise the timeout of the step above the job's max_hours, or lower max_hours."
            yield Problem("GPU028", "timeout", text, fix, "warning")


def _bigquery(asked: "BigQuery") -> Service:
    usd = prices.bigquery_usd(asked.max_gb, asked.location)
    return Service("BigQuery", f"{number(asked.max_gb)} GB", asked.location or "anywhere", usd)


def _dataflow(asked: "Job") -> Service:
    usd = prices.dataflow_usd(asked.machine, asked.disk_gb, asked.max_workers, asked.max_hours, asked.region)
    what = f"{asked.max_workers} x {asked.machine} for {number(asked.max_hours)} h"
    return Service("Dataflow", what, asked.region, usd, asked.max_hours * 3600)
