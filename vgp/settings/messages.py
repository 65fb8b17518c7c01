"""Formats an error of a value as one line with its place, the value, the rule and the fix."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from pydantic import BaseModel, ValidationError

from vgp.base.text.figures import join_words
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import is_secret
from vgp.machines.placement import job_fields
from vgp.machines.placement.job_options import PrivateServiceConnect
from vgp.machines.placement.request_parts import BigQuery, Dataflow, ParameterServer, Rung, Size
from vgp.machines.placement.step_request import ReductionServer, Request
from vgp.protocol import placeholders
from vgp.settings import value_rules
from vgp.settings.layers import Merged, Source
from vgp.settings.schedule_settings import Schedule
from vgp.settings.settings_model import Mlflow, Notify, Settings
from vgp.settings.settings_text import Keys

#: pydantic's error type -> the expected value in plain words.
_EXPECTED = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list of texts",
    "dict_type": "a table",
    "model_type": "a table",
}


def explain(error: ValidationError, merged: Merged) -> list[str]:
    """Returns a line for each wrong value, in the order of the model."""
    by_keys: dict[Keys, list[Any]] = {}
    for detail in error.errors():
        by_keys.setdefault(_convert_location(detail["loc"], merged.values), []).append(detail)
    return [format_line(merged.nearest(keys), keys, _describe(keys, details)) for keys, details in by_keys.items()]


def refuse_texts(merged: Merged) -> list[str]:
    """Returns a line for each credential or placeholder among the settings, without its text."""
    secret = "looks like a credential; specs and logs show settings. Revoke it; store the new one in Secret Manager."
    wrong = [(keys, secret) for keys in _find_matches(merged.values, is_secret)]
    wrong += [(keys, placeholders.RULE) for keys in _find_matches(merged.values, placeholders.within)]
    return [format_line(merged.nearest(keys), keys, message) for keys, message in dict.fromkeys(wrong)]


def refuse_hosts(merged: Merged) -> list[str]:
    """Returns a line for each host in a settings file that would get a credential, except Google's and this machine.

    Variables belong to the user of the command, so they may name any host.
    """
    addresses: list[tuple[Keys, Callable[[], str]]] = [
        (("endpoints", api), partial(value_rules.check_file_endpoint, value))
        for api, value in merged.values.get("endpoints", {}).items()
    ]
    addresses += [
        ((*keys, name), partial(value_rules.check_host_variable, name, str(value)))
        for keys, table in _find_env_tables(merged.values.get("steps", {}), ("steps",))
        for name, value in table.items()
    ]
    wrong = []
    for keys, check in addresses:
        try:
            check()
        except ValueError as error:
            if merged.nearest(keys).kind != "variable":
                wrong.append(format_line(merged.nearest(keys), keys, str(error)))
    return wrong


def refuse_conversions(merged: Merged, values: Mapping[str, object]) -> list[str]:
    """Returns a line for each text in a settings file that pydantic read as a number or boolean, and for each boolean
    that it read as a number, or the reverse.

    Variables and flags are always texts, so they are not refused.

    Args:
        merged: The values as written.
        values: The values of the model, by the same keys.
    """
    wrong = []
    for keys, written, value in _find_conversions(merged.values, values):
        if (source := merged.nearest(keys)).kind == "file":
            fix = f"write {_format_input(value)}{', without quotes' if isinstance(written, str) else ''}."
            wrong.append(format_line(source, keys, f"given {_format_input(written)}; {fix}"))
    return wrong


def _find_conversions(written: object, value: object, at: Keys = ()) -> Iterator[tuple[Keys, object, object]]:
    """Yields keys, the written value and the model's value wherever the model converted a text or a boolean."""
    if isinstance(written, Mapping) and isinstance(value, Mapping):
        for key in [key for key in written if key in value]:
            yield from _find_conversions(written[key], value[key], (*at, str(key)))
    elif isinstance(written, list) and isinstance(value, tuple | list):
        for number, (item, inner) in enumerate(zip(written, value, strict=False), 1):
            yield from _find_conversions(item, inner, (*at, str(number)))
    elif isinstance(value, bool | int | float) and (
        isinstance(written, str) or isinstance(written, bool) != isinstance(value, bool)
    ):
        yield at, written, value


