"""The end of every run: one summary of it, written, printed, and sent where that is configured."""

from kfp.dsl import Markdown, Output, PipelineTaskFinalStatus

from components import step


@step
def notify(
    status: PipelineTaskFinalStatus,
    summary: Output[Markdown],
    prices: dict = {},
    webhook: str = "",
    experiment: str = "",
) -> None:
    """Tells what ran, what was cached, the decision, the cost and where to look; never changes the run's state.

    Args:
        status: How the steps ended. Vertex AI fills it in.
        prices: Dollars per hour of every step, all its machines together, and the day of that price.
        webhook: Where the summary is sent, https:// or projects/P/secrets/S of Secret Manager. Empty: nowhere.
        experiment: Vertex AI experiment that the run becomes part of, unless it found nothing new. Empty: none.

    Returns:
        summary: What ran, what was cached, the decision, the cost, and links.
    """
    from vgp import steps

    told = steps.notify(status, summary.path, address=webhook, prices=prices, experiment=experiment)
    summary.metadata.update(told)
