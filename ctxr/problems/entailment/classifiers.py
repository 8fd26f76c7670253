"""Entailment classifiers of a project, opened, and the arrays of pairs that they learn from or judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ctxr.datasets.pairs import EntailmentPair
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UnfinishedError
from ctxr.media.images import read_image
from ctxr.models.entailment.base import TextSource
from ctxr.models.entailment.checkpoint import TrainedClassifier
from ctxr.models.entailment.image_branches import FINEST, black_picture, cells_of
from ctxr.models.entailment.recipe import IMAGE, JOINT, TEXT, ClassifierRecipe
from ctxr.models.entailment.sources import Branches
from ctxr.models.entailment.training import PairTable, looking_up, make_claims, probabilities
from ctxr.models.precision import choose_device
from ctxr.models.regions import GridRegions
from ctxr.models.training.examples import Images, PixelTable, VectorTable
from ctxr.problems.embeddings import cached
from ctxr.problems.entailment.pairs import EntailmentPairs
from ctxr.problems.protocols import OpenRun, ScoringOptions
from ctxr.store.artifacts import open_artifact
from ctxr.store.hashing import sha256_bytes, sha256_of
from ctxr.store.kinds import CLASSIFIER


def open_classifier(run: Path | str, device: str = "auto") -> TrainedClassifier:
    """A trained classifier (`ctxr.models.entailment.base.Judge`).

    Args:
        run: its folder, such as `work/classifiers/entailment`; of several seeds the first, or `.../seed1`.
        device: "auto", "cpu", "cuda" or "mps".

    Raises UnfinishedError for a folder that holds none, DataError for one that was changed since it was trained or whose branches
    are not here.
    """
    folder = Path(run)
    whole = folder.parent if folder.name.startswith("seed") else folder
    if not (whole / "manifest.json").is_file():
        raise UnfinishedError(f"{whole} holds no finished classifier", hint="ctxr train --recipe entailment")
    artifact, name = open_artifact(whole, CLASSIFIER), whole.resolve().name
    seed = folder if whole != folder else folder / "seed0"
    if not any(file.startswith(f"{seed.name}/") for file in artifact.manifest.files):
        raise DataError(f"{whole} was trained without {seed.name}", hint="name one of its seeds, or train it again")
    artifact.refuse_changed(f"{seed.name}/")
    return TrainedClassifier(seed, name if whole == folder else f"{name}/{seed.name}", choose_device(device))


def open_toy(folder: Path | str, device: str = "auto") -> TrainedClassifier:
    """The classifier that ships with ctxr, from its folder."""
    return TrainedClassifier(Path(folder), Path(folder).name, choose_device(device), toy=True)


@dataclass(frozen=True)
class OpenClassifier(OpenRun):
    """A seed of a classifier that judges pairs."""

    classifier: TrainedClassifier
    options: ScoringOptions
    progress: Progress

    def score(self, examples: tuple[EntailmentPairs, Sequence[EntailmentPair]]) -> dict[str, np.ndarray]:
        """Probabilities [n] that pairs are entailed, by the classifier's name."""
        (pairs, rows), judge = examples, self.classifier
        claims = claim_rows(rows, judge.recipe)
        table = claim_table(claims, pairs, judge.branches, self.options.workdir, judge.device, progress=self.progress)
        with self.progress.task(f"asking {judge.name}", len(table)) as task:
            return {judge.name: probabilities(judge.model, table, AT_ONCE, judge.device, advance=task.advance)}


def open_classifier_run(source: Path | str, options: ScoringOptions, progress: Progress) -> OpenClassifier:
    """A classifier by the folder of the run, which stands for its first seed, or of a seed. Raises what `open_classifier` raises."""
    return OpenClassifier(open_classifier(source, options.device), options, progress)


AT_ONCE = 64

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


