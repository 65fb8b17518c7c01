"""pipelines.toml: read once, wrong values refused with file, line and fix."""

from pathlib import Path

import pytest

from pipelines import settings
from pipelines.errors import RequestError


def write(folder: Path, text: str) -> Path:
    path = folder / "pipelines.toml"
    path.write_text(text)
    return path


def test_settings_are_read(tmp_path: Path) -> None:
    path = write(tmp_path, 'region = "europe-west4"\n[steps.train]\nmachine = "g2-standard-24"\nnodes = 2\n')
    loaded = settings.load(path)
    assert loaded.region == "europe-west4"
    assert loaded.request("train").nodes == 2
    assert loaded.request("prepare").machine is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("regon = 'x'\n", ":1: regon: there is no such setting. Did you mean region?"),
        ("\n[steps.train]\nmachne = 'x'\n", ":3: steps.train.machne: there is no such setting. Did you mean machine?"),
        ("[steps.train]\nnodes = 'many'\n", ":2: steps.train.nodes: "),
        ("[steps.train]\ntimeout = 'soon'\n", ":2: steps.train.timeout: 'soon' is no duration."),
        ("region = \n", "is not valid TOML"),
    ],
)
def test_wrong_settings_are_refused_with_their_line(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(RequestError) as refused:
        settings.load(path)
    assert str(path) in str(refused.value)
    assert message in str(refused.value)


def test_a_missing_file_that_was_asked_for_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="No such file"):
        settings.load(tmp_path / "none.toml")


def test_bytes_that_are_no_text_are_refused(tmp_path: Path) -> None:
    (tmp_path / "pipelines.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(RequestError, match="is not valid TOML"):
        settings.load(tmp_path / "pipelines.toml")
