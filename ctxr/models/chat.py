"""Requests to a model behind an endpoint: their price, parallel requests, and replies that are written down as they arrive."""

import base64
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from PIL import Image as Pillow

from ctxr.engine.progress import ProgressTask
from ctxr.engine.units import parallel
from ctxr.errors import CtxrError
from ctxr.media.images import read_image
from ctxr.models.endpoint import NOT_ALLOWED, Endpoint, EndpointAddress, Rejected, ServerLimits, Unreadable
from ctxr.store.append_only import append
from ctxr.store.records import Record

KEPT_CHARACTERS = 300
"""Characters of an answer that are kept."""

MOST_TOKENS = 10**9
"""Of one reply: no host counts as many."""

QUALITY = 90
"""Of the JPEGs that are sent."""

CACHED_PICTURES = 64
"""Encoded pictures that are kept: descriptions of one set stand together."""

CHARACTERS = 3.5
"""Of English text in a token, at least."""


class PricedRequest(Protocol):
    """A request of about so many tokens."""

    @property
    def tokens(self) -> int:
        """How many, rather too many."""


class PaidReply(Protocol):
    """A reply, with its tokens as the host counts; None where it does not say."""

    @property
    def prompt_tokens(self) -> int | None:
        """Of the request."""

    @property
    def completion_tokens(self) -> int | None:
        """Of the answer."""


Q = TypeVar("Q", bound=PricedRequest)
R = TypeVar("R", bound=PaidReply)


@dataclass(frozen=True)
class NoAnswer:
    """Why a request has no answer: `refused`, by the model or its host; `unreadable`, since the reply is no completion."""

    outcome: Literal["refused", "unreadable"]
    text: str = ""


def text_of(completion: Mapping[str, Any]) -> str | NoAnswer:
    """The text of a chat completion."""
    try:
        choice = completion["choices"][0]
        message = choice["message"]
        content, refusal = message.get("content"), message.get("refusal")
    except (KeyError, IndexError, TypeError, AttributeError):
        return NoAnswer("unreadable")
    if isinstance(refusal, str) and refusal:
        return NoAnswer("refused", refusal)
    if isinstance(content, list):
        content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
    text = content if isinstance(content, str) else ""
    return NoAnswer("refused", text) if choice.get("finish_reason") == "content_filter" else text


def final_text(text: str) -> str:
    """An answer without what a model thinks aloud first; nothing of a thought that was cut off."""
    return text.rpartition("</think>")[2].partition("<think>")[0].strip()


