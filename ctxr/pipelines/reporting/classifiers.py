"""How right classifiers of entailment are, as `ctxr eval` found it, by what a premise is made of."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from ctxr.data.artifacts import MANIFEST, Artifact, open_artifact
from ctxr.errors import DataError
from ctxr.pipelines.entailing_eval import KINDS, RESULT, TABLES
from ctxr.pipelines.evaluating.results import RESULTS
from ctxr.pipelines.reporting.edition import Edition, Section
from ctxr.pipelines.revising.figures import told

FIGURES = ("accuracy", "precision", "recall", "F0.5")


@dataclass(frozen=True)
class ClassifierResult:
    """One classifier on one side.

    Attributes:
        rows: what a premise is made of, how many pairs, FIGURES in percent with their intervals, the share of the commoner answer.
        threshold: from which probability on it says yes. error, brier: of its probabilities, over all pairs.
        blind: kinds on which it is no more often right than who always gives the commoner answer.
    """

    name: str
    split: str
    rows: list[tuple[str, str, list[str], str]]
    threshold: float
    error: float
    brier: float
    blind: list[str]


def make(edition: Edition) -> Mapping[str, Any] | None:
    """Every classifier that was evaluated; None where none was."""
    artifacts = evaluated(edition.chain.project)
    if not artifacts:
        return None
    edition.evaluations += tuple(artifacts)
    edited = [f"{RESULTS}/{one.path.name}/{names[0]}" for one in artifacts if (names := one.changed_files())]
    return {"judges": [judge for one in artifacts for judge in _judges(one)], "figures": FIGURES, "edited": edited}


def evaluated(project: Path) -> list[Artifact]:
    """The evaluations of classifiers in a project."""
    artifacts = [open_artifact(file.parent) for file in sorted((project / RESULTS).glob(f"*/{MANIFEST}"))]
    return [one for one in artifacts if one.manifest.kind == RESULT]


def _judges(artifact: Artifact) -> Iterator[ClassifierResult]:
    file, split = artifact.path / TABLES, artifact.manifest.config.get("split")
    try:
        tables = msgspec.json.decode(file.read_bytes())
        quality, sure = (tables[f"{split}/{name}"]["rows"] for name in ("quality", "calibration"))
        names = list(dict.fromkeys(row[0] for row in quality))
        yield from (_judge(name, str(split), quality, sure) for name in names)
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError, IndexError) as error:
        raise DataError(f"{file} is damaged", hint="run ctxr eval again") from error


def _judge(name: str, split: str, quality: list[list[Any]], sure: list[list[Any]]) -> ClassifierResult:
    found = {(row[1], row[2]): row[3:] for row in quality if row[0] == name}
    kinds = list(dict.fromkeys(kind for kind, _ in found))
    rows = []
    for kind in kinds:
        cells = [told(dict(zip(("value", "low", "high"), found[kind, one], strict=False))) for one in FIGURES]
        rows.append(
            (KINDS.get(kind, kind), f"{found[kind, 'accuracy'][3]:,}", cells, f"{100 * found[kind, 'majority'][0]:.1f}")
        )
    error, _, brier, threshold = next(row[2:] for row in sure if row[:2] == [name, "all"])
    blind = [KINDS.get(kind, kind) for kind in kinds if found[kind, "accuracy"][0] <= found[kind, "majority"][0]]
    return ClassifierResult(name, split, rows, threshold, error, brier, blind)


SECTION = Section("classifiers", "Classifiers", make)
