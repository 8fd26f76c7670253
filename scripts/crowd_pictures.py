"""Picture the pages of the crowd for the README, from drawn images: `python -m scripts.crowd_pictures` (needs chromium)."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image as Pillow
from playwright.sync_api import Browser, Page, expect

from ctxr.annotation.artifacts import TaskBatch
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from ctxr.store.records import Image, ImageSet
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.sets import sample_sets
from scripts.screenshot import MOST_BYTES, ROOT, browser
from scripts.task_artifact import write_tasks

SEED, SIZE, PLACE = 5, (1080, 720), 4
SAID = "The fish swims right above the pink drop, and nothing covers the violet flower."
TALK = (
    "Hi! How was your weekend?",
    "Great, we went to the lake with the kids.",
    "Oh lovely, did you swim?",
    "Too cold. But you would not believe who sat on our table.",
    "Who?",
    "Have a look:",
)


def write_project(work: Path) -> None:
    """A set to describe and a photo to talk about."""
    root = work / "sets"
    rng = np.random.default_rng(SEED)
    units: list[Unit] = []
    sets: list[ImageSet] = []
    images: list[Image] = []
    films, albums = tuple(sample_sets(rng, 3, "video")), tuple(sample_sets(rng, 3, "photos"))
    drawn = [films[0], albums[2]]
    for number, one in enumerate(drawn):
        names = tuple(f"{number}/img{place}" for place in range(len(one.scenes)))
        for name, scene in zip(names, one.scenes, strict=True):
            file = root / f"{name}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            Pillow.fromarray(render(scene, *SIZE)).save(file, quality=90)
            images.append(Image(name, f"{name}.jpg", "", str(number), *SIZE))
        sets.append(ImageSet(str(number), "video", names, str(number), str(number), 0, 0.1, 0.2))
    for task, one_set, shown in (("describe", sets[0], sets[0].images), ("dialogue", sets[1], sets[1].images[:1])):
        target = shown[PLACE] if task == "describe" else shown[0]
        units.append(Unit(task, task, one_set.id, one_set.group, shown, True, target=target))  # type: ignore[arg-type]
        folder = work / "tasks" / task
        folder.mkdir(parents=True)
        batch = TaskBatch((units[-1],), {one.id: one for one in sets}, {one.id: one for one in images}, root)
        write_tasks(folder, batch, Protocol(disjoint="none"))


@contextmanager
def served(work: Path, task: str) -> Iterator[list[str]]:
    """Personal links of two workers at a server with one task."""
    command = [sys.executable, "-m", "ctxr", "serve", "-w", str(work), "--port", "0", "--invite", "2"]
    with subprocess.Popen([*command, "--tasks", task, "--json"], stdout=subprocess.PIPE, text=True) as process:
        try:
            text = ""
            for line in process.stdout or ():
                text += line
                if line == "}\n":
                    break
            yield list(json.loads(text)["links"].values())
        finally:
            process.kill()


def describing(opened: Browser, links: list[str]) -> Page:
    """A worker who has written a description."""
    tab = opened_page(opened, links[0], "light", 720)
    tab.fill("textarea", SAID)
    return tab


def talking(opened: Browser, links: list[str]) -> Page:
    """A worker to whom the photo has just been shared."""
    first, second = (opened_page(opened, link, "dark", 720) for link in links)
    for number, text in enumerate(TALK):
        tab = (second, first)[number % 2]
        tab.fill("#text", text)
        tab.keyboard.press("Enter")
        for other in (first, second):
            expect(other.locator("#turns li")).to_have_count(number + 1)
    first.click("#share-button")
    expect(second.locator("#photo img")).to_be_visible()
    return second


def opened_page(opened: Browser, link: str, theme: str, height: int) -> Page:
    """The first page of a worker, signed in by a personal link."""
    tab = opened.new_context(viewport={"width": 1280, "height": height}, color_scheme=theme).new_page()  # type: ignore[arg-type]
    tab.goto(link)
    tab.wait_for_load_state("load")
    if (start := tab.get_by_role("button", name="Start")).count():
        start.click()
        tab.wait_for_load_state("load")
    tab.get_by_role("link", name="Go on").click()  # past the instructions
    tab.wait_for_load_state("load")
    return tab


def main() -> None:
    """Write both pictures."""
    shots = (("describe", describing, "crowd-describe.jpg"), ("dialogue", talking, "crowd-talk.jpg"))
    with tempfile.TemporaryDirectory() as folder, browser() as opened:
        for task, act, name in shots:
            write_project(Path(folder) / task)  # one each: who holds a page of another task goes on with that
            with served(Path(folder) / task, task) as links:
                tab = act(opened, links)
                tab.wait_for_timeout(500)
                content = tab.screenshot(type="jpeg", quality=80)
            if len(content) > MOST_BYTES:
                sys.exit(f"{name} would have {len(content)} bytes, more than {MOST_BYTES}")
            (ROOT / "docs" / name).write_bytes(content)
            print(f"docs/{name}: {len(content):,} bytes")


if __name__ == "__main__":
    main()
