"""`python -m vgp.steps models`: what a person asks of a registry, and decides about it."""

import json
import shlex

import pytest

from tests.vgp.registry.records import WORDS, champion, key_of, promoted, version
from vgp.base.storage import storage
from vgp.registry import changes, registry, versions
from vgp.steps.__main__ import main

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


#: A verb knows nothing of where a record is; two are seen in a bucket, too.
both = pytest.mark.parametrize("place", ["disk", "bucket"], indirect=True)


@pytest.fixture
def place(request, tmp_path):
    """A registry on a disk, unless a test asks for a bucket."""
    kind = getattr(request, "param", "disk")
    root = (
        f"{request.getfixturevalue('bucket')}/{key_of(request.node.name)[:12]}" if kind == "bucket" else tmp_path / "r"
    )
    return registry.open(str(root), "flights")


@pytest.fixture
def three(place, tmp_path):
    """Versions 1, 2 and 3 of flights, promoted one after the other, and their files."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.json").write_text("{}")
    for name in ("a", "b", "c"):
        files = versions.add(place, str(tmp_path / "model"), key_of(name))
        made = version(name, files=files, metrics={"auc": 0.7 + ord(name) / 1e4}, data=f"month {name}")
        place.change(lambda record, made=made: changes.register(record, made, who="run"))
    place.change(lambda record: promoted(record, 1, 2, 3))
    return place


@pytest.fixture
def models(capsys):
    """Calls a verb; returns its answer, or its error."""

    def call(place, words):
        root = place if isinstance(place, str) else place.root
        try:
            main(["models", *shlex.split(words), "--registry", root, "--json"])
        except SystemExit as ended:
            assert ended.code == 2
            return capsys.readouterr().err
        return json.loads(capsys.readouterr().out)

    return call


def test_show_champion_prints_since_when_why_and_what_it_replaced(three, models):
    answer = models(three, "show")
    assert (answer["model"], answer["number"], answer["aliases"]) == ("flights", 3, ["champion"])
    assert answer["folder"] == three.version_folder(key_of("c")) and answer["files"]["model.json"]["bytes"] == 2
    reign = answer["reign"]
    assert (reign["by"], reign["who"], reign["why"], reign["rollback_to"]) == ("promoted", "ana", "a reason", 2)
    assert reign["replaced"]["number"] == 2 and reign["replaced"]["data"] == "month b"
    assert [one["what"] for one in answer["history"]] == ["registered", "promoted"]
    before = models(three, "show 2")
    assert before["reign"] is None and [one["version"] for one in before["history"]] == [2, 2, 3]


def test_list_has_the_newest_first_and_compare_every_metric(three, models):
    (listed,) = models(three, "list")["models"]
    assert [one["number"] for one in listed["versions"]] == [3, 2, 1] and listed["champion"] == 3
    answer = models(three, "compare champion 1")
    assert answer["metrics"]["auc"] == [0.7 + ord("c") / 1e4, 0.7 + ord("a") / 1e4]
    assert answer["facts"]["data"] == ["month c", "month a"]
    assert "compare needs at least two" in models(three, "compare 1")


@both
def test_a_rollback_that_is_repeated_goes_back_once_and_reports_it(three, models):
    answer = models(three, "rollback --why 'complaints' --account user:ana@example.com")
    assert answer["changed"] and answer["champion"] == 2
    assert answer["said"] == "version 2 is the champion of flights again, in place of version 3"
    event = three.read().events[-1]
    assert event.why == "complaints" and event.who.endswith(" (user:ana@example.com)")
    for words in ("rollback", "rollback --from 3"):
        again = models(three, words)
        assert not again["changed"] and again["champion"] == 2 and "further back: rollback --from 2" in again["said"]
    assert models(three, "rollback --from 2")["champion"] == 1
    assert "version 1 has no predecessor" in models(three, "rollback --from 1")
    assert "the champion is version 1, not version 3" in models(three, "rollback --from 3")


def test_promote_takes_a_number_or_an_alias_and_repeated_does_nothing(three, models):
    models(three, "alias stable 1")
    assert models(three, "promote stable --why 'the year end'")["said"].endswith("in place of version 3")
    again = models(three, "promote 1")
    assert not again["changed"] and again["said"].endswith("already; nothing was changed")
    assert champion(three.read()) == 1


def test_a_version_without_its_files_becomes_no_champion(three, models):
    (file,) = storage.below(three.version_folder(key_of("b")))
    storage.overwrite(file.path, b"")
    for words in ("rollback", "promote 2"):
        assert "version 2 of flights is incomplete" in models(three, words)
    assert champion(three.read()) == 3


@both
def test_delete_removes_the_files_also_where_a_kill_left_them(three, models):
    assert "version 3 is not deleted: it is champion" in models(three, "delete champion")
    three.change(lambda record: changes.delete(record, 2, **WORDS, key="then a kill"))
    assert storage.below(three.version_folder(key_of("b")))
    assert models(three, "delete 2")["said"] == "version 2 of flights is deleted already; nothing was changed"
    assert storage.below(three.version_folder(key_of("b"))) == []
    assert models(three, "rollback")["champion"] == 1


def test_aliases_and_rejections_are_repeated_without_effect(three, models):
    for words in ("alias stable 2", "unalias stable", "reject 2"):
        assert models(three, words)["changed"] and not models(three, words)["changed"]
    assert "was rejected on" in models(three, "promote 2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show 9", "flights has no version 9. Take one of 1, 2, 3."),
        ("show nope", "flights has no alias 'nope'. Its aliases: champion; or give a number."),
        ("alias Stable 9", "'Stable' is not a valid alias: it needs"),
        ("alias champion 9", "the alias champion is moved by promote and rollback"),
        ("compare 3 2 champion", "compare takes different versions of flights: 3 and champion are the same."),
        ("delete champion --dry-run", "version 3 is not deleted: it is champion"),
        ("alias default 2", "and not default, which Vertex AI keeps for itself"),
        ("show --model delays", "has no model 'delays'. It has flights."),
        (f"promote 1 --why {'x' * 2001}", "--why has 2,001 letters; at most 2,000 are kept"),
    ],
)
def test_a_wrong_request_is_reported_with_the_choices(three, models, words, message):
    before = three.read()
    assert message in models(three, words)
    assert three.read() == before


def test_the_error_for_a_model_without_versions_names_the_source_of_the_first(place, models):
    place.change(lambda record: changes.keep(record, who="run", why="", key="night"))
    first = "It has no usable version; the next run with a better model registers one."
    for words in ("show", "show 1", "promote 1", "delete 1 --dry-run"):
        assert first in models(place, words)


def test_the_only_model_need_not_be_named_and_one_of_several_must(place, models, tmp_path):
    assert "there is no registry at" in models(str(tmp_path / "none"), "list")
    place.change(lambda record: changes.register(record, version("a"), who="run"))
    assert models(place, "show 1")["model"] == "flights"
    other = registry.open(place.root, "delays")
    other.change(lambda record: changes.register(record, version("a"), who="run"))
    assert "holds 2 models: choose one with --model: delays, flights" in models(place, "show 1")
    assert models(place, "show 1 --model delays")["model"] == "delays"
    assert [one["model"] for one in models(place, "list")["models"]] == ["delays", "flights"]
    assert "flights has no champion" in models(place, "show --model flights")
    assert models(place, "record --model delays")["versions"][0]["key"] == key_of("a")


def test_a_terminal_gets_lines(three, capsys):
    for words in ("list", "show", "compare 1 2", "rollback"):
        main(["models", *words.split(), "--registry", three.root])
    text = capsys.readouterr().out
    assert "flights:\n     3  2" in text and "auc " in text and "version 2 is the champion of flights again" in text
