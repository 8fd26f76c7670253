"""A trained classifier on disk, and as something that judges claims."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from safetensors import safe_open

from ctxr.errors import DataError
from ctxr.media.images import read_image
from ctxr.models.entailment.base import Claim, Judge
from ctxr.models.entailment.classifier import EntailmentClassifier
from ctxr.models.entailment.image_branches import BLACK, FINEST, cells_of
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_branches, new_classifier
from ctxr.models.entailment.training import PairTable, make_claims, probabilities
from ctxr.models.hub import placeless
from ctxr.models.regions import GridRegions
from ctxr.models.training.checkpoint import CONFIG, TRAIN_AGAIN, SeedConfig, fill, read_config, write_config
from ctxr.store.atomic import link_or_copy, write_bytes
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.paths import portable
from ctxr.store.tables import grouped, read_value

WEIGHTS, TRAINED_ON = "weights.safetensors", "trained_on.json"

PICTURES = 64  # pictures that are held in memory while the claims about them are judged
AT_ONCE = 64  # claims in one pass


@dataclass(frozen=True)
class ClassifierConfig(SeedConfig):
    """How to build a trained classifier. `threshold`: lowest probability of a claim that counts as entailed; `reached`: its precision on
    dev 0..1, None where no pair counts. Fingerprints are "" for a missing branch."""

    recipe: ClassifierRecipe
    text_fingerprint: str
    image_fingerprint: str
    threshold: float
    reached: float | None


def write_classifier(folder: Path, trained: Path, notes: ClassifierConfig, trained_on: Sequence[str]) -> None:
    """Write weights, what it was trained on, and last how to build it: a folder without that is unfinished."""
    folder.mkdir(parents=True, exist_ok=True)
    link_or_copy(trained, folder / WEIGHTS)
    write_bytes(folder / TRAINED_ON, json.dumps(sorted(trained_on), indent=0).encode() + b"\n")
    write_config(folder, notes)


read_notes = partial(read_config, kind=ClassifierConfig, what="a trained classifier")


class TrainedClassifier(Judge):
    """A classifier in a folder as `write_classifier` wrote it.

    Raises DataError for files that are missing or damaged, or where a branch is another one than it was trained with.
    """

    def __init__(self, folder: Path, name: str, device: str = "cpu", toy: bool = False) -> None:
        notes = read_notes(folder)
        self.name, self.threshold, self.device, self.toy = name, notes.threshold, device, toy
        self.recipe = notes.recipe
        self.family = placeless(self.recipe.image).partition(":")[2] if self.recipe.image.startswith("aligned:") else ""
        self.branches = find_branches(self.recipe, device)
        wanted = (notes.text_fingerprint, notes.image_fingerprint)
        for source, fingerprint in zip((self.branches.text, self.branches.image), wanted, strict=True):
            if (source.fingerprint if source else "") != fingerprint:
                other = source.name if source else "no branch"
                raise DataError(
                    f"{folder} was trained with another {other} than the one that is here",
                    hint="bring back its files, or train again",
                )
        try:
            with safe_open(folder / WEIGHTS, "pt"):
                weights = sha256_file(folder / WEIGHTS)
        except Exception as error:  # safetensors has errors of its own
            raise DataError(f"{folder / WEIGHTS} cannot be read as weights", hint=TRAIN_AGAIN) from error
        self.fingerprint = sha256_of([portable(asdict(notes), folder / "../../.."), weights])
        self.trained_on = read_value(folder / TRAINED_ON, frozenset[str], TRAIN_AGAIN)
        self._folder = folder

    @cached_property
    def model(self) -> EntailmentClassifier:
        """The classifier, on its device; read at first use, since that takes seconds."""
        model = new_classifier(self.recipe, self.branches)
        fill(model, self._folder / WEIGHTS, f"the classifier that {self._folder / CONFIG} describes")
        return model.to(self.device).eval()

    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n] in 0..1, as `Judge.probabilities` says, of the head that the recipe's `theta` names."""
        entailed = np.zeros(len(claims), np.float32)
        groups = list(grouped((claim.image, row) for row, claim in enumerate(claims)).values())
        for start in range(0, len(groups), PICTURES):
            rows = [row for group in groups[start : start + PICTURES] for row in group]
            table = self.table([claims[row] for row in rows])
            entailed[rows] = probabilities(self.model, table, AT_ONCE, self.device)
        return entailed

    def table(self, claims: Sequence[Claim]) -> PairTable:
        """The claims as arrays; labels are 0."""
        files = list(dict.fromkeys(claim.image for claim in claims if claim.image and self.branches.image))
        row: dict[Path | None, int] = {file: number for number, file in enumerate(files, start=1)}
        pictures, source = [BLACK, *(read_image(file) for file in files)], self.branches.image
        if source is None:
            stack = torch.zeros(1, 1)
        elif source.preprocess is not None:
            stack = source.preprocess(pictures)
        else:
            stack = torch.from_numpy(cells_of(self._grid, pictures))
        thetas = [self.recipe.theta(bool(claim.premise), claim.image is not None) for claim in claims]
        rows = [
            (row.get(claim.image, 0), claim.premise, claim.hypothesis, 0, theta)
            for claim, theta in zip(claims, thetas, strict=True)
        ]
        return make_claims(lambda used: stack[used], rows, self.branches.tokenize)

    @cached_property
    def _grid(self) -> GridRegions:
        return GridRegions(self.branches.image.cells if self.branches.image else "", FINEST, self.device)
