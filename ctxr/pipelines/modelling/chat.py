"""One request a description: the prompt, and how replies are parsed.

Letters: K pictures of a set. A shift s shows picture s first, as number 1, and goes round: number n is picture (n - 1 + s) mod K.
"""

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

from ctxr.datasets.dataset import Dataset
from ctxr.models.chat import (
    REFUSAL,
    Completion,
    PricedRequest,
    chat_messages,
    final_text,
    picture_tokens,
    shortened,
    text_tokens,
)
from ctxr.problems.queries import EvalQuery
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Record

Outcome = Literal["chosen", "out_of_range", "ambiguous", "unreadable", "refused"]

KEY = "picture"
"""Of the JSON object that is asked for."""

_N = r"(?:(?<![\w.])-)?\d+(?:[.,]\d+)?"
_PICTURE = (
    r"(?:pictures?|images?|img|photos?|frames?|candidates?|options?|bild(?:er)?|fotos?"
    r"|imagen|imágenes|图片?|照片)"
)
_NUMBERED = r"(?:\b(?:numbers?|no\.|nummer|nr\.|numéro|número)|n[°º]|#)"
_AWAY = r"[^\w.!?;]{0,9}?"
_NAMED = rf"(?:{_PICTURE}{_AWAY}(?:{_NUMBERED}{_AWAY})?|第\s*)"
_ARTICLE = r"(?:(?:the|das|die|la|le|el)\s+|l['’])"
_JOIN = r"(?:\s*[,/&–、和或-]|\s+(?:and|or|to|und|oder|et|ou|y|o)\b)"
_SEVERAL = rf"{_N}(?:{_JOIN}\s*{_ARTICLE}?(?:{_NAMED})?{_N})*"
_NOT_CHOSEN = re.compile(
    r"\b(?:of|among|from|between|von|unter|parmi|sur|de|entre)\s+"
    r"(?:(?:all|the|these|those|den|allen|les|las|los)\s+)*\d+\b"
    r"|\b\d+\s+(?:\w+\s+)?(?:pictures|images|photos|frames|candidates|options|bilder|imágenes)\b"
    r"|(?<!第)(?<!第\s)(?<!\d)\d+\s*[张幅]"
    r"|(?:\b(?:not|nor|neither|except|unlike|than|over|instead\s+of|nicht|als|pas|que|no\s+es)\s+|不是)"
    rf"{_ARTICLE}?(?:(?:{_NAMED}|{_NUMBERED}){_AWAY}){{0,2}}{_N}"
    rf"|{_NAMED}{_N}\s+(?:(?:is|was|are|do|does|did|can|could|would|will|has)\s+not|\w*n['’]t|cannot)\b"
    rf"|{_NAMED}{_N}(?:\s+(?:\w+\s+nicht|ne|no)\b|\s+n['’]|\s*[张幅]?不)",
    re.IGNORECASE,
)
"""How many pictures there are, and those that an answer rules out."""

_CHOSEN = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        r"(?:\b(?:answer|choice|choose|pick|select|boxed|guess|go\s+with|antwort|wähle|réponse|choisis|c['’]est|respuesta"
        r"|elijo|(?:best|match(?:es|ing)?|fit|correct|final|it)(?=\s*:|['’]s\b|\s+(?:\w+\s+){0,2}is\b))\b"
        r"|答案|回答|选择?)(?:[^\w.!?;]|\b(?:is|s|be|but|would|the|for|one|ist|lautet|est|es|das|la|le|l)\b"
        # a number before a plural counts things
        rf"|[是为]|{_NUMBERED}|{_NAMED}){{0,12}}?{_SEVERAL}(?!\d|\s+(?!(?:is|as|fits|has|was)\b)[a-z]+s\b)",
        rf"\A[^\w-]*{_N}(?=\W*\Z|\s*\n|\s*[,;–—(，](?!\s*\d)|[.:)](?!.*\s\d+[.:)]\s)"
        r"|\s+(?:because|since|as|is\s+(?:the\s+)?(?:best|correct|right|answer|closest|match)|fits|weil|passt|car|parce|porque)\b)"
        rf"|\n[^\w-]*(?:{_NAMED}|{_NUMBERED}{_AWAY})?{_N}(?=[张幅号]?\W*\Z)",
        rf"{_NAMED}{_SEVERAL}|(?:\A|[.,;:!?\n])[^\w#]*{_NUMBERED}{_AWAY}{_SEVERAL}",
        rf"\A\W*{_SEVERAL}\W*\Z|(?:\A|\s){_N}[.:)]\s",
    )
]
"""Forms of an answer, the plainest first: after a word such as `answer`, a number by itself, `picture 3`,
a list of numbers. Any other number counts or names something else."""

_NUMBER = re.compile(_N)
_DECIMALS = re.compile(r"[.,]0+\Z")
_FENCE = re.compile(r"^```(?:json)?\s*|\s*```$")


class Reply(Record, frozen=True):
    """A model's answer to one request.

    Attributes:
        shift: which picture of the set was number 1, from 0.
        asked: hash over what was sent, to whom.
        outcome: `chosen`; `out_of_range`, a number that no picture has; `ambiguous`, several numbers; `unreadable`, no
            number, or no answer at all; `refused`, by the model or its host.
        number: of the picture as it was shown, from 1. candidate: its image id. Both None unless chosen.
        said: the answer, shortened.
        prompt_tokens, completion_tokens: as the host counts; None where it does not say.
        model: what the host says that answered.
    """

    KEY: ClassVar[tuple[str, ...]] = ("query", "shift")

    query: str
    shift: int
    asked: str
    outcome: Outcome
    number: int | None
    candidate: str | None
    said: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model: str = ""


