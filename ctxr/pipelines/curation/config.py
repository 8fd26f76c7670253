"""Options and reports of the verbs that make image sets.

A rejected frame is as if it had never been there: the walk runs again over the ledger without it, so building and then
filtering gives the same sets as building with the same limits in one pass.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ctxr.engine.project import refuse_seed
from ctxr.errors import UsageError
from ctxr.store.hashing import sha256_file


@dataclass(frozen=True)
class BuildSets:
    """Configuration of `ctxr build-sets`; a field's text is its help."""

    sources: tuple[str, ...] = ()
    """Videos, photos, folders of them, or quoted globs."""
    out: Path | None = None
    """Artifact folder to write; default: `sets` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    encoder: str = "auto"
    """open_clip `name:pretrained`, `local-dir:PATH` or `checkpoint:PATH` (open_clip_config.json and safetensors),
    `random:ARCH` (for measuring speed), `ctxr-tiny`, or `auto`: ViT-B-32:openai if its weights can be
    had, else ctxr-tiny with a warning."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, mps."""
    precision: str = "auto"
    """Number format of the encoder: auto (bf16 where the device gains), fp32, bf16. Decisions near the threshold are
    always taken in fp32."""
    threshold: float | None = None
    """Distance (0..2, on unit vectors) that a frame must exceed to every frame of its set; larger gives fewer, more
    different frames. Default: the encoder's, 0.35 for CLIP as in the paper."""
    set_size: int = 10
    """Images in a set."""
    rate: float = 5.0
    """Frames considered per second of video; larger finds more sets and takes longer."""
    every_frame: bool = False
    """The literal procedure of the paper: consider every frame, skip none for being near-still."""
    gate: float = 4.0
    """Mean luma difference (0..255) to the last embedded frame below which a frame is skipped as near-still; 0 embeds
    all."""
    detector: str = "adaptive"
    """Shot detector: adaptive, content, threshold, histogram, hash (PySceneDetect's), or ffmpeg's scene filter as in
    the paper."""
    detector_threshold: float | None = None
    """The detector's own threshold; smaller cuts more. Default: the detector's."""
    min_shot: float = 0.6
    """Seconds that a shot lasts at least."""
    brisque: float | None = None
    """Rule out frames whose BRISQUE / 100 exceeds this (the paper: 0.65) while picking; smaller drops more."""
    max_text: float | None = None
    """Rule out frames of which recognised words cover more than this share (0..1) while picking."""
    min_size: int | None = None
    """Rule out images whose shorter side has fewer pixels."""
    brisque_weights: str = "live"
    """Support vectors of BRISQUE: live (shipped) or piq (torch cache or download)."""
    ocr: str = "auto"
    """OCR engine: auto, tesserocr, pytesseract."""
    sample: int | None = None
    """Draw this many photo sets instead of one per photo."""
    seed: int = 0
    """Seed of that draw."""
    neighbours: str = "auto"
    """What finds the nearest photos: auto (torch), bf16, fp32, or faiss (an extra, for more than 100,000 photos). All
    are exact and give the same sets."""
    splits: Path | None = None
    """CSV file `group,split` with the publisher's splits of source videos; the rest goes by salted hash."""
    salt: str = "ctxr"
    """Salt of that hash; another salt deals the groups anew."""
    decoder: str = "auto"
    """Video decoder: auto (PyAV, OpenCV as second attempt), pyav, opencv."""
    keep_damaged: bool = False
    """Use what can be decoded of a damaged video instead of setting it aside."""
    stall_seconds: float = 60.0
    """Give a video up after this many seconds without a frame."""
    time_limit: float = 0.0
    """Give a video up after this many seconds; 0 = never."""
    memory_limit: float = 4.0
    """GiB of memory that decoding one video may take."""
    workers: int = 0
    """Videos decoded at the same time; 0 = half the cores."""
    threads: int = 2
    """Decoding threads per video."""
    yield_curve: bool = False
    """Print how many sets each threshold would give; without SOURCES for the sets that are there."""
    retry_failed: bool = False
    """Try sources again that failed in the finished run."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.out or self.workdir / "sets"

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result; where things lie and how many hands work is left out."""
        left_out = {
            "sources",
            "out",
            "workdir",
            "workers",
            "threads",
            "yield_curve",
            "retry_failed",
            "splits",
            "neighbours",
        }
        chosen = {field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out}
        if self.splits:
            chosen["splits_sha256"] = sha256_file(self.splits)
        return chosen

    def check(self) -> None:
        """Raises UsageError for a value out of range."""
        refuse_seed(self.seed)
        ranges: dict[str, tuple[float | None, float, float, str]] = {
            "--threshold": (self.threshold, 0, 2, "a distance between unit vectors: 0..2"),
            "--set-size": (self.set_size, 2, 1000, "at least 2 images"),
            "--rate": (self.rate, 0.001, 1000, "frames per second"),
            "--gate": (self.gate, 0, 255, "a luma difference: 0..255"),
            "--min-shot": (self.min_shot, 0, 3600, "seconds"),
            "--sample": (self.sample, 1, 10**9, "a number of sets"),
            "--stall-seconds": (self.stall_seconds, 0.1, 10**6, "seconds"),
            "--time-limit": (self.time_limit, 0, 10**7, "seconds, 0 = none"),
            "--memory-limit": (self.memory_limit, 0.25, 10**4, "GiB"),
            "--workers": (self.workers, 0, 256, "0 = half the cores"),
            "--threads": (self.threads, 1, 256, "at least 1"),
        }
        for option, (value, low, high, meaning) in ranges.items():
            if value is not None and not low <= value <= high:
                raise UsageError(f"{option} {value} is out of range", hint=f"it is {meaning}")
        choices = {
            "--detector": (self.detector, ("adaptive", "content", "threshold", "histogram", "hash", "ffmpeg")),
            "--decoder": (self.decoder, ("auto", "pyav", "opencv")),
            "--device": (self.device, ("auto", "cpu", "cuda", "mps")),
            "--precision": (self.precision, ("auto", "fp32", "bf16")),
            "--brisque-weights": (self.brisque_weights, ("live", "piq")),
            "--neighbours": (self.neighbours, ("auto", "bf16", "fp32", "faiss")),
            "--ocr": (self.ocr, ("auto", "tesserocr", "pytesseract")),
        }
        for option, (name, known) in choices.items():
            if name not in known:
                raise UsageError(f"{option} {name} is unknown", hint=f"choose one of {', '.join(known)}")
        if self.splits and not self.splits.is_file():
            raise UsageError(f"no such file: {self.splits}", hint="--splits names a CSV file: group,split")


