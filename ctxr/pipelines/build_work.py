"""What the runs of `build-sets` and `filter` share: what becomes of each source."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ctxr.data.artifacts import MANIFEST
from ctxr.data.atomic import write_bytes
from ctxr.data.records import Facts, Failure
from ctxr.data.sources import FoundSource
from ctxr.data.tables import write_table
from ctxr.data.units import SourceUnit, Stamp, read_stamp, read_unit
from ctxr.data.video import VideoError
from ctxr.errors import DataError
from ctxr.pipelines.photo_pool import PhotoPool
from ctxr.pipelines.photo_units import PhotoPicking, pick_photos
from ctxr.pipelines.quality import Unmeasurable
from ctxr.pipelines.scan import ScanFailed
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.video_unit import UnitContext


@dataclass
class SetsRun:
    """A run that makes units of sources.

    Attributes:
        retry: the command that tries failed sources again. hint: what helps where a failure says nothing else.
        units: by source, those that are done. failures: sources and photos that gave nothing.
    """

    context: UnitContext
    talk: Talk
    retry: str
    hint: str = ""
    units: dict[str, SourceUnit] = field(default_factory=dict)
    failures: list[Failure] = field(default_factory=list)

    def take(self, name: str, stamp: Stamp) -> bool:
        """Take a unit as an earlier run left it; whether it is there, whole, and of this stamp."""
        artifact = self.context.artifact
        unit = readable_unit(artifact, name) if read_stamp(artifact, name) == stamp else None
        if unit is not None:
            self.units[name] = unit
        return unit is not None

    def attempt(self, name: str, file: Callable[[], Path | str], make: Callable[[], SourceUnit]) -> SourceUnit | None:
        """Make the unit of a video, whose `file` a failure names; a video that cannot be used costs only itself."""
        if self.context.stopping.is_set():
            return None
        try:
            unit = self.units[name] = make()
        except (ScanFailed, VideoError, Unmeasurable) as error:
            if not self.context.stopping.is_set():
                hint = error.hint or self.hint
                self.failures.append(Failure(name, str(file()), error.reason, error.message, self.retry))
                self.talk.warn(f"{error.message} ({hint})" if hint else error.message)
            return None
        return unit

    def fail_photos(self, unreadable: Sequence[tuple[FoundSource, int, str]]) -> None:
        """Note photos (album, position, why) that could not be read; the others of their albums go on."""
        for album, position, message in unreadable:
            self.failures.append(Failure(album.name, str(album.photos[position]), "unreadable", message, self.retry))
            self.talk.warn(message)

    def pick_photos(
        self,
        pool: PhotoPool,
        albums: Sequence[FoundSource],
        stamps: Mapping[str, Stamp],
        choice: PhotoPicking,
        facts: Mapping[tuple[str, int], Facts],
        label: str,
    ) -> None:
        """The units of all albums, whose photos are one pool; see `photo_units.pick_photos`."""
        with self.talk.progress(label, len(pool.photos)) as task:
            made = pick_photos(self.context, pool, albums, stamps, choice, facts, task.advance)
        self.units.update({unit.source.name: unit for unit in made})

    def require_units(self, finished_before: bytes | None, known: Sequence[Failure], hint: str) -> None:
        """Raise DataError if no source could be used. The manifest `finished_before` is put back then: the old result stays
        as it was; without one, the failures are written, `known` ones too.
        """
        if self.units or not self.failures:
            return
        artifact = self.context.artifact
        if finished_before:
            write_bytes(artifact / MANIFEST, finished_before)
        else:
            write_table(artifact / "failures.jsonl", [*known, *self.failures])
        first = min(self.failures, key=lambda failure: failure.key())
        more = f" (and {len(self.failures) - 1} more)" if len(self.failures) > 1 else ""
        raise DataError(f"no source could be used: {first.message}{more}", hint=hint)


def typed_options(config: Any) -> list[str]:
    """The options of `build-sets` or `filter` that decide the result, not where things lie, as they are typed."""
    default, typed = type(config)(), []
    for name in config.result_config():
        value = getattr(config, name, None)
        if value != getattr(default, name, None):
            typed += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return typed


def readable_unit(out: Path, name: str) -> SourceUnit | None:
    """A unit to pick from again; None if it is not there or was damaged: then it is made anew."""
    try:
        return read_unit(out, name)
    except DataError:
        return None
