# Written by `python -m scripts.api_stub`.
# fmt: off
# ruff: noqa
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from ctxr.annotation.config import ExportTasksReport
from ctxr.annotation.config import ImportAnswersReport
from ctxr.api.agreement import agreement as agreement
from ctxr.api.benchmark import Benchmark as Benchmark
from ctxr.api.benchmark import Example as Example
from ctxr.api.benchmark import load as load
from ctxr.api.evaluation import Results as Results
from ctxr.api.evaluation import evaluate as evaluate
from ctxr.engine.report import SetsReport
from ctxr.errors import CtxrError as CtxrError
from ctxr.errors import CtxrWarning as CtxrWarning
from ctxr.errors import DataError as DataError
from ctxr.errors import UnfinishedError as UnfinishedError
from ctxr.errors import UsageError as UsageError
from ctxr.pipelines.crowd.config import AggregateReport
from ctxr.pipelines.crowd.config import PlanReport
from ctxr.pipelines.crowd.config import WorkersReport
from ctxr.pipelines.curation.config import DocumentsReport
from ctxr.pipelines.curation.config import RebuildReport
from ctxr.pipelines.curation.config import VerifyReport
from ctxr.pipelines.inspection.config import DiffReport
from ctxr.pipelines.inspection.config import DoctorReport
from ctxr.pipelines.inspection.config import ReportPage
from ctxr.pipelines.inspection.config import ReproduceReport
from ctxr.pipelines.inspection.config import ShortcutsReport
from ctxr.pipelines.inspection.config import StatsReport
from ctxr.pipelines.inspection.config import StatusReport
from ctxr.pipelines.modelling.config import EvalReport
from ctxr.pipelines.modelling.config import ListenReport
from ctxr.pipelines.modelling.config import RegionsReport
from ctxr.pipelines.modelling.config import TrainReport
from ctxr.pipelines.revision.config import ReviseReport
from ctxr.pipelines.sharing.config import ExportReport
from ctxr.pipelines.sharing.config import TransferReport

AnyPath = str | Path
__version__: str
__all__ = [
    "__version__", "load", "Benchmark", "Example", "evaluate", "Results", "agreement", "CtxrError", "UsageError", "DataError",
    "UnfinishedError", "CtxrWarning", "build_sets", "filter", "merge", "plan", "export_tasks", "import_answers", "aggregate", "workers",
    "report", "export", "push", "pull", "rebuild", "verify", "build_documents", "pairs", "stats", "shortcuts", "train", "regions",
    "listen", "revise_labels", "eval", "status", "diff", "reproduce", "doctor"
]