def learned(rows: Sequence[EntailmentPair], recipe: ClassifierRecipe) -> list[ClaimRow]:
    """What a recipe learns from pairs: texts, pictures without their premise, and both, in one stream (paper, Table 2).

    Every pair with a picture is learned from without its premise too; Table 2 does so with SNLI-VE, and not with CxC and ECCV.
    """
    has_text, has_image = bool(recipe.text), bool(recipe.image)
    claims = []
    for pair in rows:
        fields = (pair.premise or "", pair.image, pair.hypothesis or "", int(pair.label))
        if pair.kind == "text" and recipe.text_data and has_text:
            claims.append(ClaimRow(*fields, theta=(True, False, False)))
        if pair.image is not None and recipe.image_data and has_image:
            claims.append(ClaimRow("", *fields[1:], theta=(False, True, False)))
        if pair.kind == "both" and recipe.joint_data and (has_text or not recipe.image_data):
            claims.append(ClaimRow(*fields, theta=(has_text, has_image, has_text and has_image)))
    return claims


def claim_rows(rows: Sequence[EntailmentPair], recipe: ClassifierRecipe) -> list[ClaimRow]:
    """Each pair once, for the head that fits what there is of its premise (`ClassifierRecipe.column`)."""
    claims = []
    for pair in rows:
        column = recipe.column(bool(pair.premise), pair.image is not None)
        theta = (column == TEXT, column == IMAGE, column == JOINT)
        claims.append(ClaimRow(pair.premise or "", pair.image, pair.hypothesis or "", int(pair.label), theta))
    return claims


def claim_table(
    rows: list[ClaimRow], pairs: EntailmentPairs, branches: Branches, workdir: Path, device: str, *, progress: Progress
) -> PairTable:
    """The claims as arrays; pictures are decoded and cropped, or encoded by a frozen encoder, once for all runs."""
    wanted = sorted({one.image for one in rows if one.image is not None}) if branches.image else []
    row = {image: number for number, image in enumerate(wanted, start=1)}
    claims = [(row.get(one.image or "", 0), one.premise, one.hypothesis, one.label, one.theta) for one in rows]
    images = _images(wanted, pairs, branches, workdir, device, progress=progress)
    if branches.text is None or not branches.text.asked:
        return make_claims(images, claims, branches.tokenize)
    needed = {(one.premise, one.hypothesis) for one in rows if one.theta[TEXT] or one.theta[JOINT]}
    texts = sorted(needed | {(one.premise, one.hypothesis or "") for one in pairs.rows if one.premise})
    vectors = _text_vectors(texts, branches.text, workdir, device, progress)
    return make_claims(images, claims, looking_up(texts, vectors, branches))


def _text_vectors(
    texts: Sequence[tuple[str, str]], source: TextSource, workdir: Path, device: str, progress: Progress
) -> np.ndarray:
    """h^t of premises and hypotheses [N, D] by a text branch that stays as it is, asked once for all runs."""

    def ask(part: slice) -> np.ndarray:
        premises, hypotheses = zip(*texts[part], strict=True)
        return np.asarray(source.tokenize(premises, hypotheses)[0].numpy())

    with progress.task("reading texts", len(texts)) as task:
        origin = {"text": source.fingerprint, "device": device}
        contents = [sha256_of(list(pair)) for pair in texts]
        arrays = cached(workdir, origin, contents, ask, task.advance, chunk=TEXTS)
    return np.concatenate([np.zeros((0, source.width), np.float32), *arrays])


def _images(
    wanted: list[str], pairs: EntailmentPairs, branches: Branches, workdir: Path, device: str, *, progress: Progress
) -> Images:
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
            origin = {**grid.describe(), "what": "cells", "device": device}
            arrays = cached(workdir, origin, contents, lambda part: cells_of(grid, read(part)), task.advance)
            return VectorTable(np.concatenate(arrays))
        fit = source.preprocess
        origin = {"preprocess": fit.describe()}
        arrays = cached(
            workdir, origin, contents, lambda part: np.asarray(fit.fitted(read(part)).numpy()), task.advance
        )
        return PixelTable(arrays, fit, device)
