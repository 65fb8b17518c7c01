"""The verbs of `vgp models`: each reads or changes one record and returns values to print."""

import getpass
import os
import re
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.text.printable import join_names, quote
from vgp.registry import changes, registry, shown, sweep, versions
from vgp.registry.documents import CHAMPION, MODEL_NAME, Event, Record, Version
from vgp.registry.registry import Registry
from vgp.registry.shown import Values

MOST_LETTERS = 2000

#: A change: from the record and the event's fields (`who`, `why`, `key`) to the next record.
Change = Callable[[Record, dict[str, str]], Record]


@dataclass(frozen=True)
class Changed:
    """The result of a change; `event` is None if nothing changed."""

    there: Registry
    record: Record
    event: Event | None

    def describe(self, said: str) -> Values:
        return {
            "registry": self.there.root,
            "model": self.record.model,
            "changed": self.event is not None,
            "said": said if self.event else f"{said}; nothing was changed",
            "champion": self.record.aliases.get(CHAMPION),
            "aliases": dict(sorted(self.record.aliases.items())),
            "event": self.event.model_dump(exclude={"key"}) if self.event else None,
        }


def list_(root: str, model: str) -> Values:
    """Returns every model below the root, or the named one, with all versions."""
    root = registry.located(root)
    names = [_model(root, model)] if model else registry.models(root)
    return {"registry": root, "models": [shown.model(registry.open(root, name).read()) for name in names]}


def record(root: str, model: str) -> Values:
    """Returns the whole record."""
    return _open(root, model).read().model_dump(mode="json")


def show(root: str, model: str, version: str) -> Values:
    """Returns one version in full."""
    there = _open(root, model)
    record = there.read()
    return shown.version(there, record, found(record, version))


def compare(root: str, model: str, versions: Sequence[str]) -> Values:
    """Compares versions."""
    if len(versions) < 2:
        raise UserError("compare needs at least two versions, for example: compare champion 7.")
    there = _open(root, model)
    record = there.read()
    chosen = [found(record, one) for one in versions]
    if same := [word for word, one in zip(versions, chosen, strict=True) if chosen.count(one) > 1]:
        raise UserError(f"compare takes different versions of {record.model}: {' and '.join(same)} are the same.")
    return {"registry": there.root, **shown.compared(record, chosen)}


def promote(root: str, model: str, version: str, account: str, why: str) -> Values:
    """Makes the version champion; approves a candidate."""
    there, number = _open(root, model), 0

    def change(record: Record, words: dict[str, str]) -> Record:
        nonlocal number
        number = found(record, version).number
        after = changes.promote(record, number, expected=record.aliases.get(CHAMPION), **words)
        return _with_files(there, after)

    done = _change(there, change, account, why)
    before = done.event and done.event.before
    place = f", in place of version {before}" if before else ""
    return done.describe(f"version {number} is the champion of {there.model}{place}{'' if done.event else ' already'}")


def rollback(root: str, model: str, expected: int | None, account: str, why: str) -> Values:
    """Makes the version that the champion replaced champion again; repeating it does nothing."""
    there = _open(root, model)

    def change(record: Record, words: dict[str, str]) -> Record:
        return _with_files(there, changes.rollback(record, expected=expected, **words))

    done = _change(there, change, account, why)
    if done.event:
        again = f"version {done.event.version} is the champion of {there.model} again"
        return done.describe(f"{again}, in place of version {done.event.before}")
    before = changes.rolled_back_already(done.record, expected)
    assert before  # every other case has an event or an error
    further = f"further back: rollback --from {before.version}"
    if len(changes.reigned(done.record)) < 2:
        further = "it replaced none to go back to"
    return done.describe(
        f"version {before.version} is the champion of {there.model} already, since version {before.before} was rolled "
        f"back on {before.at} by {before.who} ({further})"
    )


def alias(root: str, model: str, alias: str, version: str, account: str, why: str) -> Values:
    """The name for that version, and no longer for another."""
    changes.check_alias(alias)
    there = _open(root, model)

    def change(record: Record, words: dict[str, str]) -> Record:
        return changes.alias(record, alias, found(record, version).number, **words)

    done = _change(there, change, account, why)
    place = f", and no longer {done.event.before}" if done.event and done.event.before else ""
    already = "" if done.event else " already"
    return done.describe(f"{alias} is version {done.record.aliases[alias]} of {there.model}{place}{already}")


def unalias(root: str, model: str, alias: str, account: str, why: str) -> Values:
    """Removes the alias; without `champion` the next run has no champion to compare with."""
    there = _open(root, model)
    done = _change(there, lambda record, words: changes.unalias(record, alias, **words), account, why)
    if done.event:
        return done.describe(f"version {done.event.version} of {there.model} is {alias} no longer")
    return done.describe(f"no version of {there.model} has the alias {alias}")


