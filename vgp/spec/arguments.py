"""The arguments of a run, checked against the parameters that its pipeline declares."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from vgp.errors import RequestError
from vgp.spec import placeholders
from vgp.spec.parameters import Parameter
from vgp.text.nearest import did_you_mean
from vgp.text.printable import PASSWORD

Parameters = Mapping[str, Parameter]


def parsed(parameters: Parameters, texts: Sequence[str]) -> dict[str, Any]:
    """`name=value` texts as typed arguments.

    Raises:
        RequestError: a text without `=`, an unknown or repeated name, a value of the wrong type, a missing value.
    """
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise RequestError(f"--set {text}: give it as name=value.")
        if name not in parameters:
            raise RequestError(f"--set {text}: the pipeline has no parameter {name!r}. {_near(name, parameters)}")
        if name in values:
            raise RequestError(f"--set {name} is given twice.")
        values[name] = parameters[name].parsed(value)
        if values[name] is None:
            raise RequestError(f"--set {name}={value}: {name} takes {parameters[name].takes}.")
    return _complete(parameters, values)


def checked(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, Any]:
    """Typed values, as of a settings file, if they are arguments of the pipeline.

    Raises:
        RequestError: an unknown name, a value of the wrong type, a missing value.
    """
    for name, value in values.items():
        if name not in parameters:
            raise RequestError(f"the pipeline has no parameter {name!r}. {_near(name, parameters)}")
        if not parameters[name].fits(value):
            shown = json.dumps(value, default=str)
            raise RequestError(f"{name} = {shown}: {name} takes {parameters[name].takes}.")
    return _complete(parameters, values)


def _complete(parameters: Parameters, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values, if none is missing and none would arrive as another, or be shown where no password belongs."""
    missing = [
        name
        for name, parameter in parameters.items()
        if name not in values and not parameter.has_default and not parameter.is_optional
    ]
    if missing:
        raise RequestError(f"the pipeline needs a value for {', '.join(missing)}: --set {missing[0]}=...")
    for name, value in values.items():
        if placeholders.within(value):
            raise RequestError(f"{name} {placeholders.RULE}")
        if any(map(PASSWORD.search, placeholders.texts(value))):
            raise RequestError(
                f"{name} holds an address with a password, and parameters are shown in specs, logs and the console. "
                "Leave it out of the address."
            )
    return dict(values)


def _near(name: str, parameters: Parameters) -> str:
    return did_you_mean(name, parameters, f"It has {', '.join(sorted(parameters))}.")
