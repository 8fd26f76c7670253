"""Options and report of `ctxr revise-labels`."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Annotated, Any

from ctxr.engine.options import (
    Choices,
    Device,
    JudgeEndpointOptions,
    NotDecisive,
    PathOption,
    Range,
    Since,
    Switch,
    Text,
    Workdir,
)
from ctxr.engine.report import Table
from ctxr.store.kinds import REVISE_LABELS

Cap = Annotated[int, Range(0, inf, "a whole number, 0 = no limit")]
Share = Annotated[float | None, NotDecisive, Range(0, 1, "a share above 0, at most 1", above=True)]


@dataclass(frozen=True)
class ReviseLabels(JudgeEndpointOptions):
    """Options of `ctxr revise-labels`; the key holds those that decide a round, beside the retriever, the classifier and the threshold."""

    COMMAND = REVISE_LABELS

    dataset: PathOption = None
    """Artifact whose labels are revised; default: the one revised before, or the `dataset` of the workdir."""
    entail: Switch = False
    """Mine candidates, judge them, and add the entailed ones as a new round of judgments. Without this and the next three
    options, print the plan and write nothing."""
    undo: Switch = False
    """Undo the latest round, or the one that --round names; no file is deleted."""
    redo: Switch = False
    """Redo a round that was undone."""
    audit: Switch = False
    """Report precision and recall of a round, from the answers to `ctxr export-tasks entail`."""
    round: Annotated[int, NotDecisive, Range(0, inf, "a whole number, at least 0")] = 0
    """Round to undo, redo or audit; 0 = the latest."""
    by: Text = "auto"
    """Retriever: an encoder of vectors, or a run of the project with one and without a head over sets."""
    judge: Annotated[tuple[str, ...], NotDecisive] = ()
    """Judge of the candidates: classifier:NAME, nli:DIRECTORY, itm:MODEL, endpoint:URL, file:FILE or toy; default: the only classifier
    of the project, or the toy that ships with ctxr. Several, in order, make a cascade: each is asked only about pairs that the
    one before leaves unsure, by default between 0.1 and 0.9; SPEC@0.2-0.95 sets other limits."""
    classifier: Text = ""
    """The same as --judge classifier:NAME."""
    top_k: Annotated[int, Range(1, inf, "a whole number, at least 1")] = 30
    """Candidate captions per picture."""
    both: bool = False
    """Mine the best pictures of each caption too."""
    threshold: Share = None
    """Lowest probability of a pair that counts as entailed; default: what licensed the judge, or its own threshold."""
    unsure: Share = None
    """Probability from which on a pair below the threshold is unsure: neither positive nor negative, in training and in metrics;
    default: none is."""
    precision: Share = None
    """Take the lowest threshold that reaches this precision on dev instead."""
    dev: PathOption = None
    """Pairs for --precision; default: `pairs.jsonl` of the dataset."""
    per_image: Cap = 30
    """Most captions that a round adds to a picture; 0 = no limit."""
    per_caption: Cap = 100
    """Most pictures that a round adds to a caption; 0 = no limit."""
    split: Annotated[str, Choices(("all", "train", "valid", "test"))] = "all"
    """Split to revise: all, train, valid, test."""
    limit: Cap = 0
    """Revise only the first pictures; 0 = all."""
    allow_leak: Switch = False
    """Accept pictures of valid and test that a judge was trained on; they are named, and figures are given with and without
    them."""
    unlicensed: Annotated[bool, Since(False)] = False
    """Put the round in force on valid and test although its judge has no licence; the round, the report and all figures say so."""
    epsilon: Annotated[float, NotDecisive, Range(0, 0.2, "a share from 0 to 0.2")] = 0.1
    """What a judge may be worse than a person to be licensed, since it is cheaper (--audit): 0.1 for crowd workers, 0.15 for skilled
    people, 0.2 for experts."""
    sample: Annotated[int, Range(0, inf, "a whole number, at least 0")] = 200
    """Pairs to draw for the human audit."""
    seed: Annotated[int, Range(0, inf, "a whole number, 0 or more")] = 0
    """Seed of the sample and of intervals."""
    out: PathOption = None
    """Folder to write; default: `revised` in the workdir."""
    workdir: Workdir = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: Text = ""
    """Database of `ctxr serve`, when it is not the file in the workdir (--audit)."""
    device: Device = "auto"
    """Where to compute: auto, cpu, cuda, mps."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.out or self.workdir / "revised"

    def key(self) -> dict[str, Any]:
        """What decides a round beside its judges, in whose fingerprints the options of an endpoint are."""
        return {name: value for name, value in super().key().items() if name not in JudgeEndpointOptions.describe()}

    def followup(self, *words: str) -> str:
        """Another command about the same rounds."""
        return ReviseLabels(out=self.out, workdir=self.workdir).command_line(*words)

    def entail_command(self, unlicensed: bool = False) -> str:
        """The command that adds the round which these options plan."""
        words = [*([str(self.dataset)] if self.dataset else []), "--entail"]
        unlicensed = unlicensed or self.unlicensed
        return self.command_line(*words, dataset=None, entail=False, dry_run=False, unlicensed=unlicensed)

    def rules(self) -> Iterator[tuple[str, str]]:
        """One action, one way to choose the threshold, a table of pairs, and a model for an endpoint."""
        yield from super().rules()
        if not self.model and any(spec.startswith("endpoint:") for spec in self.judge):
            yield "--model is missing", "--model NAME, as the server of --judge endpoint:URL calls it"
        actions = [name for name in ("entail", "undo", "redo", "audit") if getattr(self, name)]
        if len(actions) > 1:
            yield f"--{actions[0]} and --{actions[1]} cannot be combined", "run one after the other"
        if self.dry_run and actions and not self.entail:
            yield f"--dry-run and --{actions[0]} cannot be combined", "--dry-run goes with --entail"
        if self.judge and self.classifier:
            yield "--judge and --classifier both name the judge", f"--judge classifier:{self.classifier}"
        if self.threshold is not None and self.precision is not None:
            yield "--threshold and --precision both choose the threshold", "leave one out"
        if self.dev is not None and not self.dev.is_file():
            problem = "is a folder, not a table of pairs" if self.dev.is_dir() else "does not exist"
            yield f"{self.dev} {problem}", "--dev names a table of pairs, such as pairs.jsonl of a dataset"


@dataclass(frozen=True)
class ReviseReport:
    """The result of `revise-labels`, or its plan.

    Attributes:
        did: `planned`, `added`, `up to date`, `undone`, `redone` or `audited`. round: its number; 0 for a plan.
        facts: by name. tables: figures. leaked: images that the classifier was trained on.
    """

    revised: Path
    did: str
    round: int
    facts: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
