"""Options and report of `ctxr export`.

Formats: the layout of the ImageCoDe release, a folder for `datasets`, WebDataset shards, Croissant, FiftyOne, and a recipe that holds
everything but the pixels (`ctxr rebuild` makes the same frames from it again).
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

FORMATS = ("imagecode", "hf", "webdataset", "croissant", "fiftyone", "recipe")


@dataclass(frozen=True)
class Export:
    """Configuration of `ctxr export`; a field's text is its help."""

    to: str = ""
    """Format: imagecode, hf, webdataset, croissant, fiftyone, recipe."""
    input: Path | None = None
    """Dataset or artifact of image sets to export; default: `dataset` in the workdir, or else `filtered`, or else `sets`."""
    out: Path | None = None
    """Folder to write; default: `export-FORMAT` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    licences: Path | None = None
    """CSV file source,licence,attribution,url for the dataset card; a source is its name, its file, or an image id.
    Or COCO captions (.json), which name the licence of each photo by its file."""
    shard_mb: int = 256
    """Most megabytes of pictures in one shard (hf, webdataset)."""
    hide_test: bool = False
    """Leave out what was answered about test sets (imagecode always does)."""
    videos: Path | None = None
    """Folder that the sources have moved to, recognised by content (recipe)."""
    workers: int = 0
    """Videos decoded at the same time (recipe); 0 = half the cores."""

    def folder(self) -> Path:
        """Where the export is written."""
        return self.out or self.workdir / f"export-{self.to}"

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result."""
        sharded = {"shard_mb": self.shard_mb} if self.to in ("hf", "webdataset") else {}
        return {"to": self.to, "hide_test": self.hide_test, **sharded}


@dataclass(frozen=True)
class ExportReport:
    """What `export` says when it is done.

    Attributes:
        export: the folder. read: the artifact that was exported. up_to_date: nothing was to do.
        counts: the manifest's counts. left_out: what the format could not hold, one sentence each.
        notes: what is otherwise than in the artifact, though nothing is lost, one sentence each.
    """

    export: Path
    read: Path
    to: str
    up_to_date: bool
    counts: dict[str, Any]
    left_out: list[str]
    notes: list[str]
