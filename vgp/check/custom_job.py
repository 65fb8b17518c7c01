"""Judges a CustomJobSpec: the number and roles of its pools, each pool, their sum, and reduction servers."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter

from vgp.base.documents.node import Node
from vgp.check import container_facts
from vgp.check.check_finding import StepRow, unknown_machine
from vgp.check.judgement import Judgement, Reader
from vgp.check.terms import Terms, judge_durations, judge_extras, persistent_resource, price_of, terms, tpu_price
from vgp.check.worker_pool import ROLES, Pool, judge_pool
from vgp.machines.catalog import catalog, prices
from vgp.machines.placement import provisioning
from vgp.machines.placement.combination import Combination
from vgp.machines.placement.provisioning import STRATEGIES, is_preemptible

MAX_POOLS = 4
#: Number of pools that are judged in a job with more pools than any API accepts.
MOST_JUDGED = 100


def judge(
    judgement: Judgement, step: str, spec: Node, *, pools: Node | None = None, location: Node | None = None,
    trials: int | None = 1, rounds: int | None = 1, strict_list: bool = False,
) -> None:  # fmt: skip
    """Judges one custom job, or one trial of a tuning job.

    Args:
        judgement: Takes findings and rows.
        step: The step of the job.
        spec: The CustomJobSpec.
        pools: Its worker pools, if they are not in the spec.
        location: Its region, if one is named outside the spec.
        trials: Number of parallel trials; None: unknown.
        rounds: Number of rounds, each with the full timeout; None: unknown.
        strict_list: Whether a mapping instead of a list of pools is an error.
    """
    reader = Reader(judgement, step)
    job_terms = terms(reader, spec, location)
    judge_extras(reader, job_terms, spec)
    nodes = _read_pools(reader, spec, pools if pools is not None else spec.get("workerPoolSpecs"), strict_list)
    if nodes is None:
        judgement.steps.append(unknown_machine(step, job_terms.strategy, job_terms.regions))
        return
    _check_shape(reader, nodes)
    nodes = nodes[:MOST_JUDGED]
    indexed = [(index, node) for index, node in enumerate(nodes) if node.value not in ({}, None)]
    judged = [pool for index, node in indexed if (pool := judge_pool(reader, job_terms, index, node))]
    _check_tpus(reader, judged)
    judge_reduction_servers(reader, nodes, judged)
    if not job_terms.is_persistent:
        _check_one_zone(reader, job_terms, judged)
    has_gpu = any(pool.spec.gpu or pool.spec.accelerator or pool.spec.is_tpu for pool in judged)
    timeout_s = judge_durations(reader, job_terms, spec, has_gpu)
    if not job_terms.is_persistent:
        if job_terms.strategy == "FLEX_START":
            _check_flex_start(reader, judged)
        _check_quota(reader, job_terms, judged, trials)
    rows = _build_rows(step, job_terms, judged, trials, rounds, timeout_s)
    if rows and nodes:  # only the chief calls other services
        used = container_facts.services_of(nodes[0].get("containerSpec").get("env"))
        judgement.report(step, job_terms.scheduling, *container_facts.find_early_end(used, timeout_s))
        rows[0] = replace(rows[0], services=used)
    named = bool(spec.get("persistentResourceId").text()) or (judgement.on_resource and job_terms.is_persistent)
    judgement.steps += [replace(row, is_persistent=named) for row in rows]


def _read_pools(reader: Reader, spec: Node, node: Node, strict_list: bool) -> list[Node] | None:
    """Returns the worker pools; None if there is no list of them, which is reported."""
    node = node.decode()
    if not node.known:
        reader.report_unknown(node, "workerPoolSpecs")
        return None
    if isinstance(node.value, dict):
        text = "workerPoolSpecs is a mapping: gcloud reads it as one pool, Google's Python client refuses it."
        level = "error" if strict_list else "warning"
        reader.add(node, "GPU026", text, "Write a list: '- machineSpec: ...'.", level)
        return [node]
    if not isinstance(node.value, list):
        if node.value is None and persistent_resource(spec).value:
            return []
        reader.report_malformed(node, "workerPoolSpecs", "a list of worker pools")
        return None
    if not node.value:
        reader.report_malformed(node, "workerPoolSpecs", "a list with at least one pool")
    return [pool.decode() for pool in node.items()]


def _check_shape(reader: Reader, pools: list[Node]) -> None:
    if len(pools) > MAX_POOLS:
        text = f"A job has at most {MAX_POOLS} worker pools ({', '.join(ROLES)}); this one has {len(pools):,}."
        text += f" The first {MOST_JUDGED} are judged." if len(pools) > MOST_JUDGED else ""
        fix = "For more machines of one kind, raise replicaCount."
        reader.add(pools[MAX_POOLS], "GPU007", text, fix)
    if pools and pools[0].value in ({}, None):
        text = "Pool 0 is empty; it holds the chief, which every job needs."
        reader.add(pools[0], "GPU007", text, "Describe the chief in pool 0.")


def _check_tpus(reader: Reader, pools: list[Pool]) -> None:
    """Reports a TPU job with more than one pool or replica; all machines of a slice come with one replica of one
    pool."""
    chief = next((pool for pool in pools if pool.spec.is_tpu), None)
    if chief is not None and len(pools) > 1:
        text = (
            f"A job on {chief.spec.machine_type} has one worker pool with one replica; this one has {len(pools)} pools."
        )
        fix = "Keep that pool: its topology or count determines the number of machines."
        reader.add(next(pool.at for pool in pools if pool is not chief), "GPU007", text, fix)


def _check_one_zone(reader: Reader, job_terms: Terms, pools: list[Pool]) -> None:
    """Reports GPUs that cannot be in one zone of the job's region."""
    kinds = [pool.spec.accelerator for pool in pools if pool.spec.combination and pool.spec.accelerator]
    if len(set(kinds)) > 1:
        other = next(pool for pool in pools if pool.spec.accelerator not in (None, kinds[0]))
        where = job_terms.regions or [catalog.DEFAULT_REGION]
        reader.report(other.at, *provisioning.check_one_zone(list(dict.fromkeys(kinds)), where))


