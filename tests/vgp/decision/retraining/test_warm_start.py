"""warm_start = champion: the weights of the run's champion, where they fit what is trained."""

from vgp.protocol import manifest
from vgp.protocol import pins as store
from vgp.protocol.pins import DataPins
from vgp.steps.pins import weights
from vgp.train.train_config import parse_config

ASKED = {"warm_start": "champion"}


def test_the_champion_is_pinned_with_the_data_and_begun_with_where_it_fits(shop):
    prepared, config = manifest.load(shop.folder / "prepared"), parse_config({"task": "shops:Shops", **ASKED})
    made = shop.asked(training_options=ASKED)
    assert made.verdict.cause == "nothing new", "beginning with the champion is no other setting of it"
    document = store.load(made.data, DataPins)
    settled, pins, said = weights.resolve_champion(document, config, prepared, made.data)
    assert settled.warm_start.endswith("versions/" + "a" * 64) and pins == document.weights
    assert said.startswith("warm start: the champion, ")
    red = [
        c.model_copy(update={"values": ("", "red"), "counts": ()}) if c.name == "colour" else c
        for c in prepared.columns
    ]
    other = prepared.model_copy(update={"columns": tuple(red)})
    settled, pins, said = weights.resolve_champion(document, config, other, made.data)
    assert (settled.warm_start, pins) == ("", "") and said.endswith("kind, width or values differ in colour.")


def test_without_a_champion_training_begins_anew(shop):
    data = shop.asked(training_options=ASKED, champion="").data
    prepared, config = manifest.load(shop.folder / "prepared"), parse_config({"task": "shops:Shops", **ASKED})
    document = store.load(data, DataPins)
    assert document.weights == ""
    assert weights.resolve_champion(document, config, prepared, data)[::2] == (
        config.model_copy(update={"warm_start": ""}), "no warm start from the champion: there is none."
    )  # fmt: skip
    plain = parse_config({"task": "shops:Shops"})
    assert weights.resolve_champion(document, plain, prepared, data) == (plain, "", "")
