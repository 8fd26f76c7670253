"""`ctxr build-sets`: from videos and photos to image sets (ImageCoDe, section 3.1)."""

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from ctxr.datasets.image_sets import sets_report
from ctxr.datasets.photo_labels import is_boxes, labels_of_boxes, themes_of
from ctxr.datasets.splits import SPLITS, SPLITS_TABLE, assign_splits, read_published
from ctxr.engine.engines import device_of, map_things
from ctxr.engine.options import option_name
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport
from ctxr.engine.stage import Inputs
from ctxr.engine.state import read_state
from ctxr.engine.units import WorkUnit
from ctxr.errors import CtxrError, DataError, UsageError, and_more, plural, some
from ctxr.media.decoder_process import Scanner
from ctxr.media.scan import SCAN_LIMITS, ScanOptions
from ctxr.media.sources import VIDEO_SUFFIXES, InputSource, find_sources, origin_of, place_of
from ctxr.media.video import VideoError
from ctxr.models.encoders import Encoder, check_encoder_name
from ctxr.models.hub import DEFAULT_ENCODER, STAND_INS, from_root
from ctxr.models.identity import model_identity
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.curation.copies import CopyRule, SourceHashes, deduplicate, exact_distances, shared_footage
from ctxr.pipelines.curation.image_sets import SetsRun, SetsStage, VideoJob, gone
from ctxr.pipelines.curation.photos import EmbedPhotos, PhotoPicking, PhotoPool, album_shards, gather_pool, with_copies
from ctxr.pipelines.curation.quality import QualityGate, QualityLimits
from ctxr.pipelines.curation.videos import Embedder, PickingRules, UnitContext, pick_from_ledger, scan_video
from ctxr.store.artifacts import MANIFEST, Artifact, Manifest, Parent, earlier_manifest, open_artifact, package_versions
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.kinds import IMAGE_SETS
from ctxr.store.paths import is_url, last_path, portable, remember_paths, rooted
from ctxr.store.records import WORKER_DIED, Failure, SharedFootage, Split, SplitName
from ctxr.store.tables import grouped, read_table
from ctxr.store.units import SourceUnit, UnitKeys, read_unit, scanned_unit, unit_sources


def run(config: BuildSets, progress: Progress = SILENT) -> SetsReport:
    """Build image sets and report on them; without sources, report on the finished ones.

    Raises UsageError for wrong arguments, DataError when every source fails, CtxrError when the disk is full.
    """
    if not config.sources:
        config.check()
        path = open_artifact(config.folder(), IMAGE_SETS, "ctxr build-sets videos/").path
        return sets_report(path, True, curve=True)
    earlier = earlier_manifest(config.folder()) if config.add else None
    if earlier is None or earlier.kind != IMAGE_SETS:
        return BuildStage(config).report(progress, config.yield_curve)
    # sources are added: what decided the finished sets decides again
    made_with, frames = earlier.models["encoder"], earlier.models["selection"]["frames"]
    before, key = earlier.config | {"frames": frames}, config.key() | {"frames": config.frames}
    own: dict[str, Any] = {"precision": made_with["precision"] if config.precision == "auto" else config.precision}
    root = config.folder().resolve().parent
    if config.encoder != "auto" and model_identity(config.encoder, root) != made_with["identity"]:
        what = f"{config.folder()} was built with --encoder {made_with['name']}, and --add keeps it"
        raise UsageError(what, hint="leave out --encoder; without --add the folder is built again")
    if key.get("splits_sha256") != before.get("splits_sha256"):
        hint = "--splits with the file that they were built with" if "splits_sha256" in before else "leave out --splits"
        raise UsageError(f"{config.folder()} was built with other splits, and --add keeps them", hint=hint)
    for name, default in [*BuildSets().key().items(), ("frames", "auto")]:
        given, kept = key[name], before.get(name)
        if given not in (kept, default):
            option = option_name(name)
            made = f"without {option}" if kept in (None, "") or kept is False else f"with {option} {kept}"
            what = f"{config.folder()} was built {made}, and --add keeps it"
            raise UsageError(what, hint=f"leave out {option}; without --add the folder is built again")
        own[name] = kept
    return BuildStage(replace(config, **own)).report(progress, config.yield_curve)


