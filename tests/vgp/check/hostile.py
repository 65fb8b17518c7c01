"""Small files that cause much work, named after the way. `FILES` has those that must be judged in time."""

import json
from typing import Any

#: Three T4 do not exist: whatever stands beside it, this must be found.
WRONG = {
    "workerPoolSpecs": [
        {
            "machineSpec": {
                "machineType": "n1-standard-8", "acceleratorType": "NVIDIA_TESLA_T4", "acceleratorCount": 3,
            },
            "replicaCount": 1, "containerSpec": {"imageUri": "r/i:1"},
        }
    ]
}  # fmt: skip


def job(machine: Any = "n1-standard-4", **more: Any) -> dict[str, Any]:
    pool = {"machineSpec": {"machineType": machine, **more}, "replicaCount": 1, "containerSpec": {"imageUri": "r/i:1"}}
    return {"workerPoolSpecs": [pool]}


def laughs(levels: int, width: int = 9, open_: str = "[", close: str = "]") -> str:
    lines = ["a0: &a0 {x: 1}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*a{level - 1}"] * width)
        lines.append(f"a{level}: &a{level} {open_}{aliases}{close}")
    return "\n".join([*lines, f"workerPoolSpecs: *a{levels - 1}\n"])


def pipeline(components: dict, executor: dict, tasks: dict) -> dict[str, Any]:
    return {
        "components": {"step": {"executorLabel": "e", "inputDefinitions": {"parameters": {"x": {}}}}, **components},
        "deploymentSpec": {"executors": {"e": {"container": {"image": "r/i:1", **executor}}}},
        "root": {"dag": {"tasks": tasks}, "inputDefinitions": {"parameters": {}}},
    }


def call(component: str, **inputs: Any) -> dict[str, Any]:
    parameters = {name: {"runtimeValue": {"constant": value}} for name, value in inputs.items()}
    return {"componentRef": {"name": component}, "inputs": {"parameters": parameters}}


def nested(levels: int, width: int) -> dict[str, Any]:
    """Components inside of components, `width` of each: width to the power of levels steps."""
    components = {
        f"c{level}": {"dag": {"tasks": {f"t{k}": call(f"c{level + 1}") for k in range(width)}}}
        for level in range(levels)
    }
    return pipeline({**components, f"c{levels}": {"executorLabel": "e"}}, {}, {"t": call("c0")})


def cycle() -> dict[str, Any]:
    inner = {"tasks": {"a": call("c"), "b": call("c")}}
    return pipeline({"c": {"dag": inner}}, {}, {"t": call("c"), "other": call("step")})


def spliced(levels: int, width: int = 9) -> dict[str, Any]:
    """Each default is nine times the next one."""
    spec = pipeline({}, {"image": "{{$.inputs.parameters['x']}}"}, {})
    spec["root"]["dag"]["tasks"]["t"] = {
        "componentRef": {"name": "step"}, "inputs": {"parameters": {"x": {"componentInputParameter": "p0"}}},
    }  # fmt: skip
    defaults = {f"p{n}": {"defaultValue": f"{{{{$.inputs.parameters['p{n + 1}']}}}}" * width} for n in range(levels)}
    spec["root"]["inputDefinitions"]["parameters"] = {**defaults, f"p{levels}": {"defaultValue": "aa"}}
    return spec


def shared_text() -> dict[str, Any]:
    """One long JSON text that every one of many steps would read."""
    text = json.dumps(job(pad="x" * 200_000))
    executor = {"image": "gcr.io/ml-pipeline/google-cloud-pipeline-components:2", "args": ["--payload", text]}
    return pipeline({}, executor, {f"t{n}": call("step") for n in range(3_000)})


def number(text: str) -> str:
    return json.dumps(job(acceleratorCount="N")).replace('"N"', text)


GCLOUD = "gcloud ai custom-jobs create --region=us-central1"

