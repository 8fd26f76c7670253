"""The section on revised labels."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import (
    FOLDER,
    LEDGER,
    CandidateRow,
    Round,
    checked,
    folder_of,
    read_figures,
    read_rounds,
    written_for,
)
from ctxr.engine.report import share_with_interval
from ctxr.errors import DataError
from ctxr.media.images import thumbnail
from ctxr.pipelines.inspection.pages.chain import inside
from ctxr.pipelines.inspection.pages.edition import SIDE, Edition, Section
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.kinds import REVISE_LABELS
from ctxr.store.tables import read_table

WANTED = 0.8
"""Precision from which on a round is called good, where it was not made for another one: that of the recipe for classifiers."""

DONE = (
    ("added", "added", "kept"),
    ("capped", "entailed, beyond a cap: not added", "capped"),
    ("rejected", "not entailed", "dropped"),
)
"""What can become of a candidate: its name in a stratum, in words, and its colour."""

CHOSEN_BY = {"given": "by --threshold", "dev": "chosen on dev by --precision", "classifier": "the classifier's own"}
"""Who chose the threshold, in words."""

MOST_EXAMPLES = 12
"""Pictures that are shown: those to which most was added, and those with the least sure additions."""

MOST_LINES = 6
"""Captions of one kind below a picture."""


@dataclass(frozen=True)
class StratumRow:
    """Candidates of one band of probabilities and ranks; `percent` of the largest, `people`: share entailed of those audited.

    Attributes:
        wrong: whether it was added and people call less than half of it entailed.
    """

    name: str
    pairs: int
    percent: float
    probability: float
    people: str
    wrong: bool


@dataclass(frozen=True)
class Group:
    """Strata with one fate, the surest first."""

    done: str
    title: str
    kind: str
    rows: list[StratumRow]


@dataclass(frozen=True)
class Example:
    """A picture with its own captions, what was added, and what came closest to it.

    Attributes:
        picture: as a data address; "" where it cannot be shown. added, near: (text, probability), surest first. more: further
            additions. leaked: whether the classifier was trained on it.
    """

    image: str
    picture: str
    own: list[str]
    added: list[tuple[str, float]]
    near: list[tuple[str, float]]
    more: int
    leaked: bool


def make_revision(edition: Edition) -> Mapping[str, Any] | None:
    """The latest active round, with the others; None without a revision."""
    folder = find_revised(edition.chain.root)
    if folder is None:
        return None
    rounds = read_rounds(folder)
    shown = next((one for one in reversed(rounds) if one.active), rounds[-1])
    links = read_table(folder / folder_of(shown.number) / LEDGER, CandidateRow)
    figures = read_figures(folder / folder_of(shown.number))
    audited = checked(folder.parent / "revision-audit" / f"{shown.number:03d}")
    heads, entail = _entail((audited or figures)["entail_at"])
    examples = _examples(read_dataset(folder), shown, links)
    return {
        "rounds": rounds,
        "shown": shown,
        "chosen_by": CHOSEN_BY[shown.threshold_from],
        "groups": strata_of(figures["bands"], shown, audited),
        "audited": None if audited is None else _audited(audited, shown),
        "entail_heads": heads,
        "entail": entail,
        "examples": examples,
        "columns": columns_of(len(examples)),
        "edited": open_artifact(folder).changed_files()[:1],
    }


def find_revised(root: Path) -> Path | None:
    """The revised labels of the project that the artifact `root` lies in, or `root` itself; None where there are none."""
    for folder in (root, root.resolve().parent / FOLDER):
        there = (folder / MANIFEST).is_file() and open_artifact(folder).manifest.verb == REVISE_LABELS
        if there and read_rounds(folder):
            return folder
    return None


def strata_of(rows: Iterable[Mapping[str, Any]], shown: Round, audited: Mapping[str, Any] | None) -> list[Group]:
    """The outcome of the candidates, by decreasing probability, with the share of the largest and the verdict of the audit.

    A band of probabilities that the threshold lies in is told up to it, or from it on."""
    held = list(rows)
    most = max((row["pairs"] for row in held), default=1)
    looked = {row["stratum"]: row for row in (audited or {}).get("strata", ())}
    groups: dict[str, list[tuple[float, StratumRow]]] = {}
    for row in held:
        done, band, rank = row["stratum"].split(", ")
        low, high = (float(one) for one in band.removeprefix("p ").split(" to "))
        low, high = (low, min(high, shown.threshold)) if done == "rejected" else (max(low, shown.threshold), high)
        seen = looked.get(row["stratum"])
        wrong = done == "added" and seen is not None and 2 * seen["entailed"] < seen["looked"]
        told_of = "–" if seen is None else f"{seen['entailed']} of {seen['looked']}"
        percent = round(100 * row["pairs"] / most, 1)
        one = StratumRow(f"{low:.3g} to {high:.3g}, {rank}", row["pairs"], percent, row["probability"], told_of, wrong)
        groups.setdefault(done, []).append((low, one))
    return [
        Group(
            done,
            title,
            kind,
            [one for _, one in sorted(groups[done], key=lambda pair: (-pair[0], "above" in pair[1].name))],
        )
        for done, title, kind in DONE
        if done in groups
    ]


def _audited(found: Mapping[str, Any], shown: Round) -> dict[str, Any]:
    kappas = {**found["between"], "Cohen's kappa of people and classifier": found["with_people"]}
    precision = found["revision"]["precision"]
    return {
        "precision": share_with_interval(precision),
        "verdict": verdict(precision["value"], shown.wanted or WANTED),
        "wanted": f"{100 * (shown.wanted or WANTED):.0f}",
        "recall": share_with_interval(found["revision"]["recall"]),
        "looked": found["revision"]["looked"],
        "kappas": [
            (name, "–" if one["value"] is None else f"{one['value']:.2f}".replace("-", "−"))
            for name, one in kappas.items()
        ],
    }


def verdict(precision: float | None, wanted: float) -> str:
    """The verdict on a round: `good`, `half` below the wanted precision, `bad` below one half; "" if unknown.

    >>> [verdict(one, 0.8) for one in (0.9, 0.7, 0.4, None)]
    ['good', 'half', 'bad', '']
    """
    if precision is None:
        return ""
    return "bad" if precision < 1 / 2 else "half" if precision < wanted else "good"


def columns_of(count: int) -> int:
    """Columns in which so many cards leave no single one in the last row, where that can be: 4, else 3.

    >>> [columns_of(count) for count in (1, 2, 3, 4, 5, 6, 8, 9, 12)]
    [4, 4, 3, 4, 3, 3, 4, 3, 4]
    """
    return 3 if count > 2 and (count % 4 == 1 or (count % 4 and not count % 3)) else 4


def _entail(rows: Iterable[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Heads and rows of Entail@K; columns that say nothing here are left out."""
    held = list(rows)
    names = {
        "value": "by the classifier %",
        "without_leaked": "without leaked pictures %",
        "corrected": "corrected by people %",
    }
    leaking = any(row["leaked"] != 0 for row in held)
    shown = [name for name in names if name == "value" or (leaking if name == "without_leaked" else _any(held, name))]
    heads = [*(names[name] for name in shown), *(["leaked"] if leaking else [])]
    cells = []
    for row in held:
        leaked = "nobody knows" if row["leaked"] is None else f"{100 * row['leaked']:.0f} %"
        cells.append(
            [f"E@{row['k']}", *(share_with_interval(row[name]) for name in shown), *([leaked] if leaking else [])]
        )
    return heads, cells


