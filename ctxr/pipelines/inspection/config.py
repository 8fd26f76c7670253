"""Options and reports of the verbs that describe and check what there is."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from ctxr.engine.options import DEVICE, Choices, Device, FreeText, NotDecisive, Options, Range, Seed, Workdir
from ctxr.engine.report import Table, VerbReport
from ctxr.errors import FindingsError, did_you_mean, plural, some

if TYPE_CHECKING:
    from ctxr.annotation.journal.results import Overview
    from ctxr.metrics.shortcuts import Verdict


@dataclass(frozen=True)
class Stats(Options):
    """Options of `ctxr stats`."""

    COMMAND = "stats"
    ARGUMENT = "dataset"

    dataset: Path | None = None
    """Artifact, published release (folder or file), COCO captions or documents; default: the latest finished one in the workdir."""
    workdir: Workdir = Path("work")
    out: Path | None = None
    """Also write the figures as JSON to this file."""
    tokenizer: Annotated[str, Choices(("auto", "spacy", "regex"))] = "auto"
    """How words are counted: auto (spaCy where it is installed), spacy, regex; the result names the one used."""
    parser: str | None = None
    """SpaCy model for tree depth, a name or a folder; default: en_core_web_sm where it is installed."""
    skip_pictures: bool = False
    """Do not open images: find near-duplicates by embeddings alone, if available."""
    near: Annotated[float, Range(0, math.inf, "a distance of at least 0")] = 0.02
    """Images of two splits count as near-duplicates up to this root mean square colour difference (0..1) at 16 x 16 pixels."""
    near_embedding: Annotated[float, Range(0, math.inf, "a share of at least 0")] = 0.3
    """Embeddings of two splits count as near-duplicates up to this share of the encoder's threshold."""
    encoder: str | None = None
    """Encoder for datasets without embeddings; default: leave distances out."""
    device: Annotated[str, DEVICE] = "auto"
    """Where the encoder runs: auto, cpu, cuda, cuda:N, mps."""


@dataclass(frozen=True)
class StatsReport(VerbReport):
    """The statistics of a dataset. `tokenizer` counted the words, "" where there are no descriptions; `missing` says of each table that
    cannot be computed why; `notes` are remarks of the reader."""

    dataset: str
    tokenizer: str
    tables: dict[str, Table] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Shortcuts(Options):
    """Options of `ctxr shortcuts`."""

    COMMAND = "shortcuts"
    ARGUMENT = "dataset"

    dataset: Path | None = None
    """Artifact, published release (folder or file) or COCO captions; default: the latest finished one in the workdir."""
    workdir: Workdir = Path("work")
    worker: str = "gold"
    """Worker whose judgments define the targets."""
    skip_pictures: bool = False
    """Do not open images: skip sharpness and file size."""
    encoder: Annotated[str | None, NotDecisive] = None
    """Encoder whose vectors train a model that reads no texts; default: the encoder that picked the sets."""
    device: Device = "auto"
    """Device of the encoder: auto, cpu, cuda, cuda:N, mps."""


@dataclass(frozen=True)
class ShortcutsReport(VerbReport):
    """The accuracy of each shortcut, by rule and part of the queries; all verdicts share one correction. `missing` says which rules
    could not be tested and why, `learnt` from what the most frequent position was learnt."""

    dataset: str
    queries: int
    verdicts: "tuple[Verdict, ...]"
    missing: tuple[str, ...]
    notes: tuple[str, ...] = ()
    learnt: str = ""

    @property
    def finding(self) -> FindingsError | None:
        """The shortcuts above chance."""
        flagged = [f"{verdict.rule} on {verdict.part}" for verdict in self.verdicts if verdict.flagged]
        if not flagged:
            return None
        return FindingsError(
            f"{plural(len(flagged), 'shortcut')} above chance: {', '.join(flagged)}",
            hint="look at how targets were drawn and frames ordered, or report the shortcut with the benchmark",
        )


