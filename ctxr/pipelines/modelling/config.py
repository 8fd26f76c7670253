"""Options and reports of the verbs that train and evaluate models."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.engine.report import Table
from ctxr.models.recipes import recipe_name
from ctxr.store.kinds import CLASSIFIERS

if TYPE_CHECKING:
    from ctxr.models.training.recipe import Recipe


@dataclass(frozen=True)
class Train:
    """Configuration of `ctxr train`; a field's text is its help."""

    recipe: str = "clip-batch"
    """clip, vilbert, uniter or blip with -zero-shot, -none, -batch, -module, -temporal; retrieval-clip, -uniter, -blip, also -weak;
    entailment, entailment-tiny; or a TOML file."""
    dataset: Path | None = None
    """Artifact or release with train, valid and test queries, or pairs for entailment; default: the latest finished one in the workdir."""
    name: str | None = None
    """What the run is called; default: as its recipe."""
    seeds: int = 1
    """How many trainings, with the seeds 0, 1, 2 and so on, make up the run."""
    parity: str = "fixed"
    """Fixed (published numbers without known errors), paper (its text at its word) or code (what the released scripts do)."""
    changes: tuple[str, ...] = ()
    """Another value for a key of the recipe, such as lr=1e-4 or encoder=ctxr-tiny; can be given several times."""
    judgments: Path | None = None
    """More judgments (table or folder with judgments.jsonl), whose entailed pairs are weak positives: --set weak=extra-batch."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    device: str = "auto"
    """Where to train: auto, cpu, cuda, mps."""
    tensorboard: bool = False
    """Write what each epoch came to for TensorBoard too, in `tensorboard/` of the run; needs the package tensorboard."""
    text_only: bool = False
    """A classifier of entailment without its image branch: --set image=."""
    image_only: bool = False
    """A classifier of entailment without its text branch: --set text=."""

    def folder(self, recipe: "Recipe | None" = None) -> Path:
        """Where the run is written; a classifier stands apart from what is evaluated on queries."""
        kind = "runs" if recipe is None or recipe.variant != "entailment" else CLASSIFIERS
        return self.workdir / kind / (self.name or recipe_name(self.recipe))


@dataclass(frozen=True)
class SeedResult:
    """What one seed came to.

    Attributes:
        epoch: the one that was chosen, from 1; 0 where nothing is trained. epochs: trained in all.
        valid, test: expected accuracy 0..1, in galleries mean recall (TR and IR at 1, 5, 10); None where no target is known.
    """

    seed: int
    epoch: int
    epochs: int
    valid: float | None
    test: float | None


@dataclass(frozen=True)
class TrainReport:
    """What `train` made.

    Attributes:
        run: its name. variant, encoder: of its scorers. dataset: what it learned from.
        queries: of each side. seeds: each by itself.
        valid, test: means over the seeds; None where no target is known.
        up_to_date: whether it was there already. regions: that the encoder looks at, "" for pixels.
        judged_on: the side that chose the epoch, "valid" or "test"; "" where none did.
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


