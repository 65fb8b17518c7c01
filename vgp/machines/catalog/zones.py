"""Which zones of a region have an accelerator. zones.json says where that is from, and of which date it is."""

from collections.abc import Iterable

from vgp.machines.catalog.catalog import document


def zones(accelerator: str, region: str) -> frozenset[str] | None:
    """The names of the zones, as us-central1-a; None where they are not known."""
    letters = document("zones.json")["zones"].get(accelerator, {}).get(region)
    return None if letters is None else frozenset(f"{region}-{letter}" for letter in letters)


def shared(accelerators: Iterable[str], region: str) -> frozenset[str] | None:
    """The zones that have all of them; None where those of one are not known."""
    known = [zones(accelerator, region) for accelerator in accelerators]
    found = [each for each in known if each is not None]
    return frozenset.intersection(*found) if found and len(found) == len(known) else None
