"""Options and reports of `ctxr search`."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from ctxr.engine.options import Device, FreeText, NotDecisive, Options, Range, Switch, Workdir
from ctxr.engine.report import VerbReport
from ctxr.problems.options import Name, invalid_name

INDEXES = "indexes"


@dataclass(frozen=True)
class Search(Options):
    """Options of `ctxr search`."""

    COMMAND = "search"
    ARGUMENT = "gallery"

    gallery: Path | None = None
    """Folder of photos, artifact or published release to search; default: the latest finished one in the workdir."""
    text: FreeText = ""
    """Print the pictures that fit this text, instead of opening a page."""
    recorded: Path | None = None
    """Print the pictures that fit the text and mouse trace of the first narrative in this file."""
    count: Annotated[int, NotDecisive, Range(1, 1000, "a number of pictures from 1 to 1000")] = 10
    """Pictures to print."""
    by: FreeText = "auto"
    """Encoder of images and texts, or the name of a run of `ctxr train --recipe traces`."""
    regions: FreeText = ""
    """Region features of the gallery, for a run that looks at regions."""
    videos: Path | None = None
    """Folder where the videos of image sets lie now, if they have moved."""
    collect: Switch = False
    """Also ask visitors to describe pictures and trace what they say, and keep that as narratives."""
    host: FreeText = ""
    """Address to listen on for others, who need the token in the link; default: this machine alone."""
    port: Annotated[int, NotDecisive, Range(0, 65535, "a port from 0 to 65535; 0 = any free one")] = 8322
    """Port to listen on; 0 = any free one."""
    name: Name = None
    """Name of the index, in `indexes/` of the workdir; default: that of the gallery."""
    workdir: Workdir = Path("work")
    device: Device = "auto"
    """Where to compute: auto, cpu, cuda, mps."""

    @property
    def prints(self) -> bool:
        """Whether pictures are printed, and no page is opened."""
        return bool(self.text) or self.recorded is not None

    def rules(self) -> Iterator[tuple[str, str]]:
        """One way to ask, and a name that a folder can have."""
        yield from invalid_name(self.name)
        if self.text and self.recorded is not None:
            yield "--text and --recorded are two queries", "give one of them"
        if self.prints and self.collect:
            yield "--collect needs the page, which --text and --recorded do not open", "leave them out"

    def folder(self) -> Path:
        """Where the index is written."""
        gallery = "project" if self.gallery is None else self.gallery.resolve().name
        return self.workdir / INDEXES / (self.name or re.sub(r"[^\w.-]+", "-", gallery).strip(".-") or "gallery")


@dataclass(frozen=True)
class RunningSearch:
    """A page that is open: its address, with the token if there is one, what it searches, and by which model."""

    address: str
    gallery: str
    pictures: int
    by: str


@dataclass(frozen=True)
class FoundPicture:
    """A picture that was found: `time` in seconds for a frame, `box` (x1, y1, x2, y2 as shares) of what answered."""

    rank: int
    image: str
    file: str
    time: float | None
    score: float
    box: tuple[float, float, float, float] | None


@dataclass(frozen=True)
class SearchReport(VerbReport):
    """The result of `search`.

    Attributes:
        index: the artifact. pictures: in it; left_out: ids of those that could not be read. by: name of the model.
        found: pictures, best first; none where a page was open. fits: whether the best fits; None where that was not measured.
        narratives: kept by the page. note: what a searcher must know, may be empty.
    """

    index: Path
    gallery: str
    pictures: int
    left_out: tuple[str, ...]
    by: str
    up_to_date: bool
    found: tuple[FoundPicture, ...] = ()
    fits: bool | None = None
    narratives: int = 0
    note: str = ""
