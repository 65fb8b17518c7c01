"""The permissions that each call to Google needs, the roles that hold them, and commands that grant roles.

data/permissions.csv has a row for every call that this product makes or causes. Add a row when you add a call.

    method       its name in Google's discovery document; for the hosts of templates and images, a name of this product
    client       the method of Google's client; rest: vgp/vertex/rest.py; session: a plain request; google: Google calls
    by           caller: the user, or CI; runner: the account of the steps; builder: the account of image builds;
                 worker: the account of Dataflow's workers, by default the runner;
                 aiplatform, artifactregistry, storage: the service agent
    when         the verbs that make the call; run: while a run is active; ci: in a CI that is a build of Cloud Build
    permissions  empty if the call needs no permission
    on           the resource of the grant; builds: the bucket below builds/; data: buckets that the steps read; tables:
                 BigQuery datasets that the steps read; made: datasets that the runner creates and owns;
                 ladder: the project, if a step has a ladder
    role         the predefined role to ask for
    page         Google's page on the permissions

data/roles.csv has the predefined roles, the narrowest first, with the permissions of the first table that each holds,
from Google's pages of 2026-08-22. To read the current ones: gcloud iam roles describe ROLE
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DATA = Path(__file__).parent / "data"

ACT_AS = "iam.serviceAccounts.actAs"
#: The end of the address of Compute Engine's default account, after the project number.
COMPUTE = "-compute@developer.gserviceaccount.com"
_PROJECT_DOMAIN = ".iam.gserviceaccount.com"


@dataclass(frozen=True)
class Call:
    """A row of permissions.csv."""

    method: str
    client: str
    by: str
    when: tuple[str, ...]
    permissions: tuple[str, ...]
    on: str
    role: str
    page: str


@cache
def calls() -> tuple[Call, ...]:
    """Returns every row of permissions.csv."""
    return tuple(map(_call, _read_rows("permissions.csv")))


@cache
def roles() -> dict[str, frozenset[str]]:
    """Returns the permissions in roles.csv by predefined role, the narrowest role first."""
    return {row["role"]: frozenset(row["permissions"].split()) for row in _read_rows("roles.csv")}


def list_needed_permissions(by: str, on: str, api: str = "") -> tuple[str, ...]:
    """Returns the permissions that an account needs on a resource, sorted.

    Args:
        by, on: As in permissions.csv.
        api: The beginning of the permissions' names, such as `aiplatform`; empty for all.
    """
    permissions = {name for call in calls() if (call.by, call.on) == (by, on) for name in call.permissions}
    return tuple(sorted(name for name in permissions if name.startswith(f"{api}." if api else "")))


def role_for(*permissions: str) -> str | None:
    """Returns a role that holds all the permissions, else one for the first, or None if no call needs the first."""
    candidates = [call.role for call in calls() if permissions[0] in call.permissions]
    return next((role for role in candidates if roles()[role].issuperset(permissions)), next(iter(candidates), None))


def holders(permission: str) -> frozenset[str]:
    """Returns the predefined roles that hold the permission."""
    return frozenset(role for role, permissions in roles().items() if permission in permissions)


def _call(row: dict[str, str]) -> Call:
    when, permissions = tuple(row["when"].split()), tuple(row["permissions"].split())
    return Call(row["method"], row["client"], row["by"], when, permissions, row["on"], row["role"], row["page"])


def _read_rows(name: str) -> Iterator[dict[str, str]]:
    with (_DATA / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def home_project(email: str, project: str) -> str:
    """Returns the project id in the address of a service account, or `project` for an account of Google's."""
    domain = email.partition("@")[2]
    return domain.removesuffix(_PROJECT_DOMAIN) if domain.endswith(_PROJECT_DOMAIN) else project


def act_as(email: str, member: str, project: str) -> str:
    """Returns the command that allows `member` to act as the account; `email` is its address or its number."""
    return f"{command_to_act_as(email, project)} --member {member} --role {role_for(ACT_AS)}"


def command_to_act_as(email: str, project: str) -> str:
    """Returns the command that grants a role on the account, without its options `--member` and `--role`."""
    return f"gcloud iam service-accounts add-iam-policy-binding {email} --project {home_project(email, project)}"
