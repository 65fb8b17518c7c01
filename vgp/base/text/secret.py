"""Texts that look like credentials: they are neither taken nor printed."""

import re

from vgp.base.text.printable import PASSWORD

#: What begins like a credential: Google's tokens and keys, PEM, JWT, AWS, GitHub, GitLab, Hugging Face, Slack, OpenAI.
_SECRET = re.compile(
    r"-----BEGIN|ya29\.|AIza[\w-]{20}|GOCSPX-|1//0[\w-]{20}|\"private_key\"|eyJ[\w-]{10,}\.[\w-]{10,}\.|AKIA[A-Z0-9]{12}"
    r"|gh[pousr]_\w{20}|github_pat_|glpat-|\bhf_\w{20}|xox[abprs]-|\bsk-[\w-]{20}"
)
#: Names of variables that hold a credential by what they are called.
_NAME = re.compile(r"(^|_)(PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|ACCESS_KEY|PRIVATE_KEY|CREDENTIALS?)$", re.IGNORECASE)
#: Values that name where a credential is, instead of being one.
_REFERENCE = re.compile(r"projects/[^/]+/secrets/|\$[({]?\w|\{\{|sm://|gs://|/")


def is_secret(value: object) -> bool:
    """Whether a text looks like a credential by itself."""
    return isinstance(value, str) and bool(_SECRET.search(value) or PASSWORD.search(value))


def is_secret_variable(name: str, value: object) -> bool:
    """Whether a variable of a container holds a credential: by its value, or by its name and a value of its own.

    The name of a secret, a path and a variable of the shell are no credentials.
    """
    if is_secret(value):
        return True
    return isinstance(value, str) and len(value) >= 8 and bool(_NAME.search(name)) and not _REFERENCE.match(value)
