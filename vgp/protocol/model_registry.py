"""Vertex AI's Model Registry as a projection of ours: what its record says is made true there, one call after another.

The record is the truth (vgp/registry). Calls of Vertex AI know no precondition, and an upload no id of ours: so
each round reads the record, lists what is there, takes one step, and begins again until nothing is left to do. Killed
anywhere, the next one goes on. Of several at once the one with the newest record wins: whoever has written reads the
record once more.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from vgp.base import google_api
from vgp.base.clock import Clock
from vgp.base.documents.json_text import JsonObject
from vgp.base.retry import Failure, Pauses, poll, retry
from vgp.protocol import model_service
from vgp.protocol.model_plan import Move, Relabel, Remove, Step, Take, Upload, notes, steps
from vgp.protocol.model_service import ModelService, Refused

#: Seconds: how long an operation may take, and failures in a row; the first pause, and the longest.
OPERATION_S, PATIENCE_S, FIRST_S, LONGEST_S = 1800.0, 300.0, 2.0, 30.0
#: Seconds for which a refusal is taken for somebody else's doing.
RACE_S = 10.0
#: How often a version that was uploaded is looked for before it is sent again, and how often it is sent.
LOOKS, UPLOADS = 4, 3


@dataclass(frozen=True)
class Terms:
    """What the settings say of models on Vertex AI."""

    #: What serves versions that do not name their image, with its digest.
    image: str = ""
    #: Cloud KMS key; empty: Google's own encryption.
    encryption_key: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def project(
    read: Callable[[], JsonObject], *, project: str, region: str, terms: Terms | None = None, mine: int | None = None
) -> list[str]:
    """`reconcile` from within a step, as its account, with every failure as one sentence.

    Args:
        mine: The version that the step has registered; None = none. Young ones are left to the steps that they are of.

    Raises:
        Refused: what could not be done, why, and what to do. What was done stays; a repetition goes on.
    """
    import requests
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    base = google_api.address(f"{region}-aiplatform")
    try:
        with google_api.session() as session:
            return reconcile(read, ModelService(session, base, project, region), terms or Terms(), mine=mine or 0)
    except (GoogleAPICallError, requests.RequestException, GoogleAuthError) as error:
        told = getattr(error, "message", "") or f"{type(error).__name__}: {error}"
        raise Refused(
            f"Vertex AI's Model Registry is not up to date: {told}. The registry itself is as it should be, and the "
            "next run or `vgp models` brings Vertex AI after it. The account needs aiplatform.models.upload, "
            ".list, .update and .delete (roles/aiplatform.user)."
        ) from None


def reconcile(
    read: Callable[[], JsonObject],
    service: ModelService,
    terms: Terms,
    *,
    mine: int | None = None,
    clock: Clock | None = None,
) -> list[str]:
    """Makes Vertex AI's registry equal to the record; returns what was done, in words. May be repeated at any time.

    Args:
        read: Returns the record in its JSON form, as it is now.
        mine: The version that the caller has registered. Other missing ones are uploaded only once they are not young:
            a hundred steps that end at once upload one version each. None: all that are missing.

    Raises:
        Refused: the model there is not of this registry, a version cannot be uploaded, or an operation failed.
        Whatever `read` and the service raise; what may pass (`google_api.is_transient`), once it lasts for PATIENCE_S.
    """
    return _Reconciliation(read, service, terms, mine, clock or Clock()).run()


def differences(record: JsonObject, service: ModelService) -> list[str]:
    """What Vertex AI does not show yet, in words; empty if it agrees with the record. Raises as `reconcile`."""
    live = service.versions(model_service.model_id(record))
    return [f"not yet: {step}" for step in steps(record, live)] + notes(record, live)


class _Reconciliation:
    def __init__(
        self, read: Callable[[], JsonObject], service: ModelService, terms: Terms, mine: int | None, clock: Clock
    ) -> None:
        self.read, self.service, self.terms, self.mine, self.clock = read, service, terms, mine, clock
        self.done: list[str] = []
        #: Number -> how often it was sent, and how often it is still looked for in the list.
        self.sent: dict[int, int] = {}
        self.awaited: dict[int, int] = {}

    def run(self) -> list[str]:
        """Rounds until nothing is left to do."""

        def give_up(failure: Failure) -> None:
            if failure.lasted_s >= _patience_s(failure.error):
                raise failure.error

        pauses = Pauses(FIRST_S, LONGEST_S)
        while retry(
            self.round, pauses, is_transient=lambda error: _patience_s(error) > 0, clock=self.clock, on_failure=give_up
        ):
            pass
        return self.done

    def round(self) -> bool:
        """Takes the first step that there is; False if there is none."""
        record = self.read()
        model = model_service.model_id(record)
        live = self.service.versions(model) if record["versions"] else []
        step = next(steps(record, live, mine=self.mine, now=self.clock.moment()), None)
        if step is None:
            self.done += notes(record, live)
            return False
        self.take(step, record, model)
        self.done += [str(step)] if str(step) not in self.done else []
        return True

    def take(self, step: Step, record: JsonObject, model: str) -> None:
        match step:
            case Upload():
                self.upload(step, record, model)
            case Relabel():
                self.service.set_labels(model, step.version_id, step.labels)
            case Move():
                self.move(step, model)
            case Take():
                self.service.merge_aliases(model, step.version_id, [f"-{step.alias}"])
            case Remove():
                self.remove(step, model)

    def upload(self, step: Upload, record: JsonObject, model: str) -> None:
        """Sends the version, once it was looked for in vain: an answer may be lost, and a list be late."""
        from google.api_core.exceptions import BadRequest, Conflict, NotFound, TooManyRequests

        number = int(step.version["number"])
        if self.awaited.get(number):
            self.awaited[number] -= 1
            return self.clock.sleep(LONGEST_S / LOOKS)
        failed = f"version {number} of {model} was not uploaded"
        if self.sent.get(number, 0) == UPLOADS:
            raise Refused(f"{failed}: it was sent {UPLOADS} times, and Vertex AI does not list it.")
        body = self.body(step, record, model)
        self.sent[number], self.awaited[number] = self.sent.get(number, 0) + 1, LOOKS
        try:
            self.finish(self.service.upload(body), failed)
        except (Conflict, NotFound):  # somebody else has just made the model, or removed it
            self.awaited[number] = 0
        except TooManyRequests:  # it was not even looked at
            self.sent[number], self.awaited[number] = self.sent[number] - 1, 0
            raise
        except BadRequest as error:
            raise Refused(f"{failed}: {error.message}") from None

    def body(self, step: Upload, record: JsonObject, model: str) -> JsonObject:
        parent = self.service.name(model) if step.model_exists else ""
        terms = self.terms
        return model_service.request(
            record, step.version, parent=parent, image=terms.image, key=terms.encryption_key, labels=terms.labels
        )

    def move(self, step: Move, model: str) -> None:
        """Gives the alias. Whether it has to be taken from its holder first is not documented: then it is, and the next
        round gives it."""
        from google.api_core.exceptions import BadRequest, Conflict

        try:
            self.service.merge_aliases(model, step.version_id, [step.alias])
        except (BadRequest, Conflict):
            if not step.holders:
                raise
            self.service.merge_aliases(model, step.holders[0], [f"-{step.alias}"])

    def remove(self, step: Remove, model: str) -> None:
        from google.api_core.exceptions import NotFound

        try:
            operation = self.service.delete(model, "" if step.last else step.version_id)
        except NotFound:
            return  # somebody else did
        self.finish(operation, f"version {step.number} of {model} was not removed")

    def finish(self, operation: JsonObject, failed: str) -> None:
        """Waits until the operation has ended."""
        name, known = str(operation.get("name")), [operation]

        def look() -> JsonObject | None:
            state = known.pop() if known else self.service.operation(name)
            return state if state.get("done") else None

        pauses = Pauses(FIRST_S, LONGEST_S, factor=1.5, deadline_s=OPERATION_S)
        ended = poll(look, pauses, clock=self.clock)
        if ended is None:
            raise Refused(f"{failed}: {name} still runs after {OPERATION_S / 60:g} minutes.")
        if "error" in ended:
            raise _failure(ended["error"], failed)


def _patience_s(error: Exception) -> float:
    """How long failures like this one may go on: what others are changing may be refused, or gone, for a moment."""
    from google.api_core.exceptions import BadRequest, Conflict, NotFound

    if google_api.is_transient(error):
        return PATIENCE_S
    return RACE_S if isinstance(error, BadRequest | Conflict | NotFound) else 0.0


def _failure(error: JsonObject, failed: str) -> Exception:
    """The error of an operation; one that may pass, or that the id is taken, as the exception of such an answer."""
    from google.api_core import exceptions

    message = f"{failed}: {error.get('message') or 'Google does not say why'}"
    #: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
    kinds = {6: exceptions.Conflict, 8: exceptions.TooManyRequests, 14: exceptions.ServiceUnavailable}
    kind: type[Exception] = kinds.get(int(error.get("code", 0)), Refused)
    return kind(message)