FILES: dict[str, str] = {
    "aliases, seven levels.yaml": laughs(7), "aliases, nine levels.yaml": laughs(9),
    "aliases, thirty levels.yaml": laughs(30), "merged aliases.yaml": laughs(12, 9, "{<<: [", "]}"),
    "keys given again.yaml": f"workerPoolSpecs: {json.dumps(job()['workerPoolSpecs'])}\n" + "a: 1\n" * 300_000,
    "many keys.yaml": "workerPoolSpecs: []\n" + "".join(f"k{n}: 1\n" for n in range(50_000)),
    "texts of texts.py": "x0 = 'a'\n" + "".join(f"x{n} = f'{{x{n - 1}}}{{x{n - 1}}}'\n" for n in range(1, 40))
    + "job.run(machine_type=x39, accelerator_count=1)\n",
    "many cells.ipynb": json.dumps({"nbformat": 4, "cells": [{"cell_type": "code", "source": [
        "!gcloud ai custom-jobs create --region=us-central1 --worker-pool-spec=machine-type=n1-standard-8"]}] * 1_100}),
    "an alias inside of itself.yaml": "workerPoolSpecs: &a\n- machineSpec: *a\n",
    "a document inside of itself.yaml": "&a\nworkerPoolSpecs: [*a]\n",
    "a long text a thousand times.yaml": f"a: &a {'x' * 200_000}\nworkerPoolSpecs: [{', '.join(['*a'] * 1_000)}]\n",
    "nested components.json": json.dumps(nested(45, 2)), "a chain of components.json": json.dumps(nested(300, 1)),
    "a component in itself.json": json.dumps(cycle()),
    "spliced placeholders.json": json.dumps(spliced(30)), "spliced a little.json": json.dumps(spliced(6)),
    "one text for many steps.json": json.dumps(shared_text()),
    "many unknown keys.json": json.dumps(job(**{f"acceleratorTyp{n}": 1 for n in range(10_000)})),
    "keys of many lengths.json": json.dumps({"workerPoolSpecs": {"a" * n: 1 for n in range(3_000)}}),
    "a machine of 20,000 letters.json": json.dumps(job("a" * 20_000)),
    "a machine of a million letters.json": json.dumps(job("a1" * 500_000)),
    "a machine of 20,000 digits.json": json.dumps(job("n1-standard-" + "4" * 20_000)),
    "a GPU of a million letters.json": json.dumps(job(acceleratorType="N" * 1_000_000, acceleratorCount=1)),
    "a strategy of 20,000 letters.json": json.dumps({**job(), "scheduling": {"strategy": "S" * 20_000}}),
    "a region of 20,000 letters.json": json.dumps({"location": "us-" * 7_000, "jobSpec": job()}),
    "an image of a million letters.json": json.dumps(job() | {"workerPoolSpecs": [
        {"machineSpec": WRONG["workerPoolSpecs"][0]["machineSpec"], "containerSpec": {"imageUri": "-cpu-" * 200_000}},
    ]}),
    "a million digits.json": number("9" * 1_000_000), "a million digits.yaml": number("9" * 1_000_000),
    "a million hexadecimal digits.yaml": number("0x" + "f" * 1_000_000),
    "a million sexagesimal digits.yaml": number("1" + ":59" * 300_000),
    "quantities of a million digits.json": json.dumps(pipeline({}, {"resources": {
        "cpuLimit": "9" * 1_000_000, "memoryLimit": 10**400, "accelerator": {"count": "1" * 100_000, "type": ""},
    }}, {"t": call("step")})),
    "no numbers.json": number("NaN").replace('"replicaCount": 1', '"replicaCount": Infinity'),
    "no limits.json": json.dumps(pipeline({}, {"resources": {"cpuLimit": float("inf"), "memoryLimit": float("nan")}},
                                          {"t": call("step")})),
    "a timeout of 400 digits.json": json.dumps({**WRONG, "scheduling": {"timeout": "9" * 400 + "s"}}),
    "deep JSON.json": "[" * 100_000, "just too deep JSON.json": "[" * 900 + "]" * 900,
    "deep YAML.yaml": "{a: " * 100_000, "deep dashes.yaml": "- " * 50_000 + "x", "deep keys.yaml": "? " * 50_000 + "x",
    "deep lines.yaml": "".join(" " * n + "a:\n" for n in range(3_000)),
    "millions of lists.json": f"[{'[],' * 1_050_000}[]]",
    "many anchors.yaml": "\n".join(f"- &a{n} x" for n in range(20_000)),
    "many documents.yaml": "---\na: 1\n" * 5_000, "many broken documents.yaml": "---\n[\n" * 5_000,
    "many templates.json": json.dumps(job("{{" * 200_000)), "many dollars.json": json.dumps(job("${" * 200_000)),
    "open placeholders.json": json.dumps(pipeline({}, {"args": ["worker_pool_specs" + "{{$" * 100_000]},
                                                  {"t": call("step")})),
    "backslashes.json": json.dumps(pipeline({}, {"args": ["worker_pool_specs" + "\\" * 100_000 + "{{$.x}}"]},
                                            {"t": call("step")})),
    "many pools.json": json.dumps({"workerPoolSpecs": job()["workerPoolSpecs"] * 11_000}),
    "many wrong pools.json": json.dumps({"workerPoolSpecs": [
        {"machineSpec": {"machineType": f"n1-standrd-{n}"}} for n in range(1_000)
    ]}),
    "many wrong jobs.json": json.dumps([job(f"n1-x{n}") for n in range(600)]),
    "a command of ten million letters.sh": f"{GCLOUD} --display-name={'x' * 10_000_000}",
    "a quote that never ends.sh": f"{GCLOUD} --args='" + "a'b" * 1_000_000,
    "lists that never end.sh": "A=(\n" * 25_000 + "B=$(\n" * 25_000 + GCLOUD,
    "commands that go on.sh": "gcloud a \\\n" * 50_000 + "gcloud b;" * 100_000 + GCLOUD,
    "documents that never end.sh": "cat > a.yaml << EOF\n" * 50_000 + GCLOUD,
    "one function often.py": "def f(a=1, *, b=2): pass\nf(1)\n" * 4_000 + "job.run(machine_type=f)\n",
    "variables that double.sh": "".join(f"V{n}=$V{n + 1}$V{n + 1}\n" for n in range(1_500)) + f"{GCLOUD} --network=$V0",
    "many commands.sh": f"{GCLOUD} --worker-pool-spec=machine-type=n1-standrd-8\n" * 1_500,
    "controls.json": json.dumps({"displayName": "\x1b[2J\u202ex\n error: y", "jobSpec": job("\x1b]0;x\x07n1\x9b31m")}),
    "half a character.json": json.dumps({"displayName": "\ud800", "jobSpec": job("\udfffx")}),
    "two equal keys.json": json.dumps(job(machineTyp_="n1-standard-8")).replace("machineTyp_", "machineType"),
    "two equal keys.yaml": "workerPoolSpecs:\n- replicaCount: 1\n  replicaCount: 2\n",
    "no tag of YAML.yaml": "workerPoolSpecs: !reference [a, b]\n", "a key that is a list.yaml": "? [a]\n: 1\n",
    "nothing.yaml": "", "a mark of order alone.yaml": "\ufeff", "zeros.yaml": "\0" * 1_000, "a dash.yaml": "---",
}  # fmt: skip
