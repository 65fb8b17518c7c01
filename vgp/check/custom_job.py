"""Judges a CustomJobSpec: its worker pools, their machines, disks and images, and the scheduling around them."""

from vgp.check.fields import Reader
from vgp.check.finding import Judgement, StepRow, unknown_machine
from vgp.check.machine_spec import Asked, judge, judge_region, price_of
from vgp.check.pool_body import judge_body
from vgp.documents.budget import spend
from vgp.documents.node import Node
from vgp.placement import job_fields, provisioning, quota
from vgp.placement.provisioning import STRATEGIES

MAX_POOLS = 4
_ROLES = ("the chief", "the workers", "parameter or reduction servers", "the evaluators")


class Job:
    """One custom job, or one trial of a tuning job: `trials` run at a time, in `rounds`; None: not known."""

    def __init__(
        self, judgement: Judgement, step: str, spec: Node, *, location: Node | None = None, trials: int = 1,
        rounds: int | None = 1, strict_list: bool = False,
    ) -> None:  # fmt: skip
        self.judgement, self.step, self.spec, self.trials, self.rounds = judgement, step, spec, trials, rounds
        self.reader = Reader(judgement, step)
        self.strict_list = strict_list
        self.location = location
        self.scheduling = self.reader.object(spec.get("scheduling"), "scheduling") or Node(
            None, (*spec.path, "scheduling")
        )
        self.regions = self._regions()
        self.strategy, self.strategy_known = self._strategy()
        self.asked: list[tuple[Node, Asked, int | None, bool | None]] = []

    def judge(self) -> None:
        pools = self._pools()
        if pools is None:
            self.judgement.steps.append(unknown_machine(self.step, self.strategy, self.regions))
            return
        self._shape(pools)
        for index, pool in enumerate(pools):
            if pool.value not in ({}, None):
                self._pool(index, pool)
        timeout_s = self._schedule(bool(pools))
        self._flex_start()
        self._quota()
        self._rows(timeout_s)

    def _regions(self) -> list[str]:
        """The job's own region where the file names one, else those that were asked about."""
        if self.location is not None and self.location.text():
            return [self.location.text() or ""]
        return list(self.judgement.regions)

    def _strategy(self) -> tuple[str, bool]:
        node = self.scheduling.get("strategy")
        if not node.known:
            self.judgement.unknown(self.step, node, "strategy")
            return "STANDARD", False
        if node.value in (None, "", 0, "STRATEGY_UNSPECIFIED"):
            return self.judgement.strategy or "STANDARD", True
        if not isinstance(node.value, str | int) or isinstance(node.value, bool):
            self.judgement.malformed(self.step, node, "strategy", "a text")
            return "STANDARD", False
        name = provisioning.strategy_name(node.value)
        for each in provisioning.strategy_known(name):
            self.judgement.report(self.step, node, each)
        return name, name in STRATEGIES

    def _pools(self) -> list[Node] | None:
        node = self.spec.get("workerPoolSpecs").decoded()
        if not node.known:
            self.judgement.unknown(self.step, node, "workerPoolSpecs")
            return None
        if isinstance(node.value, dict):
            text = "workerPoolSpecs is a mapping: gcloud takes it for one pool, the REST API and the SDK refuse it."
            level = "error" if self.strict_list else "warning"
            self.judgement.say(self.step, node, "GPU026", text, "Write a list: '- machineSpec: ...'.", level)
            return [node]
        if not isinstance(node.value, list):
            if node.value is None and self.spec.get("persistentResourceId").value:
                return []
            self.judgement.malformed(self.step, node, "workerPoolSpecs", "a list of worker pools")
            return None
        if not node.value:
            self.judgement.malformed(self.step, node, "workerPoolSpecs", "a list with at least one pool")
        return [pool.decoded() for pool in node.items()]

    def _shape(self, pools: list[Node]) -> None:
        if len(pools) > MAX_POOLS:
            text = f"A job has at most {MAX_POOLS} worker pools ({', '.join(_ROLES)}); this one has {len(pools)}."
            fix = "More machines of one kind are a higher replicaCount, not more pools."
            self.judgement.say(self.step, pools[MAX_POOLS], "GPU007", text, fix)
        if pools and pools[0].value in ({}, None):
            text = "Pool 0 is empty; it holds the chief, which every job needs."
            self.judgement.say(self.step, pools[0], "GPU007", text, "Describe the chief in pool 0.")

    def _pool(self, index: int, pool: Node) -> None:
        spend("steps")
        if self.reader.object(pool, f"workerPoolSpecs[{index}]") is None:
            return
        self.reader.keys(pool, "workerPoolSpec")
        replicas = self._replicas(index, pool)
        spec = self.reader.object(pool.get("machineSpec"), "machineSpec")
        if spec is None:
            if pool.get("machineSpec").missing:
                self.judgement.malformed(self.step, pool.get("machineSpec"), "machineSpec", "given")
            asked = Asked(None, None, 0, False, None)
        else:
            self.reader.keys(spec, "machineSpec")
            asked = judge(self.judgement, self.step, spec)
        reserved = self._reservation(spec) if spec is not None else None
        at = spec.get("machineType") if spec is not None else pool
        self._placed(at, asked, reserved)
        self._disk(pool, asked)
        judge_body(self.reader, pool, asked, is_chief=index == 0)
        self.asked.append((at, asked, replicas, reserved))

    def _placed(self, at: Node, asked: Asked, reserved: bool | None) -> None:
        if asked.combination and self.strategy_known:
            place = self.scheduling.get("strategy")
            place = place if place.value is not None else at
            for each in provisioning.strategy(asked.combination, self.strategy, reserved):
                self.judgement.report(self.step, place, each)
        place = self.location if self.location is not None and self.location.text() else at
        judge_region(self.judgement, self.step, place, asked, self.regions, serving=False)

    def _replicas(self, index: int, pool: Node) -> int | None:
        node = pool.get("replicaCount")
        replicas = self.reader.number(node, "replicaCount")
        if node.missing:
            return 1
        if replicas is None:
            return None
        if index == 0 and replicas != 1:
            text = f"Pool 0 is the chief and has exactly 1 replica, not {replicas}."
            self.judgement.say(self.step, node, "GPU007", text, f"Put the other {max(replicas - 1, 0)} into pool 1.")
        elif replicas == 0:
            text = f"Pool {index} ({_ROLES[min(index, 3)]}) has 0 replicas."
            self.judgement.say(self.step, node, "GPU007", text, "Leave the pool out, or write {} to skip it.")
        return replicas

    def _reservation(self, spec: Node) -> bool | None:
        """Whether the machine may come from a reservation; None if that is not known."""
        node = spec.get("reservationAffinity")
        affinity = self.reader.object(node, "reservationAffinity")
        if affinity is None:
            return None if not node.known else False
        self.reader.keys(affinity, "reservationAffinity")
        kind = affinity.get("reservationAffinityType")
        if isinstance(kind.value, int) and not isinstance(kind.value, bool):
            name = job_fields.AFFINITIES[kind.value] if 0 <= kind.value < 4 else str(kind.value)
        else:
            name = self.reader.text(kind, "reservationAffinityType") or "TYPE_UNSPECIFIED"
        values = affinity.get("values").decoded()
        if not (kind.known and values.known and affinity.get("key").known):
            return None
        texts = [each.text() for each in values.items()]
        if any(text is None for text in texts):
            return None
        for each in job_fields.reservation(
            name,
            self.reader.text(affinity.get("key"), "key"),
            [text or "" for text in texts],
            self.strategy,
            self.regions,
        ):
            self.judgement.report(self.step, affinity, each)
        return name in ("ANY_RESERVATION", "SPECIFIC_RESERVATION")

    def _disk(self, pool: Node, asked: Asked) -> None:
        disk = self.reader.object(pool.get("diskSpec"), "diskSpec")
        if disk is None:
            return
        self.reader.keys(disk, "diskSpec")
        kind, size = disk.get("bootDiskType"), disk.get("bootDiskSizeGb")
        found = job_fields.disk(
            asked.machine, self.reader.text(kind, "bootDiskType"), self.reader.number(size, "bootDiskSizeGb") or None
        )
        for each in found:
            self.judgement.report(self.step, size if each.field == "bootDiskSizeGb" else kind, each)

    def _schedule(self, has_pools: bool) -> float | None:
        """Judges the durations; returns the timeout in seconds, the API's default if there is none."""
        self.reader.keys(self.scheduling, "scheduling")
        timeout, wait = self.scheduling.get("timeout"), self.scheduling.get("maxWaitDuration")
        seconds = {name: self._duration(node, name) for name, node in (("timeout", timeout), ("maxWaitDuration", wait))}
        for each in job_fields.scheduling(self.strategy, seconds["timeout"], seconds["maxWaitDuration"]):
            self.judgement.report(self.step, timeout if each.field == "timeout" else wait, each)
        if not timeout.known:
            return None
        default = seconds["timeout"] in (None, job_fields.MAX_TIMEOUT_S)
        if default and any(asked.accelerator for _, asked, _, _ in self.asked):
            at = timeout if timeout.value is not None else self.spec
            text = "No timeout is set: the job may run, and cost, for 7 days."
            if timeout.value:
                text = "The timeout is 7 days, the most there is."
            self.judgement.say(self.step, at, "GPU021", text, "Set scheduling.timeout, like 86400s.")
        return seconds["timeout"] or job_fields.MAX_TIMEOUT_S

    def _duration(self, node: Node, name: str) -> float | None:
        if not node.known:
            self.judgement.unknown(self.step, node, name)
            return None
        if node.value in (None, ""):
            return None
        seconds = job_fields.duration_s(node.value)
        if seconds is None:
            self.judgement.malformed(self.step, node, name, "a duration in seconds like '3600s'")
        return seconds

    def _flex_start(self) -> None:
        """Flex-start gets all machines of a job at once, and they must be the same."""
        if self.strategy != "FLEX_START":
            return
        for first, each in ((self.asked[0], each) for each in self.asked[1:]):
            if all(asked.complete for asked in (first[1], each[1])) and _kind(first[1]) != _kind(each[1]):
                text = (
                    f"Flex-start needs the same machine in every pool: {_what(first[1])} and {_what(each[1])} differ."
                )
                self.judgement.say(self.step, each[0], "GPU008", text, "Use one machine everywhere, or Spot.")

    def _quota(self) -> None:
        """Quota is counted over all pools, and over the trials that run at a time."""
        gpus: dict[str, int] = {}
        for _, asked, replicas, _ in self.asked:
            if asked.combination and asked.accelerator:
                gpus[asked.accelerator] = gpus.get(asked.accelerator, 0) + asked.count * (replicas or 1) * self.trials
        for at, asked, replicas, reserved in self.asked:
            combination, amount = asked.combination, 0
            if combination and not combination.accelerator:
                amount = combination.vcpu * (replicas or 1) * self.trials
            elif combination and not reserved:
                amount = gpus.pop(asked.accelerator or "", 0)
            if combination and amount:
                for problem in quota.problems(combination, amount, self.regions, self.strategy):
                    self.judgement.report(self.step, at, problem)

    def _rows(self, timeout_s: float | None) -> None:
        """A row for each kind of machine: pools of equal machines are added up."""
        rows: dict[tuple[str | None, str | None, int], tuple[Asked, int | None, bool | None]] = {}
        for _, asked, replicas, reserved in self.asked:
            before = rows.get(_kind(asked), (asked, 0, reserved))[1]
            total = None if before is None or replicas is None else before + replicas * self.trials
            rows[_kind(asked)] = (asked, total, reserved)
        for asked, total, reserved in rows.values():
            way = "reservation" if reserved else STRATEGIES.get(self.strategy, "standard")
            usd, region = price_of(asked, self.regions, way)
            self.judgement.steps.append(
                StepRow(
                    self.step,
                    asked.machine_type,
                    asked.accelerator,
                    asked.count,
                    total,
                    self.strategy,
                    usd,
                    region,
                    timeout_s,
                    self.rounds,
                )  # fmt: skip
            )


def _kind(asked: Asked) -> tuple[str | None, str | None, int]:
    return asked.machine_type, asked.accelerator, asked.count


def _what(asked: Asked) -> str:
    gpus = f"{asked.count} x {asked.accelerator} on " if asked.accelerator else ""
    return f"{gpus}{asked.machine_type}"
