"""`python -m bench [name …]`: run the measurements and print one table; without names, all of them."""

import argparse
import platform
from importlib import import_module

from rich.console import Console
from rich.table import Table

from bench.table import Row

BENCHES = (
    "startup", "decode", "embedding", "end_to_end", "sampling", "quality", "replay", "neighbours", "shortcuts", "agreement",
    "crowd_journal", "crowd_load", "training", "evaluation", "retrieval", "mining", "copies", "links",
)  # fmt: skip
"""Modules of this package with a `measure()`, in the order in which they run."""


def show(name: str, rows: list[Row]) -> None:
    """The figures as a table; a ratio below 1 is faster than what it is compared with."""
    table = Table(title=f"bench {name}")
    for column in ("figure", "seconds", "against", "seconds ", "ratio", "target", "met", "note"):
        table.add_column(column, justify="right" if column.strip() in {"seconds", "ratio"} else "left")
    for row in rows:
        table.add_row(
            row.figure,
            f"{row.seconds:.4g}",
            row.against,
            "" if row.against_seconds is None else f"{row.against_seconds:.4g}",
            "" if row.ratio is None else f"{row.ratio:.3g}",
            row.target,
            "" if row.met is None else ("yes" if row.met else "NO"),
            row.note,
        )
    Console(width=200).print(table)


def main() -> None:
    """Run the benches that were named."""
    parser = argparse.ArgumentParser(prog="python -m bench")
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(BENCHES)}")
    names = parser.parse_args().names or list(BENCHES)
    unknown = set(names) - set(BENCHES)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    print(f"{platform.machine()}, Python {platform.python_version()}")
    for name in names:
        print(f"measuring {name} …", flush=True)
        show(name, import_module(f"bench.{name}").measure())


if __name__ == "__main__":
    main()
