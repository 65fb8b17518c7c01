"""Whether training can go on: losses, gradients and the state are finite, or the run ends and says what was not.

Every method that may end the run is called by all ranks at the same step, and ends all of them with the same words.
"""

import math

from torch import Tensor

from vgp.base.exits import UserError
from vgp.base.text.printable import listed
from vgp.data.rows import Rows
from vgp.train.config import TrainConfig
from vgp.train.loop import finite
from vgp.train.loop.learner import Learner
from vgp.train.loop.order import Plan
from vgp.train.loop.saving import Saving
from vgp.train.loop.weighting import gather
from vgp.train.processes.rank import Rank

#: By what share norms may differ: all ranks compute them from the same bits, if not always on the same processor.
_SAME_GRADIENT, _SAME_MODEL = 1e-3, 1e-5


class Health:
    """The health of one run, seen by one rank."""

    def __init__(self, learner: Learner, saving: Saving, plan: Plan, rows: Rows, config: TrainConfig, rank: Rank):
        self.learner, self.saving, self.plan, self.rows = learner, saving, plan, rows
        self.config, self.rank = config, rank

    def require_finite(self, step: int, loss: float, *, gradient_is_finite: bool) -> None:
        """Raises UserError if the step's loss is too large or not finite, or its gradient is not finite."""
        if math.isfinite(loss) and loss <= self.config.loss_limit and gradient_is_finite:
            return
        what = f"the loss of step {step} is {loss:g}; training stops (loss_limit={self.config.loss_limit:g})."
        if not gradient_is_finite and math.isfinite(loss):
            scaled = " and is no longer scaled" if self.learner.scaler else ""
            what = f"the gradient of step {step} is not finite, though its loss is {loss:g}{scaled}; training stops."
        lines = [what, f"Rows of its batch (row_id): {self._row_ids(step)}"]
        if not gradient_is_finite:
            lines.append(f"Parameters whose gradients are not finite: {self._culprits()}")
        raise UserError("\n".join([*lines, self._advice()]))

    def require_state(self, step: int) -> None:
        """Raises UserError if the state after `step` steps must not be validated, saved or exported."""
        self.require_same_model(step)
        if names := self.broken():
            raise UserError(
                f"after step {step} of {self.plan.steps} the state holds values that are not finite: {names}; "
                "training stops.\nLosses and gradients were finite, so it was the last update, or the task itself "
                f"has written them.\n{self._advice()}"
            )

    def require_same_step(self, step: int, norms: Tensor, calls: Tensor) -> None:
        """Raises UserError if the ranks did not work together in the step.

        Args:
            norms: The norm of the step's whole gradient, as every rank has it.
            calls: A checksum of the blocks that every rank has called (FSDP2).
        """
        if len(set(calls.tolist())) > 1:
            raise UserError(
                f"by step {step} the processes have called different blocks of the model, or in another order. With "
                "strategy=fsdp each holds a share of every block, so they have mixed up the weights: training stops.\n"
                "Take strategy=ddp with unused_parameters=true; or call every block, and mask its result.\n"
                f"{self._where()}"
            )
        if norms.isfinite().all() and norms.max() - norms.min() > _SAME_GRADIENT * norms.max():
            shown = listed([f"{norm:.6g} on rank {rank}" for rank, norm in enumerate(norms.tolist())], 8)
            raise UserError(
                f"the gradient of step {step} is not the same on every process, as it must be; its norm is {shown}; "
                "training stops.\nThe task or its model changes gradients after they were averaged, such as in a hook, "
                f"or makes a backward pass of its own.\n{self._where()}"
            )

    def require_same_model(self, step: int) -> None:
        """Raises UserError if what every rank holds whole has become another model on some."""
        state = self.learner.module.state_dict()
        tensors, exact = finite.whole(state), finite.whole_numbers(state)
        if self.rank.world_size == 1 or not (tensors or exact):
            return
        norms = gather([*finite.norms(list(tensors.values())), *exact.values()], len(tensors) + len(exact))
        tolerance = _SAME_MODEL * norms[0]
        tolerance[len(tensors) :] = 0.0
        apart = ~((norms - norms[0]).abs() <= tolerance) & norms.isfinite().all(dim=0)
        if names := [name for name, bad in zip([*tensors, *exact], apart.any(dim=0).tolist(), strict=True) if bad]:
            raise UserError(
                f"after step {step} of {self.plan.steps} the processes do not hold the same model any more: "
                f"{listed(names, 5)} differ; training stops.\nSomething besides the loss changes them, and not alike "
                "on every process, such as the task's optimizer or a hook. What is random must come from the default "
                f"generators of PyTorch, NumPy or Python.\n{self._where()}"
            )

    def require_weights(self, source: str) -> None:
        """Raises UserError if the weights that came from another model hold what is not finite."""
        if names := self.broken():
            raise UserError(
                f"warm_start={source}: that model holds values that are not finite ({names}); its training had "
                "diverged. Give another model."
            )

    def broken(self) -> str:
        """What is not finite in the state of any rank; "" if all is."""
        names = sorted(name.removeprefix("model/") for name in self.learner.broken())
        return next(filter(None, self.rank.exchange(listed(names, 5), within_s=self.saving.patience_s)), "")

    def _row_ids(self, step: int) -> str:
        rows = self.plan.rows(step, step + 1, range(self.plan.microbatches))
        ids = self.rows.columns["row_id"][rows] if "row_id" in self.rows.columns else rows
        return listed(list(map(str, ids.tolist())), 20)

    def _culprits(self) -> str:
        """Names of the parameters with a broken gradient on any rank, and of how many."""
        names = self.learner.parameter_names()
        anywhere = gather([float(bad) for bad in self.learner.norm.culprits()], len(names)).any(dim=0).tolist()
        order = {name: place for place, (name, _) in enumerate(self.learner.module.named_parameters())}
        bad = sorted((n for n, bad in zip(names, anywhere, strict=True) if bad), key=lambda n: order.get(n, len(order)))
        return f"{listed(bad, 5)} (of {len(names)})"

    def _advice(self) -> str:
        """Where to go on from, and what often helps."""
        precision = "" if self.config.precision == "fp32" else ", or precision=fp32"
        helps = f"A lower learning_rate, a longer warmup_fraction or a smaller clip_norm often helps{precision}."
        return f"{self._where()}\n{helps}"

    def _where(self) -> str:
        good = self.rank.exchange(self.saving.newest(), within_s=self.saving.patience_s)[0]
        where = f"The last good checkpoint is of step {good}, in {self.saving.store}."
        return where if good else "No checkpoint was saved."
