"""The verbs of `vgp models`: each reads or changes one record and returns values to print."""

import getpass
import os
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.registry import changes, record_view, registry, sweep, versions
from vgp.registry.documents import CHAMPION, MODEL_NAME, Event, Record, Version
from vgp.registry.record_view import Values
from vgp.registry.registry import Registry

MOST_LETTERS = 2000

#: A change: from the record and the event's fields (`who`, `why`, `key`) to the next record.
Change = Callable[[Record, dict[str, str]], Record]


@dataclass(frozen=True)
class ChangeResult:
    """The result of a change; `event` is None if nothing changed."""

    registry: Registry
    record: Record
    event: Event | None

    def as_values(self, message: str) -> Values:
        return {
            "registry": self.registry.root,
            "model": self.record.model,
            "changed": self.event is not None,
            "said": message if self.event else f"{message}; nothing was changed",
            "champion": self.record.aliases.get(CHAMPION),
            "aliases": dict(sorted(self.record.aliases.items())),
            "event": self.event.model_dump(exclude={"key"}) if self.event else None,
        }


def list_(root: str, model: str) -> Values:
    """Returns every model below the root, or the named one, with all versions."""
    root = registry.resolve_root(root)
    names = [_model(root, model)] if model else registry.models(root)
    return {"registry": root, "models": [record_view.model_values(registry.open(root, name).read()) for name in names]}


def record(root: str, model: str) -> Values:
    """Returns the whole record."""
    return _open(root, model).read().model_dump(mode="json")


def show(root: str, model: str, version: str) -> Values:
    """Returns one version with its files and history."""
    place = _open(root, model)
    record = place.read()
    return record_view.version_values(place, record, find_version(record, version))


def compare(root: str, model: str, versions: Sequence[str]) -> Values:
    """Returns the metrics and facts of at least two versions."""
    if len(versions) < 2:
        raise UserError("compare needs at least two versions, for example: compare champion 7.")
    place = _open(root, model)
    record = place.read()
    compared = [find_version(record, name) for name in versions]
    if same := [name for name, version in zip(versions, compared, strict=True) if compared.count(version) > 1]:
        raise UserError(f"compare takes different versions of {record.model}: {' and '.join(same)} are the same.")
    return {"registry": place.root, **record_view.comparison_values(record, compared)}


def promote(root: str, model: str, version: str, account: str, why: str) -> Values:
    """Makes the version champion; approves a candidate."""
    place, number = _open(root, model), 0

    def change(record: Record, fields: dict[str, str]) -> Record:
        nonlocal number
        number = find_version(record, version).number
        after = changes.promote(record, number, expected=record.aliases.get(CHAMPION), **fields)
        return _require_files(place, after)

    result = _change(place, change, account, why)
    before = result.event and result.event.before
    replaced = f", in place of version {before}" if before else ""
    already = "" if result.event else " already"
    return result.as_values(f"version {number} is the champion of {place.model}{replaced}{already}")


def rollback(root: str, model: str, expected: int | None, account: str, why: str) -> Values:
    """Makes the version that the champion replaced champion again; repeating it does nothing."""
    place = _open(root, model)

    def change(record: Record, fields: dict[str, str]) -> Record:
        return _require_files(place, changes.rollback(record, expected=expected, **fields))

    result = _change(place, change, account, why)
    if event := result.event:
        message = f"version {event.version} is the champion of {place.model} again, in place of version {event.before}"
        return result.as_values(message)
    before = changes.find_same_rollback(result.record, expected)
    assert before  # every other case has an event or an error
    further = f"further back: rollback --from {before.version}"
    if len(changes.list_champions(result.record)) < 2:
        further = "there is no earlier champion"
    return result.as_values(
        f"version {before.version} is the champion of {place.model} already, since version {before.before} was rolled "
        f"back on {before.at} by {before.who} ({further})"
    )


def alias(root: str, model: str, alias: str, version: str, account: str, why: str) -> Values:
    """Makes the name an alias of the version; another version loses it."""
    changes.check_alias(alias)
    place = _open(root, model)

    def change(record: Record, fields: dict[str, str]) -> Record:
        return changes.alias(record, alias, find_version(record, version).number, **fields)

    result = _change(place, change, account, why)
    before = f", and no longer {result.event.before}" if result.event and result.event.before else ""
    already = "" if result.event else " already"
    return result.as_values(f"{alias} is version {result.record.aliases[alias]} of {place.model}{before}{already}")


def unalias(root: str, model: str, alias: str, account: str, why: str) -> Values:
    """Removes the alias; without `champion` the next run has no champion to compare with."""
    place = _open(root, model)
    result = _change(place, lambda record, fields: changes.unalias(record, alias, **fields), account, why)
    if result.event:
        return result.as_values(f"version {result.event.version} of {place.model} is {alias} no longer")
    return result.as_values(f"no version of {place.model} has the alias {alias}")


