"""What happens to a climb, all of it drawn from a seed: capacity, Google's faults, and who is killed when."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.emulator.capacity import World
from tools.emulator.faults import Fault, late, lost_response, repeated, reset, slow, status

CALLS = ("create", "get", "list", "cancel")
#: A limit of requests, which Google's clients try again: https://cloud.google.com/vertex-ai/docs/quotas.
BUSY = "Quota exceeded for quota metric 'Custom job requests' and limit 'Requests per minute' of service 'aiplatform'."
#: For so long somebody is killed now and then, seconds.
LENGTH_S = 4000.0


@dataclass(frozen=True)
class NodeLoss:
    """A machine of the job that runs is gone for good, without a notice."""

    at_s: float
    #: 0 is the job's first one, -1 its last.
    node: int = -1
    #: Whether Vertex AI notices; else its other machines have to. Of a job's only machine it always does.
    noticed: bool = True


@dataclass
class Scenario:
    seed: int
    world: World
    #: Faults of each method of custom jobs, one a call, and of storage.
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    #: Seconds of the cloud's time from the beginning: the launcher is killed, and how long nobody starts it again.
    launcher_kills: list[tuple[float, float]] = field(default_factory=list)
    node_losses: list[NodeLoss] = field(default_factory=list)
    #: All machines of the Spot job that runs are taken away at once, without a notice.
    job_kills: list[float] = field(default_factory=list)
    #: Whether a launcher that is started again is another attempt of Vertex AI at the step, with outputs elsewhere.
    moves: list[bool] = field(default_factory=list)
    quotas: dict[str, int] = field(default_factory=dict)
    list_lag_s: float = 0
    error_late_s: float = 0
    deadline_s: float | None = None

    @classmethod
    def drawn(cls, seed: int) -> "Scenario":
        chance, world = random.Random(f"scenario {seed}"), World(seed)
        world.habit("spot", chance.uniform(200, 900), chance.uniform(100, 600))
        world.habit("flex_start", 600, chance.uniform(300, 1500))
        world.habit("standard", 3000, chance.uniform(60, 600))
        made = cls(seed, world)
        made.faults = {f"aiplatform.*.customJobs.{name}": faults(chance, name) for name in CALLS}
        made.faults["storage.objects.*"] = faults(chance, "storage", rate=0.01, count=400)
        for at in moments(chance, 500, LENGTH_S):
            made.launcher_kills.append((at, chance.uniform(1, 120)))
            made.moves.append(chance.random() < 0.25)
        made.node_losses = [NodeLoss(at) for at in moments(chance, 1500, LENGTH_S)]
        if chance.random() < 0.2:
            made.quotas["custom_model_training_preemptible_nvidia_h100_80gb_gpus"] = chance.choice((0, 8))
        made.list_lag_s, made.error_late_s = chance.choice((0, 10, 40)), chance.choice((0, 0, 60))
        made.deadline_s = chance.choice((None, None, 3 * 3600))
        return made

    def rougher(self) -> "Scenario":
        """With more that kills jobs, for a ladder on L4 of which some rungs have two machines."""
        chance = random.Random(f"machines {self.seed}")
        for at in moments(chance, 800, LENGTH_S):
            self.node_losses.append(NodeLoss(at, chance.choice((0, -1)), chance.random() < 0.4))
        self.job_kills = list(moments(chance, 900, LENGTH_S))
        if self.quotas:
            self.quotas = {"custom_model_training_preemptible_nvidia_l4_gpus": chance.choice((0, 1))}
        self.node_losses.sort(key=lambda loss: loss.at_s)
        return self

    @classmethod
    def calm(cls, seed: int = 0) -> "Scenario":
        """Machines everywhere, and nothing goes wrong."""
        world = World(seed)
        world.always("*", "*", "*")
        return cls(seed, world)

    def with_on_demand(self) -> "Scenario":
        """With on demand always there, a Spot that comes and goes, and nothing to be in time for: jobs wait."""
        self.world.habit("spot", 400, 500)
        self.world.always("us-east4", "*", "standard")
        self.deadline_s, self.quotas = None, {}
        return self


def moments(chance: random.Random, mean_s: float, length_s: float) -> Iterator[float]:
    """At exponential distances, in seconds."""
    at = 0.0
    while (at := at + chance.expovariate(1 / mean_s)) < length_s:
        yield at


def faults(chance: random.Random, name: str, rate: float = 0.08, count: int = 60) -> list[Fault]:
    """What the next calls of a method meet, most of them nothing."""
    kinds = [status(503), status(500), status(429, BUSY), reset(), lost_response(), late(0.3), slow(0.3)]
    if name == "create":
        kinds.append(repeated())
    if name == "storage":  # the loopback's own limit would be an hour's: what is handled twice is no fault of it
        kinds = [status(503), reset(), lost_response(), late(0.1)]
    return [chance.choice(kinds) if chance.random() < rate else Fault() for _ in range(count)]
