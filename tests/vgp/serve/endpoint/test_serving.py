"""A model behind HTTP keeps Vertex AI's contract: routes, health, bodies, errors, and an end in order."""

import hashlib
import http.client
import json
import os
import re
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import uvicorn

from vgp.base.exits import UserError
from vgp.base.storage.objects import Folder
from vgp.serve.endpoint import served_model, server
from vgp.serve.endpoint.server import State, app
from vgp.serve.endpoint.serving_request import ServingRequest, request
from vgp.serve.prediction.predictor import Predictor
from vgp.steps.__main__ import main

ROW = {"city": "Ulm", "area": 50.0, "street": 7}
#: Any one machine learning process may take longer than this only if something hangs.
PATIENCE_S = 60


@pytest.fixture(scope="module")
def trained(prices, tmp_path_factory):
    return prices.trained(tmp_path_factory.mktemp("served") / "model", prices.data, steps=2)


@pytest.fixture(scope="module")
def served(trained):
    return served_model.load(ServingRequest(str(trained), version="7"))


@contextmanager
def running(state, most_bytes=2_000):
    """A server of this process, at a port of its own."""
    routes = app(state, predict="/predict", health="/health", most_bytes=most_bytes)
    serving = uvicorn.Server(uvicorn.Config(routes, port=0, log_level="critical", lifespan="off"))
    listener = server._listener(ServingRequest("", port=0))
    thread = threading.Thread(target=serving.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        serving.should_exit = True
        thread.join()


def asks(port, method, path, body=None, **headers):
    """Status and JSON of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    connection.request(method, path, content, headers)
    answer = connection.getresponse()
    found = answer.status, json.loads(answer.read())
    connection.close()
    return found


@pytest.fixture(scope="module")
def port(served):
    with running(State(served)) as port:
        yield port


def test_instances_are_predicted_in_their_order_with_the_version_that_did(port, served, trained):
    rows = [ROW, {**ROW, "city": "Kiel"}, {**ROW, "area": None}]
    status, answer = asks(port, "POST", "/predict", {"instances": rows})
    expected = Predictor.load(trained).raw(rows)
    assert (status, answer) == (200, {"predictions": [{**one, "version": "7"} for one in expected]})
    assert answer["predictions"][0]["quantiles"].keys() == {"0.1", "0.5", "0.9"}
    assert asks(port, "POST", "/predict", {"instances": [], "parameters": None}) == (200, {"predictions": []})
    assert asks(port, "GET", "/health") == (200, {"status": "ok"})


def test_a_whole_number_may_come_as_a_double_as_googles_clients_send_every_number(port):
    as_double = b'{"instances": [{"city": "Ulm", "area": 50, "street": 7.0}]}'
    assert asks(port, "POST", "/predict", as_double) == asks(port, "POST", "/predict", {"instances": [ROW]})


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "the body is not JSON: Expecting property name"),
        (b'{"instances": [{"area": NaN}]}', "NaN is not JSON; a missing value is null"),
        (b"[" * 1_500, "nested too deeply"),
        (b"\xff", "the body is not JSON"),
        ([ROW], "the body is not a JSON object"),
        ({}, "the request has no instances"),
        ({"instances": ROW}, "instances must be a list of objects"),
        ({"instances": [ROW, 3]}, "instances[1] must be an object with the row's values"),
        ({"instances": [{}]}, "instances[0] has no values"),
        ({"instance": [ROW]}, "the request has 'instance'; allowed: instances and parameters"),
        ({"instances": [ROW], "parameters": {"top": 3}}, "parameters has 'top'"),
        ({"instances": [ROW], "parameters": {"history": 3}}, "parameters.history must be a list of objects"),
        ({"instances": [ROW, {"area": 2.0, "street": 7}]}, "row 2 lacks the column city"),
        ({"instances": [{**ROW, "street": 7.5}]}, "column street: 7.5 is not of type int64"),
        ({"instances": [{**ROW, "street": 2.0**53}]}, "column street: 9007199254740992.0 is not of type int64"),
        ({"instances": [{**ROW, "area": "large"}]}, "column area: 'large' is not of type double"),
    ],
    ids=lambda given: str(given)[:30],
)
def test_what_is_wrong_about_a_request_is_a_400_with_the_field(port, body, words):
    status, answer = asks(port, "POST", "/predict", body)
    assert status == 400 and words in answer["error"]


@pytest.mark.parametrize(
    ("headers", "status", "words"),
    [
        ({}, 200, ""),
        ({"Content-Type": "application/json; charset=utf-8"}, 200, ""),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 200, ""),  # curl -d, as the page has it
        ({"Content-Type": "text/csv"}, 415, "the body has Content-Type 'text/csv': send application/json, {"),
        ({"Content-Type": "image/jpeg"}, 415, "the body has Content-Type 'image/jpeg'"),
        ({"Content-Type": "application/json", "Content-Encoding": "gzip"}, 415, "uncompressed"),
    ],
    ids=str,
)
def test_a_body_with_a_type_other_than_json_is_refused_by_its_name(port, headers, status, words):
    """A raw prediction brings the headers of its sender."""
    code, answer = asks(port, "POST", "/predict", {"instances": [ROW]}, **headers)
    assert code == status and words in answer.get("error", "")


def test_a_body_that_is_too_large_is_not_read(port):
    large = {"instances": [ROW] * 100}
    assert asks(port, "POST", "/predict", large) == (
        413, {"error": "the body has more than 0.002 MB; send fewer instances at a time"}
    )  # fmt: skip
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as announced:
        announced.putrequest("POST", "/predict")
        announced.putheader("Content-Length", str(10**9))
        announced.endheaders()  # and nothing of it: the answer does not wait for it
        assert announced.getresponse().status == 413
    chunks = iter([json.dumps(large).encode()])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    connection.request("POST", "/predict", chunks, encode_chunked=True, headers={"Transfer-Encoding": "chunked"})
    assert connection.getresponse().status == 413
    connection.close()


def test_other_paths_and_methods_are_refused_as_json(port):
    assert asks(port, "GET", "/predict")[0] == 405
    assert asks(port, "POST", "/predicts", {}) == (404, {"error": "Not Found"})


def test_a_failure_of_the_model_is_a_500_that_names_only_its_kind(served, monkeypatch, capsys):
    def breaks(*_):
        raise RuntimeError("CUDA error at /secret/path")

    monkeypatch.setattr(Predictor, "raw", breaks)
    with running(State(served)) as port:
        status, answer = asks(port, "POST", "/predict", {"instances": [ROW]})
        assert asks(port, "GET", "/health")[0] == 200  # it is still there
    assert (status, answer) == (500, {"error": "the model failed: RuntimeError; see the server's log"})
    assert "/secret/path" in capsys.readouterr().err


def test_it_is_well_only_once_the_model_has_answered(served):
    state = State()
    with running(state) as port:
        assert asks(port, "GET", "/health") == (503, {"status": "loading"})
        assert asks(port, "POST", "/predict", {"instances": [ROW]}) == (503, {"error": "the model is still loading"})
        state.served = served
        assert asks(port, "GET", "/health")[0] == 200


def test_requests_above_the_queue_limit_are_asked_to_retry(served):
    from vgp.serve.endpoint.server import MOST_WAITING

    with running(State(served, waiting=MOST_WAITING)) as port:
        assert asks(port, "POST", "/predict", {"instances": [ROW]})[0] == 503


def test_nothing_is_computed_for_a_client_that_left_while_it_waited(served, monkeypatch):
    asked, release, raw = [], threading.Event(), Predictor.raw

    def waits(*values):
        asked.append(values)
        assert release.wait(PATIENCE_S)
        return raw(*values)

    def await_true(condition):
        until = time.monotonic() + PATIENCE_S
        while not condition():
            assert time.monotonic() < until
            time.sleep(0.02)

    monkeypatch.setattr(Predictor, "raw", waits)
    state, body = State(served), json.dumps({"instances": [ROW]}).encode()
    with running(state) as port, ThreadPoolExecutor(2) as pool:
        first = pool.submit(asks, port, "POST", "/predict", body)
        await_true(lambda: asked)
        gone = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
        gone.request("POST", "/predict", body)
        await_true(lambda: state.waiting == 2)
        gone.close()
        last = pool.submit(asks, port, "POST", "/predict", body)
        await_true(lambda: state.waiting == 3)
        release.set()
        assert first.result(PATIENCE_S)[0] == last.result(PATIENCE_S)[0] == 200
    assert len(asked) == 2


def test_arguments_come_before_the_variables_of_vertex_ai():
    variables = {
        "AIP_HTTP_PORT": "9090", "AIP_PREDICT_ROUTE": "/v1/p", "AIP_HEALTH_ROUTE": "/v1/h", "AIP_STORAGE_URI": "gs://b/m/"
    }  # fmt: skip
    there = request(environment=variables)
    assert (there.model, there.host, there.port, there.predict, there.health) == (
        "gs://b/m", "0.0.0.0", 9090, "/v1/p", "/v1/h"
    )  # fmt: skip
    here = request("runs/model", port=8081, environment=variables)
    assert (here.model, here.port) == ("runs/model", 8081)
    laptop = request("runs/model", environment={})
    assert (laptop.host, laptop.port, laptop.predict) == ("127.0.0.1", 8080, "/predict")


@pytest.mark.parametrize(
    ("given", "variables", "words"),
    [
        ({}, {}, "no model is given. Run python -m vgp.steps serve FOLDER"),
        ({"model": "m"}, {"AIP_HTTP_PORT": "http"}, "port 'http': must be a number"),
        (
            {"model": "m"},
            {"AIP_PREDICT_ROUTE": "predict"},
            "AIP_PREDICT_ROUTE='predict': must be a path that begins with /",
        ),
        ({"model": "m", "sha256": ["model.json=abc"]}, {}, "FILE=SHA256, 64 hexadecimal digits"),
        ({"model": "m", "max_request_mb": 0}, {}, "--max-request-mb 0"),
    ],
)
def test_a_model_that_cannot_be_served_is_refused_before_anything_is_loaded(given, variables, words):
    with pytest.raises(UserError, match=words):
        request(environment=variables, **given)


def test_a_file_that_is_not_the_registered_one_is_never_loaded(trained):
    with pytest.raises(UserError, match=r"model\.safetensors is not the file that was registered"):
        served_model.load(ServingRequest(str(trained), sha256={"model.safetensors": "0" * 64}))
    with pytest.raises(UserError, match="holds no finished model"):
        served_model.load(ServingRequest(str(trained.parent), sha256={"model.json": "0" * 64}))


def test_a_port_that_is_taken_is_a_sentence(port, trained):
    with pytest.raises(UserError, match=rf"127.0.0.1:{port} is not available: .*--port"):
        server.serve(ServingRequest(str(trained), port=port))


def test_a_container_serves_a_bucket_and_ends_in_order(bucket, trained, monkeypatch, capsys):
    """As Vertex AI starts it: variables, checksums, a task that does not ship; SIGTERM comes amid a request."""
    checksums = []
    for name in ("model.json", "model.safetensors"):
        content = (trained / name).read_bytes()
        Folder(f"{bucket}/served").create(name, [memoryview(content)])
        checksums += ["--sha256", f"{name}={hashlib.sha256(content).hexdigest()}"]
    with server._listener(ServingRequest("", port=0)) as free:
        port = free.getsockname()[1]
    variables = {"HTTP_PORT": str(port), "STORAGE_URI": f"{bucket}/served", "HEALTH_ROUTE": "/well",
                 "PREDICT_ROUTE": "/v1/predict"}  # fmt: skip
    for name, value in variables.items():
        monkeypatch.setenv(f"AIP_{name}", value)
    with ThreadPoolExecutor(1) as pool:  # signals reach the main thread alone: the client is the other one
        answered = pool.submit(ended_amid_a_request, port)
        main(["serve", "--name", "flats", "--version", "3", "--task", "prices:Prices", *checksums])
        status, answer = answered.result()
    assert status == 200 and answer["predictions"][0]["version"] == "3"
    assert capsys.readouterr().err == f"flats 3 at http://0.0.0.0:{port}/v1/predict\n"
    with pytest.raises(ConnectionRefusedError):
        asks(port, "GET", "/well")


def ended_amid_a_request(port):
    """Status and answer of a request whose second half is sent after SIGTERM."""
    deadline = time.monotonic() + PATIENCE_S
    try:
        while time.monotonic() < deadline:
            try:
                if asks(port, "GET", "/well")[0] == 200:
                    break
            except ConnectionRefusedError:
                pass
            time.sleep(0.05)
        body = json.dumps({"instances": [ROW]}).encode()
        with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)) as connection:
            connection.putrequest("POST", "/v1/predict")
            connection.putheader("Content-Length", str(len(body)))
            connection.putheader("Expect", "100-continue")
            connection.endheaders()
            assert connection.sock.recv(99).startswith(b"HTTP/1.1 100 Continue")  # the request has begun
            connection.send(body[:10])
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.2)
            connection.send(body[10:])
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
    except BaseException:
        os.kill(os.getpid(), signal.SIGTERM)  # nothing else would end the server
        raise


def test_the_request_of_the_page_gets_the_answer_of_the_page(port):
    page = (Path(__file__).parents[4] / "docs/how-to/serving.md").read_text()
    asked, answer = (json.loads(block) for block in re.findall(r"(?ms)^```json\n(.*?)^```$", page))
    status, served = asks(port, "POST", "/predict", asked)
    assert status == 200
    assert [set(one) for one in served["predictions"]] == [set(one) for one in answer["predictions"]]
    assert served["predictions"][0]["version"] == answer["predictions"][0]["version"]
    for name in ("predict", "health"):
        assert f"/{name}" in page
