"""How sources become image sets: what decides a unit, the scan of a video, the pool of all photos."""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any

from ctxr.datasets.splits import SPLITS, SPLITS_TABLE, assign_splits, read_published
from ctxr.engine.progress import Progress
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs
from ctxr.engine.units import WorkUnit
from ctxr.errors import DataError, UsageError, and_more, plural, some
from ctxr.media.decoder_process import ScanOptions
from ctxr.media.scan import Scanner
from ctxr.media.shots import check_detector
from ctxr.media.sources import InputSource, find_sources
from ctxr.media.video import VideoHeader
from ctxr.models.encoders import Encoder, check_name, load_encoder
from ctxr.pipelines.curation.config import SCAN_LIMITS, BuildSets
from ctxr.pipelines.curation.copies import CopyRule, SourceHashes, shared_footage
from ctxr.pipelines.curation.image_sets import SetsJob, SetsStage, VideoJob
from ctxr.pipelines.curation.losses import gone
from ctxr.pipelines.curation.photos import PhotoPicking, PhotoPool, gather_pool, has_shard, hashes_of
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext, pick_from_ledger, scan_video
from ctxr.store.artifacts import Artifact, Parent, earlier_manifest, package_versions
from ctxr.store.hashing import sha256_of
from ctxr.store.paths import last_path, remember_paths
from ctxr.store.records import Failure, Split, SplitName
from ctxr.store.tables import read_table
from ctxr.store.units import SourceUnit, Stamp, finished_unit, read_unit, unit_sources

EARLIER_SPLITS = "splits"
"""Kind of the parent that stands for splits that an earlier run dealt."""