@dataclass(frozen=True)
class BuildInputs(Inputs):
    """The sources, which are known by their content, and the name of the encoder: of `auto`, that of the earlier result, if any."""

    sources: tuple[InputSource, ...]
    encoder: str


class BuildStage(SetsStage[BuildInputs]):
    """Builds image sets from sources."""

    options: BuildSets

    def inputs(self, progress: Progress) -> BuildInputs:
        """The sources, by their content."""
        options, out = self.options, self.out()
        check_encoder_name(options.encoder)
        typed = [*options.sources, *(self._earlier_sources() if options.add else ())]
        search = find_sources(typed, progress, out.resolve().parent)
        for remark in search.remarks():
            progress.warn(remark)
        for source in search.found:
            if Path(os.path.realpath(source.path)).is_relative_to(out.resolve()):  # also of a link to itself
                raise UsageError(f"{source.path} lies inside the artifact folder {out}", hint="choose another --out")
        parents = [Parent(source.name, source.kind, source.sha256) for source in search.found]
        if options.add and not options.yes and (lost := gone(out, parents)):
            raise DataError(
                f"{lost[0].name}, a source of {out}, was moved or changed{and_more(len(lost))}",
                hint="name the place of the missing sources too, or --yes to go on without them",
            )
        earlier = earlier_manifest(out)
        encoder = options.encoder
        if earlier and earlier.kind == IMAGE_SETS and encoder == "auto":
            encoder = rooted(earlier.models["encoder"]["name"], out)
        return BuildInputs(parents, options.key(), sources=search.found, encoder=encoder)

    def refuse(self, inputs: BuildInputs, progress: Progress) -> None:
        """Raises UsageError where a yield curve is asked for, and finished sets are not what the command builds; DataError where every
        source is a file that is neither a video by its suffix nor by its content, before seconds go into an encoder."""
        out = self.out()
        if self.options.yield_curve and (out / MANIFEST).is_file() and (earlier := earlier_manifest(out)):
            other = some(option_name(name.removesuffix("_sha256")) for name in self.other(earlier, inputs))
            problem = f"{out} was built with other {other or 'sources or files'}, and --yield-curve replaces no sets"
            hint = "ctxr build-sets --yield-curve shows the curve of these sets; name another --out for others"
            raise UsageError(problem, hint=hint)
        # a dry run copies nothing of a URL, so there may be nothing to look into
        if any(
            one.kind == "photos" or one.path.suffix.lower() in VIDEO_SUFFIXES or not one.path.exists()
            for one in inputs.sources
        ):
            return
        failed = list[VideoError]()
        with Scanner() as scanner:
            for source in inputs.sources:
                try:
                    next(scanner.scan(source.path, ScanOptions(decoder=self.options.decoder)))
                    return
                except VideoError as error:
                    failed.append(error)
        problem = f"no source could be used: {failed[0].message}{and_more(len(failed))}"
        raise DataError(problem, hint=f"videos end in {' '.join(sorted(VIDEO_SUFFIXES))}")

    def _earlier_sources(self) -> Iterator[str]:
        """Where the sources of the folder were last seen, and files that failed."""
        out = self.out()
        for source in unit_sources(out):
            path = last_path(out, source.sha256)
            if path and path.is_dir():
                names = [row.name or "" for row in read_unit(out, source.name).ledger]
                files = (path / name for name in names)
                yield from (str(file) for file in files if file.is_file() or origin_of(file))
            elif path and (path.exists() or origin_of(path)):
                yield str(path)
        if (out / "failures.jsonl").is_file():
            rows = read_table(out / "failures.jsonl", Failure)
            yield from (row.path for row in rows if Path(row.path).exists() or is_url(row.path))

    def current(self, out: Path, inputs: BuildInputs) -> Artifact | None:
        """The artifact if it is up to date; where its sources lie now is remembered, unless nothing can be written there."""
        if artifact := super().current(out, inputs):
            with suppress(CtxrError):
                remember_paths(out, {source.sha256: source.path for source in inputs.sources})
        return artifact

    def pending(self, artifact: Artifact, inputs: BuildInputs) -> bool:
        """Whether other settings are asked for, a source was renamed, since sets are named after it, or failures are to be retried."""
        other = bool(self.other(artifact.manifest, inputs)) or {*inputs.parents} != {*artifact.manifest.parents}
        return other or (self.options.retry_failed and bool(artifact.manifest.counts["failed"]))

    def other(self, earlier: Manifest, inputs: BuildInputs) -> list[str]:
        """The encoder too, and its precision and the frames where they are named, whatever `auto` would come to on this machine."""
        options, made, names = self.options, earlier.models["encoder"], super().other(earlier, inputs)
        if made["identity"] != model_identity(inputs.encoder, self.out().resolve().parent):
            names.append("encoder")
        came_to = {"precision": made["precision"], "frames": earlier.models["selection"]["frames"]}
        return names + [name for name, value in came_to.items() if getattr(options, name) not in ("auto", value)]

    def open(self, inputs: BuildInputs, out: Path, progress: Progress, ready: Artifact | None) -> "BuildRun":
        """Load the quality measures and the encoder, then warn about what the options and sources leave out."""
        options = self.options
        scan = ScanOptions(**{name: getattr(options, name) for name in ScanOptions.describe()})
        published = read_published(options.splits) if options.splits and not is_boxes(options.splits) else {}
        quality = QualityGate(QualityLimits.of(options), options.brisque_weights, options.ocr)
        instruments = quality.describe()
        # a merge may run on another machine than the ranks, which came to the same choices
        ran = self.merged.key if self.merged else {"precision": options.precision, "frames": scan.frames}
        embedder = Embedder(inputs.encoder, device_of(options.engine, options.device), str(ran["precision"]), progress)
        with progress.task(f"loading the encoder {inputs.encoder}", None):
            encoder = embedder.encoder
        names = {source.name for source in inputs.sources}
        if published and names.isdisjoint(published):
            raise DataError(f"{options.splits} names none of the sources", hint=f"they are {some(sorted(names))}")
        if unknown := sorted(published.keys() - names):
            progress.warn(f"{options.splits} names {plural(len(unknown), 'unknown source')}: {some(unknown)}")
        cheapest = "every" if encoder.cheap else "search"
        scan = replace(scan, frames=cheapest if ran["frames"] == "auto" else str(ran["frames"]))
        embedder.precision = encoder.precision  # for processes with an encoder of their own
        remember_paths(out, {source.sha256: source.path for source in inputs.sources})
        threshold = encoder.threshold if options.threshold is None else options.threshold
        picking = PickingRules(threshold, options.set_size, encoder.margin, quality)
        context = UnitContext(out, picking, embedder, scan)
        choice = PhotoPicking(CopyRule(), options.sample, options.seed, options.neighbours == "index")
        selection: dict[str, object] = {"threshold": threshold, "margin": encoder.margin, "frames": scan.frames}
        selection |= {"set_size": options.set_size, "copies": asdict(choice.copies)}
        # what decides the result is the content of the file of splits, but it is typed as a path
        typed = ("sources", "encoder", "precision", "frames", "splits", "add")
        words = {name: getattr(options, name) for name in typed}
        retry = options.decisive().command_line(**words, retry_failed=True)
        identity = model_identity(encoder.name, out.resolve().parent)
        albums = [source for source in inputs.sources if source.kind == "photos"]
        stamps = {
            source.name: unit_stamp(source, scan_key(source, scan, encoder), picking, choice)
            for source in inputs.sources
        }
        return BuildRun(
            options=options,
            progress=progress,
            work=BuildVideos(
                context, {source.name: str(place_of(source.path)) for source in inputs.sources}, retry, ""
            ),
            videos=[WorkUnit(one.name, stamps[one.name], one) for one in inputs.sources if one.kind == "video"],
            albums=albums,
            stamps={album.name: stamps[album.name] for album in albums},
            models={
                "encoder": encoder.describe()
                | {"name": portable(from_root(encoder.name), out), "threshold": threshold, "identity": identity},
                "selection": selection,
                "quality": instruments,
            },
            retried=ready is not None and options.retry_failed,
            merged=self.merged,
            choice=choice,
            published=published,
            dealt=_dealt(out, options),
        )

    def remarks(self, report: SetsReport) -> Iterator[str]:
        """On sets that a fallback picked, and on none at all."""
        counts = report.counts
        if report.up_to_date and report.encoder in STAND_INS:
            made = read_state(self.options.workdir, [self.out()]).stored[-1].words
            if report.encoder not in (self.options.encoder, *made):
                yield (
                    f"CLIP was not available, so these sets were picked with {report.encoder}; {STAND_INS[report.encoder]}. "
                    f"Where CLIP is available, --encoder {DEFAULT_ENCODER} makes them again"
                )
        if not report.up_to_date and not counts["sets"]:
            more = ", or --frames every" if counts["embedded"] < counts["frames"] else ""
            cure = f"try a --threshold below {report.threshold:g} (--yield-curve shows what each gives){more}"
            if not counts["videos"]:
                cure = "there are too few photos once duplicates are removed; add photos, or try a smaller --set-size"
            elif (most := max(counts["reasons"], key=counts["reasons"].get, default="")) in (
                "low_quality",
                "too_much_text",
                "too_small",
            ):
                cure = "most frames do not pass the limits of quality: try wider ones"
            elif most == "near_still":
                cure = "frames were nearly static; try --still-below 0, --frames every, or footage with more motion"
            yield f"no image set could be built: {cure}"
        elif empty := [split for split in SPLITS if not counts["splits"].get(split)]:
            yield f"no sets in {' and '.join(empty)}: add sources, or deal them with --splits"


