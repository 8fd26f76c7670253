"""`ctxr demo`: the whole chain on a drawn world, next to the known truth."""

import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from ctxr.annotation.answers import collected
from ctxr.annotation.artifacts import read_judgments
from ctxr.annotation.project_journal import has_journal
from ctxr.cli.render import Block
from ctxr.cli.verbs import VERBS, named
from ctxr.cli.views import image_sets
from ctxr.datasets.rounds import FOLDER, LEDGER, CandidateRow, folder_of, read_rounds
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.progress import Progress, Silent
from ctxr.engine.report import SetsReport, Table
from ctxr.errors import CtxrError, UsageError
from ctxr.media.text_area import TextReader
from ctxr.pipelines.crowd.config import AggregateReport
from ctxr.pipelines.crowd.people import Worker
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


def run_command(verb: str, progress: Progress, /, **options: Any) -> Any:
    """Run a command of the table with these options; returns its report."""
    command = VERBS[verb]
    return named(command.run)(named(command.config)(**options), progress)


TUNED = ("lr=5e-4", "batch=36", "epochs=3", "schedule=cosine", "warmup=0.1")
HEADS = (
    "lr=1e-3", "weight_decay=0.01", "batch=36", "epochs=3", "schedule=cosine", "warmup=0.1", "layers=1", "inner=64",
    "start=batch", "start_at_cosine=true",
)  # fmt: skip
OVER_TINY = "encoder=ctxr-tiny"
REGIONS = "grid"

FEW = 150
"""Pictures, or sets of them, that are drawn before another process has started."""

VARIANTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "zero-shot": ("clip-zero-shot", (OVER_TINY,)),
    "none": ("clip-none", (OVER_TINY, "shared_distractors=true", *TUNED)),
    "batch": ("clip-batch", (OVER_TINY, *TUNED)),
    "module": ("clip-module", (OVER_TINY, *HEADS)),
    "temporal": ("clip-temporal", (OVER_TINY, *HEADS)),
    "uniter": ("uniter-temporal", ("encoder=random:uniter-tiny:512", f"regions={REGIONS}", "lr=1e-3", "epochs=2")),
}
"""Run, its recipe, and what it changes there: a small encoder that is far from what it is tuned for takes larger steps."""


@dataclass(frozen=True)
class DemoReport:
    """What each part of the chain found in the drawn world, next to the truth.

    Attributes:
        pages: the reports on the sets, on the models, and on the revision of labels. tables: by part of the chain.
    """

    folder: Path
    pages: tuple[Path, Path, Path]
    built: SetsReport
    filtered: SetsReport
    tables: dict[str, Table]


BRISQUE = 0.65
"""The paper's limit (ImageCoDe, section 3.1)."""

MAX_TEXT = 0.02
"""Words on a fiftieth of the picture are an overlay that a worker would describe."""


def run(config: Demo, progress: Progress | None = None) -> DemoReport:
    """Draw the world, run the chain on it, and compare; a demo that is run again finds everything there."""
    progress = progress or Silent()
    config.check()
    if config.out.exists() and not config.out.is_dir():
        raise UsageError(f"{config.out} is a file, not a folder", hint="choose another --out")
    folder, work = config.out / "world", config.out / "work"
    wanted = WorldConfig(config.seed, config.videos, config.seconds, albums=2, photos_per_album=config.photos)
    progress.note(f"drawing {config.videos} videos and {2 * config.photos} photos into {folder}, unless they are there")
    with progress.task("draw", config.videos + 2) as task:

        def advance(line: str) -> None:
            task.say(line)
            task.advance()

        world = write_world(folder, wanted, progress=advance)
    sources = (str(folder / "videos"), str(folder / "photos"))
    built: SetsReport = run_command("build-sets", progress, sources=sources, workdir=work, encoder="ctxr-tiny")
    text = MAX_TEXT if _can_read(progress) else None
    filtered: SetsReport = run_command("filter", progress, workdir=work, brisque=BRISQUE, max_text=text)
    tables = {"detected": _detected(built.artifact, filtered.artifact, world, text)}
    tables |= run_crowd(work, filtered.artifact, world, config.seed, progress)
    accuracy, models = run_models(config.out / "models", config.queries, config.seed, progress)
    more, revision = run_revision(config.out / "captions", config, progress)
    links = (str(models), str(revision))
    page = run_command("report", progress, input=filtered.artifact, workdir=work, more=links).page
    return DemoReport(config.out, (page, models, revision), built, filtered, tables | {"accuracy": accuracy} | more)


