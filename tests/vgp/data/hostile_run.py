"""Prepares every file of `hostile.CASES`: `python hostile_run.py FOLDER`; a line of JSON for each on stdout.

A process of its own with little memory, and a clock for each file: a crash, a hang and a full memory are failures
that a test could not recognize in its own process.
"""

import json
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

from hostile import CASES

MEMORY_BYTES = 3 << 30
#: Of the clock, for a file that waits: a minute passes on a busy machine while little of it runs.
SECONDS = 60

TASK = """
import pyarrow as pa
from vgp.data.schema import Field
from vgp.data.tabular import TabularTask

class Mine(TabularTask):
    schema = (
        Field("n", pa.int64()),
        Field("size", pa.float64(), nullable=True),
        Field("word", pa.string()),
        Field("yes", pa.bool_(), known="after"),
    )
    target = "yes"
"""


def tightened() -> None:
    """Limits that small files can break."""
    from vgp.base.storage import inflate
    from vgp.data import columns
    from vgp.data.sources import file_bytes, text_blocks

    file_bytes.BLOCK_BYTES, text_blocks.MAX_RECORD_BYTES = 1 << 20, 2 << 20
    inflate.MAX_BYTES, inflate.MAX_RATIO = 4 << 20, 20
    columns.MAX_VALUES, columns.MAX_VALUE_BYTES = 5_000, 2 << 20


def outcome(path: Path, destination: Path) -> str:
    """Returns the message for a file; "" if it is good, a traceback if it broke the reader."""
    from vgp.base.exits import UserError
    from vgp.data.prepare import prepare

    signal.alarm(SECONDS)
    try:
        prepare("mine:Mine", str(path), destination, workers=1)
    except UserError as error:
        return str(error)
    except BaseException:
        return traceback.format_exc()
    finally:
        signal.alarm(0)
    return ""


def late(*_: object) -> None:
    raise TimeoutError("it took too long")


def main(root: Path) -> None:
    (root / "mine.py").write_text(TASK)
    sys.path.insert(0, str(root))
    import vgp.data.prepare  # before the clock starts  # noqa: F401
    from tests.helpers.sql_once import install

    install()

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    signal.signal(signal.SIGALRM, late)
    tightened()
    for number, (name, case) in enumerate(CASES.items()):
        place = root / str(number)
        place.mkdir()
        path = place / case.name
        case.content(path) if callable(case.content) else path.write_bytes(case.content)
        began = time.process_time()
        message = outcome(path, place / "data")
        print(json.dumps([name, message, time.process_time() - began, (place / "data").exists()]), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
