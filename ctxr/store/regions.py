"""Region features on disk, as `ctxr regions` writes them, by the content of a picture.

A region is F features and a box; the first of the R regions of each picture is the whole picture.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ctxr.errors import DataError
from ctxr.store.arrays import load_array
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import REGION_FEATURES
from ctxr.store.records import Record
from ctxr.store.tables import read_table

PICTURES = "pictures.jsonl"
SHARD_FILE = "shards/{:05d}.npy"  # of the array with a number

BOX = 5
"""Numbers behind the features of a region: x1, y1, x2, y2 and area, as shares of the picture; all 0 where there is no region."""

Array = npt.NDArray[np.float32]
_AGAIN = "run the command that makes this artifact again"


class RegionRow(Record, frozen=True):
    """Where the regions of a picture are.

    Attributes:
        image: id of the first image of the dataset with this content.
        shard, row: number of the array, and row in it.
        regions: how many, with the whole picture; further ones in the array are 0.
    """

    KEY: ClassVar[tuple[str, ...]] = ("sha256",)

    sha256: str
    image: str
    shard: int
    row: int
    regions: int


@dataclass(frozen=True)
class RegionFeatures:
    """Region features of pictures.

    Attributes:
        sha256: of the manifest. most: R, the largest number of regions of a picture. features: F.
        rows: by SHA-256 of a picture's content.
    """

    folder: Path
    sha256: str
    most: int
    features: int
    rows: Mapping[str, RegionRow]
    _shards: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)

    def of(self, contents: Sequence[str]) -> Array:
        """float32 [n, R, F + BOX] of pictures by their SHA-256, 0 beyond the last region of each.

        Raises DataError for a picture without regions, and for an array that is missing or damaged.
        """
        self.check(contents)
        stacked = np.zeros((len(contents), self.most, self.features + BOX), np.float32)
        for position, content in enumerate(contents):
            row = self.rows[content]
            file = self.folder / SHARD_FILE.format(row.shard)
            if (block := self._shards.get(row.shard)) is None:
                block = load_array(file, "an array of regions")
                kind, shape = block.dtype, block.shape
                if kind != np.float32 or len(shape) != 3 or shape[1] > self.most or shape[2] != self.features + BOX:
                    wanted = f"float32 [n, up to {self.most}, {self.features} + {BOX}]"
                    raise DataError(f"{file} holds {kind} of shape {shape}, not {wanted}", hint=_AGAIN)
                self._shards[row.shard] = block
            if row.row >= len(block) or row.regions > block.shape[1]:
                raise DataError(f"{file} has no row {row.row} with {row.regions} regions", hint=_AGAIN)
            stacked[position, : row.regions] = block[row.row, : row.regions]
        return stacked

    def check(self, contents: Sequence[str]) -> None:
        """Raises DataError naming the first picture without regions."""
        if lost := [content for content in contents if content not in self.rows]:
            sentence = (
                f"{self.folder} holds no regions of the picture with SHA-256 {lost[0]}, and of {len(lost) - 1} more"
            )
            raise DataError(sentence, hint="extract those of this dataset: ctxr regions DATASET --name NAME")


def read_regions(folder: Path) -> RegionFeatures:
    """The regions of a finished artifact.

    Raises UnfinishedError without a manifest, DataError for another kind, a damaged table or impossible numbers.
    """
    artifact = open_artifact(folder, REGION_FEATURES, "ctxr regions")
    counts = artifact.manifest.counts
    most, features = counts.get("regions"), counts.get("features")
    if not (isinstance(most, int) and isinstance(features, int) and most > 0 and features > 0):
        raise DataError(f"{folder}: the manifest lacks the number of regions or features")
    rows = {row.sha256: row for row in read_table(folder / PICTURES, RegionRow)}
    if wrong := [row for row in rows.values() if row.shard < 0 or row.row < 0 or not 0 < row.regions <= most]:
        raise DataError(f"{folder / PICTURES}: the row of {wrong[0].sha256} has impossible numbers")
    return RegionFeatures(folder, artifact.sha256, most, features, rows)


def with_whole(features: Array, boxes: Array) -> Array:
    """Regions of one picture [1 + R, F + BOX] out of features [R, F] and boxes [R, 4] (x1, y1, x2, y2 as shares).

    The whole picture comes first: the mean of its regions, and the box 0, 0, 1, 1 of area 1 (ViLBERT, section 3.1).
    """
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    regions = np.concatenate([features, boxes, areas[:, None]], axis=1)
    mean = features.mean(0, dtype=np.float64) if len(features) else np.zeros(features.shape[1])
    whole = np.concatenate([mean, [0, 0, 1, 1, 1]])
    return np.concatenate([whole[None], regions]).astype(np.float32)
