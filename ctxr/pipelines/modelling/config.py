"""Options and reports of the verbs that train and evaluate models."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated, Any

from ctxr.engine.options import (
    Choices,
    Device,
    EndpointOptions,
    NotDecisive,
    Options,
    PathOption,
    Range,
    Seed,
    Since,
    Switch,
    Text,
    Workdir,
)
from ctxr.engine.report import Table
from ctxr.problems.recipes import recipe_name
from ctxr.store.kinds import RUNS

Name = Annotated[str | None, NotDecisive]
Draws = Annotated[int, Range(1, inf, "a number of draws, at least 1; default: 10000")]

SPLITS = ("train", "valid", "test", "none")


def invalid_name(name: str | None) -> Iterator[tuple[str, str]]:
    """The sentence and hint of a name that no folder can have."""
    if name is not None and (name in ("", ".", "..") or Path(name).name != name or not name.isprintable()):
        yield f"--name {name!r} is not a folder name", "--name first-try"


@dataclass(frozen=True)
class Train(Options):
    """Options of `ctxr train`; the recipe, with these changes, decides the run."""

    COMMAND = "train"

    recipe: Text = "clip-batch"
    """clip, vilbert, uniter or blip with -zero-shot, -none, -batch, -module, -temporal; retrieval-clip, -uniter, -blip, also -weak;
    entailment, entailment-tiny; links-ap, -dc, -tk, -nostruct, -objects, -zero-shot; or a TOML file."""
    dataset: PathOption = None
    """Artifact or release with train, valid and test queries or documents, or pairs for entailment; default: the latest finished one in
    the workdir."""
    name: Name = None
    """Name of the run; default: that of its recipe."""
    seeds: Annotated[int, NotDecisive, Range(1, inf, "a number of trainings, at least 1")] = 1
    """Number of trainings, with the seeds 0, 1, 2 and so on."""
    parity: Text = "fixed"
    """Fixed (published numbers without known errors), paper (its text to the letter) or code (as the released scripts)."""
    changes: Annotated[tuple[str, ...], NotDecisive] = ()
    """Another value for a key of the recipe, such as lr=1e-4 or encoder=ctxr-tiny; can be given several times."""
    judgments: PathOption = None
    """More judgments (table or folder with judgments.jsonl), whose entailed pairs are weak positives: --set weak=extra-batch."""
    workdir: Workdir = Path("work")
    """Project folder, where each command finds what the one before it made."""
    device: Device = "auto"
    """Device to train on: auto, cpu, cuda, mps."""
    tensorboard: Switch = False
    """Log each epoch for TensorBoard, in `tensorboard/` of the run; needs the package tensorboard."""
    text_only: Switch = False
    """Train an entailment classifier without its image branch: --set image=."""
    image_only: Switch = False
    """Train an entailment classifier without its text branch: --set text=."""

    def folder(self, home: str = RUNS) -> Path:
        """Where the run is written, in a folder of the project."""
        return self.workdir / home / (self.name or recipe_name(self.recipe))

    def rules(self) -> Iterator[tuple[str, str]]:
        """A name that a folder can have, and at least one branch."""
        yield from invalid_name(self.name)
        if self.text_only and self.image_only:
            yield "--text-only and --image-only cannot be combined", "give one of them"


@dataclass(frozen=True)
class SeedResult:
    """The result of one seed.

    Attributes:
        epoch: the selected one, from 1; 0 without training. epochs: trained in all.
        valid, test: expected accuracy 0..1, or the measure of the report; None where no target is known.
    """

    seed: int
    epoch: int
    epochs: int
    valid: float | None
    test: float | None


@dataclass(frozen=True)
class TrainReport:
    """The result of `train`.

    Attributes:
        run: its name. variant, encoder: of its scorers. dataset: what it learned from.
        queries: of each split. seeds: one result each.
        valid, test: means over the seeds; None where no target is known.
        up_to_date: whether it was finished before. regions: features that the encoder reads, "" for pixels.
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
class Eval(Options):
    """Options of `ctxr eval`."""

    COMMAND = "eval"

    runs: Annotated[tuple[str, ...], NotDecisive] = ()
    """Runs or classifiers by name or folder, files of scores (a line of query, candidate, value each; always
    evaluated as on image sets or documents), or models; default: every run."""
    dataset: PathOption = None
    """Artifact or published release (folder or file); default: the dataset of the runs, else the latest finished one in the workdir."""
    workdir: Workdir = Path("work")
    """Project folder, where each command finds what the one before it made."""
    out: PathOption = None
    """Folder to write; default: `results/NAME` in the workdir, named after the run, or after all of them: `A-vs-B`."""
    split: str = ""
    """Evaluate only train, valid, test or none (sets without a split); default: every scored split, and for a classifier the first of
    test, valid and train that has pairs."""
    compare: bool = False
    """Test every run against every other: differences with intervals, permutation and McNemar, Holm-corrected over all of them."""
    partial: bool = False
    """Leave out queries that some run did not score completely, and report their number."""
    cluster: Annotated[str, Choices(("set", "group"))] = "set"
    """Unit of resampling for intervals and of sign flips in tests: set or document (the target, where many share a set), or group
    (whole videos and albums)."""
    recall: str = "5"
    """Recall@k to print, on documents p@k, such as 1,5,10."""
    trec: Annotated[bool, Since(False)] = False
    """Print what trec_eval does too: MAP (over galleries MAP@30, as far as their TREC files go), and P@k and nDCG@k at each k of
    --recall."""
    resamples: Draws = 10_000
    """Bootstrap resamples of each interval."""
    permutations: Draws = 10_000
    """Random sign patterns of a permutation test; all patterns where there are fewer."""
    seed: Seed = 0
    """Seed of intervals and tests."""
    tokenizer: str = "auto"
    """Tokenizer that measures the length of texts: auto (spaCy where it is installed), spacy, regex."""
    encoder: str | None = None
    """Measure distances within sets with this encoder, if the pictures exist, and on documents spread and content; default: the
    distances recorded in the sets."""
    regions: Text = ""
    """Region features in the workdir, by name, for models of regions; default: those that a run was trained on."""
    rerank: Annotated[int | None, Range(0, inf, "a number of candidates; 0 rescores every pair")] = None
    """Number of shortlisted candidates a cross-encoder rescores per query, in both directions (0 = all); default: as a run was
    validated."""
    rerank_by: str = ""
    """Encoder that makes the shortlist, such as ViT-B-32:openai; candidates outside it rank below, in its order."""
    device: Device = "auto"
    """Device of the encoder: auto, cpu, cuda, mps."""
    judgments: PathOption = None
    """More judgments (table or folder with judgments.jsonl) of a round of revised labels, for Entail@K."""
    positives: PathOption = None
    """For COCO: folder with CxC's and ECCV's ground truth (cxc_image_to_caption.json, …_caption_to_image.json, eccv_…), and
    with CxC's similarities (sits_test.csv, sis_test.csv, sts_test.csv)."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A known split, a list of k, and both options of reranking or neither."""
        if self.split not in ("", *SPLITS):
            yield f"--split {self.split} is unknown", f"choose one of {', '.join(SPLITS)}"
        if not all(re.fullmatch(r"\s*0*[1-9][0-9]{0,5}\s*|\s*", part, re.ASCII) for part in self.recall.split(",")):
            yield f"--recall {self.recall!r} is not a list of whole numbers from 1", "--recall 1,5,10"
        if bool(self.rerank) != bool(self.rerank_by):
            yield "--rerank and --rerank-by need each other", "--rerank 128 --rerank-by ViT-B-32:openai"

    def ks(self) -> list[int]:
        """The k of each recall@k, in increasing order."""
        return sorted({int(part) for part in self.recall.split(",") if part.strip()})

    def key(self) -> dict[str, Any]:
        """The decisive options; those of reranking only where it was asked for."""
        key = super().key()
        return key if self.rerank is not None else {name: key[name] for name in key if not name.startswith("rerank")}


