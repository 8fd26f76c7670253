"""A page of ours in a tab of a headless browser."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page


@dataclass
class OpenedPage:
    """A page in a tab, with everything it asked for elsewhere and every complaint of the browser."""

    tab: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def titles(self) -> list[str]:
        return self.tab.locator(".card .title").all_text_contents()


Open = Callable[..., OpenedPage]

LEAP = """async (button) => {
  button.scrollIntoView({ behavior: "instant", block: "center" });
  const top = button.getBoundingClientRect().top;
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
  return button.getBoundingClientRect().top - top;
}"""
"""How far a button moves, in pixels, once what has come into view with it is drawn."""


def data_of(page: Path) -> dict[str, Any]:
    """What the scripts of a page are given; a number that is none in JSON fails."""
    found = re.search(r'<script[^>]*id="data"[^>]*>(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    decoded: dict[str, Any] = json.loads(found[1], parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    return decoded