def _find_env_tables(value: object, at: Keys) -> Iterator[tuple[Keys, Mapping[str, object]]]:
    """Yields the tables `env` of the steps, their rungs and sizes."""
    if isinstance(value, list):
        for number, inner in enumerate(value, 1):
            yield from _find_env_tables(inner, (*at, str(number)))
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            here = (*at, str(key))
            is_env = len(at) > 1 and key == "env" and isinstance(inner, Mapping)
            yield from [(here, inner)] if is_env else _find_env_tables(inner, here)


def _find_matches(value: object, matches: Callable[[Any], object], at: Keys = ()) -> Iterator[Keys]:
    """Yields the keys of each matching text, and the keys of the table of each matching key."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from [at] if matches(key) else _find_matches(inner, matches, (*at, str(key)))
    elif isinstance(value, list):
        if any(True for inner in value for _ in _find_matches(inner, matches, at)):
            yield at
    elif matches(value):
        yield at


def format_line(source: Source, keys: Keys, message: str) -> str:
    """Returns a line like `pipelines.toml:3: environments.prod.region: MESSAGE` or `PIPELINES_REGION: MESSAGE`."""
    if source.kind == "file":
        return f"{source}: {source.name}: {message}"
    return f"{source.name}: {message}" if len(keys) == 1 else f"{source.name}: {'.'.join(keys)}: {message}"


def _convert_location(location: tuple[int | str, ...], values: object) -> Keys:
    """Returns pydantic's location as keys of the file, without the branches of unions and the marks of keys.

    A table in a list gets its number, from 1: steps.train.capacity.2.
    """
    keys: list[str] = []
    for part in location:
        if isinstance(part, int) and isinstance(values, list) and isinstance(values[part], Mapping):
            keys.append(str(part + 1))
            values = values[part]
            continue
        if not isinstance(values, Mapping) or part == "[key]":
            break
        keys.append(str(part))
        values = values.get(part)
    return tuple(keys)


def _describe(keys: Keys, details: list[Any]) -> str:
    kinds = dict.fromkeys(_EXPECTED[detail["type"]] for detail in details if detail["type"] in _EXPECTED)
    if kinds:
        if keys[-1] == "capacity":
            kinds = {"a list of tables": None}
        return f"given {_format_input(details[0]['input'])}; it takes {join_words(kinds)}."
    detail = details[0]
    match detail["type"]:
        case "extra_forbidden" if keys[2:3] == ("sizes",) and len(keys) == 5 and keys[-1] in Request.model_fields:
            return "is not a key of a size, because it applies to all sizes. Write it beside sizes."
        case "extra_forbidden" if keys[2:3] == ("capacity",) and keys[-1] in Request.model_fields.keys() - {"region"}:
            return "is not a key of a rung, because it applies to all rungs. Write it beside capacity."
        case "extra_forbidden":
            text = job_fields.explain_field(keys[-1]) if keys[0] == "steps" and len(keys) == 3 else ""
            return text or f"there is no such setting. {did_you_mean(keys[-1], _list_fields(keys))}"
        case "missing":
            return "is missing."
        case "literal_error":
            choices = detail["ctx"]["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            return f"given {_format_input(detail['input'])}. {did_you_mean(str(detail['input']), choices)}"
        case "greater_than_equal":
            return f"given {_format_input(detail['input'])}; at least {detail['ctx']['ge']}."
        case "less_than_equal":
            return f"given {_format_input(detail['input'])}; at most {detail['ctx']['le']}."
        case "greater_than":
            return f"given {_format_input(detail['input'])}; more than {detail['ctx']['gt']:g}."
    return str(detail["msg"].removeprefix("Value error, "))


def _format_input(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return (
        repr(value) if isinstance(value, str | int | float) else f"a {'table' if isinstance(value, dict) else 'list'}"
    )


def _list_fields(keys: Keys) -> list[str]:
    """Returns the valid keys at this place, for a suggestion."""
    if keys[0] in ("notify", "mlflow"):
        return list((Notify if keys[0] == "notify" else Mlflow).model_fields)
    if len(keys) == 1:
        return [name for name in Settings.model_fields if name != "environment"] + ["environments"]
    tables: dict[str, type[BaseModel]] = {"steps": Request, "schedules": Schedule}
    inside: dict[str, type[BaseModel]] = {
        "reduction_server": ReductionServer, "parameter_server": ParameterServer,
        "bigquery": BigQuery, "dataflow": Dataflow, "private_service_connect": PrivateServiceConnect,
        "capacity": Rung, "sizes": Size,
    }  # fmt: skip
    inner = next((name for name in keys[2:-1] if name in inside), "")
    return list((inside.get(inner) or tables[keys[0]]).model_fields)
