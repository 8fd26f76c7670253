"""`ctxr filter`: image sets without blurry, text-heavy or small images; what falls out is replaced (specs C1.3).

A rejected frame is as if it had never been there: the walk runs again over the ledger without it, so building and then
filtering gives the same sets as building with the same limits in one pass.
"""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ctxr.errors import DataError, UsageError
from ctxr.pipelines.sets_report import KIND, SetsReport, report_on
from ctxr.pipelines.talk import Silent, Talk


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


def run(config: Filter, talk: Talk | None = None) -> SetsReport:
    """Filter image sets and say what is left.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError when a source is needed and
    cannot be found.
    """
    from ctxr.data.artifacts import Parent, finished, locked, open_artifact, refuse_strangers
    from ctxr.pipelines.changes import changed, discard, refuse_changed
    from ctxr.pipelines.quality import QualityLimits

    talk = talk or Silent()
    limits = QualityLimits.of(config)
    limits.check()
    if not limits:
        raise UsageError("nothing to filter by", hint="ctxr filter --brisque 0.65   (or --max-text, --min-size)")
    if config.brisque_weights not in ("live", "piq"):
        raise UsageError(f"--brisque-weights {config.brisque_weights} is unknown", hint="choose live or piq")
    if config.ocr not in ("auto", "tesserocr", "pytesseract"):
        raise UsageError(f"--ocr {config.ocr} is unknown", hint="choose auto, tesserocr or pytesseract")
    source = config.input or config.workdir / "sets"
    out = config.folder()
    if out.exists() and not out.is_dir():
        raise UsageError(f"{out} is a file, not a folder", hint="choose another --out or --workdir")
    if out.resolve() == source.resolve():
        raise UsageError("--input and --out are the same folder", hint="choose another --out")
    artifact = open_artifact(source, KIND, _maker(config))
    refuse_changed(artifact, "ctxr build-sets")
    _check_same_limits(artifact.manifest.config, config)
    parents = [Parent("image_sets", KIND, artifact.sha256), *artifact.manifest.parents]
    ready = finished(out, KIND, "filter", config.result_config(), parents)
    files, units = changed(ready) if ready else ([], [])
    if ready and not files:
        return report_on(out, up_to_date=True, read=source)
    from ctxr.pipelines.filter_run import refilter

    refuse_strangers(out)
    with locked(out):
        refilter(config, artifact, out, parents, talk, lambda: discard(out, files, units, talk))
    report = report_on(out, up_to_date=False, read=source)
    if not report.counts["sets"]:
        asked = {"--brisque": config.brisque, "--max-text": config.max_text, "--min-size": config.min_size}
        limits_typed = " and ".join(f"{name} {value}" for name, value in asked.items() if value is not None)
        talk.warn(f"no set is left by {limits_typed}: wider limits let more through")
    return report


def _maker(config: Filter) -> str:
    """The command that makes what this filter reads."""
    if config.input is not None:
        return f"ctxr build-sets videos/ --out {config.input}"
    return "ctxr build-sets videos/" + ("" if config.workdir == Filter().workdir else f" -w {config.workdir}")


def _check_same_limits(built: dict[str, Any], config: Filter) -> None:
    """A limit that the sets were built with stays in force: dropping it silently would bring bad frames back."""
    for name in ("brisque", "max_text", "min_size"):
        before, now = built.get(name), getattr(config, name)
        if before is not None and now is None:
            option = "--" + name.replace("_", "-")
            raise DataError(
                f"the sets were built with {option} {before}, which this filter leaves out",
                hint=f"add {option} {before} (or another value) to the command",
            )