class BuildStage(SetsStage):
    """Builds image sets from sources."""

    options: BuildSets
    nothing = "the warnings above give every reason"

    def inputs(self, progress: Progress) -> Inputs:
        """The sources, which are known by their content, and the encoder, which is loaded once it is needed."""
        options = self.options
        check_detector(options.detector, options.detector_threshold)
        check_name(options.encoder)
        published = read_published(options.splits) if options.splits else {}
        search = find_sources([*options.sources, *(self._earlier() if options.add else ())], progress)
        for remark in search.remarks():
            progress.warn(remark)
        for source in search.found:
            if Path(os.path.realpath(source.path)).is_relative_to(self.out().resolve()):  # also of a link to itself
                raise UsageError(
                    f"{source.path} lies inside the artifact folder {self.out()}", hint="choose another --out"
                )
        load = partial(_load_encoder, options, progress, precision=options.precision)
        parents = [Parent(source.name, source.kind, source.sha256) for source in search.found]
        if options.add and not options.yes and (lost := gone(self.out(), parents)):
            raise DataError(
                f"{lost[0].name}, a source of {self.out()}, was moved or changed{and_more(len(lost))}",
                hint="name the place of the missing sources too, or --yes to go on without them",
            )
        if earlier := earlier_manifest(self.out()):
            parents += [row for row in earlier.parents if row.kind == EARLIER_SPLITS]
        return Inputs(parents, (search.found, published, Embedder(load)))

    def _earlier(self) -> Iterator[str]:
        """Where the sources of the folder were last seen, finished or not, and files that failed."""
        for source in unit_sources(self.out()):
            path = last_path(self.out(), source.sha256)
            if path and path.is_dir():
                names = [row.name or "" for row in read_unit(self.out(), source.name).ledger]
                yield from (str(path / name) for name in names if (path / name).is_file())
            elif path and path.exists():
                yield str(path)
        if (self.out() / "failures.jsonl").is_file():
            rows = read_table(self.out() / "failures.jsonl", Failure)
            yield from (row.path for row in rows if Path(row.path).exists())

    def current(self, out: Path, inputs: Inputs) -> Artifact | None:
        """As for all image sets; failures to retry, and other weights in a folder of them, are work to do."""
        ready, options = super().current(out, inputs), self.options
        self.retried = ready if ready and options.retry_failed and ready.manifest.counts.get("failed") else None
        if ready is None or self.retried:
            return None
        if options.encoder.startswith(("local-dir:", "checkpoint:")):
            recorded = ready.manifest.models["encoder"]["fingerprint"]
            *_, embedder = inputs.data
            return ready if embedder.encoder.fingerprint == recorded else None
        return ready

    def key(self, inputs: Inputs) -> dict[str, Any]:
        """As for any verb; photos know no search."""
        key = super().key(inputs)
        if all(row.kind != "video" for row in inputs.parents):
            key.pop("samples_only", None)
        return key

    def resolve(self, inputs: Inputs, out: Path, progress: Progress) -> SetsJob:
        """Load the quality measures and the encoder, then warn about what the options and sources leave out."""
        options, (sources, published, embedder) = self.options, inputs.data
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr)
        instruments, encoder = quality.describe(), embedder.encoder
        scan = {field.name: getattr(options, field.name) for field in fields(ScanOptions) if field.name != "search"}
        scan |= {"gate": 0.0} if options.every_frame else {} if options.samples_only else {"search": True}
        if unknown := sorted(published.keys() - {source.name for source in sources}):
            progress.warn(f"{options.splits} names {plural(len(unknown), 'unknown source')}: {some(unknown)}")
        settings = {name: _scan_settings(scan, encoder, vectors) for name, vectors in encoder.precisions().items()}
        if options.precision == "auto":
            if began := _begun(out, sources, settings):
                encoder.use(began)
            elif not self.shard:  # ranks would each measure, and could come to different engines
                encoder.use_fastest()
            # for processes with an encoder of their own
            embedder.make.keywords["precision"] = encoder.precision
        remember_paths(out, {source.sha256: source.path for source in sources})
        threshold = encoder.threshold if options.threshold is None else options.threshold
        picking = Picking(threshold, options.set_size, encoder.margin, quality)
        context = UnitContext(out, picking, embedder, ScanOptions(**scan))
        # of the encoder's own scale, whatever threshold was asked for
        copies = CopyRule.of_encoder(encoder.threshold)
        self.choice = PhotoPicking(copies, options.sample, options.seed, options.neighbours)
        selection = {"threshold": threshold, "margin": encoder.margin, "set_size": options.set_size}
        selection |= self.choice.copies.record()
        videos = [source for source in sources if source.kind == "video"]
        self.albums = [source for source in sources if source.kind == "photos"]
        self.stamp = partial(_stamp, context, settings[encoder.precision], self.choice)
        self.earlier = self._earlier_splits(out)
        return SetsJob(
            BuildVideos(context, _retry(options), ""),
            progress,
            [WorkUnit(video.name, self.stamp(video, None), video) for video in videos],
            {album.name: self.stamp(album, None) for album in self.albums},
            {"encoder": encoder.describe() | {"threshold": threshold}, "selection": selection, "quality": instruments},
            published,
            options.salt,
        )

    def remarks(self, report: SetsReport) -> Iterator[str]:
        """On sets that a fallback picked, and on none at all."""
        if report.up_to_date and self.options.encoder == "auto" and report.encoder == "ctxr-tiny":
            yield "these sets were picked with ctxr-tiny because CLIP was not available: --encoder ViT-B-32:openai"
        if not report.up_to_date and not report.counts["sets"]:
            yield f"no image set could be built: {_cure_for_none(report)}"
        elif empty := [split for split in SPLITS if not report.counts["splits"].get(split)]:
            yield f"no sets in {' and '.join(empty)}: add sources, or deal them with --splits"

    def videos(self, job: SetsJob) -> list[SourceUnit]:
        """As for all image sets; a video that is used in part, and one without a set, is named."""
        units, needed = super().videos(job), self.options.set_size
        files = {unit.name: unit.payload.path for unit in job.videos}
        for unit in units:
            if unit.source.damage:
                job.progress.warn(f"{files[unit.source.name]} is used in part: {unit.source.damage}")
            left = sum(row.row is not None for row in unit.ledger)
            if left < needed:
                still = sum(row.reason == "near_still" for row in unit.ledger)
                gate = f"--gate 0 keeps {still} near-still frames"
                cure = gate if left + still >= needed else "a higher --rate samples more"
                job.progress.warn(
                    f"{files[unit.source.name]} gives no set: sampling and the motion gate leave {left} of its "
                    f"{unit.source.frames} frames, fewer than a set of {needed}; {cure}"
                )
        return units

    def photos(self, job: SetsJob) -> None:
        """Every album of the run: all of a split are one pool, in which each photo finds its neighbours. A rank embeds its share."""
        albums, context, embedder = self.albums, job.work.context, job.work.context.embedder
        scanned = {
            name: unit for name, stamp in job.stamps.items() if (unit := _scanned(context.artifact, name, stamp))
        }
        with job.progress.task("photos", sum(len(album.photos) for album in albums)) as task:
            scans = {name: stamp.scan for name, stamp in job.stamps.items()}
            pool = gather_pool(context.artifact, albums, scanned, scans, embedder, watch=task.advance, rank=self.shard)
        if self.shard:
            return
        job.fail_photos(pool.unreadable)
        self.deal(job, pool)
        job.stamps = {album.name: self.stamp(album, self._pool_of(album, job.splits)) for album in albums}
        if all(job.take(name, stamp) for name, stamp in job.stamps.items()):
            return
        job.pick_photos(pool, albums, self.choice, {}, "photo sets")
        count, needed = len(pool.photos), context.picking.set_size
        if count and not any(job.units[album.name].sets for album in albums):
            photos = f"{plural(count, 'different photo')} {'is' if count == 1 else 'are'}"
            job.progress.warn(f"no photo set: {photos} too few for sets of {needed}")

    def _pool_of(self, album: InputSource, splits: Mapping[str, SplitName]) -> object:
        """What the sets of an album are picked from; a sample depends on all albums."""
        everything = [[other.name, other.sha256] for other in self.albums]
        pool = [[name, sha256] for name, sha256 in everything if splits[name] == splits[album.name]]
        return pool if self.options.sample is None or pool == everything else [pool, everything]

    def deal(self, job: SetsJob, pool: PhotoPool | None = None) -> None:
        """Find shared footage; keep the splits that were dealt before, and deal the rest."""
        options = self.options
        albums = hashes_of(pool, self.albums) if pool else []
        job.footage = shared_footage([*map(SourceHashes.of, job.units.values()), *albums], self.choice.copies)
        sources = {name: bool(unit.sets) for name, unit in job.units.items()}
        large = any(len(album.ids) >= options.set_size for album in albums)
        sources |= {album.name: len(album.ids) >= options.set_size if large else bool(album.ids) for album in albums}
        shared = () if options.keep_leaks else job.footage
        bound = {**self.earlier, **job.fixed}
        tied = {*bound, *(name for row in shared for name in (row.first, row.second))}
        afresh, job.splits = (
            _pooled(assign_splits(sources, shared, fixed, job.salt), albums, {*sources} - tied, options.set_size)
            for fixed in (job.fixed, bound)
        )
        together = [row for row in shared if job.splits[row.first] == job.splits[row.second]]
        if together:
            pairs = some(f"{row.first} and {row.second}" for row in together)
            job.progress.note(f"{plural(len(together), 'pair')} of sources with shared footage in one split: {pairs}")
        kept = {name: split for name, split in job.splits.items() if split != afresh[name]}
        self.kept = [Parent("earlier splits", EARLIER_SPLITS, sha256_of(kept))] if kept else []

    def used(self, inputs: Inputs) -> Sequence[Parent]:
        """The sources, and the earlier deal where a build from nothing would deal otherwise."""
        return [*(row for row in inputs.parents if row.kind != EARLIER_SPLITS), *self.kept]

    def _earlier_splits(self, out: Path) -> dict[str, SplitName]:
        """The splits that an earlier run dealt by the same rule, finished or not."""
        if earlier := earlier_manifest(out):
            before, key = earlier.config, self.options.key()
            same = all(key.get(name) == before.get(name) for name in ("salt", "keep_leaks"))
            if not same or ("splits_sha256" in key) != ("splits_sha256" in before) or SPLITS_TABLE in self.changed[0]:
                return {}
        table = out / SPLITS_TABLE
        return {row.group: row.split for row in read_table(table, Split)} if table.is_file() else {}


