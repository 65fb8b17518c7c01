"""The metric that selects the best validation, and the checks of its settings. No torch here."""

import re
from collections.abc import Mapping

from vgp.base.exits import UserError
from vgp.base.text.nearest import nearest
from vgp.data.task import Task
from vgp.train.loop.sample_order import Plan
from vgp.train.train_config import TrainConfig

#: The metric of every task: the mean loss over the held-out rows.
LOSS = "validation_loss"
#: The metric of every classification task without metrics of its own.
ACCURACY = "accuracy"
#: Every validation is a point of the learning curve, which is part of each checkpoint and the model's card.
_MOST_VALIDATIONS = 10_000
_NAME = re.compile(r"[A-Za-z][\w@.%-]*")
#: Settings without effect unless there are validations.
_ABOUT_VALIDATIONS = ("validate_every_steps", "validate_every_s", "patience", "best_metric", "min_delta")


def measures_itself(task: Task) -> bool:
    """Whether the task has metrics of its own."""
    return type(task).validation is not Task.validation


def metrics(task: Task) -> dict[str, str]:
    """Returns the possible values of `best_metric`, and whether the "min" or the "max" of each is best.

    Raises:
        UserError: the task's metrics are invalid.
    """
    if measures_itself(task) != bool(task.metrics):
        raise UserError(
            f"{type(task).__name__} must have both `metrics`, the names of its validation metrics, and `validation`, "
            "which measures them; or neither."
        )
    for name, best in task.metrics.items():
        if not _NAME.fullmatch(name) or name == LOSS or best not in ("min", "max"):
            raise UserError(
                f"{type(task).__name__}.metrics = {dict(task.metrics)}: give each metric a name of letters, digits and "
                f"_ @ . % -, other than {LOSS}, and its best direction, 'max' or 'min'."
            )
    own = dict(task.metrics) or ({ACCURACY: "max"} if task.classes and not task.likelihood else {})
    return {LOSS: "min", **own}


def require_metric(config: TrainConfig, task: Task) -> None:
    """Raises UserError unless the task has the metric `best_metric`, and its options leave rows to validate on."""
    settings = _validation_settings(config)
    if settings and getattr(getattr(task, "split", None), "validation_percent", None) == 0:
        raise UserError(
            f"{settings}: there are no rows to validate on, because validation_share is 0. Remove the setting, or set "
            "validation_share to a share of the training rows such as 0.05 (task_options, or [split] of a task.toml)."
        )
    choices = metrics(task)
    if config.best_metric not in choices:
        near = nearest(config.best_metric, choices)
        hint = f" Did you mean {near}?" if near else ""
        raise UserError(
            f"best_metric={config.best_metric}: {type(task).__name__} has {', '.join(choices)}.{hint} "
            "A task declares its own metrics in `metrics`, and measures them in `validation`."
        )


def require_rows(config: TrainConfig, task: Task, rows: Mapping[str, int]) -> None:
    """Raises UserError unless the task and the rows of each split suit the settings of validations."""
    require_metric(config, task)
    settings = _validation_settings(config)
    if settings and not rows.get("validation"):
        raise UserError(
            f"{settings}: there are no rows to validate on; the data has {format_counts(rows)}. Remove the setting, or "
            "prepare the data with a validation split (task_options)."
        )
    steps = Plan(rows["train"], config.epochs, config.global_batch_size, 1, config.seed).steps
    if config.validate_every_steps and steps // config.validate_every_steps > _MOST_VALIDATIONS:
        raise UserError(
            f"validate_every_steps={config.validate_every_steps} gives {steps // config.validate_every_steps:,} "
            f"validations in {steps:,} steps; {_MOST_VALIDATIONS:,} are allowed: set it to at least "
            f"{-(-steps // _MOST_VALIDATIONS)}."
        )


def _validation_settings(config: TrainConfig) -> str:
    """Returns the settings other than their defaults that have no effect without validations, as name=value."""
    names = [name for name in _ABOUT_VALIDATIONS if getattr(config, name) != TrainConfig.model_fields[name].default]
    names += ["keep_best"] * (config.keep_best is True)
    return ", ".join(f"{name}={_format_value(getattr(config, name))}" for name in names)


def format_counts(rows: Mapping[str, int]) -> str:
    """Formats the rows of each split, for example `300 rows in 'validation'`."""
    return ", ".join(f"{count} rows in {split!r}" for split, count in rows.items()) or "no splits"


def _format_value(value: object) -> str:
    """Formats a setting as on the command line: 60, 0.5, true, accuracy."""
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
