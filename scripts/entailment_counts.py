"""Count the pairs of published entailment files, and what is odd in them: `python -m scripts.entailment_counts FILE…`.

A FILE that is a folder stands for the files in it. With `--captions FILE` pictures get their captions as premise.
"""

import sys
from argparse import ArgumentParser
from collections import Counter
from pathlib import Path

from ctxr.datasets.readers.entailment import Captions, PairFile, read_captions, read_pairs, tally
from ctxr.errors import CtxrError


def describe(name: str, reading: PairFile) -> list[str]:
    """Lines about a file: rows, labels, relations, issues."""
    labels = Counter(pair.label for pair in reading.pairs)
    relations = Counter(pair.relation for pair in reading.pairs)
    kinds = Counter(pair.kind for pair in reading.pairs)
    head = (
        f"{name}: {reading.source}, {reading.rows} rows, {len(reading.pairs)} pairs, {len(reading.left_out)} left out"
    )
    spread = ", ".join(f"{relation} {count}" for relation, count in sorted(relations.items()))
    premises = ", ".join(f"{kind} {count}" for kind, count in sorted(kinds.items()))
    groups = len({pair.group for pair in reading.pairs})
    return [
        head,
        f"  entailed {labels[1]}, not {labels[0]} ({spread}); premises: {premises}; {groups} groups",
        *(f"  {line}" for line in tally(reading.issues)),
    ]


def main(arguments: list[str]) -> int:
    """Print the counts of each file; 3 where one cannot be read."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--captions", nargs="*", default=[], type=Path)
    options = parser.parse_args(arguments)
    files = [file for given in options.files for file in (sorted(given.iterdir()) if given.is_dir() else [given])]
    try:
        captions = read_captions(options.captions) if options.captions else Captions()
        for file in files:
            print("\n".join(describe(file.name, read_pairs(file, captions=captions))))
    except CtxrError as error:
        print(f"{error.message}; {error.hint}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
