"""Options and reports of the verbs that make image sets."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from math import inf
from pathlib import Path
from shutil import which
from typing import Annotated, Any, ClassVar

from ctxr.engine.engines import EngineName, Jobs, engine_rules
from ctxr.engine.options import Choices, Device, FreeText, NotDecisive, Options, Range, Seed, Switch, Workdir
from ctxr.engine.project import DOCUMENTS
from ctxr.engine.report import VerbReport
from ctxr.engine.units import Rank, RankShard, WorldSize
from ctxr.errors import FindingsError, PartialError, plural
from ctxr.media.scan import SCAN_LIMITS, ScanOptions
from ctxr.store.hashing import sha256_file
from ctxr.store.kinds import PAIRS

SAME_SETS_OPTIONS = SCAN_LIMITS | {"memory_limit", "keep_damaged", "threshold", "frames", "encoder", "precision"}
"""Options that pick no other sets, or do so through what a manifest records in `models`."""

NO_FAISS = "--neighbours index needs faiss, which is not installed", "pip install faiss-cpu"


@dataclass(frozen=True, kw_only=True)
class OutputOptions(Options):
    """Options of a verb that writes one artifact: to its option `out`, or to FOLDER in the workdir."""

    FOLDER: ClassVar[str] = "sets"

    out: Path | None = None
    """Artifact folder to write; default: one in the workdir (`sets`, `filtered`, `documents`, `pairs`, `rebuilt`)."""
    workdir: Workdir = Path("work")

    def rules(self) -> Iterator[tuple[str, str]]:
        """Places that are files."""
        yield from super().rules()
        for path, options in ((self.folder(), "--out or --workdir"), (self.workdir, "--workdir")):
            if path.exists() and not path.is_dir():
                yield f"{path} is a file, not a folder", f"choose another {options}"


@dataclass(frozen=True, kw_only=True)
class SetsOptions(OutputOptions):
    """Options of the verbs that pick image sets: limits of quality, what works on the videos, and what is tried again."""

    PANELS = "Quality: brisque max_text min_size; Speed: device jobs engine; Expert: brisque_weights ocr; Cluster: rank world_size"

    keep_damaged: ClassVar[bool] = True
    """Whether damaged videos that are in earlier sets are used; `build-sets` has an option for it."""
    brisque: Annotated[float | None, Range(0, 3, "BRISQUE / 100, from 0 to 3; the paper uses 0.65")] = None
    """Reject images whose BRISQUE / 100 exceeds this (the paper: 0.65); smaller rejects more."""
    max_text: Annotated[float | None, Range(0, 1, "a share of the area: 0..1")] = None
    """Reject images where recognised text covers more than this share of the area (0..1); text on less than 0.005 of it may be
    missed."""
    min_size: Annotated[int | None, Range(1, inf, "pixels of the shorter side, at least 1")] = None
    """Reject images whose shorter side has fewer pixels than this."""
    brisque_weights: Annotated[str, Choices(("live", "piq"))] = "live"
    """Support vectors of BRISQUE: live (shipped) or piq (torch cache or download)."""
    ocr: Annotated[str, Choices(("auto", "tesserocr", "pytesseract"))] = "auto"
    """OCR engine: auto, tesserocr, pytesseract."""
    device: Device = "auto"
    """Where the encoder runs: auto, cpu, cuda, cuda:N, mps."""
    jobs: Jobs = 0
    """Videos processed at the same time; 0 = half the cores."""
    engine: EngineName = "threads"
    rank: Rank = None
    """Number of this rank, 0 to N - 1: it processes every N-th video and shard of photos; `ctxr merge` joins the ranks."""
    world_size: WorldSize = None
    """Number N of ranks that share the videos and photos."""
    retry_failed: Switch = False
    """Retry sources that failed in the finished run, or for a rank."""
    yes: Switch = False
    """Continue even if the run removes sources, or replaces sets that have tasks or answers."""

    @property
    def shard(self) -> RankShard | None:
        """The units of the rank; None for a whole run."""
        return None if self.rank is None or self.world_size is None else RankShard(self.rank, self.world_size)

    def source(self) -> Path | None:
        """The sets that are read; None where sources are named."""
        return None

    def rules(self) -> Iterator[tuple[str, str]]:
        """Engines and ranks that do not exist, and a limit of text without an OCR engine; whether that works shows when it starts."""
        yield from super().rules()
        yield from engine_rules(self.engine, self.device)
        if (self.rank is None) != (self.world_size is None):
            yield "--rank and --world-size go together", "for example --rank 0 --world-size 4"
        elif self.shard and self.shard.rank >= self.shard.world:
            sentence = f"--rank {self.rank} is not below --world-size {self.world_size}"
            yield sentence, f"ranks are 0 to {self.shard.world - 1}"
        engines = {"tesserocr": find_spec("tesserocr"), "pytesseract": which("tesseract")}
        if self.max_text is not None and not any(engines[name] for name in engines if self.ocr in ("auto", name)):
            hint = "apt install tesseract-ocr, or brew install tesseract; or leave out --max-text"
            hint = "pip install tesserocr, or use engine pytesseract" if self.ocr == "tesserocr" else hint
            yield f"{'tesserocr' if self.ocr == 'tesserocr' else 'Tesseract'} is not installed", hint


@dataclass(frozen=True)
class BuildSets(ScanOptions, SetsOptions):
    """Options of `ctxr build-sets`."""

    COMMAND = "build-sets"
    ARGUMENT = "sources"
    PANELS = "Splits: splits salt keep_leaks; Photos: sample seed neighbours; Expert: precision"

    sources: Annotated[tuple[str, ...], NotDecisive] = ()
    """Videos, photos, folders of them, or quoted globs; here or by URL: s3://, gs://, hf://, https:// (one file)."""
    encoder: FreeText = "auto"
    """open_clip `name:pretrained`, `local-dir:PATH` or `checkpoint:PATH` (open_clip_config.json and safetensors),
    `random:ARCH` (for measuring speed), `ctxr-lite`, `ctxr-tiny`, or `auto`: ViT-B-32:openai if its weights can be
    downloaded, else ctxr-lite, else ctxr-tiny, with a warning."""
    precision: Annotated[str, NotDecisive, Choices(("auto", "fp32", "bf16"))] = "auto"
    """Number format of the encoder: fp32, bf16, or auto: bf16 where the device computes in it and the encoder is large enough to gain.
    Decisions near the threshold are always made in fp32."""
    threshold: Annotated[float | None, Range(0, 2, "a distance between unit vectors: 0..2")] = None
    """Minimum distance (0..2, on unit vectors) of a frame to every other frame of its set; larger gives fewer, more
    different frames. Default: the encoder's, 0.35 for CLIP as in the paper."""
    set_size: Annotated[int, Range(2, 1000, "at least 2 images")] = 10
    """Images per set."""
    sample: str = ""
    """Number of photo sets, which share as few photos as possible, or `all`: one per photo. Default: a tenth of the photos, and at
    least thirty if there are so many."""
    seed: Annotated[int, Range(0, inf, "a whole number, 0 or more")] = 0
    """Seed of the sample."""
    neighbours: Annotated[str, Choices(("exact", "index"))] = "exact"
    """How the nearest photos are found: exact, or index, which is faster for more than 20,000 photos, misses some, and says how many;
    needs faiss-cpu."""
    splits: Path | None = None
    """CSV file `group,split` with the published splits of sources (videos, and folders of photos by name); the others are assigned by a
    salted hash. Or a CSV of boxes of Open Images: each split then gets its share of photos of people, food, animals, products."""
    salt: str = "ctxr"
    """Salt of the hash that assigns splits; another salt gives other splits."""
    keep_leaks: bool = False
    """Assign sources that share footage to splits one by one instead of together."""
    yield_curve: Switch = False
    """Print how many sets each threshold would give; without SOURCES, for the existing sets."""
    add: Switch = False
    """Keep the sources of the finished sets, at their last known locations, and add those named here."""

    def key(self) -> dict[str, Any]:
        """What decides the result; of the file of splits, its content."""
        return super().key() | ({"splits_sha256": sha256_file(self.splits)} if self.splits else {})

    def rules(self) -> Iterator[tuple[str, str]]:
        """No sources, and a file of splits that does not exist."""
        if not self.sources and not self.yield_curve:
            yield "no SOURCES given", "ctxr build-sets videos/"
        yield from super().rules()
        if self.splits and not self.splits.is_file():
            yield f"no such file: {self.splits}", "--splits names a CSV file: group,split"
        if self.sample not in ("", "all") and not (self.sample.isdecimal() and 0 < int(self.sample) <= 10**9):
            yield f"--sample {self.sample} is no number of sets", "--sample 30, or --sample all"
        if self.neighbours == "index" and find_spec("faiss") is None:
            yield NO_FAISS


