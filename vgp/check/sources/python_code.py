"""Reads Python programs as documents of the machines that they request, without running anything.

It reads calls of Google's SDK (CustomJob, CustomTrainingJob(...).run, deploy, batch_predict, create_ray_cluster), of
its pipeline components (CustomTrainingJobOp, create_custom_training_job_from_component), of Airflow's operators and of
kfp (set_accelerator_type and related methods), requests written as dictionaries, and gcloud commands. Computed values
are reported as unknown.
"""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from vgp.base.documents import bounded_text
from vgp.base.documents.bounded_text import FieldPath, Unreadable
from vgp.base.documents.document import At, Document, Place, number_documents
from vgp.base.documents.json_text import JsonObject, with_texts
from vgp.base.documents.node import Computed
from vgp.check.sources import embedded_commands
from vgp.check.sources.constants import Constants, read_callable_name
from vgp.check.sources.python_commands import find_commands
from vgp.check.sources.sdk_calls import CALLS, SdkRequest, lone_machines, message, ray_cluster

MAX_CHARACTERS = 2_000_000
#: Keys that identify a dictionary as a request.
_KIND_FIELDS = {
    "worker_pool_specs", "workerPoolSpecs", "job_spec", "jobSpec", "trial_job_spec", "trialJobSpec", "trainingInput",
    "deployed_model", "deployedModel",
}  # fmt: skip
_POOL = {"machine_spec", "machineSpec"}
#: Pools without one of these are parts of something else, such as machines of AutoML.
_BODY = {"container_spec", "containerSpec", "python_package_spec", "pythonPackageSpec"}
#: Each program that requests machines contains one of these words.
_WORDS = re.compile("|".join(sorted({
    *_KIND_FIELDS, *_POOL, "CustomJob", "create_custom_training_job", "machine_type", "accelerator_type",
    "accelerator_count", "set_accelerator_limit", "set_gpu_limit", "add_node_selector_constraint",
    "resource_pools", "create_ray_cluster",
})))  # fmt: skip
#: Words of these that other programs have too; they count only with the name of Google's SDK.
_COMMON = re.compile(r"machine_type|accelerator_type|accelerator_count|add_node_selector_constraint|resource_pools")
_SDK = re.compile(r"aiplatform|google_cloud_pipeline_components|kfp|vertex_ai")


def may_ask(text: str) -> bool:
    """Whether a program or a notebook contains a word of a request; a quick test before megabytes are parsed."""
    return _WORDS.search(text) is not None or embedded_commands.may_ask(text)


def is_request(text: str, around: str = "") -> bool:
    """Whether an unreadable program requests machines, judged by its words and those around it."""
    words = {match.group() for match in _WORDS.finditer(text)}
    is_named = any(not _COMMON.fullmatch(word) for word in words) or bool(words and _SDK.search(text + around))
    return is_named or embedded_commands.may_ask(text)


def documents(file: str, text: str, at: At = Place) -> list[Document]:
    """Returns the requests of the program in the order of its lines; `at`: the positions of these lines.

    A program that is not Python, or is nested too deeply, is one document with the fault.
    """
    if len(text) > MAX_CHARACTERS:
        fault = bounded_text.Exhausted(f"The program has more than {MAX_CHARACTERS:,} characters of Python.")
        return [_make_faulty_document(file, text, fault)]
    try:
        with bounded_text.document():
            constants = Constants(_parse(text))
            requests = [each.document(file, at) for each in _find_requests(constants)]
            requests += find_commands(file, constants, at) if embedded_commands.may_ask(text) else []
    except SyntaxError as error:
        place = at(error.lineno or 1)
        return [_make_faulty_document(file, text, Unreadable(file, f"no Python: {error.msg} ({place})"), place)]
    except bounded_text.Exhausted as error:
        return [_make_faulty_document(file, text, error)]
    except (RecursionError, MemoryError):
        return [
            _make_faulty_document(
                file, text, bounded_text.Exhausted("The program is nested deeper than Python's parser goes.")
            )
        ]
    except ValueError:
        return [_make_faulty_document(file, text, Unreadable(file, "no text"))]
    return number_documents(sorted(requests, key=lambda each: each.line(())))


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's warnings about the style of the user's program
        return ast.parse(text)