def _can_read(progress: Progress) -> bool:
    try:
        TextReader()
    except CtxrError as error:
        progress.warn(f"{error.message}; the demo continues without the text filter ({error.hint})")
        return False
    return True


def _detected(built: Path, filtered: Path, world: World, text: float | None) -> Table:
    """How well what was measured fits what was drawn."""
    rows = [("blurred frames", *_flagged(filtered, "brisque", BRISQUE, world, "blur", full=BLUR))]
    if text is not None:
        rows.append(("frames with text", *_flagged(filtered, "text_share", text, world, "text", full=1)))
    rows.append(("duplicate photos", *_duplicates(built, world)))
    shown = tuple(
        (name, hits, missed, false, _share(hits, hits + false), _share(hits, hits + missed))
        for name, hits, missed, false in rows
    )
    heads = ("", "found", "missed", "false", "precision", "recall")
    note = "frames in which a blur or a title comes or goes have no right answer and are not counted"
    return Table("Found next to the truth", heads, shown, note, digits=2)


def _share(part: int, whole: int) -> float:
    """1.0 where there is nothing to find."""
    return part / whole if whole else 1.0


def _flagged(
    artifact: Path, fact: str, limit: float, world: World, column: str, *, full: float
) -> tuple[int, int, int]:
    """Hits, misses and false alarms among measured frames beyond the limit; frames in between have no right answer."""
    truth = {(row.video, row.frame): getattr(row, column) / full for row in world.frames}
    pairs = [
        (getattr(row, fact) > limit, truth[row.source, row.index] == 1)
        for row in read_table(artifact / "facts.jsonl", Facts)
        if truth.get((row.source, row.index)) in (0, 1) and getattr(row, fact) is not None
    ]
    return pairs.count((True, True)), pairs.count((False, True)), pairs.count((True, False))


def _duplicates(artifact: Path, world: World) -> tuple[int, int, int]:
    """The same of photos that were excluded as duplicates; of a photo and its copy the one with the later name is: either is right."""
    copied = [(row.album, row.group) for row in world.photos if row.copy]
    group = {(row.album, row.photo): (row.album, row.group) for row in world.photos}
    excluded = [
        group[album, row.name or ""]
        for album in sorted({row.album for row in world.photos})
        for row in read_unit(artifact, album).ledger
        if row.reason == "duplicate"
    ]
    hits = sum(photo in copied for photo in excluded)
    return hits, max(0, len(copied) - hits), len(excluded) - hits


TARGETS = 2
"""Targets of each set; three, as published, would take half as long again and show nothing more."""

BAD = ("spammer", "position-biased")
"""Kinds of simulated workers that must be found."""

GOOD = ("careful",)
"""Kinds that must not be accused; hasty ones may be either."""


def run_crowd(work: Path, sets: Path, world: World, seed: int, progress: Progress) -> dict[str, Table]:
    """Export, serve, work, aggregate; a demo that is run again only aggregates."""
    fingerprint = open_artifact(sets).sha256
    done = _remembered(work, fingerprint)
    if done is None:
        for name in ("tasks", "crowd", "judgments", "dataset"):  # of other sets, by this demo
            shutil.rmtree(work / name, ignore_errors=True)
        # in so small a world every set is worth three votes, and validation alone would keep nobody busy
        protocol = {"targets": TARGETS, "train_needed": 2, "train_most": 3, "disjoint": "none", "attention_every": 10}
        run_command("export-tasks", progress, task="describe", workdir=work, seed=seed, **protocol)
        done = rehearse(work, sets, world, seed, progress)
        write_bytes(work / "rehearsal.json", msgspec.json.encode({"sets": fingerprint, "done": asdict(done)}))
    return _compared(done, run_command("aggregate", progress, workdir=work, resamples=500))


