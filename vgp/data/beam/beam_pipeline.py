"""The Beam pipeline of a preparation.

    shards -> scan -> combine ----.
       |                          v
       '---------------------> make rows -> merge figures -> plan -> write -> finish
                                   |                          ^
                                   '------> compare ids ------'

The order in which Beam delivers elements does not matter, because every merge first sorts by number. Beam checks the
types of elements between functions by the annotations here.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.metrics import Metrics
from apache_beam.pvalue import AsIter, AsSingleton

from vgp.data import shards as tree
from vgp.data import shards as whole
from vgp.data.beam.worker_functions import Numbered, NumberedScan, Work, without_ids
from vgp.data.shard import Order, ShardIds
from vgp.data.shards import Figures, Plan
from vgp.data.task import Shard, Statistics, Task
from vgp.protocol.manifest import ShardFile

Value = TypeVar("Value")
#: The number of a shard, and its file for each split.
Written = tuple[int, dict[str, ShardFile]]


def build(pipeline: beam.Pipeline, work: Work, shards: Sequence[Shard]) -> None:
    """Adds the preparation of these shards to the pipeline."""
    numbered = pipeline | "shards" >> beam.Create(list(enumerate(shards)))
    statistics = AsSingleton(_combine_statistics(pipeline, work, numbered))
    rows = numbered | "make rows" >> beam.ParDo(_MakeRows(work), statistics).with_outputs("ids", main="figures")
    compared = rows["ids"] | "ids by part" >> beam.GroupByKey() | "compare ids" >> beam.FlatMap(_compare_ids, work)
    figures = _merge_all("figures", rows["figures"], work.shards, work.merge_figures)
    planned = figures | "plan" >> beam.ParDo(_Plan(work), statistics, AsIter(compared)).with_outputs(
        "plan", main="orders"
    )
    plan = AsSingleton(planned["plan"])
    files = planned["orders"] | "spread" >> beam.Reshuffle() | "write" >> beam.Map(_write, work, plan)
    _ = files | "files" >> beam.GroupBy(_return_zero) | "finish" >> beam.Map(_finish, work, statistics, plan)


def _combine_statistics(
    pipeline: beam.Pipeline, work: Work, numbered: beam.PCollection[Numbered]
) -> beam.PCollection[Statistics]:
    if type(work.task).scan is Task.scan and type(work.task).combine is Task.combine:
        return pipeline | "no statistics" >> beam.Create([{}])
    scans = numbered | "scan" >> beam.Map(_scan, work)
    if whole.merges(work.task):
        scans = _merge_all("scans", scans, work.shards, work.merge_scans)
    return scans | "scans" >> beam.GroupBy(_return_zero) | "combine" >> beam.Map(_combine, work)


def _merge_all(
    title: str,
    numbered: beam.PCollection[tuple[int, Value]],
    count: int,
    merge: Callable[[Iterable[tuple[int, Value]]], Value],
) -> beam.PCollection[tuple[int, Value]]:
    """Merges all values into one with the number 0, in the tree of `shards.merge_in_tree`."""
    level = 0
    while count > 1:
        level, count = level + 1, -(-count // tree.FAN_IN)
        numbered = (
            numbered
            | f"{title} by group {level}" >> beam.Map(_key_by_group)
            | f"group {title} {level}" >> beam.GroupByKey()
            | f"merge {title} {level}" >> beam.Map(_merge, merge)
        )
    return numbered


def _scan(item: Numbered, work: Work) -> NumberedScan:
    scan = work.scan(item)
    _count("scanned")
    return scan


def _count(title: str) -> None:
    """Counts a shard, for the progress of the service and of this step."""
    Metrics.counter("training", title).inc()


def _key_by_group(item: tuple[int, Value]) -> tuple[int, tuple[int, Value]]:
    return item[0] // tree.FAN_IN, item


def _merge(
    group: tuple[int, Iterable[tuple[int, Value]]], merge: Callable[[Iterable[tuple[int, Value]]], Value]
) -> tuple[int, Value]:
    return group[0], merge(group[1])


def _return_zero(_: object) -> int:
    return 0


def _combine(group: tuple[int, Iterable[NumberedScan]], work: Work) -> Statistics:
    return work.statistics(group[1])


class _MakeRows(beam.DoFn):  # type: ignore[misc]
    """A Beam function from a shard to its statistics, and, as `ids`, the ids of its rows."""

    def __init__(self, work: Work):
        self.work = work

    def process(self, item: Numbered, statistics: Statistics) -> Iterator[Any]:
        number, prepared = self.work.prepare(item, statistics)
        for part in self.work.ids(item, prepared):
            yield beam.pvalue.TaggedOutput("ids", part)
        _count("made")
        yield number, Figures.of(without_ids(prepared))


def _compare_ids(group: tuple[int, Iterable[ShardIds]], work: Work) -> list[None]:
    work.compare_ids(*group)
    return []


class _Plan(beam.DoFn):  # type: ignore[misc]
    """A Beam function from the statistics of all shards to the order of each shard, and, as `plan`, the plan."""

    def __init__(self, work: Work):
        self.work = work

    def process(self, figures: tuple[int, Figures], statistics: Statistics, compared: Iterable[None]) -> Iterator[Any]:
        list(compared)  # waits for the comparison
        plan, orders = self.work.plan(figures[1], statistics)
        yield beam.pvalue.TaggedOutput("plan", plan)
        yield from enumerate(orders)


def _write(item: tuple[int, Order], work: Work, plan: Plan) -> Written:
    files = work.write(item, plan.values)
    _count("written")
    return files


def _finish(group: tuple[int, Iterable[Written]], work: Work, statistics: Statistics, plan: Plan) -> None:
    work.finish(statistics, plan, group[1])
