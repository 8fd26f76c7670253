"""`ctxr build-sets`: from videos and photos to image sets (ImageCoDe, section 3.1; specs C1 and C2)."""

from ctxr.datasets.image_sets import report_on
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport
from ctxr.pipelines.curation.build_stage import BuildStage
from ctxr.pipelines.curation.config import BuildSets
from ctxr.store.artifacts import open_artifact
from ctxr.store.kinds import IMAGE_SETS


def run(config: BuildSets, progress: Progress = SILENT) -> SetsReport:
    """Build image sets and report on them; without sources, report on the finished ones.

    Raises UsageError for wrong arguments, DataError when every source fails, CtxrError when the disk is full.
    """
    if config.check().sources:
        return BuildStage(config).report(progress, config.yield_curve)
    return report_on(open_artifact(config.folder(), IMAGE_SETS, "ctxr build-sets videos/").path, True, curve=True)
