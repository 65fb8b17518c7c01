"""In how many years is a model promoted that is no better, and how long does a gain of a known size wait?

    python -m benchmarks.gate [--nights 200000] [--years 400]

Prints the Markdown tables of docs/internals/benchmarks.md. The numbers depend on the seed only.
"""

import argparse
import time

from benchmarks.gate import nights, process, schedules, windows, years


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--nights", type=int, default=200_000, help="nights without a gain, for each distribution")
    options.add_argument("--years", type=int, default=400, help="years of overlapping windows")
    given = options.parse_args()
    began = time.monotonic()
    nights.tails(given.nights)
    nights.rare_days(given.nights)
    nights.bootstraps(min(given.nights, 20_000))
    nights.two_ways(given.nights)
    years.sliding(given.years)
    years.spells(given.years)
    process.halves(given.years)
    schedules.schedules(given.years // 4)
    windows.smallest_gains()
    print(f"\n{given.nights:,} nights, {given.years} years; {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
