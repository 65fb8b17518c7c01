"""The events of a climb, drawn from a seed: capacity, Google's faults, and kills."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from tools.emulator.capacity import World
from tools.emulator.faults import Fault, late, lose_response, repeat_request, reset, slow, status

CALLS = ("create", "get", "list", "cancel")
#: The answer to too many requests, which Google's clients retry: https://cloud.google.com/vertex-ai/docs/quotas.
BUSY = "Quota exceeded for quota metric 'Custom job requests' and limit 'Requests per minute' of service 'aiplatform'."
#: Seconds during which kills happen.
LENGTH_S = 4000.0


@dataclass(frozen=True)
class NodeLoss:
    """The permanent loss of a machine of the running job, without a notice."""

    at_s: float
    #: 0 is the job's first machine, -1 its last.
    node: int = -1
    #: Whether Vertex AI notices the loss; if not, the other machines must. It always notices that of a single machine.
    noticed: bool = True


@dataclass
class Scenario:
    seed: int
    world: World
    #: Faults by method of custom jobs, one for each call, and of storage.
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    #: (time of a kill of the launcher, delay of its restart), in seconds of the cloud's time.
    launcher_kills: list[tuple[float, float]] = field(default_factory=list)
    node_losses: list[NodeLoss] = field(default_factory=list)
    #: Times at which all machines of the running Spot job are removed at once, without a notice.
    job_kills: list[float] = field(default_factory=list)
    #: Whether a restarted launcher is a retry of the step by Vertex AI, with another output folder.
    moves: list[bool] = field(default_factory=list)
    quotas: dict[str, int] = field(default_factory=dict)
    list_lag_s: float = 0
    error_late_s: float = 0
    deadline_s: float | None = None

    @classmethod
    def draw(cls, seed: int) -> "Scenario":
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
        """Returns a scenario with more kills of jobs, for a ladder on L4 with rungs of two machines."""
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
        """Returns a scenario with machines everywhere and no faults."""
        world = World(seed)
        world.always("*", "*", "*")
        return cls(seed, world)

    def with_on_demand(self) -> "Scenario":
        """Returns a scenario in which jobs wait: on demand always, Spot at times, no deadline."""
        self.world.habit("spot", 400, 500)
        self.world.always("us-east4", "*", "standard")
        self.deadline_s, self.quotas = None, {}
        return self


def moments(chance: random.Random, mean_s: float, length_s: float) -> Iterator[float]:
    """Yields times in seconds, at exponential distances."""
    at = 0.0
    while (at := at + chance.expovariate(1 / mean_s)) < length_s:
        yield at


def faults(chance: random.Random, name: str, rate: float = 0.08, count: int = 60) -> list[Fault]:
    """Returns the faults of the next calls of a method, most of them empty."""
    kinds = [status(503), status(500), status(429, BUSY), reset(), lose_response(), late(0.3), slow(0.3)]
    if name == "create":
        kinds.append(repeat_request())
    if name == "storage":  # storage gets no 429 and no `repeat_request`
        kinds = [status(503), reset(), lose_response(), late(0.1)]
    return [chance.choice(kinds) if chance.random() < rate else Fault() for _ in range(count)]
