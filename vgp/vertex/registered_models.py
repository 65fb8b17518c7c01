"""`vgp models`: runs a verb of a registry of models in its own process, and updates Vertex AI's Model Registry.

The registry's record is the original, and Vertex AI's Model Registry a copy. A run's step updates the copy itself
(vgp/protocol/model_registry.py).
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import join_words
from vgp.base.text.google_names import split_uri
from vgp.protocol import file_names, model_registry
from vgp.protocol.model_registry import Terms
from vgp.protocol.model_service import ModelService, Refused
from vgp.settings import Settings, find_repository, load
from vgp.vertex import clients, resource_names
from vgp.vertex.google_errors import explain_errors
from vgp.workflow.local import training_code

#: The registry of local runs.
LOCAL = Path("runs") / "registry"

#: The file name of a model's record: vgp/registry/documents.py.
RECORD_NAME = file_names.REGISTRY


@dataclass(frozen=True)
class Place:
    """A registry, and the repository whose training code reads it."""

    root: str
    repository: Path
    #: The settings that name the registry; None for a local folder, or a bucket that the settings do not name.
    settings: Settings | None = None

    @property
    def remote(self) -> bool:
        return self.root.startswith("gs://")


def find_place(file: Path | None, environment: str | None, *, registry: str | None, vertex: bool) -> Place:
    """Returns the registry for the command's options; without any, that of the local runs.

    Args:
        file: The settings file; None for the nearest.
        environment: An environment of the settings, whose registry is meant.
        registry: A local folder, or gs://...
        vertex: Whether the settings' registry is meant, also without an environment.

    Raises:
        RequestError: the settings name no bucket, or are invalid.
    """
    repository = find_repository(file).root
    if registry is None and not environment and not vertex:
        folder = LOCAL if LOCAL.is_dir() or not (repository / LOCAL).is_dir() else repository / LOCAL
        return Place(str(folder), repository)
    if registry is not None and not registry.startswith("gs://"):
        return Place(registry, repository)
    settings = load(file, environment=environment)
    own = settings.registry_root
    if registry is not None:
        root = registry.rstrip("/")
        return Place(root, repository, settings if root == own else None)
    if not own:
        environment_name = f" of {settings.environment}" if settings.environment else ""
        raise RequestError(
            f"the settings{environment_name} name no bucket, and the registry of runs on Vertex AI is in the bucket. "
            "Set bucket in pipelines.toml, or give the registry: --registry gs://..."
        )
    return Place(own, repository, settings)


def run_verb(place: Place, verb: str, *words: str, model: str | None = None, options: Sequence[str] = ()) -> JsonObject:
    """Runs `python -m vgp.steps models VERB` in the repository and returns its JSON output.

    Args:
        words: The arguments of the verb: versions, aliases.
        model: The name of the model; None for the only one.
        options: The options of the verb.

    Raises:
        RequestError: an argument is invalid, or the repository has no such code.
        WorkFailed: the registry could not be reached.
    """
    for word in words:
        if word.startswith("-"):
            raise RequestError(
                f"{word!r} is neither a version nor an alias. Use a number, or an alias such as champion."
            )
    location = [f"--registry={place.root}", *([f"--model={model}"] if model else [])]
    return training_code.run_step_command(
        place.repository,
        ["models", verb, *words, "--json", *location, *options],
        failure="the registry was not read",
    )


def run_change(
    place: Place, verb: str, *words: str, model: str | None, why: str | None, options: Sequence[str] = ()
) -> JsonObject:
    """Runs a verb that changes the record, like `run_verb`; the record keeps the account and the reason.

    If the settings name the registry, also updates Vertex AI's Model Registry; the key `vertex` lists the updates.

    Raises:
        WorkFailed: the registry could not be reached; or it was changed, but the update of Vertex AI failed.
    """
    account = _account() if place.remote else ""
    texts = [f"--{name}={text}" for name, text in (("why", why), ("account", account)) if text]
    answer = run_verb(place, verb, *words, model=model, options=[*options, *texts])
    if not place.settings:
        return answer

    try:
        return {**answer, "vertex": update_vertex(place.settings, place.root, answer["model"])}
    except WorkFailed as failure:
        raise WorkFailed(f"{answer['said']}; {failure}\n  Run the command again: repeating it is safe.") from None


def list_models(place: Place, model: str | None) -> JsonObject:
    """Returns every model with its versions.

    If the settings name the registry, the key `vertex` lists what Vertex AI's Model Registry lacks, by model.
    """
    answer = run_verb(place, "list", model=model)
    if not place.settings:
        return answer
    answer = {
        **answer,
        "notes": [*place.settings.registry_warnings(), *([] if answer["models"] else _note_default_registry(place))],
    }

    missing: dict[str, list[str]] = {}
    for name in (version["model"] for version in answer["models"]):
        try:
            missing[name] = find_differences(place.settings, place.root, name)
        except WorkFailed as failure:  # the record is listed even if Vertex AI cannot be read
            missing[name] = [str(failure)]
    return {**answer, "vertex": missing}


def _note_default_registry(place: Place) -> list[str]:
    """Returns a note if the settings name an empty registry, and the bucket's default registry holds models."""
    assert place.settings
    default = f"{place.settings.bucket}/registry"
    if not place.settings.bucket or place.root == default:
        return []
    try:
        models = [model["model"] for model in run_verb(replace(place, root=default), "list")["models"]]
    except (RequestError, WorkFailed):  # there is no registry, or it is not readable
        return []
    fix = f'to use them, write registry = "{default}", or leave the key out'
    return [f"note: {default} holds models: {join_words(models, 'and')}; {fix}."] if models else []


