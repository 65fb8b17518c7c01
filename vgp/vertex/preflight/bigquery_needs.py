"""BigQuery, where steps may use it: whether the runner may query, and the tables that are named: there, near, readable.

Tables are named by defaults of the pipeline's parameters, and by the parameters of its schedules.
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
from vgp.vertex.permissions import needed, role_for
from vgp.vertex.preflight.access import Policies, Policy, Thing, runner
from vgp.vertex.preflight.account import Project
from vgp.vertex.preflight.preflight_questions import Finding, Question, patience

_SCHEME = "bq://"
#: The parameter of a table that need not be there: predictions go into it.
_WRITTEN = "destination"
#: What entries of a dataset say for roles, and whom its groups stand for.
_ROLES = {
    "READER": "roles/bigquery.dataViewer",
    "WRITER": "roles/bigquery.dataEditor",
    "OWNER": "roles/bigquery.dataOwner",
}
_GROUPS = {"projectReaders": "projectViewer", "projectWriters": "projectEditor", "projectOwners": "projectOwner"}
_AREAS = {"us": ("us-", "us", "nam"), "eu": ("europe-", "eu", "eur")}


def questions(settings: Settings, project: Project, policies: Policies, spec: PipelineSpec) -> Iterator[Question]:
    asked = list(dict.fromkeys(engines.bigquery for engines in engines_of_steps(spec).values() if engines.bigquery))
    for paying in dict.fromkeys(one.project or project.id for one in asked):
        yield Question("bigquery.runner", paying, partial(_runner, settings, project, paying, policies))
    for name in _tables(settings, spec) if asked else ():
        yield Question("bigquery.table", f"{_SCHEME}{name}", partial(_table, settings, project, policies, name, asked))


def _tables(settings: Settings, spec: PipelineSpec) -> list[str]:
    """project.dataset.table of every bq:// that a parameter has, but for the one that is written."""
    schedules = [schedule.parameters for schedule in settings.schedules.values() if schedule.pipeline == spec.name]
    given = [pair for values in (spec.defaults, *schedules) for pair in values.items() if pair[0] != _WRITTEN]
    texts = [value for _, value in given if isinstance(value, str)]
    parts = [part.strip() for text in texts for part in text.split(",")]
    names = [part[len(_SCHEME) :] for part in parts if part.lower().startswith(_SCHEME)]
    return list(dict.fromkeys(name for name in names if name.count(".") >= 2))


def _runner(settings: Settings, project: Project, paying: str, policies: Policies) -> Iterator[Finding]:
    grant = f"gcloud projects add-iam-policy-binding {paying}"
    thing = Thing("bigquery.runner", paying, paying, Policy(), grant)
    yield policies.may(runner(settings, project), needed("runner", "project", "bigquery"), thing)


def _table(
    settings: Settings, project: Project, policies: Policies, name: str, asked: list[BigQuery]
) -> Iterator[Finding]:
    """https://cloud.google.com/bigquery/docs/reference/rest/v2/datasets/get"""
    from google.api_core import exceptions

    uri = f"{_SCHEME}{name}"
    owner, dataset_id, table_id = name.rsplit(".", 2)
    path = f"bigquery/v2/projects/{quote(owner)}/datasets/{quote(dataset_id)}"
    try:
        dataset = rest.call(settings, "bigquery", path, **patience())
        table = rest.call(settings, "bigquery", f"{path}/tables/{quote(table_id)}", **patience())
    except exceptions.NotFound:
        hint = f"List the tables: bq ls --project_id={owner} {dataset_id}"
        yield Finding("bigquery.table", uri, "error", "is not there", hint)
        return
    yield _size(uri, table, min(one.max_gb for one in asked))
    yield from _location(settings, uri, str(dataset.get("location", "")), asked)
    thing = Thing("bigquery.reader", uri, owner, _policy(dataset, owner), "")
    reader, permissions = runner(settings, project), needed("runner", "tables")
    finding = policies.may(reader, permissions, thing)
    role = role_for(*permissions)
    grant = f'GRANT `{role}` ON SCHEMA `{owner}`.`{dataset_id}` TO "serviceAccount:{reader}"'
    yield replace(finding, hint=f"bq query --use_legacy_sql=false '{grant}'") if finding.hint else finding


def _size(uri: str, table: JsonObject, max_gb: float) -> Finding:
    if table.get("type") != "TABLE":
        return Finding("bigquery.table", uri, "ok", f"is there, a {str(table.get('type', '')).lower()}")
    gigabytes = int(table.get("numBytes") or 0) / 2**30
    seen = f"is there, {int(table.get('numRows') or 0):,} rows, {gigabytes:,.1f} GB"
    if gigabytes <= max_gb:
        return Finding("bigquery.table", uri, "ok", seen)
    seen += f", and a step may read {max_gb:,g} GB: enough only for a few columns"
    return Finding("bigquery.table", uri, "warning", seen, "In pipelines.toml: max_gb of [steps.prepare.bigquery]")


def _location(settings: Settings, uri: str, there: str, asked: list[BigQuery]) -> Iterator[Finding]:
    """BigQuery joins nothing across locations, and a run lets no rows cross from one to another."""
    said = next((one.location for one in asked if one.location and one.location.lower() != there.lower()), "")
    if said:
        hint = f'In pipelines.toml, [steps.prepare.bigquery]: location = "{there}", or none'
        yield Finding("bigquery.location", uri, "error", f"is in {there}, but the settings have {said}", hint)
    if not settings.bucket:
        return
    name = google_names.split_uri(settings.bucket)[0]
    bucket = str(clients.storage(settings).get_bucket(name, **patience()).location or "")
    if _near(there, bucket):
        yield Finding("bigquery.location", uri, "ok", f"is in {there}, the bucket in {bucket}")
        return
    seen = f"is in {there}, the bucket of the runs in {bucket}: BigQuery cannot move rows between these locations"
    hint = f"Use a bucket and a region in {there}, or copy the dataset: https://cloud.google.com/bigquery/docs/copying-datasets"
    yield Finding("bigquery.location", uri, "error", seen, hint)


def _near(dataset: str, bucket: str) -> bool:
    """The rule by which the step goes: vgp/base/storage/bigquery/lookup.py."""
    here, there = dataset.lower(), bucket.lower()
    return here == there or there.startswith(_AREAS.get(here, (here,))) or here.startswith(_AREAS.get(there, (there,)))


def _policy(dataset: JsonObject, owner: str) -> Policy:
    """The dataset's list of access as a policy:
    https://cloud.google.com/bigquery/docs/reference/rest/v2/datasets#access"""
    bindings = []
    for entry in dataset.get("access", ()):
        role = str(entry.get("role", ""))
        if role:
            bindings.append({"role": _ROLES.get(role, role), "members": [_member(entry, owner)]})
    return Policy.of_json({"bindings": bindings})


def _member(entry: JsonObject, owner: str) -> str:
    if email := str(entry.get("userByEmail", "")):
        return f"{'serviceAccount' if email.endswith('gserviceaccount.com') else 'user'}:{email}"
    if special := str(entry.get("specialGroup", "")):
        return f"{_GROUPS[special]}:{owner}" if special in _GROUPS else special
    kinds = {"groupByEmail": "group", "domain": "domain"}
    named = [f"{kind}:{entry[key]}" for key, kind in kinds.items() if entry.get(key)]
    return next(iter([*named, str(entry.get("iamMember", ""))]))