@dataclass(kw_only=True)
class BuildRun(SetsRun):
    """A build; `published` are the splits that are given, `dealt` those that an earlier run dealt by the same rule."""

    options: BuildSets
    albums: Sequence[InputSource]
    published: Mapping[str, SplitName]
    dealt: Mapping[str, SplitName]

    def make_videos(self, todo: Sequence[WorkUnit]) -> list[SourceUnit]:
        """As for all image sets; a video that is used in part, and one without a set, is named."""
        units, needed = super().make_videos(todo), self.options.set_size
        for unit in units:
            file = self.work.files[unit.source.name]
            if unit.source.damage:
                self.progress.warn(f"{file} is used in part: {unit.source.damage}")
            left, frames = sum(row.row is not None for row in unit.ledger), unit.source.frames
            if left < needed:
                some_left = f"sampling and the motion gate leave {left} of its {frames} frames"
                what, cure = (
                    (some_left, "; --frames every takes all") if left < frames else (f"it has {frames} frames", "")
                )
                self.progress.warn(f"{file} gives no set: {what}, fewer than a set of {needed}{cure}")
        return units

    def share_photos(self) -> PhotoPool:
        """The photos of all albums, embedded, of a rank its share."""
        scans = {name: stamp.scan for name, stamp in self.stamps.items()}
        scanned = {name: self._scanned(name) for name in scans}
        units = album_shards([album for album in self.albums if not scanned[album.name]], scans)
        units = units[shard.rank :: shard.world] if (shard := self.options.shard) else units
        job = EmbedPhotos(self.artifact, self.work.context.embedder)
        shards = map_things(job, units, self.engine, self.progress, "embedding photos")
        embedded = grouped((unit.payload[0], shard) for unit, shard in zip(units, shards, strict=True))
        return gather_pool(self.albums, scanned, embedded)

    def _scanned(self, album: str) -> SourceUnit | None:
        """The unit of an album with these photos, unless ones at which workers died are tried again."""
        unit = scanned_unit(self.artifact, album, self.stamps[album].scan)
        again = self.options.retry_failed and any(row.reason == WORKER_DIED for row in (unit.ledger if unit else ()))
        return None if again else unit

    def make_photos(self) -> None:
        """Deal the splits, then make the unit of every album: all of a split are one pool, in which photos find neighbours."""
        if not self.albums:
            self._deal(PhotoPool([], np.zeros((0, 0), np.float32), {}))
            return
        pool, picking = self.share_photos(), self.work.context.picking
        pool = with_copies(self.artifact, pool, self.choice, self.engine, self.progress)
        for album in self.albums:
            for position, message in pool.unreadable.get(album.name, {}).items():
                photo, file = album.photos[position], str(place_of(album.photos[position]))
                message = message.replace(str(photo), file)
                self.failures.append(Failure(album.name, file, pool.reason(message), message, self.work.retry))
                self.progress.warn(message)
        self._deal(pool)
        everything = [[album.name, album.sha256] for album in self.albums]
        for album in self.albums:
            # what the sets of an album are picked from; a sample depends on all albums
            split = self.splits.get(album.name)
            pool_key: list[Any] = [row for row in everything if split and self.splits.get(row[0]) == split]
            pool_key = pool_key or [photo.image.group for photo in pool.photos]
            if self.options.sample != "all" and pool_key != everything:
                pool_key = [pool_key, everything]
            scan = self.stamps[album.name].scan
            self.stamps[album.name] = unit_stamp(album, scan, picking, self.choice, pool_key)
        # the recall of an index is measured in what sets are picked from
        if (
            all(self._scanned(name) and self.take(name, stamp) for name, stamp in self.stamps.items())
            and not self.choice.index
        ):
            return
        self.pick_photos(pool, self.albums, {}, "picking photo sets")
        count, needed = len(pool.photos), picking.set_size
        if count and not any(self.units[album.name].sets for album in self.albums):
            photos = f"{plural(count, 'different photo')} {'is' if count == 1 else 'are'}"
            self.progress.warn(f"no photo set: {photos} too few for sets of {needed}")

    def _deal(self, pool: PhotoPool) -> None:
        """Find shared footage; keep the splits that were dealt before, and deal the rest: videos, albums, and each photo of a lone album
        with those that are nearer than the threshold, or copies."""
        options, needed = self.options, self.options.set_size
        keys = [(photo.album, photo.position) for photo in pool.photos]
        albums = {album.name for album in self.albums} - self.published.keys()
        lone = {name for name in albums if len(self.albums) == 1 or f"{name}/train" in self.dealt}
        owners = self._owners(pool, lone)
        hashes = []
        for name, own in grouped(zip(owners, range(len(owners)), strict=True)).items():
            photos = [pool.photos[at] for at in own]
            ids, phashes = [one.image.id for one in photos], [one.phash for one in photos]
            hashes.append(SourceHashes(name, "photos", ids, phashes, pool.vectors[own]))
        bound = {**self.dealt, **self._dealt_photos(pool, owners, lone), **self.published}
        found = [*shared_footage([*map(SourceHashes.of, self.units.values()), *hashes]), *_shared_photos(pool, owners)]
        # photos that share hashes may be copies by their pixels too
        shared = [*{(row.first, row.second): row for row in sorted(found, key=lambda row: row.shared)}.values()]
        # not by their sets: a limit that leaves none must not move other sources
        sources = {name: unit.source.frames >= needed for name, unit in self.units.items()}
        large = any(len(one.ids) >= needed for one in hashes)
        sources |= {album.name: False for album in self.albums if album.name not in lone}
        sources |= {one.name: len(one.ids) >= needed if large else bool(one.ids) for one in hashes}
        ties = () if options.keep_leaks else shared
        free = sources.keys() - {name for row in ties for name in (row.first, row.second)}
        deal = partial(assign_splits, sources, ties, salt=options.salt, strata=_strata(options.splits, hashes))
        given = self.published, bound
        afresh, kept = (_pooled(deal(one), hashes, free - one.keys(), options) for one in given)
        groups = {name: f"{name.partition('/')[0]}/{split}" if "/" in name else name for name, split in kept.items()}
        pool.regroup({key: groups[owner] for key, owner in zip(keys, owners, strict=True)})
        self.splits.update({groups[name]: split for name, split in kept.items()})
        self.footage.extend(_of_groups(shared, groups, Counter(photo.image.group for photo in pool.photos)))
        if together := [row for row in self.footage if self.splits[row.first] == self.splits[row.second]]:
            pairs = some(f"{row.first} and {row.second}" for row in together)
            self.progress.note(f"{plural(len(together), 'pair')} of sources with shared footage in one split: {pairs}")
        # those that a build from nothing would deal otherwise
        if moved := sum(split != afresh[name] for name, split in kept.items()):
            self.more["splits_kept"] = moved

    def _owners(self, pool: PhotoPool, lone: Collection[str]) -> list[str]:
        """What decides the split of each photo: its album, or in a `lone` one the photos that must stay with it, named after one."""
        owners, (around, distances) = [photo.album for photo in pool.photos], pool.neighbours
        if not owners or not lone:
            return owners
        near, every = distances < self.work.context.picking.threshold, np.arange(len(owners))
        links = np.concatenate([np.stack([np.nonzero(near)[0], around[near]]), [every, pool.copies]], axis=1)
        groups = connected_components(coo_array((np.ones(links.shape[1], bool), links), (len(owners),) * 2))[1]
        contents = [photo.image.sha256 for photo in pool.photos]
        first = deduplicate(groups, np.argsort(np.argsort(contents, kind="stable")))
        return [f"{owner}/{contents[at]}" if owner in lone else owner for owner, at in zip(owners, first, strict=True)]

    def _dealt_photos(self, pool: PhotoPool, owners: Sequence[str], lone: Collection[str]) -> dict[str, SplitName]:
        """The splits that an earlier run gave to photos of the `lone` albums, by what decides them."""
        before, dealt = dict[tuple[str, str | None], SplitName](), self.dealt
        for album in lone:
            with suppress(CtxrError):
                rows = read_unit(self.artifact, album).ledger
                before |= {(album, row.name): dealt[row.group or ""] for row in rows if row.group in dealt}
        keys = ((owner, (photo.album, photo.file.name)) for owner, photo in zip(owners, pool.photos, strict=True))
        return {owner: before[key] for owner, key in keys if key in before}