def tokens(completion: Mapping[str, Any], name: str) -> int | None:
    """A count of `usage`; None where the host does not say, or says nonsense."""
    usage = completion.get("usage")
    count = usage.get(name) if isinstance(usage, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and 0 <= count < MOST_TOKENS else None


def kept(text: str) -> str:
    """The beginning of what a host said, as it can be written down."""
    return text[:KEPT_CHARACTERS].encode(errors="replace").decode()


@lru_cache(maxsize=CACHED_PICTURES)
def data_url(file: Path, longest: int) -> str:
    """The picture, upright, its longer side at most `longest` pixels, as a JPEG inside an address."""
    rgb = Pillow.fromarray(read_image(file, longest))
    rgb.thumbnail((longest, longest), Pillow.Resampling.LANCZOS)
    content = BytesIO()
    rgb.save(content, "JPEG", quality=QUALITY, optimize=True)
    return "data:image/jpeg;base64," + base64.b64encode(content.getvalue()).decode("ascii")


def text_tokens(characters: int) -> int:
    """About how many tokens English text has, rather too many."""
    return math.ceil(characters / CHARACTERS)


def picture_tokens(width: int, height: int, longest: int) -> int:
    """About how many tokens a picture has, rather too many: models count tiles of 512 or patches of 28 pixels; 0 = size unknown."""
    longer = max(width, height)
    scale = min(1.0, longest / longer) if longer else 0.0
    wide, high = (width * scale, height * scale) if longer else (longest, longest)
    tiles = 85 + 170 * math.ceil(wide / 512) * math.ceil(high / 512)
    return max(tiles, math.ceil(wide / 28) * math.ceil(high / 28))


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

    def pay(self, reply: PaidReply, estimate: int) -> None:
        """Count a reply; tokens that the host does not tell count as they were estimated."""
        sent = estimate if reply.prompt_tokens is None else reply.prompt_tokens
        cost = self.cost(sent, self.answer if reply.completion_tokens is None else reply.completion_tokens)
        self.spent += cost
        self.dearest = max(self.dearest, cost)

    def reaches(self, request: PricedRequest, on_the_way: int) -> bool:
        """Whether a request would still fit beside those that are on the way, were all as dear as the dearest."""
        if not self.most:
            return True
        expected = max(self.cost(request.tokens, self.answer), self.dearest)
        return self.spent + (on_the_way + 1) * expected <= self.most


@dataclass
class ChatClient:
    """Asks a model for completions and keeps its replies.

    Attributes:
        endpoint: where it is. model: its name. limit: of an answer in tokens. journal: file of replies, to which each is added.
        temperature: of its answers.
        trusted: whether the endpoint is known to answer: from one that never did, what is no completion is no answer.
        accepted: what the host is known to take. writing: held while a reply is added.
    """

    endpoint: Endpoint
    model: str
    limit: int
    journal: Path
    temperature: int = 0
    trusted: bool = False
    accepted: ServerLimits = field(default_factory=ServerLimits)
    writing: threading.Lock = field(default_factory=threading.Lock)

    def complete(self, messages: object, shape: object = None) -> tuple[dict[str, Any], NoAnswer | None]:
        """The completion, asked for in the way that the host takes, which is remembered; or why there is none. `shape` is the
        `response_format`, for hosts that know one.

        Raises CtxrError for an endpoint that does not answer, or refuses for anything but the content.
        """
        accepted = self.accepted
        while True:
            options: dict[str, Any] = {"model": self.model, "messages": messages, accepted.limit: self.limit}
            if accepted.temperature:
                options["temperature"] = self.temperature
            if accepted.structured:
                options["response_format"] = shape
            if accepted.logprobs:
                options |= {"logprobs": True, "top_logprobs": accepted.logprobs}
            try:
                completion = self.endpoint.complete(options)
            except Unreadable as error:
                if not self.trusted:
                    raise
                return {}, NoAnswer("unreadable", error.message)
            except Rejected as error:
                # an empty account or a moved address is not the model's answer: what is written down is never asked again
                if error.filtered and error.status not in NOT_ALLOWED:
                    return {}, NoAnswer("refused", error.message)
                other = None if error.status in NOT_ALLOWED else accepted.after(error.detail)
                if other is None:
                    raise
                accepted = other
            else:
                self.accepted, self.trusted = accepted, True
                return completion, None

    def write(self, reply: Record) -> None:
        """Add a reply to the journal."""
        with self.writing:
            append(self.journal, reply)


Pause = Callable[[float], object]
"""Waits that many seconds; True where the wait was cut short."""


@contextmanager
def connection(
    address: EndpointAddress, key: str, timeout: float, pause: Pause | None = None
) -> Iterator[tuple[Endpoint, Callable[[], None]]]:
    """An endpoint for the length of a with-block, and what ends its waits at once; `pause` waits, for tests that do not."""
    ended = threading.Event()

    def wait(seconds: float) -> None:
        if ended.is_set() or (pause or ended.wait)(seconds) is True:
            raise CtxrError("stopped while it waited for the endpoint", hint="run the same command again")

    with closing(Endpoint(address, key, timeout, wait)) as endpoint:
        yield endpoint, ended.set


def ask_all(
    requests: Sequence[Q],
    ask: Callable[[Q], R],
    at_once: int,
    purse: Budget,
    task: ProgressTask,
    *,
    stop: Callable[[], None],
) -> list[R]:
    """Replies in the order in which they came, to all requests or to those that the purse reaches for.

    Whatever `ask` raises is raised when those on the way are done; `stop` is called at once, and so when interrupted.
    """
    replies: list[R] = []

    def affordable() -> Iterator[Q | None]:
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
