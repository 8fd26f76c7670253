"""Recompute every figure of this release from its tables, without the tool that made it: python verify.py [FOLDER]

Needs Python and numpy. Exit code 0: every figure holds; 1: one differs, or a file is missing or changed, and which one is printed.
It shows that figures, tables and files belong together, not who made them; other sentences of the card are not checked.
"""

import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np


def nominal_alpha(votes: Iterable[list[str]]) -> "float | None":
    """Krippendorff's alpha of values by unit, by its table of coincidences; units with one vote do not count."""
    units = [values for values in votes if len(values) > 1]
    labels = {label: place for place, label in enumerate(sorted({value for values in units for value in values}))}
    together = np.zeros((len(labels), len(labels)))
    for values in units:
        counts = np.bincount([labels[value] for value in values], minlength=len(labels))
        together += (np.outer(counts, counts) - np.diag(counts)) / (len(values) - 1)
    totals = together.sum(axis=1)
    expected = totals.sum() ** 2 - (totals**2).sum()
    observed = (together.sum() - np.trace(together)) * (totals.sum() - 1)
    return None if expected == 0 else float(1 - observed / expected)


def figures(folder: Path) -> "dict[str, float]":
    """The figures by name, of tables in JSON lines."""

    def rows(name: str) -> "list[dict]":  # type: ignore[type-arg]
        path = folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.is_file() else []

    sets, queries, texts = rows("sets"), rows("queries"), {row["id"]: row["text"] for row in rows("texts")}
    split_of = {row["group"]: row["split"] for row in rows("splits")}
    part_of = {row["id"]: split_of.get(row["group"]) or "unsplit" for row in sets}
    found: dict[str, float] = {"sets": len(sets), "images": len({image for row in sets for image in row["images"]})}
    found["queries"] = len(queries)
    split_of_queries = [part_of.get(row["image_set"], "without a set") for row in queries]
    for name, splits in (("sets", [*part_of.values()]), ("queries", split_of_queries)):
        found.update({f"{name}, {split}": count for split, count in Counter(splits).items()})
    if lengths := [len(texts.get(name, "").split()) for row in queries for name in row["texts"]]:
        found["words per text"] = float(np.mean(lengths))
    asked = {row["id"] for row in queries if row.get("labels") is None}
    gold: dict[str, set[str]] = defaultdict(set)
    picks: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows("judgments"):
        if row["query"] in asked and row["value"] > 0 and row["round"] == 0:
            if row["worker"] == "gold":
                gold[row["query"]].add(row["candidate"])
            elif row["worker"].startswith("w-"):
                picks[row["query"]][row["worker"]] = row["candidate"]
    picks = {query: votes for query, votes in picks.items() if query in gold}
    if right := [image in gold[query] for query, votes in picks.items() for image in votes.values()]:
        found["people"] = len({worker for votes in picks.values() for worker in votes})
        found["votes, kept descriptions"] = len(right)
        found["right votes, kept descriptions"] = float(np.mean(right))
        if dropped := rows("dropped"):
            found["dropped descriptions"] = len(dropped)
            hits, votes = sum(row["right"] for row in dropped), sum(row["right"] + row["wrong"] for row in dropped)
            found["right votes, all descriptions"] = (sum(right) + hits) / (len(right) + votes)
        if (alpha := nominal_alpha([list(votes.values()) for votes in picks.values()])) is not None:
            found["alpha, kept descriptions"] = alpha
    return found


def differences_of(here: Path) -> Iterator[str]:
    """What differs between tables, figures.json, the card and the hashes of the manifest."""
    files = json.loads((here / "manifest.json").read_bytes())["files"]
    for name, entry in files.items():
        found = hashlib.sha256((here / name).read_bytes()).hexdigest() if (here / name).is_file() else ""
        if not found or (found != entry["sha256"] and name != "README.md"):
            yield f"{name}: {'changed since it was written' if found else 'missing'}"
    known = json.loads((here / "figures.json").read_bytes())
    counted, card = figures(here / known["tables"]), (here / "README.md").read_text("utf-8")
    table = re.search(r"^\| figure \| value \|\n\|[^\n]*\n((?:\|[^\n]*\n)*)", card, re.MULTILINE)
    printed = re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", table[1] if table else "", re.MULTILINE)
    for name in {**known["figures"], **counted, **dict(printed)}:
        value, own, said = known["figures"].get(name), counted.get(name), [text for row, text in printed if row == name]
        shown = str(own) if isinstance(own, int) else f"{own:.4f}" if own is not None else ""
        if value is None or own is None or not np.isclose(value, own, rtol=1e-9) or said != [shown]:
            yield f"{name}: {own} by the tables, {value} in figures.json, {' and '.join(said) or None} in README.md"
    tables = {file.relative_to(here).as_posix() for file in (here / known["tables"]).glob("*.jsonl")}
    yield from (f"{name}: not of this release" for name in sorted(tables.difference(files)))


if __name__ == "__main__":
    problems: list[str] = []
    try:
        problems += differences_of(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problems.append(f"a file is missing or damaged: {error!r}")
    sys.stdout.write("\n".join(problems or ["every figure holds"]) + "\n")
    sys.exit(bool(problems))
