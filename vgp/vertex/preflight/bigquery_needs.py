"""Checks of BigQuery, for pipelines that use it: the runner may query, and every table exists, is near, is readable.

The tables are those in the defaults of the pipeline's parameters and in the parameters of its schedules.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from urllib.parse import quote

from vgp.base.documents.json_text import JsonObject
from vgp.base.text import google_names
from vgp.check.container_facts import engines_of_steps
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.machines.placement.request_parts import BigQuery
from vgp.settings import Settings
from vgp.vertex import clients, rest
from vgp.vertex.permissions import list_needed_permissions, role_for
from vgp.vertex.preflight.access import Policies, Policy, Resource, find_runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, call_options

_SCHEME = "bq://"
#: The parameter that names the table of predictions, which need not exist.
_WRITTEN = "destination"
#: Short role names in a dataset's access list, and the members that its special groups stand for.
_ROLES = {
    "READER": "roles/bigquery.dataViewer",
    "WRITER": "roles/bigquery.dataEditor",
    "OWNER": "roles/bigquery.dataOwner",
}
_GROUPS = {"projectReaders": "projectViewer", "projectWriters": "projectEditor", "projectOwners": "projectOwner"}
_AREAS = {"us": ("us-", "us", "nam"), "eu": ("europe-", "eu", "eur")}


def list_questions(settings: Settings, project: Project, policies: Policies, spec: PipelineSpec) -> Iterator[Question]:
    requests = list(dict.fromkeys(engines.bigquery for engines in engines_of_steps(spec).values() if engines.bigquery))
    for paying in dict.fromkeys(one.project or project.id for one in requests):
        yield Question("bigquery.runner", paying, partial(_check_runner, settings, project, paying, policies))
    for name in _list_tables(settings, spec) if requests else ():
        yield Question(
            "bigquery.table", f"{_SCHEME}{name}", partial(_check_table, settings, project, policies, name, requests)
        )


def _list_tables(settings: Settings, spec: PipelineSpec) -> list[str]:
    """Returns project.dataset.table of every bq:// in a parameter, except the table that the run writes."""
    schedules = [schedule.parameters for schedule in settings.schedules.values() if schedule.pipeline == spec.name]
    arguments = [pair for values in (spec.defaults, *schedules) for pair in values.items() if pair[0] != _WRITTEN]
    texts = [value for _, value in arguments if isinstance(value, str)]
    parts = [part.strip() for text in texts for part in text.split(",")]
    names = [part[len(_SCHEME) :] for part in parts if part.lower().startswith(_SCHEME)]
    return list(dict.fromkeys(name for name in names if name.count(".") >= 2))


def _check_runner(settings: Settings, project: Project, paying: str, policies: Policies) -> Iterator[Finding]:
    grant = f"gcloud projects add-iam-policy-binding {paying}"
    thing = Resource("bigquery.runner", paying, paying, Policy(), grant)
    yield policies.check(
        find_runner(settings, project), list_needed_permissions("runner", "project", "bigquery"), thing
    )


def _check_table(
    settings: Settings, project: Project, policies: Policies, name: str, requests: list[BigQuery]
) -> Iterator[Finding]:
    """https://cloud.google.com/bigquery/docs/reference/rest/v2/datasets/get"""
    from google.api_core import exceptions

    uri = f"{_SCHEME}{name}"
    owner, dataset_id, table_id = name.rsplit(".", 2)
    path = f"bigquery/v2/projects/{quote(owner)}/datasets/{quote(dataset_id)}"
    try:
        dataset = rest.call(settings, "bigquery", path, **call_options())
        table = rest.call(settings, "bigquery", f"{path}/tables/{quote(table_id)}", **call_options())
    except exceptions.NotFound:
        hint = f"List the tables: bq ls --project_id={owner} {dataset_id}"
        yield Finding("bigquery.table", uri, "error", "is not there", hint)
        return
    yield _check_size(uri, table, min(one.max_gb for one in requests))
    yield from _check_location(settings, uri, str(dataset.get("location", "")), requests)
    thing = Resource("bigquery.reader", uri, owner, _read_policy(dataset, owner), "")
    reader, permissions = find_runner(settings, project), list_needed_permissions("runner", "tables")
    finding = policies.check(reader, permissions, thing)
    role = role_for(*permissions)
    grant = f'GRANT `{role}` ON SCHEMA `{owner}`.`{dataset_id}` TO "serviceAccount:{reader}"'
    yield replace(finding, hint=f"bq query --use_legacy_sql=false '{grant}'") if finding.hint else finding


