"""The wheel of this very library, made of the files that run: the same files are the same bytes.

A project carries it as one file, so that the laptop, CI and the image install the same library, whether or not a
package index has this version. Format: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

import base64
import hashlib
import io
import zipfile
from importlib import metadata
from pathlib import Path

import vgp
from vgp.workflow.project import originals

NAME = f"vgp-{vgp.__version__}-py3-none-any.whl"
_INFO = f"vgp-{vgp.__version__}.dist-info"
_WHEEL = "Wheel-Version: 1.0\nGenerator: vgp\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
#: The first moment that a zip file can tell.
_THEN = (1980, 1, 1, 0, 0, 0)


def requirement(wheel: bytes) -> str:
    """The line of a requirements file that installs these bytes, from beside it, and no others."""
    return f"./{NAME} --hash=sha256:{hashlib.sha256(wheel).hexdigest()}\n"


def content() -> bytes:
    """The bytes of the wheel.

    Raises:
        PackageNotFoundError: this library is not installed, not even in editable form.
    """
    files = {**_package(), **_about()}
    files[f"{_INFO}/RECORD"] = _record(files)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _THEN)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])
    return packed.getvalue()


def _package() -> dict[str, bytes]:
    """The library's files, and the originals of a project where the library does not bring them already."""
    folder = Path(vgp.__file__).parent
    paths = [path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    own = {f"vgp/{path.relative_to(folder).as_posix()}": path.read_bytes() for path in paths}
    return {**{f"vgp/originals/{name}": text for name, text in originals.files().items()}, **own}


def _about() -> dict[str, bytes]:
    """What describes the distribution, as it is installed here."""
    installed = metadata.distribution("vgp")
    kept = {name: installed.read_text(name) for name in ("METADATA", "entry_points.txt")}
    return {
        f"{_INFO}/WHEEL": _WHEEL.encode(),
        **{f"{_INFO}/{name}": text.encode() for name, text in kept.items() if text},
    }


def _record(files: dict[str, bytes]) -> bytes:
    lines = [f"{name},sha256={_digest(files[name])},{len(files[name])}" for name in sorted(files)]
    return "\n".join([*lines, f"{_INFO}/RECORD,,", ""]).encode()


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")
