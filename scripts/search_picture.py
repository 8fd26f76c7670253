"""Picture the page of `ctxr search` for the README: `ctxr demo && python -m scripts.search_picture` (needs chromium)."""

import signal
import subprocess
import sys
from pathlib import Path

from scripts.screenshot import MOST_BYTES, ROOT, browser, chromium

TARGETS = {"light": ROOT / "docs" / "search.jpg", "dark": ROOT / "docs" / "search-dark.jpg"}
STROKES = (("a red house", (0.2, 0.25)), (" and a green boat", (0.72, 0.7)))
"""What is typed, and where its stroke is drawn, shares of the canvas."""


def picture(address: str, theme: str) -> bytes:
    """The page after somebody typed and drew, as JPEG."""
    with browser() as opened:
        tab = opened.new_page(viewport={"width": 1280, "height": 760}, color_scheme=theme)  # type: ignore[arg-type]
        tab.goto(address)
        for text, (x, y) in STROKES:
            tab.locator("#text").press_sequentially(text)
            box = tab.locator("#canvas").bounding_box()
            if box is None:
                sys.exit("the page has no canvas")
            tab.mouse.move(box["x"] + box["width"] * x, box["y"] + box["height"] * y)
            tab.mouse.down()
            for step in range(1, 9):
                across, down = x + 0.012 * step, y + 0.04 * (step % 2)
                tab.mouse.move(box["x"] + box["width"] * across, box["y"] + box["height"] * down)
            tab.mouse.up()
        tab.wait_for_timeout(1500)  # for the last answer and its pictures
        return tab.screenshot(type="jpeg", quality=80)


def main() -> None:
    """Write both pictures."""
    work = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "demo" / "narratives"
    if not (work / "dataset").is_dir():
        sys.exit(f"{work} is not there: ctxr demo writes it")
    if chromium() is None:
        sys.exit("no chromium: apt-get install chromium")
    words = ["search", str(work / "dataset"), "-w", str(work), "--model", "ctxr-tiny", "--port", "0"]
    with subprocess.Popen([sys.executable, "-m", "ctxr", *words], stdout=subprocess.PIPE, text=True) as running:
        try:
            address = next(line.split()[-1] for line in running.stdout or () if "http://" in line)
            for theme, target in TARGETS.items():
                content = picture(address, theme)
                if len(content) > MOST_BYTES:
                    sys.exit(f"{target} would have {len(content)} bytes, more than {MOST_BYTES}")
                target.write_bytes(content)
                print(f"{target}: {len(content):,} bytes")
        finally:
            running.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
