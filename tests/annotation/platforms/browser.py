"""A browser as a test needs it: reads the form of a page, fills it in, and says what it would post."""

from collections.abc import Mapping
from html.parser import HTMLParser


class Page(HTMLParser):
    """The fields of a page: hidden ones with their values, the others with what they offer."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.hidden: dict[str, str] = {}
        self.radios: dict[str, list[str]] = {}
        self.boxes: dict[str, str] = {}
        self.areas: list[str] = []
        self.pictures: list[str] = []
        self.text = ""
        self._silent = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self._silent = tag in ("style", "script")
        if tag == "img":
            self.pictures.append(found["src"])
        if tag == "textarea":
            self.areas.append(found["name"])
        if tag == "input" and found["type"] == "hidden":
            self.hidden[found["name"]] = found["value"]
        if tag == "input" and found["type"] == "radio":
            self.radios.setdefault(found["name"], []).append(found["value"])
        if tag == "input" and found["type"] == "checkbox":
            self.boxes[found["name"]] = found["value"]

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.text += data

    def posted(self, values: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
        """What is sent when the fields are filled in with `values`; fails where the page does not offer them."""
        sent = dict(self.hidden)
        for name, given in values.items():
            if name in self.radios:
                (value,) = given
                assert value in self.radios[name]
                sent[name] = value
            elif name in self.areas:
                (sent[name],) = given
            else:
                sent |= {f"{name}.{value}": self.boxes[f"{name}.{value}"] for value in given}
        return sent
