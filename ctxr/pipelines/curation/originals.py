"""The images of a recipe or an artifact in their sources: frames are decoded again, photos are known by their hash."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from msgspec.structs import replace

from ctxr.datasets.rebuilding import RebuildRecipe, RecipeImage
from ctxr.engine.progress import Progress
from ctxr.errors import DataError
from ctxr.media.footage import WHERE, SourceLocator, decode_frames
from ctxr.media.images import Pixels
from ctxr.media.video import VideoError
from ctxr.pipelines.curation.config import Rebuild, Verify
from ctxr.store.artifacts import Artifact, open_artifact
from ctxr.store.kinds import EXPORT
from ctxr.store.records import Source

V = TypeVar("V")


def recipe_at(path: Path) -> Artifact:
    """A finished recipe. Raises UnfinishedError, or DataError when it is another export, was changed, or is damaged."""
    artifact = open_artifact(path, EXPORT, "ctxr export --to recipe")
    if artifact.manifest.config.get("to") != "recipe":
        raise DataError(
            f"{path} is an export to {artifact.manifest.config.get('to')}, not a recipe",
            hint="name a folder made by ctxr export --to recipe",
        )
    if changed := artifact.changed_files():
        raise DataError(
            f"{path / changed[0]} was changed since it was written", hint="get the recipe again from where it came from"
        )
    return artifact


class Originals:
    """Looks images up in their sources.

    Attributes:
        locator: finds the sources of `artifact`. errors: by source, why images of it could not be had.
    """

    def __init__(self, artifact: Path, options: Rebuild | Verify, progress: Progress) -> None:
        self.locator = SourceLocator(artifact, options.videos, progress)
        self.errors: dict[str, DataError] = {}
        self._workers, self._progress = options.workers, progress

    def recipe_frames(
        self, images: Iterable[RecipeImage], recipe: RebuildRecipe, visit: Callable[[Any, Pixels, int | None], V]
    ) -> Iterator[V]:
        """As `frames`, of the images of a recipe that are frames."""
        frames = [image for image in images if image.index is not None]
        sources = [
            replace(recipe.sources[image.source], sha256=image.source_sha256, decoder=image.decoder) for image in frames
        ]
        return self.frames(zip(frames, sources, strict=True), visit)

    def frames(
        self, images: Iterable[tuple[Any, Source]], visit: Callable[[Any, Pixels, int | None], V]
    ) -> Iterator[V]:
        """What `visit` returns for each image, which comes with its video; see `decode_frames`."""
        videos: dict[Source, list[Any]] = defaultdict(list)
        for image, video in sorted(images, key=lambda pair: pair[1].name):
            videos[video].append(image)
        for video, results, error in decode_frames(videos, self.locator, visit, self._progress, self._workers):
            if error:
                self.errors[video.name] = error
            yield from results

    def photos(self, images: Sequence[tuple[Any, str]], sources: Iterable[Source]) -> Iterator[tuple[Any, Path]]:
        """Each image, which comes with the name of its album, with its file among `sources`."""
        if not images:
            return
        albums = {source.name: source.sha256 for source in sources if source.kind == "photos"}
        files, lost = self.locator.photos(albums), dict[str, list[str]]()
        folders: dict[str, set[Path]] = defaultdict(set)
        with self._progress.task("photos", len(images)) as task:
            for image, album in images:
                if file := files.get(image.sha256):
                    folders[album].add(file.parent)
                    yield image, file
                else:
                    lost.setdefault(album, []).append(image.id)
                task.advance()
        for album, (folder, *others) in folders.items():
            if not others:
                self.locator.places.setdefault(albums[album], folder)
        for album, ids in lost.items():
            message = f"{len(ids)} photos of {album} are not found, such as {ids[0]}"
            self.errors[album] = VideoError("no_such_file", message, WHERE)