def reject(root: str, model: str, version: str, account: str, why: str) -> Values:
    """Rejects the version, so that it is never promoted."""
    place, number = _open(root, model), 0

    def change(record: Record, fields: dict[str, str]) -> Record:
        nonlocal number
        number = find_version(record, version).number
        return changes.reject(record, number, **fields)

    result = _change(place, change, account, why)
    return result.as_values(f"version {number} of {place.model} is rejected{'' if result.event else ' already'}")


def delete(root: str, model: str, version: str, account: str, why: str, dry_run: bool = False) -> Values:
    """Deletes a version's files; its number and history stay.

    Changes the record first, so after a kill the same command deletes the remaining files. With `dry_run`, only checks
    the request.
    """
    place, number = _open(root, model), 0
    if dry_run:
        record = place.read()
        number = find_version(record, version).number
        after = changes.delete(record, number, who=user(), why="", key="none")
        event = after.events[-1] if after is not record else None
        return ChangeResult(place, record, event).as_values(f"version {number} of {place.model} would be deleted")

    def change(record: Record, fields: dict[str, str]) -> Record:
        nonlocal number
        number = find_version(record, version).number
        return changes.delete(record, number, **fields)

    result = _change(place, change, account, why)
    versions.remove(place, result.record.versions[number - 1])
    return result.as_values(f"version {number} of {place.model} is deleted{'' if result.event else ' already'}")


def clean(root: str, model: str, dry_run: bool) -> Values:
    """Deletes abandoned copies of one model or of all; counts recent ones, which stay."""
    root = registry.resolve_root(root)
    names = [name for name in registry.folders(root) if re.fullmatch(MODEL_NAME, name)]
    if model and model not in names:
        raise _unknown_model_error(root, model, names)
    places = [registry.open(root, name) for name in names if model in ("", name)]
    copies = [(place, copy) for place in places for copy in sweep.find_copies(place)]
    stays = [(place, copy) for place, copy in copies if not copy.goes]
    going = [(place, copy) for place, copy in copies if copy.goes]
    if not dry_run:
        kept = [(place, copy) for place, copy in going if not sweep.remove(place, copy)]
        stays, going = [*stays, *kept], [pair for pair in going if pair not in kept]
    return record_view.cleanup_values(root, going, stays, dry_run=dry_run)


VERBS: dict[str, Callable[..., Values]] = {
    "list": list_, "record": record, "show": show, "compare": compare, "promote": promote, "rollback": rollback,
    "alias": alias, "unalias": unalias, "reject": reject, "delete": delete,
    "clean": clean,
}  # fmt: skip


def find_version(record: Record, version: str) -> Version:
    """Returns the version of a number or an alias. Raises UserError if there is none."""
    number = int(version) if version.isascii() and version.isdigit() else record.aliases.get(version)
    if number is None and version == CHAMPION:
        raise UserError(
            f"{record.model} has no champion: no version was promoted, or its alias was removed. "
            f"{changes.suggest_versions(record)}"
        )
    if number is None:
        names = join_names(sorted(record.aliases)) or "none"
        raise UserError(f"{record.model} has no alias {quote(version)}. Its aliases: {names}; or give a number.")
    return changes.find_version(record, number)


def _open(root: str, model: str) -> Registry:
    root = registry.resolve_root(root)
    return registry.open(root, _model(root, model))


def _model(root: str, model: str) -> str:
    """Returns the requested model's name, or that of the only model."""
    names = registry.models(root)
    if model in names or (not model and len(names) == 1):
        return model or names[0]
    if not names:
        raise UserError(f"the registry {root} holds no model yet; a run registers the first one.")
    if model:
        raise _unknown_model_error(root, model, names)
    raise UserError(f"the registry {root} holds {len(names)} models: choose one with --model: {join_names(names)}.")


def _unknown_model_error(root: str, model: str, names: Sequence[str]) -> UserError:
    return UserError(f"the registry {root} has no model {quote(model)}. It has {join_names(names) or 'none'}.")


def _change(place: Registry, change: Change, account: str, why: str) -> ChangeResult:
    """Changes the record with a new key, so that a retry after a lost answer changes nothing twice."""
    who = f"{user()} ({account})" if account else user()
    fields = {"who": _check_text("account", who), "why": _check_text("why", why), "key": uuid.uuid4().hex}
    try:
        record = place.change(lambda record: change(record, fields))
    except changes.Conflict as error:
        raise UserError(f"{error}. Look at it: show champion.") from None
    own_events = (event for event in reversed(record.events) if event.key == fields["key"])
    return ChangeResult(place, record, next(own_events, None))


def _require_files(place: Registry, after: Record) -> Record:
    """Returns the record. Raises UserError if files of its champion are missing."""
    if champion := after.champion():
        versions.require(place, champion)
    return after


def _check_text(name: str, text: str) -> str:
    if len(text) > MOST_LETTERS:
        raise UserError(f"--{name} has {len(text):,} letters; at most {MOST_LETTERS:,} are kept.")
    return text.strip()


def user() -> str:
    """Returns the name of the process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