@dataclass(frozen=True)
class Report(Options):
    """Options of `ctxr report`."""

    COMMAND = "report"

    input: Path | None = None
    """Artifact or published release (folder or file) to report on, with the image sets it was made from; default: the most advanced
    finished artifact of the workdir, or else its results alone."""
    out: Path | None = None
    """Page to write; default: `report.html` in the workdir. Only an earlier report page is overwritten."""
    workdir: Workdir = Path("work")
    inside: Annotated[int, Range(0, math.inf, "a number of pictures, 0 or more")] = 300
    """Maximum number of images embedded in the page, up to 640 pixels wide or high (about 12 MB). If there are more, small ones go to
    a folder of the same name beside the page, and large ones are loaded from the artifact."""
    more: tuple[str, ...] = ()
    """Another page to link to at the top, such as that of a related project; repeatable."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Pages to link to that exist."""
        for page in self.more:
            if not Path(page).exists():
                yield f"{page} does not exist", "--more names a page that ctxr report wrote"


@dataclass(frozen=True)
class Diff(Options):
    """Options of `ctxr diff`."""

    COMMAND = "diff"
    ARGUMENT = "artifacts"

    artifacts: Annotated[tuple[str, ...], NotDecisive] = ()
    """A and B: two artifacts of image sets, two datasets, or two evaluations, by their folders or their names in the project."""
    workdir: Workdir = Path("work")
    exit_code: bool = False
    """Exit with code 5 if they differ, for scripts."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Two of them."""
        if len(self.artifacts) != 2:
            yield f"ctxr diff takes two artifacts, not {len(self.artifacts)}", "ctxr diff work/sets work/filtered"


@dataclass(frozen=True)
class DiffReport(VerbReport):
    """What came, went and changed between two artifacts `a` and `b` of a kind, in tables: `counts`, and each thing that differs; of
    evaluations also `figures` with intervals, and `answers`.

    Attributes:
        differ: whether anything does. strict: whether that is a finding.
    """

    a: Path
    b: Path
    kind: str
    differ: bool
    tables: dict[str, Table]
    strict: bool = False

    @property
    def finding(self) -> FindingsError | None:
        """That they differ, where --exit-code asks."""
        return FindingsError(f"{self.a} and {self.b} differ") if self.strict and self.differ else None


@dataclass(frozen=True)
class AgreementConfig(Options):
    """Options of `ctxr agreement`."""

    COMMAND = "agreement"
    ARGUMENT = "votes"

    votes: Path | None = None
    """Votes as CSV, TSV, JSON or JSON Lines: rows with item, worker and value, a column for each worker, or an export of Label Studio."""
    out: Path | None = None
    """Folder to write: a page, a table in LaTeX, and all rows as CSV; default: only print."""
    item: FreeText = ""
    """Column of items; default: found by its name."""
    worker: FreeText = ""
    """Column of workers; default: found by its name."""
    value: FreeText = ""
    """Column of values; default: found by its name."""
    seed: Seed = 0
    """Seed of intervals."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A file that is there."""
        if self.votes is None:
            yield "the file of votes is missing", "ctxr agreement votes.csv"


@dataclass(frozen=True)
class AgreementReport(VerbReport):
    """How far the people in `source` agree: `counts`, and tables by name: agreement, people, pairs, items, and confusion where there are
    few values."""

    source: str
    counts: dict[str, int]
    tables: dict[str, Table]
    notes: tuple[str, ...] = ()
    folder: Path | None = None


PAPERS = ("imagecode", "links", "what-where", "photochat", "entailment")
"""Papers with a table of published figures, in `cells.toml`."""


