"""Online prediction as Google's SDK asks for it: what is passed on as it is, and an endpoint with a host of its own."""

import json
import sys

import pytest
from google.api_core.exceptions import BadRequest

#: A container that answers with what it was sent, and refuses images.
ECHO = """
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send(200, "text/plain", b"ok")
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        kind = self.headers.get("Content-Type", "none")
        if kind.startswith("image/"):
            return self.send(415, "text/plain", b"no images")
        heard = {"body": body.decode(), "type": kind, "mine": self.headers.get("X-Mine"),
                 "signed": "authorization" in self.headers}
        self.send(200, "application/vnd.mine+json", json.dumps({"predictions": [heard]}).encode())
    def send(self, status, kind, body):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *args):
        pass
HTTPServer(("127.0.0.1", int(os.environ["AIP_HTTP_PORT"])), Handler).serve_forever()
"""


@pytest.fixture
def deployed(sdk):
    """Makes an endpoint with the echo on it."""

    def run(**how):
        model = sdk.Model.upload(
            display_name="echo", serving_container_image_uri="us-docker.pkg.dev/p/r/echo:1",
            serving_container_command=[sys.executable, "-c", ECHO],
        )  # fmt: skip
        endpoint = sdk.Endpoint.create(display_name="echo", **how)
        model.deploy(endpoint=endpoint, machine_type="n1-standard-2", sync=True)
        return endpoint

    return run


def test_a_raw_prediction_passes_body_headers_and_answer_on_as_they_are(cloud, deployed):
    endpoint = deployed()
    answer = endpoint.raw_predict(body=b"a,b\n1,2\n", headers={"Content-Type": "text/csv", "X-Mine": "7"})
    heard = {"body": "a,b\n1,2\n", "type": "text/csv", "mine": "7", "signed": False}
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "application/vnd.mine+json")
    assert answer.json() == {"predictions": [heard]}
    assert answer.headers["X-Vertex-AI-Endpoint-Id"] == endpoint.name
    refused = endpoint.raw_predict(body=b"\xff\xd8", headers={"Content-Type": "image/jpeg"})
    assert (refused.status_code, refused.content) == (415, b"no images")
    assert endpoint.raw_predict(body=b"{}", headers={}).json()["predictions"][0]["type"] == "none"
    prediction = endpoint.predict(instances=[{"a": 1}], use_raw_predict=True)
    assert (prediction.deployed_model_id, prediction.model_version_id) == (endpoint.list_models()[0].id, "1")
    assert cloud.tunnel.strays == []


def test_a_dedicated_endpoint_answers_at_its_own_host_alone(cloud, sdk, deployed):
    endpoint = deployed(dedicated_endpoint_enabled=True)
    assert endpoint.dedicated_endpoint_dns == f"{endpoint.name}.us-central1-123456789012.prediction.vertexai.goog"
    (heard,) = endpoint.predict(instances=[{"a": "x" * 2_000_000}]).predictions
    assert len(json.loads(heard["body"])["instances"][0]["a"]) == 2_000_000
    raw = endpoint.raw_predict(body=b"text", headers={"Content-Type": "text/plain"}, use_dedicated_endpoint=True)
    assert raw.json()["predictions"][0]["body"] == "text"
    shared = endpoint._prediction_client
    with pytest.raises(BadRequest, match=rf"shared Vertex AI domain: ask {endpoint.dedicated_endpoint_dns}"):
        shared.predict(endpoint=endpoint.resource_name, instances=[{"a": 1}])
    with pytest.raises(ValueError, match="exceeds 10.000MB limit"):
        endpoint.predict(instances=["x" * 10_000_000])
    other = sdk.Endpoint.create(display_name="other", dedicated_endpoint_enabled=True)
    for path in (f"{other.resource_name}:predict", endpoint.resource_name):
        url = f"https://{endpoint.dedicated_endpoint_dns}/v1/{path}"
        assert endpoint.authorized_session.post(url, json={"instances": [1]}).status_code == 404
    assert cloud.tunnel.strays == []


def test_a_shared_endpoint_takes_a_megabyte_and_a_half(deployed):
    with pytest.raises(BadRequest, match="exceeds 1.500MB limit"):
        deployed().predict(instances=["x" * 1_500_000])
