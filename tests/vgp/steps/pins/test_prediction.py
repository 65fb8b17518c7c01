"""The model that predicts and the place of the predictions, chosen once at the beginning of a run."""

import pytest

from vgp.base.exits import UserError
from vgp.data import bundle
from vgp.data.bundle import ModelCard
from vgp.data.task_names import spec
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins, DataPins, Request
from vgp.registry import changes, registry, versions
from vgp.registry.documents import Version
from vgp.steps.pins import prediction

KEYS = ["1" * 64, "2" * 64, "3" * 64]


@pytest.fixture
def models(tmp_path):
    """Three versions of a model of flights; none reigns."""
    opened = registry.open(str(tmp_path / "registry"), "flights")
    for key in KEYS:
        folder = tmp_path / key[:1]
        folder.mkdir()
        card = ModelCard(
            task=spec("flights"), options={"train": "1", "test": "2"}, columns=(), config={}, steps=1, parameters=1
        )
        bundle.save_card(folder, card)
        (folder / bundle.WEIGHTS).write_bytes(key.encode())
        files = versions.add(opened, str(folder), key)
        version = Version(key=key, model=opened.version_folder(key), files=files, task=spec("flights"))
        opened.change(lambda record, version=version: changes.register(record, version, who="me"))
    return opened


def promote(models, number, **more):
    models.change(
        lambda r: changes.promote(r, number, expected=r.aliases.get("champion"), who="me", why="", key=f"p{number}")
    )


def resolved(models, tmp_path, model="champion", **more):
    request = Request(data="", task=spec("flights"), task_options={}, champion=model)
    return prediction.resolve(request, str(tmp_path / "pins"), models, run="night-7", **more)


def test_the_model_is_the_champion_a_number_an_alias_or_a_folder(models, tmp_path):
    promote(models, 2)
    models.change(lambda r: changes.alias(r, "steady", 1, who="me", why="", key="a"))
    for given, number in (("champion", 2), ("3", 3), ("steady", 1), (str(tmp_path / "1"), 0)):
        made = resolved(models, tmp_path, given)
        pins = store.load(made.model, ChampionPins)
        assert (pins.number, made.model_name) == (number, "flights")
        assert store.load(made.data, DataPins).options == {"train": "1", "test": "2"}


def test_a_model_that_is_not_there_is_reported_before_anything_is_pinned(models, tmp_path):
    with pytest.raises(
        UserError, match="model = champion: flights has no champion yet. Its versions are 1, 2, 3: name one"
    ):
        resolved(models, tmp_path)
    models.change(lambda r: changes.delete(r, 3, who="eva", why="too old", key="d"))
    for given, message in (
        ("3", r"version 3 of flights was deleted on .* by eva \(too old\). Take one of 1, 2"),
        ("9", "flights has no version 9. Take one of 1, 2"),
        ("staging", "model = staging: flights has no alias of that name. It has none."),
        ("./nowhere", "model = .*nowhere: the folder has no model.json"),
    ):
        with pytest.raises(UserError, match=message):
            resolved(models, tmp_path, given)
    assert not (tmp_path / "pins").exists()


def test_an_unknown_model_name_is_reported_with_the_known_ones(models, tmp_path):
    other = registry.open(models.root, "delays")
    with pytest.raises(UserError, match="has no model named delays. It has flights: set model_name"):
        resolved(other, tmp_path)
    with pytest.raises(UserError, match="has no model named flights. It has no models yet"):
        resolved(registry.open(str(tmp_path / "nowhere"), "flights"), tmp_path)


def test_a_destination_is_that_of_the_first_start_whenever_it_goes_on(models, tmp_path):
    promote(models, 1)
    place = "gs://b/{version}/{run}/{date}"
    made = resolved(models, tmp_path, destination=place, as_of="2026-01-31")
    assert made.destination == "gs://b/1/night-7/2026-01-31"
    promote(models, 2)
    again = resolved(models, tmp_path, destination=place, as_of="2026-01-31", pins=made.uri)
    assert (again.destination, again.model) == (made.destination, made.model)
    with pytest.raises(UserError, match=r"{day} is unknown. Placeholders are {date}, {run}, {version}"):
        prediction.check_destination("gs://b/{day}")
    with pytest.raises(UserError, match="the model of a folder has no version"):
        resolved(models, tmp_path, str(tmp_path / "1"), destination=place)
