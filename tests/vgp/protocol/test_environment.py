"""Names that desk, launchers and steps agree on."""

import re
from pathlib import Path

import pytest

from vgp.protocol import environment, file_names, launching

ROOT = Path(__file__).parents[3]
SHIPPED = [path for path in Path(launching.__file__).parent.glob("*.py")]
#: What only the launching text sets: for the user's script, which reads them by these names.
OF_SCRIPTS = {"TRAINING_DATA", "TRAINING_DATA_URI", "TRAINING_MACHINES", "TRAINING_PORT"}


def written_out(text: str) -> set[str]:
    return set(re.findall(r'"(TRAINING_[A-Z_]+|CLUSTER_SPEC|CLOUD_ML_JOB_ID)"', text))


def test_the_launching_text_reads_the_variables_that_the_library_sets() -> None:
    known = {value for value in vars(environment).values() if isinstance(value, str)}
    found = {name for path in SHIPPED for name in written_out(path.read_text(encoding="utf-8"))}
    assert len(found) > 5 and found - OF_SCRIPTS <= known


@pytest.mark.parametrize("kind", ["variables", "files"])
def test_a_shared_name_is_written_out_once(kind: str) -> None:
    """Beside the launching text, which imports nothing, and a new project's own test."""
    files = {
        value for value in vars(file_names).values() if isinstance(value, str) and "." in value and "\n" not in value
    }
    twice = set()
    for path in (ROOT / "vgp").rglob("*.py"):
        if path in SHIPPED or path.name in ("environment.py", "file_names.py") or "template" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        names = written_out(text) if kind == "variables" else {name for name in files if f'"{name}"' in text}
        twice |= {(path.name, name) for name in names - {"TRAINING_DEBUG", "TRAINING_SPEC"}}
    allowed = {
        ("printable.py", "CLOUD_ML_JOB_ID"),
        ("prediction_folder.py", "request.json"),
        ("prediction_folder.py", "metrics.json"),
        ("manifest.py", "manifest.json"),
    }
    assert twice <= allowed
