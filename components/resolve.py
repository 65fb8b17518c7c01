"""The step that checks the parameters, pins the run's inputs, and decides whether to train."""

from typing import NamedTuple

from kfp.dsl import HTML, Artifact, Output

from components import step


@step
def resolve(
    record: Output[Artifact],
    look: Output[HTML],
    pipeline: str,
    run: str,
    scheduled: str = "",
    data: str = "",
    task: str = "flights",
    task_options: dict = {},
    epochs: float = 3.0,
    global_batch_size: int = 1024,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-2,
    warmup_fraction: float = 0.05,
    clip_norm: float = 1.0,
    precision: str = "auto",
    seed: int = 0,
    training_options: dict = {},
    champion: str = "auto",
    registry: str = "",
    model_name: str = "",
    approve: str = "auto",
    margin: float = 0.0,
    confidence: float = 0.95,
    nights: int = 365,
    worst_day: float = 0.0,
    when: str = "always",
    retrain_every: str = "30 days",
    wait: str = "7 days",
    force: bool = False,
    look_days: int = 28,
    drift_threshold: float = 0.25,
    loss_rise: float = 0.1,
    look_confidence: float = 0.99,
    as_of: str = "",
    pins: str = "",
) -> NamedTuple(  # type: ignore[valid-type]
    "Resolved",
    [
        ("Output", str), ("why", str), ("digest", str), ("uri", str), ("data", str), ("champion", str),
        ("registry", str), ("model_name", str), ("config", dict), ("terms", dict),
    ],
):  # fmt: skip
    """Checks the parameters, pins the run's inputs, and decides whether it trains. Never cached.

    The inputs from `data` on are the workflow's parameters. `Output` is KFP's name of an unnamed output; kfp.local
    silently skips a branch on any other output.

    Args:
        pipeline: Name of the pipeline; pins of another one are refused.
        run: Name of this run.
        scheduled: Time of the schedule's tick; used without as_of.

    Returns:
        record: The pins of this run, as JSON: objects with their generations, windows as dates.
        look: The decision as a page: drift by column, the champion's loss on new rows.
        Output: train or skip.
        why: Reason in one sentence; empty with when = always.
        digest: Digest of the pins.
        uri: URI of the pins.
        data: URI of the data's pins.
        champion: URI of the champion's pins; empty without one.
        registry: Root of the registry.
        model_name: Name of the model in the registry.
        config: Training settings, for train.
        terms: Rules of the promotion, for decide and register.
    """
    given = dict(locals())
    from vgp import steps

    resolved = steps.resolve(**{**given, "record": record.path, "look": look.path})
    record.uri = resolved.uri
    record.metadata.update(resolved.metadata)
    return resolved.outputs
