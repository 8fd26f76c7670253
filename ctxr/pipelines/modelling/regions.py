"""`ctxr regions`: features and boxes of regions of every picture."""

from dataclasses import dataclass, replace
from pathlib import Path
from pkgutil import resolve_name
from typing import cast

from ctxr.datasets.lineage import dataset_parents
from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.project import CHAIN, chosen
from ctxr.engine.stage import Inputs, Stage, execute
from ctxr.errors import UsageError
from ctxr.models.hub import placeless
from ctxr.models.identity import model_identity, resolved_name
from ctxr.pipelines.modelling.config import RegionsConfig, RegionsReport
from ctxr.store.artifacts import Content, open_artifact
from ctxr.store.hashing import sha256_file, sha256_of
from ctxr.store.kinds import REGION_FEATURES
from ctxr.store.memory import Watch, remembered
from ctxr.store.regions import read_regions


@dataclass(frozen=True)
class RegionsInputs(Inputs):
    """Where the dataset lies, and `--extractor` with the name under which its model was found; as it is `shown`, without its place."""

    path: Path
    by: str
    shown: str


class RegionsStage(Stage[RegionsInputs]):
    """`regions` as an artifact."""

    KIND = REGION_FEATURES
    options: RegionsConfig

    def inputs(self, progress: Progress) -> RegionsInputs:
        """The dataset, and the extractor by its files; places on this machine stay out of it."""
        options, workdir = self.options, self.options.workdir
        path = chosen(options.dataset, workdir, CHAIN, progress)
        parents = dataset_parents(path, path.resolve().stem, workdir, progress)
        kind, _, source = options.extractor.partition(":")
        if kind == "file":
            folder = Path(source)
            if not folder.is_dir():
                hint = "--extractor file:FOLDER with a .npz for each picture"
                raise UsageError(f"{folder} is not a folder", hint=hint)

            def find(watch: Watch) -> str:
                watch([folder, *(one for one in folder.rglob("*") if one.is_dir())])
                files = sorted(folder.rglob("*.npz"))
                watch(files)
                return sha256_of([(file.relative_to(folder).as_posix(), sha256_file(file)) for file in files])

            by, shown, made_by = options.extractor, kind, remembered(workdir, ["regions", str(folder.resolve())], find)
        elif kind == "grid":
            encoder = resolved_name(source, workdir)
            by, shown, made_by = f"grid:{encoder}", f"grid:{placeless(encoder)}", model_identity(encoder, workdir)
        else:
            by = resolved_name(options.extractor, workdir)
            shown, made_by = kind, model_identity(by, workdir)
        return RegionsInputs(parents, options.key() | {"extractor": kind, "made_by": made_by}, path, by, shown)

    def write(self, inputs: RegionsInputs, out: Path, progress: Progress) -> Content:
        """The shards, and the table of pictures."""
        write_regions = resolve_name("ctxr.pipelines.modelling.region_shards:write_regions")
        dataset = open_dataset(inputs.path, self.options.workdir, progress)
        self.announce(progress, pictures=len(dataset.images))
        content = cast(Content, write_regions(out, replace(self.options, extractor=inputs.by), dataset, progress))
        return content._replace(counts=content.counts | {"by": inputs.shown})


def run(config: RegionsConfig, progress: Progress = SILENT) -> RegionsReport:
    """Extract the regions of every picture, or resume where a run stopped, and write the artifact. Raises DataError for pictures, weights
    or files that cannot be used, CtxrError for a detector whose weights are not here."""
    result = execute(RegionsStage(config), progress)
    out = config.folder()
    regions, manifest = read_regions(out), open_artifact(out, REGION_FEATURES).manifest
    dataset, by, left_out = (manifest.counts[name] for name in ("dataset", "by", "left_out"))
    sizes = len(regions.rows), regions.most, regions.features
    return RegionsReport(out, dataset, by, *sizes, tuple(left_out), result.up_to_date)
