"""Options and report of `ctxr revise-labels`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Any

from ctxr.engine.options import Choices, Device, FreeText, JudgeEndpointOptions, NotDecisive, Range, Switch, Workdir
from ctxr.engine.report import Table, VerbReport
from ctxr.store.kinds import REVISE_LABELS

Cap = Annotated[int, Range(0, inf, "a whole number, 0 = no limit")]
Share = Annotated[float | None, NotDecisive, Range(0, 1, "a share above 0, at most 1", above=True)]


@dataclass(frozen=True)
class ReviseLabels(JudgeEndpointOptions):
    """Options of `ctxr revise-labels`; the key holds those that decide a round, beside the retriever, the classifier and the threshold."""

    COMMAND = REVISE_LABELS
    ARGUMENT = "dataset"
    FOLDER = "revised"
    PANELS = (
        "Rounds: undo redo audit round; Candidates: retriever top_k both per_image per_caption split limit; "
        "Judge: threshold unsure precision dev allow_leak unlicensed; Expert: classifier epsilon sample seed database"
    )

    dataset: Path | None = None
    """What is revised: an artifact with descriptions, a folder of photos with captions, or a release such as COCO captions; default: the
    one revised before, or the `dataset` of the workdir."""
    entail: Switch = False
    """Mine candidates, judge them, and add the entailed ones as a new round of judgments. Without --entail, --undo, --redo and --audit,
    print the plan and write nothing, as --entail --dry-run does."""
    undo: Switch = False
    """Undo the latest round, or the one that --round names; no file is deleted."""
    redo: Switch = False
    """Redo a round that was undone."""
    audit: Switch = False
    """Report precision and recall of a round, from the answers to `ctxr export-tasks entail`."""
    round: Annotated[int, NotDecisive, Range(0, inf, "a whole number, at least 0")] = 0
    """Round to undo, redo or audit; 0 = the latest."""
    retriever: FreeText = "auto"
    """Retriever that proposes the candidates: an encoder of vectors, or a run of ctxr train without a head over sets; auto: that of the
    latest round, in the first round ViT-B-32:openai."""
    judge: Annotated[tuple[str, ...], NotDecisive] = ()
    """Judge of the candidates: classifier:NAME, nli:DIRECTORY, itm:MODEL, endpoint:URL or endpoint:URL#MODEL, file:FILE (rows of image,
    caption and p, by the ids in the ledger of a round) or toy; default: the only classifier of the project, or the toy that ships
    with ctxr. Several, in order, make a cascade: each judge is asked only about pairs that those before it leave unsure, by default
    between 0.1 and 0.9; SPEC@0.2-0.95 sets other limits."""
    classifier: FreeText = ""
    """The same as --judge classifier:NAME."""
    top_k: Annotated[int, Range(1, inf, "a whole number, at least 1")] = 30
    """Candidate captions per picture (with --both, candidate pictures per caption too)."""
    both: bool = False
    """Propose the best pictures of each caption too."""
    threshold: Share = None
    """Lowest probability of a pair that counts as entailed; default: that of the judge's licence, or its own."""
    unsure: Share = None
    """Lowest probability of a pair that counts as unsure, when it is below the threshold: the pair is neither positive nor negative, in
    training and in metrics; default: no pair is unsure."""
    precision: Share = None
    """Choose the lowest threshold that reaches this precision on the pairs of --dev; with --audit, the precision that the threshold
    of a licence must reach, by default 0.8."""
    dev: Path | None = None
    """Pairs for --precision; default: `pairs.jsonl` of the dataset."""
    per_image: Cap = 30
    """Maximum number of captions that a round adds to a picture; 0 = no limit."""
    per_caption: Cap = 100
    """Maximum number of pictures that a round adds to a caption; 0 = no limit."""
    split: Annotated[str, Choices(("all", "train", "valid", "test"))] = "all"
    """Split to revise: all, train, valid, test."""
    limit: Cap = 0
    """Revise only the first pictures; 0 = all."""
    allow_leak: Switch = False
    """Accept pictures of valid and test that a judge was trained on; the report names them and gives figures with and without
    them."""
    unlicensed: bool = False
    """Count the round on valid and test although its judge has no licence; the round, the report and all figures say so."""
    epsilon: Annotated[float, NotDecisive, Range(0, 0.2, "a share from 0 to 0.2")] = 0.1
    """How much worse than a person a judge may be and still be licensed (--audit): 0.1 against crowd workers, 0.15 against skilled
    people, 0.2 against experts."""
    sample: Annotated[int, Range(0, inf, "a whole number, at least 0")] = 200
    """Pairs to draw for people to audit."""
    seed: Annotated[int, Range(0, inf, "a whole number, 0 or more")] = 0
    """Seed of the sample and of the intervals."""
    out: Path | None = None
    """Folder to write; default: `revised` in the workdir."""
    workdir: Workdir = Path("work")
    database: FreeText = ""
    """Database of `ctxr serve`, when it is not the file in the workdir (--audit)."""
    device: Device = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N, mps."""

    def key(self) -> dict[str, object]:
        """What decides a round beside its judges, in whose fingerprints the options of an endpoint are."""
        return {name: value for name, value in super().key().items() if name not in JudgeEndpointOptions.describe()}

    def settings(self) -> dict[str, object]:
        """What decides a round, by option; those of an endpoint only where it is asked for a model."""
        return super().key() if self.model else self.key()

    def followup(self, *words: str) -> str:
        """Another command about the same rounds."""
        return ReviseLabels(out=self.out, workdir=self.workdir).command_line(*words)

    def entail_command(self, unlicensed: bool = False) -> str:
        """The command that adds the round which these options plan."""
        return self.command_line(entail=True, dry_run=False, unlicensed=unlicensed or self.unlicensed)

    def rules(self) -> Iterator[tuple[str, str]]:
        """One action, one way to choose the threshold, a table of pairs, and a model for an endpoint."""
        yield from super().rules()
        if self.round and not (self.undo or self.redo or self.audit):
            yield f"--round {self.round} names no round to change", "--round goes with --undo, --redo or --audit"
        if self.unsure is not None and self.threshold is not None and self.unsure > self.threshold:
            yield f"--unsure {self.unsure:g} lies above --threshold {self.threshold:g}", "a lower --unsure"
        actions = [name for name in ("entail", "undo", "redo", "audit") if getattr(self, name)]
        if len(actions) > 1:
            yield f"--{actions[0]} and --{actions[1]} cannot be combined", "run one after the other"
        if not self.model and any(spec.startswith("endpoint:") and "#" not in spec for spec in self.judge):
            yield (
                "--model is missing",
                "--model NAME, as the server of --judge endpoint:URL calls it, or endpoint:URL#NAME",
            )
        if self.judge and self.classifier:
            yield "--judge and --classifier both name the judge", f"--judge classifier:{self.classifier}"
        if self.threshold is not None and self.precision is not None:
            yield "--threshold and --precision both choose the threshold", "leave one out"
        if self.dev is not None and not self.dev.is_file():
            problem = "is a folder, not a table of pairs" if self.dev.is_dir() else "does not exist"
            yield f"{self.dev} {problem}", "--dev names a table of pairs, such as pairs.jsonl of a dataset"


@dataclass(frozen=True)
class ReviseReport(VerbReport):
    """The result of `revise-labels`, or its plan, whose round is 0. It `did` one of `planned`, `added`, `up to date`, `undone`, `redone`
    and `audited`; `leaked` are images that a judge was trained on."""

    revised: Path
    did: str
    round: int
    facts: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
    up_to_date: bool = False
