"""Options and report of `ctxr revise-labels`."""

import shlex
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxr.engine.report import Table
from ctxr.store.kinds import REVISE_LABELS

SIDES = ("all", "train", "valid", "test")


@dataclass(frozen=True)
class ReviseLabels:
    """Configuration of `ctxr revise-labels`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact whose labels are revised; default: the one revised before, or the `dataset` of the workdir."""
    entail: bool = False
    """Mine candidates, ask the classifier, and add what is entailed as a new round of judgments. Without it, and without the
    next three, nothing is written: it says what would be done."""
    undo: bool = False
    """Take back the latest round, or the one that --round names; nothing is deleted."""
    redo: bool = False
    """Put a round that was taken back in force again."""
    audit: bool = False
    """Say how right a round is, from what people answered to `ctxr export-tasks entail`."""
    round: int = 0
    """Round that --undo, --redo and --audit are about; 0 = the latest."""
    by: str = "auto"
    """Retrieval model that proposes: an encoder, or a run of the project without a head over sets."""
    classifier: str = ""
    """Classifier of `ctxr train --recipe entailment` that decides; default: the only one of the project."""
    top_k: int = 30
    """Captions that are looked at for each picture."""
    both: bool = False
    """Look at the best pictures of each caption too."""
    threshold: float | None = None
    """Probability from which on a pair counts as entailed; default: the classifier's own."""
    precision: float | None = None
    """Take the lowest threshold that reaches this precision on dev instead."""
    dev: Path | None = None
    """Pairs for --precision; default: `pairs.jsonl` of the dataset."""
    per_image: int = 30
    """Captions that a round adds to a picture at most; 0 = any number."""
    per_caption: int = 100
    """Pictures that a round adds to a caption at most; 0 = any number."""
    split: str = "all"
    """Side that is revised: all, train, valid, test."""
    limit: int = 0
    """Revise the first pictures alone; 0 = all."""
    allow_leak: bool = False
    """Let the classifier judge pictures of valid and test that it was trained on; they are named, and figures stand beside those
    without them."""
    sample: int = 200
    """Pairs that are drawn for people to look at."""
    seed: int = 0
    """Seed of the sample and of intervals."""
    out: Path | None = None
    """Folder to write; default: `revised` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    database: str = ""
    """Database of `ctxr serve`, when it is not the file in the workdir (--audit)."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, mps."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.out or self.workdir / "revised"

    def again(self, *words: str) -> str:
        """Another command about the same rounds."""
        places = [*(["--out", str(self.out)] if self.out else [])]
        places += ["--workdir", str(self.workdir)] if self.workdir != ReviseLabels.workdir else []
        return shlex.join(["ctxr", REVISE_LABELS, *words, *places])


@dataclass(frozen=True)
class ReviseReport:
    """What `revise-labels` did, or would do.

    Attributes:
        did: `planned`, `added`, `up to date`, `taken back`, `in force again` or `audited`. round: its number; 0 for a plan.
        facts: what there is, by name. tables: figures. leaked: images that the classifier was trained on.
    """

    revised: Path
    did: str
    round: int
    facts: dict[str, Any]
    tables: dict[str, Table] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    leaked: tuple[str, ...] = ()