def _account() -> str:
    """Returns the Google account in use, such as user:ana@example.com; empty if the credentials do not name it."""
    try:
        return clients.principal(clients.credentials())
    except RequestError:
        return ""  # the training code reports missing credentials


def update_vertex(settings: Settings, root: str, model: str) -> list[str]:
    """Updates Vertex AI's Model Registry from the record at `root`; returns the changes, one phrase each.

    Raises:
        WorkFailed: the update of Vertex AI failed; the record is unchanged.
    """
    terms = Terms(settings.image, settings.encryption_key or "", resource_names.labels(dict(settings.labels)))
    doing = f"the registry has the change, but Vertex AI's Model Registry does not show it yet ({model})"
    with _model_service(doing, settings) as service:
        return model_registry.reconcile(lambda: registry_record(settings, root, model), service, terms)


def find_differences(settings: Settings, root: str, model: str) -> list[str]:
    """Returns what Vertex AI's Model Registry lacks of the model, one phrase each.

    Raises:
        WorkFailed: the record or Vertex AI cannot be read.
    """
    with _model_service(f"cannot compare {model} with Vertex AI's Model Registry", settings) as service:
        return model_registry.differences(registry_record(settings, root, model), service)


def registry_record(settings: Settings, root: str, model: str) -> JsonObject:
    """Reads the record of a model as JSON. The versions' folders are those below `root`, even if it was moved.

    Raises:
        RequestError: there is no record, or it is damaged.
    """
    from google.api_core.exceptions import NotFound

    uri = f"{root.rstrip('/')}/{model}/{RECORD_NAME}"
    bucket, name = split_uri(uri)
    try:
        content = clients.storage(settings).bucket(bucket).blob(name).download_as_bytes(**clients.reading())
        record = dict(json.loads(content))
        folder = f"{uri.removesuffix(RECORD_NAME)}versions"
        versions = [{**version, "model": f"{folder}/{version['key']}"} for version in record["versions"]]
        return {**record, "versions": versions}
    except NotFound:
        raise RequestError(f"{uri} does not exist. A run creates it when it registers its model.") from None
    except (ValueError, LookupError, TypeError) as error:
        raise RequestError(f"{uri} is damaged: {error}. Restore an earlier version of the object.") from None


@contextmanager
def _model_service(doing: str, settings: Settings) -> Iterator[ModelService]:
    """Yields a client of Vertex AI's Model Registry, and turns its errors into WorkFailed that begins with `doing`."""
    try:
        with explain_errors(doing, settings), clients.session(settings) as session:
            base = clients.endpoint(settings, "aiplatform")
            yield ModelService(session, base, clients.project(settings), settings.region)
    except Refused as refusal:
        raise WorkFailed(f"{doing}: {refusal}") from None
