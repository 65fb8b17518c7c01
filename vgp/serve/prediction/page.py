"""One HTML page about new rows and what was predicted of them; it loads nothing."""

from pathlib import Path

from vgp.decision.report import page as report
from vgp.serve.prediction.distribution import Distribution
from vgp.serve.prediction.drift import NewDrift
from vgp.serve.prediction.folder import Asked

FOLDER = Path(__file__).parent
MOST_SHOWN = 200


def page(asked: Asked, drift: NewDrift, spread: Distribution) -> bytes:
    """The page; the same bytes for the same inputs."""
    model = f"version {asked.version} of {asked.model}" if asked.version else asked.model or "a model of its own"
    html = report.environment(FOLDER).get_template("page.html").render(
        asked=asked, model=model, drift=drift, spread=spread, shown=drift.columns[:MOST_SHOWN],
    )  # fmt: skip
    return html.encode()
