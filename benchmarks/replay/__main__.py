"""What would a year of retraining have gained? The flights of 2013, month by month, under three policies.

    python -m benchmarks.replay                # the tables, docs/replay.svg, and the tables in docs/internals/replay.md
    python -m benchmarks.replay --work FOLDER  # resumes the replay that was stopped with this folder

At the end of each month, from May on, every policy decides with the steps of the workflow, in this process (training
has one of its own): resolve as of that day, and if it decides to train, also prepare, train, evaluate, decide and
register. Each policy has a registry of its own. A model learns from three months and is tested on the fourth. Every
month is scored with the champion at its beginning, on rows that no model has seen. Steps depend on their pins only, so
steps that policies share are computed once, as a cache would; all policies share the first champion.

The registry's clock is that of the replayed month. No figure depends on the wall clock, so one machine gives equal
figures again. Dollars are `GPU_HOURS` of the default machine for each training: an assumption, not a measurement.
"""

import argparse
import tempfile
from pathlib import Path

from benchmarks.replay import pages, year
from benchmarks.replay.work import Work, clock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="keeps prepared data and models there, and goes on with them")
    parser.add_argument("--no-docs", action="store_true", help="print only")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="replay-") as scratch:
        work = Work((given.work or Path(scratch)).absolute())
        with clock(work):
            years = year.replay(work, lambda line: print(line, flush=True))
    print(pages.tables(years))
    if not given.no_docs:
        pages.write(years)


if __name__ == "__main__":
    main()
