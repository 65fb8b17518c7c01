"""A source in BigQuery as pins hold it: one SELECT over tables, each as it was at a moment."""

import hashlib
from collections.abc import Sequence

from pydantic import Field

from training.storage import pinned
from training.storage.pinned import Frozen


class PinnedTable(Frozen):
    """A table of BigQuery, as it has been since its last change, or was at a moment."""

    #: project.dataset.table
    name: str
    #: The first moment, in milliseconds since 1970, at which it was so; 0 of a snapshot, which never changes.
    as_of_ms: int = Field(ge=0)


class PinnedRelation(Frozen):
    """A table, a view or a query: views are written out in its text, so that only tables are left."""

    #: As people know it: bq://project.dataset.table, or the path of a file.
    name: str
    #: One SELECT that names whole tables, without their moments.
    sql: str
    tables: tuple[PinnedTable, ...] = ()
    #: Whether it is one table as it is, and nothing is computed.
    plain: bool = False
    #: What a table asks of every query, said so that it leaves out no row; of a plain one alone.
    restriction: str = ""
    #: Where its tables lie.
    location: str

    @property
    def sha256(self) -> str:
        """The checksum of all that decides its rows."""
        return hashlib.sha256(pinned.encode(self)).hexdigest()


def location_of(relations: Sequence[PinnedRelation]) -> str:
    """Where they all lie: `lookup.pin` has seen to it that this is one place."""
    return relations[0].location