@dataclass
class BuildVideos(VideoJob):
    """Scans videos, each thread with a child process of its own; picks again where only that has changed."""

    scanners: list[Scanner] = field(default_factory=list, init=False)
    free: list[Scanner] = field(default_factory=list, init=False)

    def file(self, unit: WorkUnit) -> Path:
        """The file of a video."""
        source: InputSource = unit.payload
        return source.path

    def make(self, unit: WorkUnit) -> None:
        """Scan the video, or pick from its ledger."""
        self.task.say(unit.name)
        if old := _scanned(self.context.artifact, unit.name, unit.stamp):
            pick_from_ledger(self.context, old, self.context.artifact, lambda: self.file(unit), unit.stamp)
            return
        try:
            scanner = self.free.pop()
        except IndexError:
            scanner = Scanner()
            self.scanners.append(scanner)
        try:
            scan_video(self.context, unit.payload, unit.stamp, scanner, self._watch(unit.name))
        finally:
            self.free.append(scanner)

    def _watch(self, name: str) -> Callable[[VideoHeader | None, int], None]:
        """Converts decoded frames into fractions of one video."""
        total = 0

        def watch(header: VideoHeader | None, index: int) -> None:
            nonlocal total
            if header is not None:
                by_time = float(header.duration * header.rate) if header.duration and header.rate else 0
                total = int(header.promised_frames or by_time)
            elif total:
                shown = self.shares.get(name, 0.0)
                self.shares[name] = max(shown, min(0.99, index / total))
                self.task.advance(self.shares[name] - shown)

        return watch

    def stop(self) -> None:
        """End the scans."""
        super().stop()
        for scanner in self.scanners:
            scanner.cancel()

    def close(self) -> None:
        """End the child processes."""
        for scanner in self.scanners:
            scanner.close()


