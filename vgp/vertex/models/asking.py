"""The registry of models, asked for one verb in a process of its own."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import listed
from vgp.vertex.models.place import Place
from vgp.workflow.local import training_code


def ask(place: Place, verb: str, *words: str, model: str | None = None, options: Sequence[str] = ()) -> dict[str, Any]:
    """What `python -m vgp.steps models VERB` tells.

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
            raise RequestError(f"{word!r} is neither a version nor an alias: give a number, or a name like champion.")
    named = [f"--registry={place.root}", *([f"--model={model}"] if model else [])]
    return training_code.ask(
        place.repository,
        ["models", verb, *words, "--json", *named, *options],
        failed="the registry was not read",
    )


def change(
    place: Place, verb: str, *words: str, model: str | None, why: str | None, options: Sequence[str] = ()
) -> dict[str, Any]:
    """The same for a verb that changes the record: it keeps who did it, and why.

    Of the registry of a project, Vertex AI's is brought after it: `vertex` says what was done there.

    Raises:
        WorkFailed: also where Vertex AI's could not be, though the registry was changed.
    """
    account = _account() if place.remote else ""
    texts = [f"--{name}={text}" for name, text in (("why", why), ("account", account)) if text]
    told = ask(place, verb, *words, model=model, options=[*options, *texts])
    if not place.settings:
        return told
    from vgp.vertex.models import projection

    try:
        return {**told, "vertex": projection.follow(place.settings, place.root, told["model"])}
    except WorkFailed as failure:
        raise WorkFailed(f"{told['said']}; {failure}\n  Repeat the command: it changes nothing twice.") from None


def listing(place: Place, model: str | None) -> dict[str, Any]:
    """Every model with its versions; of the registry of a project also what Vertex AI does not show of each yet."""
    told = ask(place, "list", model=model)
    if not place.settings:
        return told
    told = {**told, "notes": [*place.settings.registry_warnings(), *([] if told["models"] else _elsewhere(place))]}
    from vgp.vertex.models import projection

    behind: dict[str, list[str]] = {}
    for name in (one["model"] for one in told["models"]):
        try:
            behind[name] = projection.differences(place.settings, place.root, name)
        except WorkFailed as failure:  # what the registry says is told all the same
            behind[name] = [str(failure)]
    return {**told, "vertex": behind}


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
    return [f"note: {before} holds models: {listed(models, 'and')}; {fix}."] if models else []


def _account() -> str:
    """The Google account in use, such as user:ana@example.com; empty where the credentials do not tell."""
    from vgp.vertex import clients

    try:
        return clients.principal(clients.credentials())
    except RequestError:
        return ""  # what is needed of them, the training code says