@dataclass(frozen=True)
class Reproduce(Options):
    """Options of `ctxr reproduce`."""

    COMMAND = "reproduce"
    ARGUMENT = "papers"
    FOLDER = "reproduced"

    papers: tuple[str, ...] = ()
    """Papers: imagecode, links, what-where, photochat, entailment; default: all."""
    data: Path | None = None
    """Folder with releases of the papers, at most two levels deep; default: only what follows from printed figures."""
    workdir: Workdir = Path("work")
    out: Path | None = None
    """Folder to write; default: `reproduced` in the workdir."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Papers that are in the table."""
        for paper in self.papers:
            if paper not in PAPERS:
                yield f"there is no paper {paper!r}", did_you_mean(paper, PAPERS, f"choose of {', '.join(PAPERS)}")


State = Literal["reproduced", "off", "needs"]


@dataclass(frozen=True)
class Cell:
    """One published figure, and what it takes to find it again.

    Attributes:
        at: table or section. figure: what is counted. value: as printed, counts in full. unit: "%" or nothing.
        within: half of the last printed digit; 0 where the figure is exact. kind: another reason for `within`.
        sample: queries or draws of a trained model's or a random figure, whose 95 % half-width is then the tolerance; 0 otherwise.
        arithmetic: a function of `ARITHMETIC`, and its arguments: names of cells of the paper, or printed numbers.
        measure: a function of `MEASURES` with the arguments `of`; `whole`: how many items a complete release has for it.
        run: a run whose evaluation in the project has the figure: `measured` on `split` and `part`, with the encoder `weights`.
        needs: what is missing where nothing of this can be run. doubtful: how the print contradicts itself.
    """

    at: str
    figure: str
    value: float
    unit: str = ""
    within: float = 0.0
    kind: str = ""
    sample: int = 0
    arithmetic: dict[str, tuple[str | int | float, ...]] = field(default_factory=dict)
    measure: str = ""
    of: dict[str, str] = field(default_factory=dict)
    whole: int = 0
    run: str = ""
    weights: str = ""
    split: str = ""
    part: str = "all"
    measured: str = "accuracy"
    needs: tuple[str, ...] = ()
    doubtful: str = ""
    note: str = ""

    @property
    def tolerance(self) -> float:
        """How far a figure may lie from the print."""
        return max(self.within, 1.96 * math.sqrt(self.value * (100 - self.value) / self.sample) if self.sample else 0.0)

    def shown(self, value: float, more: int = 0, sign: str = "") -> str:
        """A figure with as many digits as the print, and so many more unless both are whole."""
        digits = math.ceil(-math.log10(2 * self.within) - 1e-9) if 0 < self.within < 0.5 else 0
        return f"{value:{sign},.{digits if not digits and value == int(value) else digits + more}f}{self.unit}"


@dataclass(frozen=True)
class Found:
    """A figure that was found: its value, how many items it is over, its 95 % interval where it is a mean, and `where` it was found.

    `margin` is what the rounding of arguments adds to the tolerance.
    """

    value: float
    items: int
    by: Literal["data", "arithmetic", "evaluation"] = "data"
    where: str = ""
    low: float | None = None
    high: float | None = None
    margin: float = 0.0


@dataclass(frozen=True)
class CellResult:
    """What became of a cell of a paper; `needs` says what is missing, where something is."""

    paper: str
    name: str
    cell: Cell
    state: State
    found: Found | None
    needs: tuple[str, ...]

    @property
    def here(self) -> str:
        """What was found, with its interval in brackets; "–" for nothing."""
        found, cell = self.found, self.cell
        if found is None:
            return "–"
        ends = (
            ""
            if found.low is None or found.high is None
            else f" ({cell.shown(found.low, 1)} to {cell.shown(found.high, 1)})"
        )
        return cell.shown(found.value, 1) + ends

    @property
    def verdict(self) -> str:
        """In words, with the tolerance and its kind."""
        if self.found is None or self.state == "needs":
            return f"needs {', '.join(self.needs)}"
        cell, within = self.cell, self.cell.tolerance + self.found.margin
        kind = cell.kind or ("sampling" if cell.sample else "rounding")
        said = f"off by {cell.shown(self.found.value - cell.value, 1, '+')}" if self.state == "off" else "reproduced"
        by = " by arithmetic" if self.found.by == "arithmetic" else ""
        return f"{said}{by} (±{within:.3g}, {kind})" if within else f"{said}{by} (exact)"


