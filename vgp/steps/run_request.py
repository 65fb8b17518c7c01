"""What a run is asked for, told from its parameters alone: checked before anything starts, by whoever starts it."""

from collections.abc import Collection, Mapping
from typing import Any

from vgp.base.exits import UserError
from vgp.data import task_names, tasks
from vgp.decision.decision import NIGHTS, check
from vgp.decision.release import release_request
from vgp.protocol.pins import Request
from vgp.steps.pins import weights
from vgp.train.config import TrainConfig, parse
from vgp.train.loop.order import check_rungs


def check_request(
    *,
    task: str,
    task_options: Mapping[str, Any],
    champion: str,
    margin: float,
    confidence: float,
    data: str,
    nights: int = NIGHTS,
    as_of: str = "",
    pins: str = "",
    registry: str = "",
    model_name: str = "",
    approve: str = "auto",
    training_options: Mapping[str, Any] | None = None,
    with_task: bool = True,
    with_training: bool = True,
    world_sizes: Collection[int] = (),
    **config: Any,
) -> None:
    """What can be told to be wrong about a run before anything starts.

    Args:
        with_task: Whether the task and the pins are looked into as well, which takes the packages of the training.
        with_training: Whether our own training is to run, and no script of the user's.
        world_sizes: Processes that it may have to begin or go on with: those of its machines, or of a ladder's rungs.

    Raises:
        ValueError: says what was given, the rule, and the choices.
    """
    try:
        settings = check_settings(task, task_options, margin, confidence, nights, training_options, config)
        release_request.check(champion, model_name, approve)
        if with_training:
            check_rungs(settings, world_sizes)
        if with_training and task_names.spec(task) == task_names.SHIPPED["files"]:
            raise UserError(tasks.NO_ROWS)
        if with_task:
            from vgp.steps.pins import request
            from vgp.train.loop import selection

            work = tasks.load(task, task_options)
            asked = pinned_request(data, task, task_options, champion, registry, model_name, training_options)
            if with_training:
                selection.require_metric(settings, work)
            check(margin, confidence, nights, bounded=not work.regression)
            request.check(work, asked, as_of=as_of, pins=pins)
    except UserError as error:
        raise ValueError(str(error)) from None


def check_settings(
    task: str,
    task_options: Mapping[str, Any] | None,
    margin: float,
    confidence: float,
    nights: int,
    training_options: Mapping[str, Any] | None,
    config: Mapping[str, Any],
) -> TrainConfig:
    """The settings of the training, and those of the gate checked. Raises UserError for what cannot be."""
    task_names.parts(task)
    check(margin, confidence, nights)
    return parse({"task": task, "options": dict(task_options or {}), **with_options(config, training_options)})


def with_options(config: Mapping[str, Any], options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The settings of the form, and those that it has no field for.

    Raises:
        UserError: one of the options has a field of its own, whose value would be another.
    """
    fields = {
        "task": "task",
        "options": "task_options",
        "task_options": "task_options",
        **{name: name for name in config},
    }
    for name in options or {}:
        if name in fields:
            raise UserError(
                f"training_options holds {name}, which has a parameter of its own: give it as {fields[name]}, "
                "and leave it out of training_options."
            )
    return {**config, **whole(options or {})}


def pinned_request(
    data: str, task: str, task_options: Mapping[str, Any] | None, champion: str, registry: str, model_name: str,
    training_options: Mapping[str, Any] | None,
) -> Request:  # fmt: skip
    """What is pinned of a run's parameters: what it reads and by which rules, not how it trains or decides."""
    return Request(
        data=data, task=task_names.spec(task), task_options=whole(task_options or {}), champion=champion,
        registry=registry, model_name=model_name, warm_start=weights.asked(training_options),
    )  # fmt: skip


def whole(value: Any) -> Any:
    """The value with its whole numbers as integers: KFP hands every number in a JSON object over as a float."""
    if isinstance(value, Mapping):
        return {key: whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
