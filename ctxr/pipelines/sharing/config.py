"""Options and reports of what shares artifacts."""

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, ClassVar

from ctxr.engine.engines import Jobs
from ctxr.engine.options import Choices, FreeText, NotDecisive, Options, Range, Switch, Workdir
from ctxr.engine.report import VerbReport
from ctxr.store.paths import is_url, safe_name
from ctxr.store.remote import shown

DOCUMENT_FORMATS = ("links", "mmc4")
FORMATS = ("imagecode", "hf", "webdataset", "croissant", "fiftyone", "recipe", "narratives", "mteb",
           "photochat", *DOCUMENT_FORMATS)  # fmt: skip


@dataclass(frozen=True)
class Export(Options):
    """Options of `ctxr export`; a field's text is its help."""

    COMMAND: ClassVar[str] = "export"
    FOLDER: ClassVar[str] = "export-{to}"

    to: Annotated[str, Choices(FORMATS)] = ""
    """Format: imagecode, hf, webdataset, croissant, fiftyone, recipe, narratives, mteb; of dialogues photochat;
    of documents links, mmc4."""
    input: Path | None = None
    """Dataset or artifact of image sets to export; default: `dataset` in the workdir, or else `filtered`, or else `sets`."""
    out: Path | None = None
    """Folder to write; default: `export-FORMAT` in the workdir."""
    workdir: Workdir = Path("work")
    licences: Path | None = None
    """CSV file source,licence,attribution,url for the dataset card; a source is its name, its file, or an image id.
    Or COCO captions (.json), which name the licence of each photo by its file."""
    hide_test: bool = False
    """Leave out the answers about test sets (imagecode always does)."""
    shard_mb: Annotated[int, Range(1, math.inf, "megabytes, at least 1")] = 256
    """Maximum size of one shard in megabytes of images (hf, webdataset, mteb)."""
    run: FreeText = ""
    """Run of the project, file of scores, or model, whose optimal assignment is written as links (links, mmc4);
    default: the known links."""
    videos: Path | None = None
    """Folder that now holds the sources, recognised by content (recipe)."""
    jobs: Jobs = 0
    """Videos decoded at the same time (recipe); 0 = half the cores."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A package that writes parquet, and scores where there are documents."""
        if self.to == "mmc4" and not self.run:
            yield "mmc4 holds similarities, and no run is named", "ctxr export --to mmc4 --run RUN"
        if self.run and self.to not in DOCUMENT_FORMATS:
            yield f"--run {self.run} means nothing to {self.to}", f"--to {' or '.join(DOCUMENT_FORMATS)}"
        if self.to in ("hf", "mteb") and find_spec("pyarrow") is None:
            yield "parquet files need the package pyarrow, which is not installed", "pip install pyarrow"

    def key(self) -> dict[str, object]:
        """The size of shards decides only where there are shards."""
        key = super().key()
        if self.to not in ("hf", "webdataset", "mteb"):
            del key["shard_mb"]
        return key


@dataclass(frozen=True)
class Push(Options):
    """Options of `ctxr push`."""

    COMMAND: ClassVar[str] = "push"
    ARGUMENT: ClassVar[str] = "places"

    places: Annotated[tuple[str, ...], NotDecisive] = ()
    """ARTIFACT URL: a finished artifact, and where it is copied to: s3://, gs:// or file://."""
    workdir: Workdir = Path("work")
    yes: Switch = False
    """Go on although the URL holds an artifact of another kind."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A folder and a URL."""
        if [*map(is_url, self.places)] != [False, True]:
            yield "ctxr push takes an artifact and a URL", "ctxr push work/sets s3://bucket/sets"


@dataclass(frozen=True)
class Pull(Options):
    """Options of `ctxr pull`."""

    COMMAND: ClassVar[str] = "pull"
    ARGUMENT: ClassVar[str] = "places"

    places: Annotated[tuple[str, ...], NotDecisive] = ()
    """URL [FOLDER]: what ctxr push wrote, at s3://, gs://, hf://, https:// or file://, and the folder to write; default: in the workdir,
    named as the end of the URL."""
    workdir: Workdir = Path("work")
    yes: Switch = False
    """Go on although the folder holds another artifact."""

    def folder(self) -> Path:
        """The folder of the artifact."""
        return (
            Path(self.places[1]) if len(self.places) > 1 else self.workdir / safe_name(Path(shown(self.places[0])).name)
        )

    def rules(self) -> Iterator[tuple[str, str]]:
        """A URL, and a folder if any."""
        if [*map(is_url, self.places)] not in ([True], [True, False]) or "" in self.places:
            yield "ctxr pull takes a URL, and a folder if you name one", "ctxr pull s3://bucket/sets work/sets"
        elif re.search(r"[?&](x-(amz|goog)-signature|awsaccesskeyid|googleaccessid)=", self.places[0], re.IGNORECASE):
            what = f"{shown(self.places[0])} is signed for one object, and an artifact is many"
            yield what, "s3:// or gs:// with your keys, or a signature for a folder"


@dataclass(frozen=True)
class TransferReport(VerbReport):
    """What `ctxr push` or `ctxr pull` copied: an `artifact` of a `kind` to or from a `url`, `copied` of its `files`, in `bytes`."""

    artifact: Path
    url: str
    kind: str
    files: int
    copied: int
    bytes: int


@dataclass(frozen=True)
class ExportReport(VerbReport):
    """The outcome of `ctxr export`: what was `read`, the folder `export`, and sentences on what is lost and on other differences."""

    export: Path
    read: Path
    to: str
    up_to_date: bool
    counts: dict[str, Any]
    left_out: list[str]
    notes: list[str]