@dataclass(frozen=True)
class Eval:
    """Configuration of `ctxr eval`; a field's text is its help."""

    runs: tuple[str, ...] = ()
    """Runs or classifiers by name or folder, files of scores (a line of query, candidate, value each), or models; default: every run."""
    dataset: Path | None = None
    """Artifact or published release (folder or file); default: what the runs were made on, else the latest finished one in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    out: Path | None = None
    """Folder to write; default: `results/NAME` in the workdir, named after the run, or after all of them: `A-vs-B`."""
    split: str = ""
    """Evaluate train, valid, test or none (sets that nobody put on a side) alone; default: every side that was scored, and
    of a classifier test, or valid, or train, whichever has pairs first."""
    compare: bool = False
    """Test every run against the first: differences with intervals, permutation and McNemar, Holm-corrected."""
    partial: bool = False
    """Leave out queries that some run did not score, or not in full, and say how many."""
    cluster: str = "set"
    """What is drawn again for intervals and flipped in tests: set (in galleries: target), or group (whole videos and albums)."""
    recall: str = "5"
    """Recall@k to print, such as 1,5,10 for galleries."""
    resamples: int = 10_000
    """Draws of each interval."""
    permutations: int = 10_000
    """Random patterns of signs in a test; all are tried where there are fewer."""
    seed: int = 0
    """Seed of intervals and tests."""
    tokenizer: str = "auto"
    """How the length of texts is counted: auto (spaCy where it is installed), spacy, regex."""
    encoder: str | None = None
    """Measure distances within sets with this encoder, where the pictures are; default: as the sets say, if they do."""
    regions: str = ""
    """Region features in the workdir, by name, for models that look at regions; default: those that a run was trained on."""
    rerank: int | None = None
    """Galleries, encoders of pairs: candidates of each query that are looked at, both ways; 0: all; default: as a run was validated."""
    rerank_by: str = ""
    """Encoder of vectors that proposes them, such as ViT-B-32:openai; the others stand behind in its order."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, mps."""
    judgments: Path | None = None
    """Galleries: more judgments (table or folder with judgments.jsonl) of a round of revised labels, for Entail@K."""
    positives: Path | None = None
    """Galleries of COCO: folder with CxC's and ECCV's ground truth (cxc_image_to_caption.json, …_caption_to_image.json, eccv_…), and
    with CxC's similarities (sits_test.csv, sis_test.csv, sts_test.csv)."""

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result."""
        names = (
            "split", "compare", "partial", "cluster", "recall", "resamples", "permutations", "seed", "tokenizer", "encoder",
            *(("rerank", "rerank_by") if self.rerank is not None else ()),
        )  # fmt: skip
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class EvalReport:
    """What `eval` found.

    Attributes:
        results: the artifact. runs: their names. tables: by name `<side>/<table>`, and `people`.
        notes: what one must know to believe the figures.
    """

    results: Path
    dataset: str
    runs: tuple[str, ...]
    up_to_date: bool
    tables: dict[str, Table]
    notes: tuple[str, ...]


SPLITS = ("train", "valid", "test", "none")


@dataclass(frozen=True)
class Listen:
    """Configuration of `ctxr listen`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact or published release with queries and pictures; default: the latest finished one in the workdir."""
    endpoint: str = ""
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1."""
    model: str = ""
    """Name of the model, as the server knows it."""
    split: str = "valid"
    """Side of the benchmark that is asked: train, valid, test or none."""
    limit: int = 0
    """Ask this many queries alone, a random sample that a larger limit extends; 0: all."""
    shifts: int = 1
    """Ask each query so often, the pictures turned round by equal steps, against a liking for places; 10 turn a set of ten fully."""
    side: int = 384
    """Longer side in pixels of the pictures that are sent."""
    name: str | None = None
    """What the run is called, in `runs/` of the workdir; default: as the model."""
    key_from: str = "CTXR_API_KEY"
    """Environment variable that holds the key; a local endpoint needs none."""
    at_once: int = 4
    """Requests on the way at the same time."""
    timeout: float = 120.0
    """Seconds that an answer may take before it is asked for again."""
    max_tokens: int = 64
    """Tokens of an answer; models that think aloud need thousands."""
    price_in: float = 0.0
    """Price of a million tokens that are sent."""
    price_out: float = 0.0
    """Price of a million tokens that are answered."""
    max_cost: float = 0.0
    """Stop before all replies of this run together cost more; 0: no limit. The same command with more goes on."""
    dry_run: bool = False
    """Say how many requests, tokens and how much money it would take, and ask nothing."""
    insecure: bool = False
    """Send pictures and key over plain http to another machine."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""

    def folder(self) -> Path:
        """Where the run is written."""
        return self.workdir / "runs" / (self.name or re.sub(r"[^\w.-]+", "-", self.model).strip(".-") or "listener")


@dataclass(frozen=True)
class ListenReport:
    """What `listen` heard.

    Attributes:
        run: the artifact. queries: asked about. requests: in all. answered: of them, by now.
        complete: whether every request was answered. up_to_date: whether it was there already.
        outcomes: how many replies were chosen, out_of_range, unreadable, refused.
        tokens_in, tokens_out: of all replies; in a dry run, about how many there would be.
        cost: at the given prices. uncounted: replies of which the host did not say the tokens: they are estimated.
        tables: accuracy by shift, and by place. notes: what one must know to believe the figures.
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


WAYS = ("grid", "faster-rcnn", "file")


@dataclass(frozen=True)
class RegionsConfig:
    """Configuration of `ctxr regions`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact or published release with pictures; default: the latest finished one in the workdir."""
    by: str = "grid:auto"
    """Who looks: grid:ENCODER (its feature map), faster-rcnn[:WEIGHTS.pth|.safetensors], file:FOLDER (bottom-up-attention .npz)."""
    most: int = 36
    """Regions of a picture, beside the whole of it."""
    name: str | None = None
    """What the artifact is called, in `regions/` of the workdir; default: grid, faster-rcnn or file."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, mps."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.workdir / "regions" / (self.name or self.by.partition(":")[0])


@dataclass(frozen=True)
class RegionsReport:
    """What `regions` made.

    Attributes:
        regions: the artifact. by: what looked, with its resolved name. pictures: that have regions.
        most: R, the largest number of regions of a picture with the whole of it. features: F.
        left_out: an image id for each picture that has none. up_to_date: whether it was there already.
    """

    regions: Path
    dataset: str
    by: str
    pictures: int
    most: int
    features: int
    left_out: tuple[str, ...] = ()
    up_to_date: bool = False
