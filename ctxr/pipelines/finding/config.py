"""Options and reports of `ctxr search`, and what a searcher asks and is answered."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from ctxr.engine.engines import EngineName, Jobs, engine_rules
from ctxr.engine.options import Device, FreeText, NotDecisive, Options, Range, Switch, Workdir
from ctxr.engine.report import VerbReport
from ctxr.problems.options import Name, invalid_name
from ctxr.store.hashing import sha256_of
from ctxr.store.paths import safe_name
from ctxr.store.records import TimedWord

Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
MOST_SECONDS = 100_000
"""From the start of a query: a day."""

Seconds = Annotated[float, msgspec.Meta(gt=-MOST_SECONDS, lt=MOST_SECONDS)]
MOST_WORDS, MOST_STROKES, MOST_POINTS = 200, 500, 2000
"""Of a query, and points of a stroke."""


class SearchQuery(msgspec.Struct, frozen=True):
    """A query: words, and strokes of points (x and y, shares from the top left, and seconds); times count from its start."""

    words: Annotated[list[TimedWord], msgspec.Meta(max_length=MOST_WORDS)] = []
    strokes: Annotated[
        list[Annotated[list[tuple[Share, Share, Seconds]], msgspec.Meta(min_length=1, max_length=MOST_POINTS)]],
        msgspec.Meta(max_length=MOST_STROKES),
    ] = []


Box = tuple[float, float, float, float]
"""x1, y1, x2 and y2, as shares of a picture from its top left."""


class SearchResult(msgspec.Struct, frozen=True):
    """A picture that was found.

    Attributes:
        place: row in the index. file: in its gallery, or the id of a frame. time: seconds in its video.
        box: the region that answered. width, height: pixels.
    """

    place: int
    image: str
    file: str
    time: float | None
    score: float
    box: Box | None
    width: int
    height: int


class SearchAnswer(msgspec.Struct, frozen=True):
    """Pictures, best first.

    Attributes:
        fits: whether the first one fits the words; None where that is not known.
        says: what the searcher has to do where there are no results. gone: pictures that are no longer there.
    """

    results: list[SearchResult]
    fits: bool | None = None
    says: str = ""
    gone: int = 0


@dataclass(frozen=True)
class Search(Options):
    """Options of `ctxr search`."""

    COMMAND = "search"
    ARGUMENT = "gallery"
    PANELS = "Page: collect host port; Index: model regions videos name device jobs engine"

    gallery: Path | None = None
    """Folder of photos, artifact or published release to search; default: the latest finished one in the workdir."""
    text: Annotated[str | None, NotDecisive] = None
    """Print the pictures that fit this text, instead of opening a page."""
    recorded: Path | None = None
    """File of narratives; the pictures that fit the words and the mouse trace of its first one are printed."""
    count: Annotated[int, NotDecisive, Range(1, 1000, "a number of pictures from 1 to 1000")] = 10
    """Pictures to print."""
    model: FreeText = "auto"
    """Encoder of images and texts, or a run that was trained on traces."""
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
    """Name of the index, in `indexes/` of the workdir; default: that of the gallery and six digits."""
    workdir: Workdir = Path("work")
    device: Device = "auto"
    """Where to compute: auto, cpu, cuda, cuda:N, mps."""
    jobs: Jobs = 0
    """Videos decoded at the same time, and processes that embed; 0 = half the cores. Threads share one model."""
    engine: EngineName = "threads"

    def rules(self) -> Iterator[tuple[str, str]]:
        """One way to ask, a name that a folder can have, and a known engine."""
        yield from invalid_name(self.name)
        yield from engine_rules(self.engine, self.device)
        if self.text is not None and not self.text.strip():
            yield "--text is empty", '--text "a dog on a beach"'
        if (self.text is not None) + (self.recorded is not None) + self.collect > 1:
            yield "--text, --recorded and --collect exclude each other", "give one of them"

    def folder(self) -> Path:
        """Where the index is written."""
        return self.workdir / "indexes" / self.called

    @property
    def called(self) -> str:
        """The name, or that of the gallery and some digits, as folders of one name may lie in several places."""
        if self.name or self.gallery is None:
            return self.name or "project"
        place = self.gallery.resolve()
        return f"{safe_name(place.name)}-{sha256_of(str(place))[:6]}"


@dataclass(frozen=True)
class RunningSearch(VerbReport):
    """A page that is open: its address, with the token if there is one, and how many pictures it searches by which model."""

    address: str
    pictures: int
    by: str


@dataclass(frozen=True)
class SearchReport(VerbReport):
    """The result of `search`: of so many `pictures` by the model `by`, the answer to a query; None after a page was open.

    Attributes:
        index: the artifact. left_out: pictures that could not be read. narratives: folder of those that the page kept.
    """

    index: Path
    pictures: int
    left_out: tuple[str, ...]
    by: str
    up_to_date: bool
    answer: SearchAnswer | None = None
    narratives: Path | None = None
