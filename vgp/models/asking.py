"""The repository's training code, asked for one verb on a registry."""

from collections.abc import Sequence
from typing import Any

from vgp.errors import RequestError
from vgp.local import training_code
from vgp.models.place import Place


def ask(place: Place, verb: str, *words: str, model: str | None = None, options: Sequence[str] = ()) -> dict[str, Any]:
    """What `python -m training models VERB` tells.

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
        place.repository, ["models", verb, *words, "--json", *named, *options], room="training/registry",
        does="keeps the versions of models", failed="the registry was not read",
    )  # fmt: skip


def change(
    place: Place, verb: str, *words: str, model: str | None, why: str | None, options: Sequence[str] = ()
) -> dict[str, Any]:
    """The same for a verb that changes the record: it keeps who did it, and why."""
    account = _account() if place.remote else ""
    texts = [f"--{name}={text}" for name, text in (("why", why), ("account", account)) if text]
    return ask(place, verb, *words, model=model, options=[*options, *texts])


def _account() -> str:
    """The Google account in use, such as user:ana@example.com; empty where the credentials do not tell."""
    from vgp.vertex import clients

    try:
        return clients.principal(clients.credentials())
    except RequestError:
        return ""  # what is needed of them, the training code says
