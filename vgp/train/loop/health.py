"""Ends a run whose losses, gradients or state are not finite, or differ between ranks, with an error that names them.

All ranks call each method at one step, and all end with one message.
"""

import math

from torch import Tensor

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names
from vgp.data.rows import Rows
from vgp.train.loop import finite_checks
from vgp.train.loop.checkpoint_saving import Saving
from vgp.train.loop.learner import Learner
from vgp.train.loop.sample_order import Plan
from vgp.train.loop.weighting import gather
from vgp.train.processes.rank import Rank
from vgp.train.train_config import TrainConfig

#: Relative tolerance of norms: all ranks compute them from equal bits, but not always on one type of processor.
_SAME_GRADIENT, _SAME_MODEL = 1e-3, 1e-5


class Health:
    """The checks of one run, on one rank."""

    def __init__(self, learner: Learner, saving: Saving, plan: Plan, rows: Rows, config: TrainConfig, rank: Rank):
        self.learner, self.saving, self.plan, self.rows = learner, saving, plan, rows
        self.config, self.rank = config, rank

    def require_finite(self, step: int, loss: float, *, gradient_is_finite: bool) -> None:
        """Raises UserError if the step's loss is too large or not finite, or its gradient is not finite."""
        if math.isfinite(loss) and loss <= self.config.loss_limit and gradient_is_finite:
            return
        problem = f"the loss of step {step} is {loss:g}; training stops (loss_limit={self.config.loss_limit:g})."
        if not gradient_is_finite and math.isfinite(loss):
            scale = " at a loss scale of 1" if self.learner.scaler else ""
            problem = f"the gradient of step {step} is not finite, though its loss is {loss:g}{scale}; training stops."
        lines = [problem, f"Rows of its batch (row_id): {self._row_ids(step)}"]
        if not gradient_is_finite:
            lines.append(f"Parameters whose gradients are not finite: {self._culprits()}")
        raise UserError("\n".join([*lines, self._advice()]))

    def require_state(self, step: int) -> None:
        """Raises UserError if the state after `step` steps must not be validated, saved or exported."""
        self.require_same_model(step)
        if names := self.broken():
            raise UserError(
                f"after step {step} of {self.plan.steps} the state holds values that are not finite: {names}; "
                "training stops.\nLosses and gradients were finite, so the last update or the task itself has written "
                f"them.\n{self._advice()}"
            )

    def require_same_step(self, step: int, norms: Tensor, calls: Tensor) -> None:
        """Raises UserError if the ranks have different gradients or have called different blocks.

        Args:
            norms: The norm of the step's whole gradient on each rank.
            calls: A checksum of the blocks that each rank has called (FSDP2).
        """
        if len(set(calls.tolist())) > 1:
            raise UserError(
                f"by step {step} the processes have called different blocks of the model, or in another order. With "
                "strategy=fsdp each holds a share of every block, so they have mixed up the weights: training stops.\n"
                "Set strategy=ddp and unused_parameters=true; or call every block and mask its result.\n"
                f"{self._last_checkpoint()}"
            )
        if norms.isfinite().all() and norms.max() - norms.min() > _SAME_GRADIENT * norms.max():
            shown = join_names([f"{norm:.6g} on rank {rank}" for rank, norm in enumerate(norms.tolist())], 8)
            raise UserError(
                f"the gradient of step {step} differs between processes; its norm is {shown}; training stops.\nThe "
                "task or its model changes gradients after they are averaged, for example in a hook, or runs its own "
                f"backward pass.\n{self._last_checkpoint()}"
            )

    def require_same_model(self, step: int) -> None:
        """Raises UserError if tensors that every rank holds whole differ between ranks."""
        state = self.learner.module.state_dict()
        tensors, exact = finite_checks.whole_floats(state), finite_checks.checksum_integers(state)
        if self.rank.world_size == 1 or not (tensors or exact):
            return
        norms = gather([*finite_checks.norms(list(tensors.values())), *exact.values()], len(tensors) + len(exact))
        tolerance = _SAME_MODEL * norms[0]
        tolerance[len(tensors) :] = 0.0
        apart = ~((norms - norms[0]).abs() <= tolerance) & norms.isfinite().all(dim=0)
        if names := [name for name, bad in zip([*tensors, *exact], apart.any(dim=0).tolist(), strict=True) if bad]:
            raise UserError(
                f"after step {step} of {self.plan.steps} the models of the processes differ in {join_names(names, 5)}; "
                "training stops.\nSomething besides the loss changes them differently on each process, for example the "
                "task's optimizer or a hook. Take random numbers from the default generators of PyTorch, NumPy or "
                f"Python only.\n{self._last_checkpoint()}"
            )

    def require_weights(self, source: str) -> None:
        """Raises UserError if the weights of a warm start are not finite."""
        if names := self.broken():
            raise UserError(
                f"warm_start={source}: that model holds values that are not finite ({names}); its training had "
                "diverged. Give another model."
            )

    def broken(self) -> str:
        """Returns the names of state that is not finite on some rank; "" if all is finite."""
        names = sorted(name.removeprefix("model/") for name in self.learner.broken())
        return next(filter(None, self.rank.exchange(join_names(names, 5), within_s=self.saving.patience_s)), "")

    def _row_ids(self, step: int) -> str:
        rows = self.plan.rows(step, step + 1, range(self.plan.microbatches))
        ids = self.rows.columns["row_id"][rows] if "row_id" in self.rows.columns else rows
        return join_names(list(map(str, ids.tolist())), 20)

    def _culprits(self) -> str:
        """Returns the names of parameters whose gradient is not finite on some rank, and the number of parameters."""
        names = self.learner.parameter_names()
        anywhere = gather([float(bad) for bad in self.learner.norm.culprits()], len(names)).any(dim=0).tolist()
        order = {name: place for place, (name, _) in enumerate(self.learner.module.named_parameters())}
        bad = sorted((n for n, bad in zip(names, anywhere, strict=True) if bad), key=lambda n: order.get(n, len(order)))
        return f"{join_names(bad, 5)} (of {len(names)})"

    def _advice(self) -> str:
        """Returns the last good checkpoint and settings that often help."""
        precision = "" if self.config.precision == "fp32" else ", or precision=fp32"
        remedies = f"A lower learning_rate, a longer warmup_fraction or a smaller clip_norm often helps{precision}."
        return f"{self._last_checkpoint()}\n{remedies}"

    def _last_checkpoint(self) -> str:
        step = self.rank.exchange(self.saving.newest(), within_s=self.saving.patience_s)[0]
        text = f"The last good checkpoint is of step {step}, in {self.saving.store}."
        return text if step else "No checkpoint was saved."
