"""How files of text are to be read, where the files do not show it themselves."""

from dataclasses import dataclass, fields

from vgp.base.exits import UserError
from vgp.base.text.printable import quoted

#: For files in which a quote is a letter like others.
NO_QUOTE = "none"
DECIMALS = (".", ",")


@dataclass(frozen=True)
class Reading:
    """What a task's options say about its files; "" = found in each file.

    Raises:
        UserError: the separator, the quote or the decimal mark cannot be one, two of them are the same, or there is no
            such encoding.
    """

    #: Between two fields of a CSV file: such as `;` or a tab.
    separator: str = ""
    #: Around a field that holds separators; "none" where nothing is quoted.
    quote: str = ""
    #: Of text, as Python's codecs call it: such as `windows-1252`.
    encoding: str = ""
    #: In numbers: `.` or `,`.
    decimal: str = ""
    #: Texts that stand for a missing number, date or boolean, beside an empty field and what Arrow knows (NA, null).
    missing: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "missing" and not isinstance(value, str):
                raise UserError(f"the option {field.name} must be text; it is {value!r}.")
        self._check_mark("separator", self.separator)
        if self.quote != NO_QUOTE:
            self._check_mark("quote", self.quote)
        if self.decimal not in ("", *DECIMALS):
            raise UserError(f"the option decimal must be '.' or ','; it is {quoted(self.decimal)}.")
        if self.separator and self.separator in (self.quote, self.decimal):
            same = "quote" if self.separator == self.quote else "decimal"
            raise UserError(f"the options separator and {same} are both {self.separator!r}: no value could be told.")
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, ValueError):
            raise UserError(
                f"the option encoding is {quoted(self.encoding)}, which is none; such as windows-1252 or utf-16."
            ) from None

    def _check_mark(self, name: str, value: str) -> None:
        if value and (len(value) > 1 or not value.isascii() or value.isalnum() or value in "\r\n\0"):
            raise UserError(
                f"the option {name} must be one character, such as {';' if name == 'separator' else chr(39)!r}, no "
                f"letter, digit or line end; it is {quoted(value)}."
            )


# ---- what is wrong with a record of a file, before it is known which line that is


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
