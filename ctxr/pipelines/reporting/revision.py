"""What revising labels added: rounds, what became of the candidates, how far people agree, and pictures with their captions."""

import base64
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ctxr.data.artifacts import MANIFEST, open_artifact
from ctxr.data.dataset import Dataset
from ctxr.data.images import thumbnail
from ctxr.data.readers import read_dataset
from ctxr.data.tables import read_table
from ctxr.errors import DataError
from ctxr.pipelines.entailing_eval import KINDS, RESULT, TABLES
from ctxr.pipelines.eval import RESULTS
from ctxr.pipelines.reporting.chain import inside
from ctxr.pipelines.reporting.edition import Edition, Section
from ctxr.pipelines.reporting.pictures import SIDE
from ctxr.pipelines.revising.auditing import checked
from ctxr.pipelines.revising.figures import told
from ctxr.pipelines.revising.records import Link, Round
from ctxr.pipelines.revising.results import read_figures
from ctxr.pipelines.revising.rounds import FOLDER, LEDGER, VERB, folder_of, read_rounds
from ctxr.pipelines.revising.work import written_for

MOST_EXAMPLES = 12
"""Pictures that are shown: those to which most was added, and those with the least sure additions."""

MOST_LINES = 6
"""Captions of one kind below a picture."""


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


def make(edition: Edition) -> Mapping[str, Any] | None:
    """The latest round in force, with those around it; None where nothing was revised."""
    folder = find_revised(edition.chain.root)
    if folder is None:
        return None
    rounds = read_rounds(folder)
    shown = next((one for one in reversed(rounds) if one.active), rounds[-1])
    links = read_table(folder / folder_of(shown.number) / LEDGER, Link)
    figures = read_figures(folder / folder_of(shown.number))
    audited = checked(folder.parent / "revision-audit" / f"{shown.number:03d}")
    judge = _judge(folder.parent, shown)
    return {
        "rounds": rounds,
        "shown": shown,
        "bands": _bands(figures["bands"], audited),
        "audited": None if audited is None else _audited(audited),
        "judge": judge,
        "entail": [_entail(row) for row in (audited or figures)["entail_at"]],
        "examples": _examples(read_dataset(folder), shown, links),
        "edited": open_artifact(folder).changed_files()[:1],
    }


def find_revised(root: Path) -> Path | None:
    """The revised labels of the project that the artifact `root` lies in, or `root` itself; None where there are none."""
    for folder in (root, root.resolve().parent / FOLDER):
        there = (folder / MANIFEST).is_file() and open_artifact(folder).manifest.verb == VERB
        if there and read_rounds(folder):
            return folder
    return None


def _judge(project: Path, shown: Round) -> dict[str, Any] | None:
    """What `ctxr eval` found of the classifier that decided; None where it was not evaluated, or another one was."""
    for manifest in sorted((project / RESULTS).glob(f"*/{MANIFEST}")):
        artifact = open_artifact(manifest.parent)
        if artifact.manifest.kind != RESULT or artifact.manifest.config.get("runs") != [shown.classifier]:
            continue
        if artifact.changed_files():
            continue
        tables = msgspec.json.decode((manifest.parent / TABLES).read_bytes())
        split = artifact.manifest.config["split"]
        rows = [row for row in tables[f"{split}/quality"]["rows"] if row[2] != "majority"]
        names = list(dict.fromkeys(row[2] for row in rows))
        by_kind: dict[str, dict[str, str]] = {}
        for _, kind, name, value, low, high, pairs in rows:
            cells = by_kind.setdefault(kind, {"pairs": f"{pairs:,}"})
            cells[name] = told({"value": value, "low": low, "high": high})
        return {
            "split": split,
            "heads": names,
            "rows": [
                (KINDS.get(kind, kind), cells["pairs"], [cells[name] for name in names])
                for kind, cells in by_kind.items()
            ],
        }
    return None


def _bands(rows: Iterable[Mapping[str, Any]], audited: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Strata with the share of all candidates, and what people said of those they looked at."""
    held = list(rows)
    most = max((row["pairs"] for row in held), default=1)
    looked = {row["stratum"]: row for row in (audited or {}).get("strata", ())}
    return [
        {
            **row,
            "percent": round(100 * row["pairs"] / most, 1),
            "kind": "kept" if row["stratum"].startswith("added") else "dropped",
            "looked": looked.get(row["stratum"]),
        }
        for row in held
    ]


def _audited(found: Mapping[str, Any]) -> dict[str, Any]:
    kappas = {**found["between"], "Cohen's kappa of people and classifier": found["with_people"]}
    return {
        "precision": told(found["revision"]["precision"]),
        "recall": told(found["revision"]["recall"]),
        "looked": found["revision"]["looked"],
        "kappas": [
            (name, "–" if one["value"] is None else f"{one['value']:.2f}".replace("-", "−"))
            for name, one in kappas.items()
        ],
    }


def _entail(row: Mapping[str, Any]) -> list[str]:
    leaked = "nobody knows" if row["leaked"] is None else f"{100 * row['leaked']:.0f} %"
    return [f"E@{row['k']}", *(told(row[name]) for name in ("value", "without_leaked", "corrected")), leaked]


def _examples(dataset: Dataset, shown: Round, links: Iterable[Link]) -> list[Example]:
    by_image: dict[str, list[Link]] = {}
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

    def lines(held: Iterable[Link]) -> list[tuple[str, float]]:
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


SECTION = Section("revision", "Revised labels", make)