@dataclass(frozen=True)
class Filter:
    """Configuration of `ctxr filter`; a field's text is its help."""

    input: Path | None = None
    """Artifact of image sets to filter; default: `sets` in the workdir."""
    out: Path | None = None
    """Artifact folder to write; default: `filtered` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    brisque: float | None = None
    """Rule out images whose BRISQUE / 100 exceeds this (the paper: 0.65); smaller drops more."""
    max_text: float | None = None
    """Rule out images of which recognised words cover more than this share (0..1)."""
    min_size: int | None = None
    """Rule out images whose shorter side has fewer pixels."""
    brisque_weights: str = "live"
    """Support vectors of BRISQUE: live (shipped) or piq (torch cache or download)."""
    ocr: str = "auto"
    """OCR engine: auto, tesserocr, pytesseract."""
    videos: Path | None = None
    """Folder that the source videos or albums have moved to; they are recognised by content."""
    device: str = "auto"
    """Where the encoder runs, should a decision have to be taken again: auto, cpu, cuda, mps."""
    workers: int = 0
    """Videos worked on at the same time; 0 = half the cores."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.out or self.workdir / "filtered"

    def result_config(self) -> dict[str, Any]:
        """The part that decides the result."""
        left_out = {"input", "out", "workdir", "videos", "device", "workers"}
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name not in left_out}


@dataclass(frozen=True)
class Rebuild:
    """Configuration of `ctxr rebuild`; a field's text is its help."""

    recipe: Path | None = None
    """Folder that `ctxr export --to recipe` wrote; default: `export-recipe` in the workdir."""
    videos: Path | None = None
    """Folder with the videos and photos, at any depth and under any name: they are recognised by content."""
    out: Path | None = None
    """Artifact folder to write; default: `rebuilt` in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    workers: int = 0
    """Videos decoded at the same time; 0 = half the cores."""

    def source(self) -> Path:
        """The recipe that is read."""
        return self.recipe or self.workdir / "export-recipe"

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.out or self.workdir / "rebuilt"


@dataclass(frozen=True)
class RebuildReport:
    """What `rebuild` says when it is done.

    Attributes:
        counts: sets and images made, images that equal the recipe, those that differ, sets and images left out.
        differences: images that did not come out as recorded. failures: sources that gave nothing, with why.
    """

    artifact: Path
    read: Path
    up_to_date: bool
    counts: dict[str, Any]
    differences: list[dict[str, Any]]
    failures: list[dict[str, Any]]


@dataclass(frozen=True)
class Verify:
    """Configuration of `ctxr verify`; a field's text is its help."""

    artifact: Path | None = None
    """Recipe or artifact of image sets; default: `filtered` in the workdir, or else `sets`."""
    videos: Path | None = None
    """Folder with the videos and photos, recognised by content; default: where they were last seen."""
    pictures: Path | None = None
    """Artifact whose pictures a recipe's frames are measured against, where they differ."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    workers: int = 0
    """Videos decoded at the same time; 0 = half the cores."""


@dataclass(frozen=True)
class VerifyReport:
    """What was compared.

    Attributes:
        kind: `recipe` or `image_sets`. images: how many there are. equal: those that are proven equal.
        differences: those that are not, each with `what`, a sentence and the largest difference of two pixel values (0..255) if it
            could be measured. unproven: ids of images whose source could not be read. sources: why not, by source.
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
