"""Evaluation -> promote or keep, with the reason and the report."""

from kfp.dsl import HTML, Artifact, Dataset, Input, Markdown, Model, Output

from components.image import step


@step
def decide(
    dataset: Input[Dataset],
    model: Input[Model],
    evaluation: Input[Artifact],
    report: Output[HTML],
    summary: Output[Markdown],
    decision: Output[Artifact],
    champion: str = "",
    margin: float = 0.0,
    confidence: float = 0.95,
    nights: int = 365,
    approve: str = "auto",
) -> str:
    """Tests whether the model beats the champion on the same rows.

    Args:
        dataset: Directory of Parquet shards and manifest.json.
        model: The challenger.
        evaluation: Directory with predictions.parquet and metrics.json.
        champion: URI of the champion's pins, for its report and those before it. Empty: there is none.
        margin: The lower confidence bound of the gain in the decision's loss must exceed this.
        confidence: That no model is promoted by luck, over all decisions of a year together; in (0.5, 1).
        nights: Decisions planned for a year, which share what confidence leaves.
        approve: despite_rivals, the model is promoted also where a simple one, such as gradient boosting, is better.

    Returns:
        report: One self-contained page with plots.
        summary: The decision and the main figures.
        decision: All that it rests on, as JSON.
        Output: promote; candidate, where it is better than the champion and a simple model is better still; keep; not
            decided, where a script left no predictions, or no test row is of one of the classes.
    """
    from vgp.steps import calls as steps

    made = steps.decide(
        dataset.path,
        model.path,
        evaluation.path,
        report.path,
        summary.path,
        decision.path,
        champion=champion,
        margin=margin,
        confidence=confidence,
        nights=nights,
        approve=approve,
    )
    return made.outcome