@dataclass(frozen=True)
class ReproduceReport(VerbReport):
    """Which published figures were reproduced: `cells` in the order of the table, `counts` of them by state, `titles` of the papers, and
    the `releases` that were measured."""

    folder: Path
    up_to_date: bool
    titles: dict[str, str]
    releases: tuple[str, ...]
    cells: tuple[CellResult, ...]
    counts: dict[str, int]

    @property
    def finding(self) -> FindingsError | None:
        """The cells that are off, but for those where the print contradicts itself."""
        off = [f"{one.paper} {one.name}" for one in self.cells if one.state == "off" and not one.cell.doubtful]
        sentence = f"{plural(len(off), 'figure')} off: {some(off)}"
        return FindingsError(sentence, hint=f"see {self.folder / 'cells.html'}") if off else None


@dataclass(frozen=True)
class Doctor(Options):
    """Options of `ctxr doctor`."""

    COMMAND = "doctor"
    ARGUMENT = "artifact"

    artifact: Path | None = None
    """Artifact folder to check up to its sources, a project folder with several, or a published release; default: check
    this machine."""
    workdir: Path = Path("work")
    """Project folder: its disk is checked, and runs are found there."""
    scores: tuple[str, ...] = ()
    """Runs by name or folder, score files, or encoders: test whether their accuracy would be higher with file names sorted as text."""
    reference: str = ""
    """Encoder of these zero-shot scores, such as ViT-B-16:openai, to compare with its known accuracy; default: derived from their name."""
    device: Annotated[str, DEVICE] = "auto"
    """Where the encoder runs: auto, cpu, cuda, cuda:N, mps."""
    seed: Seed = 0
    """Seed of intervals and tests."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """Scores belong to a dataset."""
        if self.scores and self.artifact is None:
            yield "--scores needs the dataset that was scored", "ctxr doctor DATASET --scores FILE"


@dataclass(frozen=True)
class Check:
    """The result of one check. Its state is `ok`, `note` or `problem`, its cure a command or an edit."""

    name: str
    state: str
    detail: str
    cure: str = ""


@dataclass(frozen=True)
class DoctorReport(VerbReport):
    """All checks, in order, and how many of them found a problem."""

    checks: tuple[Check, ...]
    problems: int

    @property
    def finding(self) -> FindingsError | None:
        """The number of problems, and how to mend the first."""
        cure = next((check.cure for check in self.checks if check.state == "problem"), "")
        return FindingsError(f"{plural(self.problems, 'problem')} found", hint=cure) if self.problems else None


@dataclass(frozen=True)
class ReportPage(VerbReport):
    """The outcome of `ctxr report`: `chain` are folders of what is shown, oldest first; `folder` is that of its pictures, None if the
    page holds them; `missing` are pictures."""

    page: Path
    bytes: int
    chain: list[Path]
    sets: int
    pictures: int
    folder: Path | None
    missing: list[str]
    notes: list[str]


@dataclass(frozen=True)
class Status(Options):
    """Options of `ctxr status`."""

    COMMAND = "status"
    RECORDED = False

    workdir: Workdir = Path("work")


@dataclass(frozen=True)
class StatusReport(VerbReport):
    """The state of a project.

    Attributes:
        artifacts: oldest first, each with its folder, command, time (UTC), counts and condition.
        open: units without enough answers, by task.
        notes: what to check before publishing.
        study: what people's answers have come to; None where nothing was served, or its database cannot be read here.
    """

    workdir: Path
    artifacts: tuple[dict[str, str], ...]
    open: dict[str, int]
    notes: tuple[str, ...]
    study: "Overview | None" = None
