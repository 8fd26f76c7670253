"""Pairs of entailment and their pictures, from artifacts or published files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ctxr.datasets.pairs import EntailmentPair, published_image, published_names, seen_pictures
from ctxr.datasets.readers.entailment import CAPTIONS, PICTURES, TABLES, PairFile, read_captions, read_pairs, tally
from ctxr.datasets.readers.relevance import pairs_of, read_positives
from ctxr.engine.progress import Progress
from ctxr.engine.project import command_in
from ctxr.errors import DataError, UsageError, plural
from ctxr.store import kinds
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.paths import stays_inside
from ctxr.store.records import Image
from ctxr.store.tables import read_table

PROBABILITIES = "probabilities.jsonl"

KINDS = {"all": "all pairs", "both": "picture and captions", "image": "picture alone", "text": "texts alone"}
"""What a premise is made of, in words."""


PAIRS = "pairs.jsonl"
MOST_ISSUES = 4
"""Sorts of issues of a file that are listed."""

_TO_CAPTION, _TO_IMAGE = "_image_to_caption", "_caption_to_image"
"""By which the two files of published positives are known: `eccv_image_to_caption.json`."""

FOLDERS = (kinds.PAIRS, "dataset")
"""Folders of a project whose pairs are meant where none are named, the first that has some."""


@dataclass(frozen=True)
class EntailmentPairs:
    """Pairs and their pictures.

    Attributes:
        name: of their source. rows: pairs with a hypothesis and a premise.
        files: picture by image id. contents: SHA-256 of each, by image id.
        origin: the source, by content.
    """

    name: str
    rows: tuple[EntailmentPair, ...]
    files: dict[str, Path]
    contents: dict[str, str]
    origin: Parent

    def in_split(self, split: str) -> list[EntailmentPair]:
        """The pairs of one split."""
        return [pair for pair in self.rows if pair.split == split]

    def marks(self, rows: Iterable[EntailmentPair]) -> set[str]:
        """What the pictures of some pairs are known by: SHA-256 of a file, canonical id of a published picture."""
        images = {pair.image for pair in rows if pair.image is not None}
        hashes = {self.contents[image] for image in images if image in self.contents}
        return hashes | {published for image in images if (published := published_image(image))}


def find_pairs(path: Path | None, workdir: Path, progress: Progress) -> Path:
    """Where the pairs at `path` lie; without one those of the project, of `ctxr pairs` or else of its dataset, which is said.

    Raises UsageError where it has none.
    """
    if path is None:
        path = next((workdir / name for name in FOLDERS if (workdir / name / PAIRS).is_file()), None)
        if path is None:
            raise UsageError(
                f"{workdir} holds no pairs of entailment",
                hint=f"{command_in(workdir, 'pairs', 'sample')}   (or own, or a dataset with captions), or --dataset with pairs",
            )
        progress.note(f"using the pairs of {path}")
    return path.parent if path.is_file() and path.name == PAIRS else path


def open_pairs(path: Path | None, workdir: Path, progress: Progress) -> EntailmentPairs:
    """The pairs at `path`: an artifact with `pairs.jsonl`, a published file, or a folder of published files; without one those of
    the project, of `ctxr pairs` or else of its dataset.

    Raises UsageError for a path that is neither, DataError for rows that do not fit and where texts or pictures of all pairs are missing.
    """
    path = find_pairs(path, workdir, progress)
    if (path / PAIRS).is_file():
        artifact = open_artifact(path) if (path / MANIFEST).is_file() else None
        table = path / "images.jsonl"
        images = {row.id: row for row in read_table(table, Image)} if table.is_file() else {}
        rows = tuple(read_table(path / PAIRS, EntailmentPair))
        wanted = {pair.image for pair in rows}
        files = {
            name: path / row.path
            for name, row in images.items()
            if name in wanted and stays_inside(row.path) and (path / row.path).is_file()
        }
        contents = {name: images[name].sha256 for name in files}
        sha256 = artifact.sha256 if artifact else sha256_of([sha256_file(path / PAIRS), sorted(contents.items())])
        origin = Parent("pairs", kinds.DATASET, sha256)
        pairs = EntailmentPairs(path.resolve().name, rows, files, contents, origin)
    else:
        pairs = _of_files(path, progress)
    whole = [pair for pair in pairs.rows if pair.hypothesis and pair.kind != "none"]
    lost = [pair for pair in whole if pair.image is not None and pair.image not in pairs.files]
    if lost:
        are = plural(len(lost), "pair is", "pairs are")
        progress.warn(f"{are} about missing pictures, the first is {lost[0].image}: left out")
    if short := len(pairs.rows) - len(whole):
        progress.warn(f"{plural(short, 'pair has', 'pairs have')} no hypothesis or no premise: left out")
    kept = tuple(pair for pair in whole if pair.image is None or pair.image in pairs.files)
    if not kept:
        raise DataError(
            f"{path} holds no pair with its texts and pictures",
            hint=f"put captions into {CAPTIONS}/ and pictures into {PICTURES}/ beside the files",
        )
    return replace(pairs, rows=kept)


def refuse_seen(pairs: EntailmentPairs, rows: Sequence[EntailmentPair], trained_on: Iterable[str], name: str) -> None:
    """Raises DataError where pairs are about pictures that a classifier was trained on."""
    shown = sorted({pair.image for pair in rows if pair.image is not None})
    seen = seen_pictures([(image, pairs.contents.get(image, "")) for image in shown], frozenset(trained_on))
    if seen:
        first = next(pair for pair in rows if pair.image in seen)
        raise DataError(
            f"{name} was trained on {plural(len(seen), 'picture')} that it would judge, the first is {first.image} of {first.id}",
            hint="judge other pictures, or train again without them",
        )


def _of_files(path: Path, progress: Progress) -> EntailmentPairs:
    """The pairs of published files at `path`, with a note on each and a few more on its issues.

    Raises DataError where there is no pair.
    """
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}", hint="--dataset names pairs of entailment")
    whole = path.is_dir()
    if not whole and path.suffix == ".json":
        raise UsageError(f"{path} is only a part of its dataset", hint=f"--dataset {path.parent}, the folder")
    home = path if whole else path.parent
    captions = read_captions(sorted((home / CAPTIONS).glob("*.json")))
    named = {table.name: table for table in (sorted(path.iterdir()) if whole else [path])}
    readings = {
        name: read_pairs(table, captions=captions)
        for name, table in named.items()
        if table.suffix in TABLES or not whole
    }
    for name, table in named.items():
        source, _, ending = name.partition(_TO_CAPTION)
        other = named.get(f"{source}{_TO_IMAGE}{ending}")
        if ending == ".json" and other is not None:
            pairs = pairs_of(read_positives(table), read_positives(other), captions, source)
            readings[name] = PairFile(tuple(pairs), (), len(pairs), source)
    if not readings:
        raise DataError(
            f"{path} holds no file of pairs",
            hint=f"put {', '.join(TABLES)} there; ctxr pairs also takes a dataset with captions",
        )
    for name, reading in readings.items():
        among = f" in {reading.rows} rows" if reading.left_out else ""
        progress.note(f"{name}: {plural(len(reading.pairs), 'pair')} of {reading.source}{among}")
        lines = tally(reading.issues)
        for line in lines[:MOST_ISSUES]:
            progress.note(f"  {line}")
        if len(lines) > MOST_ISSUES:
            progress.note(f"  and {plural(len(lines) - MOST_ISSUES, 'other issue', 'other issues')}")
    if not any(reading.pairs for reading in readings.values()):
        first = next((one for reading in readings.values() for one in reading.left_out), None)
        why = f"no row of it can be used: {first.where}: {first.what}" if first else "there is no row below its header"
        raise DataError(f"{path} holds no pair: {why}", hint="restore the file, or fetch it again")
    rows = tuple(pair for reading in readings.values() for pair in reading.pairs)
    files: dict[str, Path] = {}
    for image in sorted({pair.image for pair in rows if pair.image}):
        places = [home / PICTURES / name for name in published_names(image)]
        if file := next(filter(Path.is_file, places), None):
            files[image] = file
    contents = {image: sha256_file(file) for image, file in files.items()}
    decides = [[repr(pair) for pair in rows], list(contents.items())]
    origin = Parent("pairs", kinds.RELEASE, sha256_of(decides))
    return EntailmentPairs(path.resolve().stem, rows, files, contents, origin)
