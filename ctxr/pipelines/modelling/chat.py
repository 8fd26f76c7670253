"""One request a description: the prompt, parallel requests, and how replies are parsed.

Letters: K pictures of a set. A shift s shows picture s first, as number 1, and goes round: number n is picture (n - 1 + s) mod K.
"""

import base64
import json
import math
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar, Literal

from PIL import Image as Pillow

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import ProgressTask
from ctxr.engine.units import parallel
from ctxr.media.images import read_image
from ctxr.models.endpoint import NOT_ALLOWED, Endpoint, Rejected, ServerLimits, Unreadable
from ctxr.problems.queries import EvalQuery
from ctxr.store.append_only import append
from ctxr.store.hashing import sha256_of
from ctxr.store.records import Record

Outcome = Literal["chosen", "out_of_range", "ambiguous", "unreadable", "refused"]

KEY = "picture"
"""Of the JSON object that is asked for."""

KEPT_CHARACTERS = 300
"""Characters of an answer that are kept."""

MOST_TOKENS = 10**9
"""Of one reply: no host counts as many."""

_N = r"(?:(?<![\w.])-)?\d+(?:[.,]\d+)?"
_NAMED = r"(?:pictures?|images?|img|photos?|frames?|candidates?|options?|numbers?|no\.|#)[^\w.!?;]{0,9}?"
_SEVERAL = rf"{_N}(?:(?:\s*[,/&–-]|\s+and|\s+or|\s+to)\s*(?:{_NAMED})?{_N})*"
_NOT_CHOSEN = re.compile(
    r"\b(?:of|among|from|between)\s+(?:(?:all|the|these|those)\s+)*\d+\b"
    r"|\b\d+\s+(?:\w+\s+)?(?:pictures|images|photos|frames|candidates|options)\b"
    rf"|\b(?:not|nor|neither|except|unlike|than|over|instead\s+of)\s+(?:{_NAMED}){{0,2}}{_N}"
    rf"|{_NAMED}{_N}\s+(?:(?:is|was|are|do|does|did|can|could|would|will|has)\s+not|\w*n['’]t|cannot)\b",
    re.IGNORECASE,
)
"""How many pictures there are, and those that an answer rules out."""

_CHOSEN = [
    re.compile(pattern, re.IGNORECASE | re.DOTALL)
    for pattern in (
        rf"\b(?:answer|choice|choose|pick|select|boxed)\b(?:[^\w.!?;]|\b(?:is|be|would|the|for)\b|{_NAMED}){{0,12}}?{_SEVERAL}",
        rf"\A[^\w-]*{_N}(?=\W*\Z|\s*\n|\s*[,;–—]\s(?!\d)|[.:)](?!.*\s\d+[.:)]\s))|\n[^\w-]*(?:{_NAMED})?{_N}(?=\W*\Z)",
        rf"{_NAMED}{_SEVERAL}",
        _N,
    )
]
"""Forms of an answer, the plainest first: after a word such as `answer`, a number by itself, `picture 3`, any number."""

_NUMBER = re.compile(_N)
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


@dataclass(frozen=True)
class ReplyText:
    """What one answer comes to; see `Reply`."""

    outcome: Outcome
    number: int | None = None
    text: str = ""


def schema(size: int) -> dict[str, Any]:
    """The `response_format` that leaves a model nothing to say but a number from 1 to `size`."""
    picture = {"type": "integer", "enum": list(range(1, size + 1))}
    shape = {"type": "object", "properties": {KEY: picture}, "required": [KEY], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "choice", "strict": True, "schema": shape}}


def read_answer(completion: Mapping[str, Any], size: int) -> ReplyText:
    """What a chat completion says about `size` pictures; anything that is no completion is unreadable."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        return ReplyText("unreadable")
    if isinstance(refusal, str) and refusal:
        return ReplyText("refused", text=refusal)
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    text = content if isinstance(content, str) else ""
    if choice.get("finish_reason") == "content_filter":
        return ReplyText("refused", text=text)
    return read_text(text, size)


def read_text(text: str, size: int) -> ReplyText:
    """The number that an answer names: that of a JSON object, else the only one that the plainest form in the text names.

    >>> [read_text(text, 10).number for text in ('{"picture": 3}', "Out of the 10 pictures, picture 3", "Picture 3 or 4")]
    [3, 3, None]
    """
    # some models think aloud first; numbers in a thought that was cut off are no answer
    final = text.rpartition("</think>")[2].partition("<think>")[0].strip()
    stated = _stated(_FENCE.sub("", final))
    if stated is None:
        left = _NOT_CHOSEN.sub(" ", final)
        numbers = next(
            (named for pattern in _CHOSEN if (named := set(_NUMBER.findall(" ".join(pattern.findall(left)))))), set()
        )
        if len(numbers) > 1:
            return ReplyText("ambiguous", text=text)
        number = "".join(numbers)
        if not number.lstrip("-").isdigit():
            return ReplyText("unreadable", text=text)
        stated = int(number[:9])
    return ReplyText("chosen", stated, text) if 1 <= stated <= size else ReplyText("out_of_range", text=text)


def _stated(text: str) -> int | None:
    """The number of a JSON object, or a number alone; None for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        value = value.get(KEY, next(iter(value.values()), None) if len(value) == 1 else None)
    if isinstance(value, str) and value.strip().isdecimal():
        value = int(value.strip()[:9])
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def tokens(completion: Mapping[str, Any], name: str) -> int | None:
    """A count of `usage`; None where the host does not say, or says nonsense."""
    usage = completion.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < MOST_TOKENS else None


