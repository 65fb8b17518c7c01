"""The form of a run: its parameters as typed settings, checked before the run starts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.data import task_names, tasks
from vgp.data.task import Options, Task
from vgp.decision import decision
from vgp.decision.decision import Terms, read_terms
from vgp.decision.retraining import policy
from vgp.decision.retraining.policy import Policy
from vgp.protocol.pins import Request
from vgp.registry import reigning
from vgp.train.train_config import TrainConfig, check_rungs, parse_config

#: Parameters of the decision to train.
RULES = tuple(policy.check_policy.__kwdefaults__ or ())
#: Run parameters other than training settings, with defaults.
_INPUTS: JsonObject = {
    "data": "", "task": "flights", "task_options": {}, "champion": "", "registry": "", "model_name": "",
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """The checked parameters of a run; a new parameter is a field of one of its four parts."""

    #: The pinned part: inputs and rules for reading them.
    request: Request
    config: TrainConfig
    terms: Terms
    policy: Policy
    #: Training settings with a pipeline parameter of their own.
    fields: frozenset[str]

    @property
    def settings(self) -> JsonObject:
        """Returns the training settings for the step `train`; equal settings give an equal value (a cache key).

        Settings without a parameter of their own are left out at their defaults.
        """
        values = self.config.model_dump(mode="json", exclude={"task", "options"})
        defaults = parse_config({}).model_dump(mode="json")
        return {name: value for name, value in values.items() if name in self.fields or value != defaults[name]}


def read_form(values: JsonObject) -> Form:
    """Reads the parameters of a run.

    Raises:
        UserError: a value breaks its rule, or a parameter is unknown.
    """
    inputs: JsonObject = {name: values.get(name, default) for name, default in _INPUTS.items()}
    task_names.parts(inputs["task"])
    terms = read_terms({name: values[name] for name in decision.ASKED if name in values})
    rules = policy.check_policy(**{name: values[name] for name in RULES if name in values})
    others = {*_INPUTS, *decision.ASKED, *RULES, "training_options"}
    config = {name: value for name, value in values.items() if name not in others}
    options = inputs["task_options"] or {}
    settings = parse_config(
        {"task": inputs["task"], "options": dict(options), **_with_options(config, values.get("training_options"))}
    )
    decision.check_release(inputs["champion"], inputs["model_name"], terms.approve)
    inputs |= {"task": task_names.spec(inputs["task"]), "task_options": whole(options)}
    return Form(Request(**inputs, warm_start=settings.warm_start), settings, terms, rules, frozenset(config))


def check_request(
    *,
    as_of: str = "",
    pins: str = "",
    with_task: bool = True,
    with_training: bool = True,
    world_sizes: Collection[int] = (),
    **values: Any,
) -> None:
    """Checks the parameters of a run before it starts.

    Args:
        with_task: Whether to check task and pins, which needs the training packages.
        with_training: Whether the built-in training runs, not your own script.
        world_sizes: Possible numbers of processes: those of the machines, or of a ladder's rungs.
        values: Parameters by name.

    Raises:
        ValueError: a parameter is invalid; the message has its value, the rule and the choices.
    """
    try:
        form = read_form(values)
        if with_training:
            check_rungs(form.config, world_sizes)
            if form.request.task == task_names.SHIPPED["files"]:
                raise UserError(tasks.NO_ROWS)
        if with_task:
            from vgp.steps.pins import request
            from vgp.train.loop import validation_metric

            work = tasks.load(form.request.task, form.request.task_options)
            if with_training:
                validation_metric.require_metric(form.config, work)
            check_bounds(form, work)
            request.check(work, form.request, as_of=as_of, pins=pins)
    except UserError as error:
        raise ValueError(str(error)) from None


def check_bounds(form: Form, work: Task) -> None:
    """Raises UserError for a margin outside of the range of the task's loss, or a `worst_day` of rows without days."""
    terms = form.terms
    decision.check(terms.margin, terms.confidence, terms.nights, terms.worst_day, bounded=not work.regression)
    decision.check_worst_day(terms.worst_day, work.grouped_by)
    if terms.worst_day and reigning.is_folder(form.request.champion):
        raise UserError(
            f"worst_day = {terms.worst_day:g} needs the evidence of earlier nights, which a registry keeps for its "
            "champion only: set champion = auto, or leave worst_day at 0."
        )


def _with_options(config: JsonObject, options: Options | None) -> JsonObject:
    """Returns the settings of the form merged with `training_options`.

    Raises:
        UserError: an option has a parameter of its own with another value.
    """
    own = {"task": "task", "options": "task_options", "task_options": "task_options"}
    fields = {**own, **{name: name for name in config}}
    for name in options or {}:
        if name in fields:
            raise UserError(
                f"training_options holds {name}, which has its own parameter: give it as {fields[name]} "
                "and remove it from training_options."
            )
    return {**config, **whole(options or {})}


def whole(value: Any) -> Any:
    """Returns the value with whole floats as integers, because KFP passes every JSON number as a float."""
    if isinstance(value, Mapping):
        return {key: whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
