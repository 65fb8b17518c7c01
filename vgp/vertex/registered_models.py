"""The registry of models that is meant, asked for one verb in a process of its own; Vertex AI's copy of it.

Code that changes the record calls `follow`; a step of a run updates it itself (vgp/protocol/model_registry.py).
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
from vgp.vertex.google_errors import explained
from vgp.workflow.local import training_code

#: Beside the folders of local runs.
LOCAL = Path("runs") / "registry"

#: The record's file in the folder of a model: vgp/registry/documents.py.
RECORD_NAME = file_names.REGISTRY


@dataclass(frozen=True)
class Place:
    """A registry, the repository whose training code knows it, and the settings of the project that it is of."""

    root: str
    repository: Path
    #: None where it is of no project: on this machine, or in a bucket that the settings do not name.
    settings: Settings | None = None

    @property
    def remote(self) -> bool:
        return self.root.startswith("gs://")


def find_place(file: Path | None, environment: str | None, *, registry: str | None, vertex: bool) -> Place:
    """The registry that the options mean.

    Args:
        file: The settings file; default: the nearest.
        environment: Of the settings; naming one means the registry in its bucket.
        registry: A folder here, or gs://...
        vertex: The registry in the bucket of the settings, also without naming an environment.

    Raises:
        RequestError: the settings name no bucket, or are wrong.
    """
    repository = find_repository(file).root
    if registry is None and not environment and not vertex:
        here = LOCAL if LOCAL.is_dir() or not (repository / LOCAL).is_dir() else repository / LOCAL
        return Place(str(here), repository)
    if registry is not None and not registry.startswith("gs://"):
        return Place(registry, repository)
    settings = load(file, environment=environment)
    own = settings.registry_root
    if registry is not None:
        root = registry.rstrip("/")
        return Place(root, repository, settings if root == own else None)
    if not own:
        named = f" of {settings.environment}" if settings.environment else ""
        raise RequestError(
            f"the settings{named} name no bucket, in which the registry of Vertex AI's runs is: set bucket in "
            "pipelines.toml, or name the registry with --registry gs://..."
        )
    return Place(own, repository, settings)


def ask(place: Place, verb: str, *words: str, model: str | None = None, options: Sequence[str] = ()) -> JsonObject:
    """Runs `python -m vgp.steps models VERB` and returns its answer.

    Args:
        words: Of the verb: versions, aliases.
        model: Its name; None = the only one.
        options: Of the verb.

    Raises:
        RequestError: the request is wrong, or the repository has no such code.
        WorkFailed: the registry could not be reached.
    """
    for word in words:
        if word.startswith("-"):
            raise RequestError(
                f"{word!r} is neither a version nor an alias. Use a number, or an alias such as champion."
            )
    named = [f"--registry={place.root}", *([f"--model={model}"] if model else [])]
    return training_code.run_step_command(
        place.repository,
        ["models", verb, *words, "--json", *named, *options],
        failure="the registry was not read",
    )


def change(
    place: Place, verb: str, *words: str, model: str | None, why: str | None, options: Sequence[str] = ()
) -> JsonObject:
    """The same for a verb that changes the record: it keeps who did it, and why.

    Of the registry of a project, Vertex AI's is updated as well; `vertex` describes the update.

    Raises:
        WorkFailed: also where Vertex AI's could not be, though the registry was changed.
    """
    account = _account() if place.remote else ""
    texts = [f"--{name}={text}" for name, text in (("why", why), ("account", account)) if text]
    answer = ask(place, verb, *words, model=model, options=[*options, *texts])
    if not place.settings:
        return answer

    try:
        return {**answer, "vertex": follow(place.settings, place.root, answer["model"])}
    except WorkFailed as failure:
        raise WorkFailed(f"{answer['said']}; {failure}\n  Run the command again: repeating it is safe.") from None


def listing(place: Place, model: str | None) -> JsonObject:
    """Every model with its versions; of the registry of a project also what Vertex AI does not show of each yet."""
    answer = ask(place, "list", model=model)
    if not place.settings:
        return answer
    answer = {
        **answer,
        "notes": [*place.settings.registry_warnings(), *([] if answer["models"] else _elsewhere(place))],
    }

    behind: dict[str, list[str]] = {}
    for name in (one["model"] for one in answer["models"]):
        try:
            behind[name] = differences(place.settings, place.root, name)
        except WorkFailed as failure:  # the registry's own record is shown nevertheless
            behind[name] = [str(failure)]
    return {**answer, "vertex": behind}


def _elsewhere(place: Place) -> list[str]:
    """A line if the registry of the settings is empty and the bucket has another one with models."""
    assert place.settings
    before = f"{place.settings.bucket}/registry"
    if not place.settings.bucket or place.root == before:
        return []
    try:
        models = [one["model"] for one in ask(replace(place, root=before), "list")["models"]]
    except (RequestError, WorkFailed):  # nothing there, or nothing that may be read
        return []
    fix = f'to use them, write registry = "{before}", or leave the key out'
    return [f"note: {before} holds models: {join_words(models, 'and')}; {fix}."] if models else []


def _account() -> str:
    """The Google account in use, such as user:ana@example.com; empty if the credentials do not name it."""
    from vgp.vertex import clients

    try:
        return clients.principal(clients.credentials())
    except RequestError:
        return ""  # what is needed of them, the training code says


def follow(settings: Settings, root: str, model: str) -> list[str]:
    """Updates Vertex AI's Model Registry from the record at `root`; returns a sentence on the changes.

    Raises:
        WorkFailed: Vertex AI could not be brought after it; the registry itself stays as it is.
    """
    terms = Terms(settings.image, settings.encryption_key or "", resource_names.labels(dict(settings.labels)))
    doing = f"the registry has the change, but Vertex AI's Model Registry does not show it yet ({model})"
    with _asked(doing, settings) as service:
        return model_registry.reconcile(lambda: registry_record(settings, root, model), service, terms)


def differences(settings: Settings, root: str, model: str) -> list[str]:
    """What Vertex AI does not show of the model yet, in words.

    Raises:
        WorkFailed: one of the two cannot be read.
    """
    with _asked(f"what Vertex AI shows of {model} is not known", settings) as service:
        return model_registry.differences(registry_record(settings, root, model), service)


def registry_record(settings: Settings, root: str, model: str) -> JsonObject:
    """The record of the model in its JSON form; each version lies where the registry does, also if that was moved.

    Raises:
        RequestError: there is none, or it is no JSON.
    """
    from google.api_core.exceptions import NotFound

    uri = f"{root.rstrip('/')}/{model}/{RECORD_NAME}"
    bucket, name = split_uri(uri)
    try:
        content = clients.storage(settings).bucket(bucket).blob(name).download_as_bytes(**clients.reading())
        found = dict(json.loads(content))
        folder = f"{uri.removesuffix(RECORD_NAME)}versions"
        return {**found, "versions": [{**one, "model": f"{folder}/{one['key']}"} for one in found["versions"]]}
    except NotFound:
        raise RequestError(f"{uri} does not exist. A run creates it when it registers its model.") from None
    except (ValueError, LookupError, TypeError) as error:
        raise RequestError(f"{uri} is damaged: {error}. Restore an earlier version of the object.") from None


@contextmanager
def _asked(doing: str, settings: Settings) -> Iterator[ModelService]:
    """The service of the settings' project and region; what it refuses in our words."""
    try:
        with explained(doing, settings), clients.session(settings) as session:
            base = clients.endpoint(settings, "aiplatform")
            yield ModelService(session, base, clients.project(settings), settings.region)
    except Refused as refusal:
        raise WorkFailed(f"{doing}: {refusal}") from None
