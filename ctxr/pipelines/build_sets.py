"""`ctxr build-sets`: from videos and photos to image sets (ImageCoDe, section 3.1; specs C1 and C2)."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import refuse_seed
from ctxr.pipelines.sets_report import KIND, SetsReport, report_on
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ctxr.data.sources import Found


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
            from ctxr.data.hashing import sha256_file

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


def run(config: BuildSets, talk: Talk | None = None) -> SetsReport:
    """Build image sets and say what was found.

    Raises UsageError for wrong arguments, DataError when every source fails, CtxrError when the disk is full.
    """
    from ctxr.data.artifacts import Parent, finished, locked, open_artifact, refuse_strangers
    from ctxr.data.sources import find_sources
    from ctxr.data.whereabouts import remember_places
    from ctxr.pipelines.changes import changed, discard

    talk = talk or Silent()
    config.check()
    limits_of(config).check()
    out = config.folder()
    if not config.sources:
        if config.yield_curve:
            return report_on(open_artifact(out, KIND, "ctxr build-sets videos/").path, up_to_date=True, curve=True)
        raise UsageError("no SOURCES given", hint="ctxr build-sets videos/")
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder", hint="choose another --out or --workdir")
    if config.workdir.exists() and not config.workdir.is_dir():
        raise UsageError(f"{config.workdir} is a file, not a folder", hint="choose another --workdir")
    search = find_sources(config.sources, lambda total: talk.progress("read sources, MiB", round(total)))
    for path, why in search.left_out:
        talk.warn(f"{path} is left out: {why}")
    for source in search.found:
        if source.path.resolve().is_relative_to(out.resolve()):
            raise UsageError(f"{source.path} lies inside the artifact folder {out}", hint="choose another --out")
    # content decides, not place
    parents = [Parent(source.name, source.kind, source.sha256) for source in search.found]
    ready = finished(out, KIND, "build-sets", config.result_config(), parents)
    if ready and config.encoder.startswith(("local-dir:", "checkpoint:")) and _encoder_changed(config, ready, talk):
        ready = None
    files, units = changed(ready) if ready else ([], [])
    if ready and not files and not (config.retry_failed and ready.manifest.counts.get("failed")):
        if config.encoder == "auto" and ready.manifest.models["encoder"]["name"] == "ctxr-tiny":
            talk.warn("these sets were picked with ctxr-tiny, because CLIP could not be had: --encoder ViT-B-32:openai")
        return report_on(out, up_to_date=True, curve=config.yield_curve)
    from ctxr.pipelines.build_run import build

    refuse_strangers(out)
    with locked(out):
        _say_what_goes(out, search.found, talk)
        remember_places(out, {source.sha256: source.path for source in search.found})
        build(config, out, search.found, parents, talk, lambda: discard(out, files, units, talk))
    report = report_on(out, up_to_date=False, curve=config.yield_curve)
    if not report.counts["sets"]:
        talk.warn(f"no set came about: {_cure_for_none(report)}")
    return report


def _say_what_goes(out: Path, found: "Sequence[Found]", talk: Talk) -> None:
    """A warning when sources that the folder holds, finished or not, are not among those that it is made from next."""
    from ctxr.data.units import SOURCES

    units = (out / SOURCES).iterdir() if (out / SOURCES).is_dir() else ()
    before = {unit.name for unit in units if not unit.name.startswith(".")}
    if gone := sorted(before - {source.name for source in found}):
        named = ", ".join(gone[:3]) + (" …" if len(gone) > 3 else "")
        sources = "1 source" if len(before) == 1 else f"{len(before)} sources"
        talk.warn(f"{out} held {sources}, of which {len(gone)} leave it now: {named} (another --out keeps both)")


def _cure_for_none(report: SetsReport) -> str:
    counts, reasons = report.counts, report.counts["reasons"]
    if not counts["videos"]:
        return f"{counts['photos']} photos are too few different ones; try a smaller --set-size, or more photos"
    if reasons and max(reasons, key=reasons.__getitem__) == "near_still":
        return "most frames were near-still; try --gate 0, a higher --rate, or footage in which more happens"
    return f"try a --threshold below {report.threshold:g} (--yield-curve shows what each gives), or a higher --rate"


def _encoder_changed(config: BuildSets, ready: Any, talk: Talk) -> bool:
    """Whether a folder of weights holds others than those the finished sets were made with: its name does not say."""
    from ctxr.models.encode import load_encoder

    encoder = load_encoder(config.encoder, config.device, config.precision, warn=talk.warn)
    return bool(encoder.fingerprint != ready.manifest.models["encoder"]["fingerprint"])


def limits_of(config: Any) -> "Any":
    """The quality limits in a configuration."""
    from ctxr.pipelines.quality import Limits

    return Limits(config.brisque, config.max_text, config.min_size)
