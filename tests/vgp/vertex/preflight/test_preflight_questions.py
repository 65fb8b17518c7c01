"""Questions side by side: one that fails hides no other, and none takes long. What a person sees of the findings, and a
script."""

import threading
from io import StringIO

from rich.console import Console

from tools.emulator.cloud import reset, slow, status
from vgp.vertex.preflight import preflight_questions
from vgp.vertex.preflight.preflight_questions import Finding, Question, skip_question


def fine(name):
    return Question(name, "it", lambda: [Finding(name, "it", "ok", "is fine")])


def test_findings_come_in_the_order_of_the_questions(world):
    def late():
        assert began.wait(60)
        return [Finding("late", "it", "ok", "is fine")]

    def early():
        began.set()
        return [Finding("early", "it", "ok", "is fine")]

    calls, began = [], threading.Event()
    asked = [Question("late", "it", late), Question("early", "it", early), skip_question("none", "it", "none is set")]
    found = preflight_questions.answer_questions(world.settings(), asked, lambda: calls.append(1))
    assert [each.check for each in found] == ["late", "early", "none"]
    assert len(calls) == 3


def test_an_unexpected_answer_hides_no_other(world):
    def odd():
        yield Finding("odd", "it", "ok", "is there")
        raise KeyError("name")

    found = preflight_questions.answer_questions(world.settings(), [Question("odd", "it", odd), fine("other")])
    assert [(each.check, each.level) for each in found] == [("odd", "ok"), ("odd", "unknown"), ("other", "ok")]
    assert found[1].seen == "the answer was not understood: KeyError: 'name'"


def test_a_finding_of_two_questions_is_reported_once(world):
    assert len(preflight_questions.answer_questions(world.settings(), [fine("same"), fine("same")])) == 1


def test_every_api_may_fail_and_each_failure_is_reported(world):
    world.cloud.fail("[!o]*", status(400, "out of order"), forever=True)  # all but oauth2
    found = world.look()
    assert {each.level for each in found} <= {"ok", "unknown"}
    asked = {each.check for each in found if each.level == "unknown"}
    assert asked >= {
        "account.project", "account.billing", "account.permissions", "apis.enabled", "region.now", "quota.limit",
        "bucket.exists", "bucket.writer", "image.exists", "image.reader", "identity.act_as", "identity.account",
        "identity.itself", "identity.roles", "key.exists", "network.exists", "repository.exists",
    }  # fmt: skip


def test_a_connection_that_drops_is_tried_again(world):
    world.cloud.fail("iam.projects.serviceAccounts.get", reset(), status(503))
    world.cloud.fail("compute.networks.get", reset())
    assert world.found() == []


def test_a_question_that_takes_too_long_is_unknown(world, monkeypatch):
    world.look()  # what is imported for the first question of all may take longer than what is allowed below
    monkeypatch.setattr(preflight_questions, "ATTEMPT_S", 1.5)
    monkeypatch.setattr(preflight_questions, "QUESTION_S", 3)
    world.cloud.fail("iam.projects.serviceAccounts.get", slow(5), forever=True)
    (found,) = (each for each in world.look() if each.check == "identity.account")  # others may be late as well
    assert found.level == "unknown" and "no connection" in found.seen


def test_questions_are_asked_at_the_same_time(world):
    meeting = threading.Barrier(4, timeout=60)  # one after another they would wait here in vain

    def meet():
        meeting.wait()
        return []

    assert (
        preflight_questions.answer_questions(world.settings(), [Question(f"{n}", "it", meet) for n in range(4)]) == []
    )


def test_no_question_changes_anything(world):
    world.look()
    reading = ("get", "list", "batchGet", "aggregatedList", "getIamPolicy", "testIamPermissions", "getBillingInfo")
    assert {call.rpartition(".")[2] for call in world.calls()} <= set(reading)


COMMAND = "gcloud storage buckets update gs://a-bucket --uniform-bucket-level-access " + "x" * 100


def printed(*found, width=60):
    stream = StringIO()
    console = Console(file=stream, width=width)
    for line in preflight_questions.render_lines(found):
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


def test_text_from_google_cannot_control_the_terminal():
    text = printed(Finding("bucket.exists", "it", "unknown", "said \x1b]0;title\x07\nand more", "do \x1b[2Jthis [red]"))
    assert "\x1b" not in text and "\x07" not in text
    assert "and more" in text.splitlines()[0] and "this [red]" in text.splitlines()[1]


def test_the_sum_names_the_levels_that_occur():
    levels = ("ok", "ok", "error", "warning", "warning", "unknown")
    found = [Finding("c", str(number), level, "is so") for number, level in enumerate(levels)]
    assert preflight_questions.summarize(found) == "2 ok, 2 warnings, 1 error, 1 unknown."
    assert preflight_questions.findings_json("training", found)["counts"] == {
        "ok": 2, "warning": 2, "error": 1, "unknown": 1, "skipped": 0,
    }  # fmt: skip