def _load_encoder(options: BuildSets, progress: Progress, precision: str) -> Encoder:
    with progress.task(f"load the encoder {options.encoder}", None):
        return load_encoder(options.encoder, options.device, precision, warn=progress.warn)


def _scan_settings(scan: Mapping[str, object], encoder: Encoder, vectors: str) -> list[object]:
    """What decides the scan of any source."""
    decisive = {name: value for name, value in scan.items() if name not in SCAN_LIMITS}
    return [decisive, encoder.fingerprint, vectors, package_versions()]


def _begun(out: Path, sources: Sequence[InputSource], settings: Mapping[str, Sequence[object]]) -> str | None:
    """Of `settings`, by precision, the precision in which an earlier run finished a source or photos of it; None without one."""
    for source in sources:
        for precision, values in settings.items():
            stamp = Stamp(sha256_of([source.sha256, *values]), "", {})
            if _scanned(out, source.name, stamp) or has_shard(out, source, stamp.scan):
                return precision
    return None


def _pooled(
    rows: Sequence[Split], albums: Sequence[SourceHashes], free: Collection[str], needed: int
) -> dict[str, SplitName]:
    """The splits; where the photos of valid or test are too few for one set, its `free` albums go to train."""
    splits = {row.group: row.split for row in rows}
    for split in SPLITS[1:]:
        own = [album for album in albums if splits[album.name] == split]
        if sum(len(album.ids) for album in own) < needed:
            splits |= {album.name: "train" for album in own if album.name in free}
    return splits


def _scanned(artifact: Path, name: str, stamp: Stamp) -> SourceUnit | None:
    """The unit of an earlier run that was scanned in the same way, whatever was picked from it."""
    return finished_unit(artifact, name, lambda before: before.scan == stamp.scan)


def _stamp(
    context: UnitContext, made_with: Sequence[object], choice: PhotoPicking, source: InputSource, pool: object
) -> Stamp:
    """What the unit of a source is made with; `pool`: what the sets of an album are picked from."""
    picking, quality = context.picking, context.picking.quality
    copies = choice.copies.strict if pool is None else choice.copies.record()
    select = [picking.threshold, picking.set_size, copies, vars(quality.limits), choice.sample, choice.seed, pool]
    return Stamp(sha256_of([source.sha256, *made_with]), sha256_of(select), quality.stamps())


def _cure_for_none(report: SetsReport) -> str:
    counts, reasons = report.counts, report.counts["reasons"]
    if not counts["videos"]:
        return "there are too few photos once duplicates are removed; add photos, or try a smaller --set-size"
    if reasons and max(reasons, key=reasons.__getitem__) == "near_still":
        return "most frames were nearly static; try --gate 0, a higher --rate, or footage with more motion"
    return f"try a --threshold below {report.threshold:g} (--yield-curve shows what each gives), or a higher --rate"


def _retry(config: BuildSets) -> str:
    # what decides the result is the content of the file of splits, but it is typed as a path
    return config.decisive().command_line(*config.sources, splits=config.splits, retry_failed=True, add=config.add)
