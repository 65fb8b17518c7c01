"""Where a value stands in a document: the keys and indexes that lead to it."""

FieldPath = tuple[str | int, ...]


def dotted(path: FieldPath) -> str:
    """root.dag.tasks.train, workerPoolSpecs[0].machineSpec."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text
