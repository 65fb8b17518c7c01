"""A job whose machines are gone, or never were, on the nearest that Vertex AI has: what a check proposes, written."""

from datetime import date

from vgp.base.documents.document import parse
from vgp.check.convert.conversion import Conversion, as_yaml
from vgp.check.fix import Options, of_document


def replace_machines(conversion: Conversion, *, as_of: date | None = None) -> None:
    """Writes the nearest into the job, with a note of every worker pool that changes."""
    document = parse("config.yaml", as_yaml(conversion.config))[0]
    regions = [conversion.region] if conversion.region else []
    text, _ = of_document(document, Options(regions, as_of=as_of))
    if text == document.text:
        return
    before = _machines(conversion)
    conversion.config = parse("config.yaml", text)[0].data
    for index, (old, new) in enumerate(zip(before, _machines(conversion), strict=True)):
        if old != new:
            conversion.became(f"workerPoolSpecs[{index}]", f"{new}, the nearest to {old}, which cannot be had")


def _machines(conversion: Conversion) -> list[str]:
    """Each pool's machine, GPUs and disk in words."""
    pools = conversion.job.get("workerPoolSpecs")
    return [_words(pool) for pool in pools] if isinstance(pools, list) else []


def _words(pool: object) -> str:
    if not isinstance(pool, dict):
        return str(pool)
    values = [value for part in ("machineSpec", "diskSpec") for value in (pool.get(part) or {}).values()]
    return " ".join(str(value) for value in values if not isinstance(value, dict | list))
