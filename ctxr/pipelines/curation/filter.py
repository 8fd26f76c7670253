"""`ctxr filter`: image sets without low-quality, text-heavy or small images; rejected images are replaced (specs C1.3)."""

from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.report import SetsReport
from ctxr.pipelines.curation.config import Filter
from ctxr.pipelines.curation.filter_stage import FilterStage


def run(config: Filter, progress: Progress = SILENT) -> SetsReport:
    """Filter image sets and report on the rest.

    Raises UsageError for wrong arguments, UnfinishedError without finished sets, DataError when a source is needed and
    cannot be found.
    """
    return FilterStage(config).report(progress, read=config.source())