def _check_flex_start(reader: Reader, pools: list[Pool]) -> None:
    """Reports pools with different machines; Flex-start provides all machines of a job at once, and of one kind."""
    for pool in pools[1:]:
        first, spec = pools[0].spec, pool.spec
        if first.complete and spec.complete and first.names != spec.names:
            text = f"Flex-start needs the same machine in every pool: {first} and {spec} differ."
            reader.add(pool.at, "GPU008", text, "Use one machine everywhere, or Spot.")


def _check_quota(reader: Reader, job_terms: Terms, pools: list[Pool], trials: int | None) -> None:
    """Reports insufficient default quota for all pools and parallel trials; an unknown number of trials counts as
    one."""
    trials = trials or 1
    asked: dict[str, list[tuple[int, Pool, Combination]]] = defaultdict(list)
    for pool in pools:
        combination = pool.spec.combination
        draw = combination.quota(preemptible=is_preemptible(job_terms.strategy)) if combination else None
        if combination is None or draw is None or (combination.accelerator and pool.is_reserved):
            continue
        asked[draw.metric].append((draw.amount * (pool.replicas or 1) * trials, pool, combination))
    for drawn in asked.values():
        _, largest, combination = max(drawn, key=itemgetter(0))
        amount = sum(each for each, _, _ in drawn)
        problems = provisioning.quota_problems(combination, amount, job_terms.regions, job_terms.strategy)
        reader.report(largest.at, *problems)


def _build_rows(
    step: str, job_terms: Terms, pools: list[Pool], trials: int | None, rounds: int | None, timeout_s: float | None
) -> list[StepRow]:
    """Returns one row for each kind of machine; pools of identical machines are added up."""
    kinds: dict[object, list[Pool]] = defaultdict(list)
    for pool in pools:
        kinds[pool.spec.names].append(pool)
    rows = []
    for same in kinds.values():
        spec, is_reserved = same[-1].spec, same[-1].is_reserved
        counts = [pool.replicas for pool in same if pool.replicas is not None]
        total = None if trials is None or len(counts) < len(same) else sum(counts) * trials
        way = "reservation" if is_reserved else STRATEGIES.get(job_terms.strategy, "standard")
        usd, region = price_of(spec, job_terms.regions, way)
        row = spec.row(step, total, job_terms.strategy, usd, region, timeout_s, rounds)
        row = replace(row, boot_disk=_find_dearest_disk(same, region or catalog.DEFAULT_REGION))
        price = tpu_price(spec, job_terms.regions, way) if spec.is_tpu else None
        rows.append(
            replace(row, usd_per_hour=price.usd_per_hour, region=price.region, tpu_price=price) if price else row
        )
    return rows


def _find_dearest_disk(pools: list[Pool], region: str) -> tuple[str, int] | None:
    """Returns the most expensive boot disk of the pools as a bound for all; None if one is unknown or has no price."""
    disks = [pool.boot_disk for pool in pools if pool.boot_disk]
    priced = [(price.usd_per_hour, disk) for disk in disks if (price := prices.boot_disk(*disk, region))]
    return max(priced)[1] if len(priced) == len(pools) else None


UNUSED_SERVERS = "GPU036"
_SERVER = "/training/reductionserver"
#: Google's training images with GPUs contain the plugin, according to their page; other images are not known to.
_HAS_PLUGIN = re.compile(r"^[a-z]+-docker\.pkg\.dev/vertex-ai/training/(pytorch|tf)-gpu\.")


#: https://docs.cloud.google.com/vertex-ai/docs/training/distributed-training#reduce_training_time_with_reduction_server
def judge_reduction_servers(reader: Reader, nodes: Sequence[Node], pools: Sequence[Pool]) -> None:
    """Reports reduction servers without effect: they need several machines with GPUs and NCCL's plugin in the image."""
    if len(nodes) < 3 or _SERVER not in (_find_image(nodes[2]).text() or ""):
        return
    with_gpus = [pool for pool in pools if pool.spec.accelerator]
    known = all(pool.spec.complete and pool.replicas is not None for pool in pools)
    if known and sum(pool.replicas or 0 for pool in with_gpus) < 2:
        text = "Reduction servers sum gradients of several machines with GPUs; this job has fewer than two."
        reader.add(nodes[2], UNUSED_SERVERS, text, "Remove the third pool, or add workers with GPUs.")
        return
    for node in nodes[:2]:
        image = _find_image(node)
        name = image.text()
        if name and image.known and not _HAS_PLUGIN.match(name):
            text = (
                f"It is unknown whether {name} has google-reduction-server. Without it NCCL bypasses the "
                "reduction servers, which are billed anyway."
            )
            fix = "Install the package in the image (docs/reference/rules/GPU036.md), or remove the third pool."
            reader.add(image, UNUSED_SERVERS, text, fix)
            return


def _find_image(pool: Node) -> Node:
    return pool.get("containerSpec").get("imageUri")