def kept(text: str) -> str:
    """The beginning of what a host said, as it can be written down."""
    return text[:KEPT_CHARACTERS].encode(errors="replace").decode()


VERSION = 1
"""Of the words and pictures below: replies to others are not mixed with them."""

QUALITY = 90
"""Of the JPEGs that are sent."""

CACHED_PICTURES = 64
"""Encoded pictures that are kept: descriptions of one set stand together."""

SYSTEM = (
    "You see several pictures that are numbered, and a description that fits one of them better than all others. "
    "Compare the pictures with one another and find it. Answer with its number alone."
)

ROUND = "They are frames of one video. In order of time they are numbers {order}."
STRAIGHT = "They are frames of one video in order of time."

CHARACTERS = 3.5
"""Of English text in a token, at least."""


def shifts_of(count: int, size: int) -> list[int]:
    """`count` shifts, spread evenly over a set of `size` pictures, or all of them where there are fewer.

    >>> shifts_of(1, 10), shifts_of(2, 10), shifts_of(4, 10), shifts_of(5, 3)
    ([0], [0, 5], [0, 2, 5, 7], [0, 1, 2])
    """
    count = min(count, size)
    return [step * size // count for step in range(count)]


def shown(images: Sequence[str], shift: int) -> list[str]:
    """Images in the order in which they are numbered."""
    return [*images[shift:], *images[:shift]]


def instruction(query: EvalQuery, shift: int) -> str:
    """What stands behind the pictures."""
    size = len(query.images)
    lines = []
    if query.ordered:
        order = ", ".join(str((index - shift) % size + 1) for index in range(size))
        lines.append(ROUND.format(order=order) if shift else STRAIGHT)
    lines.append(f"Description: {query.text}")
    lines.append(f"Which of the pictures 1 to {size} does the description fit? Answer with the number alone.")
    return "\n".join(lines)


def messages(query: EvalQuery, shift: int, files: Mapping[str, Path], longest: int) -> list[dict[str, Any]]:
    """The messages of a chat completion. Raises DataError for a picture that cannot be read."""
    content: list[dict[str, Any]] = []
    for number, image in enumerate(shown(query.images, shift), 1):
        content.append({"type": "text", "text": f"Picture {number}:"})
        content.append({"type": "image_url", "image_url": {"url": data_url(files[image], longest)}})
    content.append({"type": "text", "text": instruction(query, shift)})
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]


