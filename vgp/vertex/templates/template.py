"""Templates, which are uploaded pipelines with versions: listed, and found by tag or digest."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from vgp.base.documents.json_text import JsonObject
from vgp.base.errors import RequestError, WorkFailed
from vgp.base.text.figures import facts_table, table
from vgp.base.text.google_names import is_bucket_uri
from vgp.base.text.nearest import did_you_mean
from vgp.base.text.printable import one_line, summarise_texts
from vgp.check.spec.pipeline_spec import PipelineSpec
from vgp.settings import Settings, schedule_settings, value_rules
from vgp.settings.schedule_settings import LATEST, PREFIX, Reference
from vgp.vertex.templates.bucket_store import Bucket
from vgp.vertex.templates.registry_store import Repository
from vgp.vertex.templates.template_store import Store, format_time

#: Types of parameters, in the words of the console's form.
_TYPES = {
    "STRING": "text", "NUMBER_DOUBLE": "number", "NUMBER_INTEGER": "whole number", "BOOLEAN": "true or false",
    "LIST": "JSON list", "STRUCT": "JSON object",
}  # fmt: skip


def open_store(settings: Settings, place: str | None = None) -> Store:
    """Returns the store at `place`, by default at the template repository of the settings.

    Raises:
        RequestError: there is none, or `place` is neither a repository nor a bucket folder.
    """
    place = place or settings.template_repository
    if not place:
        raise RequestError(
            "no place for templates is set. "
            'Write template_repository = "https://REGION-kfp.pkg.dev/PROJECT/REPOSITORY" into pipelines.toml, '
            "or give --repository gs://BUCKET/FOLDER."
        )
    try:
        if is_bucket_uri(place):
            return Bucket(settings, value_rules.check_bucket(place))
        return Repository(settings, value_rules.check_template_repository(place))
    except ValueError as error:
        raise RequestError(f"{error} A folder in a bucket is gs://BUCKET/FOLDER.") from None


@dataclass(frozen=True)
class Template:
    """One version of a template, downloaded and verified."""

    name: str
    #: The digest of its content, `sha256:` and 64 hex digits.
    digest: str
    #: The pipeline's spec.
    spec: PipelineSpec
    #: The `template_uri` of a run, by digest; None for a template in a bucket, whose runs carry the spec itself.
    uri: str | None
    #: Its https:// or gs:// URI, by digest.
    location: str
    #: Its repository or bucket folder.
    place: str
    #: The tag of the reference; None for a reference by digest.
    tag: str | None
    #: The downloaded spec, as bytes.
    content: bytes

    @property
    def sha256(self) -> str:
        """64 hex digits."""
        return self.digest.removeprefix(PREFIX)


def resolve(settings: Settings, reference: str, *, place: str | None = None) -> Template:
    """Downloads the version that `reference` names now, and verifies its content by its digest.

    Args:
        reference: NAME, NAME:TAG or NAME@DIGEST; see `schedule_settings.parse`.
        place: A repository or bucket folder, by default that of the settings.

    Raises:
        RequestError: the reference is invalid, or there is no such template, tag or version.
        WorkFailed: the content does not have the digest, or Google could not be reached.
    """
    wanted = schedule_settings.parse_reference(reference)
    store = open_store(settings, wanted.place or place)
    with store.explaining(f"read the template {reference}"):
        digest = resolve_digest(store, wanted)
        content = store.download(wanted.name, digest)
        if content is None:
            raise explain_absence(store, wanted)
    return Template(
        wanted.name, digest, parse_verified(wanted.name, digest, content), store.template_uri(wanted.name, digest),
        store.location(wanted.name, digest), store.place, wanted.tag, content,
    )  # fmt: skip


def resolve_digest(store: Store, reference: Reference) -> str:
    """Returns the full digest of the version that a reference names now. Call it within `store.explaining`.

    Raises:
        RequestError: there is no such tag or version, or the digits fit more than one.
    """
    if reference.tag:
        digest = store.find_tag(reference.name, reference.tag)
        if digest is None:
            raise explain_absence(store, reference)
        return digest
    assert reference.digest
    if len(reference.digest) == len(PREFIX) + 64:
        return reference.digest
    candidates = [one.digest for one in store.versions(reference.name) if one.digest.startswith(reference.digest)]
    if len(candidates) > 1:
        digests = ", ".join(sorted(candidates))
        raise RequestError(f"{reference} fits {len(candidates)} versions: {digests}. Give more digits.")
    if not candidates:
        raise explain_absence(store, reference)
    return candidates[0]


def parse_verified(name: str, digest: str, content: bytes) -> PipelineSpec:
    """Returns the spec in `content`, JSON or YAML, once its digest and its pipeline's name are verified.

    Raises:
        WorkFailed: digest or name differ, or the content is no spec.
    """
    actual = PREFIX + hashlib.sha256(content).hexdigest()
    if actual != digest:
        raise WorkFailed(
            f"{name}@{digest}: the downloaded content has the digest {actual}: it was damaged or replaced, and is not "
            "used. Run the command again; if that does not help, upload the pipeline again."
        )
    document = parse_document(name, content)
    spec = PipelineSpec(document if isinstance(document, dict) else {})
    if spec.name != name:
        raise WorkFailed(f"{name}@{digest} is no spec of the pipeline {name}: its pipelineInfo.name is {spec.name!r}.")
    return spec


def parse_document(name: str, content: bytes) -> object:
    """Parses `content`, which is JSON or one YAML document of plain values.

    Raises:
        WorkFailed: it is neither.
    """
    import yaml

    try:
        text = content.decode()
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            return yaml.safe_load(text)
    except (UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        reason = str(error).splitlines()[0]
        raise WorkFailed(f"the template {name} holds no JSON and no safe YAML of one document: {reason}") from None


def explain_absence(store: Store, reference: Reference) -> RequestError:
    """Returns the error that explains why nothing matched, with the choices. Call it within `store.explaining`."""
    names = [package.name for package in store.packages()]
    if reference.name not in names:
        choices = did_you_mean(reference.name, names) if names else "None was uploaded there yet."
        return RequestError(f"no template {reference.name!r}. {choices} Upload it: vgp upload {reference.name}")
    if reference.tag:
        tags = store.tags(reference.name)
        choices = did_you_mean(reference.tag, tags) if tags else "It has no tags."
        return RequestError(f"{reference.name} has no tag {reference.tag!r}. {choices}")
    return RequestError(f"{reference.name} has no version {reference.digest}. All: vgp templates {reference.name}")


def list_templates(settings: Settings, *, place: str | None = None) -> list[JsonObject]:
    """Lists all templates by name, as rows for --json.

    Raises:
        RequestError: no store of templates is set.
    """
    store = open_store(settings, place)
    with store.explaining("list the templates"):
        listed = sorted(store.packages(), key=lambda package: package.name)
    return [{"name": package.name, "updated": format_time(package.updated)} for package in listed]


def list_versions(settings: Settings, name: str, *, place: str | None = None) -> list[JsonObject]:
    """Lists all versions of the template `name`, newest first: version, tags, created, size in bytes, uri.

    Raises:
        RequestError: there is no such template.
    """
    schedule_settings.check_package(name)
    store = open_store(settings, place)
    with store.explaining(f"list the versions of {name}"):
        listed, tags = store.versions(name), store.tags(name)
        if not listed:
            raise explain_absence(store, Reference(name, LATEST, None))
    tags_by_digest: dict[str, list[str]] = {}
    for tag, digest in sorted(tags.items()):
        tags_by_digest.setdefault(digest, []).append(tag)
    listed.sort(key=lambda version: (format_time(version.created) or "", version.digest), reverse=True)
    return [
        {
            "name": name,
            "version": version.digest,
            "tags": tags_by_digest.get(version.digest, []),
            "created": format_time(version.created),
            "size": version.size,
            "uri": store.location(name, version.digest),
        }
        for version in listed
    ]


def describe_version(settings: Settings, reference: str, *, place: str | None = None) -> JsonObject:
    """Describes one version, with its tags and the parameters of its runs.

    Raises:
        RequestError: the reference is invalid, or there is no such version.
        WorkFailed: the content does not have the digest, or Google could not be reached.
    """
    template = resolve(settings, reference, place=place)
    return {
        "name": template.name,
        "version": template.digest,
        "uri": template.location,
        "tags": list_tags(settings, template),
        "size": len(template.content),
        "description": template.spec.description,
        "parameters": [parameter.as_json() for _, parameter in sorted(template.spec.parameters.items())],
    }


def list_tags(settings: Settings, template: Template) -> list[str]:
    """Lists the tags that point to the version."""
    store = open_store(settings, template.place)
    with store.explaining(f"list the tags of {template.name}"):
        return sorted(tag for tag, digest in store.tags(template.name).items() if digest == template.digest)


def render_templates(rows: Sequence[JsonObject]) -> Table:
    """Renders the rows of `list_templates`."""
    return table(("template", "updated (UTC)"), ((one_line(row["name"]), _trim_time(row["updated"])) for row in rows))


def render_versions(rows: Sequence[JsonObject]) -> Table:
    """Renders the rows of `list_versions`: digests are cut to 12 digits, commits are shown once, in short."""
    cells = (
        (
            one_line(row["version"][:19]),
            _trim_time(row["created"]),
            "" if row["size"] is None else f"{row['size']:,}",
            one_line(", ".join(_drop_full_commits(row["tags"]))),
        )
        for row in rows
    )
    return table(("version", "created (UTC)", "bytes", "tags"), cells)


def render_version(version: JsonObject) -> Table:
    """Renders the result of `describe_version`."""
    rows: list[tuple[str | Text, str]] = [
        (Text(label, "bold"), one_line(version[label])) for label in ("name", "version", "uri", "description")
    ]
    rows += [
        (Text("tags", "bold"), one_line(", ".join(version["tags"]))),
        (Text("bytes", "bold"), f"{version['size']:,}"),
    ]
    for parameter in version["parameters"]:
        kind, default = _TYPES.get(parameter["type"], parameter["type"]), _format_default(parameter["default"])
        rows.append((f"  {one_line(parameter['name'])}", one_line(f"{kind}{default}: {parameter['description']}")))
    return facts_table(rows)


def _format_default(value: object) -> str:
    """Returns a default as ` = 1024`, without `.0`, because a spec keeps every number as a double."""
    if value is None:
        return ""
    return (
        f" = {value:.15g}"
        if isinstance(value, float)
        else f" = {json.dumps(summarise_texts(value), ensure_ascii=False)}"
    )


def _trim_time(time: str | None) -> str:
    return (time or "")[:16].replace("T", " ")


def _drop_full_commits(tags: Sequence[str]) -> list[str]:
    return [tag for tag in tags if not (len(tag) == 40 and tag[:12] in tags)]
