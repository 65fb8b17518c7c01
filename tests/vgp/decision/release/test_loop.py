"""Nights as the steps live them: resolve finds the champion, evaluate and decide hold the new model against it, and
register makes it the next one."""

import json
import shutil

import pytest

from vgp.base.exits import UserError
from vgp.evaluation import evaluate
from vgp.protocol.pins import ChampionPins, Request, load
from vgp.registry import changes, reigning
from vgp.steps import calls as steps
from vgp.steps import run_request
from vgp.steps.pins import resolve

DIGITS = {"task": "digits:Digits", "pipeline": "training"}


def resolved(nights, run, champion="auto", **fields):
    """The step resolve, its data aside."""
    record = nights.folder / run / "record"
    request = {"champion": champion, "registry": nights.root, "model_name": "digits", "data": __file__, **fields}
    return steps.resolve(record, run=run, to=str(nights.folder / "pins"), **DIGITS, **request)


def lived(nights, run, one, pins, **fields):
    """The steps after training, as the pipeline calls them; the decision, the report's text and the outcome."""
    folder = nights.folder / run
    evaluate.evaluate(one.data, one.model, folder / "evaluation", champion=pins.champion, baseline=False)
    paths = [folder / name for name in ("evaluation", "report", "summary", "decision")]
    decision = steps.decide(one.data, one.model, *paths, champion=pins.champion, nights=12)
    outcome = steps.register(
        one.data, one.model, folder / "evaluation", folder / "decision", folder / "report", folder / "summary",
        registry=pins.registry, model_name=pins.model_name, champion=pins.champion, pins=pins.uri, run=run,
        **DIGITS, **fields,
    )  # fmt: skip
    return decision, (folder / "report").read_text(), outcome


def test_the_next_night_is_held_against_the_champion_and_nothing_new_is_said(nights, challengers, here, capsys):
    nights.night("one", challengers[0])
    first = resolved(nights, "two")
    assert "champion: version 1 of digits." in capsys.readouterr().err
    decision, report, outcome = lived(nights, "two", challengers[1], first)
    assert (decision.reference, outcome.code) == ("champion", "promoted")
    assert decision.reason in capsys.readouterr().err, "the log of the run has the reason"
    assert (
        (nights.folder / "two" / "summary").read_text().startswith("# digits: Registered as version 2, champion since ")
    )
    version = nights.record.version(1)
    assert f'href="file://{version.report}"' in report and "The champion is version 1" in report
    assert "1 (champion)" in report and "<h3>AUC by version</h3>" in report

    again = resolved(nights, "three")
    assert again.data == first.data and again.champion != first.champion
    decision, report, outcome = lived(nights, "three", challengers[1], again)
    assert "the new model has exactly the champion's weights" in decision.reason
    assert (outcome.code, nights.record.aliases) == ("kept", {"champion": 2})
    assert "2 (champion)" in report and resolved(nights, "four").champion == again.champion


def test_a_night_that_can_promote_nothing_is_told_so_before_it_costs_anything(nights, challengers, here, capsys):
    nights.night("one", challengers[0])
    nights.night("two", challengers[1], promote=False, level=0.05)
    output = resolved(nights, "a")
    assert output.words[-1].startswith(
        "gate: a better model will wait as a candidate, because the 5% error budget of a year's tests is used up "
    )
    assert output.words[-1] in capsys.readouterr().err
    assert "gate:" not in " ".join(resolved(nights, "b", approve="manual").words + resolved(nights, "c", "").words)
    assert output.digest == resolved(nights, "d", approve="manual").digest, "what a year has spent changes no pins"


def test_pins_of_the_champion_do_not_change_with_versions_that_come_later(nights, challengers, here):
    """Else a candidate that waits would have every night evaluate anew."""
    nights.night("one", challengers[0])
    before = resolved(nights, "a")
    nights.night("two", challengers[1], approve="manual")
    assert resolved(nights, "b").champion == before.champion
    assert load(resolved(nights, "c", champion="candidate").champion, ChampionPins).number == 2
    assert load(resolved(nights, "d", champion="1").champion, ChampionPins).key == nights.record.version(1).key
    assert resolved(nights, "e", champion="").champion == ""
    nights.registry.change(lambda r: changes.promote(r, 2, expected=1, who="ann", why="", key="p"))
    nights.registry.change(lambda r: changes.rollback(r, who="ann", why="", key="r"))
    assert resolved(nights, "f").champion == before.champion, "a rollback finds the night before in the cache"


