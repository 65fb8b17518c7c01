"""As much of an MLflow server's REST API as is called, in memory; its answers were compared with MLflow 3.17's."""

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class MlflowServer:
    """A server on loopback; `faults` are what its next answers are instead: a status, or "lost" after the work."""

    def __init__(self) -> None:
        self.experiments: dict[str, str] = {}
        self.runs: list[dict[str, Any]] = []
        self.faults: list[int | str] = []
        self.requests: list[tuple[str, Mapping[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer({name: values[0] for name, values in parse_qs(urlsplit(self.path).query).items()})

            def do_POST(self) -> None:
                self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

            def answer(self, values: dict[str, Any]) -> None:
                path = urlsplit(self.path).path.removeprefix("/api/2.0/mlflow/")
                server.requests.append((path, dict(self.headers)))
                fault = server.faults.pop(0) if server.faults else 0
                status, body = (fault, {}) if isinstance(fault, int) and fault else server.do(path, values)
                if fault == "lost":
                    self.close_connection = True
                    return
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *arguments: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True)
        self.thread.start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def do(self, path: str, values: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "experiments/get-by-name":
            name = values["experiment_name"]
            if name not in self.experiments:
                return 404, {"error_code": "RESOURCE_DOES_NOT_EXIST"}
            return 200, {"experiment": {"experiment_id": self.experiments[name]}}
        if path == "experiments/create":
            if values["name"] in self.experiments:
                return 400, {"error_code": "RESOURCE_ALREADY_EXISTS"}
            self.experiments[values["name"]] = str(len(self.experiments) + 1)
            return 200, {"experiment_id": self.experiments[values["name"]]}
        if path == "runs/search":
            _, tag, _, wanted, _ = values["filter"].replace("`", "'").split("'")
            found = [run for run in self.runs if run["tags"].get(tag) == wanted]
            chosen = found[::-1] if values["order_by"] == ["attributes.start_time DESC"] else found
            return 200, {"runs": [shown(run) for run in chosen[: values["max_results"]]]}
        if path == "runs/create":
            tags = {tag["key"]: tag["value"] for tag in values["tags"]}
            self.runs.append(
                {"id": f"r{len(self.runs)}", "status": "RUNNING", "tags": tags, "params": {}, "metrics": []}
            )
            return 200, {"run": shown(self.runs[-1])}
        (run,) = [run for run in self.runs if run["id"] == values["run_id"]]
        if path == "runs/update":
            run["status"] = values["status"]
            return 200, {}
        assert path == "runs/log-batch"
        for param in values.get("params", []):
            if run["params"].setdefault(param["key"], param["value"]) != param["value"]:
                return 400, {"error_code": "INVALID_PARAMETER_VALUE"}
        run["metrics"] += values.get("metrics", [])
        run["tags"] |= {tag["key"]: tag["value"] for tag in values.get("tags", [])}
        return 200, {}

    def steps(self, name: str, run: int = 0) -> list[int]:
        return [metric["step"] for metric in self.runs[run]["metrics"] if metric["key"] == name]


def shown(run: dict[str, Any]) -> dict[str, Any]:
    latest = {metric["key"]: metric for metric in sorted(run["metrics"], key=lambda metric: metric["step"])}
    params = [{"key": key, "value": value} for key, value in run["params"].items()]
    return {"info": {"run_id": run["id"]}, "data": {"metrics": list(latest.values()), "params": params}}
