"""Options and reports of the verbs that look at what there is."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.engine.report import Table

if TYPE_CHECKING:
    from ctxr.metrics.shortcuts import Verdict


@dataclass(frozen=True)
class Stats:
    """Configuration of `ctxr stats`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact, published release (folder or file) or COCO captions; default: the latest finished one in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    out: Path | None = None
    """Write the figures as JSON to this file as well."""
    tokenizer: str = "auto"
    """How words are counted: auto (spaCy where it is installed), spacy, regex; the result names the one used."""
    parser: str | None = None
    """SpaCy model for tree depth, a name or a folder; default: en_core_web_sm where it is installed."""
    skip_pictures: bool = False
    """Do not open pictures: near-duplicates then are found by embeddings alone, where there are any."""
    near: float = 0.02
    """Pictures of two splits count as near-duplicates up to this root mean square colour difference (0..1) at 16 x 16 pixels."""
    near_embedding: float = 0.3
    """Embeddings of two splits count as near-duplicates up to this share of the encoder's threshold."""
    encoder: str | None = None
    """Embed the pictures with this encoder where a dataset has no embeddings of its own; default: leave distances out."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, mps."""


@dataclass(frozen=True)
class StatsReport:
    """What `stats` found.

    Attributes:
        tokenizer: what counted the words; "" where there are no descriptions.
        tables: by name. missing: what cannot be said of this dataset and why, one sentence each.
        notes: what the reader left out or took on trust.
    """

    dataset: str
    tokenizer: str
    tables: dict[str, Table] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Audit:
    """Configuration of `ctxr audit`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact, published release (folder or file) or COCO captions; default: the latest finished one in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    worker: str = "gold"
    """Whose judgments name the targets."""
    skip_pictures: bool = False
    """Do not open pictures: sharpness and file size are left out."""


@dataclass(frozen=True)
class AuditReport:
    """What the shortcuts reached.

    Attributes:
        verdicts: by rule and part of the queries; all of them share one correction.
        missing: rules that could not be tried and why, one sentence each.
        learnt: where the commonest position was learnt.
    """

    dataset: str
    queries: int
    verdicts: "tuple[Verdict, ...]"
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()
    learnt: str = ""


@dataclass(frozen=True)
class Report:
    """Configuration of `ctxr report`; a field's text is its help."""

    input: Path | None = None
    """Artifact, or published release (folder or file), to report on; default: the last finished image sets of the workdir with
    those they were made from, else its dataset, else its results alone."""
    out: Path | None = None
    """Page to write; default: `report.html` in the workdir. It replaces an earlier page, and nothing else."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    inside: int = 1200
    """Pictures up to which they are inside the page (about 10 MB); with more they go to a folder beside it, named as
    the page, and are read when they are looked at."""

    more: tuple[str, ...] = ()
    """Another page to link to at the top, such as of a project beside; can be given several times."""

    def page(self) -> Path:
        """Where the page is written."""
        return self.out or self.workdir / "report.html"


@dataclass(frozen=True)
class Doctor:
    """Configuration of `ctxr doctor`; a field's text is its help."""

    artifact: Path | None = None
    """Artifact folder to check up to its sources, a project folder with several, or a published release; without it the
    machine is looked at."""
    workdir: Path = Path("work")
    """Project folder, whose disk is looked at and in which runs are found."""
    scores: tuple[str, ...] = ()
    """Runs by name or folder, files of scores, or encoders: would their accuracy be higher if names were sorted as text?"""
    reference: str = ""
    """Encoder whose zero-shot scores these are, such as ViT-B-16:openai, where its accuracy is known; default: as they are called."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, mps."""
    seed: int = 0
    """Seed of intervals and tests."""


@dataclass(frozen=True)
class Check:
    """One thing that was looked at.

    Attributes:
        state: `ok`, `note` (works, but worth knowing) or `problem`.
        cure: one command or one edit; empty when nothing has to be done.
    """

    name: str
    state: str
    detail: str
    cure: str = ""
