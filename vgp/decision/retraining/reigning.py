"""The champion as new data is compared with it: model card, windows, and time of training."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from vgp.base.exits import ProcessFailed, UserError
from vgp.data import bundle, task_names
from vgp.data.bundle import ModelCard
from vgp.data.periods import Spans
from vgp.data.task import Options
from vgp.data.windows import read_spans
from vgp.protocol import pins as store
from vgp.protocol.pins import ChampionPins, DataPins, RunPins
from vgp.registry.documents import Record, Version
from vgp.train.train_config import AUTO_FIELDS, TrainConfig

#: Options that select rows; relative windows are resolved from the data.
WINDOWS = ("train", "test")
#: Settings that are derived from others or from the run.
_NOT_COMPARED = ("task", "options", "warm_start", "warm_start_names", "warm_start_new", "warm_start_ignore")


@dataclass(frozen=True)
class Reigning:
    """The champion, with the data and settings that it was trained on."""

    #: URI of its pins.
    uri: str
    card: ModelCard
    #: None for a model given as a folder.
    version: Version | None
    #: Settings that it was trained with; None if its pins were deleted.
    run: RunPins | None
    data: DataPins | None

    @property
    def name(self) -> str:
        return f"version {self.version.number}" if self.version else "the champion"

    @property
    def trained_on(self) -> Spans:
        """Returns the days of its training window; () if its options have no dates."""
        return read_spans(self.card.options, "train")

    @property
    def tested_on(self) -> Spans:
        return read_spans(self.card.options, "test")

    @property
    def days_trained(self) -> int:
        """Returns the number of days that it was trained on, without validation days."""
        whole = sum(end - start for start, end in self.trained_on)
        return max(1, whole - len(self.card.statistics.get("validation_days", ())))

    @property
    def evaluated(self) -> float | None:
        """Returns the mean loss of its evaluation, or None."""
        return self.version.metrics.get("loss") if self.version else None


def load(champion: str, record: Record) -> Reigning:
    """Returns the champion whose pins are at this URI.

    Raises:
        UserError: it has no readable model card; a script's model has none.
    """
    number = store.load(champion, ChampionPins).number
    version = record.version(number)
    run, data = _read_pins(version.pins) if version and version.pins else (None, None)
    return Reigning(champion, bundle.load_card(champion), version, run, data)


def _read_pins(uri: str) -> tuple[RunPins | None, DataPins | None]:
    try:
        run = store.load(uri, RunPins)
        return run, store.load(f"{uri.rpartition('/')[0]}/{run.data}.json", DataPins)
    except (UserError, ProcessFailed):  # the pins were deleted with the run
        return None, None


def find_last_training(record: Record, version: Version | None) -> datetime | None:
    """Returns when a model was last trained, promoted or not; None if unknown."""
    moments = [version.created] if version else []
    return max(map(_parse_moment, filter(None, [*moments, *_list_tested(record, "").values()])), default=None)


def tried_since(record: Record, version: Version | None) -> bool:
    """Whether a challenger was tested after the champion was registered, and did not replace it."""
    if version is None or not version.created:
        return False
    return any(_parse_moment(at) >= _parse_moment(version.created) for at in _list_tested(record, version.key).values())


def _list_tested(record: Record, but: str) -> dict[str, str]:
    """Returns when each challenger was tested, by key, without the key `but`."""
    kept = {event.key: event.at for event in record.events if event.what == "kept"}
    return {key: at for key, at in (kept | {one.key: one.at for one in record.spent}).items() if key != but}


def _parse_moment(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def has_same_data(then: DataPins | None, now: DataPins) -> bool:
    """Whether both runs read the same files and tables in the same windows."""
    if then is None or now.unpinned:
        return False
    parts = ("task", "options", "objects", "files", "relations", "package")
    return all(getattr(then, part) == getattr(now, part) for part in parts)


def known_files(data: DataPins | None) -> Collection[str]:
    """Returns the files that the champion's run read, named as by `look.named`."""
    if data is None:
        return ()
    objects = {f"{item.name}#{item.generation}" for item in data.objects}
    return objects | {f"{item.path}@{item.modified_ns}" for item in data.files}


def describe_change(champion: Reigning, task: str, task_options: Options, data: str, config: TrainConfig) -> str:
    """Returns a sentence on what differs from the champion's training: task, data, options or settings; "" if
    nothing."""
    if task_names.spec(champion.card.task) != task_names.spec(task):
        return f"the task changed from {champion.card.task} to {task_names.spec(task)}"
    if champion.run and (then := champion.run.request.data) != data:
        return f"the data changed from {then or 'that of the task'} to {data or 'that of the task'}"
    if names := _other_options(champion, task_options):
        return f"{'an option' if len(names) == 1 else 'options'} of the task changed: {', '.join(names)}"
    if names := _other_settings(champion.card.config, config):
        return f"{'a setting' if len(names) == 1 else 'settings'} of the training changed: {', '.join(names)}"
    return ""


def _other_options(champion: Reigning, options: Options) -> list[str]:
    """Returns options with another value; without the champion's request, windows are not compared."""
    if champion.run:
        then, now = champion.run.request.task_options, dict(options)
    else:
        then, now = ({n: v for n, v in known.items() if n not in WINDOWS} for known in (champion.card.options, options))
    return sorted(name for name in then.keys() | now.keys() if then.get(name) != now.get(name))


def _other_settings(then: Options, config: TrainConfig) -> list[str]:
    """Returns settings with another value, except those that are chosen automatically."""
    now = config.model_dump()
    is_open = {name for name in AUTO_FIELDS if now[name] == "auto"} | (
        {"microbatches"} if not config.microbatches else set()
    )
    names = then.keys() - set(_NOT_COMPARED) - is_open
    return sorted(name for name in names if name in now and then[name] != now[name])