@dataclass(frozen=True)
class Filter(SetsOptions):
    """Options of `ctxr filter`."""

    COMMAND = "filter"
    FOLDER = "filtered"
    PANELS = "Quality: drop keep"

    input: Path | None = None
    """Artifact of image sets to filter; default: `sets` in the workdir."""
    drop: Path | None = None
    """`decisions.jsonl` of `ctxr serve --review`, or a list of ids (.txt, .csv); the sets in it that a person rejected are left out, and
    single images replaced."""
    keep: Path | None = None
    """`decisions.jsonl`, or another list of ids; images and sets in it that a person kept are exempt from the limits."""
    videos: Path | None = None
    """Folder that holds the source videos or albums now, if they were moved; they are recognised by content."""

    def source(self) -> Path:
        """The sets that are read."""
        return self.input or self.workdir / "sets"

    def rules(self) -> Iterator[tuple[str, str]]:
        """No limit at all, and places that cannot be used."""
        yield from super().rules()
        if (self.brisque, self.max_text, self.min_size, self.drop) == (None, None, None, None):
            yield "nothing to filter by", "ctxr filter --brisque 0.65   (or --max-text, --min-size, --drop)"
        if self.folder().resolve() == self.source().resolve():
            yield "--input and --out are the same folder", "choose another --out"


