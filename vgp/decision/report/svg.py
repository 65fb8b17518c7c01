"""Matplotlib figures as inline SVG: themed by the page's CSS variables, labelled for screen readers, reproducible."""

import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from typing import Any

import matplotlib
from markupsafe import Markup
from matplotlib.figure import Figure

#: Placeholder colours, which the page replaces by CSS variables for light and dark mode.
INK, MUTED, LINE, SURFACE = "#010a01", "#010a02", "#010a03", "#010a04"
CHALLENGER, CHAMPION, BASELINE, BAD, BOOSTING = "#010a05", "#010a06", "#010a07", "#010a08", "#010a09"
VARIABLES = {
    INK: "ink", MUTED: "muted", LINE: "line", SURFACE: "surface",
    CHALLENGER: "challenger", CHAMPION: "champion", BASELINE: "baseline", BAD: "bad",
    BOOSTING: "boosting",
}  # fmt: skip

STYLE: Any = {
    "svg.fonttype": "none",  # text stays text: searchable, and in the reader's own font
    "svg.hashsalt": "report",
    "text.parse_math": False,  # a dollar in a name is a dollar
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": MUTED,
    "axes.edgecolor": LINE,
    "axes.facecolor": "none",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 10,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "figure.facecolor": "none",
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.labelcolor": INK,
    "lines.linewidth": 1.8,
    "patch.edgecolor": INK,
}


@contextmanager
def style() -> Iterator[None]:
    """Sets the style of all figures; draw and `render` inside of it."""
    with matplotlib.rc_context(STYLE), warnings.catch_warnings():
        # Names may be in scripts that matplotlib's font lacks; the browser draws them.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def render(figure: Figure, name: str, label: str) -> Markup:
    """Returns the figure as an `<svg>` element.

    Args:
        figure: Drawn with the colours of this module.
        name: Unique on the page; keeps its element ids apart from those of other figures.
        label: A description for screen readers.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>\s*", "", text, flags=re.DOTALL)
    text = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"(?=[^>]*>)', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) (?:width|height)="[^"]*"(?=[^>]*>)', r"\1", text, count=1)
    text = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', text)
    text = re.sub(r'(url\(|href=")#([^")]+)', rf"\1#{name}-\2", text)
    text = text.replace("<svg", f'<svg role="img" aria-label="{escape(label)}"', 1)
    for colour, variable in VARIABLES.items():
        text = text.replace(colour, f"var(--{variable})")
    return Markup(text)
