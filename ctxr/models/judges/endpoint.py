"""A language model behind an OpenAI-compatible endpoint as a judge: one request asks whether one statement follows."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Progress, Silent
from ctxr.errors import UnfinishedError
from ctxr.models import chat
from ctxr.models.endpoint import ServerLimits, key_of, resolve_address
from ctxr.models.entailment.base import Claim, Estimate, Judge
from ctxr.store.append_only import read_appended
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.records import Record

VERSION = 1
"""Of the prompt: answers to another are not mixed with those to this one."""

SYSTEM = (
    "You are given a picture, captions that people wrote for it, or both, and a statement. Decide whether the statement follows: "
    "answer yes if it is certainly true of the picture, and no if it is false or cannot be known. Answer with one word, yes or no."
)

TOP = 20
"""Likeliest tokens whose probabilities are asked for."""

CHARACTERS = 1500
"""Of the captions and the statement of a claim, as an estimate expects them."""

ANSWERS = ("no", "yes")
"""In the order of their probability of yes."""

Outcome = Literal["token_probabilities", "answer", "unreadable", "refused"]

_AROUND = " \t\r\n▁ĠĊ\"'`*_.,:;!?()[]{}“”‘’"


class JudgeReply(Record, frozen=True):
    """A model's answer to one claim.

    Attributes:
        asked: hash over what was sent, and the number of the sample.
        outcome: `token_probabilities`; `answer`, in words alone; `unreadable`; `refused`, by the model or its host.
        probability: of yes; None for a reply that is unreadable or refused.
        said: the answer, shortened. prompt_tokens, completion_tokens, model: as the host says.
    """

    KEY: ClassVar[tuple[str, ...]] = ("asked",)

    asked: str
    outcome: Outcome
    probability: float | None
    said: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model: str


@dataclass(frozen=True)
class ClaimRequest:
    """A claim to be judged; `identity` and `tokens` as in a request of `ctxr listen`."""

    claim: Claim
    identity: str
    tokens: int


def question(claim: Claim) -> str:
    """What stands behind the picture."""
    captions = [f"Captions: {claim.premise}"] if claim.premise else []
    return "\n".join([*captions, f"Statement: {claim.hypothesis}", "Does the statement follow? Answer yes or no."])


def read_answer_word(text: str) -> float | None:
    """1 for yes and 0 for no as the first or the last word of an answer; None for neither, or both.

    >>> [read_answer_word(text) for text in ("**Yes**, it is.", "The answer is no.", "yes or no", "maybe")]
    [1.0, 0.0, None, None]
    """
    words = [_plain(word) for word in chat.final_text(text).split()]
    answers = {word for word in (*words[:1], *words[-1:]) if word in ANSWERS}
    return float(ANSWERS.index(answers.pop())) if len(answers) == 1 else None


def read_answer(completion: Mapping[str, Any], text: str) -> tuple[Outcome, float | None]:
    """What the text of a completion comes to, and the probability of yes."""
    word = read_answer_word(text)
    if word is None:
        return "unreadable", None
    told = token_probability(completion, text)
    return ("answer", word) if told is None else ("token_probabilities", told)


def token_probability(completion: Mapping[str, Any], text: str) -> float | None:
    """P(yes) / (P(yes) + P(no)) over all tokens that mean either, where the answer stands; None where the host does not tell.

    A thought before the answer may hold such tokens too, so none is read.
    """
    try:
        positions = [one for one in completion["choices"][0]["logprobs"]["content"] if _plain(one["token"]) in ANSWERS]
        position = positions[0 if _plain(text.split()[0]) in ANSWERS else -1]
        likely = {one["token"]: math.exp(min(0.0, one["logprob"])) for one in [position, *position["top_logprobs"]]}
        no, yes = (sum(share for token, share in likely.items() if _plain(token) == word) for word in ANSWERS)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError):
        return None
    # with the answer's own token alone, there is nothing to compare it with
    return yes / (no + yes) if len(likely) > 1 and no + yes > 0 and "think>" not in text else None


def _plain(token: str) -> str:
    return token.strip(_AROUND).casefold()


class EndpointJudge(Judge):
    """A language model behind an endpoint; every reply is on the disk before the next request takes its place.

    Args:
        url: its address. workdir: project folder. pause: waits, for tests that do not.

    Raises UsageError for what is no address, or would send pictures and key in the clear.
    """

    def __init__(
        self,
        url: str,
        options: JudgeEndpointOptions,
        workdir: Path,
        progress: Progress,
        pause: chat.Pause | None = None,
    ) -> None:
        self.address = resolve_address(url, options.insecure, "--judge endpoint:")
        self.name, self.threshold, self.trained_on = options.model, 0.5, None
        decisive = {name: getattr(options, name) for name in ("model", "side", "max_tokens", "samples")}
        self.fingerprint = sha256_of({"endpoint": self.address.url, "prompt": [VERSION, SYSTEM], **decisive})
        self.journal = workdir / "judged" / f"{self.fingerprint[:16]}.jsonl"
        self.options, self._progress, self._pause = options, progress, pause
        self._accepted = ServerLimits(structured=False, logprobs=TOP)
        self._replies = {reply.asked: reply for reply in read_appended(self.journal, JudgeReply)}
        self._budget = chat.Budget(options.price_in, options.price_out, options.max_cost, options.max_tokens)
        for reply in self._replies.values():
            self._budget.pay(reply, self._tokens(CHARACTERS, picture=True))

    def probabilities(
        self, claims: Sequence[Claim], advance: Callable[[float], None] | None = None
    ) -> npt.NDArray[np.float32]:
        """float32 [n], as `Judge.probabilities` says: of the tokens yes and no, else the share of yes among several answers."""
        contents = {claim.image: sha256_if_readable(claim.image) for claim in claims if claim.image is not None}
        requests = [self._requests(claim, claim.image and contents[claim.image]) for claim in claims]
        self._ask([samples[0] for samples in requests if samples])
        more = [samples for samples in requests if samples and not self._is_settled(samples[0])]
        self._ask([request for samples in more for request in samples[1:]])
        if advance is not None:
            advance(len(claims))
        return np.array([self._mean(samples) for samples in requests], np.float32)

    def estimate(self, claims: int) -> Estimate:
        """As if each claim had a picture, and took all samples where the host is not known to tell probabilities of tokens."""
        told = any(reply.outcome == "token_probabilities" for reply in self._replies.values())
        requests = claims * (1 if told else self.options.samples)
        sent, received = requests * self._tokens(CHARACTERS, picture=True), requests * self.options.max_tokens
        return Estimate(requests, sent, received, self._budget.cost(sent, received))

    def _tokens(self, characters: int, picture: bool) -> int:
        pixels = chat.picture_tokens(0, 0, self.options.side) if picture else 0
        return chat.text_tokens(len(SYSTEM) + characters) + pixels

    def _requests(self, claim: Claim, content: str | None) -> list[ClaimRequest]:
        """One for each sample; none for a claim without premise and picture."""
        if not claim.premise and claim.image is None:
            return []
        words = question(claim)
        size = self._tokens(len(words), claim.image is not None)
        samples = range(self.options.samples)
        return [ClaimRequest(claim, sha256_of([words, content, sample]), size) for sample in samples]

    def _is_settled(self, first: ClaimRequest) -> bool:
        return self._replies[first.identity].outcome in ("token_probabilities", "refused")

    def _mean(self, samples: Sequence[ClaimRequest]) -> float:
        """Of the samples that were asked and can be read; NaN for none."""
        replies = [self._replies[one.identity] for one in samples if one.identity in self._replies]
        values = [reply.probability for reply in replies if reply.probability is not None]
        return sum(values) / len(values) if values else math.nan

    def _ask(self, requests: Sequence[ClaimRequest]) -> None:
        """Send those without a reply, as far as the budget allows. Raises UnfinishedError where it ends."""
        options = self.options
        todo = {request.identity: request for request in requests if request.identity not in self._replies}
        if not todo:
            return
        key = key_of(options.key_from, self.address)
        with chat.connection(self.address, key, options.timeout, self._pause) as (endpoint, stop):
            client = chat.ChatClient(endpoint, options.model, options.max_tokens, self.journal, temperature=1)
            client.trusted, client.accepted = (
                any(reply.probability is not None for reply in self._replies.values()),
                self._accepted,
            )

            def ask(request: ClaimRequest) -> JudgeReply:
                self._replies[request.identity] = reply = self._reply(client, request)
                return reply

            replies = chat.ask_all(list(todo.values()), ask, options.at_once, self._budget, Silent(), stop=stop)
        self._accepted = client.accepted
        if 2 * sum(reply.outcome == "unreadable" for reply in replies) > len(replies):
            self._progress.warn(
                f"most answers of {self.name} are unreadable: a reasoning model needs a larger --max-tokens"
            )
        if len(replies) < len(todo):
            answered = len({request.identity for request in requests}) - len(todo) + len(replies)
            raise UnfinishedError(
                f"{self.name} answered {answered} of {len(requests)} requests when --max-cost {options.max_cost:g} was reached",
                hint="run the same command with a higher --max-cost: no request is paid for twice",
            )

    def _reply(self, client: chat.ChatClient, request: ClaimRequest) -> JudgeReply:
        """The reply to a request, on the disk."""
        claim, content = request.claim, list[dict[str, Any]]()
        if claim.image is not None:
            content.append({"type": "image_url", "image_url": {"url": chat.data_url(claim.image, self.options.side)}})
        content.append({"type": "text", "text": question(claim)})
        messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": content}]
        completion, failure = client.complete(messages)
        text = failure or chat.text_of(completion)
        said = text.text if isinstance(text, chat.NoAnswer) else text
        outcome, probability = (
            (text.outcome, None) if isinstance(text, chat.NoAnswer) else read_answer(completion, text)
        )
        sent, received = (chat.tokens(completion, name) for name in ("prompt_tokens", "completion_tokens"))
        model = chat.kept(str(completion.get("model") or ""))
        reply = JudgeReply(request.identity, outcome, probability, chat.kept(said), sent, received, model)
        client.write(reply)
        return reply
