"""The language of a page: the texts of our pages are English in the code, and other languages are files of translations."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property, lru_cache
from gettext import NullTranslations

from babel import Locale
from babel.numbers import format_decimal


@dataclass(frozen=True)
class PageLanguage:
    """A language of pages: `locale` has names, numbers and direction, `texts` translations."""

    locale: Locale
    texts: NullTranslations

    @cached_property
    def tag(self) -> str:
        """As HTML and HTTP write it, such as `pt-BR` (BCP 47)."""
        return str(self.locale).replace("_", "-")


ENGLISH = PageLanguage(Locale("en"), NullTranslations())

SPOKEN: ContextVar[PageLanguage] = ContextVar("spoken", default=ENGLISH)
"""The language of the page that is being made."""

OTHERS: ContextVar[Sequence[PageLanguage]] = ContextVar("others", default=())
"""The languages that its reader may switch to; none where the page cannot be loaded again."""


def _(text: str) -> str:
    """The text in the language of the page that is being made."""
    return text and SPOKEN.get().texts.gettext(text)


def ngettext(one: str, many: str, count: int) -> str:
    """The text for so many, in the language of the page, with the number as `{count}`."""
    return SPOKEN.get().texts.ngettext(one, many, count).format(count=number(count))


def N_(text: str) -> str:
    """The text as it is, marked for translations; `_` translates it where it is shown."""
    return text


def number(value: float) -> str:
    """A number as the language of the page writes it, in its digits."""
    return _written(value, SPOKEN.get().locale)


_ZEROS = {"latn": "0", "arab": "٠", "arabext": "۰", "beng": "০", "deva": "०", "mymr": "၀", "tibt": "༠"}
"""The first of the ten digits of a numbering system."""


@lru_cache(10_000)
def _written(value: float, locale: Locale) -> str:
    # Babel knows a language's digits, and takes its separators, but writes 0 to 9
    system = locale.default_numbering_system if locale.default_numbering_system in _ZEROS else "latn"
    text = format_decimal(value, locale=locale, numbering_system=system)
    return text.translate({ord("0") + digit: ord(_ZEROS[system]) + digit for digit in range(10)})


def name_of_language(tag: str) -> str:
    """What a language is called in that of the page; `tag` is one that Babel knows."""
    return Locale.parse(tag, sep="-").get_display_name(SPOKEN.get().locale) or tag
