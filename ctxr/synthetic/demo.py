"""`ctxr demo`: the whole chain on a drawn world, next to the known truth."""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.annotation.answers import collected
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.config import ExportTasks
from ctxr.annotation.project_journal import has_journal
from ctxr.datasets.rounds import FOLDER, LEDGER, CandidateRow, checked, folder_of, read_rounds
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.report import SetsReport
from ctxr.errors import CtxrError, UsageError
from ctxr.media.text_area import TextReader
from ctxr.pipelines.crowd import aggregate, export_tasks
from ctxr.pipelines.crowd.config import Aggregate, AggregateReport
from ctxr.pipelines.crowd.people import Worker
from ctxr.pipelines.curation import build_sets, filter
from ctxr.pipelines.curation.config import BuildSets, Filter
from ctxr.pipelines.inspection import report
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.modelling import eval, regions, train
from ctxr.pipelines.modelling.config import Eval, RegionsConfig, Train
from ctxr.pipelines.revision import revise_labels
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.store.artifacts import MANIFEST, open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.kinds import JUDGMENTS
from ctxr.store.records import Facts
from ctxr.store.tables import read_table
from ctxr.store.units import read_unit
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.config import Demo
from ctxr.synthetic.rehearsal import Rehearsed, rehearse, rehearse_audit
from ctxr.synthetic.world.films import BLUR
from ctxr.synthetic.world.footage import World, WorldConfig, write_world

TUNED = ("lr=5e-4", "batch=36", "epochs=3", "schedule=cosine", "warmup=0.1")
HEADS = (
    "lr=1e-3", "weight_decay=0.01", "batch=36", "epochs=3", "schedule=cosine", "warmup=0.1", "layers=1", "inner=64",
    "start=batch", "start_at_cosine=true",
)  # fmt: skip
OVER_TINY = "encoder=ctxr-tiny"
REGIONS = "grid"

VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "zero-shot": ("clip-zero-shot", (OVER_TINY,)),
    "none": ("clip-none", (OVER_TINY, "shared_distractors=true", *TUNED)),
    "batch": ("clip-batch", (OVER_TINY, *TUNED)),
    "module": ("clip-module", (OVER_TINY, *HEADS)),
    "temporal": ("clip-temporal", (OVER_TINY, *HEADS)),
    "uniter": ("uniter-temporal", ("encoder=random:uniter-tiny:512", f"regions={REGIONS}", "lr=1e-3", "epochs=2")),
}
"""Run, its recipe, and what it changes there: a small encoder that is far from what it is tuned for takes larger steps."""

MEANING = {
    "zero-shot": "the encoder as it is",
    "none": "tuned without context",
    "batch": "tuned within each set",
    "module": "and a transformer on top",
    "temporal": "the same, with positions",
    "uniter": "cross-encoder, untaught",
}
"""What each run is, in words for a table."""


@dataclass(frozen=True)
class Accuracy:
    """Of a run on the test side: share 0..1 and its interval of 95 %, None where sets are too few for one.

    Attributes:
        video, static: on these queries alone; None where there is none.
    """

    run: str
    value: float
    low: float | None
    high: float | None
    video: float | None
    static: float | None


@dataclass(frozen=True)
class ModelsReport:
    """What the models of the demo came to.

    Attributes:
        queries: of each side. runs: in the order of `VARIANTS`. page: the report with the error browser.
    """

    queries: dict[str, int]
    runs: tuple[Accuracy, ...]
    page: Path


