"""An HTTPS proxy that answers Google's own host names, for clients without an endpoint setting.

For example, google-auth calls https://iamcredentials.googleapis.com in its own thread, whatever endpoints are set.
HTTPS_PROXY and a trusted certificate keep every request on this machine. Attempts to reach other hosts are recorded.
"""

import ipaddress
import re
import ssl
import time
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from socket import socket
from tempfile import NamedTemporaryFile


class Tunnel:
    def __init__(self, region: str, project_number: str, apis: list[str], folder: str):
        self.apis, self.folder = apis, Path(folder)
        #: Suffix of an endpoint's own host name, after its id.
        self.dedicated = f"{region}-{project_number}.prediction.vertexai.goog"
        #: Other hosts that a client tried to reach.
        self.strays: list[str] = []
        #: Connections that wait for an answer.
        self.busy: set[object] = set()

    def api_of(self, host: str) -> str | None:
        """Returns the API of a Google host name, or None."""
        if host.partition(".")[2] == self.dedicated:
            return "aiplatform"
        found = re.fullmatch(r"(?:[a-z]+-[a-z]+\d+-)?([a-z0-9]+)\.(googleapis\.com|pkg\.dev)", host)
        api = {"kfp": "kfp_registry"}.get(found[1], found[1]) if found else None
        if api in self.apis:
            return api
        self.strays.append(host)
        return None

    def environment(self, url: str) -> dict[str, str]:
        bundle = self.folder / "certificate.pem"
        bundle.write_bytes(certificate(self.dedicated)[0])
        trusted = {name: str(bundle) for name in ("REQUESTS_CA_BUNDLE", "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE")}
        return {**trusted, "HTTPS_PROXY": url, "https_proxy": url, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"}

    def rest(self, patience_s: float = 1.0) -> None:
        """Waits for the answers to google-auth's background requests, whose interruption would break connections."""
        deadline = time.monotonic() + patience_s
        while self.busy and time.monotonic() < deadline:
            time.sleep(0.002)

    def wrap_in_tls(self, connection: socket) -> ssl.SSLSocket:
        """Wraps a connection in TLS, as the server."""
        return context(self.dedicated).wrap_socket(connection, server_side=True)


@cache
def context(*domains: str) -> ssl.SSLContext:
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with NamedTemporaryFile(suffix=".pem") as both:
        both.write(b"".join(certificate(*domains)))
        both.flush()
        made.load_cert_chain(both.name)
    return made


@cache
def certificate(*domains: str) -> tuple[bytes, bytes]:
    """Returns a self-signed certificate for Google's host names and `domains`, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    # A client finds the trusted certificate by its name.
    common = f"the loopback cloud {' '.join(domains)}".strip()[:64]
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])
    names = [x509.DNSName(f"*.{domain}") for domain in ("googleapis.com", "pkg.dev", *domains)]
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=7))
        .add_extension(x509.SubjectAlternativeName([*names, address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return made.public_bytes(serialization.Encoding.PEM), secret
