"""A project with results, and the report on it, which the tests in a browser only read."""

from pathlib import Path

import pytest

from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.report import run
from tests.pipelines.evaluated import evaluated_project
from tests.pipelines.report_artifacts import project


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return evaluated_project(project(tmp_path_factory.mktemp("report") / "work"), runs=3)


@pytest.fixture(scope="session")
def page(evaluated: Path) -> Path:
    return run(Report(workdir=evaluated)).page
