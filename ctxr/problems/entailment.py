"""Entailment classifiers of a project: opened, and the pairs and pictures they learn from or judge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctxr.datasets.pairs import EntailmentPair, file_names, published_image, seen_pictures
from ctxr.datasets.readers.entailment import Reading, read_captions, read_pairs
from ctxr.datasets.readers.relevance import pairs_of, read_positives
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.images import read_image
from ctxr.models.entailment.base import TextSource
from ctxr.models.entailment.checkpoint import TrainedClassifier, fingerprint_of, read_notes
from ctxr.models.entailment.fresh import FINEST, black_picture, cells_of
from ctxr.models.entailment.recipe import IMAGE, JOINT, TEXT, ClassifierRecipe
from ctxr.models.entailment.sources import Branches
from ctxr.models.entailment.training import PairTable, looking_up, make_claims
from ctxr.models.precision import choose_device
from ctxr.models.regions import GridRegions
from ctxr.models.training.examples import Images, PixelTable, VectorTable
from ctxr.problems.embeddings import cached
from ctxr.store.artifacts import MANIFEST, Parent, open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_file, sha256_of
from ctxr.store.kinds import CLASSIFIER, CLASSIFIERS
from ctxr.store.records import Image
from ctxr.store.tables import read_table


def open_classifier(run: Path | str, device: str = "auto") -> "TrainedClassifier":
    """A trained classifier (`ctxr.models.entailment.base.Classifier`).

    Args:
        run: its folder, such as `work/classifiers/entailment`; of several seeds the first, or `.../seed1`.
        device: "auto", "cpu", "cuda" or "mps".

    Raises UnfinishedError for a folder that holds none, DataError for one that was changed since it was trained or whose branches
    are not here.
    """
    seed, name = _seed_of(Path(run))
    return TrainedClassifier(seed, name, choose_device(device))


def own_threshold(run: Path | str) -> tuple[float, float | None]:
    """(probability from which on a classifier calls a claim entailed, its precision on the dev pairs that chose it, None where
    none did). Raises what `open_classifier` raises of the folder; no weights are read."""
    seed, _ = _seed_of(Path(run))
    notes = read_notes(seed)
    return notes.threshold, notes.reached


def own_fingerprint(run: Path | str) -> str:
    """What a classifier is known by; raises what `own_threshold` raises, and reads its file of weights through once."""
    return fingerprint_of(_seed_of(Path(run))[0])


def _seed_of(folder: Path) -> tuple[Path, str]:
    """The folder of a seed as it was trained, and what it is called."""
    whole = folder.parent if folder.name.startswith("seed") else folder
    if not (whole / "manifest.json").is_file():
        raise UnfinishedError(f"{whole} holds no finished classifier", hint="ctxr train --recipe entailment")
    artifact = open_artifact(whole, CLASSIFIER)
    seed = folder if whole != folder else folder / "seed0"
    if not any(name.startswith(f"{seed.name}/") for name in artifact.manifest.files):
        raise DataError(f"{whole} was trained without {seed.name}", hint="name one of its seeds, or train it again")
    if edited := artifact.changed_files(f"{seed.name}/"):
        raise DataError(
            f"{whole / edited[0]} was changed since it was trained",
            hint="ctxr train as before, which trains a changed seed again",
        )
    name = whole.resolve().name
    return seed, name if whole == folder else f"{name}/{seed.name}"


def classifiers_in(workdir: Path) -> list[str]:
    """Names of the finished classifiers of a project."""
    return [folder.name for folder in sorted((workdir / CLASSIFIERS).glob("*")) if is_classifier(folder)]


def is_classifier(folder: Path) -> bool:
    """Whether a folder holds a finished classifier."""
    return (folder / MANIFEST).is_file() and open_artifact(folder).manifest.kind == CLASSIFIER


PAIRS, PICTURES, CAPTIONS = "pairs.jsonl", "pictures", "captions"
"""Table of an artifact; folders beside published files with pictures under their published names, and with files of captions."""

MOST_TOLD = 4
"""Sorts of oddities of a file that are told."""

_TO_CAPTION, _TO_IMAGE = "_image_to_caption", "_caption_to_image"
"""By which the two files of published positives are known: `eccv_image_to_caption.json`."""

DATASET = "dataset"
"""Folder of a project whose pairs are meant where none are named."""

_TABLES = (".csv", ".tsv", ".txt", ".jsonl")


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

    def side(self, split: str) -> list[EntailmentPair]:
        """The pairs of one side."""
        return [pair for pair in self.rows if pair.split == split]

    def marks(self, rows: Iterable[EntailmentPair]) -> set[str]:
        """What the pictures of some pairs are known by: SHA-256 of a file, canonical id of a published picture."""
        images = {pair.image for pair in rows if pair.image is not None}
        known = {self.contents[image] for image in images if image in self.contents}
        return known | {found for image in images if (found := published_image(image))}


def open_pairs(path: Path | None, workdir: Path, progress: Progress) -> EntailmentPairs:
    """The pairs at `path`: an artifact with `pairs.jsonl`, a published file, or a folder of published files; without one those of
    the project's dataset.

    Raises UsageError for a path that is neither, DataError for rows that do not fit and where texts or pictures of all pairs are missing.
    """
    if path is None:
        path = workdir / DATASET
        if not (path / PAIRS).is_file():
            raise UsageError(
                f"{workdir} holds no pairs of entailment",
                hint="--dataset FOLDER with pairs.jsonl, or a published file",
            )
        progress.note(f"using the pairs of {path}")
    if path.is_file() and path.name == PAIRS:
        path = path.parent
    made = _of_artifact(path) if (path / PAIRS).is_file() else _of_files(path, progress)
    whole = [pair for pair in made.rows if pair.hypothesis and pair.kind != "none"]
    lost = [pair for pair in whole if pair.image is not None and pair.image not in made.files]
    if lost:
        are = "pair is" if len(lost) == 1 else "pairs are"
        progress.warn(f"{len(lost)} {are} about missing pictures, the first is {lost[0].image}: left out")
    if len(whole) < len(made.rows):
        have = "pair has" if len(made.rows) - len(whole) == 1 else "pairs have"
        progress.warn(f"{len(made.rows) - len(whole)} {have} no hypothesis or no premise: left out")
    kept = tuple(pair for pair in whole if pair.image is None or pair.image in made.files)
    if not kept:
        raise DataError(
            f"{path} holds no pair with its texts and pictures",
            hint=f"put captions into {CAPTIONS}/ and pictures into {PICTURES}/ beside the files",
        )
    return EntailmentPairs(made.name, kept, made.files, made.contents, made.origin)


def refuse_seen(pairs: EntailmentPairs, rows: Sequence[EntailmentPair], trained_on: Iterable[str], name: str) -> None:
    """Raises DataError where some of the pairs are about pictures that a classifier was trained on."""
    shown = sorted({pair.image for pair in rows if pair.image is not None})
    seen = seen_pictures([(image, pairs.contents.get(image, "")) for image in shown], frozenset(trained_on))
    if seen:
        first = next(pair for pair in rows if pair.image in seen)
        raise DataError(
            f"{name} was trained on {_many(len(seen), 'picture')} that it would judge, the first is {first.image} of {first.id}",
            hint="judge other pictures, or train again without them",
        )


def _of_artifact(path: Path) -> EntailmentPairs:
    artifact = open_artifact(path) if (path / MANIFEST).is_file() else None
    images = (
        {row.id: row for row in read_table(path / "images.jsonl", Image)} if (path / "images.jsonl").is_file() else {}
    )
    rows = tuple(read_table(path / PAIRS, EntailmentPair))
    wanted = {pair.image for pair in rows}
    files = {name: path / row.path for name, row in images.items() if name in wanted and (path / row.path).is_file()}
    contents = {name: images[name].sha256 for name in files}
    sha256 = artifact.sha256 if artifact else sha256_of([sha256_file(path / PAIRS), sorted(contents.items())])
    return EntailmentPairs(path.resolve().name, rows, files, contents, Parent("pairs", "dataset", sha256))


def _of_files(path: Path, progress: Progress) -> EntailmentPairs:
    if not path.exists():
        raise UsageError(f"there is no file or folder {path}", hint="--dataset names pairs of entailment")
    folder = path if path.is_dir() else path.parent
    rows = [pair for reading in _readings(path, progress) for pair in reading.pairs]
    files = {image: file for image in {pair.image for pair in rows if pair.image} if (file := _picture(folder, image))}
    contents = {image: sha256_file(file) for image, file in sorted(files.items())}
    decides = [[repr(pair) for pair in rows], sorted(contents.items())]
    return EntailmentPairs(
        path.resolve().stem, tuple(rows), files, contents, Parent("pairs", "release", sha256_of(decides))
    )


def _readings(path: Path, progress: Progress) -> "list[Reading]":
    """What lies at `path`, each reading told in a line, and what is odd in it in a few more. Raises DataError for nothing."""
    whole = path.is_dir()
    if not whole and path.suffix == ".json":
        raise UsageError(f"{path} is only a part of its dataset", hint=f"--dataset {path.parent}, the folder")
    captions = read_captions(sorted(((path if whole else path.parent) / CAPTIONS).glob("*.json")))
    named = {table.name: table for table in (sorted(path.iterdir()) if whole else [path])}
    readings = {
        name: read_pairs(file, captions=captions) for name, file in named.items() if file.suffix in _TABLES or not whole
    }
    for name, file in named.items():
        source, _, rest = name.partition(_TO_CAPTION)
        other = named.get(f"{source}{_TO_IMAGE}{rest}")
        if rest == ".json" and other is not None:
            found = pairs_of(read_positives(file), read_positives(other), captions, source)
            readings[name] = Reading(tuple(found), (), len(found), source)
    if not readings:
        raise DataError(f"{path} holds no file of pairs", hint=f"put {', '.join(_TABLES)} there")
    for name, reading in readings.items():
        among = f" in {reading.rows} rows" if reading.left_out else ""
        progress.note(f"{name}: {_many(len(reading.pairs), 'pair')} of {reading.source}{among}")
        lines = reading.tally()
        for line in lines[:MOST_TOLD]:
            progress.note(f"  {line}")
        if len(lines) > MOST_TOLD:
            progress.note(f"  and {_many(len(lines) - MOST_TOLD, 'other oddity', 'other oddities')}")
    if not any(reading.pairs for reading in readings.values()):
        first = next((one for reading in readings.values() for one in reading.left_out), None)
        why = f"no row of it can be used: {first.where}: {first.what}" if first else "there is no row below its header"
        raise DataError(f"{path} holds no pair: {why}", hint="restore the file, or fetch it again")
    return list(readings.values())


def _many(count: int, one: str, more: str = "") -> str:
    return f"{count} {one if count == 1 else more or one + 's'}"


def _picture(folder: Path, image: str) -> Path | None:
    return next((file for name in file_names(image) if (file := folder / PICTURES / name).is_file()), None)


TEXTS = 128
"""Texts in a file of what a text branch says of them."""


@dataclass(frozen=True)
class ClaimRow:
    """One claim: what is shown of a pair, and which losses count."""

    premise: str
    image: str | None
    hypothesis: str
    label: int
    theta: tuple[bool, bool, bool]


def learned(rows: Sequence[EntailmentPair], recipe: "ClassifierRecipe") -> list[ClaimRow]:
    """What a recipe learns from pairs: texts, pictures without their premise, and both, in one stream (paper, Table 2)."""
    has_text, has_image = bool(recipe.text), bool(recipe.image)
    told = []
    for pair in rows:
        known = (pair.premise or "", pair.image, pair.hypothesis or "", int(pair.label))
        if pair.kind == "text" and recipe.text_data and has_text:
            told.append(ClaimRow(*known, theta=(True, False, False)))
        if pair.image is not None and recipe.image_data and has_image:
            told.append(ClaimRow("", *known[1:], theta=(False, True, False)))
        if pair.kind == "both" and recipe.joint_data and (has_text or not recipe.image_data):
            told.append(ClaimRow(*known, theta=(has_text, has_image, has_text and has_image)))
    return told


def judged(rows: Sequence[EntailmentPair], recipe: "ClassifierRecipe") -> list[ClaimRow]:
    """Each pair once, for the head that fits what there is of its premise (`ClassifierRecipe.column`)."""
    told = []
    for pair in rows:
        column = recipe.column(bool(pair.premise), pair.image is not None)
        theta = (column == TEXT, column == IMAGE, column == JOINT)
        told.append(ClaimRow(pair.premise or "", pair.image, pair.hypothesis or "", int(pair.label), theta))
    return told


def claim_table(
    told: Sequence[ClaimRow],
    pairs: EntailmentPairs,
    branches: "Branches",
    workdir: Path,
    device: str,
    progress: Progress,
) -> "PairTable":
    """The claims as arrays; pictures are decoded and cropped, or encoded by a frozen encoder, once for all runs."""
    wanted = sorted({one.image for one in told if one.image is not None}) if branches.image else []
    row = {image: number for number, image in enumerate(wanted, start=1)}
    claims = [(row.get(one.image or "", 0), one.premise, one.hypothesis, one.label, one.theta) for one in told]
    images = _images(wanted, pairs, branches, workdir, device, progress)
    if branches.text is None or not branches.text.asked:
        return make_claims(images, claims, branches.tokenize)
    needed = {(one.premise, one.hypothesis) for one in told if one.theta[TEXT] or one.theta[JOINT]}
    texts = sorted(needed | {(one.premise, one.hypothesis or "") for one in pairs.rows if one.premise})
    known = _said(texts, branches.text, workdir, device, progress)
    return make_claims(images, claims, looking_up(texts, known, branches))


def _said(
    texts: Sequence[tuple[str, str]], source: "TextSource", workdir: Path, device: str, progress: Progress
) -> np.ndarray:
    """h^t of premises and hypotheses [N, D] by a text branch that stays as it is, asked once for all runs."""

    def ask(part: slice) -> np.ndarray:
        premises, hypotheses = zip(*texts[part], strict=True)
        return np.asarray(source.tokenize(premises, hypotheses)[0].numpy())

    with progress.task("reading texts", len(texts)) as task:
        made_by = {"text": source.fingerprint, "device": device}
        contents = [sha256_of(list(pair)) for pair in texts]
        arrays = cached(workdir, made_by, contents, ask, task.advance, chunk=TEXTS)
    return np.concatenate([np.zeros((0, source.width), np.float32), *arrays])


def _images(
    wanted: Sequence[str], pairs: EntailmentPairs, branches: "Branches", workdir: Path, device: str, progress: Progress
) -> "Images":
    """Pictures by row, a black one first."""
    source, dark = branches.image, black_picture()
    if source is None:
        return VectorTable(np.zeros((1, 1), np.float32))
    contents = [sha256_bytes(dark.tobytes()), *(pairs.contents[image] for image in wanted)]

    def read(part: slice) -> list[np.ndarray]:
        rows = range(len(contents))[part]
        return [read_image(pairs.files[wanted[row - 1]]) if row else dark for row in rows]

    with progress.task("looking at pictures", len(contents)) as task:
        if source.preprocess is None:
            grid = GridRegions(source.cells, FINEST, device)
            made_by = {**grid.describe(), "what": "cells", "device": device}
            arrays = cached(workdir, made_by, contents, lambda part: cells_of(grid, read(part)), task.advance)
            return VectorTable(np.concatenate(arrays))
        fit = source.preprocess
        made_by = {"preprocess": fit.describe()}
        return PixelTable(
            cached(workdir, made_by, contents, lambda part: np.asarray(fit.fitted(read(part)).numpy()), task.advance),
            fit, device,
        )  # fmt: skip


PROBABILITIES, TABLES = "probabilities.jsonl", "tables.json"

KINDS = {"all": "all pairs", "both": "picture and captions", "image": "picture alone", "text": "texts alone"}
"""What a premise is made of, in words."""
