"""What BigQuery and Dataflow cost at most. prices.json says where each price comes from, and of which date it is."""

from typing import Any

from vgp.machines.catalog.catalog import document, machines

_GIB_PER_TIB = 1024


def bigquery_usd(gib: float, location: str = "") -> float:
    """Queries that read so much; where the price of the location is not known, by that of the dearest."""
    prices: dict[str, Any] = document("prices.json")["bigquery"]
    return gib / _GIB_PER_TIB * float(prices["usd_tib"].get(location, prices["dearest"]))


def dataflow_usd(machine: str, disk_gb: int, workers: int, hours: float, region: str) -> float | None:
    """So many batch workers for so long, without what they shuffle; None where a price or the machine is not known.

    The rates are of vCPU, memory and disk: a machine that brings GPUs costs more than they say.
    """
    rates = document("prices.json")["dataflow"]["usd_h"].get(region)
    known = machines().get(machine)
    if rates is None or known is None or known.gpus:
        return None
    hourly = known.vcpu * rates["vcpu"] + known.memory_gb * rates["memory_gb"] + disk_gb * rates["disk_gb"]
    return float(hourly * workers * hours)


def shuffle_usd_per_gb() -> float:
    return float(document("prices.json")["dataflow"]["shuffle_usd_gb"])


def date(service: str) -> str:
    """Of which day the prices of BigQuery or Dataflow are."""
    return str(document("prices.json")[service.lower()]["date"])
