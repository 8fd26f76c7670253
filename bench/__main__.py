"""`python -m bench [name …]`: run the measurements, print one table, write docs/performance.md; without names, nearly all of them."""

import argparse
import sys
from pathlib import Path

from rich.console import Console

from bench.footage import OUT
from bench.page import PLOT, page, tabulated
from bench.results import Part, machine, measured, read, save
from bench.table import Row

BENCHES = (
    "startup", "decode", "embedding", "end_to_end", "engines", "sampling", "quality", "replay", "neighbours", "search", "shortcuts",
    "agreement", "studies", "crowd_journal", "crowd_load", "training", "evaluation", "retrieval", "mining", "copies", "links", "report",
    "memory", "growth",
)  # fmt: skip
"""Modules of this package with a `measure()`, in the order in which they run."""

ASKED = ("two_hours", "index")
"""Those that run only when they are named, because they take long."""

STORE = OUT / "results.json"
PAGE = Path(__file__).parent.parent / "docs" / "performance.md"


def show(name: str, rows: list[Row]) -> None:
    """The figures of one module as a table."""
    Console(width=200).print(tabulated([Part(name, "", 0.0, 0.0, tuple(rows))]))


def main() -> int:
    """Run the benches that were named; 1 if one of them failed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    every = (*BENCHES, *ASKED)
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(every)}")
    names = parser.parse_args().names or list(BENCHES)
    unknown = set(names) - set(every)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(every)}")
    facts, parts = read(STORE, machine())
    for name in names:
        print(f"measuring {name} …", end=" ", flush=True)
        parts[name] = part = measured(name)
        missed = sum(row.met is not None and not row.met for row in part.rows)
        print(part.error or f"{len(part.rows)} figures, {missed} targets missed", f"({part.seconds:.0f} s)", flush=True)
        # after each, so that a run that is stopped loses nothing
        parts = {known: parts[known] for known in every if known in parts}
        save(STORE, facts, parts.values())
        write(facts, list(parts.values()))
    Console(width=200).print(tabulated(parts[name] for name in names))
    return int(any(parts[name].error for name in names))


def write(facts: dict[str, str], parts: list[Part]) -> None:
    """The document and its plot."""
    text, plot = page(facts, parts)
    PAGE.write_text(text, encoding="utf-8")
    if plot:
        PAGE.with_name(PLOT).write_text(plot, encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
