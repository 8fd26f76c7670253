"""Recompute every figure of this release from its tables, without the tool that made it: python verify.py [FOLDER]

Needs Python and numpy. Exit code 0: every figure holds; 1: one differs, or a file was changed, and which one is printed.
"""

import hashlib
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

Figures = dict[str, "int | float"]


def nominal_alpha(votes: Iterable[list[str]]) -> "float | None":
    """Krippendorff's alpha of values by unit, by its table of coincidences; units with one vote do not count."""
    units = [values for values in votes if len(values) > 1]
    labels = {label: place for place, label in enumerate(sorted({value for values in units for value in values}))}
    together = np.zeros((len(labels), len(labels)))
    for values in units:
        counts = np.bincount([labels[value] for value in values], minlength=len(labels)).astype(float)
        together += (np.outer(counts, counts) - np.diag(counts)) / (len(values) - 1)
    totals = together.sum(axis=1)
    expected = totals.sum() ** 2 - (totals**2).sum()
    observed = (together.sum() - np.trace(together)) * (totals.sum() - 1)
    return None if expected == 0 else float(1 - observed / expected)


def figures(folder: Path) -> Figures:
    """The figures by name, of tables in JSON lines."""

    def rows(name: str) -> "list[dict]":  # type: ignore[type-arg]
        path = folder / f"{name}.jsonl"
        return [json.loads(line) for line in path.read_bytes().splitlines()] if path.is_file() else []

    sets, queries, texts = rows("sets"), rows("queries"), {row["id"]: row["text"] for row in rows("texts")}
    split_of = {row["group"]: row["split"] for row in rows("splits")}
    part_of = {row["id"]: split_of.get(row["group"]) or "unsplit" for row in sets}
    found: Figures = {"sets": len(sets), "images": len({image for row in sets for image in row["images"]})}
    found.update({f"sets, {split}": count for split, count in Counter(part_of.values()).items()})
    found["queries"] = len(queries)
    by_split = Counter(part_of.get(row["image_set"], "without a set") for row in queries)
    found.update({f"queries, {split}": count for split, count in by_split.items()})
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
    right = [image in gold[query] for query, votes in picks.items() if query in gold for image in votes.values()]
    if right:
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


def differences_of(here: Path) -> Iterable[str]:
    """What differs between tables, figures.json, the card and the hashes of the manifest."""
    known = json.loads((here / "figures.json").read_bytes())
    counted: Mapping[str, int | float] = figures(here / known["tables"])
    card = dict(re.findall(r"^\| ([^|]+?) \| ([^|]+?) \|$", (here / "README.md").read_text("utf-8"), re.MULTILINE))
    for name in {**known["figures"], **counted}:
        value, own = known["figures"].get(name), counted.get(name)
        shown = str(own) if isinstance(own, int) else f"{own:.4f}" if own is not None else ""
        if value is None or own is None or not np.isclose(value, own, rtol=1e-9) or card.get(name) != shown:
            yield f"{name}: {own} by the tables, {value} in figures.json, {card.get(name)} in README.md"
    for name, entry in json.loads((here / "manifest.json").read_bytes())["files"].items():
        file = here / name
        if name != "README.md" and not (
            file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == entry["sha256"]
        ):
            yield f"{name}: missing, or changed since it was written"


if __name__ == "__main__":
    problems = list(differences_of(Path(sys.argv[1]) if sys.argv[1:] else Path(__file__).parent))
    sys.stdout.write("\n".join(problems or ["every figure holds"]) + "\n")
    sys.exit(bool(problems))
