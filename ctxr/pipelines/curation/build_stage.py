"""How sources become image sets: what decides a unit, the scan of a video, the pool of all photos."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path

from ctxr.datasets.splits import read_published
from ctxr.engine.progress import Progress
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs
from ctxr.engine.units import WorkUnit
from ctxr.errors import UsageError, plural, some
from ctxr.media.decoder_process import ScanOptions
from ctxr.media.scan import Scanner
from ctxr.media.shots import check_detector
from ctxr.media.sources import InputSource, find_sources
from ctxr.media.video import VideoHeader
from ctxr.models.encoders import Encoder, check_name, load_encoder
from ctxr.pipelines.curation.config import SCAN_LIMITS, BuildSets
from ctxr.pipelines.curation.image_sets import SetsJob, SetsStage, VideoJob, finished_unit
from ctxr.pipelines.curation.photos import DUPLICATE_SHARE, PhotoPicking, gather_pool, unreadable_photos
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, Picking, UnitContext, pick_from_ledger, scan_video
from ctxr.store.artifacts import Artifact, Parent, package_versions
from ctxr.store.hashing import sha256_of
from ctxr.store.paths import remember_paths
from ctxr.store.units import SOURCES, SourceUnit, Stamp


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
        search = find_sources(options.sources, progress)
        for path, why in search.left_out:
            progress.warn(f"{path} is left out: {why}")
        for source in search.found:
            if source.path.resolve().is_relative_to(self.out().resolve()):
                raise UsageError(
                    f"{source.path} lies inside the artifact folder {self.out()}", hint="choose another --out"
                )
        load = partial(_load_encoder, options, progress)
        parents = [Parent(source.name, source.kind, source.sha256) for source in search.found]
        return Inputs(parents, (search.found, published, Embedder(load)))

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

    def resolve(self, inputs: Inputs, out: Path, progress: Progress) -> SetsJob:
        """Load the quality measures and the encoder, then warn about what the options and sources leave out."""
        options, (sources, published, embedder) = self.options, inputs.data
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr)
        instruments, encoder = quality.describe(), embedder.encoder
        if not self.shard:
            _warn_of_removal(out, sources, progress)
        if unknown := sorted(published.keys() - {source.name for source in sources}):
            progress.warn(f"{options.splits} names {plural(len(unknown), 'unknown source')}: {some(unknown)}")
        remember_paths(out, {source.sha256: source.path for source in sources})
        threshold = encoder.threshold if options.threshold is None else options.threshold
        picking = Picking(threshold, options.set_size, encoder.margin, quality)
        context = UnitContext(out, picking, embedder, _scan_options(options))
        # of the encoder's own scale, whatever threshold was asked for
        self.choice = PhotoPicking(
            encoder.threshold * DUPLICATE_SHARE, options.sample, options.seed, options.neighbours
        )
        selection = {
            "threshold": threshold,
            "margin": encoder.margin,
            "set_size": options.set_size,
            "duplicate": self.choice.duplicate,
        }
        videos = [source for source in sources if source.kind == "video"]
        self.albums = [source for source in sources if source.kind == "photos"]
        stamps = _stamps(context, encoder, self.choice, videos, self.albums)
        return SetsJob(
            BuildVideos(context, _retry(options), ""),
            progress,
            [WorkUnit(video.name, stamps[video.name], video) for video in videos],
            {album.name: stamps[album.name] for album in self.albums},
            {"encoder": encoder.describe(), "selection": selection, "quality": instruments},
            published,
            options.salt,
        )

    def remarks(self, report: SetsReport) -> Iterator[str]:
        """On sets that a fallback picked, and on none at all."""
        if report.up_to_date and self.options.encoder == "auto" and report.encoder == "ctxr-tiny":
            yield "these sets were picked with ctxr-tiny because CLIP was not available: --encoder ViT-B-32:openai"
        if not report.up_to_date and not report.counts["sets"]:
            yield f"no image set could be built: {_cure_for_none(report)}"

    def videos(self, job: SetsJob) -> list[SourceUnit]:
        """As for all image sets; a video without a set is named."""
        units, needed = super().videos(job), self.options.set_size
        files = {unit.name: unit.payload.path for unit in job.videos}
        for unit in units:
            left = sum(row.row is not None for row in unit.ledger)
            if left < needed:
                job.progress.warn(
                    f"{files[unit.source.name]} gives no set: sampling and the motion gate leave {left} of its "
                    f"{unit.source.frames} frames, fewer than a set of {needed}"
                )
        return units

    def photos(self, job: SetsJob) -> None:
        """Every album of the run: all are one pool, in which each photo finds its neighbours."""
        albums, context = self.albums, job.work.context
        if all(job.take(name, stamp) for name, stamp in job.stamps.items()):
            job.fail_photos(unreadable_photos(albums, [job.units[album.name] for album in albums]))
            return
        scanned = {
            name: unit for name, stamp in job.stamps.items() if (unit := _scanned(context.artifact, name, stamp))
        }
        with job.progress.task("photos", sum(len(album.photos) for album in albums)) as task:
            scans = {name: stamp.scan for name, stamp in job.stamps.items()}
            pool = gather_pool(context.artifact, albums, scanned, scans, context.embedder, watch=task.advance)
        job.fail_photos(pool.unreadable)
        job.pick_photos(pool, albums, self.choice, {}, "photo sets")
        count, needed = len(pool.photos), context.picking.set_size
        if count and not any(job.units[album.name].sets for album in albums):
            photos = f"{plural(count, 'different photo')} {'is' if count == 1 else 'are'}"
            job.progress.warn(f"no photo set: {photos} too few for sets of {needed}")


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


def _load_encoder(options: BuildSets, progress: Progress) -> Encoder:
    with progress.task(f"load the encoder {options.encoder}", None):
        return load_encoder(options.encoder, options.device, options.precision, warn=progress.warn)


def _scanned(artifact: Path, name: str, stamp: Stamp) -> SourceUnit | None:
    """The unit of an earlier run that was scanned in the same way, whatever was picked from it."""
    return finished_unit(artifact, name, lambda before: before.scan == stamp.scan)


def _stamps(
    context: UnitContext,
    encoder: Encoder,
    choice: PhotoPicking,
    videos: Sequence[InputSource],
    albums: Sequence[InputSource],
) -> dict[str, Stamp]:
    """By source: what its unit is made with. Sets of photos are picked from all albums together."""
    picking, quality = context.picking, context.picking.quality
    options = {name: value for name, value in vars(context.options).items() if name not in SCAN_LIMITS}
    made_with = [options, encoder.fingerprint, encoder.precision, package_versions()]
    pool = [[album.name, album.sha256] for album in albums]

    def stamp(source: InputSource, pool: object) -> Stamp:
        select = [
            picking.threshold,
            picking.set_size,
            choice.duplicate,
            vars(quality.limits),
            choice.sample,
            choice.seed,
            pool,
        ]
        return Stamp(sha256_of([source.sha256, *made_with]), sha256_of(select), quality.stamps())

    return {video.name: stamp(video, None) for video in videos} | {album.name: stamp(album, pool) for album in albums}


def _warn_of_removal(out: Path, inputs: Sequence[InputSource], progress: Progress) -> None:
    """Warn about sources in the folder, finished or not, that the run will remove."""
    units = (out / SOURCES).iterdir() if (out / SOURCES).is_dir() else ()
    before = {unit.name for unit in units if not unit.name.startswith(".")}
    if gone := sorted(before - {source.name for source in inputs}):
        sources = plural(len(before), "source")
        progress.warn(f"{out} held {sources}; this run removes {len(gone)}: {some(gone)} (another --out keeps both)")


def _cure_for_none(report: SetsReport) -> str:
    counts, reasons = report.counts, report.counts["reasons"]
    if not counts["videos"]:
        return "there are too few photos once duplicates are removed; add photos, or try a smaller --set-size"
    if reasons and max(reasons, key=reasons.__getitem__) == "near_still":
        return "most frames were nearly static; try --gate 0, a higher --rate, or footage with more motion"
    return f"try a --threshold below {report.threshold:g} (--yield-curve shows what each gives), or a higher --rate"


def _scan_options(config: BuildSets) -> ScanOptions:
    options = {field.name: getattr(config, field.name) for field in fields(ScanOptions)}
    return ScanOptions(**options | ({"gate": 0.0} if config.every_frame else {}))


def _retry(config: BuildSets) -> str:
    # what decides the result is the content of the file of splits, but it is typed as a path
    return config.decisive().command_line(*config.sources, splits=config.splits, retry_failed=True)
