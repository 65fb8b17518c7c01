"""The step that decides whether to promote the model, with the reason and the report."""

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
    """Tests whether the model is better than the champion on the same rows.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        model: The challenger.
        evaluation: Directory with predictions.parquet and metrics.json.
        champion: URI of the champion's pins, for the report's history. Empty: no champion.
        terms: Rules of the promotion and evidence of earlier nights, from resolve.

    Returns:
        report: Self-contained HTML report.
        summary: Decision and main figures.
        decision: Decision with its figures, as JSON.
        Output: promote; candidate (better than the champion, but a simple model is better); keep; not decided (a
            script without predictions, or test rows that lack a class).
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
