"""What is wrong with a record of a file, before it is known which line that is."""


class Mistake(Exception):
    """A record cannot be read.

    Args:
        record: Its position among those that were read together.
        says: What follows after the file and the line, such as ` has 2 fields where the header has 3.`
    """

    def __init__(self, record: int, says: str, file: int = -1):
        super().__init__(record, says, file)
        self.record, self.says, self.file = record, says, file

    def after(self, records: int, file: int) -> "Mistake":
        """The mistake as one of this file, behind so many records more."""
        return Mistake(self.record + records, self.says, file)
