"""What a run's release cannot bring, told before anything is trained."""

from datetime import UTC, datetime

from vgp.decision import levels
from vgp.registry import tests_spent
from vgp.registry.registry import Registry


def words(registry: Registry, confidence: float, nights: int) -> tuple[str, ...]:
    """A sentence where no test of the run may promote, since those of a year have used up its error; else nothing."""
    level, now = levels.tonight(confidence, nights), datetime.now(UTC)
    why = tests_spent.used_up(registry.read().spent, "", level, confidence, now)
    return (f"gate: a better model will wait as a candidate, for {why}.",) if why else ()
