"""JSON values leaf by leaf: what differs in an object of which nobody has to know the fields."""

from collections.abc import Iterator, Mapping
from typing import Any


def leaves(value: Any, prefix: str = "") -> dict[str, Any]:
    """Every text, number and list of them in an object by the way to it: disk_spec.boot_disk_size_gb.

    Members of a list go by their names where they are name and value, as environment variables are, else by their
    numbers; one alone needs none.
    """
    return {f"{prefix}{way}": leaf for way, leaf in _leaves(value, "")}


def _leaves(value: Any, way: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, _on(way, key))
    elif isinstance(value, list) and any(isinstance(each, Mapping | list) for each in value):
        for number, each in enumerate(value):
            if isinstance(each, Mapping) and each.keys() == {"name", "value"}:
                yield _on(way, each["name"]), each["value"]
            else:
                yield from _leaves(each, _on(way, number) if len(value) > 1 else way)
    else:
        yield way, value


def _on(way: str, key: Any) -> str:
    return f"{way}.{key}" if way else str(key)