def _shared_photos(pool: PhotoPool, owners: Sequence[str]) -> Iterator[SharedFootage]:
    """Copies of one another among photos of different owners."""
    groups = grouped(zip(pool.copies.tolist(), range(len(owners)), strict=True))
    pairs = (sorted(pair, key=owners.__getitem__) for own in groups.values() for pair in combinations(own, 2))
    across = grouped(
        ((owners[one], owners[other]), (one, other)) for one, other in pairs if owners[one] != owners[other]
    )
    sizes = Counter(owners)
    for (first, second), own in sorted(across.items()):
        distances = exact_distances(pool.vectors, np.array(own))
        one, other = own[nearest := int(distances.argmin())]
        example = pool.photos[one].image.id, pool.photos[other].image.id
        shared, distance = len({copy for _, copy in own}), round(float(distances[nearest]), 6)
        yield SharedFootage(first, second, shared, sizes[second], example, distance)


def _of_groups(
    rows: Sequence[SharedFootage], groups: Mapping[str, str], sizes: Mapping[str, int]
) -> Iterator[SharedFootage]:
    """What groups of so many photos share, of what sources share that are in them."""
    pairs = grouped(((groups[row.first], groups[row.second]), row) for row in rows)
    for (first, second), own in sorted(pairs.items()):
        if first != second:
            nearest = min(own, key=lambda row: row.distance)
            shared, of = sum(row.shared for row in own), sizes[second] if "/" in second else nearest.of
            yield structs.replace(nearest, first=first, second=second, shared=shared, of=of)


