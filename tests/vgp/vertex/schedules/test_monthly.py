"""The schedules of a settings file, of which only they are read."""

from datetime import UTC, datetime

import pytest

from vgp.vertex.schedules.cron import monthly_runs as declared

NOW = datetime(2026, 3, 1, tzinfo=UTC)
TEXT = """
region = "no region"
[schedules.nightly]
pipeline = "training"
cron = "30 2 * * *"
[environments.prod.schedules.nightly]
cron = "30 2 * * 1"
[environments.prod.schedules.once]
pipeline = "training"
cron = "0 * * * *"
max_runs = 3
[environments.dev.schedules.nightly]
paused = true
[environments.dev.schedules.wrong]
pipeline = "training"
cron = "@daily"
"""


def test_runs_a_month_are_told_for_each_environment(tmp_path):
    file = tmp_path / "pipelines.toml"
    file.write_text(TEXT)
    found = {each.name: each for each in declared(file, NOW)}
    assert found["nightly"].runs_per_month == pytest.approx(365 / 12)
    assert found["nightly (prod)"].runs_per_month == pytest.approx(52 / 12, abs=0.1)
    assert found["nightly (prod)"].pipeline == "training", "of the schedule that it lies over"
    assert found["once (prod)"].runs_per_month == 3
    assert (found["nightly (dev)"].runs_per_month, found["nightly (dev)"].problem) == (0, "paused")
    assert found["wrong (dev)"].problem.startswith("cron: '@daily' is no cron expression")


def test_a_file_that_is_not_there_has_none_and_one_that_is_no_toml_says_so(tmp_path):
    file = tmp_path / "pipelines.toml"
    assert declared(file, NOW) == []
    file.write_text("schedules = 3\n[environments]\nprod = 1\n")
    assert declared(file, NOW) == []
    file.write_text("[")
    (broken,) = declared(file, NOW)
    assert broken.name == "pipelines.toml" and "not valid TOML" in broken.problem
