"""The section on revised labels."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ctxr.datasets.dataset import Dataset
from ctxr.datasets.open import read_dataset
from ctxr.datasets.rounds import (
    AUDITS,
    FOLDER,
    LEDGER,
    LOOKED,
    AuditVerdict,
    CandidateRow,
    Round,
    folder_of,
    read_audit,
    read_figures,
    read_rounds,
    written_for,
)
from ctxr.engine.report import share_with_interval
from ctxr.pipelines.inspection.pages.edition import NONE, PageBuilder, Thumbnails
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.kinds import REVISE_LABELS
from ctxr.store.tables import grouped, read_table

WANTED = 0.8
"""Precision from which on a round is called good, where it was not made for another one: that of the recipe for classifiers."""

DONE = (
    ("added", "added", "kept"),
    ("capped", "entailed, beyond a cap: not added", "capped"),
    ("unsure", "unsure: neither positive nor negative", "unsure"),
    ("rejected", "not entailed", "dropped"),
)
"""What can become of a candidate: its name in a stratum, in words, and its colour."""

CHOSEN_BY = {
    "given": "by --threshold",
    "dev": "by --precision",
    "classifier": "the judge's own",
    "audit": "by the audit",
}
MOST_EXAMPLES = 12
"""Pictures that are shown: those with the most, and with the least sure, additions."""

MOST_LINES = 6
"""Captions of one kind below a picture."""


def make_revision(edition: PageBuilder) -> Mapping[str, object] | None:
    """The latest active round, with the others; None without a revision."""
    # of the project that the artifact lies in, or the artifact itself
    root = edition.chain.root
    finished = [one for one in (root, root.resolve().parent / FOLDER) if (one / MANIFEST).is_file()]
    revised = (one for one in finished if open_artifact(one).manifest.verb == REVISE_LABELS and read_rounds(one))
    folder = next(revised, None)
    if folder is None:
        return None
    rounds = read_rounds(folder)
    shown = next((one for one in reversed(rounds) if one.active), rounds[-1])
    links = read_table(folder / folder_of(shown.number) / LEDGER, CandidateRow)
    figures = read_figures(folder / folder_of(shown.number))
    audit = folder.parent / AUDITS / f"{shown.number:03d}"
    audited = read_audit(audit)
    verdicts = [] if audited is None else read_table(audit / LOOKED, AuditVerdict)
    # columns of Entail@K that say nothing here are left out
    at = (audited or figures)["entail_at"]
    leaking = any(row["leaked"] != 0 for row in at)
    heads = {"value": "by the judge %"}
    if leaking:
        heads["without_leaked"] = "without leaked pictures %"
    if any(row["corrected"]["value"] is not None for row in at):
        heads["corrected"] = "corrected by people %"
    entail = [[f"E@{row['k']}", *(share_with_interval(row[name]) for name in heads)] for row in at]
    if leaking:
        for row, cells in zip(at, entail, strict=True):
            cells.append("unknown" if row["leaked"] is None else f"{100 * row['leaked']:.0f} %")
    dataset = read_dataset(folder)
    return {
        "judges": figures["judges"],
        "rounds": rounds,
        "shown": shown,
        "evaluated": " of valid and test" if dataset.splits else "",
        "chosen_by": CHOSEN_BY[shown.threshold_from],
        "groups": fates_of(figures["bands"], shown, audited),
        "audited": None if audited is None else _audited(audited, shown),
        "entail_heads": [*heads.values(), *["leaked"] * leaking],
        "entail": entail,
        **_examples(dataset, edition.chain.project, links, verdicts),
        "cards_per_row": cards_per_row,
        "edited": open_artifact(folder).changed_files()[:1],
    }


def fates_of(
    bands: Iterable[Mapping[str, Any]], shown: Round, audited: Mapping[str, Any] | None
) -> list[dict[str, Any]]:
    """What became of the candidates (see `DONE`), in bands of probabilities and ranks, the most probable first. A band that a threshold
    of a single judge lies in is cut there; it is `wrong` if its candidates were added and people call less than half of them entailed."""
    rows = list(bands)
    most = max((row["pairs"] for row in rows), default=1)
    verdicts = {row["stratum"]: row for row in (audited or {}).get("strata", ())}
    below = shown.threshold if shown.unsure_below is None else shown.unsure_below
    cuts = {"rejected": (0.0, below), "unsure": (below, shown.threshold)}
    groups: dict[str, list[tuple[float, dict[str, Any]]]] = defaultdict(list)
    for row in rows:
        done, band, rank = row["stratum"].split(", ")
        least, largest = (0.0, 1.0) if shown.judges else cuts.get(done, (shown.threshold, 1.0))
        answered = row["probability"] is not None
        low, high = (float(edge) for edge in (band.removeprefix("p ") if answered else "0 to 0").split(" to "))
        low, high = max(low, least), min(high, largest)
        seen = verdicts.get(row["stratum"])
        cells = {
            "name": f"{low:.3g} to {high:.3g}, {rank}" if answered else f"no answer, {rank}",
            "pairs": row["pairs"],
            "percent": round(100 * row["pairs"] / most, 1),
            "probability": row["probability"],
            "people": "–" if seen is None else f"{seen['entailed']} of {seen['looked']}",
            "wrong": done == "added" and seen is not None and 2 * seen["entailed"] < seen["looked"],
        }
        groups[done].append((low, cells))
    for pairs in groups.values():
        pairs.sort(key=lambda pair: (-pair[0], "above" in pair[1]["name"]))
    return [
        {"done": done, "title": title, "kind": kind, "rows": [band for _, band in groups[done]]}
        for done, title, kind in DONE
        if done in groups
    ]


def _audited(audit: Mapping[str, Any], shown: Round) -> dict[str, object]:
    kappas = {**audit["between"], "Cohen's kappa of people and judge": audit["with_people"]}
    precision = audit["revision"]["precision"]
    return {
        "precision": share_with_interval(precision),
        "verdict": round_verdict(precision, shown.wanted or WANTED),
        "licence": audit.get("licence"),
        "wanted": f"{100 * (shown.wanted or WANTED):.0f}",
        "recall": share_with_interval(audit["revision"]["recall"]),
        "errors": audit["revision"].get("errors"),
        "looked": audit["revision"]["looked"],
        "kappas": [
            (name, "–" if kappa["value"] is None else f"{kappa['value']:.2f}".replace("-", "−"))
            for name, kappa in kappas.items()
        ],
    }


def round_verdict(precision: Mapping[str, float | None], wanted: float) -> str:
    """The verdict on a round: `good` with the whole interval at the wanted precision, `bad` below one half, else `half`; "" if unknown.

    >>> [round_verdict({"value": value, "low": low}, 0.8) for value, low in ((0.9, 0.8), (0.9, 0.7), (0.4, 0.3), (None, None))]
    ['good', 'half', 'bad', '']
    """
    if precision["value"] is None:
        return ""
    return "bad" if precision["value"] < 1 / 2 else "good" if (precision["low"] or 0) >= wanted else "half"


def cards_per_row(count: int) -> int:
    """Columns in which so many cards leave no single one in the last row, where that can be: 4, else 3.

    >>> [cards_per_row(count) for count in (1, 2, 3, 4, 5, 6, 8, 9, 12)]
    [4, 4, 3, 4, 3, 3, 4, 3, 4]
    """
    return 3 if count > 2 and (count % 4 == 1 or (count % 4 and not count % 3)) else 4


def _chance(link: CandidateRow) -> float:
    return link.probability or 0.0


def _examples(
    dataset: Dataset, project: Path, links: Sequence[CandidateRow], verdicts: Iterable[AuditVerdict]
) -> dict[str, list[dict[str, object]]]:
    """Pictures with their own captions, what was `added`, what is `unsure`, and what came closest to it (`near`): (text, probability),
    surest first. `overruled` are those on which people overruled the judge, with `wrong` and `missed` captions; and `others`.

    `more` counts further additions; `picture` is a data address, "" where it cannot be shown."""
    people = {(row.image, row.caption): row.entailed for row in verdicts if row.decision != "unsure"}
    by_image = grouped((link.image, link) for link in links)
    added = {
        image: sorted((row for row in rows if row.decision == "added"), key=lambda row: (-_chance(row), row.caption))
        for image, rows in by_image.items()
    }
    rich = sorted((name for name in added if added[name]), key=lambda name: (-len(added[name]), name))
    least = sorted(rich, key=lambda name: (_chance(added[name][-1]), name))
    names = list(dict.fromkeys([*rich[: MOST_EXAMPLES // 2], *least]))[:MOST_EXAMPLES]
    # people say yes where the judge says no, or no where it says yes
    wrong = [link for link in links if people.get((link.image, link.caption)) is (link.reason == "below_threshold")]
    wrong.sort(key=lambda link: (-abs(_chance(link) - 1 / 2), link.image))
    overruled = list(dict.fromkeys(link.image for link in wrong))[:MOST_EXAMPLES]
    own = written_for(dataset)
    pictures = None if dataset.root is None else Thumbnails(dataset.root, project)

    def lines(rows: Iterable[CandidateRow], most: int) -> list[tuple[str, float]]:
        texts = [(dataset.text_of(dataset.queries[row.caption]), _chance(row)) for row in rows]
        return list(dict(reversed(texts)).items())[::-1][:most]

    def example(name: str) -> dict[str, object]:
        closest = sorted(by_image[name], key=lambda row: -_chance(row))
        near = [row for row in closest if row.reason == "below_threshold"]
        number = NONE if pictures is None else pictures.number(dataset.images[name].path)
        return {
            "image": name,
            "picture": pictures.addresses("")[number] if pictures and number >= 0 else "",
            "own": own.get(name, [])[:MOST_LINES],
            "added": lines(added[name], MOST_LINES),
            "unsure": lines([row for row in closest if row.reason == "between_thresholds"], 2),
            "near": lines(near, 2),
            "wrong": lines([row for row in closest if row in wrong and row not in near], MOST_LINES),
            "missed": lines([row for row in near if row in wrong], MOST_LINES),
            "more": max(0, len(added[name]) - MOST_LINES),
            "leaked": any(row.leaked for row in by_image[name]),
        }

    return {"overruled": [example(name) for name in overruled], "others": [example(name) for name in names]}