def _check_size(uri: str, table: JsonObject, max_gb: float) -> Finding:
    if table.get("type") != "TABLE":
        return Finding("bigquery.table", uri, "ok", f"is there, a {str(table.get('type', '')).lower()}")
    gigabytes = int(table.get("numBytes") or 0) / 2**30
    seen = f"is there, {int(table.get('numRows') or 0):,} rows, {gigabytes:,.1f} GB"
    if gigabytes <= max_gb:
        return Finding("bigquery.table", uri, "ok", seen)
    seen += f", and a step may read {max_gb:,g} GB: enough only for a few columns"
    return Finding("bigquery.table", uri, "warning", seen, "In pipelines.toml: max_gb of [steps.prepare.bigquery]")


def _check_location(settings: Settings, uri: str, location: str, requests: list[BigQuery]) -> Iterator[Finding]:
    """Checks that settings and bucket fit the table's location: BigQuery does not join across locations."""
    conflicting = next(
        (one.location for one in requests if one.location and one.location.lower() != location.lower()), ""
    )
    if conflicting:
        hint = f'In pipelines.toml, [steps.prepare.bigquery]: location = "{location}", or none'
        yield Finding("bigquery.location", uri, "error", f"is in {location}, but the settings have {conflicting}", hint)
    if not settings.bucket:
        return
    name = google_names.split_uri(settings.bucket)[0]
    bucket = str(clients.storage(settings).get_bucket(name, **call_options()).location or "")
    if is_near(location, bucket):
        yield Finding("bigquery.location", uri, "ok", f"is in {location}, the bucket in {bucket}")
        return
    seen = f"is in {location}, the bucket of the runs in {bucket}: BigQuery cannot move rows between these locations"
    hint = f"Use a bucket and a region in {location}, or copy the dataset: https://cloud.google.com/bigquery/docs/copying-datasets"
    yield Finding("bigquery.location", uri, "error", seen, hint)


def is_near(dataset: str, bucket: str) -> bool:
    """Whether dataset and bucket share a location, by the rule of vgp/base/storage/bigquery/lookup.py."""
    here, location = dataset.lower(), bucket.lower()
    return (
        here == location
        or location.startswith(_AREAS.get(here, (here,)))
        or here.startswith(_AREAS.get(location, (location,)))
    )


def _read_policy(dataset: JsonObject, owner: str) -> Policy:
    """Returns the dataset's access list as a policy:
    https://cloud.google.com/bigquery/docs/reference/rest/v2/datasets#access"""
    bindings = []
    for entry in dataset.get("access", ()):
        role = str(entry.get("role", ""))
        if role:
            bindings.append({"role": _ROLES.get(role, role), "members": [_format_member(entry, owner)]})
    return Policy.from_json({"bindings": bindings})


def _format_member(entry: JsonObject, owner: str) -> str:
    if email := str(entry.get("userByEmail", "")):
        return f"{'serviceAccount' if email.endswith('gserviceaccount.com') else 'user'}:{email}"
    if special := str(entry.get("specialGroup", "")):
        return f"{_GROUPS[special]}:{owner}" if special in _GROUPS else special
    kinds = {"groupByEmail": "group", "domain": "domain"}
    members = [f"{kind}:{entry[key]}" for key, kind in kinds.items() if entry.get(key)]
    return next(iter([*members, str(entry.get("iamMember", ""))]))
