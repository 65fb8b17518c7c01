"""`pipelines schedule`: what pipelines.toml declares, compiled and checked, brought to Vertex AI."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vgp.check.finding import StepRow
from vgp.errors import RequestError
from vgp.settings import Schedule, Settings
from vgp.spec import spec
from vgp.text.nearest import did_you_mean
from vgp.vertex.names import schedule_link, short
from vgp.vertex.schedules import live
from vgp.vertex.schedules.apply import Outcome
from vgp.vertex.schedules.plan import Action
from vgp.vertex.schedules.wanted import Wanted


@dataclass(frozen=True)
class _Template:
    """What a schedule runs: a spec, where it was uploaded, and its machines."""

    spec: dict[str, Any]
    uri: str | None
    steps: Sequence[StepRow]


def declared(settings: Settings, names: Sequence[str] = ()) -> list[Wanted]:
    """The declared schedules `names` (all if none), compiled and checked.

    A local pipeline costs no call; an uploaded template is downloaded and pinned by its digest.

    Raises:
        RequestError: there is no such schedule, or its pipeline, template or a parameter is wrong.
    """
    from vgp.vertex.schedules.wanted import wanted

    templates: dict[tuple[str, str | None], _Template] = {}
    made = []
    for name in _chosen(settings, names):
        schedule = settings.schedules[name]
        try:
            key = schedule.pipeline, schedule.template
            template = templates.get(key) or templates.setdefault(key, _template(settings, schedule))
            values = spec.values(template.spec, schedule.parameters)
            spec.check(schedule.pipeline, template.spec, values, remote=True)
        except RequestError as error:
            raise RequestError(f"schedules.{name}: {error}") from None
        made.append(
            wanted(settings, name, template.spec, values, steps=template.steps, template_uri=template.uri)
        )  # fmt: skip
    return made


def plan(settings: Settings, names: Sequence[str] = (), *, prune: bool = False) -> list[Action]:
    """What `apply` would do; reads only.

    Raises:
        RequestError: as `declared`.
        WorkFailed: Google refused or could not be reached.
    """
    from vgp.vertex.schedules.plan import plan as actions

    known = _with_ours(settings, names, prune)
    here = [name for name in known if name in settings.schedules]
    wanted = declared(settings, here) if here or not names else []
    return actions(settings, wanted, only=known, prune=prune)


def apply(
    settings: Settings, actions: Sequence[Action], *, preflight: bool = True, tell: Callable[[str], None] = print
) -> list[Outcome]:
    """Does what the plan says; each schedule is looked at again before it is touched.

    Raises:
        WorkFailed: Google refused or could not be reached; what was done stays, and repeating goes on.
    """
    from vgp.vertex.schedules import apply as vertex

    pending = [each for each in actions if each.pending]
    if pending and preflight:
        from vgp.vertex.preflight import refuse_cheaply

        refuse_cheaply(settings)
    done = []
    for action in pending:
        if action.wanted is not None:
            outcome = vertex.apply(settings, action.wanted)
        else:
            outcome = vertex.prune(settings, action.name, [action.resource or "", *action.surplus])
        tell(f"{action.name}: {', '.join(outcome.did) or 'nothing to do any more'}")
        if outcome.made and outcome.resource:
            tell(schedule_link(settings, short(outcome.resource)))
        if outcome.kept:
            tell(f"{action.name}: warning: Vertex AI holds another {', '.join(outcome.kept)} than was sent")
        done.append(outcome)
    return done


def _chosen(settings: Settings, names: Sequence[str]) -> list[str]:
    for name in names:
        if name not in settings.schedules:
            raise RequestError(f"no schedule {name!r} is declared. {_choices(name, settings)}")
    return list(dict.fromkeys(names)) or list(settings.schedules)


def _choices(name: str, settings: Settings) -> str:
    if settings.schedules:
        return did_you_mean(name, settings.schedules)
    return "Declare one: write [schedules.NAME] into pipelines.toml."


def _with_ours(settings: Settings, names: Sequence[str], prune: bool) -> list[str]:
    """`names`, if each is declared, or, to be pruned, was once."""
    unknown = [name for name in names if name not in settings.schedules]
    if unknown and prune:
        from vgp.vertex.errors import explained

        with explained("read the schedules", settings):
            unknown = [name for name in unknown if name not in live.ours(settings, live.schedules(settings))]
    if unknown:
        _chosen(settings, unknown)
    return list(dict.fromkeys(names))


def _template(settings: Settings, schedule: Schedule) -> _Template:
    from vgp.compiling.compile import checked, compiled

    if schedule.template is None:
        made = compiled(schedule.pipeline, settings)
        return _Template(made.spec, None, made.report.steps)
    from vgp.vertex.templates.template import resolve

    template = resolve(settings, schedule.template)
    if template.name != schedule.pipeline:
        raise RequestError(f'template = "{schedule.template}" is no version of the pipeline {schedule.pipeline}.')
    return _Template(template.spec, template.uri, checked(template.name, template.spec, settings).steps)
