"""The step at the end of every run that writes and prints its summary, and sends it if an address is configured."""

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
    """Reports steps, cache hits, decision, cost and links of the run; never changes its state.

    Args:
        status: Final status of the steps, set by Vertex AI.
        prices: Dollars per hour of each step, all machines together, and the day of the price.
        webhook: Address for the summary, https:// or projects/P/secrets/S in Secret Manager. Empty: none.
        experiment: Vertex AI experiment that the run joins, unless it found nothing new. Empty: none.

    Returns:
        summary: Steps, cache hits, decision, cost and links.
    """
    from vgp import steps

    metadata = steps.notify(status, summary.path, address=webhook, prices=prices, experiment=experiment)
    summary.metadata.update(metadata)
