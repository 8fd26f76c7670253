"""The documentation site in a real browser, for who cannot see it, and on a phone."""

import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.annotation.web.test_app_browser import SCREENS, faults

DOCS = Path(__file__).resolve().parent.parent / "docs"


@pytest.mark.prove
def test_the_site_is_accessible_in_both_themes_and_fits_a_phone(headless: Browser, tmp_path: Path) -> None:
    words = ["--fail-on-warning", "--quiet", "-d", str(tmp_path / "doctrees"), str(DOCS), str(tmp_path / "site")]
    subprocess.run([sys.executable, "-m", "sphinx", *words], check=True)
    pages = {page.stem: page for page in (tmp_path / "site").glob("*.html")}
    assert {page.stem for page in DOCS.glob("*.md")} - {"search"} <= pages.keys()
    tab, found = headless.new_page(), list[tuple[str, str, int, list[str]]]()
    for name, page in pages.items():
        tab.goto(page.as_uri())
        for theme, width in SCREENS:
            tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
            tab.set_viewport_size({"width": width, "height": 800})
            found.append((name, theme, tab.evaluate("document.documentElement.scrollWidth") - width, faults(tab)))
    tab.close()
    assert [(name, theme, wrong) for name, theme, _, wrong in found if wrong] == []
    assert [(name, theme, over) for name, theme, over, _ in found if over > 0] == []
