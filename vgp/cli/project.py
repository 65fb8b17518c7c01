"""The verbs over a repository of one's own: new project, update."""

import typer

app = typer.Typer()