Documents = Annotated[int, Range(0, 10**6, "a number of documents, 0 or more")]


@dataclass(frozen=True)
class BuildDocuments(OutputOptions):
    """Options of `ctxr build-documents`."""

    COMMAND = "build-documents"
    ARGUMENT = "kind"
    FOLDER = DOCUMENTS

    kind: Annotated[str, Choices(("coco", "story-dii", "story-sis", "dii-stress", "recipe"))] = ""
    """What documents are made of: coco (5 linked pairs, 5 images, 5 captions), story-dii (5 photos of an album), story-sis (5
    images of a video set), dii-stress (story-dii with 45 captions of other albums), recipe (steps with several images)."""
    dataset: Path | None = None
    """Artifact or release with captions; default: the latest finished one in the workdir."""
    train: Documents = 2000
    """Training documents, at most."""
    valid: Documents = 300
    """Validation documents, at most."""
    test: Documents = 300
    """Test documents, at most."""
    seed: Seed = 0
    """Seed of every choice."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """At least one document."""
        yield from super().rules()
        if not self.train + self.valid + self.test:
            yield "no document is requested", "give --train, --valid or --test a number"


@dataclass(frozen=True)
class Pairs(OutputOptions):
    """Options of `ctxr pairs`."""

    COMMAND = "pairs"
    ARGUMENT = "source"
    FOLDER = PAIRS

    source: Annotated[str, NotDecisive] = ""
    """sample (drawn pictures that ship with ctxr), own (the project's accepted and rejected descriptions), a dataset with captions,
    or published pairs such as those of e-SNLI-VE or MNLI."""

    def rules(self) -> Iterator[tuple[str, str]]:
        """A source that exists."""
        yield from super().rules()
        if self.source not in ("sample", "own") and not (self.source and Path(self.source).exists()):
            sentence = f"there is no file or folder {self.source}" if self.source else "pairs need a SOURCE"
            yield sentence, "sample, own, a dataset with captions, or published pairs"


@dataclass(frozen=True)
class DocumentsReport(VerbReport):
    """The report of `build-documents` and `pairs`: the manifest's counts, and in `notes` what could not be as wanted."""

    artifact: Path
    read: str
    up_to_date: bool
    counts: dict[str, Any]
    notes: list[str]


@dataclass(frozen=True)
class Merge(Options):
    """Options of `ctxr merge`."""

    COMMAND = "merge"
    ARGUMENT = "artifact"

    artifact: Path | None = None
    """Artifact folder that ranks have worked on; default: `sets` in the workdir."""
    workdir: Workdir = Path("work")


@dataclass(frozen=True)
class Rebuild(OutputOptions):
    """Options of `ctxr rebuild`. The recipe alone decides the result."""

    COMMAND = "rebuild"
    ARGUMENT = "recipe"
    FOLDER = "rebuilt"

    recipe: Path | None = None
    """Folder that `ctxr export --to recipe` wrote; default: `export-recipe` in the workdir."""
    videos: Path | None = None
    """Folder with the videos and photos, at any depth and under any name: they are recognised by content."""
    jobs: Jobs = 0
    """Videos decoded at the same time; 0 = half the cores."""
    engine: EngineName = "threads"

    def source(self) -> Path:
        """The recipe that is read."""
        return self.recipe or self.workdir / "export-recipe"

    def rules(self) -> Iterator[tuple[str, str]]:
        """Places that cannot be used."""
        yield from super().rules()
        yield from engine_rules(self.engine)
        out, source = self.folder(), self.source()
        if out.resolve().is_relative_to(source.resolve()) or source.resolve().is_relative_to(out.resolve()):
            yield f"{out} and the recipe {source} lie within one another", "choose another --out"
        if self.videos is not None and not self.videos.is_dir():
            yield f"--videos {self.videos} is not a folder", "name the folder with the videos and photos"


@dataclass(frozen=True)
class RebuildReport(VerbReport):
    """The report of `rebuild`: images that did not come out as recorded, and sources that gave nothing, with why."""

    artifact: Path
    read: Path
    up_to_date: bool
    counts: dict[str, Any]
    differences: list[dict[str, Any]]
    failures: list[dict[str, Any]]

    @property
    def finding(self) -> PartialError | None:
        """The sets that lack an image."""
        if not (left_out := self.counts.get("sets_left_out", 0)):
            return None
        return PartialError(
            f"{left_out} of {self.counts['sets'] + left_out} sets of the recipe could not be made",
            hint="--videos DIR with the missing sources, then the same command again",
        )


@dataclass(frozen=True)
class Verify(Options):
    """Options of `ctxr verify`."""

    COMMAND = "verify"
    ARGUMENT = "artifact"

    artifact: Path | None = None
    """Recipe or artifact of image sets; default: `filtered` in the workdir, or else `sets`."""
    videos: Path | None = None
    """Folder with the videos and photos, recognised by content; default: their last known location."""
    pictures: Path | None = None
    """Artifact whose pictures are compared with a recipe's frames where they differ."""
    workdir: Workdir = Path("work")
    jobs: Jobs = 0
    """Videos decoded at the same time; 0 = half the cores."""
    engine: EngineName = "threads"

    def rules(self) -> Iterator[tuple[str, str]]:
        """Invalid folders, and an engine that does not exist."""
        yield from engine_rules(self.engine)
        for option, folder in (("videos", self.videos), ("pictures", self.pictures)):
            if folder is not None and not folder.is_dir():
                yield f"--{option} {folder} is not a folder", f"leave --{option} out, or name a folder"


@dataclass(frozen=True)
class VerifyReport(VerbReport):
    """What was compared: numbers of `images`, and of those that are proven `equal`, of a recipe or of image sets.

    Attributes:
        differences: those that are not, as `ImageDifference`. unproven: images whose source could not be read. sources: why not.
        software: how versions differ from those that made a recipe, in words; empty if they do not.
    """

    artifact: Path
    kind: str
    images: int
    equal: int
    differences: list[dict[str, Any]]
    unproven: list[str]
    sources: dict[str, str]
    software: str

    @property
    def finding(self) -> FindingsError | None:
        """The images that are not those of their sources, or may not be."""
        if not self.differences and not self.unproven:
            return None
        return FindingsError(
            f"{plural(len(self.differences), 'image')} changed, {len(self.unproven)} could not be compared",
            hint="--videos DIR names the folder where the sources lie now"
            if self.unproven
            else f"{shlex.join(['ctxr', 'doctor', str(self.artifact)])} names the command that restores them",
        )
