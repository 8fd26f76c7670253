"""A browser without a script: what a page holds, and what its forms would post."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

from starlette.testclient import TestClient


@dataclass
class Posting:
    """A form as it stands: where it goes, what it would send now, and what else could be chosen."""

    action: str
    fields: dict[str, list[str]] = field(default_factory=dict)
    offered: dict[str, list[str]] = field(default_factory=dict)
    disabled: bool = False

    def send(self, visitor: TestClient, **values: str | list[str]) -> Any:
        """Post it with `values` put in."""
        body = self.fields | {name: [one] if isinstance(one, str) else one for name, one in values.items()}
        return visitor.post(self.action, data=body)

    def filled(self, values: Mapping[str, Sequence[str]]) -> dict[str, str]:
        """What is sent with `values` put in, a box each as `field.value`; fails where the form does not offer them."""
        sent = {name: parts[0] for name, parts in self.fields.items()}
        for name, parts in values.items():
            if name in self.offered or name in self.fields:
                (sent[name],) = parts
                assert name in self.fields or sent[name] in self.offered[name]
            else:
                sent |= {f"{name}.{value}": self.offered[f"{name}.{value}"][0] for value in parts}
        return sent


class HtmlReader(HTMLParser):
    """Forms, pictures, links and problems of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.forms: list[Posting] = []
        self.images: list[str] = []
        self.links: list[str] = []
        self.problems: list[str] = []
        self.headline = ""
        self.text = ""
        self._form: Posting | None = None
        self._inside: list[str] = []
        self._area = self._select = ""
        self._problem = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._form = Posting(given["action"])
            self.forms.append(self._form)
        elif tag == "input" and self._form and "name" in given:
            name, value = given["name"], given.get("value", "")
            if given.get("type") in ("radio", "checkbox"):
                self._form.offered.setdefault(name, []).append(value)
            if given.get("type") not in ("radio", "checkbox") or "checked" in given:
                self._form.fields.setdefault(name, []).append(value)
        elif tag == "select" and self._form:
            self._form.fields.setdefault(given["name"], []).append("")
            self._select = given["name"]
        elif tag == "option" and self._form:
            self._form.offered.setdefault(self._select, []).append(given["value"])
            if "selected" in given:
                self._form.fields[self._select][-1] = given["value"]
        elif tag == "textarea":
            self._area = given.get("name", "kept")
            if self._form:
                self._form.fields[self._area] = [""]
        elif tag == "button" and self._form and "disabled" in given:
            self._form.disabled = True
        elif tag == "img":
            self.images += [given["src"]] if "src" in given else []
        elif tag == "a":
            self.links += [given["href"]] if not given["href"].startswith("#") else []
        elif tag == "ul":
            self._problem = given.get("class") == "problems"
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag == "textarea":
            self._area = ""
        elif tag == "ul":
            self._problem = False
        if tag in self._inside:
            del self._inside[len(self._inside) - 1 - self._inside[::-1].index(tag) :]

    def handle_data(self, data: str) -> None:
        self.text += data if self._inside[-1:] not in (["style"], ["script"]) else ""
        if self._area and self._form:
            self._form.fields[self._area] = [self._form.fields[self._area][0] + data]
        elif self._problem and data.strip():
            self.problems.append(data.strip())
        elif "h1" in self._inside:
            self.headline += data

    def form(self, ending: str = "") -> Posting:
        """The form whose action ends so; the last one where nothing is said."""
        return next(form for form in reversed(self.forms) if form.action.endswith(ending))


def read(response: Any) -> HtmlReader:
    """The page in a response."""
    return HtmlReader(response.text)
