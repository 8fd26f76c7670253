"""Picture the demo's report for the README: `ctxr demo && python -m scripts.screenshot [PAGE]` (needs chromium)."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).resolve().parent.parent
TARGETS = {"light": ROOT / "docs" / "report.jpg", "dark": ROOT / "docs" / "report-dark.jpg"}
MOST_BYTES = 400_000

SEEN = """async () => {
  const boxes = [...document.images].map((one) => [one, one.getBoundingClientRect()]);
  const seen = boxes.filter(([, box]) => box.bottom > 0 && box.top < innerHeight).map(([one]) => one);
  await Promise.all(seen.map((one) => one.decode()));
}"""
"""Waits for the pictures in view; the others are not read before somebody scrolls there."""


def chromium() -> str | None:
    """The browser of this machine; None if there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((found for name in names if (found := shutil.which(name))), None)


@contextmanager
def browser() -> Iterator[Browser]:
    """A headless browser, as it is installed here; nothing is downloaded."""
    root = hasattr(os, "geteuid") and os.geteuid() == 0  # the sandbox refuses to work for root
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"] if root else [])
        try:
            yield launched
        finally:
            launched.close()


def picture(page: Path, theme: str, width: int = 1280, height: int = 1180, part: str = "") -> bytes:
    """The top of the page as JPEG, or of a part of it."""
    with browser() as opened:
        tab = opened.new_page(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]
        tab.goto(f"{page.resolve().as_uri()}#{part}")
        if tab.locator("#kind option", has_text="video").count():
            tab.select_option("#kind", "video")
        tab.evaluate(SEEN)
        return tab.screenshot(type="jpeg", quality=78)


def main() -> None:
    """Write both pictures."""
    page = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "demo" / "work" / "report.html"
    if not page.is_file():
        sys.exit(f"{page} is not there: ctxr demo writes it")
    if chromium() is None:
        sys.exit("no chromium: apt-get install chromium")
    for theme, target in TARGETS.items():
        content = picture(page, theme)
        if len(content) > MOST_BYTES:
            sys.exit(f"{target} would have {len(content)} bytes, more than {MOST_BYTES}")
        target.write_bytes(content)
        print(f"{target}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
