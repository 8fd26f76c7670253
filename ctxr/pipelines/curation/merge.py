"""`ctxr merge`: the units that ranks made become an artifact."""

from typing import Any

from ctxr.datasets.image_sets import sets_report
from ctxr.engine.options import NotDecisive, Options, typed
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.scan import SCAN_LIMITS
from ctxr.pipelines.curation.build_sets import BuildStage
from ctxr.pipelines.curation.config import BuildSets, Filter, Merge
from ctxr.pipelines.curation.filter import FilterStage
from ctxr.store.artifacts import MANIFEST, RANKS, locked
from ctxr.store.units import SOURCES, RankRun, read_ranks

VERBS: dict[str, tuple[Any, Any]] = {"build-sets": (BuildSets, BuildStage), "filter": (Filter, FilterStage)}
"""Options and stage of the verbs that have ranks."""


def run(config: Merge, progress: Progress = SILENT) -> SetsReport:
    """Merge finished units and recorded failures with the options of the first rank.

    Raises UnfinishedError while a rank works, or where a unit is missing; DataError for ranks with different options; and what
    the verb raises.
    """
    folder = config.folder()
    ranks = {}
    if any(folder.glob(RANKS)):
        with locked(folder):
            ranks = read_ranks(folder)
    if not ranks:
        if (folder / MANIFEST).is_file():
            return sets_report(folder, up_to_date=True)
        first_rank = BuildSets(out=config.artifact, workdir=config.workdir)
        raise UnfinishedError(
            f"no rank has worked on {folder}",
            hint=f"run the ranks first: {first_rank.command_line('videos/', rank=0, world_size=2)}",
        )
    (first, ran), *others = ranks.items()
    for rank, other in others:
        if different := " and ".join(_differences(ran, other) or _differences(other, ran)):
            raise DataError(
                f"ranks {first} and {rank} ran with different options: {different}", hint="run one of them again"
            )
    kind, stage = VERBS[ran.verb]
    options = kind.parse(ran.options, f"{folder / SOURCES}: rank {first}")
    if options.folder().resolve() != folder.resolve():
        raise UsageError(
            f"the ranks wrote to {options.folder()}, which is another folder from here",
            hint="run ctxr merge where the ranks ran",
        )
    report: SetsReport = stage(options, ran).report(progress)
    return report


def _differences(one: RankRun, other: RankRun) -> list[str]:
    """Options of a run that the other does not have, without those in which ranks may differ."""
    rows, theirs = ({"world_size": run.world} | run.options for run in (one, other))
    free = _free(VERBS[one.verb][0])
    return [f"{typed(name)} {value}" for name, value in rows.items() if theirs.get(name) != value and name not in free]


def _free(kind: type[Options]) -> set[str]:
    """Options in which ranks may differ: limits of scans, and what decides no result; but what is read and the encoder do."""
    free = {name for name, option in kind.describe().items() if NotDecisive in option.markers}
    return (free | SCAN_LIMITS) - {"sources", "encoder", "precision"}
