"""The result of a run on this machine: state, metrics, report and files."""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.protocol import file_names

#: A larger report is linked instead of embedded in the notebook.
MAX_EMBEDDED_BYTES = 4 << 20
FRAME = "width:100%;height:720px;border:1px solid #8884;border-radius:6px"


def render_html(title: str, facts: Mapping[str, object], metrics: Mapping[str, float], report: Path | None) -> str:
    """Renders a run as HTML: facts, metrics, and the report in a sandboxed frame without scripts."""
    rows = [(name, str(value)) for name, value in facts.items() if value]
    figures = [(name, f"{value:.6g}") for name, value in metrics.items()]
    return f"<div><b>{escape(title)}</b>{_render_table(rows)}{_render_metrics(figures)}{_render_report(report)}</div>"


def _render_metrics(figures: list[tuple[str, str]]) -> str:
    details = f"<details><summary>{len(figures)} metrics</summary>{_render_table(figures)}</details>"
    return details if figures else ""


def _render_table(rows: list[tuple[str, str]]) -> str:
    cells = "".join(
        f"<tr><td style='text-align:left'>{escape(name)}</td><td style='text-align:left'>{escape(text)}</td></tr>"
        for name, text in rows
    )
    return f"<table>{cells}</table>"


def _render_report(path: Path | None) -> str:
    if path is None or path.stat().st_size > MAX_EMBEDDED_BYTES:
        return ""
    page = escape(path.read_text(encoding="utf-8"))
    return f'<details open><summary>report</summary><iframe sandbox srcdoc="{page}" style="{FRAME}"></iframe></details>'


#: Artifact schemas of models and metrics.
MODEL, METRICS = "system.Model", "system.Metrics"


class RunFailed(WorkFailed):
    """A step failed or the run was stopped; `run` holds its results so far, and `resume(run.folder)` continues it."""

    def __init__(self, message: str, run: "Run | None" = None, exit_code: int = 1) -> None:
        super().__init__(message, exit_code=exit_code)
        self.run = run


@dataclass(frozen=True)
class Run:
    """A finished run on this machine. A notebook shows its metrics and report."""

    #: Name of the pipeline.
    pipeline: str
    #: `succeeded` or `failed`.
    state: str
    #: Folder with all files of the run.
    folder: Path
    #: Parameters of the run.
    parameters: JsonObject
    #: Steps as in run.json: step, state, seconds, parameters (output values), artifacts.
    steps: Sequence[JsonObject]

    @classmethod
    def of(cls, document: JsonObject) -> "Run":
        """Returns the run of a run.json."""
        return cls(
            str(document["pipeline"]),
            str(document["state"]),
            Path(document["folder"]),
            dict(document["arguments"]),
            list(document["steps"]),
        )

    @property
    def succeeded(self) -> bool:
        """Whether every step succeeded."""
        return self.state == "succeeded"

    @cached_property
    def outputs(self) -> JsonObject:
        """Returns the output values of the steps, as `step/name`: {"decide/Output": "promote"}."""
        return {f"{row['step']}/{name}": value for row in self.steps for name, value in row["parameters"].items()}

    @cached_property
    def artifacts(self) -> dict[str, Path]:
        """Returns the paths of the artifacts, as `step/name`: {"prepare/dataset": .../dataset}."""
        return {
            f"{row['step']}/{name}": self.folder / uri for row in self.steps for name, uri in row["artifacts"].items()
        }

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Returns the metrics of the steps, as `vgp show` prints them; a later step replaces an equal name."""
        figures: dict[str, float] = {}
        for step, name in self._list_artifacts(METRICS):
            logged = self._metadata(step, name).items()
            figures.update({name: float(value) for name, value in logged if _is_number(value)})
        return figures

    @property
    def model(self) -> Path | None:
        """Returns the model's folder: the registered copy, else the output of the training; None without a model.

        `vgp.data.bundle.load(run.model)` loads it.
        """
        models = (self.artifacts[f"{step}/{name}"] for step, name in reversed(self._list_artifacts(MODEL)))
        return next((model for model in models if model.exists()), None)

    @property
    def report(self) -> Path | None:
        """Returns the path of the HTML report, or None."""
        page = self.folder / file_names.REPORT
        return page if page.is_file() else next(iter(sorted(self.folder.glob("*.html"))), None)

    @property
    def decision(self) -> str:
        """Returns `promote`, `candidate`, `keep` or `not decided`; "" for a pipeline without the step `decide`."""
        return str(self.outputs.get("decide/Output", ""))

    def _list_artifacts(self, schema: str) -> list[tuple[str, str]]:
        """Returns step and name of the artifacts with a schema, in the order of the steps."""
        artifacts = [(row["step"], name) for row in self.steps for name in row["artifacts"]]
        return [(step, name) for step, name in artifacts if self._schemas.get(step, {}).get(name) == schema]

    def _metadata(self, step: str, name: str) -> JsonObject:
        """Returns an artifact's metadata; {} if there is none or it is unreadable."""
        with suppress(OSError, ValueError, KeyError, IndexError, TypeError):
            output = json.loads((self.folder / step / file_names.EXECUTOR_OUTPUT).read_text(encoding="utf-8"))
            return dict(output["artifacts"][name]["artifacts"][0]["metadata"])
        return {}

    @cached_property
    def _schemas(self) -> dict[str, dict[str, str]]:
        """Returns the schema of each output of each step."""
        spec = json.loads((self.folder / file_names.PIPELINE).read_text(encoding="utf-8"))
        components = spec.get("components", {})
        tasks = _list_components(spec["root"], components)
        return {name: _list_schemas(components.get(component, {})) for name, component in tasks.items()}

    def __repr__(self) -> str:
        return f"Run({self.pipeline!r}, {self.state}, {str(self.folder)!r})"

    def _repr_html_(self) -> str:
        facts = {"state": self.state, "decision": self.decision, "folder": self.folder, "model": self.model}
        return render_html(self.pipeline, {**facts, "report": self.report}, self.metrics, self.report)


def load_run(folder: Path) -> Run:
    """Loads the run in a folder.

    Raises:
        RequestError: the folder holds no finished run.
    """
    try:
        document = json.loads((folder / file_names.RUN).read_text(encoding="utf-8"))
        return Run.of({**document, "folder": str(folder.resolve())})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise RequestError(f"{folder} is not the folder of a finished run: it holds no run.json.") from None


def _list_components(group: JsonObject, components: JsonObject) -> dict[str, str]:
    """Returns each task's component, including tasks in groups."""
    names: dict[str, str] = {}
    for name, task in group.get("dag", {}).get("tasks", {}).items():
        component = task["componentRef"]["name"]
        names |= {name: component, **_list_components(components.get(component, {}), components)}
    return names


def _list_schemas(component: JsonObject) -> dict[str, str]:
    artifacts = component.get("outputDefinitions", {}).get("artifacts", {})
    return {name: artifact.get("artifactType", {}).get("schemaTitle", "") for name, artifact in artifacts.items()}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
