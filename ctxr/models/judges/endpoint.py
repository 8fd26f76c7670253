"""A language model behind an endpoint as a judge, with a request for each statement."""

import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Progress
from ctxr.errors import UnfinishedError
from ctxr.models import chat
from ctxr.models.chat import ChatClient, Completion, PricedRequest
from ctxr.models.endpoint import ServerLimits, resolve_address
from ctxr.models.entailment.base import Claim, Estimate, Judge
from ctxr.store.hashing import sha256_if_readable, sha256_of
from ctxr.store.records import Record
from ctxr.store.tables import read_appended

VERSION = 1  # of the prompt: answers to another are not mixed with those to this one

SYSTEM = (
    "You are given a picture, captions that people wrote for it, or both, and a statement. Decide whether the statement follows: "
    "answer yes if it is certainly true of the picture, and no if it is false or cannot be known. Answer with one word, yes or no."
)

TOP = 20  # likeliest tokens whose probabilities are asked for
CHARACTERS = 1500  # of the captions and the statement of a claim, at most, in an estimate
SHORT = 2  # tokens of an answer of one word

ANSWERS = ("no", "yes")

Outcome = Literal["token_probabilities", "answer", "unreadable", "refused"]

_PAIR = r"(yes\W+(and|or|but)\W+no|no\W+(and|or|but)\W+yes|yes/no|no/yes)"
_BOTH = re.compile(rf"^\W*{_PAIR}\b|\b{_PAIR}\W*$", re.IGNORECASE)  # where an answer stands

_AROUND = " \t\r\n▁ĠĊ\"'`*_.,:;!?()[]{}“”‘’"


class JudgeReply(Record, frozen=True):
    """A model's answer to one claim.

    Attributes:
        asked: hash over what was sent, and the number of the sample. said: the answer, shortened.
        outcome: `token_probabilities`; `answer`, in words alone; `unreadable`; `refused`, by the model or its host.
        probability: of yes; None for a reply that is unreadable or refused.
    """

    KEY: ClassVar[tuple[str, ...]] = ("asked",)

    asked: str
    outcome: Outcome
    probability: float | None
    said: str
    prompt_tokens: int | None
    completion_tokens: int | None
    model: str


def question(claim: Claim) -> str:
    """The text after the picture."""
    captions = [f"Captions: {claim.premise}"] if claim.premise else []
    return "\n".join([*captions, f"Statement: {claim.hypothesis}", "Does the statement follow? Answer yes or no."])


def token_probability(completion: Completion) -> float | None:
    """P(yes) / (P(yes) + P(no)) over tokens that mean either, at the answer; else None."""
    try:
        positions = completion.raw["choices"][0]["logprobs"]["content"]
        # an answer stands first or last; a thought before it may hold such tokens too
        first = _plain(completion.text.split()[0]) in ANSWERS
        position = [token for token in positions if _plain(token["token"]) in ANSWERS][0 if first else -1]
        likely = {token["token"]: math.exp(token["logprob"]) for token in [position, *position["top_logprobs"]]}
        no, yes = (sum(share for token, share in likely.items() if _plain(token) == word) for word in ANSWERS)
    except (KeyError, IndexError, TypeError, AttributeError, ValueError, OverflowError):
        return None
    usable = len(likely) > 1 and 0 < no + yes < 2 and "think>" not in completion.text
    return yes / (no + yes) if usable else None


def reply_of(request: PricedRequest, completion: Completion) -> JudgeReply:
    """Yes or no as the first or last word of an answer, not both, with its probability if given."""
    outcome: Outcome = "unreadable" if completion.outcome == "unreadable" else "refused"
    probability = None
    if completion.outcome == "answered":
        text, precise = chat.final_text(completion.text), token_probability(completion)
        words = text.split()
        answers = {_plain(word) for word in (*words[:1], *words[-1:])} & set(ANSWERS)
        answers |= set(ANSWERS) if _BOTH.search(text) else set()
        if len(answers) == 1:
            probability, outcome = float(ANSWERS.index(answers.pop())), "answer"
            if precise is not None:
                probability, outcome = precise, "token_probabilities"
        else:
            outcome = "unreadable"
    said = (chat.shortened(completion.text), completion.prompt_tokens, completion.completion_tokens)
    return JudgeReply(request.identity, outcome, probability, *said, completion.model)


def _plain(token: str) -> str:
    return token.strip(_AROUND).casefold()