@overload
def build_sets(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def build_sets(
    sources: AnyPath | Sequence[AnyPath] = ..., *, encoder: str = ..., threshold: float | None = ..., set_size: int = ...,
    yield_curve: bool = ..., add: bool = ..., out: AnyPath | None = ..., workdir: AnyPath = ..., retry_failed: bool = ...,
    yes: bool = ..., brisque: float | None = ..., max_text: float | None = ..., min_size: int | None = ...,
    device: Literal["auto", "cpu", "cuda", "mps"] = ..., jobs: int = ..., engine: str = ..., keep_damaged: bool = ...,
    frames: Literal["auto", "every", "search", "samples"] = ..., rate: float = ..., still_below: float = ...,
    detector: Literal["adaptive", "content", "threshold", "histogram", "hash", "ffmpeg"] = ..., min_shot: float = ...,
    splits: AnyPath | None = ..., salt: str = ..., keep_leaks: bool = ..., sample: str = ..., seed: int = ...,
    neighbours: Literal["exact", "index"] = ..., precision: Literal["auto", "fp32", "bf16"] = ...,
    brisque_weights: Literal["live", "piq"] = ..., ocr: Literal["auto", "tesserocr", "pytesseract"] = ...,
    detector_threshold: float | None = ..., decoder: Literal["auto", "pyav", "opencv"] = ..., threads: int = ...,
    stall_seconds: float = ..., time_limit: float = ..., memory_limit: float = ..., rank: int | None = ...,
    world_size: int | None = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> SetsReport:
    """Build sets of ten similar images that differ in details, from videos and photos."""

@overload
def filter(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def filter(
    *, input: AnyPath | None = ..., videos: AnyPath | None = ..., out: AnyPath | None = ..., workdir: AnyPath = ...,
    retry_failed: bool = ..., yes: bool = ..., drop: AnyPath | None = ..., keep: AnyPath | None = ..., brisque: float | None = ...,
    max_text: float | None = ..., min_size: int | None = ..., device: Literal["auto", "cpu", "cuda", "mps"] = ..., jobs: int = ...,
    engine: str = ..., brisque_weights: Literal["live", "piq"] = ..., ocr: Literal["auto", "tesserocr", "pytesseract"] = ...,
    rank: int | None = ..., world_size: int | None = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> SetsReport:
    """Remove low-quality, text-heavy or small images, and those that people rejected, and replace them."""

@overload
def merge(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def merge(
    artifact: AnyPath | None = ..., *, workdir: AnyPath = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> SetsReport:
    """Join the results of the ranks of build-sets or filter in one artifact."""

@overload
def plan(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def plan(
    *, targets: int = ..., train_needed: int = ..., train_most: int = ..., eval_needed: int = ..., eval_most: int = ...,
    full_share: float = ..., review_votes: int = ..., least_words: int = ..., sameness: float = ..., turns_before_share: int = ...,
    language: str = ..., disjoint: Literal["wholly", "partly", "none"] = ..., shared_workers: float = ..., qualification: int = ...,
    qualification_pass: float = ..., gold_every: int = ..., attention_every: int = ..., block_below: float = ..., seed: int = ...,
    input: AnyPath | None = ..., out: AnyPath | None = ..., workdir: AnyPath = ..., platform: Literal["local", "prolific"] = ...,
    right: float | None = ..., fee_percent: float | None = ..., describe_reward: int | None = ..., retrieve_reward: int | None = ...,
    per_submission: int = ..., currency: Literal["GBP", "USD"] = ..., floor: int | None = ..., describe_seconds: float | None = ...,
    retrieve_seconds: float | None = ..., target_ci: float | None = ..., resolve: float | None = ..., agreement: float | None = ...,
    model_accuracy: float = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> PlanReport:
    """Estimate what a study with people takes: answers, hours, cost with fees, pay per hour."""

@overload
def export_tasks(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def export_tasks(
    task: str = ..., *, targets: int = ..., train_needed: int = ..., train_most: int = ..., eval_needed: int = ...,
    eval_most: int = ..., full_share: float = ..., review_votes: int = ..., least_words: int = ..., sameness: float = ...,
    turns_before_share: int = ..., language: str = ..., disjoint: Literal["wholly", "partly", "none"] = ...,
    shared_workers: float = ..., qualification: int = ..., qualification_pass: float = ..., gold_every: int = ...,
    attention_every: int = ..., block_below: float = ..., seed: int = ..., input: AnyPath | None = ..., out: AnyPath | None = ...,
    workdir: AnyPath = ..., backend: Literal["local", "prolific", "label-studio"] = ..., force: bool = ..., keep_leaks: bool = ...,
    votes: int = ..., labels: str = ..., candidates: AnyPath | None = ..., objects: AnyPath | None = ..., fraction: float = ...,
    gold: AnyPath | None = ..., title: str = ..., reward: int | None = ..., seconds: float = ..., approved: int = ...,
    countries: str = ..., server: str = ..., per_submission: int = ..., currency: str = ..., devices: str = ..., launch: bool = ...,
    live: bool = ..., image_base: str = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> ExportTasksReport:
    """Write tasks for people, to be answered on our own pages or on a crowdsourcing platform."""

@overload
def import_answers(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def import_answers(
    file: AnyPath | None = ..., *, platform_of: Literal["local", "prolific", "label-studio"] = ..., out: AnyPath | None = ...,
    workdir: AnyPath = ..., tasks: str = ..., database: str = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> ImportAnswersReport:
    """Check answers from our own pages or a platform, and add them to the judgments."""

@overload
def aggregate(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def aggregate(
    *, input: AnyPath | None = ..., out: AnyPath | None = ..., workdir: AnyPath = ..., full: bool = ...,
    rule: Literal["paper", "majority"] = ..., labels: Literal["majority", "dawid-skene"] = ..., keep_blocked: bool = ...,
    disjoint: Literal["", "wholly", "partly", "none"] = ..., good: float = ..., poor: float = ..., database: str = ...,
    resamples: int = ..., seed: int = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> AggregateReport:
    """Select descriptions, measure accuracy and agreement, and write the dataset."""

@overload
def workers(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def workers(
    *, workdir: AnyPath = ..., database: str = ..., block: AnyPath | Sequence[AnyPath] = ..., allow: AnyPath | Sequence[AnyPath] = ...,
    undo: AnyPath | Sequence[AnyPath] = ..., reason: str = ..., decided_by: str = ..., withdraw: str = ..., paid: bool = ...,
    data_protection: bool = ..., settle: bool = ..., good: float = ..., poor: float = ..., dry_run: Literal[False] = ...,
    progress: bool = ...
) -> WorkersReport:
    """Show how accurate each worker is, with an interval, and what they are owed; block and allow workers, with a reason; settle with Prolific, delete the data of people who withdraw, and print what is kept about people."""

@overload
def report(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def report(
    *, input: AnyPath | None = ..., out: AnyPath | None = ..., workdir: AnyPath = ..., inside: int = ...,
    more: AnyPath | Sequence[AnyPath] = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> ReportPage:
    """Write one page about image sets, descriptions, people and results, which any browser opens without a server."""

@overload
def export(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def export(
    *,
    to: Literal["imagecode", "hf", "webdataset", "croissant", "fiftyone", "recipe", "narratives", "mteb", "photochat", "links", "mmc4"] = ...,
    input: AnyPath | None = ..., out: AnyPath | None = ..., workdir: AnyPath = ..., licences: AnyPath | None = ...,
    hide_test: bool = ..., shard_mb: int = ..., run: str = ..., videos: AnyPath | None = ..., jobs: int = ...,
    dry_run: Literal[False] = ..., progress: bool = ...
) -> ExportReport:
    """Export image sets in a common format, or as a recipe without pixels."""

@overload
def push(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def push(
    places: AnyPath | Sequence[AnyPath] = ..., *, workdir: AnyPath = ..., yes: bool = ..., dry_run: Literal[False] = ...,
    progress: bool = ...
) -> TransferReport:
    """Copy an artifact to a URL, such as a bucket: what is there already is not sent again, and the manifest comes last."""

@overload
def pull(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def pull(
    places: AnyPath | Sequence[AnyPath] = ..., *, workdir: AnyPath = ..., yes: bool = ..., dry_run: Literal[False] = ...,
    progress: bool = ...
) -> TransferReport:
    """Copy an artifact from a URL into a folder, and compare every file with its hash."""

@overload
def rebuild(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def rebuild(
    recipe: AnyPath | None = ..., *, videos: AnyPath | None = ..., jobs: int = ..., engine: str = ..., out: AnyPath | None = ...,
    workdir: AnyPath = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> RebuildReport:
    """Rebuild the images of a recipe from its videos and photos, which are recognised by content."""

def verify(
    artifact: AnyPath | None = ..., *, videos: AnyPath | None = ..., pictures: AnyPath | None = ..., workdir: AnyPath = ...,
    jobs: int = ..., engine: str = ..., progress: bool = ...
) -> VerifyReport:
    """Verify that the images of a recipe or an artifact match their sources, and list those that do not."""

@overload
def build_documents(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def build_documents(
    kind: Literal["coco", "story-dii", "story-sis", "dii-stress", "recipe"] = ..., *, dataset: AnyPath | None = ..., train: int = ...,
    valid: int = ..., test: int = ..., seed: int = ..., out: AnyPath | None = ..., workdir: AnyPath = ...,
    dry_run: Literal[False] = ..., progress: bool = ...
) -> DocumentsReport:
    """Build documents of several sentences and images with known links from the captions of a dataset."""

@overload
def pairs(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def pairs(
    source: str = ..., *, out: AnyPath | None = ..., workdir: AnyPath = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> DocumentsReport:
    """Make training pairs for an entailment classifier: an image with captions, and a text that they entail or do not."""

def stats(
    dataset: AnyPath | None = ..., *, workdir: AnyPath = ..., out: AnyPath | None = ...,
    tokenizer: Literal["auto", "spacy", "regex"] = ..., parser: str | None = ..., skip_pictures: bool = ..., near: float = ...,
    near_embedding: float = ..., encoder: str | None = ..., device: Literal["auto", "cpu", "cuda", "mps"] = ..., progress: bool = ...
) -> StatsReport:
    """Describe a benchmark, built or published: counts, language, positions, distances, phenomena, leaks."""

def shortcuts(
    dataset: AnyPath | None = ..., *, workdir: AnyPath = ..., worker: str = ..., skip_pictures: bool = ..., encoder: str | None = ...,
    device: Literal["auto", "cpu", "cuda", "mps"] = ..., progress: bool = ...
) -> ShortcutsReport:
    """Test a benchmark for shortcuts: rules that find the target without the description."""

@overload
def train(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def train(
    *, recipe: str = ..., dataset: AnyPath | None = ..., name: str | None = ..., seeds: int = ..., workdir: AnyPath = ...,
    device: Literal["auto", "cpu", "cuda", "mps"] = ..., set: AnyPath | Sequence[AnyPath] = ..., text_only: bool = ...,
    image_only: bool = ..., parity: str = ..., judgments: AnyPath | None = ..., tensorboard: bool = ..., dry_run: Literal[False] = ...,
    progress: bool = ...
) -> TrainReport:
    """Train a model with a published recipe or your own, and score the validation and test queries."""

@overload
def regions(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def regions(
    dataset: AnyPath | None = ..., *, extractor: str = ..., most: int = ..., name: str | None = ..., workdir: AnyPath = ...,
    device: Literal["auto", "cpu", "cuda", "mps"] = ..., jobs: int = ..., engine: str = ..., dry_run: Literal[False] = ...,
    progress: bool = ...
) -> RegionsReport:
    """Extract region features and boxes of every image, for models that use regions."""

def listen(
    dataset: AnyPath | None = ..., *, endpoint: str = ..., split: Literal["train", "valid", "test", "none"] = ..., limit: int = ...,
    shifts: int = ..., name: str | None = ..., workdir: AnyPath = ..., model: str = ..., side: int = ..., key_from: str = ...,
    at_once: int = ..., timeout: float = ..., max_tokens: int = ..., insecure: bool = ..., price_in: float = ...,
    price_out: float = ..., max_cost: float = ..., dry_run: bool = ..., progress: bool = ...
) -> ListenReport:
    """Evaluate a multimodal language model on the benchmark through an OpenAI-compatible endpoint."""

def revise_labels(
    dataset: AnyPath | None = ..., *, entail: bool = ..., judge: AnyPath | Sequence[AnyPath] = ..., out: AnyPath | None = ...,
    workdir: AnyPath = ..., device: Literal["auto", "cpu", "cuda", "mps"] = ..., model: str = ..., side: int = ..., key_from: str = ...,
    at_once: int = ..., timeout: float = ..., max_tokens: int = ..., insecure: bool = ..., samples: int = ..., price_in: float = ...,
    price_out: float = ..., max_cost: float = ..., dry_run: bool = ..., undo: bool = ..., redo: bool = ..., audit: bool = ...,
    round: int = ..., retriever: str = ..., top_k: int = ..., both: bool = ..., per_image: int = ..., per_caption: int = ...,
    split: Literal["all", "train", "valid", "test"] = ..., limit: int = ..., threshold: float | None = ..., unsure: float | None = ...,
    precision: float | None = ..., dev: AnyPath | None = ..., allow_leak: bool = ..., unlicensed: bool = ..., classifier: str = ...,
    epsilon: float = ..., sample: int = ..., seed: int = ..., database: str = ..., progress: bool = ...
) -> ReviseReport:
    """Find captions that are also true of other images and add them as a round of judgments that can be undone."""

@overload
def eval(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def eval(
    runs: AnyPath | Sequence[AnyPath] = ..., *, dataset: AnyPath | None = ..., workdir: AnyPath = ..., out: AnyPath | None = ...,
    split: str = ..., compare: bool = ..., partial: bool = ..., name: str | None = ..., model: AnyPath | Sequence[AnyPath] = ...,
    full: bool = ..., recall: str = ..., ties: Literal["expected", "first", "last"] = ..., trec: bool = ..., nothing_fits: bool = ...,
    judgments: AnyPath | None = ..., positives: AnyPath | None = ..., encoder: str | None = ..., regions: str = ...,
    rerank: int | None = ..., rerank_by: str = ..., device: Literal["auto", "cpu", "cuda", "mps"] = ...,
    cluster: Literal["set", "group"] = ..., resamples: int = ..., permutations: int = ..., seed: int = ..., tokenizer: str = ...,
    problem: str = ..., dry_run: Literal[False] = ..., progress: bool = ...
) -> EvalReport:
    """Evaluate and compare runs, with confidence intervals and error analysis."""

def status(
    *, workdir: AnyPath = ..., progress: bool = ...
) -> StatusReport:
    """Show what a project holds, what is stale or unfinished, and the next command."""

def diff(
    artifacts: AnyPath | Sequence[AnyPath] = ..., *, workdir: AnyPath = ..., exit_code: bool = ..., progress: bool = ...
) -> DiffReport:
    """Show what was added, removed and changed between two builds, datasets or evaluations, with intervals."""

@overload
def reproduce(*given: Any, dry_run: Literal[True], **options: Any) -> dict[str, Any]: ...
@overload
def reproduce(
    papers: AnyPath | Sequence[AnyPath] = ..., *, data: AnyPath | None = ..., workdir: AnyPath = ..., out: AnyPath | None = ...,
    dry_run: Literal[False] = ..., progress: bool = ...
) -> ReproduceReport:
    """Show which published figures of five papers follow from the data here, which are off, and what the others need."""

def doctor(
    artifact: AnyPath | None = ..., *, workdir: AnyPath = ..., scores: AnyPath | Sequence[AnyPath] = ..., reference: str = ...,
    device: Literal["auto", "cpu", "cuda", "mps"] = ..., seed: int = ..., progress: bool = ...
) -> DoctorReport:
    """Check this machine or an artifact, and suggest a fix for each problem."""