def _dealt(out: Path, options: BuildSets) -> Mapping[str, SplitName]:
    """The splits that an earlier run dealt by the same rule, finished or not; none where the table was changed."""
    table, earlier = out / SPLITS_TABLE, earlier_manifest(out)
    if earlier:
        before, key = earlier.config, options.key()
        same = all(key.get(name) == before.get(name) for name in ("salt", "keep_leaks"))
        entry = earlier.files.get(SPLITS_TABLE)
        unchanged = entry is None or entry.sha256 == sha256_if_readable(table)
        if not same or ("splits_sha256" in key) != ("splits_sha256" in before) or not unchanged:
            return {}
    return {row.group: row.split for row in read_table(table, Split)} if table.is_file() else {}


@dataclass
class BuildVideos(VideoJob):
    """Scans videos, each thread with its own child process; only picks again where that suffices."""

    scanners: list[Scanner] = field(default_factory=list, init=False)
    free: list[Scanner] = field(default_factory=list, init=False)

    def make(self, unit: WorkUnit) -> SourceUnit:
        """Scan the video, or pick from its ledger."""
        self.task.say(unit.name)
        artifact, video, show = self.context.artifact, unit.payload, partial(self.show, unit.name)
        if old := scanned_unit(artifact, unit.name, unit.stamp.scan):
            return pick_from_ledger(self.context, old, artifact, video.path, unit.stamp, show=show)
        try:
            scanner = self.free.pop()
        except IndexError:
            scanner = Scanner()
            self.scanners.append(scanner)
        try:
            return scan_video(self.context, video, unit.stamp, scanner, show)
        finally:
            self.free.append(scanner)

    def stop(self) -> None:
        """End the scans."""
        super().stop()
        for scanner in self.scanners:
            scanner.cancel()

    def close(self) -> None:
        """End the child processes."""
        for scanner in self.scanners:
            scanner.close()


