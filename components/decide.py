"""Evaluation -> promote or keep, with the reason and the report."""

from kfp.dsl import HTML, Artifact, Dataset, Input, Markdown, Model, Output

from components import step


@step
def decide(
    dataset: Input[Dataset],
    model: Input[Model],
    evaluation: Input[Artifact],
    report: Output[HTML],
    summary: Output[Markdown],
    decision: Output[Artifact],
    champion: str = "",
    terms: dict = {},
) -> str:
    """Tests whether the model beats the champion on the same rows.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        model: The challenger.
        evaluation: Directory with predictions.parquet and metrics.json.
        champion: URI of the champion's pins, for its report and those before it. Empty: there is none.
        terms: By which rule a model is promoted, as resolve has checked it: margin, confidence, nights, approve.

    Returns:
        report: One self-contained page with plots.
        summary: The decision and the main figures.
        decision: All that it rests on, as JSON.
        Output: promote; candidate, where it is better than the champion and a simple model is better still; keep; not
            decided, where a script left no predictions, or no test row is of one of the classes.
    """
    from vgp import steps

    made = steps.decide(
        dataset.path,
        model.path,
        evaluation.path,
        report.path,
        summary.path,
        decision.path,
        champion=champion,
        **terms,
    )
    return str(made.outcome)
