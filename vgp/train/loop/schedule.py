"""What the learning rate of each step is, as a share of its peak: a pure function of the step's number, never a state.

t = what of the steps after the warm-up is over, in [0, 1).
"""

import math
from collections.abc import Callable
from numbers import Real

from vgp.base.exits import UserError
from vgp.data.task import Task
from vgp.train.config import TrainConfig

#: Steps at which a task's own function is looked at before training.
_LOOKS = 100


class Schedule:
    """The share of the peak learning rates by step: the warm-up, and then what the configuration or the task says."""

    def __init__(self, config: TrainConfig, steps: int, task: Task):
        self.steps, self.warmup = steps, math.ceil(config.warmup_fraction * steps)
        self.final, self.decay = config.final_lr_fraction, math.ceil(config.decay_fraction * steps)
        self.own = config.schedule == "auto" and type(task).learning_rate is not Task.learning_rate
        self.task = task
        shipped: dict[str, Callable[[int], float]] = {
            "auto": self._cosine, "cosine": self._cosine, "linear": self._linear, "constant": lambda step: 1.0,
            "warmup_stable_decay": self._stable_decay, "inverse_sqrt": self._inverse_sqrt,
        }  # fmt: skip
        self.of_step: Callable[[int], float] = self._of_task if self.own else shipped[config.schedule]

    def factor(self, step: int) -> float:
        """Of the step numbered `step`, from 0; 0 or more, and above 0 for those that ship.

        Raises:
            UserError: the task says something else.
        """
        if step < self.warmup:
            return (step + 1) / (self.warmup + 1) * (self._of_task(step) if self.own else 1.0)
        return self.of_step(step)

    def check(self) -> None:
        """Raises UserError if what the task says is no schedule, as far as some steps tell."""
        if not self.own:
            return
        if self.final:
            raise UserError(
                f"final_lr_fraction={self.final} does nothing with the schedule of {_name(self.task)} itself: leave it "
                "out, or set schedule=cosine, linear or warmup_stable_decay in its place."
            )
        some = sorted({step * (self.steps - 1) // _LOOKS for step in range(_LOOKS + 1)})
        first = {step: self.factor(step) for step in some}
        for step in reversed(some):
            if self.factor(step) != first[step]:
                raise UserError(
                    f"learning_rate of {_name(self.task)} gives {first[step]:g} for step {step}, and then "
                    f"{self.factor(step):g}: it must depend on the step alone, or a resumed run would differ."
                )

    def _of_task(self, step: int) -> float:
        value = self.task.learning_rate(step, self.steps)
        number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
        if not 0 <= number < math.inf:
            raise UserError(
                f"learning_rate of {_name(self.task)} gives {value!r} for step {step} of {self.steps}: it must be a "
                "finite number, 0 or more, by which the peak learning rate is multiplied."
            )
        return number

    def _passed(self, step: int) -> float:
        return (step - self.warmup) / max(1, self.steps - self.warmup)

    def _cosine(self, step: int) -> float:
        """Loshchilov and Hutter, https://arxiv.org/abs/1608.03983, without restarts."""
        return self.final + (1 - self.final) * (0.5 * (1 + math.cos(math.pi * self._passed(step))))

    def _linear(self, step: int) -> float:
        return self.final + (1 - self.final) * (1 - self._passed(step))

    def _stable_decay(self, step: int) -> float:
        """Warm-up, stable, decay: Hu et al., https://arxiv.org/abs/2404.06395, section 4."""
        left = (self.steps - max(step, self.warmup)) / max(1, min(self.decay, self.steps - self.warmup))
        return self.final + (1 - self.final) * min(1.0, left)

    def _inverse_sqrt(self, step: int) -> float:
        """Vaswani et al., https://arxiv.org/abs/1706.03762, section 5.3: 1 at the end of the warm-up."""
        return math.sqrt((self.warmup + 1) / (step + 1))


def _name(task: Task) -> str:
    return type(task).__name__