class ReplyText(NamedTuple):
    """What one answer comes to; see `Reply`."""

    outcome: Outcome
    number: int | None = None


def schema(size: int) -> dict[str, Any]:
    """The `response_format` that leaves a model nothing to say but a number from 1 to `size`."""
    picture = {"type": "integer", "enum": list(range(1, size + 1))}
    shape = {"type": "object", "properties": {KEY: picture}, "required": [KEY], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "choice", "strict": True, "schema": shape}}


def read_text(text: str, size: int) -> ReplyText:
    """The number that an answer names: that of a JSON object, else the only one that the plainest form in
    the text names. `refused`: the model says that it cannot or will not answer.

    >>> [read_text(text, 10).number for text in ('{"picture": 3}', "Out of the 10 pictures, picture 3", "Picture 3 or 4")]
    [3, 3, None]
    """
    final, stated = final_text(text), None
    with suppress(ValueError, RecursionError):
        stated = json.loads(_FENCE.sub("", final))
    if isinstance(stated, dict):
        stated = stated.get(KEY, next(iter(stated.values()), None) if len(stated) == 1 else None)
    # the object of a schema holds the number, in quotation marks or not
    words = str(stated) if type(stated) in (int, float, str) else final
    left = _NOT_CHOSEN.sub(" ", REFUSAL.sub(" ", words))
    found = (_NUMBER.findall(" ".join(form.findall(left))) for form in _CHOSEN)
    numbers = {_DECIMALS.sub("", number) for number in next(filter(None, found), [])}
    if len(numbers) > 1:
        return ReplyText("ambiguous")
    number = "".join(numbers)
    if not number.lstrip("-").isdigit():
        return ReplyText("refused" if REFUSAL.search(words) else "unreadable")
    stated = int(number[:9])
    return ReplyText("chosen", stated) if 1 <= stated <= size else ReplyText("out_of_range")


VERSION = 1
"""Of the words and pictures below: replies to others are not mixed with them."""

SYSTEM = (
    "You see several pictures that are numbered, and a description that fits one of them better than all others. "
    "Compare the pictures with one another and find it. Answer with its number alone."
)

ROUND = "They are frames of one video. In order of time they are numbers {order}."
STRAIGHT = "They are frames of one video in order of time."


def shifts_of(count: int, size: int) -> list[int]:
    """`count` shifts, spread evenly over a set of `size` pictures, or all of them where there are fewer.

    >>> shifts_of(1, 10), shifts_of(2, 10), shifts_of(4, 10), shifts_of(5, 3)
    ([0], [0, 5], [0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count, size)
    return [step * size // count for step in range(count)]


def rotate_images(images: Sequence[str], shift: int) -> list[str]:
    """Images in the order in which they are numbered."""
    return [*images[shift:], *images[:shift]]


def instruction(query: EvalQuery, shift: int) -> str:
    """What stands behind the pictures."""
    size = len(query.images)
    order = ", ".join(str((index - shift) % size + 1) for index in range(size))
    frames = [ROUND.format(order=order) if shift else STRAIGHT] if query.ordered else []
    question = f"Which of the pictures 1 to {size} does the description fit? Answer with the number alone."
    return "\n".join([*frames, f"Description: {query.text}", question])


def messages(query: EvalQuery, shift: int, files: Mapping[str, Path], longest: int) -> list[dict[str, object]]:
    """The messages of a chat completion. Raises DataError for a picture that cannot be read."""
    content: list[str | Path] = []
    for number, image in enumerate(rotate_images(query.images, shift), 1):
        content += [f"Picture {number}:", files[image]]
    return chat_messages(SYSTEM, [*content, instruction(query, shift)], longest)


def identity(query: EvalQuery, shift: int, contents: Mapping[str, str], model: Mapping[str, object]) -> str:
    """A hash over what decides a reply: endpoint, model, query, words, and pictures with their size and order."""
    pictures = [contents[image] for image in rotate_images(query.images, shift)]
    return sha256_of([VERSION, query.query, SYSTEM, instruction(query, shift), pictures, dict(model)])


def estimated_tokens(query: EvalQuery, dataset: Dataset, longest: int) -> int:
    """About how many tokens a request has, rather too many."""
    words = len(SYSTEM) + len(instruction(query, 1)) + len("Picture 10:") * len(query.images)
    pictures = [dataset.images[image] for image in query.images]
    return text_tokens(words) + sum(picture_tokens(picture.width, picture.height, longest) for picture in pictures)


@dataclass(frozen=True)
class Request(PricedRequest):
    """One description with the pictures of its set, turned round by `shift`."""

    shift: int


def reply_from(request: Request, completion: Completion) -> Reply:
    """The fields of a completion that the journal keeps."""
    order = rotate_images(request.asked.images, request.shift)
    if completion.outcome == "answered":
        outcome, number = read_text(completion.text, len(order))
    else:
        outcome, number = completion.outcome, None
    query, candidate = request.asked.query, None if number is None else order[number - 1]
    tokens = (completion.prompt_tokens, completion.completion_tokens)
    answer = (outcome, number, candidate, shortened(completion.text))
    return Reply(query, request.shift, request.identity, *answer, *tokens, completion.model)
