"""Options and reports of the verbs that train and evaluate models."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated

from ctxr.engine.engines import EngineName, Jobs, engine_rules
from ctxr.engine.options import Choices, Device, EndpointOptions, FreeText, NotDecisive, Options, Range, Switch, Workdir
from ctxr.engine.report import Table, VerbReport
from ctxr.errors import PartialError
from ctxr.problems.options import SPLITS, EvalOptions, Name, TrainOptions, invalid_name


@dataclass(frozen=True)
class Train(TrainOptions):
    """Options of `ctxr train`; the recipe, with these changes, decides the run."""

    COMMAND, TOGETHER = "train", True
    PANELS = "Expert: tensorboard"

    changes: Annotated[tuple[str, ...], NotDecisive] = ()
    """Another value for a key of the recipe, such as lr=1e-4 or encoder=ctxr-tiny; can be given several times."""
    tensorboard: Switch = False
    """Log each epoch for TensorBoard, in `tensorboard/` of the run; needs the package tensorboard."""


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed: `epoch` is the selected one, from 1, or 0 without training, of so many `epochs`; `valid` and `test` are
    expected accuracy 0..1, or the measure of the report, None where no target is known."""

    seed: int
    epoch: int
    epochs: int
    valid: float | None
    test: float | None


@dataclass(frozen=True)
class TrainReport(VerbReport):
    """The result of `train`.

    Attributes:
        valid, test: means over the seeds; None where no target is known. regions: features that the encoder reads, "" for pixels.
        judged_on: the split that chose the epoch, "valid" or "test"; "" where none did.
        unit: what is counted in each split. measure: what the results are a share of; note: how.
    """

    run: str
    folder: Path
    variant: str
    encoder: str
    dataset: str
    queries: dict[str, int]
    seeds: tuple[SeedResult, ...]
    valid: float | None
    test: float | None
    up_to_date: bool = False
    regions: str = ""
    judged_on: str = "valid"
    unit: str = "queries"
    measure: str = "accuracy"
    note: str = ""


@dataclass(frozen=True)
class Eval(EvalOptions):
    """Options of `ctxr eval`."""

    COMMAND = "eval"
    ARGUMENT = "runs"

    full: Switch = False
    """Print every table instead of the summary; files and --json always have them all."""


@dataclass(frozen=True)
class EvalReport(VerbReport):
    """The result of `eval`, an artifact; tables by name `<split>/<table>`, `summary` and `people`; names of its `files`; `full`: all
    tables are printed."""

    results: Path
    dataset: str
    runs: tuple[str, ...]
    up_to_date: bool
    tables: dict[str, Table]
    notes: tuple[str, ...]
    files: tuple[str, ...] = ()
    full: bool = False


@dataclass(frozen=True)
class Listen(EndpointOptions):
    """Options of `ctxr listen`."""

    COMMAND = "listen"
    ARGUMENT = "dataset"

    dataset: Path | None = None
    """Artifact or published release with queries and pictures; default: the latest finished one in the workdir."""
    endpoint: FreeText = ""
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1."""
    split: Annotated[str, Choices(SPLITS)] = "valid"
    """Split to evaluate: train, valid, test or none."""
    limit: Annotated[int, Range(0, inf, "a number of queries; 0 = all")] = 0
    """Ask only this many queries, a random sample that a larger limit extends; 0 = all."""
    shifts: Annotated[int, Range(1, inf, "a number of shifts, at least 1")] = 1
    """Ask each query this many times, averaging over cyclic shifts of the pictures to cancel position bias; 10 covers a set of ten."""
    name: Name = None
    """Name of the run, in `runs/` of the workdir; default: that of the model."""
    workdir: Workdir = Path("work")

    def folder(self) -> Path:
        """Where the run is written."""
        return self.workdir / "runs" / (self.name or re.sub(r"[^\w.-]+", "-", self.model).strip(".-") or "listener")

    def rules(self) -> Iterator[tuple[str, str]]:
        """An endpoint and a model, and a name that a folder can have."""
        if not self.endpoint:
            yield "--endpoint is missing", "--endpoint http://localhost:8000/v1"
        if not self.model:
            yield "--model is missing", "--model NAME, as the server calls it"
        yield from super().rules()
        yield from invalid_name(self.name)


@dataclass(frozen=True)
class ListenReport(VerbReport):
    """The result of `listen`.

    Attributes:
        queries: of the sample. answered: requests with a reply, so far.
        outcomes: how many replies were chosen, out_of_range, ambiguous, unreadable, refused.
        tokens_in, tokens_out: of all replies; in a dry run, about how many there would be.
        uncounted: replies whose tokens the host did not report: they are estimated.
    """

    run: Path
    dataset: str
    model: str
    queries: int
    requests: int
    answered: int
    complete: bool
    dry_run: bool
    up_to_date: bool
    outcomes: dict[str, int]
    tokens_in: int
    tokens_out: int
    cost: float
    uncounted: int
    accuracy: float | None
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def finding(self) -> PartialError | None:
        """That --max-cost ended the run."""
        if self.complete or self.dry_run:
            return None
        return PartialError(
            f"--max-cost ended the run: {self.answered} of {self.requests} requests were answered",
            hint="run the same command with a larger --max-cost: it continues where it stopped",
        )


@dataclass(frozen=True)
class RegionsConfig(Options):
    """Options of `ctxr regions`."""

    COMMAND = "regions"
    ARGUMENT = "dataset"

    dataset: Path | None = None
    """Artifact or published release with pictures; default: the latest finished one in the workdir."""
    extractor: str = "grid:auto"
    """Extractor: grid:ENCODER (its feature map), faster-rcnn[:WEIGHTS.pth|.safetensors], file:FOLDER (bottom-up-attention .npz)."""
    most: Annotated[int, Range(1, inf, "a number of regions, at least 1")] = 36
    """Maximum number of regions of a picture, in addition to the whole picture."""
    name: Name = None
    """Name of the artifact, in `regions/` of the workdir; default: grid, faster-rcnn or file."""
    workdir: Workdir = Path("work")
    device: Device = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N, mps."""
    jobs: Jobs = 0
    """Workers that extract, with --engine processes or ray; 0 = half the cores. The threads of the default engine share one extractor."""
    engine: EngineName = "threads"

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.workdir / "regions" / (self.name or self.extractor.partition(":")[0])

    def rules(self) -> Iterator[tuple[str, str]]:
        """A known extractor, a name that a folder can have, and a known engine."""
        kind, _, source = self.extractor.partition(":")
        if kind not in ("grid", "faster-rcnn", "file") or (kind != "faster-rcnn" and not source):
            yield (
                f"--extractor {self.extractor!r} is not one of grid:ENCODER, faster-rcnn, faster-rcnn:WEIGHTS, file:FOLDER",
                "--extractor grid:ViT-B-32:openai",
            )
        yield from invalid_name(self.name)
        yield from engine_rules(self.engine, self.device)


@dataclass(frozen=True)
class RegionsReport(VerbReport):
    """The result of `regions`, an artifact: `pictures` have regions, `left_out` are the ids of the others; a picture has at `most` R, with
    the whole of it, of F `features`."""

    regions: Path
    dataset: str
    by: str
    pictures: int
    most: int
    features: int
    left_out: tuple[str, ...] = ()
    up_to_date: bool = False
