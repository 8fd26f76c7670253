"""What problems are told by `ctxr train` and `ctxr eval`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Annotated

from ctxr.engine.options import Choices, Device, FreeText, NotDecisive, Options, Range, Seed, Switch, Workdir
from ctxr.store.kinds import RUNS

Name = Annotated[str | None, NotDecisive]
Draws = Annotated[int, Range(1, inf, "a number of draws, at least 1; default: 10000")]

SPLITS = ("train", "valid", "test", "none")


def invalid_name(name: str | None) -> Iterator[tuple[str, str]]:
    """The sentence and hint of a name that no folder can have."""
    if name is not None and (name in ("", ".", "..") or Path(name).name != name or not name.isprintable()):
        yield f"--name {name!r} is not a folder name", "--name first-try"


@dataclass(frozen=True)
class TrainOptions(Options):
    """What a training is told beside the values of its recipe."""

    PANELS = "Classifiers: text_only image_only; Expert: parity judgments"

    recipe: FreeText = "clip-batch"
    """clip, vilbert, uniter, blip with -zero-shot, -none, -batch, -module, -temporal; retrieval-clip, -uniter, -blip, also -weak;
    entailment, entailment-tiny; links-ap, -dc, -tk, -nostruct, -objects, -zero-shot;
    traces, -pretrain, -finetune, -patches, -heat; dialogue, -bm25, -labels, -vse, -scan;
    intent-bert, -albert, -t5, -minilm, -tiny; or a TOML file."""
    dataset: Path | None = None
    """Artifact or release with train, valid and test queries or documents, or pairs for entailment; default: the latest finished one in
    the workdir."""
    name: Name = None
    """Name of the run; default: that of its recipe."""
    seeds: Annotated[int, NotDecisive, Range(1, inf, "a number of trainings, at least 1")] = 1
    """Number of trainings, with the seeds 0, 1, 2 and so on."""
    parity: FreeText = "fixed"
    """How closely a recipe follows the paper: fixed (published numbers without known errors), paper (its text to the letter) or code (as
    the released scripts)."""
    judgments: Path | None = None
    """More judgments (table or folder with judgments.jsonl),
    whose entailed pairs are weak positives: --set weak=extra-batch."""
    workdir: Workdir = Path("work")
    device: Device = "auto"
    """Device to train on: auto, cpu, cuda, cuda:N, mps."""
    text_only: Switch = False
    """Train an entailment classifier without its image branch: --set image=."""
    image_only: Switch = False
    """Train an entailment classifier without its text branch: --set text=."""

    def folder(self, home: str = RUNS) -> Path:
        """Where the run is written, in a folder of the project."""
        recipe = Path(self.recipe)
        return self.workdir / home / (self.name or (recipe.stem if recipe.suffix == ".toml" else self.recipe))

    def rules(self) -> Iterator[tuple[str, str]]:
        """A name that a folder can have, and at least one branch."""
        yield from invalid_name(self.name)
        if self.text_only and self.image_only:
            yield "--text-only and --image-only cannot be combined", "give one of them"


@dataclass(frozen=True)
class EvalOptions(Options):
    """What an evaluation is told."""

    PANELS = (
        "Figures: recall ties trec nothing_fits judgments positives; Models: encoder regions rerank rerank_by device; "
        "Expert: cluster resamples permutations seed tokenizer problem"
    )

    runs: Annotated[tuple[str, ...], NotDecisive] = ()
    """Runs or classifiers by name or folder, score files, or encoders; default: every run, or --model alone. A score file is .jsonl or .csv
    with a query, candidate and value on each line (for dialogues, a candidate may be the number of a turn), or .npy with an array of
    queries, sorted by id, and their candidates."""
    dataset: Path | None = None
    """Artifact or published release (folder or file);
    default: the dataset of the runs, else the latest finished one in the workdir."""
    workdir: Workdir = Path("work")
    out: Path | None = None
    """Folder to write; default: `results/NAME` in the workdir, named after the run,
    or after all of them: `A-vs-B`."""
    split: str = ""
    """Evaluate only train, valid, test or none (sets without a split); default: every scored split, and for a classifier the first of
    test, valid and train that has pairs."""
    compare: bool = False
    """Test every pair of runs: differences with intervals, permutation and McNemar tests, with
    Holm's correction over all of them."""
    partial: bool = False
    """Leave out queries that some run did not score completely, and report their number."""
    cluster: Annotated[str, Choices(("set", "group"))] = "set"
    """Unit of resampling for intervals and of sign flips in tests: set or document (the target, where many share a set), or group
    (whole videos and albums)."""
    recall: str = "5"
    """Recall@k to print, on documents p@k, such as 1,5,10."""
    ties: Annotated[str, Choices(("expected", "first", "last"))] = "expected"
    """Place of right candidates among equal scores, in figures of ranks and in the files for trec_eval: first or last; or expected: figures
    are means over all orders. trec_eval sorts equal scores by name, so its figures may then differ."""
    trec: bool = False
    """Also print the figures of trec_eval: MAP (over galleries MAP@30, as far as their TREC files go), and P@k and nDCG@k at each k of
    --recall."""
    nothing_fits: bool = False
    """Remove the right candidates from half of the queries: does the highest score reveal it (AUROC, selective accuracy)?"""
    resamples: Draws = 10_000
    """Bootstrap resamples of each interval."""
    permutations: Draws = 10_000
    """Random sign patterns of a permutation test; all patterns if there are fewer."""
    seed: Seed = 0
    """Seed of intervals and tests, and of the half of --nothing-fits."""
    tokenizer: str = "auto"
    """Tokenizer that measures the length of texts: auto (spaCy where it is installed), spacy, regex."""
    encoder: Annotated[str | None, NotDecisive] = None
    """Measure distances within sets with this encoder, if the pictures exist, and on documents spread and content; default: the
    distances recorded in the sets."""
    regions: FreeText = ""
    """Region features in the workdir, by name, for models of regions; default: those that a run was trained on."""
    rerank: Annotated[int | None, Range(0, inf, "a number of candidates; 0 rescores every pair")] = None
    """Number of shortlisted candidates a cross-encoder rescores per query, in both directions (0 = all); default: as in the
    run's validation."""
    rerank_by: FreeText = ""
    """Encoder that makes the shortlist, such as ViT-B-32:openai; candidates outside it rank below, in its order."""
    device: Device = "auto"
    """Device of the encoder: auto, cpu, cuda, cuda:N, mps."""
    judgments: Path | None = None
    """More judgments (table or folder with judgments.jsonl) of a round of revised labels, for Entail@K."""
    positives: Path | None = None
    """For COCO: folder with CxC's and ECCV's ground truth (`cxc_image_to_caption.json`, `…_caption_to_image.json`, `eccv_…`), and
    with CxC's similarities (sits_test.csv, sis_test.csv, sts_test.csv)."""
    problem: str = ""
    """Problem to evaluate, such as gallery; default: the one that runs were trained for, if the dataset fits it, or else that of the
    dataset."""
    name: Name = None
    """Name of a single score file or --model; default: the scorer that the file names, or the name of the file or model."""
    model: Annotated[tuple[str, ...], NotDecisive] = ()
    """Your own model as module:function, such as my_model:score for a function in my_model.py here: it gets texts and pictures of a
    set and returns scores. They are kept as a run until the file or the dataset changes. Can be given several times."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A known split, a list of k, and both options of reranking or neither."""
        yield from invalid_name(self.name)
        if self.name and (given := len(self.runs) + len(self.model)) != 1:
            yield f"--name names one file of scores or model, and {given} runs are given", "ctxr eval FILE --name NAME"
        if self.split not in ("", *SPLITS):
            yield f"--split {self.split} is unknown", f"choose one of {', '.join(SPLITS)}"
        if not all(re.fullmatch(r"\s*0*[1-9][0-9]{0,5}\s*|\s*", part, re.ASCII) for part in self.recall.split(",")):
            yield f"--recall {self.recall!r} is not a list of whole numbers from 1", "--recall 1,5,10"
        if bool(self.rerank) != bool(self.rerank_by):
            yield "--rerank and --rerank-by need each other", "--rerank 128 --rerank-by ViT-B-32:openai"

    def ks(self) -> list[int]:
        """The k of each recall@k, in increasing order."""
        return sorted({int(part) for part in self.recall.split(",") if part.strip()})
