"""The little of a browser that a simulated worker needs: cookies, redirects, forms. No script is run."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

import httpx

from ctxr.errors import CtxrError

_SECONDS = 60


@dataclass
class HtmlForm:
    """A form of a page: where it is sent, what it sends unasked, and what it asks.

    Attributes:
        choices: values of radio buttons and boxes, by name. areas: names of texts.
    """

    action: str
    hidden: dict[str, str] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)
    areas: list[str] = field(default_factory=list)


@dataclass
class Page:
    """What is on a page.

    Attributes:
        address: of the page, after all redirects. pictures: addresses, in order, each once. marked: of the marked picture.
        quotes: texts to read. words: everything that can be read. buttons: addresses of links that look like buttons.
    """

    address: str
    status: int
    forms: list[HtmlForm] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    marked: str | None = None
    quotes: list[str] = field(default_factory=list)
    buttons: list[str] = field(default_factory=list)
    words: str = ""

    def form(self, wanted: str) -> HtmlForm | None:
        """The form that asks for the field `wanted`."""
        return next((form for form in self.forms if wanted in form.choices or wanted in form.areas), None)


class Browser:
    """One person's browser: keeps cookies and one connection."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        base = f"{parts.scheme}://{parts.netloc}"
        self._client = httpx.Client(base_url=base, headers={"Origin": base}, follow_redirects=True, timeout=_SECONDS)

    def open(self, address: str) -> Page:
        """The page at `address`."""
        return _page(self._client.get(address))

    def send(self, page: Page, form: HtmlForm, values: dict[str, list[str]]) -> Page:
        """The page that comes after sending a form of `page`."""
        return _page(self._client.post(urljoin(page.address, form.action), data=form.hidden | values))

    def fetch(self, address: str) -> bytes:
        """The bytes at `address`. Raises CtxrError for anything but an answer of 200."""
        answer = self._client.get(address, follow_redirects=False)
        if answer.status_code != 200:
            raise CtxrError(f"{address} answered {answer.status_code}")
        return answer.content

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()


def _page(answer: httpx.Response) -> Page:
    return read_page(answer.text, str(answer.url), answer.status_code)


def read_page(text: str, address: str, status: int = 200) -> Page:
    """What a simulated worker sees of a page."""
    reader = _Reader(address, status)
    reader.feed(text)
    reader.close()
    reader.page.words = " ".join(" ".join(reader.said).split())
    return reader.page


class _Reader(HTMLParser):
    def __init__(self, address: str, status: int) -> None:
        super().__init__(convert_charrefs=True)
        self.page = Page(address, status)
        self.said: list[str] = []
        self._form: HtmlForm | None = None
        self._marked = False
        self._quote = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in attrs}
        classes = attributes.get("class", "").split()
        if tag == "form":
            self._form = HtmlForm(attributes.get("action", ""))
            self.page.forms.append(self._form)
        elif tag in ("figure", "label") and "marked" in classes:
            self._marked = True
        elif tag == "img" and "/picture/" in attributes.get("src", ""):
            source = attributes["src"]
            if source not in self.page.pictures:
                self.page.pictures.append(source)
            if self._marked:
                self.page.marked = source
        elif tag == "a" and "button" in classes:
            self.page.buttons.append(attributes.get("href", ""))
        elif tag == "p" and "quote" in classes:
            self._quote = True
            self.page.quotes.append("")
        elif self._form is not None and tag in ("input", "textarea"):
            self._field(tag, attributes)

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._form = None
        elif tag in ("figure", "label"):
            self._marked = False
        elif tag == "p":
            self._quote = False

    def handle_data(self, data: str) -> None:
        self.said.append(data)
        if self._quote:
            self.page.quotes[-1] += data

    def _field(self, tag: str, attributes: dict[str, str]) -> None:
        assert self._form is not None  # noqa: S101 - for the type checker
        name = attributes.get("name", "")
        if tag == "textarea":
            self._form.areas.append(name)
        elif attributes.get("type") == "hidden":
            self._form.hidden[name] = attributes.get("value", "")
        elif attributes.get("type") in ("radio", "checkbox"):
            self._form.choices.setdefault(name, []).append(attributes.get("value", ""))
