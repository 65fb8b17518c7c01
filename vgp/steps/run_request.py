"""The form of a run: its parameters, read into the typed settings that they belong to, and checked before it starts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.exits import UserError
from vgp.data import task_names, tasks
from vgp.data.task import Options
from vgp.decision import decision
from vgp.decision.decision import Terms, read_terms
from vgp.decision.retraining import policy
from vgp.decision.retraining.policy import Policy
from vgp.protocol.pins import Request
from vgp.train.config import TrainConfig, check_rungs, parse

#: The parameters that say when a run trains.
RULES = tuple(policy.checked.__kwdefaults__ or ())
#: Parameters of a run that are no settings of the training, and their values where none are given.
_ASKED: JsonObject = {
    "data": "", "task": "flights", "task_options": {}, "champion": "", "registry": "", "model_name": "",
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """The parameters of a run, checked. A new setting is a field of one of these four, and is read without a change."""

    #: What is pinned: what the run reads and by which rules, not how it trains or decides.
    request: Request
    config: TrainConfig
    terms: Terms
    policy: Policy
    #: The settings of the training that have a parameter of their own.
    fields: frozenset[str]

    @property
    def settings(self) -> JsonObject:
        """The settings of the training, as the step train takes them: equal settings are an equal value.

        Those without a parameter of their own are left out where they are at their defaults.
        """
        values = self.config.model_dump(mode="json", exclude={"task", "options"})
        defaults = parse({}).model_dump(mode="json")
        return {name: value for name, value in values.items() if name in self.fields or value != defaults[name]}


def read_form(values: JsonObject) -> Form:
    """Reads the parameters of a run into its settings.

    Raises:
        UserError: a value breaks its rule, or there is no such parameter.
    """
    asked: JsonObject = {name: values.get(name, default) for name, default in _ASKED.items()}
    task_names.parts(asked["task"])
    terms = read_terms({name: values[name] for name in Terms.model_fields if name in values})
    rules = policy.checked(**{name: values[name] for name in RULES if name in values})
    taken = {*_ASKED, *Terms.model_fields, *RULES, "training_options"}
    config = {name: value for name, value in values.items() if name not in taken}
    options = asked["task_options"] or {}
    settings = parse(
        {"task": asked["task"], "options": dict(options), **_with_options(config, values.get("training_options"))}
    )
    decision.check_release(asked["champion"], asked["model_name"], terms.approve)
    asked |= {"task": task_names.spec(asked["task"]), "task_options": whole(options)}
    return Form(Request(**asked, warm_start=settings.warm_start), settings, terms, rules, frozenset(config))


def check_request(
    *,
    as_of: str = "",
    pins: str = "",
    with_task: bool = True,
    with_training: bool = True,
    world_sizes: Collection[int] = (),
    **values: Any,
) -> None:
    """Checks what is known to be wrong about a run before anything starts.

    Args:
        with_task: Whether the task and the pins are looked into as well, which takes the packages of the training.
        with_training: Whether our own training is to run, and no script of the user's.
        world_sizes: Processes that it may have to begin or go on with: those of its machines, or of a ladder's rungs.
        values: The form.

    Raises:
        ValueError: says what was given, the rule, and the choices.
    """
    try:
        form = read_form(values)
        if with_training:
            check_rungs(form.config, world_sizes)
            if form.request.task == task_names.SHIPPED["files"]:
                raise UserError(tasks.NO_ROWS)
        if with_task:
            from vgp.steps.pins import request
            from vgp.train.loop import selection

            work = tasks.load(form.request.task, form.request.task_options)
            if with_training:
                selection.require_metric(form.config, work)
            check_bounds(form, bounded=not work.regression)
            request.check(work, form.request, as_of=as_of, pins=pins)
    except UserError as error:
        raise ValueError(str(error)) from None


def check_bounds(form: Form, *, bounded: bool) -> None:
    """Raises UserError for a margin that could be no gain, where the loss of the task is known to be bounded."""
    decision.check(form.terms.margin, form.terms.confidence, form.terms.nights, bounded=bounded)


def _with_options(config: JsonObject, options: Options | None) -> JsonObject:
    """Returns the settings of the form, and those that it has no field for.

    Raises:
        UserError: one of the options has a field of its own, whose value would be another.
    """
    own = {"task": "task", "options": "task_options", "task_options": "task_options"}
    fields = {**own, **{name: name for name in config}}
    for name in options or {}:
        if name in fields:
            raise UserError(
                f"training_options holds {name}, which has a parameter of its own: give it as {fields[name]}, "
                "and leave it out of training_options."
            )
    return {**config, **whole(options or {})}


def whole(value: Any) -> Any:
    """Returns the value with its whole numbers as integers: KFP hands every number in a JSON object over as a float."""
    if isinstance(value, Mapping):
        return {key: whole(member) for key, member in value.items()}
    if isinstance(value, list):
        return [whole(member) for member in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