def scan_key(source: InputSource, scan: ScanOptions, encoder: Encoder) -> str:
    """What decides the scan of a source: its content, how it is decoded and embedded, and the packages that do it."""
    packages = ["opencv-python", "torch", "open_clip_torch"]  # which builds the layers of the encoder
    decisive: dict[str, object] = {}
    if source.kind == "photos":
        packages.append("pillow")
    else:
        decisive = {name: value for name, value in vars(scan).items() if name not in SCAN_LIMITS}
        packages += [] if scan.decoder == "opencv" else ["av"]
        packages += [] if scan.detector in ("adaptive", "ffmpeg") else ["scenedetect"]
    vectors = encoder.fingerprint, encoder.precision
    return sha256_of([source.sha256, decisive, vectors, package_versions(*packages)])


def unit_stamp(
    source: InputSource, scan: str, picking: PickingRules, choice: PhotoPicking, pool: object = None
) -> UnitKeys:
    """What the unit of a source is made with; `pool`: what the sets of an album are picked from."""
    photos = [asdict(choice.copies), choice.sample, choice.seed, pool, *["index"] * choice.index]
    own = photos if source.kind == "photos" else []
    select = [picking.threshold, picking.set_size, vars(picking.quality.limits), own]
    return UnitKeys(scan, sha256_of(select), picking.quality.stamps())


