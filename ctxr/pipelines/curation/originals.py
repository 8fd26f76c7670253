"""The images of a recipe or an artifact in their sources: frames are decoded again, photos are known by their hash."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from ctxr.datasets.rebuilding import ImageDifference, RecipeImage
from ctxr.engine.engines import Engine
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.media.footage import WHERE, SourceLocator, Visit, decode_frames, pixels_sha256
from ctxr.media.images import Pixels
from ctxr.media.video import VideoError
from ctxr.store.artifacts import Artifact, open_artifact
from ctxr.store.hashing import sha256_bytes
from ctxr.store.kinds import EXPORT
from ctxr.store.records import Source

R = TypeVar("R")


def recipe_at(path: Path) -> Artifact:
    """A finished recipe. Raises UnfinishedError, or DataError when it is another export, was changed, or is damaged."""
    artifact = open_artifact(path, EXPORT, "ctxr export --to recipe")
    if (to := artifact.manifest.config.get("to")) != "recipe":
        hint = "name a folder made by ctxr export --to recipe"
        raise DataError(f"{path} is an export to {to}, not a recipe", hint=hint)
    if changed := artifact.changed_files():
        hint = "get the recipe again from where it came from"
        raise DataError(f"{path / changed[0]} was changed since it was written", hint=hint)
    return artifact


def frame_difference(image: RecipeImage, rgb: Pixels, saved: bytes) -> ImageDifference | None:
    """How a decoded frame, or the JPEG that it was saved as, differs from the recipe; None where both are the same."""
    if pixels_sha256(rgb) != image.pixels:
        return ImageDifference(image.id, "pixels", "the decoded frame has other pixels than the recipe says")
    if sha256_bytes(saved) != image.sha256:
        return ImageDifference(image.id, "saved_file", "the frame is the same, its JPEG file is another")
    return None


@dataclass
class Originals:
    """Looks images up in their sources.

    Attributes:
        locator: finds the sources. engine: what decodes videos.
        errors: by source, why images of it could not be had.
        compared: by image, how it differs from its source; None where it is the same.
    """

    locator: SourceLocator
    engine: Engine
    progress: Progress
    errors: dict[str, DataError] = field(default_factory=dict)
    compared: dict[str, ImageDifference | None] = field(default_factory=dict)

    def frames(self, images: Iterable[Any], sources: Mapping[str, Source], visit: Visit[R]) -> dict[str, R]:
        """Decode the frames among the images. Returns what `visit`, see `decode_frames`, says of each by id."""
        videos: dict[Source, list[Any]] = defaultdict(list)
        for image in sorted(images, key=lambda image: image.source):
            if image.index is not None:
                video = sources[image.source]
                if isinstance(image, RecipeImage):
                    video = replace(video, sha256=image.source_sha256, decoder=image.decoder)
                videos[video].append(image)
        said = dict[str, R]()
        for video, results, error in decode_frames(videos, self.locator, visit, self.progress, self.engine):
            if error:
                self.errors[video.name] = error
            said |= results
        return said

    def photos(self, images: Iterable[Any], sources: Mapping[str, Source]) -> Iterator[tuple[Any, Path]]:
        """The photos among the images, each with its file."""
        photos = [image for image in images if image.index is None]
        if not photos:
            return
        albums = {name: source.sha256 for name, source in sources.items() if source.kind == "photos"}
        files, lost = self.locator.photos(albums), dict[str, list[str]]()
        folders: dict[str, set[Path]] = defaultdict(set)
        for image in self.progress.each("comparing photos", photos):
            if file := files.get(image.sha256):
                folders[image.source].add(file.parent)
                yield image, file
            else:
                lost.setdefault(image.source, []).append(image.id)
        for album, (folder, *others) in folders.items():
            if not others:
                self.locator.places.setdefault(albums[album], folder)
        for album, ids in lost.items():
            message = f"{len(ids)} photos of {album} are not found, such as {ids[0]}"
            self.errors[album] = VideoError("no_such_file", message, WHERE)
