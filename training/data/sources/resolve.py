"""The files that `data` stands for."""

from training.storage.finding import File


def resolve(data: str) -> list[File]:
    """The files that `data` stands for, each once, in the order given.

    Args:
        data: Files, folders and globs, local or gs://, and documents of pins, separated by commas; kinds may be mixed.

    Raises:
        UserError: a part matches nothing, is of a place that is not read from, or a file is of no kind that is read.
    """
    raise NotImplementedError
