"""The languages of a server's pages: files of translations, and which a visitor reads."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from gettext import GNUTranslations
from io import BytesIO
from pathlib import Path
from string import Formatter

from babel import Locale, UnknownLocaleError
from babel.messages.mofile import write_mo
from babel.messages.pofile import PoFileError, read_po
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ctxr.errors import DataError, UsageError, first_line
from ctxr.web.language import ENGLISH, OTHERS, SPOKEN, PageLanguage

COOKIE = "ctxr-language"

_WANTED = re.compile(r"([A-Za-z0-9-]{1,35})(?:\s*;\s*q=([01](?:\.[0-9]{1,3})?))?\s*(?:,|$)")
"""A language in the header Accept-Language, and its weight."""


def read_languages(*folders: Path) -> dict[str, PageLanguage]:
    """English, and by their tags the languages of the files `ar.po`, `pt-BR.po`, … in `folders`; a later folder's texts come first.

    Raises UsageError for a file that is not named by a language, DataError for one that holds no translations of our texts.
    """
    languages = {ENGLISH.tag: ENGLISH}
    for file in (file for folder in folders for file in sorted(folder.glob("*.po"))):
        try:
            locale = Locale.parse(file.stem.replace("_", "-"), sep="-")
        except (ValueError, UnknownLocaleError) as error:
            hint = "name the file by the language's code: ar.po, pt-BR.po, …"
            raise UsageError(f"{file}: no language has the code {file.stem!r}", hint=hint) from error
        try:
            language = PageLanguage(locale, _translations(file.read_bytes(), locale))
        except (PoFileError, ValueError, LookupError, OSError) as error:
            hint = "mend the file; msgfmt --check names the line"
            raise DataError(f"{file}: {first_line(error)}", hint=hint) from error
        if (earlier := languages.get(language.tag)) is not None:
            language.texts.add_fallback(earlier.texts)
        languages[language.tag] = language
    return languages


def _translations(content: bytes, locale: Locale) -> GNUTranslations:
    """Raises what its reader raises, and ValueError for a translation with a placeholder of its own: it could not be shown."""
    catalog, compiled = read_po(BytesIO(content), locale=locale, abort_invalid=True), BytesIO()
    for message in catalog:
        texts, translated = ((one,) if isinstance(one, str) else one or () for one in (message.id, message.string))
        if message.id and (wrong := _placeholders(translated) - _placeholders(texts)):
            raise ValueError(f"the translation of {texts[0]!r} has {{{wrong.pop()[0]}}}, and the text does not")
    write_mo(compiled, catalog)
    compiled.seek(0)
    return GNUTranslations(compiled)


def _placeholders(texts: Sequence[str]) -> set[tuple[str | None, ...]]:
    return {(name, form, as_) for text in texts for _, name, form, as_ in Formatter().parse(text) if name is not None}


@dataclass(frozen=True, eq=False)
class Speaking:
    """The outermost layer: pages are in the language that a visitor chose with `?lang=`, which a cookie keeps, or that their browser
    asks for, or in the first of `languages`. `path`: below which the cookie is sent."""

    app: ASGIApp
    languages: Sequence[PageLanguage]
    path: str
    https: bool

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, in a context of its own."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        request = Request(scope)
        chosen = self.find(request.query_params.get("lang", ""))
        language = chosen or self.find(request.cookies.get(COOKIE, "")) or self._asked(request)

        async def send_with_cookie(message: Message) -> None:
            if chosen and message["type"] == "http.response.start":
                kept = f"{COOKIE}={chosen.tag}; Max-Age=31536000; Path={self.path}; HttpOnly; SameSite=lax"
                MutableHeaders(scope=message).append("set-cookie", kept + "; Secure" * self.https)
            await send(message)

        SPOKEN.set(language)
        OTHERS.set([one for one in self.languages if one != language] if request.method == "GET" else ())
        await self.app(scope, receive, send_with_cookie)

    def find(self, tag: str) -> PageLanguage | None:
        """The language of a tag, or one that differs in script or country alone; else None."""
        words = tag.lower().split("-")
        near = [one for one in self.languages if one.tag.lower().split("-")[0] == words[0]]
        return next((one for one in near if one.tag.lower().split("-") == words), near[0] if near else None)

    def _asked(self, request: Request) -> PageLanguage:
        found = _WANTED.findall(request.headers.get("accept-language", "")[:500])
        weighted = sorted(((float(weight or 1), tag) for tag, weight in found), key=lambda one: -one[0])
        return next((one for weight, tag in weighted if weight and (one := self.find(tag))), self.languages[0])
