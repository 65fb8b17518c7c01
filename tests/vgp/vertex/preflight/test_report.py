"""What a person sees of the findings, and a script."""

from io import StringIO

from rich.console import Console

from vgp.vertex.preflight import preflight_questions
from vgp.vertex.preflight.preflight_questions import Finding

COMMAND = "gcloud storage buckets update gs://a-bucket --uniform-bucket-level-access " + "x" * 100


def printed(*found, width=60):
    stream = StringIO()
    console = Console(file=stream, width=width)
    for line in preflight_questions.lines(found):
        console.print(line, soft_wrap=True)
    return stream.getvalue()


def test_the_worst_comes_last_and_equals_stay_in_order():
    levels = ("error", "ok", "warning", "skipped", "unknown", "ok")
    found = [Finding(f"c{number}", "it", level, "is so") for number, level in enumerate(levels)]
    assert [line.split()[:2] for line in printed(*found).splitlines()] == [
        ["✓", "c1"], ["✓", "c5"], ["–", "c3"], ["?", "c4"], ["!", "c2"], ["✗", "c0"],
    ]  # fmt: skip


def test_a_command_stays_on_one_line_however_narrow_the_terminal():
    text = printed(Finding("bucket.access", "gs://a-bucket", "warning", "is open", f"{COMMAND}\nor in the console"))
    assert text.splitlines()[1:] == [f"    {COMMAND}", "    or in the console"]


def test_a_digest_is_shortened_for_people_but_not_in_commands():
    image = f"host/image@sha256:{'a' * 64}"
    text = printed(Finding("image.exists", image, "ok", "is there", f"write {image}"))
    assert f"host/image@sha256:{'a' * 12} is there" in text and f"write {image}" in text


def test_what_google_says_cannot_write_to_the_terminal():
    text = printed(Finding("bucket.exists", "it", "unknown", "said \x1b]0;title\x07\nand more", "do \x1b[2Jthis [red]"))
    assert "\x1b" not in text and "\x07" not in text
    assert "and more" in text.splitlines()[0] and "this [red]" in text.splitlines()[1]


def test_the_sum_names_the_levels_that_occur():
    levels = ("ok", "ok", "error", "warning", "warning", "unknown")
    found = [Finding("c", str(number), level, "is so") for number, level in enumerate(levels)]
    assert preflight_questions.summary(found) == "2 ok, 2 warnings, 1 error, 1 unknown."
    assert preflight_questions.findings_json("training", found)["counts"] == {
        "ok": 2, "warning": 2, "error": 1, "unknown": 1, "skipped": 0,
    }  # fmt: skip
