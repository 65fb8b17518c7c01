"""What an optimizer keeps besides tensors, such as a learning rate: JSON, and not believed when it is read."""

import math
from collections.abc import Mapping, Sequence
from typing import Any


def is_json(value: Any) -> bool:
    return (
        value is None
        or isinstance(value, bool | int | float | str)
        or (isinstance(value, list | tuple) and all(map(is_json, value)))
    )


def require_plausible(
    scalars: Mapping[str, Any], groups: Sequence[Mapping[str, Any]], states: Mapping[str, Mapping[str, Any]]
) -> None:
    """Raises ValueError unless the saved values could have come from an optimizer with these groups.

    Args:
        scalars: `groups`, a mapping of hyperparameters for each; `states`, by parameter and name.
        groups: What the optimizer has now; `params` is its own.
        states: The saved tensors of each parameter, by name.
    """
    if scalars.keys() != {"groups", "states"} or not isinstance(scalars["groups"], list):
        raise ValueError("the optimizer's values are not as they were written")
    if len(scalars["groups"]) != len(groups):
        raise ValueError(f"{len(scalars['groups'])} groups of parameters instead of {len(groups)}")
    for group, saved in zip(groups, scalars["groups"], strict=True):
        _require_group(group, saved)
    _require_states(scalars["states"], states)


def _require_group(group: Mapping[str, Any], saved: Any) -> None:
    if not isinstance(saved, Mapping):
        raise ValueError("a group of parameters is no mapping")
    for key, value in saved.items():
        if key == "params" or key not in group or not _alike(group[key], value):
            raise ValueError(f"{key} = {str(value)[:40]} of a group of parameters")


def _require_states(saved: Any, states: Mapping[str, Mapping[str, Any]]) -> None:
    if not isinstance(saved, Mapping):
        raise ValueError("the states of the parameters are no mapping")
    for name, values in saved.items():
        if name not in states or not isinstance(values, Mapping) or values.keys() & states[name].keys():
            raise ValueError(f"the optimizer's state of {name}")
        if not all(map(_is_finite, values.values())):
            raise ValueError(f"the optimizer's state of {name}")


def _alike(now: Any, saved: Any) -> bool:
    """Whether a value may stand where `now` stands. Switches that are left open (None) may be on or off."""
    if isinstance(now, bool) or now is None or saved is None:
        return saved is None or isinstance(saved, bool)
    if isinstance(now, list | tuple):
        return isinstance(saved, list) and len(saved) == len(now) and all(map(_alike, now, saved))
    if isinstance(now, str):
        return isinstance(saved, str)
    return not isinstance(saved, bool) and isinstance(saved, int | float) and math.isfinite(saved)


def _is_finite(value: Any) -> bool:
    return is_json(value) and not (isinstance(value, float) and not math.isfinite(value))