def read_names(text: str) -> Callable[[str, int], str | None]:
    """Returns the function that reads the text of a program's name at a line; it returns None if that is unknown."""
    try:
        constants = Constants(_parse(text))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return lambda name, line: None

    def read(name: str, line: int) -> str | None:
        with bounded_text.document():
            value = constants.value(ast.Name(name, lineno=line), (), {})
        return str(value) if isinstance(value, str | int | float) and not isinstance(value, Computed) else None

    return read


def _make_faulty_document(
    file: str, text: str, fault: Unreadable | bounded_text.Exhausted, place: Place | None = None
) -> Document:
    place = place or Place(1)
    return Document(file, None, "", above=place.line - 1, fault=fault, places={(): place}, asks=is_request(text))


def _find_requests(constants: Constants) -> list[SdkRequest]:
    requests = [each for node in constants.calls for each in _read_call(node, constants)]
    return [*requests, *limits(constants), *_find_literals(constants), *lone_machines(constants)]


def _read_call(node: ast.Call, constants: Constants) -> Iterator[SdkRequest]:
    for recognise in (*CALLS, message, ray_cluster):
        requests = recognise(node, constants)
        if requests is not None:
            requests.data = (
                with_texts(requests.data, _read_template)
                if read_callable_name(node).endswith("Operator")
                else requests.data
            )
            yield requests
            return


def _read_template(text: str) -> str:
    """Returns a text of one of Airflow's operators, unknown if the run fills in its templates."""
    is_template = "{{" in text and not isinstance(text, Computed)
    return Computed(f"Airflow fills in {text}") if is_template else text


def _find_literals(constants: Constants) -> Iterator[SdkRequest]:
    """Yields dictionaries and lists of pools that are not part of a call."""
    for node in constants.nodes:  # the outer before the inner
        if isinstance(node, ast.Dict | ast.List) and node not in constants.used and _is_request(node):
            yield _read_literal(node, constants)


def _is_request(node: ast.Dict | ast.List) -> bool:
    if isinstance(node, ast.Dict):
        return bool(_list_keys(node) & _KIND_FIELDS) or _is_pool(node)
    return any(isinstance(item, ast.Dict) and _is_pool(item) for item in node.elts)


def _is_pool(node: ast.Dict) -> bool:
    return bool(_list_keys(node) & _POOL and _list_keys(node) & _BODY)


def _list_keys(node: ast.Dict) -> set[Any]:
    return {key.value for key in node.keys if isinstance(key, ast.Constant)}


def _read_literal(node: ast.Dict | ast.List, constants: Constants) -> SdkRequest:
    places: dict[FieldPath, int] = {}
    data = constants.value(node, (), places)
    for path, line in constants.changes(node):
        data = _mark_computed(data, path, Computed(f"the program changes it on line {line}"))
        places[path] = line
    return SdkRequest(
        node.lineno, with_texts(data, _read_placeholder) if not isinstance(data, Computed) else {}, places
    )


def _read_placeholder(text: str) -> str:
    """Returns a text of a program, unknown if kfp fills in its placeholders."""
    return Computed(f"kfp fills in {text}") if "{{$" in text and not isinstance(text, Computed) else text


def _mark_computed(data: object, path: FieldPath, unknown: Computed) -> Any:
    """Returns the data with one part unknown."""
    if not path or isinstance(data, Computed) or not isinstance(data, dict | list):
        return unknown
    key, *rest = path
    if isinstance(data, dict):
        return {**data, key: _mark_computed(data.get(key), tuple(rest), unknown) if rest else unknown}
    if not isinstance(key, int) or not -len(data) <= key < len(data):
        return unknown
    at = key % len(data)
    return [_mark_computed(item, tuple(rest), unknown) if index == at else item for index, item in enumerate(data)]


