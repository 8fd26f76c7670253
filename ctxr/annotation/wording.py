"""What is wrong with the wording of a description, for its writer.

ImageCoDe, section 3.2: the reader may see the ten images in another order, so a description must not point at other images.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from unicodedata import category, normalize

from ctxr.annotation.records import PUBLISHED, AnswerLimits
from ctxr.web.language import N_, _, ngettext

FEW_KINDS = 12
"""Words from which a text must have a third of different ones."""

RULES = frozenset({"too_short", "same_words", "mentions_other_images", "address", "repeats_yourself", "copied"})
"""Codes of the problems of a description that may stand for a reason."""

_KIND = r"(?:image|picture|photo|photograph|frame|pic|screenshot|snapshot|slide)"
_COUNT = r"(?:one|two|three|four|five|six|seven|eight|nine|ten|\d+)"
_RANK = (
    r"(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|\d+(?:st|nd|rd|th)|last|final|next|previous|"
    r"preceding|following|prior|subsequent|adjacent|neighbou?ring)"
)
_OTHERS = re.compile(
    rf"\b(?:(?:an?)?other|{_RANK}|all(?: of)?(?: the)?|both|remaining|rest of the|most of the|these|those)"
    rf"(?: {_COUNT}| few| similar)?(?: {_RANK})? {_KIND}s?\b"
    rf"|\b{_KIND} (?:(?:number|no\.?|nr\.?|#) ?{_COUNT}|\d+)\b(?! (?:person|people|men|women)\b)"
    rf"|\b(?:before|after|than|unlike) (?:in )?(?:this|that|any|every|each) (?:other )?{_KIND}s?\b"
    rf"|\b(?:than|unlike|compared (?:to|with)|different from) (?:all )?(?:of )?the (?:others|other {_COUNT}|rest)\b(?! of)"
    rf"|\b(?:only|just|sole) {_KIND} (?:in which|where|that|with|without|of)\b",
    re.IGNORECASE,
)
_OVERLAID = re.compile(
    r"\b(?:over|overla\w+|superimpos\w+|impos\w+|fad\w+|faint\w*|layer\w*|collage|transition\w*|blend\w*|on top|intervenes)\b",
    re.IGNORECASE,
)
"""Words of two pictures in one, as in a dissolve: another image is then part of this one."""
_FRAMES_OF_THINGS = re.compile(r"\b(?:picture|photo|window|door|bed) frames?\b", re.IGNORECASE)
_SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005\u3040-\u30ff\u3400-\u4dbf"
    "\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
)
"""Letters of scripts without spaces: Thai, Lao, Burmese, Khmer, Japanese and Chinese."""
_LETTERS = rf"[^\W{_SPACELESS}]+"
_WORD = re.compile(rf"[{_SPACELESS}]{{1,2}}|{_LETTERS}(?:['’]{_LETTERS})*")
"""A word; where no spaces tell words apart, two letters."""
_SIGN = re.compile(rf"[{_SPACELESS}]|{_LETTERS}(?:['’]{_LETTERS})*")
_ADDRESS = re.compile(r"https?://|www\.", re.IGNORECASE)


@dataclass(frozen=True)
class Problem:
    """What is wrong, as a snake_case code for the counts and a sentence for the worker."""

    code: str
    sentence: str


def first_problem(*checks: tuple[bool, str, str]) -> Problem | None:
    """The first problem that holds, of (whether it holds, code, sentence); None without any."""
    return next((Problem(code, sentence) for holds, code, sentence in checks if holds), None)


def wording_problems(
    text: str, own: Collection[str] = (), others: Collection[str] = (), limits: AnswerLimits = PUBLISHED
) -> list[Problem]:
    """What is wrong with a description; `own` are its worker's earlier ones, `others` what others wrote about the set."""
    text = without_marks(text)
    words = _WORD.findall(text)
    if not words:
        return [Problem("empty", _("Please write a description before you send it."))]
    plain = " ".join(_FRAMES_OF_THINGS.sub("rim", text).split())
    # other languages point in other words
    names_others = limits.language.split("-")[0] == "en" and not _OVERLAID.search(plain)
    mention = _OTHERS.search(plain) if names_others else None
    wrong = {
        "too_short": len(words) < limits.least_words,
        "same_words": len(words) >= FEW_KINDS and len({word.lower() for word in words}) < len(words) / 3,
        "mentions_other_images": mention is not None,
        "address": _ADDRESS.search(text) is not None,
        "repeats_yourself": any(same_wording(text, earlier, limits.sameness) for earlier in own),
        "copied": any(same_wording(text, other, limits.sameness) for other in others),
    }
    found = {"words": ngettext("{count} word", "{count} words", len(words)), "mention": mention and mention.group()}
    return [Problem(code, _(_SENTENCES[code]).format(**found)) for code, holds in wrong.items() if holds]


_SENTENCES = {
    "too_short": N_("That is {words}. Please add more detail, because other people must find the image by your words."),
    "same_words": N_("The text repeats the same words. Please describe what you see."),
    "mentions_other_images": N_(
        "“{mention}” points at other images. The reader may see them in another order: "
        "please describe only what can be seen in the marked one."
    ),
    "address": N_("Please leave out web addresses and describe what you see."),
    "repeats_yourself": N_("You have sent nearly the same text before. Please describe this image afresh."),
    "copied": N_("Nearly the same text is already there for these images. Please describe it in your own words."),
}


def same_wording(text: str, other: str, sameness: float = PUBLISHED.sameness) -> bool:
    """Whether two texts are the same but for case, punctuation and a word or two: see `AnswerLimits.sameness`."""
    (first, a), (second, b) = _shape(text), _shape(other)
    if first == second:
        return True
    if min(len(first), len(second)) < 5:
        return False  # one word changed is another description
    common = len(a & b)
    return common >= sameness * (len(a) + len(b) - common)


def without_marks(text: str) -> str:
    """A text without vowel signs and marks that no letter holds, joiners, zero-width characters, marks of direction."""
    return "".join(sign for sign in normalize("NFC", text) if category(sign) not in ("Mn", "Mc", "Cf"))


@lru_cache(maxsize=20_000)
def _shape(text: str) -> tuple[tuple[str, ...], frozenset[tuple[str, str, str]]]:
    """The words of a text, or letters where no spaces part words, and their trigrams; cached, for many comparisons."""
    words = tuple(_SIGN.findall(without_marks(text).lower()))
    return words, frozenset(zip(words, words[1:], words[2:], strict=False))