def _remembered(work: Path, fingerprint: str) -> Rehearsed | None:
    """What an earlier demo did with the same sets."""
    try:
        note = msgspec.json.decode((work / "rehearsal.json").read_bytes())
        return msgspec.convert(note["done"], Rehearsed) if note["sets"] == fingerprint else None
    except (OSError, msgspec.MsgspecError, KeyError, TypeError):
        return None


def _compared(done: Rehearsed, aggregated: AggregateReport) -> dict[str, Table]:
    """The work of the crowd; and its figures next to where the simulation put them."""
    figures = msgspec.json.decode((aggregated.dataset / "figures.json").read_bytes())
    accuracy = next((row["value"] for row in figures["accuracy"] if row["basis"] == "all votes"), None)
    alphas = {
        row["kind"]: row["value"]
        for row in figures["agreement"]
        if (row["basis"], row["level"], row["on"]) == ("all votes", "nominal", "image ids")
    }
    estimates = [("human accuracy", accuracy, *done.accuracy)]
    estimates += [(f"alpha, {kind}", alphas[kind], *draws) for kind, draws in done.alpha.items()]
    people = {row.worker: row for row in read_table(aggregated.dataset / "workers.jsonl", Worker)}
    stopped = {name for name, row in people.items() if row.blocked or row.suggestion == "block"}
    bad, good = (
        {name for name, kind in done.profiles.items() if name in people and kind in kinds} for kinds in (BAD, GOOD)
    )
    counts = aggregated.counts
    work = (done.answers, len(people), counts["queries"], sum(counts["dropped"].values()))
    heads = ("answers", "workers", "kept", "dropped", "bad found", "bad missed", "good accused")
    return {
        "crowd": Table(
            "The simulated crowd", heads, ((*work, len(bad & stopped), len(bad - stopped), len(good & stopped)),)
        ),
        "estimates": Table(
            "Figures of the crowd next to the simulation",
            ("", "found", "expected", "low", "high"),
            tuple(estimates),
            "low, high: 95 % of the simulation's draws",
        ),
    }


