"""A page of ours in a tab of a headless browser."""

from collections.abc import Callable
from dataclasses import dataclass, field

from playwright.sync_api import Page


@dataclass
class Opened:
    """A page in a tab, with everything it asked for elsewhere and every complaint of the browser."""

    tab: Page
    asked: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def titles(self) -> list[str]:
        return self.tab.locator(".card .title").all_text_contents()


Open = Callable[..., Opened]

LEAP = """async (button) => {
  button.scrollIntoView({ behavior: "instant", block: "center" });
  const top = button.getBoundingClientRect().top;
  for (let frame = 0; frame < 4; frame += 1) await new Promise(requestAnimationFrame);
  return button.getBoundingClientRect().top - top;
}"""
"""How far a button moves, in pixels, once what has come into view with it is drawn."""
