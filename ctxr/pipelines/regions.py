"""`ctxr regions`: features and boxes of regions for every picture of a dataset, for models that look at regions."""

from dataclasses import dataclass
from pathlib import Path

from ctxr.errors import UsageError
from ctxr.pipelines.talk import Silent, Talk

WAYS = ("grid", "faster-rcnn", "file")


@dataclass(frozen=True)
class RegionsConfig:
    """Configuration of `ctxr regions`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact or published release with pictures; default: the latest finished one in the workdir."""
    by: str = "grid:auto"
    """Who looks: grid:ENCODER (its feature map), faster-rcnn[:WEIGHTS.pth|.safetensors], file:FOLDER (bottom-up-attention .npz)."""
    most: int = 36
    """Regions of a picture, beside the whole of it."""
    name: str | None = None
    """What the artifact is called, in `regions/` of the workdir; default: grid, faster-rcnn or file."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    device: str = "auto"
    """Where to compute: auto, cpu, cuda, mps."""

    def folder(self) -> Path:
        """Where the artifact is written."""
        return self.workdir / "regions" / (self.name or self.by.partition(":")[0])


@dataclass(frozen=True)
class RegionsReport:
    """What `regions` made.

    Attributes:
        regions: the artifact. by: what looked, with its resolved name. pictures: that have regions.
        most: R, the largest number of regions of a picture with the whole of it. features: F.
        left_out: an image id for each picture that has none. up_to_date: whether it was there already.
    """

    regions: Path
    dataset: str
    by: str
    pictures: int
    most: int
    features: int
    left_out: tuple[str, ...] = ()
    up_to_date: bool = False


def run(config: RegionsConfig, talk: Talk | None = None) -> RegionsReport:
    """Look at every picture once, or go on where it was stopped, and write the artifact.

    Raises UsageError for wrong arguments, DataError for pictures, weights or files that cannot be used, CtxrError for a
    detector whose weights are not here, UnfinishedError without a finished dataset.
    """
    way, _, rest = config.by.partition(":")
    if way not in WAYS or (way != "faster-rcnn" and not rest):
        raise UsageError(
            f"--by {config.by!r} is none of grid:ENCODER, faster-rcnn, faster-rcnn:WEIGHTS, file:FOLDER",
            hint="--by grid:ViT-B-32:openai",
        )
    if config.most < 1:
        raise UsageError(f"--most {config.most} leaves no region", hint="--most 36")
    if config.name is not None and (config.name in ("", ".", "..") or Path(config.name).name != config.name):
        raise UsageError(f"--name {config.name!r} is no name of a folder", hint="--name grid-6x6")
    from ctxr.pipelines.regions_run import extract

    return extract(config, talk or Silent())