def run_models(work: Path, queries: int, seed: int, progress: Progress) -> tuple[Table, Path]:
    """Draw a benchmark with `queries` on train, train and evaluate each variant: accuracies, and the report."""
    dataset = work / "dataset"
    sizes: dict[str, Any] = {"train": queries, "valid": queries // 8, "test": queries // 3}
    workers = 2 if queries > FEW else 1
    write_benchmark(WorldBenchmark(dataset, **sizes, targets=10, seed=seed, workers=workers), progress)
    run_command("regions", progress, dataset=dataset, by="grid:ctxr-tiny", name=REGIONS, workdir=work)
    for name, (recipe, changes) in VARIANTS.items():
        run_command("train", progress, recipe=recipe, dataset=dataset, name=name, changes=changes, workdir=work)
    results = {"dataset": dataset, "workdir": work, "split": "test", "compare": True}
    accuracy = run_command("eval", progress, runs=tuple(VARIANTS), **results).tables["test/accuracy"]
    few = f"trained on {queries} drawn descriptions: too few to tell neighbours apart (docs/log.md has the larger run)"
    runs = "none: tuned without context, batch: within each set, module: with a transformer on top, temporal: and positions"
    shown = replace(accuracy, note=f"{few}; {runs}; {accuracy.note}")
    return shown, run_command("report", progress, workdir=work).page


DRAWN: dict[str, Any] = {"least": 2, "most": 4, "hypotheses": 6, "texts": 2, "say": ("Shows", "Before")}
"""Options of `WorldCaptions` for each picture: captions name objects and background only, which is easy to learn."""

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

RESAMPLES = 1000


def run_revision(work: Path, sizes: Demo, progress: Progress) -> tuple[dict[str, Table], Path]:
    """Draw captions, train and judge a classifier, revise, ask people, train retrieval with and without what was added, report."""
    dataset, revised, seed = work / "dataset", work / FOLDER, sizes.seed
    pictures: dict[str, Any] = {"train": sizes.gallery, "valid": 0, "test": sizes.gallery, "pair_train": sizes.pairs}
    workers = 2 if sum(pictures.values()) > FEW else 1
    pictures["pair_valid"] = max(8, sizes.pairs // 4)
    write_captions(WorldCaptions(dataset, **pictures, seed=seed, workers=workers, **DRAWN), progress)
    recipe, changes = CLASSIFIER
    run_command("train", progress, recipe=recipe, dataset=dataset, changes=changes, workdir=work)
    test: dict[str, Any] = {"workdir": work, "split": "test", "resamples": RESAMPLES}
    judged = run_command("eval", progress, runs=(recipe,), dataset=dataset, **test)
    revision: dict[str, Any] = {"entail": True, "by": BY, "per_image": MOST, "sample": sizes.looks}
    run_command("revise-labels", progress, seed=seed, workdir=work, **revision)
    run_command("export-tasks", progress, task="entail", workdir=work, seed=seed)
    answers = _answers(work, dataset, seed, progress)
    audit = run_command("revise-labels", progress, audit=True, seed=seed, workdir=work)
    (first,) = read_rounds(revised)
    runs = [run for run in RUNS if first.added or run == "as-written"]
    for run in runs:
        run_command("train", progress, recipe=RUNS[run], dataset=revised, name=run, changes=RETRIEVAL, workdir=work)
    comparison = {"compare": True, "permutations": RESAMPLES} | test
    compared = run_command("eval", progress, runs=(*runs, BY), dataset=revised, **comparison).tables
    quality, reliability = judged.tables["test/quality"], audit.tables["reliability"]
    note = f"{first.images} pictures; {answers} answers of simulated people; the classifier learned from {sizes.pairs} pictures: too few"
    gold = tuple(row for row in compared["test/entailed"].rows if row[2] == "gold")
    tables = {
        "classifier": replace(quality, rows=tuple(row for row in quality.rows if row[1] == "all")),
        "reliability": replace(
            reliability, rows=(*reliability.rows, _by_truth(work, dataset)), note=f"{note}; {reliability.note}"
        ),
        "entailed": replace(compared["test/entailed"], rows=gold),
        "differences": compared["test/differences"],
    }
    return tables, run_command("report", progress, input=revised, workdir=work).page


def _answers(work: Path, dataset: Path, seed: int, progress: Progress) -> int:
    """How many answers people gave to the sample; those of an earlier demo are kept."""
    if not has_journal(work) or not (work / JUDGMENTS / MANIFEST).is_file():
        rehearse_audit(work, dataset, seed, progress)
    return len(read_judgments(collected(work, progress)).answers)


def _by_truth(work: Path, dataset: Path) -> tuple[str, int, str, str, str]:
    """Precision and recall of what was added, in percent, by the truth; candidates that are too close to call are left out."""
    truth = {row.caption: row for row in read_table(dataset / "truth.jsonl", CaptionTruth)}
    links = read_table(work / FOLDER / folder_of(1) / LEDGER, CandidateRow)
    clear = [link for link in links if link.image not in truth[link.caption].doubtful]
    holding = [link.decision == "added" for link in clear if link.image in truth[link.caption].holds]
    added, hits = sum(link.decision == "added" for link in clear), sum(holding)
    precision, recall = (f"{100 * hits / whole:.1f}" if whole else "–" for whole in (added, len(holding)))
    return "what was added, by the drawn truth", added, precision, recall, f"{len(holding)}"


def show(report: DemoReport) -> Iterator[Block]:
    """What each part of the chain found in the drawn world, next to the truth."""
    yield from image_sets(report.built)
    yield ""
    yield from image_sets(report.filtered)
    yield from report.tables.values()
    sets, models, revision = report.pages
    yield (
        f"\n[bold]open[/]      {sets} in a browser; {report.filtered.artifact / 'images'};\n"
        f"          {models}, with each model's choice and attention;\n"
        f"          {revision}, with what was added to each picture"
    )
    yield (
        "[bold]next[/]      ctxr build-sets FOLDER      videos or photos, any number\n"
        "          ctxr build-sets --yield-curve\n"
        "          ctxr filter --brisque 0.65 --max-text 0.02\n"
        "          ctxr report\n"
        "          ctxr export-tasks describe; ctxr serve --invite 5; ctxr aggregate\n"
        "          ctxr train --recipe clip-batch; ctxr train --recipe clip-temporal; ctxr eval --compare; ctxr report\n"
        "          ctxr train --recipe entailment --dataset PAIRS; ctxr revise-labels --entail\n"
        "          ctxr doctor work/filtered"
    )
