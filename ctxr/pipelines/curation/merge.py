"""`ctxr merge`: the units that ranks made become an artifact."""

from typing import Any

from ctxr.datasets.image_sets import sets_report
from ctxr.engine.history import part_of_run
from ctxr.engine.options import convert, option_name
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.scan import SCAN_LIMITS
from ctxr.pipelines.curation.build_sets import BuildStage
from ctxr.pipelines.curation.config import BuildSets, Filter, Merge, SetsOptions
from ctxr.pipelines.curation.filter import FilterStage
from ctxr.pipelines.curation.image_sets import SetsStage
from ctxr.store.artifacts import MANIFEST, RANKS, locked
from ctxr.store.units import SOURCES, RankRun, read_ranks

# options and stage of the verbs that have ranks
VERBS: dict[str, tuple[type[SetsOptions], type[SetsStage[Any]]]] = {
    "build-sets": (BuildSets, BuildStage),
    "filter": (Filter, FilterStage),
}


def run(config: Merge, progress: Progress = SILENT) -> SetsReport:
    """Merge finished units and recorded failures with the options of the first rank.

    Raises UnfinishedError while a rank works, or where a unit is missing; DataError for ranks with different options; and what
    the verb raises.
    """
    folder, ranks = config.artifact or config.workdir / "sets", {}
    if any(folder.glob(RANKS)):
        with locked(folder):
            ranks = read_ranks(folder)
    if not ranks:
        if (folder / MANIFEST).is_file():
            with part_of_run(config) as made:
                made.artifacts[folder] = True
            return sets_report(folder, up_to_date=True)
        verb = BuildSets(out=config.artifact, workdir=config.workdir, rank=0, world_size=2)
        hint = f"run the ranks first: {verb.command_line('videos/')}"
        raise UnfinishedError(f"no rank has worked on {folder}", hint=hint)
    (first, ran), *others = ranks.items()
    kind, stage = VERBS[ran.verb]
    options = kind(**convert(kind, ran.options, f"{folder / SOURCES}: rank {first}"))
    decisive = _decisive(ran)
    for rank, other in others:
        found = _decisive(other)
        if names := sorted(name for name in decisive.keys() | found.keys() if decisive.get(name) != found.get(name)):
            different = "; ".join(f"{name} {decisive.get(name)} and {found.get(name)}" for name in names)
            problem = f"ranks {first} and {rank} ran with different options or sources: {different}"
            raise DataError(problem, hint="run one of them again")
    if options.folder().resolve() != folder.resolve():
        raise UsageError(
            f"the ranks wrote to {options.folder()}, which is another folder from here",
            hint="run ctxr merge where the ranks ran",
        )
    return stage(options, ran).report(progress)


def _decisive(run: RankRun) -> dict[str, object]:
    """Options and hashes of parents, by name, which all ranks must share."""
    values = {"verb": run.verb, "world_size": run.world, **run.key}
    options = {option_name(name): value for name, value in values.items() if name not in SCAN_LIMITS}
    return options | {parent.name: parent.sha256[:12] for parent in run.parents}