def reject(root: str, model: str, version: str, account: str, why: str) -> Values:
    """Rejects the version, so that it is never promoted."""
    there, number = _open(root, model), 0

    def change(record: Record, words: dict[str, str]) -> Record:
        nonlocal number
        number = found(record, version).number
        return changes.reject(record, number, **words)

    done = _change(there, change, account, why)
    return done.describe(f"version {number} of {there.model} is rejected{'' if done.event else ' already'}")


def delete(root: str, model: str, version: str, account: str, why: str, dry_run: bool = False) -> Values:
    """Deletes a version's files; its number and history stay. The record is changed first, so after a kill the same
    command deletes the rest. With `dry_run` it only checks.
    """
    there, number = _open(root, model), 0
    if dry_run:
        record = there.read()
        number = found(record, version).number
        after = changes.delete(record, number, who=user(), why="", key="none")
        event = after.events[-1] if after is not record else None
        return Changed(there, record, event).describe(f"version {number} of {there.model} would be deleted")

    def change(record: Record, words: dict[str, str]) -> Record:
        nonlocal number
        number = found(record, version).number
        return changes.delete(record, number, **words)

    done = _change(there, change, account, why)
    versions.remove(there, done.record.versions[number - 1])
    return done.describe(f"version {number} of {there.model} is deleted{'' if done.event else ' already'}")


def clean(root: str, model: str, dry_run: bool) -> Values:
    """Deletes abandoned copies of one model or of all; counts recent ones, which stay."""
    root = registry.located(root)
    names = [name for name in registry.folders(root) if re.fullmatch(MODEL_NAME, name)]
    if model and model not in names:
        raise _unknown(root, model, names)
    places = [registry.open(root, name) for name in names if model in ("", name)]
    found = [(place, copy) for place in places for copy in sweep.copies(place)]
    stays = [(place, copy) for place, copy in found if not copy.goes]
    going = [(place, copy) for place, copy in found if copy.goes]
    if not dry_run:
        kept = [(place, copy) for place, copy in going if not sweep.remove(place, copy)]
        stays, going = [*stays, *kept], [one for one in going if one not in kept]
    return shown.cleaned(root, going, stays, dry_run=dry_run)


VERBS: dict[str, Callable[..., Values]] = {
    "list": list_, "record": record, "show": show, "compare": compare, "promote": promote, "rollback": rollback,
    "alias": alias, "unalias": unalias, "reject": reject, "delete": delete,
    "clean": clean,
}  # fmt: skip


def found(record: Record, version: str) -> Version:
    """Returns the version of a number or an alias. Raises UserError if there is none."""
    number = int(version) if version.isascii() and version.isdigit() else record.aliases.get(version)
    if number is None and version == CHAMPION:
        raise UserError(
            f"{record.model} has no champion: no version was promoted, or its alias was removed. "
            f"{changes.choice(record)}"
        )
    if number is None:
        names = join_names(sorted(record.aliases)) or "none"
        raise UserError(f"{record.model} has no alias {quote(version)}. Its aliases: {names}; or give a number.")
    return changes.known(record, number)


def _open(root: str, model: str) -> Registry:
    root = registry.located(root)
    return registry.open(root, _model(root, model))


def _model(root: str, model: str) -> str:
    """Returns the requested model's name, or that of the only model."""
    names = registry.models(root)
    if model in names or (not model and len(names) == 1):
        return model or names[0]
    if not names:
        raise UserError(f"the registry {root} holds no model yet; a run registers the first one.")
    if model:
        raise _unknown(root, model, names)
    raise UserError(f"the registry {root} holds {len(names)} models: choose one with --model: {join_names(names)}.")


def _unknown(root: str, model: str, names: Sequence[str]) -> UserError:
    return UserError(f"the registry {root} has no model {quote(model)}. It has {join_names(names) or 'none'}.")


def _change(there: Registry, change: Change, account: str, why: str) -> Changed:
    """Changes the record with a new key, so that a retry after a lost answer changes nothing twice."""
    who = f"{user()} ({account})" if account else user()
    words = {"who": _text("account", who), "why": _text("why", why), "key": uuid.uuid4().hex}
    try:
        record = there.change(lambda record: change(record, words))
    except changes.Conflict as error:
        raise UserError(f"{error}. Look at it: show champion.") from None
    mine = (event for event in reversed(record.events) if event.key == words["key"])
    return Changed(there, record, next(mine, None))


def _with_files(there: Registry, after: Record) -> Record:
    """Returns the record if its champion's files exist. Raises UserError otherwise."""
    if champion := after.champion():
        versions.require(there, champion)
    return after


def _text(name: str, text: str) -> str:
    if len(text) > MOST_LETTERS:
        raise UserError(f"--{name} has {len(text):,} letters; at most {MOST_LETTERS:,} are kept.")
    return text.strip()


def user() -> str:
    """Returns the name of the process's user."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's user may have no name
        return f"uid {os.getuid()}"