class EndpointJudge(Judge):
    """A language model behind an endpoint. Every reply is written at once, and counts towards `--max-cost` for good.

    `workdir`: of the project. `budget`: shared with other judges. Raises as `resolve_address`.
    """

    pause: chat.Pause | None = None
    """Replaces waiting in tests."""

    def __init__(
        self,
        url: str,
        options: JudgeEndpointOptions,
        workdir: Path,
        progress: Progress,
        budget: chat.Budget | None = None,
    ) -> None:
        self._address = resolve_address(url, options.insecure, "--judge endpoint:")
        self.name = options.model
        decisive = (options.model, options.side, options.max_tokens, options.samples)
        self.fingerprint = sha256_of(["endpoint", self._address.url, VERSION, SYSTEM, *decisive])
        self._journal = workdir / "judged" / f"{self.fingerprint[:16]}.jsonl"
        self._options, self._progress = options, progress
        self._replies = {reply.asked: reply for reply in read_appended(self._journal, JudgeReply)}
        self._accepted = ServerLimits(structured=False, logprobs=TOP)
        self._budget = budget or chat.Budget(options)
        estimate = self._tokens(CHARACTERS)
        for reply in self._replies.values():
            self._budget.pay(reply.prompt_tokens, reply.completion_tokens, estimate)

    def probabilities(self, claims: Sequence[Claim]) -> npt.NDArray[np.float32]:
        """float32 [n]: of the tokens yes and no, else the share of yes among several answers."""
        files = {claim.image for claim in claims if claim.image is not None}
        contents = {None: ""} | {file: sha256_if_readable(file) or str(file) for file in files}
        samples_of: list[list[PricedRequest]] = []
        for claim in claims:  # a request a sample; none without premise and picture
            words, samples = question(claim), range(self._options.samples if claim.premise or claim.image else 0)
            size, content = self._tokens(len(words), claim.image is not None), contents[claim.image]
            samples_of.append([PricedRequest(sha256_of([words, content, sample]), size, claim) for sample in samples])
        left = [requests for requests in samples_of if requests]
        for sample in range(self._options.samples):
            label = f"asking {self.name}" + f", answer {sample + 1}" * (sample > 0)
            self._ask([requests[sample] for requests in left], label)
            left = [
                requests for requests in left if self._replies[requests[0].identity].outcome in ("answer", "unreadable")
            ]
        means = []
        for requests in samples_of:
            replies = [self._replies[request.identity] for request in requests if request.identity in self._replies]
            values = [reply.probability for reply in replies if reply.probability is not None]
            means.append(sum(values) / len(values) if values else math.nan)
        return np.array(means, np.float32)

    def estimate(self, claims: int, usual: float = 0) -> Estimate:
        """At most: as if each claim had a picture, and all samples unless the host reports probabilities of tokens. Probably: as replies
        were so far, before the first as if it reported them."""
        replies = self._replies.values()
        single = any(reply.outcome == "token_probabilities" for reply in replies) or (usual and not replies)
        requests = claims * (1 if single else self._options.samples)
        sizes = [(self._tokens(math.ceil(usual) or CHARACTERS), SHORT if usual else self._options.max_tokens)]
        if usual:
            sizes = [(one.prompt_tokens, one.completion_tokens or 0) for one in replies if one.prompt_tokens] or sizes
        sent, received = (math.ceil(requests * sum(column) / len(sizes)) for column in zip(*sizes, strict=True))
        return Estimate(requests, sent, received, self._budget.cost(sent, received))

    def unanswered(self) -> str:
        """One of the replies without a yes or no, and what may help; "" where all have one."""
        for reply in self._replies.values():
            if reply.probability is None:
                cut = (reply.completion_tokens or 0) >= self._options.max_tokens or not chat.final_text(reply.said)
                advice = "a reasoning model needs a larger --max-tokens" if cut else "take another --model"
                return f"one reply is {reply.said!r}{' (refused)' * (reply.outcome == 'refused')}; {advice}"
        return ""

    def _tokens(self, characters: int, picture: bool = True) -> int:
        return chat.text_tokens(len(SYSTEM) + characters) + picture * chat.picture_tokens(0, 0, self._options.side)

    def _ask(self, requests: Sequence[PricedRequest], label: str) -> None:
        """Send those without a reply, as far as the budget allows. Raises UnfinishedError where it ends."""
        distinct = {request.identity: request for request in requests}
        todo = [request for identity, request in distinct.items() if identity not in self._replies]
        if not todo:
            return
        trusted = any(reply.probability is not None for reply in self._replies.values())
        state = self._budget, trusted, self._accepted
        client = ChatClient(self._address, self._options, self._journal, *state, 1, self.pause)

        def ask(request: PricedRequest) -> JudgeReply:
            content = [part for part in (request.asked.image, question(request.asked)) if part is not None]
            messages = chat.chat_messages(SYSTEM, content, self._options.side)
            self._replies[request.identity] = reply = client.ask(request, messages, reply_of)
            return reply

        with self._progress.task(label, len(distinct)) as task:
            task.advance(len(distinct) - len(todo))
            replies = client.ask_all(todo, ask, task)
        self._accepted = client.accepted
        if 2 * sum(reply.probability is None for reply in replies) > len(replies):
            self._progress.warn(f"{self.name} mostly says neither yes nor no: {self.unanswered()}")
        if len(replies) < len(todo):
            done = f"{len(distinct) - len(todo) + len(replies)} of {len(distinct)} requests at hand"
            raise UnfinishedError(
                f"--max-cost {self._options.max_cost:g} is reached: {self.name} answered {done}, {len(self._replies)} in all",
                hint="run the same command with a higher --max-cost: no answer is paid for twice",
            )
