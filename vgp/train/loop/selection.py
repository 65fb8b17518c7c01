"""Which metric says what the best validation is, and what a run needs for that. No torch here."""

import re
from collections.abc import Mapping

from vgp.base.exits import UserError
from vgp.base.text.nearest import nearest
from vgp.data.task import Task
from vgp.train.config import TrainConfig
from vgp.train.loop.order import Plan

#: The metric that every task has: the mean loss over the held-out rows.
LOSS = "validation_loss"
#: The metric that every task of classes has unless it measures itself.
ACCURACY = "accuracy"
#: Every validation is a point of the learning curve, which each checkpoint and the model's card hold.
_MOST_VALIDATIONS = 10_000
_NAME = re.compile(r"[A-Za-z][\w@.%-]*")
#: Settings that say something about validations, and are without effect where there are none.
_ABOUT_VALIDATIONS = ("validate_every_steps", "validate_every_s", "patience", "best_metric", "min_delta")


def measures_itself(task: Task) -> bool:
    """Whether the task says what validations measure besides the loss."""
    return type(task).validation is not Task.validation


def metrics(task: Task) -> dict[str, str]:
    """What `best_metric` may name, and whether the "min" or the "max" of it is best.

    Raises:
        UserError: what the task declares cannot be a metric.
    """
    if measures_itself(task) != bool(task.metrics):
        raise UserError(
            f"{type(task).__name__} must have both `metrics`, which names what validations measure besides the loss, "
            "and `validation`, which measures it; or neither."
        )
    for name, best in task.metrics.items():
        if not _NAME.fullmatch(name) or name == LOSS or best not in ("min", "max"):
            raise UserError(
                f"{type(task).__name__}.metrics = {dict(task.metrics)}: each is a name of letters, digits and _ @ . % "
                f"-, other than {LOSS}, and 'max' or 'min', whichever is best."
            )
    own = dict(task.metrics) or ({ACCURACY: "max"} if task.classes and not task.likelihood else {})
    return {LOSS: "min", **own}


def require_metric(config: TrainConfig, task: Task) -> None:
    """Raises UserError unless the task has the metric that the best validation is chosen by, and, as far as its options
    tell, rows to validate on."""
    given = _about_validations(config)
    if given and getattr(getattr(task, "split", None), "validation_percent", None) == 0:
        raise UserError(
            f"{given}: there are no rows to validate on, since validation_share is 0. Leave it out, or give a share of "
            "the rows that train, such as 0.05 (task_options, or [split] of a task.toml)."
        )
    choices = metrics(task)
    if config.best_metric not in choices:
        near = nearest(config.best_metric, choices)
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(
            f"best_metric={config.best_metric}: {type(task).__name__} has {', '.join(choices)}.{hint} "
            "A metric of its own is declared in `metrics` of the task, and measured by `validation`."
        )


def require(config: TrainConfig, task: Task, rows: Mapping[str, int]) -> None:
    """Raises UserError unless the task and the rows of each split suit what is wanted of validations."""
    require_metric(config, task)
    given = _about_validations(config)
    if given and not rows.get("validation"):
        raise UserError(
            f"{given}: there are no rows to validate on; the data has {counts(rows)}. Leave it out, or prepare the "
            "data with a validation split (task_options)."
        )
    steps = Plan(rows["train"], config.epochs, config.global_batch_size, 1, config.seed).steps
    if config.validate_every_steps and steps // config.validate_every_steps > _MOST_VALIDATIONS:
        raise UserError(
            f"validate_every_steps={config.validate_every_steps} gives {steps // config.validate_every_steps:,} "
            f"validations in {steps:,} steps; {_MOST_VALIDATIONS:,} are allowed: take at least "
            f"{-(-steps // _MOST_VALIDATIONS)}."
        )


def _about_validations(config: TrainConfig) -> str:
    """The settings that are without effect where nothing is validated, as they were given."""
    names = [name for name in _ABOUT_VALIDATIONS if getattr(config, name) != TrainConfig.model_fields[name].default]
    names += ["keep_best"] * (config.keep_best is True)
    return ", ".join(f"{name}={_written(getattr(config, name))}" for name in names)


def counts(rows: Mapping[str, int]) -> str:
    """Such as `300 rows in 'validation'`."""
    return ", ".join(f"{count} rows in {split!r}" for split, count in rows.items()) or "no splits"


def _written(value: object) -> str:
    """As a person gives it: 60, 0.5, true, accuracy."""
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
