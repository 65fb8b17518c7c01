"""What is shown of schedules: signs, differences, times and costs; nothing of elsewhere reaches the terminal raw."""

import dataclasses
import io
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from vgp.check.check_finding import StepRow
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Schedule
from vgp.vertex.schedules import schedule_view
from vgp.vertex.schedules.cron import Cron
from vgp.vertex.schedules.declared_schedule import Declaration
from vgp.vertex.schedules.schedule_fields import Change
from vgp.vertex.schedules.schedule_list import Row
from vgp.vertex.schedules.schedule_plan import Action

NOW = datetime(2027, 3, 27, tzinfo=UTC)
SLY = "\x1b]8;;http://evil\x07[bold]x[/]\n\u202e"


class Message:
    """As much of a Schedule as the view reads."""

    def __init__(self, cron: Cron) -> None:
        self.cron = str(cron)


def declaration(cron: str = "30 2 * * *", price: float | None = 2.0, **declared: Any) -> Declaration:
    schedule = Schedule.model_validate({"pipeline": "training", "cron": cron, "time_zone": "Europe/Berlin", **declared})
    step = StepRow("train", "g2-standard-24", "NVIDIA_L4", 2, 1, "STANDARD", price, "us-central1", 3600)
    return Declaration("nightly", schedule, Message(Cron(cron, "Europe/Berlin")), [step])


def shown(*actions: Action, **options: Any) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(schedule_view.render_plan(actions, NOW, {}, **options))
    return console.export_text()


def test_the_next_runs_are_shown_by_both_clocks_across_a_change() -> None:
    text = shown(Action("create", "nightly", declaration=declaration()))
    assert "Sat 2027-03-27 02:30 CET   2027-03-27 01:30 UTC" in text
    assert "Sun 2027-03-28 03:00 CEST  2027-03-28 01:00 UTC" in text
    assert "Mon 2027-03-29 02:30 CEST  2027-03-29 00:30 UTC" in text
    assert "Sun 2027-03-28: the clocks of Europe/Berlin go from 02:00 to 03:00; 02:30 does not exist" in text
    assert "not documented" in text


def test_a_safe_time_has_no_warning() -> None:
    assert "warning" not in shown(Action("create", "nightly", declaration=declaration("0 4 * * *")))
    assert "narrows day and weekday" in shown(Action("create", "nightly", declaration=declaration("0 4 */2 * 1")))


@pytest.mark.parametrize(
    ("declared", "runs"),
    [({}, 5), ({"max_runs": 2}, 2), ({"end": "2027-03-29"}, 2), ({"paused": True}, 0), ({"start": "2027-04-01"}, 5)],
)
def test_start_end_number_and_pause_limit_the_times_shown(declared: dict[str, Any], runs: int) -> None:
    assert shown(Action("create", "nightly", declaration=declaration("0 4 * * *", **declared))).count(" UTC\n") == runs


def test_the_maximum_cost_is_shown() -> None:
    text = shown(Action("create", "nightly", declaration=declaration("0 4 * * *")))
    assert "at most $2.00 a run" in text
    assert "at most $60.83 a month, in 30.4 runs" in text
    assert "at most $6.00 a month, in 3.0 runs" in shown(
        Action("create", "n", declaration=declaration("0 4 * * *", max_runs=3))
    )


def test_what_has_no_price_is_named_and_not_counted_as_nothing() -> None:
    unknown = "train (no price of 2 x NVIDIA_L4 on g2-standard-24 in us-central1, standard)"
    assert f"cost       not known: {unknown}" in shown(Action("create", "n", declaration=declaration(price=None)))
    both = declaration("0 4 * * *")
    both = dataclasses.replace(both, steps=[*both.steps, *declaration(price=None).steps])
    text = shown(Action("create", "n", declaration=both))
    assert "at least $2.00 a run" in text and "at least $60.83 a month" in text and f"not in it: {unknown}" in text
    assert "at most $" not in text
    row = schedule_view.plan_json([Action("create", "n", declaration=both)], NOW, {})["schedules"][0]
    assert (row["max_usd_per_run"], row["max_usd_per_month"], row["max_usd_of_priced_steps"]) == (None, None, 2.0)
    assert list(row["unpriced"]) == ["train"]


def test_a_difference_has_both_sides() -> None:
    changes = [Change("cron", "a", "b"), Change("end", "2030", None), Change("labels.request", "1", "2")]
    template = [Change("train: machine", "1 x A", "1 x B")]
    text = shown(
        Action(
            "update", "nightly", "x/schedules/7", changes, template, (PipelineSpec({"a": 1}), PipelineSpec({"a": 2}))
        ),
        full=True,
    )
    assert [" ".join(line.split()) for line in text.splitlines()[1:4]] == [
        "cron a -> b", "end 2030 -> (none)", "train: machine 1 x A -> 1 x B",
    ]  # fmt: skip
    assert '-  "a": 1' in text
    assert '+  "a": 2' in text
    assert "labels.request" not in text


def test_the_signs_of_all_kinds_and_what_they_come_to() -> None:
    actions = [
        Action(kind, kind) for kind in ("create", "update", "replace", "nothing", "prune", "undeclared", "other")
    ]
    text = shown(*actions)  # type: ignore[arg-type]
    assert [line[0] for line in text.splitlines() if line.strip()][:-1] == list("+~±=-?·")
    assert text.rstrip().endswith("1 to create, 1 to update, 1 to replace, 1 to delete")
    assert (
        schedule_view.summarize([Action("nothing", "x", declaration=declaration())])
        == "Nothing to do: all is as declared."
    )


def test_where_nothing_is_declared_the_message_suggests_what_to_write() -> None:
    text = shown(Action("other", "x"))
    assert "declares no schedule. Write [schedules.NAME] into pipelines.toml, or choose --env." in text


def test_no_name_or_value_of_others_is_taken_for_markup_or_reaches_the_terminal_raw() -> None:
    action = Action(
        "update", SLY, SLY, [Change(f"labels.{SLY}", SLY, SLY)], [Change(SLY, SLY, SLY)], None, [SLY], [SLY]
    )
    row = Row(SLY, SLY, False, SLY, "active", SLY, SLY, None, None, SLY, SLY, 0, False, "")
    console = Console(width=300, record=True, file=io.StringIO(), force_terminal=True)
    console.print(schedule_view.render_plan([action], NOW, {}))
    console.print(schedule_view.render_list([row]))
    text = console.export_text()
    assert "\x1b]8" not in text and "\x07" not in text and "\u202e" not in text
    assert text.count("[bold]x[/]") >= 8
