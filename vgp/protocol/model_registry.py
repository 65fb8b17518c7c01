"""The synchronisation of Vertex AI's Model Registry with the record of our registry (vgp/registry).

Vertex AI's calls take no precondition, and an upload takes no id from the client. Each round therefore reads the
record, lists the versions, and takes one step, until no step is left. A killed synchronisation is finished by the next
one. Of concurrent ones the newest record wins, because each reads the record again after every call.
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

#: Seconds: the limits of an operation and of a series of failures; the first and the longest pause.
OPERATION_S, PATIENCE_S, FIRST_S, LONGEST_S = 1800.0, 300.0, 2.0, 30.0
#: Seconds for which a refusal is retried, because a concurrent change may have caused it.
RACE_S = 10.0
#: Number of times that an uploaded version is searched for before the next upload, and number of uploads.
LOOKS, UPLOADS = 4, 3


@dataclass(frozen=True)
class Terms:
    """The settings of models on Vertex AI."""

    #: Serving image, with its digest, for versions that do not name an image.
    image: str = ""
    #: Cloud KMS key; empty: Google's default encryption.
    encryption_key: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)


def project(
    read: Callable[[], JsonObject], *, project: str, region: str, terms: Terms | None = None, mine: int | None = None
) -> list[str]:
    """Calls `reconcile` from a step with the step's account, and reports every failure in one sentence.

    Args:
        mine: The version that the step registered; None = none. Other young versions are left to their steps.

    Raises:
        Refused: the synchronisation failed. Changes so far stay, and the next call continues.
    """
    import requests
    from google.api_core.exceptions import GoogleAPICallError
    from google.auth.exceptions import GoogleAuthError

    base = google_api.address(f"{region}-aiplatform")
    try:
        with google_api.session() as session:
            return reconcile(read, ModelService(session, base, project, region), terms or Terms(), mine=mine or 0)
    except (GoogleAPICallError, requests.RequestException, GoogleAuthError) as error:
        reason = getattr(error, "message", "") or f"{type(error).__name__}: {error}"
        raise Refused(
            f"Vertex AI's Model Registry is not up to date: {reason}. The registry itself is correct, and the next run "
            "or `vgp models` updates Vertex AI. The account needs aiplatform.models.upload, .list, .update and .delete "
            "(roles/aiplatform.user)."
        ) from None


def reconcile(
    read: Callable[[], JsonObject],
    service: ModelService,
    terms: Terms,
    *,
    mine: int | None = None,
    clock: Clock | None = None,
) -> list[str]:
    """Makes Vertex AI's registry equal to the record; returns a sentence on each change. Can be repeated at any time.

    Args:
        read: Returns the current record in its JSON form.
        mine: The version that the caller registered. Other missing versions are uploaded only once they are no longer
            young, so that of a hundred steps that end together each uploads one version. None: all missing versions.

    Raises:
        Refused: the model does not belong to this registry, a version cannot be uploaded, or an operation failed.
        Exception: the errors of `read` and of the service; transient ones after PATIENCE_S.
    """
    return _Reconciliation(read, service, terms, mine, clock or Clock()).run()


def differences(record: JsonObject, service: ModelService) -> list[str]:
    """Returns a sentence on each difference between Vertex AI and the record. Raises as `reconcile` does."""
    live = service.versions(model_service.model_id(record))
    return [f"not yet: {step}" for step in steps(record, live)] + notes(record, live)


class _Reconciliation:
    def __init__(
        self, read: Callable[[], JsonObject], service: ModelService, terms: Terms, mine: int | None, clock: Clock
    ) -> None:
        self.read, self.service, self.terms, self.mine, self.clock = read, service, terms, mine, clock
        #: Sentences on the changes so far.
        self.changes: list[str] = []
        #: By version number: the uploads so far, and the searches left before the next upload.
        self.uploads: dict[int, int] = {}
        self.looks_left: dict[int, int] = {}

    def run(self) -> list[str]:
        """Takes rounds until no step is left; returns the sentences on the changes."""

        def give_up(failure: Failure) -> None:
            if failure.lasted_s >= _patience_s(failure.error):
                raise failure.error

        pauses = Pauses(FIRST_S, LONGEST_S)
        while retry(
            self.round, pauses, is_transient=lambda error: _patience_s(error) > 0, clock=self.clock, on_failure=give_up
        ):
            pass
        return self.changes

    def round(self) -> bool:
        """Takes the first step; returns False if none is left."""
        record = self.read()
        model = model_service.model_id(record)
        live = self.service.versions(model) if record["versions"] else []
        step = next(steps(record, live, mine=self.mine, now=self.clock.moment()), None)
        if step is None:
            self.changes += notes(record, live)
            return False
        self.take(step, record, model)
        self.changes += [str(step)] if str(step) not in self.changes else []
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
        """Uploads the version, unless an earlier upload may still appear in Vertex AI's list, which can be late."""
        from google.api_core.exceptions import BadRequest, Conflict, NotFound, TooManyRequests

        number = int(step.version["number"])
        if self.looks_left.get(number):
            self.looks_left[number] -= 1
            return self.clock.sleep(LONGEST_S / LOOKS)
        failure = f"version {number} of {model} was not uploaded"
        if self.uploads.get(number, 0) == UPLOADS:
            raise Refused(f"{failure}: it was sent {UPLOADS} times, and Vertex AI does not list it.")
        body = self.upload_body(step, record, model)
        self.uploads[number], self.looks_left[number] = self.uploads.get(number, 0) + 1, LOOKS
        try:
            self.wait_for(self.service.upload(body), failure)
        except (Conflict, NotFound):  # another synchronisation has just created or removed the model
            self.looks_left[number] = 0
        except TooManyRequests:  # Vertex AI did not process the request
            self.uploads[number], self.looks_left[number] = self.uploads[number] - 1, 0
            raise
        except BadRequest as error:
            raise Refused(f"{failure}: {error.message}") from None

    def upload_body(self, step: Upload, record: JsonObject, model: str) -> JsonObject:
        parent = self.service.name(model) if step.model_exists else ""
        terms = self.terms
        return model_service.request(
            record, step.version, parent=parent, image=terms.image, key=terms.encryption_key, labels=terms.labels
        )

    def move(self, step: Move, model: str) -> None:
        """Adds the alias to the version. If Vertex AI refuses, removes it from its holder; the next round adds it.

        Google does not document whether an alias has to be removed first.
        """
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
            return  # another synchronisation removed it
        self.wait_for(operation, f"version {step.number} of {model} was not removed")

    def wait_for(self, operation: JsonObject, failure: str) -> None:
        """Waits until the operation has ended.

        Raises:
            Refused: it failed, or still runs after OPERATION_S.
        """
        name, first = str(operation.get("name")), [operation]

        def look() -> JsonObject | None:
            state = first.pop() if first else self.service.operation(name)
            return state if state.get("done") else None

        pauses = Pauses(FIRST_S, LONGEST_S, factor=1.5, deadline_s=OPERATION_S)
        ended = poll(look, pauses, clock=self.clock)
        if ended is None:
            raise Refused(f"{failure}: {name} still runs after {OPERATION_S / 60:g} minutes.")
        if "error" in ended:
            raise _operation_error(ended["error"], failure)


def _patience_s(error: Exception) -> float:
    """Returns the seconds for which to retry after the error; a concurrent change may cause a refusal for a moment."""
    from google.api_core.exceptions import BadRequest, Conflict, NotFound

    if google_api.is_transient(error):
        return PATIENCE_S
    return RACE_S if isinstance(error, BadRequest | Conflict | NotFound) else 0.0


def _operation_error(error: JsonObject, failure: str) -> Exception:
    """Returns an exception for the error of an operation: Google's own class for a conflict or a transient error."""
    from google.api_core import exceptions

    message = f"{failure}: {error.get('message') or 'Google gives no reason'}"
    #: https://github.com/googleapis/googleapis/blob/master/google/rpc/code.proto
    kinds = {6: exceptions.Conflict, 8: exceptions.TooManyRequests, 14: exceptions.ServiceUnavailable}
    kind: type[Exception] = kinds.get(int(error.get("code", 0)), Refused)
    return kind(message)
