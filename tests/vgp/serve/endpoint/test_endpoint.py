"""A version of the registry on an endpoint: Google's SDK deploys it by its alias, and its own container answers."""

import json
import os

import pytest
from google.api_core.exceptions import BadRequest, FailedPrecondition

from tests.helpers.run_wing import HERE, forget_client
from tests.vgp.protocol.registered import IMAGE, TERMS, CloudClock
from vgp.base import google_api
from vgp.base.storage import storage
from vgp.protocol import model_registry
from vgp.protocol.model_service import ModelService
from vgp.registry import changes, registry, versions
from vgp.registry.documents import Version
from vgp.serve.prediction.predictor import Predictor

ROW = {"city": "Ulm", "area": 50.0, "street": 7}
WHO = {"who": "a run", "why": "better"}


@pytest.fixture
def registered(cloud, prices, tmp_path, monkeypatch):
    """Puts models into the registry of the bucket as versions, the last one champion, and shows them there."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", cloud.endpoint("storage"))
    for name in ("HTTPS_PROXY", "NO_PROXY", "REQUESTS_CA_BUNDLE"):  # a raw prediction knows Google's host names alone
        monkeypatch.setenv(name, cloud.environment[name])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")]))
    forget_client()

    def run(name, *models):
        place = registry.open(f"gs://test-bucket/{tmp_path.name}/registry", name)
        for number, model in enumerate(models, 1):
            key = f"{number:064x}"
            files = versions.add(place, str(model), key)
            made = Version(key=key, model=place.version_folder(key), files=files, image=IMAGE, task="prices:Prices")
            place.change(lambda record, made=made: changes.register(record, made, who="a run"))
            place.change(lambda record, number=number: changes.promote(
                record, number, expected=number - 1 or None, key=str(number), **WHO))  # fmt: skip
        with google_api.session() as session:
            service = ModelService(session, cloud.endpoint("aiplatform"), "test-project", "us-central1")
            read = lambda: place.read().model_dump(mode="json")  # noqa: E731
            model_registry.reconcile(read, service, TERMS, clock=CloudClock(cloud))
        return place

    yield run
    monkeypatch.undo()
    forget_client()


def test_googles_sdk_deploys_the_champion_and_its_container_answers_as_the_model_does(
    cloud, sdk, registered, prices, tmp_path
):
    old = prices.trained(tmp_path / "old", prices.data, steps=2)
    new = prices.trained(tmp_path / "new", prices.data, steps=9)
    place = registered("flats", old, new)
    champion = sdk.Model("flats@champion")
    assert (champion.version_id, champion.labels["registry-number"]) == ("2", "2")
    # Tasks that do not ship are in the image of their author.
    cloud.endpoints.environment["PYTHONPATH"] = os.environ["PYTHONPATH"] + os.pathsep + os.getcwd()
    endpoint = champion.deploy(deployed_model_display_name="flats", machine_type="n1-standard-4", sync=True)
    answer = endpoint.predict(instances=[ROW, {**ROW, "area": None}])
    assert [one["version"] for one in answer.predictions] == ["2", "2"] and answer.model_version_id == "2"
    expected = Predictor.load(str(new)).raw([ROW, {**ROW, "area": None}])
    assert [one["mean"] for one in answer.predictions] == [one["mean"] for one in expected]
    with pytest.raises(BadRequest, match="row 1 lacks the column city"):
        endpoint.predict(instances=[{"area": 50.0}])
    body, kind = json.dumps({"instances": [ROW]}).encode(), {"Content-Type": "application/json"}
    raw = endpoint.raw_predict(body=body, headers=kind)
    assert (raw.status_code, raw.json()) == (200, {"predictions": answer.predictions[:1]})
    refused = endpoint.raw_predict(body=b"city,area\nUlm,50\n", headers={"Content-Type": "text/csv"})
    assert refused.status_code == 415 and "send application/json" in refused.json()["error"]
    with pytest.raises(BadRequest, match="is deployed"):
        champion.delete()
    endpoint.undeploy_all()
    endpoint.delete()
    assert sdk.Endpoint.list() == [] and cloud.tunnel.strays == []
    assert place.read().aliases == {"champion": 2}


def test_a_version_whose_files_are_others_by_now_is_never_deployed(cloud, sdk, registered, prices, tmp_path):
    place = registered("others", prices.trained(tmp_path / "model", prices.data, steps=2))
    storage.overwrite(f"{place.version_folder(f'{1:064x}')}/model.safetensors", b"others")
    cloud.endpoints.environment["PYTHONPATH"] = os.environ["PYTHONPATH"] + os.pathsep + os.getcwd()
    with pytest.raises(FailedPrecondition, match=r"exit code 2\. error: .*model.safetensors"):
        sdk.Model("others").deploy(machine_type="n1-standard-4", sync=True)
    (endpoint,) = sdk.Endpoint.list(filter="display_name=others_endpoint")
    assert endpoint.list_models() == []