def _strata(boxes: Path | None, sources: Sequence[SourceHashes]) -> dict[str, tuple[str, ...]]:
    """The themes of photos by a CSV of boxes of Open Images; nothing of another file."""
    if boxes is None or not is_boxes(boxes):
        return {}
    known, _ = labels_of_boxes(boxes, [image for one in sources for image in one.ids])
    found = {one.name: [known[image] for image in one.ids if image in known] for one in sources}
    return {name: themes_of(label for row in rows for label in row.labels) for name, rows in found.items()}


def _pooled(
    rows: Sequence[Split], albums: Sequence[SourceHashes], free: Collection[str], options: BuildSets
) -> dict[str, SplitName]:
    """The splits. Where valid or test has too few photos for a set, or for two where train has plenty, photos of a lone album come from
    train; where there are none, its `free` albums and photos go there."""
    splits, needed = {row.group: row.split for row in rows}, options.set_size
    order = sorted((one.name for one in albums if "/" in one.name), key=lambda name: sha256_of([options.salt, name]))
    # photos that stay together may be copies, of which a set holds one
    size = {one.name: 1 if "/" in one.name else len(one.ids) for one in albums}
    photos_in = {split: sum(size[name] for name in size if splits[name] == split) for split in SPLITS}
    for split in SPLITS[1:]:
        for name in (name for name in order if name in free and splits[name] == "train"):
            if (photos_in[split] < needed < photos_in["train"]) or (
                photos_in[split] < 2 * needed and photos_in["train"] > 4 * needed
            ):
                splits[name] = split
                photos_in[split], photos_in["train"] = photos_in[split] + 1, photos_in["train"] - 1
        if photos_in[split] < needed:
            splits |= {name: "train" for name in size if splits[name] == split and name in free}
    return splits
