"""A registry's record that lies in memory, and Vertex AI's view of it on the loopback cloud."""

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from tools.emulator.cloud import Cloud
from vgp.base.clock import Clock
from vgp.protocol.model_registry import Terms
from vgp.registry import changes
from vgp.registry.documents import Record, Version

IMAGE = f"us-central1-docker.pkg.dev/test-project/images/training@sha256:{'a' * 64}"
FOLDER = "gs://test-bucket/registry/flights"
TERMS = Terms(image=IMAGE, labels={"team": "sky"})
PARENT = "projects/test-project/locations/us-central1"
WHO = {"who": "test", "why": "a test"}


def version(number: int, **changed: Any) -> Version:
    """A version that is not registered yet."""
    key = hashlib.sha256(str(number).encode()).hexdigest()
    digests = {"model.json": "1" * 64, "model.safetensors": f"{number:064x}"}
    files = {name: {"bytes": 10, "sha256": digest} for name, digest in digests.items()}
    facts = {
        "key": key, "model": f"{FOLDER}/versions/{key}", "files": files, "run": f"training-{number}",
        "pipeline": "training", "task": "mine:Flights", "commit": "abc", "reason": "It is better.", "data": "1-3",
    }  # fmt: skip
    return Version(**facts | changed)


class Registry:
    """The current record of a registry, and every state of it that was read."""

    def __init__(self, versions: int = 0, champion: int | None = None) -> None:
        self.record = Record(model="flights")
        self.reads = 0
        for number in range(1, versions + 1):
            self.register(number)
        if champion:
            self.promote(champion)

    def register(self, number: int, **changed: Any) -> None:
        self.record = changes.register(self.record, version(number, **changed), who="test")

    def promote(self, number: int) -> None:
        expected, key = self.record.aliases.get("champion"), f"promote-{len(self.record.events)}"
        self.record = changes.promote(self.record, number, expected=expected, key=key, **WHO)

    def change(self, what: Callable[..., Record], *arguments: Any) -> None:
        self.record = what(self.record, *arguments, key=f"change-{len(self.record.events)}", **WHO)

    def read(self) -> dict[str, Any]:
        self.reads += 1
        return self.record.model_dump(mode="json")


class CloudClock(Clock):
    """Waits in the cloud's time."""

    def __init__(self, cloud: Cloud, on_pause: Callable[[], None] = lambda: None) -> None:
        self.cloud, self.on_pause, self.paused_s = cloud, on_pause, 0.0

    def now(self) -> float:
        return self.cloud.clock.now().timestamp()

    def sleep(self, seconds: float) -> None:
        self.paused_s += seconds
        self.cloud.clock.advance(seconds)
        self.on_pause()


def later(cloud: Cloud, **passed: float) -> None:
    cloud.clock.advance(timedelta(**passed).total_seconds())


def shown(cloud: Cloud) -> dict[int, set[str]]:
    """Number of a version -> its aliases, as Vertex AI has them; a number that is there twice fails."""
    model = cloud.models.models.get(PARENT.replace("test-project", cloud.project_number) + "/models/flights")
    versions = list(model.versions.values()) if model else []
    numbers = [int(each.labels["registry-number"]) for each in versions]
    assert len(set(numbers)) == len(numbers), f"there twice: {numbers}"
    return {number: set(each.message.version_aliases) for number, each in zip(numbers, versions, strict=True)}
