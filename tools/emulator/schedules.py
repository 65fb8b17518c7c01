"""Vertex AI's schedules, which tick on the cloud's clock.

https://cloud.google.com/vertex-ai/docs/reference/rest/v1/projects.locations.schedules
"""

from typing import TYPE_CHECKING, Any

from google.protobuf import field_mask_pb2

from . import pipeline_spec
from .call import Call
from .cron import parts
from .errors import ApiError, precondition_error
from .listing import Filter, sort_items
from .messages import new, parse, rfc3339, set_time
from .schedule_runs import ACTIVE, COMPLETED, PAUSED, Live, Runs
from .schema import read_body, snake

if TYPE_CHECKING:
    from .cloud import Cloud

TIME = "= != < > <= >="
FILTERS = {
    "display_name": "= != :",
    "state": "= !=",
    "create_pipeline_job_request": ":",
    "create_time": TIME,
    "start_time": TIME,
    "end_time": TIME + " :",
    "next_run_time": TIME,
}
ORDERS = ("create_time", "start_time", "end_time", "next_run_time")
SCHEMA = "GoogleCloudAiplatformV1Schedule"


class Schedules:
    prefix = "aiplatform.projects.locations.schedules"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.live: dict[str, Live] = {}
        self.runs = Runs(cloud)
        self._next_id = 3_000_000_000_000_000_001

    def create(self, call: Call) -> Any:
        parent = self.cloud.resource(call.parent, "aiplatform.schedules.create")
        message = parse(call.body, new("Schedule"))
        self.check(message)
        now = self.cloud.clock.now()
        message.name = f"{parent}/schedules/{self._next_id}"
        self._next_id += 7_919
        message.state = ACTIVE
        for name in ("create_time", "update_time") + (() if message.HasField("start_time") else ("start_time",)):
            set_time(message, name, now)
        live = self.live[message.name] = Live(message, iter(()), None)
        live.restart(now)
        return message

    def check(self, message: Any) -> None:
        """Raises:
        ApiError: 400 for an invalid schedule.
        """
        if not message.cron:
            raise ApiError(400, "Required field is not set: schedule.time_specification (cron).")
        parts(message.cron)
        if message.max_concurrent_run_count < 1:
            raise ApiError(400, "max_concurrent_run_count must be at least 1.")
        if message.WhichOneof("request") != "create_pipeline_job_request":
            raise ApiError(400, "Required field is not set: schedule.request (create_pipeline_job_request).")
        if len(message.display_name) > 128:
            raise ApiError(400, "display_name must have at most 128 characters.")
        asked = message.create_pipeline_job_request
        self.cloud.resource(asked.parent, "aiplatform.pipelineJobs.create")
        job = new("PipelineJob")
        job.CopyFrom(asked.pipeline_job)
        self.cloud.policies.act_as(job.service_account or self.cloud.accounts.compute)
        pipeline_spec.checked(job, self.cloud.templates)

    def find(self, name: str, permission: str) -> Live:
        live = self.live.get(self.cloud.resource(name, permission))
        if live is None:
            raise ApiError(404, f"The Schedule does not exist: {name}.")
        return live

    def get(self, call: Call) -> Any:
        return self.find(call.name, "aiplatform.schedules.get").message

    def list(self, call: Call) -> dict[str, Any]:
        parent = self.cloud.resource(call.parent, "aiplatform.schedules.list")
        matches = Filter(call.query.get("filter", ""), FILTERS)

        def names() -> Any:
            found = [live for name, live in self.live.items() if name.startswith(f"{parent}/")]
            found = [live for live in reversed(found) if matches.test(filter_fields(live))]
            order = call.query.get("orderBy") or "create_time desc"
            return [i.message.name for i in sort_items(found, order, ORDERS, lambda i, key: i.moment(key))]

        page, following = self.cloud.pages.cut_page(call.query, names)
        answer = new("ListSchedulesResponse")
        answer.schedules.extend(self.live[name].message for name in page if name in self.live)
        answer.next_page_token = following
        return answer

    def patch(self, call: Call) -> Any:
        live = self.find(call.name, "aiplatform.schedules.update")
        if live.message.state == COMPLETED:
            raise precondition_error(f"The Schedule {live.message.name} is completed and cannot be updated.")
        assert call.definition
        paths = [snake(path) for path in call.query["updateMask"].split(",")]
        given = parse(call.body, new("Schedule"))
        for path in paths:
            check_path(path, call.definition.document.schemas, live.message, given)
        changed = new("Schedule")
        changed.CopyFrom(live.message)
        writable = field_mask_pb2.FieldMask(paths=[p for p in paths if not output_only(p, call.definition.document)])
        writable.MergeMessage(given, changed, replace_message_field=True, replace_repeated_field=True)
        read_body(call.definition.document, SCHEMA, self.cloud.as_json(changed), "schedule")
        self.check(changed)
        now = self.cloud.clock.now()
        set_time(changed, "update_time", now)
        live.message, live.spec = changed, None
        live.restart(now)
        return changed

    def pause(self, call: Call) -> dict[str, Any]:
        live = self.find(call.name, "aiplatform.schedules.update")
        if live.message.state == COMPLETED:
            raise precondition_error(f"The Schedule {live.message.name} is completed and cannot be paused.")
        if live.message.state == ACTIVE:
            live.message.state = PAUSED
            set_time(live.message, "last_pause_time", self.cloud.clock.now())
        return {}

    def resume(self, call: Call) -> dict[str, Any]:
        live = self.find(call.name, "aiplatform.schedules.update")
        if live.message.state != PAUSED:
            raise precondition_error(
                f"The Schedule {live.message.name} is not paused; only paused ones can be resumed."
            )
        now = self.cloud.clock.now()
        live.message.state = ACTIVE
        live.message.catch_up = bool((call.body or {}).get("catchUp"))
        set_time(live.message, "last_resume_time", now)
        if live.message.catch_up:
            live.backfill_until = now  # begins with the next run at the time of the pause or of the last change
        else:
            live.restart(now)
        self.settle()
        return {}

    def delete(self, call: Call) -> dict[str, Any]:
        live = self.find(call.name, "aiplatform.schedules.delete")
        del self.live[live.message.name]
        return self.cloud.operations.finish_deletion(live.message.name)

    def settle(self) -> None:
        self.runs.settle(list(self.live.values()))


