"""Pairs to learn entailment from: those of a drawn world, or published files, with the pictures that are at hand."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ctxr.data.artifacts import MANIFEST, Parent, open_artifact
from ctxr.data.entailment import EntailmentPair, file_names
from ctxr.data.hashing import sha256_file, sha256_of
from ctxr.data.records import Image
from ctxr.data.tables import read_table
from ctxr.errors import DataError, UsageError
from ctxr.pipelines.talk import Talk

PAIRS, PICTURES, CAPTIONS = "pairs.jsonl", "pictures", "captions"
"""Table of an artifact; folders beside published files with pictures under their published names, and with files of captions."""

DATASET = "dataset"
"""Folder of a project whose pairs are meant where none are named."""

_TABLES = (".csv", ".tsv", ".txt", ".jsonl")
_CANONICAL = ("coco/", "flickr30k/")


@dataclass(frozen=True)
class Pairs:
    """Pairs and their pictures.

    Attributes:
        name: of where they are from. rows: pairs that have a hypothesis and a premise at hand.
        files: picture by image id. contents: SHA-256 of each, by image id.
        origin: what they are, by content.
    """

    name: str
    rows: tuple[EntailmentPair, ...]
    files: dict[str, Path]
    contents: dict[str, str]
    origin: Parent

    def side(self, split: str) -> list[EntailmentPair]:
        """The pairs of one side."""
        return [pair for pair in self.rows if pair.split == split]

    def marks(self, rows: Iterable[EntailmentPair]) -> set[str]:
        """What the pictures of some pairs are known by: SHA-256 of a file, canonical id of a published picture."""
        images = {pair.image for pair in rows if pair.image is not None}
        known = {self.contents[image] for image in images if image in self.contents}
        return known | {image for image in images if image.startswith(_CANONICAL)}


def open_pairs(path: Path | None, workdir: Path, talk: Talk) -> Pairs:
    """The pairs at `path`: an artifact with `pairs.jsonl`, a published file, or a folder of published files; without one those of
    the project's dataset.

    Raises UsageError for a path that is neither, DataError for rows that do not fit or pairs of which nothing is at hand.
    """
    if path is None:
        path = workdir / DATASET
        if not (path / PAIRS).is_file():
            raise UsageError(
                f"{workdir} holds no pairs to learn entailment from",
                hint="--dataset FOLDER with pairs.jsonl, or a published file",
            )
        talk.note(f"looking at the pairs of {path}")
    made = _of_artifact(path) if (path / PAIRS).is_file() else _of_files(path, talk)
    whole = [pair for pair in made.rows if pair.hypothesis and pair.kind != "none"]
    lost = [pair for pair in whole if pair.image is not None and pair.image not in made.files]
    if lost:
        talk.warn(f"{len(lost)} pairs are about pictures that are not at hand, the first is {lost[0].image}: left out")
    if len(whole) < len(made.rows):
        talk.warn(f"{len(made.rows) - len(whole)} pairs have no hypothesis or no premise at hand: left out")
    kept = tuple(pair for pair in whole if pair.image is None or pair.image in made.files)
    if not kept:
        raise DataError(
            f"{path} holds no pair whose texts and pictures are at hand",
            hint=f"put captions into {CAPTIONS}/ and pictures into {PICTURES}/ beside the files",
        )
    return Pairs(made.name, kept, made.files, made.contents, made.origin)


def refuse_seen(pairs: Pairs, rows: Sequence[EntailmentPair], trained_on: Iterable[str], name: str) -> None:
    """Raises DataError where some of the pairs are about pictures that a classifier was trained on."""
    seen = pairs.marks(rows) & set(trained_on)
    if seen:
        first = next(pair for pair in rows if pairs.marks([pair]) & seen)
        raise DataError(
            f"{name} was trained on {len(seen)} pictures that it would judge, the first is {first.image} of {first.id}",
            hint="judge other pictures, or train again without them",
        )


def _of_artifact(path: Path) -> Pairs:
    artifact = open_artifact(path) if (path / MANIFEST).is_file() else None
    images = (
        {row.id: row for row in read_table(path / "images.jsonl", Image)} if (path / "images.jsonl").is_file() else {}
    )
    rows = tuple(read_table(path / PAIRS, EntailmentPair))
    wanted = {pair.image for pair in rows}
    files = {name: path / row.path for name, row in images.items() if name in wanted and (path / row.path).is_file()}
    contents = {name: images[name].sha256 for name in files}
    sha256 = artifact.sha256 if artifact else sha256_of([sha256_file(path / PAIRS), sorted(contents.items())])
    return Pairs(path.resolve().name, rows, files, contents, Parent("pairs", "dataset", sha256))


def _of_files(path: Path, talk: Talk) -> Pairs:
    from ctxr.data.readers.entailment import read_captions, read_pairs

    if not path.exists():
        raise UsageError(f"there is no file or folder {path}", hint="--dataset names pairs to learn from")
    folder = path if path.is_dir() else path.parent
    tables = sorted(one for one in path.iterdir() if one.suffix in _TABLES) if path.is_dir() else [path]
    captions = read_captions(sorted((folder / CAPTIONS).glob("*.json")))
    rows: list[EntailmentPair] = []
    for table in tables:
        reading = read_pairs(table, captions=captions)
        left = sum(not one.kept for one in reading.oddities)
        talk.note(
            f"{table.name}: {len(reading.pairs)} pairs of {reading.source}"
            + (f", {left} rows left out" if left else "")
        )
        rows += reading.pairs
    files = {image: file for image in {pair.image for pair in rows if pair.image} if (file := _picture(folder, image))}
    contents = {image: sha256_file(file) for image, file in sorted(files.items())}
    decides = [[repr(pair) for pair in rows], sorted(contents.items())]
    return Pairs(path.resolve().stem, tuple(rows), files, contents, Parent("pairs", "release", sha256_of(decides)))


def _picture(folder: Path, image: str) -> Path | None:
    return next((file for name in file_names(image) if (file := folder / PICTURES / name).is_file()), None)