_RESOURCES: FieldPath = ("container", "resources")
#: Method of a task -> field of the container's resources.
_METHODS: dict[str, tuple[str, ...]] = {
    "set_accelerator_type": ("accelerator", "resourceType"),
    "set_accelerator_limit": ("accelerator", "resourceCount"),
    "set_gpu_limit": ("accelerator", "resourceCount"),
    "set_cpu_limit": ("resourceCpuLimit",),
    "set_memory_limit": ("resourceMemoryLimit",),
}
_TYPE = _METHODS["set_accelerator_type"]
_SELECTORS = ("cloud.google.com/gke-accelerator",)
#: The class of steps in kfp 1, which runs on Kubernetes: a program that uses it requests no machine of Vertex AI.
_KUBERNETES = "ContainerOp"


def limits(constants: Constants) -> Iterator[SdkRequest]:
    """Yields one container for each task that requests an accelerator."""
    if any(_KUBERNETES in (getattr(node, "id", ""), getattr(node, "attr", "")) for node in constants.nodes):
        return
    tasks: dict[object, list[ast.Call]] = {}
    for node in constants.calls:
        if read_callable_name(node) in _METHODS or read_callable_name(node) == "add_node_selector_constraint":
            tasks.setdefault(_find_task(node), []).append(node)
    for calls in tasks.values():
        container = _build_container(
            sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)), constants
        )
        if "accelerator" in container.data["container"]["resources"]:
            yield container


def _find_task(node: ast.Call) -> object:
    """Returns the beginning of a chain of methods: a variable's name, or the call that created the task."""
    owner: ast.AST = node
    while (
        isinstance(owner, ast.Call)
        and isinstance(owner.func, ast.Attribute)
        and read_callable_name(owner).startswith(("set_", "add_"))
    ):
        owner = owner.func.value
    return owner.id if isinstance(owner, ast.Name) else owner


def _build_container(calls: list[ast.Call], constants: Constants) -> SdkRequest:
    places: dict[FieldPath, int] = {}
    resources: JsonObject = {}
    for call in calls:
        method, argument, is_label = _METHODS.get(read_callable_name(call)), _find_argument(call), False
        if method is None and _is_type(call):
            method = _TYPE
        if method is None:
            label, argument = _read_selector(call)
            if label is None or constants.value(label, (), {}) not in _SELECTORS:
                continue
            method, is_label = _TYPE, True
        if argument is None:
            continue
        path = (*_RESOURCES, *method)
        value = constants.value(argument, path, places)
        if is_label and isinstance(value, str) and not isinstance(value, Computed):
            value = value.replace("-", "_").upper()  # as kfp 1.8.22 does: nvidia-tesla-t4
        if method == _TYPE:  # kfp, old and new, takes one where no limit is set
            resources.setdefault("accelerator", {}).setdefault("resourceCount", "1")
        places[path] = call.end_lineno or call.lineno
        target = resources.setdefault("accelerator", {}) if len(method) > 1 else resources
        target[method[-1]] = value if isinstance(value, str) else str(value)
    return SdkRequest(calls[0].end_lineno or calls[0].lineno, {"container": {"resources": resources}}, places)


def _read_selector(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """Returns label and value of add_node_selector_constraint."""
    selectors = dict(zip(("label_name", "value"), call.args, strict=False)) | {
        word.arg: word.value for word in call.keywords
    }
    return selectors.get("label_name"), selectors.get("value")


def _is_type(call: ast.Call) -> bool:
    """Whether the call names an accelerator and no label: kfp 2's older name for set_accelerator_type."""
    words = [word.arg for word in call.keywords]
    return (len(call.args) == 1 and not words) or (not call.args and words == ["accelerator"])


def _find_argument(call: ast.Call) -> ast.expr | None:
    return call.args[0] if call.args else call.keywords[0].value if call.keywords else None
