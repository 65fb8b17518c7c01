"""Rows where a column has one value, as figures and the decision name them."""

from vgp.protocol.manifest import Frozen


class Slice(Frozen):
    """The rows where one column has one value."""

    column: str
    value: str
    rows: int

    @property
    def name(self) -> str:
        """As people read it: `plan = basic`, since neither a column's name nor a value need be one word."""
        return f"{self.column} = {self.value}"