def test_a_run_takes_the_champion_that_its_pins_name_whoever_reigns_by_now(nights, challengers, here):
    nights.night("one", challengers[0])
    pins = resolved(nights, "a")
    nights.night("two", challengers[1])
    again = resolved(nights, "b", pins=pins.uri)
    assert (again.champion, again.registry, again.model_name) == (pins.champion, nights.root, "digits")
    assert lived(nights, "b", challengers[2], again)[2].code == "registered"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"champion": "7"}, "digits has no version 7"),
        ({"champion": "model"}, "digits has no alias of that name. It has champion. A folder is written with a /"),
        ({"champion": "Two words"}, "is unknown. Give auto"),
        ({"model_name": "My Model"}, "63 small letters, digits, - and _, a letter first, such as my-model"),
        ({"approve": "never"}, "choose auto"),
        ({"registry": "/dev/null/registry"}, "/dev/null"),
    ],
)
def test_what_cannot_be_registered_is_refused_by_the_first_step(nights, challengers, here, capsys, given, message):
    nights.night("one", challengers[0])
    with pytest.raises(SystemExit):
        resolved(nights, "a", **given)
    assert message in capsys.readouterr().err and not (nights.folder / "a").exists()


def test_a_registry_that_is_damaged_or_of_another_task_or_project_is_refused_before_a_run(nights, challengers, here):
    nights.night("one", challengers[0])
    request = {"task": "digits:Digits", "task_options": {}, "champion": "auto", "margin": 0.0, "confidence": 0.95,
               "data": "", "registry": nights.root, "model_name": "digits"}  # fmt: skip
    run_request.check_request(**request)
    with pytest.raises(ValueError, match="its version 1 has the task digits:Digits, and this run .*Flights"):
        run_request.check_request(**{**request, "task": "flights"})
    named = nights.record.model_copy(update={"versions": tuple(
        one.model_copy(update={"labels": {reigning.PROJECT: "123"}}) for one in nights.record.versions
    )})  # fmt: skip
    nights.registry.change(lambda _: named)
    with pytest.raises(UserError, match="belongs to the project 123, and this run to 456"):
        reigning.read(nights.registry, "digits:Digits", "456")
    record = nights.folder / "registry" / "digits" / "registry.json"
    record.write_text(json.dumps({"format": 1})[:9])
    with pytest.raises(ValueError, match="is not a valid registry record"):
        run_request.check_request(**request)


def test_a_registry_that_a_bucket_refuses_ends_the_run_before_anything_is_pinned(nights, bucket, proxy, capsys):
    proxy.fail(403, method="POST", path="upload")
    with pytest.raises(SystemExit) as ended:
        resolved(nights, "a", registry=f"{bucket}/refused")
    assert ended.value.code == 2 and "refused/digits may not be written" in capsys.readouterr().err
    assert not (nights.folder / "pins").exists()


def test_a_first_registry_is_made_and_one_that_is_not_there_yet_is_no_error(nights):
    assert (
        resolved(nights, "a").champion == "" and not (nights.folder / "registry" / "digits" / "registry.json").exists()
    )


def test_a_champion_that_is_damaged_is_refused_and_one_that_is_gone_is_told(nights, challengers, here, capsys):
    nights.night("one", challengers[0])
    folder = nights.registry.version_folder(nights.record.champion().key)
    weights = nights.folder / folder / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(SystemExit):
        resolved(nights, "a")
    output = capsys.readouterr().err
    assert "differs from the registered file. Restore" in output
    assert "vgp models rollback --model digits, or promote), or run once with --set champion=." in output
    shutil.rmtree(folder)
    gone = resolve.resolve(
        Request(data=__file__, task="digits:Digits", task_options={}, champion="auto"), f"{nights.folder}/pins",
        nights.registry, pipeline="training",
    )  # fmt: skip
    assert "version 1 of digits; its files are gone, so the model is compared with the baseline" in gone.words[-1]