def check_path(path: str, schemas: dict[str, Any], current: Any, given: Any) -> None:
    """Raises:
    ApiError: 400 for a path that is no field, or that would clear one.
    """
    first = path.partition(".")[0]
    if first not in {snake(name) for name in schemas[SCHEMA]["properties"]}:
        raise ApiError(400, f"Invalid update_mask: {path!r} is no field of Schedule.")
    if first == "name":
        raise ApiError(400, "Invalid update_mask: name is immutable.")
    if "." not in path and is_set(current, path) and not is_set(given, path) and path != "allow_queueing":
        raise ApiError(400, f"Invalid update_mask: the non-empty field {path} cannot be unset.")


def is_set(message: Any, name: str) -> bool:
    return any(descriptor.name == name for descriptor, _ in message.ListFields())


def output_only(path: str, document: Any) -> bool:
    properties = document.schemas[SCHEMA]["properties"]
    return any(snake(name) == path and part.get("readOnly") for name, part in properties.items())


def filter_fields(live: Live) -> dict[str, Any]:
    """Returns the fields of a filter."""
    message = live.message
    times = {name: live.moment(name) for name in ORDERS}
    return {
        **{name: rfc3339(moment) for name, moment in times.items() if moment},
        "display_name": message.display_name,
        "state": {ACTIVE: "ACTIVE", PAUSED: "PAUSED", COMPLETED: "COMPLETED"}[message.state],
        "create_pipeline_job_request": "set" if message.WhichOneof("request") == "create_pipeline_job_request" else "",
    }