@dataclass(frozen=True)
class EvalReport:
    """The result of `eval`.

    Attributes:
        results: the artifact. runs: their names. tables: by name `<side>/<table>`, and `people`.
        notes: caveats of the figures.
    """

    results: Path
    dataset: str
    runs: tuple[str, ...]
    up_to_date: bool
    tables: dict[str, Table]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Listen(EndpointOptions):
    """Options of `ctxr listen`."""

    COMMAND = "listen"
    ORDER = (
        "dataset", "endpoint", "model", "split", "limit", "shifts", "side", "name", "key_from", "at_once", "timeout",
        "max_tokens", "price_in", "price_out", "max_cost", "dry_run", "insecure", "workdir",
    )  # fmt: skip

    dataset: PathOption = None
    """Artifact or published release with queries and pictures; default: the latest finished one in the workdir."""
    endpoint: Text = ""
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
    """Project folder, where each command finds what the one before it made."""

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
class ListenReport:
    """The result of `listen`.

    Attributes:
        run: the artifact. queries: of the sample. requests: in all. answered: of them, so far.
        complete: whether every request was answered. up_to_date: whether it was finished before.
        outcomes: how many replies were chosen, out_of_range, ambiguous, unreadable, refused.
        tokens_in, tokens_out: of all replies; in a dry run, about how many there would be.
        cost: at the given prices. uncounted: replies whose tokens the host did not report: they are estimated.
        tables: accuracy by shift, and by position. notes: caveats of the figures.
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


EXTRACTORS = ("grid", "faster-rcnn", "file")


@dataclass(frozen=True)
class RegionsConfig(Options):
    """Options of `ctxr regions`."""

    COMMAND = "regions"

    dataset: PathOption = None
    """Artifact or published release with pictures; default: the latest finished one in the workdir."""
    by: str = "grid:auto"
    """Extractor: grid:ENCODER (its feature map), faster-rcnn[:WEIGHTS.pth|.safetensors], file:FOLDER (bottom-up-attention .npz)."""
    most: Annotated[int, Range(1, inf, "a number of regions, at least 1")] = 36
    """Most regions of a picture, besides the whole picture."""
    name: Name = None
    """Name of the artifact, in `regions/` of the workdir; default: grid, faster-rcnn or file."""
    workdir: Workdir = Path("work")
    """Project folder, where each command finds what the one before it made."""
    device: Device = "auto"
    """Where to compute: auto, cpu, cuda, mps."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.workdir / "regions" / (self.name or self.by.partition(":")[0])

    def rules(self) -> Iterator[tuple[str, str]]:
        """A known extractor, and a name that a folder can have."""
        extractor, _, source = self.by.partition(":")
        if extractor not in EXTRACTORS or (extractor != "faster-rcnn" and not source):
            yield (
                f"--by {self.by!r} is none of grid:ENCODER, faster-rcnn, faster-rcnn:WEIGHTS, file:FOLDER",
                "--by grid:ViT-B-32:openai",
            )
        yield from invalid_name(self.name)


@dataclass(frozen=True)
class RegionsReport:
    """The result of `regions`.

    Attributes:
        regions: the artifact. by: the extractor, with its resolved name. pictures: that have regions.
        most: R, the largest number of regions of a picture with the whole of it. features: F.
        left_out: an image id for each picture that has none. up_to_date: whether it was finished before.
    """

    regions: Path
    dataset: str
    by: str
    pictures: int
    most: int
    features: int
    left_out: tuple[str, ...] = ()
    up_to_date: bool = False
