"""What Secret Manager keeps, read as the account that the process runs as."""

import base64
import os

from vgp.base.exits import UserError

_HOST = "https://secretmanager.googleapis.com"
#: gcloud's own override of the address, which vgp/base/google_api.py honours too.
_OVERRIDE = "CLOUDSDK_API_ENDPOINT_OVERRIDES_SECRETMANAGER"


def read(name: str) -> str:
    """The text of projects/P/secrets/S, the latest version of it, or of .../versions/V.

    Raises:
        UserError: it cannot be read. The message holds its name and nothing of it.
    """
    import google.auth
    from google.auth.exceptions import GoogleAuthError
    from google.auth.transport.requests import AuthorizedSession
    from requests import RequestException

    version = name if "/versions/" in name else f"{name}/versions/latest"
    host = os.environ.get(_OVERRIDE, _HOST).rstrip("/")
    if not host.startswith(("https://", "http://127.0.0.1:", "http://localhost:")):
        raise UserError(f"{_OVERRIDE} must begin with https://.")
    try:
        credentials = google.auth.default(scopes=["https://www.googleapis.com/auth/cloud-platform"])[0]
        with AuthorizedSession(credentials) as session:
            answer = session.get(f"{host}/v1/{version}:access", timeout=30)
            answer.raise_for_status()
            return base64.b64decode(answer.json()["payload"]["data"]).decode().strip()
    except (GoogleAuthError, RequestException, LookupError, ValueError) as error:
        status = getattr(getattr(error, "response", None), "status_code", None)
        raise UserError(
            f"the secret {name} cannot be read ({type(error).__name__}{f', {status}' if status else ''}): the step's "
            "account needs secretmanager.versions.access (roles/secretmanager.secretAccessor)."
        ) from None
