"""A record as bytes: read within limits, and refused in words where it is not what it should be."""

from vgp.base import strict
from vgp.base.exits import UserError
from vgp.registry.documents import FORMAT, Record

#: Of a record: some ten thousand versions. Parsed, it takes about twenty times as much memory.
MOST_BYTES = 32 << 20


def decode(path: str, model: str, data: bytes) -> Record:
    """The record that the bytes at `path` are; raises UserError if they are none, or the record of another model."""
    if len(data) > MOST_BYTES:
        raise too_large(path)
    try:
        record = strict.parse(Record, data)
    except ValueError as error:
        if (written := _format(data)) > FORMAT:
            raise UserError(
                f"{path} has the format {written}, and this version knows {FORMAT}: a newer one wrote it. Take the "
                "code of that version: vgp update."
            ) from None
        raise UserError(
            f"{path} is damaged, and is not read as a registry: {error}. Nothing was changed. Restore the file from "
            "a backup, or an earlier generation of the object: gcloud storage ls -a."
        ) from None
    if record.model != model:
        raise UserError(
            f"{path} is the registry of the model {record.model}, and lies in the folder of {model}: move it back."
        )
    return record


def encode(path: str, record: Record) -> bytes:
    """The record's bytes; raises UserError if they are too many. Equal records have equal bytes."""
    data = record.model_dump_json(indent=1).encode() + b"\n"
    if len(data) > MOST_BYTES:
        raise too_large(path)
    Record.model_validate_json(data)  # what is not read again is not written
    return data


def too_large(path: str) -> UserError:
    return UserError(f"{path} has more than {MOST_BYTES >> 20} MiB, the most that a registry's record may have.")


def _format(data: bytes) -> int:
    """The number of the format that the bytes claim to have; 0 if they claim none."""
    try:
        written = strict.loads(data)["format"]
    except (ValueError, LookupError, TypeError):
        return 0
    return written if isinstance(written, int) else 0
