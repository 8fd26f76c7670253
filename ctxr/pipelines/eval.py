"""`ctxr eval`: how often runs find the right image, how sure that is, where they fail, and which of them is better."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxr.data.artifacts import Parent
    from ctxr.data.dataset import Dataset
    from ctxr.pipelines.evaluating.matching import EvalSplit
    from ctxr.pipelines.evaluating.questions import BenchmarkQuery
    from ctxr.pipelines.evaluating.results import Findings
    from ctxr.pipelines.evaluating.runs import Run


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


def run(config: Eval, talk: Talk | None = None) -> EvalReport:
    """Match scores with targets, measure, compare, and write the artifact.

    Raises UsageError for wrong arguments and unknown runs, DataError naming file:line for scores that do not fit or are not
    complete, UnfinishedError without a dataset or a run, and where what the runs were made on is not found.
    """
    recalls = _check(config)
    talk = talk or Silent()
    from ctxr.pipelines.entailing_eval import classifiers_of, evaluate_classifiers

    if classifiers := classifiers_of(config):
        return evaluate_classifiers(config, classifiers, talk)
    from ctxr.pipelines.evaluating.gallery_runs import asks_galleries
    from ctxr.pipelines.evaluating.runs import check_name, run_folders
    from ctxr.pipelines.inputs import open_dataset
    from ctxr.pipelines.lineage import common_dataset

    for source in config.runs:
        check_name(source, config.workdir)
    where = config.dataset or common_dataset(run_folders(config.runs, config.workdir), talk)
    dataset = open_dataset(where, config.workdir, talk)
    if asks_galleries(config.runs, dataset, config.workdir):
        from ctxr.pipelines.evaluating.gallery import evaluate

        return evaluate(config, dataset, recalls, talk)
    return _evaluate_sets(config, dataset, recalls, talk)


def _evaluate_sets(config: Eval, dataset: "Dataset", recalls: list[int], talk: Talk) -> EvalReport:
    """Figures of runs over sets of images, and the artifact. Raises what `run` says."""
    from ctxr.data.artifacts import Content
    from ctxr.pipelines.evaluating import beside, results
    from ctxr.pipelines.evaluating.matching import match
    from ctxr.pipelines.evaluating.measuring import telling
    from ctxr.pipelines.evaluating.outside import refuse_same_files, results_name
    from ctxr.pipelines.evaluating.questions import questions_of
    from ctxr.pipelines.evaluating.runs import Scoring, find_runs
    from ctxr.pipelines.inputs import origin_of
    from ctxr.pipelines.picture_vectors import distances_of, vectors_of

    vectors = vectors_of(dataset, config.encoder, config.device, talk) if config.encoder else None
    questions = questions_of(dataset, distances_of(dataset, vectors))
    wanted = _wanted(questions, config.split)
    scoring = Scoring(dataset, lambda: wanted, config.workdir, config.device, talk, config.regions)
    runs = find_runs(config.runs, scoring)
    names = [run.name for run in runs]
    refuse_same_files(names)
    questions, tokenizer = _counted(questions, runs, config.tokenizer)
    sides, unmatched = match(dataset, questions, runs, config.split, config.partial)
    recalls, pointless = telling(sides, recalls)
    found = _measured(config, sides, recalls, talk)
    people = beside.people(dataset)
    if people is not None:
        found.tables["people"] = people
    found.notes += [
        *dataset.notes,
        *([beside.ALONE] if config.compare and len(runs) == 1 else []),
        *unmatched,
        *pointless,
        *beside.partial_notes(sides),
        *beside.tagged_elsewhere(dataset),
        *beside.leakage_notes(dataset, sides, talk),
        *beside.contamination_notes(dataset, sides, runs),
    ]
    out = config.out or config.workdir / results.RESULTS / results_name(names)
    parents = [origin_of(dataset), *(run.origin for run in runs)]
    if config.regions:
        parents.append(_regions(config))

    def write() -> Content:
        rows = (row for side in sides for row in results.query_results(side))
        files, counts, _ = results.write_findings(out, found, rows, results.files_for_others(sides))
        counts = {"runs": len(runs)} | counts | {side.name: len(side.questions) for side in sides}
        return Content(files, counts, {"tokenizer": {"name": tokenizer}})

    settings = config.result_config() | {"runs": names}
    up_to_date = results.record(out, results.KIND, settings, parents, write, talk)
    return EvalReport(out, dataset.name, tuple(names), up_to_date, found.tables, tuple(found.notes))


def _measured(config: Eval, sides: "Sequence[EvalSplit]", recalls: list[int], talk: Talk) -> "Findings":
    """The figures of every side, and the tables of them."""
    from ctxr.pipelines.evaluating import comparing, measuring, tables
    from ctxr.pipelines.evaluating.questions import SIDES
    from ctxr.pipelines.evaluating.results import Findings

    found = Findings()
    with talk.progress("figures", len(sides)) as task:
        for side in sides:
            seed = (config.seed, SIDES.index(side.name))
            clusters = measuring.clusters_of(side, measuring.unit_of(side, config.cluster), seed, config.resamples)
            found.figures += measuring.figures(side, clusters, recalls)
            found.correlations += measuring.correlations(side, clusters)
            found.errors += measuring.errors(side)
            found.seeds += measuring.seeds(side)
            if config.compare:
                found.differences += comparing.differences(side, clusters, seed, config.permutations)
            task.advance()
    for side in sides:
        found.tables |= tables.tables_of(side, found, config.cluster)
    return found


def _check_rerank(config: Eval) -> None:
    from ctxr.models.hub import makes_pairs

    if config.rerank is not None and config.rerank < 0:
        raise UsageError(f"--rerank {config.rerank} is below 0", hint="--rerank 0 looks at every pair")
    if bool(config.rerank) != bool(config.rerank_by):
        raise UsageError(
            f"--rerank {config.rerank or 0} with --rerank-by {config.rerank_by!r} names no number of candidates and who proposes them",
            hint="--rerank 128 --rerank-by ViT-B-32:openai",
        )
    if makes_pairs(config.rerank_by):
        raise UsageError(
            f"--rerank-by {config.rerank_by} looks at pairs itself, and what proposes compares vectors",
            hint="--rerank-by ViT-B-32:openai",
        )


def _check(config: Eval) -> list[int]:
    """The ks of recall@k. Raises UsageError for what is out of range."""
    refuse_seed(config.seed)
    if config.split not in ("", "train", "valid", "test", "none"):
        raise UsageError(f"--split {config.split!r} is unknown", hint="choose train, valid, test or none")
    _check_rerank(config)
    if config.cluster not in ("set", "group"):
        raise UsageError(f"--cluster {config.cluster!r} is unknown", hint="choose set or group")
    if config.resamples < 1 or config.permutations < 1:
        raise UsageError("--resamples and --permutations must be at least 1", hint="leave them out: 10000")
    ks = [part.strip() for part in config.recall.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**6 for part in ks):
        raise UsageError(f"--recall {config.recall!r} is no list of whole numbers from 1", hint="--recall 1,5,10")
    return sorted({int(part) for part in ks})


def _wanted(questions: "dict[str, BenchmarkQuery]", split: str) -> list[str]:
    """Queries that a model is asked to score: those of the split, else of valid and test, else all."""
    sides = {split} if split else {"valid", "test"}
    return [name for name, one in questions.items() if one.side in sides] or list(questions)


def _counted(
    questions: "dict[str, BenchmarkQuery]", runs: "list[Run]", tokenizer: str
) -> "tuple[dict[str, BenchmarkQuery], str]":
    """The questions with the tokens of the texts that are evaluated, and what counted them."""
    from ctxr.models.tokens import load_tokenizer

    counter = load_tokenizer(tokenizer)
    sides = {questions[name].side for run in runs for one in run.scorers for name in one.values if name in questions}
    texts = {name: one.text for name, one in questions.items() if one.side in sides and one.right}
    lengths = {name: len(one.tokens) for name, one in zip(texts, counter.parse(texts), strict=True)}
    return {name: replace(one, tokens=lengths.get(name, 0)) for name, one in questions.items()}, counter.name


def _regions(config: Eval) -> "Parent":
    """The region features that are looked at instead of those a run was trained on."""
    from ctxr.data.artifacts import Parent
    from ctxr.data.regions import KIND, read_regions
    from ctxr.pipelines.training.paired import REGIONS

    return Parent(config.regions, KIND, read_regions(config.workdir / REGIONS / config.regions).sha256)
