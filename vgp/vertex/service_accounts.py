"""Service accounts: where one is at home, and the command that lets somebody act as it."""

from vgp.vertex.permissions import role_for

ACT_AS = "iam.serviceAccounts.actAs"
#: How the address of Compute Engine's default account ends; its project's number stands before.
COMPUTE = "-compute@developer.gserviceaccount.com"
_OWN = ".iam.gserviceaccount.com"


def home(email: str, project: str) -> str:
    """Id of the project that the account is of: its address says it, or it is one of Google's own in `project`."""
    domain = email.partition("@")[2]
    return domain.removesuffix(_OWN) if domain.endswith(_OWN) else project


def act_as(email: str, member: str, project: str) -> str:
    """The command that lets `member` act as the account, which is named by its address or by its number."""
    return f"{grant(email, project)} --member {member} --role {role_for(ACT_AS)}"


def grant(email: str, project: str) -> str:
    """The command that grants a role on the account, without member and role."""
    return f"gcloud iam service-accounts add-iam-policy-binding {email} --project {home(email, project)}"
