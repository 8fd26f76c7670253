"""`ctxr demo`: a drawn world with known answers, the chain on it, what it found next to the truth, and a page to look at."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import UsageError
from ctxr.pipelines.build_sets import BuildSets
from ctxr.pipelines.filter import Filter
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.report import Report
from ctxr.pipelines.sets_report import SetsReport
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.data.world import World
    from ctxr.pipelines.demo_crowd import CrowdReport
    from ctxr.pipelines.demo_models import ModelsReport
    from ctxr.pipelines.demo_revision import RevisionReport

BRISQUE = 0.65
"""The paper's limit (ImageCoDe, section 3.1)."""

MAX_TEXT = 0.02
"""Words on a fiftieth of the picture are an overlay that a worker would describe."""

LEAST_PAIRS, LEAST_GALLERY, LEAST_LOOKS = 8, 24, 1
"""Fewer pictures of a gallery would be evaluated as a set is."""


@dataclass(frozen=True)
class Demo:
    """Configuration of `ctxr demo`; a field's text is its help."""

    out: Path = Path("demo")
    """Folder for the drawn world, the artifacts and the report."""
    seed: int = 7
    """Seed of the world; another seed draws another one."""
    videos: int = 7
    """Videos to draw; seven show every format once."""
    seconds: float = 12.0
    """Length of each video."""
    photos: int = 30
    """Photos in each of the two albums."""
    queries: int = 480
    """Drawn queries that the models are trained on; an eighth as many choose the epoch, and a third as many judge."""
    pairs: int = 240
    """Drawn pictures that the entailment classifier learns from; a quarter as many choose epoch and threshold."""
    gallery: int = 60
    """Drawn pictures whose captions are revised, on train and again on test."""
    looks: int = 60
    """Pairs of the revision that simulated people look at; a few more where there are many strata."""


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


def run(config: Demo, talk: Talk | None = None) -> DemoReport:
    """Draw the world (unless it is there), build, filter, compare."""
    from ctxr.data.world import WorldConfig, write_world
    from ctxr.data.world.films import BLUR
    from ctxr.pipelines import build_sets, filter, report
    from ctxr.pipelines.demo_crowd import run_crowd
    from ctxr.pipelines.demo_models import run_models
    from ctxr.pipelines.demo_revision import RevisionSizes, run_revision

    talk = talk or Silent()
    _check(config)
    place, work = config.out / "world", config.out / "work"
    wanted = WorldConfig(
        seed=config.seed, videos=config.videos, seconds=config.seconds, albums=2, photos_per_album=config.photos
    )
    talk.note(f"drawing {config.videos} videos and {2 * config.photos} photos into {place}, unless they are there")
    with talk.progress("draw", config.videos + 2) as task:

        def told(line: str) -> None:
            task.say(line)
            task.advance()

        world = write_world(place, wanted, progress=told)
    sources = (str(place / "videos"), str(place / "photos"))
    built = build_sets.run(BuildSets(sources=sources, workdir=work, encoder="ctxr-tiny"), talk)
    text = MAX_TEXT if _can_read(talk) else None
    filtered = filter.run(Filter(workdir=work, brisque=BRISQUE, max_text=text), talk)
    crowd = run_crowd(work, filtered.artifact, world, config.seed, talk)
    models = run_models(config.out / "models", config.queries, config.seed, talk)
    sizes = RevisionSizes(config.pairs, config.gallery, config.looks)
    revision = run_revision(config.out / "captions", sizes, config.seed, talk)
    page = report.run(Report(filtered.artifact, workdir=work, more=(str(models.page), str(revision.page))), talk).page
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


def _check(config: Demo) -> None:
    refuse_seed(config.seed)
    if config.queries < 24:
        raise UsageError(f"--queries {config.queries} are too few to train and judge on", hint="--queries 480")
    for name, count, least in (
        ("pairs", config.pairs, LEAST_PAIRS),
        ("gallery", config.gallery, LEAST_GALLERY),
        ("looks", config.looks, LEAST_LOOKS),
    ):
        if count < least:
            raise UsageError(f"--{name} {count} is too few to revise labels", hint=f"--{name} {least} at least")
    if config.out.exists() and not config.out.is_dir():
        raise UsageError(f"{config.out} is a file, not a folder", hint="choose another --out")


def _can_read(talk: Talk) -> bool:
    from ctxr.errors import CtxrError
    from ctxr.models.text_area import TextReader

    try:
        TextReader()
    except CtxrError as error:
        talk.warn(f"{error.message}; the demo goes on without text ({error.hint})")
        return False
    return True


def _key(row: Any) -> tuple[str, int]:
    return row.video, row.frame


def _flagged(artifact: Path, fact: str, limit: float, truth: Mapping[tuple[str, int], float]) -> Detection:
    """Measured frames of videos: those beyond the limit against those that are known to be so.

    `truth` is 0 for no, 1 for yes; frames in between, where a blur or a title comes or goes, have no right answer.
    """
    from ctxr.data.records import Facts
    from ctxr.data.tables import read_table

    pairs = [
        (getattr(row, fact) > limit, truth[row.source, row.index] == 1)
        for row in read_table(artifact / "facts.jsonl", Facts)
        if truth.get((row.source, row.index)) in (0, 1) and getattr(row, fact) is not None
    ]
    return Detection(pairs.count((True, True)), pairs.count((False, True)), pairs.count((True, False)))


def _duplicates(artifact: Path, world: "World") -> Detection:
    """Photos that were passed over as duplicates against photos that are drawn as copies."""
    from ctxr.data.units import read_unit

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
