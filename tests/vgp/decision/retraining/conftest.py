from pathlib import Path

import pytest

HERE = str(Path(__file__).parent)


@pytest.fixture(scope="session")
def first_night(tmp_path_factory):
    """A shop with its first champion."""
    folder = tmp_path_factory.mktemp("shop") / "shop"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        import shops

        shops.begun(folder)
    return folder


@pytest.fixture
def shop(first_night, tmp_path, monkeypatch):
    """The shop on a later night; `shop.asked(...)` decides for its data as it is then."""
    monkeypatch.syspath_prepend(HERE)
    import shops

    from vgp.steps import calls as step

    later = first_night / "data" / "b.csv"

    class Shop:
        folder = first_night

        def new(self, *days, header="id,day,colour,size,bought", **others):
            shops.write(later, *(shops.day(number, **others) for number in days), header=header)

        def asked(self, page="", **given):
            record = tmp_path / "runs" / "record"
            return step.resolve(**shops.asked(first_night, look=page, record=record, **{"when": "drift", **given}))

        def verdict(self, **given):
            return self.asked(**{"retrain_every": "", **given}).verdict

    yield Shop()
    later.unlink(missing_ok=True)
