"""How files of text are to be read, where the files do not show it themselves."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """What a task's options say about its files; "" = found in each file.

    Raises:
        UserError: the separator, the quote or the decimal mark is not one character, two of them are the same, or
            there is no such encoding.
    """

    #: Between two fields of a CSV file: such as `;` or a tab.
    separator: str = ""
    #: Around a field that holds separators.
    quote: str = ""
    #: Of text, as Python's codecs call it: such as `windows-1252`.
    encoding: str = ""
    #: In numbers: `.` or `,`.
    decimal: str = ""