def _any(rows: Iterable[Mapping[str, Any]], name: str) -> bool:
    return any(row[name]["value"] is not None for row in rows)


def _examples(dataset: Dataset, shown: Round, links: Iterable[CandidateRow]) -> list[Example]:
    by_image: dict[str, list[CandidateRow]] = {}
    for link in links:
        by_image.setdefault(link.image, []).append(link)
    added = {
        image: sorted((one for one in held if one.decision == "added"), key=lambda one: (-one.probability, one.caption))
        for image, held in by_image.items()
    }
    rich = sorted((name for name in added if added[name]), key=lambda name: (-len(added[name]), name))
    unsure = sorted(rich, key=lambda name: (added[name][-1].probability, name))
    half = MOST_EXAMPLES // 2
    names = list(dict.fromkeys([*rich[:half], *unsure]))[:MOST_EXAMPLES]
    own = written_for(dataset)

    def lines(held: Iterable[CandidateRow]) -> list[tuple[str, float]]:
        texts = [(_text(dataset, one.caption), one.probability) for one in held]
        return list(dict(reversed(texts)).items())[::-1][:MOST_LINES]

    examples = []
    for name in names:
        near = sorted(
            (one for one in by_image[name] if one.reason == "below_threshold"), key=lambda one: -one.probability
        )
        examples.append(
            Example(
                name,
                _picture(dataset, name),
                own.get(name, [])[:MOST_LINES],
                lines(added[name]),
                lines(near)[:2],
                max(0, len(added[name]) - MOST_LINES),
                any(one.leaked for one in by_image[name]),
            )
        )
    return examples


def _text(dataset: Dataset, query: str) -> str:
    return " ".join(dataset.texts[name].text for name in dataset.queries[query].texts)


def _picture(dataset: Dataset, image: str) -> str:
    file = None if dataset.root is None else inside(dataset.root, dataset.images[image].path)
    try:
        content = b"" if file is None else thumbnail(file, SIDE)
    except DataError:
        return ""
    return f"data:image/jpeg;base64,{base64.b64encode(content).decode()}" if content else ""


REVISION_SECTION = Section("revision", "Revised labels", make_revision)
