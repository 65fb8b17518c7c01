"""Whether the default quotas cover what a job draws on them."""

from collections.abc import Sequence

from vgp.machines.placement.combination import Combination
from vgp.machines.placement.provisioning import is_preemptible
from vgp.machines.placement.rules import Problem


def problems(combination: Combination, amount: int, regions: Sequence[str], strategy_name: str) -> list[Problem]:
    """Warns when the default quota of every region in question is below `amount`, in GPUs or, without any, in vCPU."""
    draw = combination.quota(preemptible=is_preemptible(strategy_name))
    if draw is None or not (regions or combination.accelerator):
        return []
    listed = {region: draw.defaults[region] for region in regions or draw.defaults if region in draw.defaults}
    if not listed:
        return []
    best = max(listed, key=lambda region: listed[region])
    limit = listed[best]
    if limit >= amount:
        return []
    where = best if regions else "every region" if limit == 0 else f"{best}, the highest"
    what = combination.accelerator_type or f"{combination.machine.family.upper()} vCPU"
    field = "acceleratorType" if combination.accelerator else "machineType"
    text = f"The default quota for {what} in {where} is {limit}; the job needs {amount}."
    return [Problem("GPU017", field, text, f"Ask for {amount} of {draw.metric}.")]
