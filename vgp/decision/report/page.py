"""The templates of the pages, with their style; each page begins and ends as `document.html` does."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from vgp.base.text.figures import plus, significant
from vgp.decision.report import cards

FOLDER = Path(__file__).parent


def environment(*folders: Path) -> Environment:
    """Templates of these folders and of this one; a name that is not given is an error."""
    environment = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["css"] = Markup((FOLDER / "style.css").read_text())
    environment.globals["number"] = significant
    environment.globals["plus"] = plus
    environment.globals["model_names"] = cards.MODEL_NAMES
    return environment


def document(title: str, body: str) -> str:
    """A page of markup that is written by hand."""
    return environment().get_template("document.html").render(title=title, body=Markup(body))
