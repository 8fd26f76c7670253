"""Pairs as the claims that a classifier learns from or judges, with their pictures as its image branch takes them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ctxr.data.entailment import EntailmentPair
from ctxr.data.hashing import sha256_bytes, sha256_of
from ctxr.models.entailment.base import IMAGE, JOINT, TEXT
from ctxr.pipelines.entailing_pairs import EntailmentPairs
from ctxr.pipelines.talk import Talk
from ctxr.pipelines.training.caches import cached

if TYPE_CHECKING:
    from ctxr.models.entailment.base import TextSource
    from ctxr.models.entailment.recipe import ClassifierRecipe
    from ctxr.models.entailment.sources import Branches
    from ctxr.models.entailment.training import ClaimTable
    from ctxr.models.training.questions import Images

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
    told: Sequence[ClaimRow], pairs: EntailmentPairs, branches: "Branches", workdir: Path, device: str, talk: Talk
) -> "ClaimTable":
    """The claims as arrays; pictures are decoded and cut, or looked at by a frozen encoder, once for all runs."""
    from ctxr.models.entailment.training import make_claims

    wanted = sorted({one.image for one in told if one.image is not None}) if branches.image else []
    row = {image: number for number, image in enumerate(wanted, start=1)}
    claims = [(row.get(one.image or "", 0), one.premise, one.hypothesis, one.label, one.theta) for one in told]
    images = _images(wanted, pairs, branches, workdir, device, talk)
    if branches.text is None or not branches.text.asked:
        return make_claims(images, claims, branches.tokenize)
    needed = {(one.premise, one.hypothesis) for one in told if one.theta[TEXT] or one.theta[JOINT]}
    from ctxr.models.entailment.training import looking_up

    texts = sorted(needed | {(one.premise, one.hypothesis or "") for one in pairs.rows if one.premise})
    known = _said(texts, branches.text, workdir, device, talk)
    return make_claims(images, claims, looking_up(texts, known, branches))


def _said(texts: Sequence[tuple[str, str]], source: "TextSource", workdir: Path, device: str, talk: Talk) -> np.ndarray:
    """h^t of premises and hypotheses [N, D] by a text branch that stays as it is, asked once for all runs."""

    def ask(part: slice) -> np.ndarray:
        premises, hypotheses = zip(*texts[part], strict=True)
        return np.asarray(source.tokenize(premises, hypotheses)[0].numpy())

    with talk.progress("reading texts", len(texts)) as task:
        made_by = {"text": source.fingerprint, "device": device}
        contents = [sha256_of(list(pair)) for pair in texts]
        arrays = cached(workdir, made_by, contents, ask, task.advance, chunk=TEXTS)
    return np.concatenate([np.zeros((0, source.width), np.float32), *arrays])


def _images(
    wanted: Sequence[str], pairs: EntailmentPairs, branches: "Branches", workdir: Path, device: str, talk: Talk
) -> "Images":
    """Pictures by row, a black one first."""
    from ctxr.data.images import read_image
    from ctxr.models.entailment.fresh import FINEST, black_picture, cells_of
    from ctxr.models.regions import GridRegions
    from ctxr.models.training.questions import PixelTable, VectorTable

    source, dark = branches.image, black_picture()
    if source is None:
        return VectorTable(np.zeros((1, 1), np.float32))
    contents = [sha256_bytes(dark.tobytes()), *(pairs.contents[image] for image in wanted)]

    def read(part: slice) -> list[np.ndarray]:
        rows = range(len(contents))[part]
        return [read_image(pairs.files[wanted[row - 1]]) if row else dark for row in rows]

    with talk.progress("looking at pictures", len(contents)) as task:
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
