"""A service account for the tests: a new key, and the endpoint that issues its tokens."""

import json
import time
from collections.abc import Callable
from datetime import datetime
from functools import cache
from typing import Any
from urllib.parse import parse_qs

from .errors import ApiError

EMAIL = "tester@test-project.iam.gserviceaccount.com"


@cache
def private_key() -> str:
    """Returns an RSA key, one for each process; half as long as Google's, because it loads in an eighth of the time."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return key.private_bytes(*encoding).decode()


@cache
def certificate() -> Any:
    """Returns the certificate that verifies signatures of `private_key`."""
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(private_key().encode(), None).public_key()
    return key.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def key_file(project: str, token_uri: str) -> str:
    """Returns the key file of the service account, in the console's form."""
    content = {
        "type": "service_account",
        "project_id": project,
        "private_key_id": "loopback",
        "private_key": private_key(),
        "client_email": EMAIL,
        "client_id": "100000000000000000001",
        "token_uri": token_uri,
        "universe_domain": "googleapis.com",
    }
    return json.dumps(content)


class Tokens:
    """The issued access tokens; a JWT that the key signed is accepted too (self-signed JWTs).

    A client's clock is the real one or that of the cloud, which may be ahead.
    """

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.now = now
        self.given: set[str] = set()
        self._verified: set[str] = set()

    def give(self, body: bytes) -> dict[str, Any]:
        """Answers the OAuth 2.0 JWT bearer grant (RFC 7523)."""
        form = {name: values[0] for name, values in parse_qs(body.decode()).items()}
        if form.get("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer":
            raise ApiError(400, f"unsupported grant_type {form.get('grant_type')!r}")
        self.verify(form["assertion"])
        token = f"ya29.loopback-{len(self.given)}"
        self.given.add(token)
        return {"access_token": token, "expires_in": 3599, "token_type": "Bearer"}

    def verify(self, token: str) -> None:
        from google.auth import jwt

        if token in self._verified:
            return
        ahead = max(0, int(self.now().timestamp() - time.time()))
        try:
            claims = jwt.decode(token, certs=certificate().decode(), clock_skew_in_seconds=ahead + 10)
        except ValueError as error:
            raise unauthenticated_error() from error
        if claims["iss"] != EMAIL or claims["exp"] < time.time():
            raise unauthenticated_error()
        self._verified.add(token)

    def check(self, authorization: str) -> None:
        """Raises:
        ApiError: 401 unless the header has a token of this server.
        """
        scheme, _, token = authorization.partition(" ")
        if scheme != "Bearer" or not token:
            raise unauthenticated_error()
        if token not in self.given:
            self.verify(token)


def unauthenticated_error() -> ApiError:
    return ApiError(
        401,
        "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid "
        "authentication credential. See https://developers.google.com/identity/sign-in/web/devconsole-project.",
        details=[
            {
                "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                "reason": "ACCESS_TOKEN_TYPE_UNSUPPORTED",
                "domain": "googleapis.com",
            }
        ],
    )
