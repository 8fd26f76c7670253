"""The documentation site in a real browser, for who cannot see it, and on a phone."""

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.annotation.web.test_app_browser import look

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.prove
def test_the_site_is_accessible_in_both_themes_and_fits_a_phone(headless: Browser, tmp_path: Path) -> None:
    words = ["--fail-on-warning", "--quiet", "-d", str(tmp_path / "doctrees"), str(DOCS), str(tmp_path / "site")]
    subprocess.run([sys.executable, "-m", "sphinx", *words], check=True)
    tab = headless.new_page()
    for page in ("index", "cli", "api"):
        tab.goto((tmp_path / "site" / f"{page}.html").as_uri())
        look(tab)
    tab.close()