def run_models(work: Path, queries: int, seed: int, progress: Progress) -> ModelsReport:
    """Draw a benchmark with `queries` on train, train, evaluate, report; a demo that is run again finds everything there."""
    dataset = work / "dataset"
    write_benchmark(WorldBenchmark(dataset, queries, queries // 8, queries // 3, targets=10, seed=seed), progress)
    regions.run(RegionsConfig(dataset=dataset, by="grid:ctxr-tiny", name=REGIONS, workdir=work), progress)
    trained = [
        train.run(Train(recipe, dataset, name, changes=changes, workdir=work), progress)
        for name, (recipe, changes) in VARIANTS.items()
    ]
    results = eval.run(Eval(tuple(VARIANTS), dataset, work, split="test", compare=True), progress).results
    return ModelsReport(trained[1].queries, _accuracies(results), report.run(Report(workdir=work), progress).page)


def _accuracies(results: Path) -> tuple[Accuracy, ...]:
    import msgspec

    rows = msgspec.json.decode((results / "figures.json").read_bytes())["figures"]
    found = {(row["run"], row["part"]): row for row in rows if (row["view"], row["measure"]) == ("overall", "accuracy")}

    def accuracy(run: str) -> Accuracy:
        whole, *parts = (found.get((run, part), {}) for part in ("all", "video", "photos"))
        return Accuracy(run, whole["value"], whole["low"], whole["high"], *(part.get("value") for part in parts))

    return tuple(map(accuracy, VARIANTS))


TARGETS = 2
"""Targets of each set; three, as published, would take half as long again and show nothing more."""

BAD = ("spammer", "position-biased")
"""Kinds of simulated workers that must be found."""

GOOD = ("careful",)
"""Kinds that must not be accused; hasty ones may be either."""


@dataclass(frozen=True)
class Estimate:
    """A figure next to what the simulation put there: mean and (low, high) of 95 % of its draws."""

    name: str
    found: float | None
    mean: float
    low: float
    high: float

    @property
    def fits(self) -> bool:
        """Whether the figure lies where the simulation put it."""
        return self.found is not None and self.low <= self.found <= self.high


@dataclass(frozen=True)
class CrowdReport:
    """What the crowd of the demo did, and what was found out about it.

    Attributes:
        answers: given over HTTP. found, missed, accused: bad workers that were found or not, good ones that were accused.
    """

    answers: int
    workers: int
    kept: int
    dropped: int
    found: int
    missed: int
    accused: int
    estimates: tuple[Estimate, ...]
    dataset: Path


def run_crowd(work: Path, sets: Path, world: "World", seed: int, progress: Progress) -> CrowdReport:
    """Export, serve, work, aggregate; a demo that is run again only aggregates."""
    fingerprint = open_artifact(sets).sha256
    done = _remembered(work, fingerprint)
    if done is None:
        for name in ("tasks", "crowd", "judgments", "dataset"):  # of other sets, by this demo
            shutil.rmtree(work / name, ignore_errors=True)
        asked = ExportTasks(
            task="describe",
            workdir=work,
            targets=TARGETS,
            # in so small a world every set is worth three votes, and validation alone would keep nobody busy
            train_needed=2,
            train_most=3,
            disjoint="none",
            attention_every=10,
            seed=seed,
        )
        export_tasks.run(asked, progress)
        done = _rehearsed(work, sets, world, seed, fingerprint, progress)
    report = aggregate.run(Aggregate(workdir=work, resamples=500), progress)
    people = read_table(report.dataset / "workers.jsonl", Worker)
    return _compared(done, report, {row.worker: row for row in people})


def _rehearsed(work: Path, sets: Path, world: "World", seed: int, fingerprint: str, progress: Progress) -> "Rehearsed":
    from dataclasses import asdict

    import msgspec

    done = rehearse(work, sets, world, seed, progress)
    write_bytes(work / "rehearsal.json", msgspec.json.encode({"sets": fingerprint, "done": asdict(done)}))
    return done


def _remembered(work: Path, fingerprint: str) -> "Rehearsed | None":
    """What an earlier demo did with the same sets."""
    import msgspec

    try:
        told = msgspec.json.decode((work / "rehearsal.json").read_bytes())
        return msgspec.convert(told["done"], Rehearsed) if told["sets"] == fingerprint else None
    except (OSError, msgspec.MsgspecError, KeyError, TypeError):
        return None


def _compared(done: "Rehearsed", report: "AggregateReport", people: "Mapping[str, Worker]") -> CrowdReport:
    import msgspec

    figures = msgspec.json.decode((report.dataset / "figures.json").read_bytes())
    accuracy = next((row["value"] for row in figures["accuracy"] if row["basis"] == "all votes"), None)
    estimates = [Estimate("human accuracy", accuracy, *done.accuracy)]
    for kind, where in done.alpha.items():
        value = next(
            row["value"]
            for row in figures["agreement"]
            if (row["kind"], row["basis"], row["level"], row["on"]) == (kind, "all votes", "nominal", "image ids")
        )
        estimates.append(Estimate(f"alpha, {kind}", value, *where))
    stopped = {name for name, row in people.items() if row.blocked or row.suggestion == "block"}
    kinds = {name: kind for name, kind in done.profiles.items() if name in people}
    bad = {name for name, kind in kinds.items() if kind in BAD}
    good = {name for name, kind in kinds.items() if kind in GOOD}
    return CrowdReport(
        answers=done.answers,
        workers=len(people),
        kept=report.counts["queries"],
        dropped=sum(report.counts["dropped"].values()),
        found=len(bad & stopped),
        missed=len(bad - stopped),
        accused=len(good & stopped),
        estimates=tuple(estimates),
        dataset=report.dataset,
    )


DRAWN: dict[str, Any] = {"least": 2, "most": 4, "hypotheses": 6, "texts": 2, "say": ("Shows", "Before")}
"""What is drawn for each picture (`WorldCaptions`): captions that name objects and background only, so that they are easy to learn."""

CLASSIFIER = ("entailment-tiny", ("epochs=4", "wanted_precision=0.7"))
"""Recipe of the classifier, and what is changed there."""

RETRIEVAL = ("encoder=ctxr-tiny", "batch=96", "at_once=96", "lr=1e-4", "epochs=2", "patience=0", "precision=fp32")
"""What is changed in the recipes for retrieval: an encoder that is small enough to be tuned here."""

RUNS = {"as-written": "retrieval-clip", "weak-positives": "retrieval-clip-weak"}
"""Runs and their recipes: the same training without and with what the classifier added."""

MOST = 3
"""Captions that are added to a picture at most, the surest: so small a classifier is right about few."""

BY = "ctxr-tiny"
"""What proposes candidates, and is tuned."""

REVISION_MEANING = {
    "as-written": "tuned on the written captions",
    "weak-positives": "and on the added captions",
    BY: "the pretrained encoder",
}
"""What each run is, in words for a table."""

RESAMPLES = 1000

FEW = 150
"""Pictures that are drawn before another process has started."""

K = 10
"""Captions of a picture that Entail@K looks at."""


@dataclass(frozen=True)
class RevisionSizes:
    """Sizes of the revision.

    Attributes:
        pairs: pictures that the classifier learns from; a quarter as many choose epoch and threshold.
        gallery: pictures of train, and of test. looks: pairs of the round that people are shown, or a few more.
    """

    pairs: int
    gallery: int
    looks: int


@dataclass(frozen=True)
class Proportion:
    """A share 0..1 with its interval of 95 %; None where it is undefined."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Reliable:
    """Precision or recall of what was added: as people say who saw a sample, and as it was drawn."""

    name: str
    people: Proportion
    drawn: float | None


@dataclass(frozen=True)
class RevisionReport:
    """What the revision of the demo came to.

    Attributes:
        learned: pictures that the classifier learned from. judged: pairs that it was judged on. classifier: by name of the figure.
        pictures: whose captions were revised. threshold: probability from which on a pair was added.
        candidates, added: of the round. doubtful: of the candidates, too close to call: they count neither way in what was drawn.
        answers: people's. looked: pairs that they decided. kappa: among people, and of people with the classifier.
        entail_at: by the truth, of the runs in the order of MEANING; without what was added where nothing was.
        gain: of training with what was added over training without. page: the report.
    """

    learned: int
    judged: int
    classifier: dict[str, Proportion]
    pictures: int
    threshold: float
    candidates: int
    added: int
    doubtful: int
    answers: int
    looked: int
    kappa: dict[str, float | None]
    reliable: tuple[Reliable, ...]
    entail_at: dict[str, Proportion]
    gain: Proportion | None
    page: Path


def run_revision(work: Path, sizes: RevisionSizes, seed: int, progress: Progress) -> RevisionReport:
    """Draw captions, train and judge a classifier, revise, ask people, train retrieval with and without what was added, report.

    A demo that is run again finds everything there.
    """
    drawn = work / "dataset"
    sides: dict[str, Any] = {"train": sizes.gallery, "valid": 0, "test": sizes.gallery, "pair_train": sizes.pairs}
    workers = 2 if sum(sides.values()) > FEW else 1
    world = WorldCaptions(drawn, **sides, pair_valid=max(8, sizes.pairs // 4), seed=seed, workers=workers, **DRAWN)
    write_captions(world, progress)
    recipe, changes = CLASSIFIER
    train.run(Train(recipe, drawn, changes=changes, workdir=work), progress)
    judged = eval.run(Eval((recipe,), drawn, work, split="test", resamples=RESAMPLES), progress)
    revise_labels.run(
        ReviseLabels(entail=True, by=BY, per_image=MOST, sample=sizes.looks, seed=seed, workdir=work),
        progress,
    )
    export_tasks.run(ExportTasks(task="entail", workdir=work, seed=seed), progress)
    answers = _asked(work, drawn, seed, progress)
    revise_labels.run(ReviseLabels(audit=True, seed=seed, workdir=work), progress)
    (made,) = read_rounds(work / FOLDER)
    runs = [run for run in RUNS if made.added or run == "as-written"]
    for run in runs:
        train.run(Train(RUNS[run], work / FOLDER, run, changes=RETRIEVAL, workdir=work), progress)
    asked = Eval(
        (*runs, BY), work / FOLDER, work, split="test", compare=True, resamples=RESAMPLES, permutations=RESAMPLES
    )
    compared = eval.run(asked, progress).results
    page = report.run(Report(work / FOLDER, workdir=work), progress).page
    quality = [row for row in judged.tables["test/quality"].rows if row[1] == "all"]
    audited: dict[str, Any] = checked(work / "revision-audit" / "001") or {}
    drawn_as, doubtful = _drawn(work, drawn)
    shares, gain = _entail_at(compared)
    return RevisionReport(
        learned=sizes.pairs,
        judged=quality[0][6],
        classifier={row[2]: Proportion(*row[3:6]) for row in quality},
        pictures=made.images,
        threshold=made.threshold,
        candidates=made.candidates,
        added=made.added,
        doubtful=doubtful,
        answers=answers,
        looked=audited["revision"]["looked"],
        kappa={
            name: one["value"]
            for name, one in {**audited["between"], "people and classifier": audited["with_people"]}.items()
        },
        reliable=tuple(Reliable(name, _share(audited["revision"][name]), value) for name, value in drawn_as.items()),
        entail_at=shares,
        gain=gain,
        page=page,
    )


def _asked(work: Path, drawn: Path, seed: int, progress: Progress) -> int:
    """How many answers people gave to the sample; those of an earlier demo are kept."""
    if not has_journal(work) or not (work / JUDGMENTS / MANIFEST).is_file():
        rehearse_audit(work, drawn, seed, progress)
    return len(read_judgments(collected(work, progress)).answers)


def _drawn(work: Path, drawn: Path) -> tuple[dict[str, float | None], int]:
    """Precision and recall of what was added by the drawn truth, over all candidates but those that are too close to call; and how
    many those are."""
    truth = {row.caption: row for row in read_table(drawn / "truth.jsonl", CaptionTruth)}
    links = read_table(work / FOLDER / folder_of(1) / LEDGER, CandidateRow)
    clear = [link for link in links if link.image not in truth[link.caption].doubtful]
    right = [link.decision == "added" for link in clear if link.image in truth[link.caption].holds]
    added = sum(link.decision == "added" for link in clear)
    found = sum(right)
    shares = {"precision": found / added if added else None, "recall": found / len(right) if right else None}
    return shares, len(links) - len(clear)


def _entail_at(results: Path) -> tuple[dict[str, Proportion], Proportion | None]:
    """Entail@K of each run by the truth, and what the second gains over the first; None where there is no second."""
    import msgspec

    told = msgspec.json.decode((results / "figures.json").read_bytes())
    gold = {
        row["run"]: _share(row["found"]["value"])
        for row in told["entailed"]
        if (row["found"]["k"], row["by"]) == (K, "gold")
    }
    gains = [_share(row) for row in told["differences"] if (row["run"], row["part"]) == ("weak-positives", f"E@{K}")]
    return {run: gold[run] for run in REVISION_MEANING if run in gold}, next(iter(gains), None)


def _share(interval: Mapping[str, Any]) -> Proportion:
    return Proportion(interval["value"], interval["low"], interval["high"])


BRISQUE = 0.65
"""The paper's limit (ImageCoDe, section 3.1)."""

MAX_TEXT = 0.02
"""Words on a fiftieth of the picture are an overlay that a worker would describe."""


@dataclass(frozen=True)
class Detection:
    """How well something that was found fits what is known: hits, misses and false alarms."""

    right: int
    missed: int
    false: int

    @property
    def precision(self) -> float:
        """Share of what was found that is true; 1.0 when nothing was found."""
        return self.right / (self.right + self.false) if self.right + self.false else 1.0

    @property
    def recall(self) -> float:
        """Share of what is true that was found; 1.0 when there is nothing."""
        return self.right / (self.right + self.missed) if self.right + self.missed else 1.0


@dataclass(frozen=True)
class DemoReport:
    """What the demo found next to the truth."""

    folder: Path
    page: Path
    world: dict[str, int]
    built: SetsReport
    filtered: SetsReport
    blurred: Detection
    titled: Detection | None
    duplicates: Detection
    crowd: "CrowdReport"
    models: "ModelsReport"
    revision: "RevisionReport"


def run(config: Demo, progress: Progress | None = None) -> DemoReport:
    """Draw the world (unless it is there), build, filter, compare."""
    progress = progress or Silent()
    config.check()
    if config.out.exists() and not config.out.is_dir():
        raise UsageError(f"{config.out} is a file, not a folder", hint="choose another --out")
    place, work = config.out / "world", config.out / "work"
    wanted = WorldConfig(
        seed=config.seed, videos=config.videos, seconds=config.seconds, albums=2, photos_per_album=config.photos
    )
    progress.note(f"drawing {config.videos} videos and {2 * config.photos} photos into {place}, unless they are there")
    with progress.task("draw", config.videos + 2) as task:

        def told(line: str) -> None:
            task.say(line)
            task.advance()

        world = write_world(place, wanted, progress=told)
    sources = (str(place / "videos"), str(place / "photos"))
    built = build_sets.run(BuildSets(sources=sources, workdir=work, encoder="ctxr-tiny"), progress)
    text = MAX_TEXT if _can_read(progress) else None
    filtered = filter.run(Filter(workdir=work, brisque=BRISQUE, max_text=text), progress)
    crowd = run_crowd(work, filtered.artifact, world, config.seed, progress)
    models = run_models(config.out / "models", config.queries, config.seed, progress)
    sizes = RevisionSizes(config.pairs, config.gallery, config.looks)
    revision = run_revision(config.out / "captions", sizes, config.seed, progress)
    page = report.run(
        Report(filtered.artifact, workdir=work, more=(str(models.page), str(revision.page))), progress
    ).page
    return DemoReport(
        folder=config.out,
        page=page,
        world={"videos": len(world.videos), "frames": len(world.frames), "photos": len(world.photos)},
        built=built,
        filtered=filtered,
        blurred=_flagged(filtered.artifact, "brisque", BRISQUE, {_key(row): row.blur / BLUR for row in world.frames}),
        titled=_flagged(filtered.artifact, "text_share", text, {_key(row): row.text for row in world.frames})
        if text is not None
        else None,
        duplicates=_duplicates(built.artifact, world),
        crowd=crowd,
        models=models,
        revision=revision,
    )


def _can_read(progress: Progress) -> bool:
    try:
        TextReader()
    except CtxrError as error:
        progress.warn(f"{error.message}; the demo continues without the text filter ({error.hint})")
        return False
    return True


def _key(row: Any) -> tuple[str, int]:
    return row.video, row.frame


def _flagged(artifact: Path, fact: str, limit: float, truth: Mapping[tuple[str, int], float]) -> Detection:
    """Measured frames of videos: those beyond the limit against those that are known to be so.

    `truth` is 0 for no, 1 for yes; frames in between, where a blur or a title comes or goes, have no right answer.
    """
    pairs = [
        (getattr(row, fact) > limit, truth[row.source, row.index] == 1)
        for row in read_table(artifact / "facts.jsonl", Facts)
        if truth.get((row.source, row.index)) in (0, 1) and getattr(row, fact) is not None
    ]
    return Detection(pairs.count((True, True)), pairs.count((False, True)), pairs.count((True, False)))


def _duplicates(artifact: Path, world: "World") -> Detection:
    """Photos that were passed over as duplicates against photos that are drawn as copies."""
    copies = {(row.album, row.photo) for row in world.photos if row.copy}
    group = {(row.album, row.photo): (row.album, row.group) for row in world.photos}
    # of a photo and its copy the one with the later name is passed over: either is right
    copied = {group[one] for one in copies}
    albums = {row.album for row in world.photos}
    found = {
        (album, row.name or "")
        for album in albums
        for row in read_unit(artifact, album).ledger
        if row.reason == "duplicate"
    }
    right = sum(group[one] in copied for one in found)
    return Detection(right, max(0, len(copies) - right), len(found) - right)
