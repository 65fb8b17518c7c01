"""Cloud Logging: https://cloud.google.com/logging/docs/reference/v2/rest/v2/entries/list.

Of the filter language: comparisons, AND, OR, NOT and brackets, also around values.
https://cloud.google.com/logging/docs/view/logging-query-language
"""

import operator
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from .call import Call
from .errors import ApiError
from .listing import Filter, Test, one_page
from .messages import rfc3339

if TYPE_CHECKING:
    from .cloud import Cloud

OPERATORS: dict[str, Any] = {
    "=": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
    ":": None, "=~": None, "!~": None,
}  # fmt: skip
SEVERITIES = ("DEFAULT", "DEBUG", "INFO", "NOTICE", "WARNING", "ERROR", "CRITICAL", "ALERT", "EMERGENCY")


class Entries:
    prefix = "logging.entries"

    def __init__(self, cloud: "Cloud"):
        self.cloud = cloud
        self.entries: list[dict[str, Any]] = []

    def add(
        self,
        text: str | dict[str, Any],
        *,
        job_id: str = "",
        severity: str = "INFO",
        at: datetime | None = None,
        labels: dict[str, str] | None = None,
        resource: str = "ml_job",
        task_name: str = "workerpool0-0",
        **more: Any,
    ) -> dict[str, Any]:
        """Adds an entry of a custom job; `job_id` is the job's number, `at` its time, by default now."""
        moment = rfc3339(at or self.cloud.clock.now())
        known = {"project_id": self.cloud.project, "job_id": job_id, "task_name": task_name}
        entry = {
            "logName": f"projects/{self.cloud.project}/logs/{task_name}",
            "resource": {"type": resource, "labels": known},
            "timestamp": moment,
            "receiveTimestamp": moment,
            "severity": severity,
            "insertId": f"entry{len(self.entries):06}",
            "labels": labels or {},
            ("textPayload" if isinstance(text, str) else "jsonPayload"): text,
            **more,
        }
        self.entries.append(entry)
        return entry

    def list(self, call: Call) -> dict[str, Any]:
        for name in call.body["resourceNames"]:
            self.cloud.resource(name, "logging.logEntries.list")
        order = call.body.get("orderBy") or "timestamp asc"
        if order not in ("timestamp", "timestamp asc", "timestamp desc"):
            raise ApiError(400, f"Unsupported order_by: {order!r}.")
        matches = LogFilter(call.body.get("filter", ""))
        by_id = {str(i): entry for i, entry in enumerate(self.entries)}

        def found() -> Any:
            hits = [i for i, entry in by_id.items() if matches.test(entry)]
            return sorted(hits, key=lambda i: moment(by_id[i]["timestamp"]), reverse=order.endswith("desc"))

        query = {key: str(value) for key, value in call.body.items()}
        page, following = self.cloud.pages.cut_page({"pageSize": "50", **query}, found)
        return one_page("entries", [by_id[i] for i in page], following)


class LogFilter(Filter):
    """A filter on any field, whose values may be ("a" OR "b")."""

    def __init__(self, text: str):
        super().__init__(text, {})

    def comparison(self, name: str) -> Test:
        sign = self.next()
        if sign not in OPERATORS:
            raise self.wrong(f"has '{sign}' after '{name}'")
        values, joined = [self.next()], any
        if values[0] == "(":
            values = [self.next()]
            while (word := self.next()) != ")":
                joined = all if word == "AND" else any
                values.append(self.next())
        plain = [re.sub(r"\\(.)", r"\1", v[1:-1]) if v.startswith('"') else v for v in values]
        return lambda entry: joined(holds(entry, name, sign, value) for value in plain)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def holds(entry: dict[str, Any], name: str, sign: str, wanted: str) -> bool:
    """Whether the comparison is true; with a field that the entry lacks only != is true."""
    parts = [part.strip('"') for part in re.findall(r'"[^"]*"|[^."]+', name)]
    found: Any = entry
    for part in parts:
        found = found.get(part) if isinstance(found, dict) else None
    if sign == ":":
        return found is not None and (wanted == "*" or wanted.lower() in str(found).lower())
    if sign in ("=~", "!~"):
        return bool(found is not None and re.search(wanted, str(found))) == (sign == "=~")
    if found is None:
        return sign == "!="
    left, right = comparable(name, str(found)), comparable(name, wanted)
    return bool(OPERATORS[sign](left, right))


def comparable(name: str, text: str) -> Any:
    if name in ("timestamp", "receiveTimestamp"):
        return moment(text)
    if name == "severity":
        if text.upper() not in SEVERITIES:
            raise ApiError(400, f"Unparseable filter: {text!r} is no severity.")
        return SEVERITIES.index(text.upper())
    return text.lower()  # comparisons ignore case
