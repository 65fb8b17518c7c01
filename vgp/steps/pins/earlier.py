"""The pins of an earlier run, taken by a run of the same request: verified first."""

from dataclasses import dataclass

from vgp.base.exits import UserError
from vgp.base.storage import storage
from vgp.protocol import pins as store
from vgp.protocol.pins import RENAMED, ChampionPins, DataPins, Request, RunPins


@dataclass(frozen=True)
class Pins:
    """The three documents of one run."""

    run: RunPins
    data: DataPins
    champion: ChampionPins | None

    def renewed(self, epoch: int) -> "Pins":
        """The same in another cache epoch: nothing that was computed with them is taken from the cache."""
        champion = self.champion.model_copy(update={"epoch": epoch}) if self.champion else None
        return Pins(self.run, self.data.model_copy(update={"epoch": epoch}), champion)


def take(uri: str, request: Request, *, pipeline: str, project: str, as_of: str) -> Pins:
    """The pins at `uri`.

    Raises:
        UserError: they are not there, not as they were written, or of another project, pipeline or request.
    """
    uri = storage.uri(uri)
    run = store.load(uri, RunPins)
    check(uri, run, request, as_of=as_of)
    if run.project != project:
        its, ours = (f"the project {number}" if number else "a run on one machine" for number in (run.project, project))
        raise UserError(f"pins = {uri} are of {its}, and this is {ours}: leave `pins` empty.")
    if RENAMED.get(run.pipeline, run.pipeline) != pipeline:
        raise UserError(f"pins = {uri} are of the pipeline {run.pipeline}, not of {pipeline}: leave `pins` empty.")
    folder = uri.rpartition("/")[0]
    champion = store.load(f"{folder}/{run.champion}.json", ChampionPins) if run.champion else None
    return Pins(run, store.load(f"{folder}/{run.data}.json", DataPins), champion)


def check(uri: str, run: RunPins, request: Request, *, as_of: str) -> None:
    """Raises UserError if the pins are of something else than what is asked for."""
    for name, theirs in run.request.model_dump().items():
        ours = getattr(request, name)
        if theirs != ours:
            raise UserError(
                f"pins = {uri} are of a run with {name} = {theirs!r}, and this one asks for {ours!r}: pins are taken "
                "for the same request only. Leave `pins` empty."
            )
    if as_of.strip() and as_of.strip() != run.as_of:
        raise UserError(
            f"pins = {uri} are of as_of = {run.as_of!r}, not of {as_of.strip()!r}: leave one of them empty."
        )
