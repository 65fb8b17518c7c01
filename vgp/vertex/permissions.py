"""Which permission each call of one of Google's APIs takes, and which roles hold it; service accounts.

data/permissions.csv: a row for every call that this product makes or causes. Add a row when you add a call.

    method       as Google's discovery document names it; of the hosts of templates and images, a name of ours
    client       what the code calls for it; rest: vgp/vertex/rest.py; session: a request by hand; google: Google itself
    by           caller: a person, or CI; runner: the account of the steps; builder: the account of image builds;
                 worker: the account of Dataflow's workers, by default the runner;
                 aiplatform, artifactregistry, storage: the service agent
    when         the verbs that make the call; run: while a run runs; ci: where CI is a build of Cloud Build
    permissions  none: everybody may
    on           what they are granted on; builds: the bucket below builds/; data: buckets that the steps read; tables:
                 datasets of BigQuery that they read; made: datasets that the runner made, which are its own;
                 ladder: the project, where a step has a ladder
    role         the predefined role to ask for
    page         Google's page that documents it

data/roles.csv: of those permissions, the ones that each predefined role holds, the narrowest role first, as Google's
pages had them on 2026-08-22. The same of today: gcloud iam roles describe ROLE
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_DATA = Path(__file__).parent / "data"

ACT_AS = "iam.serviceAccounts.actAs"
#: How the address of Compute Engine's default account ends; its project's number stands before.
COMPUTE = "-compute@developer.gserviceaccount.com"
_OWN = ".iam.gserviceaccount.com"


@dataclass(frozen=True)
class Call:
    """A call, who makes it, and what it takes."""

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
    """Every row of the table."""
    return tuple(map(_call, _rows("permissions.csv")))


@cache
def roles() -> dict[str, frozenset[str]]:
    """Predefined role -> those of the table's permissions that it holds; the narrowest role first."""
    return {row["role"]: frozenset(row["permissions"].split()) for row in _rows("roles.csv")}


def needed(by: str, on: str, api: str = "") -> tuple[str, ...]:
    """The permissions that `by` needs on a thing, each once; of one API, or one kind of thing, if it is named."""
    named = {name for call in calls() if (call.by, call.on) == (by, on) for name in call.permissions}
    return tuple(sorted(name for name in named if name.startswith(f"{api}." if api else "")))


def role_for(*permissions: str) -> str | None:
    """The role to ask for: one that holds them all, else one for the first; None where no call of ours takes that."""
    asked = [call.role for call in calls() if permissions[0] in call.permissions]
    return next((role for role in asked if roles()[role].issuperset(permissions)), next(iter(asked), None))


def holders(permission: str) -> frozenset[str]:
    """The predefined roles that hold the permission."""
    return frozenset(role for role, held in roles().items() if permission in held)


def _call(row: dict[str, str]) -> Call:
    when, permissions = tuple(row["when"].split()), tuple(row["permissions"].split())
    return Call(row["method"], row["client"], row["by"], when, permissions, row["on"], row["role"], row["page"])


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (_DATA / name).open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def home_project(email: str, project: str) -> str:
    """Id of the project that the account is of: its address says it, or it is one of Google's own in `project`."""
    domain = email.partition("@")[2]
    return domain.removesuffix(_OWN) if domain.endswith(_OWN) else project


def act_as(email: str, member: str, project: str) -> str:
    """The command that lets `member` act as the account, which is named by its address or by its number."""
    return f"{command_to_act_as(email, project)} --member {member} --role {role_for(ACT_AS)}"


def command_to_act_as(email: str, project: str) -> str:
    """The command that grants a role on the account, without member and role."""
    return f"gcloud iam service-accounts add-iam-policy-binding {email} --project {home_project(email, project)}"