@lru_cache(maxsize=CACHED_PICTURES)
def data_url(file: Path, longest: int) -> str:
    """The picture, upright, its longer side at most `longest` pixels, as a JPEG inside an address."""
    rgb = Pillow.fromarray(read_image(file, longest))
    rgb.thumbnail((longest, longest), Pillow.Resampling.LANCZOS)
    content = BytesIO()
    rgb.save(content, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def identity(query: EvalQuery, shift: int, contents: Mapping[str, str], model: Mapping[str, object]) -> str:
    """A hash over everything that decides a reply: endpoint, model and size of pictures, words, pictures and their
    order; equal words of two queries are asked twice."""
    pictures = [contents[image] for image in shown(query.images, shift)]
    return sha256_of([VERSION, query.query, SYSTEM, instruction(query, shift), pictures, dict(model)])


def estimated_tokens(query: EvalQuery, dataset: Dataset, longest: int) -> int:
    """About how many tokens a request has, rather too many: models count pictures in tiles of 512 or in patches of 28 pixels."""
    words = len(SYSTEM) + len(instruction(query, 1)) + len("Picture 10:") * len(query.images)
    return math.ceil(words / CHARACTERS) + sum(_of_picture(dataset, image, longest) for image in query.images)


def _of_picture(dataset: Dataset, image: str, longest: int) -> int:
    picture = dataset.images[image]
    longer = max(picture.width, picture.height)
    scale = min(1.0, longest / longer) if longer else 0.0
    width, height = (picture.width * scale, picture.height * scale) if longer else (longest, longest)
    tiles = 85 + 170 * math.ceil(width / 512) * math.ceil(height / 512)
    return max(tiles, math.ceil(width / 28) * math.ceil(height / 28))


@dataclass(frozen=True)
class Request:
    """One description with the pictures of its set, turned round by `shift`.

    Attributes:
        identity: hash over everything that decides the reply. tokens: about how many it has.
    """

    asked: EvalQuery
    shift: int
    identity: str
    tokens: int


@dataclass
class Budget:
    """What was spent, and whether a further request still fits.

    Attributes:
        price_in, price_out: of a million tokens. most: to spend, 0 for no limit. answer: most tokens of an answer.
        spent: so far. dearest: reply so far.
    """

    price_in: float
    price_out: float
    most: float
    answer: int
    spent: float = 0.0
    dearest: float = 0.0

    def cost(self, sent: int, received: int) -> float:
        """What so many tokens cost."""
        return (sent * self.price_in + received * self.price_out) / 1e6

    def pay(self, reply: Reply, estimate: int) -> None:
        """Count a reply; tokens that the host does not tell count as they were estimated."""
        sent = estimate if reply.prompt_tokens is None else reply.prompt_tokens
        cost = self.cost(sent, self.answer if reply.completion_tokens is None else reply.completion_tokens)
        self.spent += cost
        self.dearest = max(self.dearest, cost)

    def reaches(self, request: Request, on_the_way: int) -> bool:
        """Whether a request would still fit beside those that are on the way, were all as dear as the dearest."""
        if not self.most:
            return True
        expected = max(self.cost(request.tokens, self.answer), self.dearest)
        return self.spent + (on_the_way + 1) * expected <= self.most


@dataclass
class Listener:
    """A model that answers requests.

    Attributes:
        endpoint: where it is. model: its name. files: of the pictures, by image id. longest, limit: of a picture in pixels, of an
            answer in tokens. journal: file of replies, to which each is added.
        trusted: whether the endpoint is known to answer: from one that never did, what is no completion is no answer.
        accepted: what the host is known to take. writing: held while a reply is added.
    """

    endpoint: Endpoint
    model: str
    files: Mapping[str, Path]
    longest: int
    limit: int
    journal: Path
    trusted: bool = False
    accepted: ServerLimits = field(default_factory=ServerLimits)
    writing: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, request: Request) -> Reply:
        """The reply to a request, on the disk.

        Raises CtxrError for an endpoint that does not answer, or refuses for anything but the content; DataError for a picture.
        """
        size = len(request.asked.images)
        completion: dict[str, Any] = {}
        try:
            completion = self._complete(request, size)
            answer = read_answer(completion, size)
            self.trusted = True
        except Rejected as error:
            # an empty account or a moved address is not the model's answer: what is written down is never asked again
            if error.status in NOT_ALLOWED or not error.filtered:
                raise
            answer = ReplyText("refused", text=error.message)
        except Unreadable as error:
            if not self.trusted:
                raise
            answer = ReplyText("unreadable", text=error.message)
        reply = self._reply(request, answer, completion)
        with self.writing:
            append(self.journal, reply)
        return reply

    def _complete(self, request: Request, size: int) -> dict[str, Any]:
        """The completion, asked for in the way that the host takes; what it takes is remembered."""
        body = {"model": self.model, "messages": messages(request.asked, request.shift, self.files, self.longest)}
        accepted = self.accepted
        while True:
            options: dict[str, Any] = {accepted.limit: self.limit}
            if accepted.temperature:
                options["temperature"] = 0
            if accepted.structured:
                options["response_format"] = schema(size)
            try:
                completion = self.endpoint.complete(body | options)
            except Rejected as error:
                other = None if error.status in NOT_ALLOWED or error.filtered else accepted.after(error.detail)
                if other is None:
                    raise
                accepted = other
            else:
                self.accepted = accepted
                return completion

    def _reply(self, request: Request, answer: ReplyText, completion: Mapping[str, Any]) -> Reply:
        order = shown(request.asked.images, request.shift)
        return Reply(
            query=request.asked.query,
            shift=request.shift,
            asked=request.identity,
            outcome=answer.outcome,
            number=answer.number,
            candidate=None if answer.number is None else order[answer.number - 1],
            said=kept(answer.text),
            prompt_tokens=tokens(completion, "prompt_tokens"),
            completion_tokens=tokens(completion, "completion_tokens"),
            model=kept(str(completion.get("model") or "")),
        )


def ask_all(
    requests: Sequence[Request],
    ask: Callable[[Request], Reply],
    at_once: int,
    purse: Budget,
    task: ProgressTask,
    *,
    stop: Callable[[], None],
) -> list[Reply]:
    """Replies in the order in which they came, to all requests or to those that the purse reaches for.

    Whatever `ask` raises is raised when those on the way are done; `stop` is called at once, and so when interrupted.
    """
    replies: list[Reply] = []

    def affordable() -> Iterator[Request | None]:
        for started, request in enumerate(requests):
            # those on the way may turn out cheaper than feared
            while not purse.reaches(request, started - len(replies)):
                if started == len(replies):
                    return
                yield None
            yield request

    with closing(parallel(ask, affordable(), at_once, stop=stop)) as arriving:
        for request, reply in arriving:
            replies.append(reply)
            purse.pay(reply, request.tokens)
            task.say(f"{purse.spent:.2f} spent" if purse.spent else "")
            task.advance()
    return replies
