"""A judge behind an endpoint, against servers that tell probabilities, answer in words, refuse, break and are killed half-way."""

import json
import math
import re
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ctxr.engine.options import JudgeEndpointOptions
from ctxr.engine.progress import Silent
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.models.chat import Completion, data_url, read_completion
from ctxr.models.entailment.base import Claim
from ctxr.models.judges.endpoint import SYSTEM, EndpointJudge, JudgeReply, question, token_probability
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.store.tables import read_appended
from tests.pipelines.modelling.listening.fake_server import (
    Answer,
    Behaviour,
    Body,
    FakeServer,
    fails,
    pictures_in,
    says,
    serving,
    words_in,
)
from tests.pipelines.revision.stand_in import Listening

KEY = "sk-Very.Secret_1"

OPTIONS = JudgeEndpointOptions(model="fake", at_once=1, side=32)


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CTXR_API_KEY", KEY)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    Image.new("RGB", (64, 48), "red").save(tmp_path / "red.png")
    return tmp_path / "red.png"


def judge(server: FakeServer, work: Path, options: JudgeEndpointOptions = OPTIONS) -> EndpointJudge:
    opened = EndpointJudge(server.url, options, work, Silent())
    opened.pause = lambda _seconds: None
    return opened


def claims(count: int) -> list[Claim]:
    return [Claim("A dog runs.", None, f"statement {number}") for number in range(count)]


def probabilities_of(answer: str, **others: float) -> dict[str, Any]:
    """The part of a choice that tells how likely tokens were in place of an answer, by name with _ for a blank."""
    top = [{"token": name.replace("_", " "), "logprob": math.log(share)} for name, share in others.items()]
    own = next((one for one in top if one["token"] == answer), {"token": answer, "logprob": -0.5})
    return {"logprobs": {"content": [own | {"top_logprobs": top}]}}


def by_statement(answers: dict[str, Answer]) -> Behaviour:
    return lambda body, _number: next(answers[name] for name in answers if f"Statement: {name}\n" in words_in(body))


def journal(one: EndpointJudge, work: Path) -> str:
    return (work / "judged" / f"{one.fingerprint[:16]}.jsonl").read_text()


def test_the_probabilities_of_every_spelling_of_yes_and_no_make_one(tmp_path: Path, picture: Path) -> None:
    claim = Claim("A dog runs.", picture, "An animal moves.")
    told = probabilities_of("Yes", Yes=0.4, _yes=0.2, No=0.1, NO=0.1, Maybe=0.2)
    with serving(lambda _body, _number: says("Yes", **told)) as server:
        one = judge(server, tmp_path)
        assert one.probabilities([claim]).tolist() == [np.float32(0.75)]
        (body,) = server.asked
        assert judge(server, tmp_path).probabilities([claim, claim]).tolist() == [np.float32(0.75)] * 2
        assert len(server.asked) == 1
    assert pictures_in(body) == [data_url(picture, 32)]
    assert words_in(body) == question(claim)
    assert body["messages"][0]["content"] == SYSTEM
    assert (body["logprobs"], body["top_logprobs"], body["max_tokens"]) == (True, 20, 64)
    assert "response_format" not in body
    assert server.keys == [f"Bearer {KEY}"]
    (row,) = [json.loads(line) for line in journal(one, tmp_path).splitlines()]
    counts = {"prompt_tokens": 1000, "completion_tokens": 10, "model": "fake-1"}
    found = {"outcome": "token_probabilities", "probability": pytest.approx(0.75), "said": "Yes"}
    assert row == {"asked": row["asked"], **found, **counts}


def test_without_probabilities_the_share_of_yes_among_readable_answers_counts(tmp_path: Path) -> None:
    given = iter(["Yes.", "no", "Yes, it is.", "perhaps", "**No**", "yes"])

    with serving(lambda _body, _number: says(next(given))) as server:
        one = judge(server, tmp_path)
        # samples come round by round: yes, yes, no of the first claim, and no, perhaps, yes of the second
        assert one.probabilities(claims(2)).tolist() == [np.float32(2 / 3), np.float32(0.5)]
        assert [body["temperature"] for body in server.asked] == [1] * 6
        assert judge(server, tmp_path).probabilities(claims(2)).tolist() == [np.float32(2 / 3), np.float32(0.5)]
        assert len(server.asked) == 6


def test_refusals_and_nonsense_are_no_answer_and_never_asked_again(tmp_path: Path) -> None:
    answers = {
        "fine": says("yes", **probabilities_of("yes", yes=0.75, no=0.25)),
        "refused": says(None, message={"refusal": "I cannot"}),
        "filtered": fails(400, "content_filter: not this"),
        "nonsense": says("seven"),
        "both": says("yes or no"),
        "half": says("Yes and no, it depends"),
        "slash": says("Yes/no: I would say it depends", **probabilities_of("Yes", Yes=0.75, No=0.25)),
        "but": says("**No**, but *yes* in a way"),
        "empty": (200, {}, b'{"choices": []}'),
        "last": says("Is it yes or no? A dog runs, so yes.", **probabilities_of("yes", yes=0.75, no=0.25)),
    }
    asked = [Claim("A dog runs.", None, name) for name in answers]
    with serving(by_statement(answers)) as server:
        values = judge(server, tmp_path).probabilities(asked)
        assert values[0] == 0.75
        assert np.isnan(values[1:-1]).all()
        assert values[-1] == 0.75
        # what may be chance is asked as often as there are samples, a refusal once
        assert len(server.asked) == 1 + 1 + 1 + 3 * 6 + 1
        np.testing.assert_array_equal(judge(server, tmp_path).probabilities(asked), values)
        assert len(server.asked) == 22


@pytest.mark.parametrize(
    ("answer", "advice"),
    [
        (says("Sorry, not this."), r"'Sorry, not this\.'.*--model"),
        (says(None, message={"refusal": "Against the rules"}), r"'Against the rules' \(refused\).*--model"),
        (says("<think>The dog"), "--max-tokens"),
        (says("It may be that", usage={"completion_tokens": 64}), "--max-tokens"),
    ],
)
def test_a_model_that_never_answers_is_quoted(answer: Answer, advice: str, tmp_path: Path) -> None:
    progress = Listening()
    with serving(lambda _body, _number: answer) as server:
        EndpointJudge(server.url, replace(OPTIONS, samples=1), tmp_path, progress).probabilities(claims(2))
    (warned,) = progress.warned
    assert re.search(advice, warned)


def test_progress_goes_on_with_every_reply(tmp_path: Path) -> None:
    told = says("yes", **probabilities_of("yes", yes=0.6, no=0.4))
    seen: list[float] = []

    class Counting(Silent):
        def advance(self, steps: float = 1) -> None:
            seen.append(steps)

    with serving(lambda _body, _number: told) as server:
        for count in (4, 6):
            EndpointJudge(server.url, OPTIONS, tmp_path, Counting()).probabilities(claims(count))
    assert seen == [0, 1, 1, 1, 1, 4, 1, 1]


def test_a_claim_about_nothing_is_not_asked(tmp_path: Path) -> None:
    with serving(lambda _body, _number: says("yes")) as server:
        assert np.isnan(judge(server, tmp_path).probabilities([Claim("", None, "A dog runs.")])).all()
        assert judge(server, tmp_path).probabilities([]).shape == (0,)
        assert server.asked == []


@pytest.mark.parametrize("complaint", ["logprobs is not supported", "unknown parameter"])
def test_what_a_server_does_not_take_is_left_out_from_then_on(tmp_path: Path, complaint: str) -> None:
    def behave(body: Body, _number: int) -> Answer:
        if "temperature" in body:
            return fails(400, "temperature is not supported")
        return fails(400, complaint) if body.get("top_logprobs", 0) else says("no")

    with serving(behave) as server:
        assert judge(server, tmp_path).probabilities(claims(4)).tolist() == [0.0] * 4
        # with 20 tokens, without a temperature, with 5, with none
        assert len(server.asked) == 3 + 12
    told = says("yes", **probabilities_of("yes", yes=0.9, no=0.1))
    few = fails(400, "top_logprobs: at most 5")
    with serving(lambda body, _number: told if body["top_logprobs"] == 5 else few) as server:
        assert judge(server, tmp_path / "few").probabilities(claims(3)).tolist() == [np.float32(0.9)] * 3
        assert len(server.asked) == 4


def test_a_busy_server_is_asked_again_and_a_broken_one_loses_nothing(tmp_path: Path) -> None:
    told = says("yes", **probabilities_of("yes", yes=0.6, no=0.4))
    broken = True

    def behave(_body: Body, number: int) -> Answer:
        return fails(429) if number == 0 else fails(500) if broken and number > 2 else told

    with serving(behave) as server:
        one = judge(server, tmp_path)
        with pytest.raises(CtxrError, match="did not answer 6 times, at last: 500"):
            one.probabilities(claims(4))
        file = tmp_path / "judged" / f"{one.fingerprint[:16]}.jsonl"
        file.write_text(file.read_text() + '{"asked": "half a li')
        broken, before = False, len(server.asked)
        assert judge(server, tmp_path).probabilities(claims(4)).tolist() == [np.float32(0.6)] * 4
        assert len(server.asked) == before + 2
    with serving(behave) as whole:
        assert judge(whole, tmp_path / "other").probabilities(claims(4)).tolist() == [np.float32(0.6)] * 4


def test_answers_stand_in_the_order_of_claims_whatever_arrives_first(tmp_path: Path) -> None:
    others = threading.Semaphore(0)

    def behave(body: Body, _number: int) -> Answer:
        number = int(words_in(body).partition("Statement: statement ")[2].partition("\n")[0])
        if number == 0:
            assert all(others.acquire(timeout=60) for _ in range(3))
        others.release()
        return says("yes", **probabilities_of("yes", yes=0.1 * (number + 1), no=1 - 0.1 * (number + 1)))

    with serving(behave) as server:
        values = judge(server, tmp_path, replace(OPTIONS, at_once=4)).probabilities(claims(6))
    np.testing.assert_allclose(values, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], rtol=1e-6)


def test_the_cost_ends_it_in_time_and_more_goes_on(tmp_path: Path) -> None:
    prices = replace(OPTIONS, price_in=1000.0, price_out=1000.0, max_tokens=10, at_once=3)
    with serving(lambda _body, _number: says("yes", **probabilities_of("yes", yes=0.9, no=0.1))) as server:
        # a reply costs 1.01
        limited = judge(server, tmp_path, replace(prices, max_cost=5.0))
        with pytest.raises(UnfinishedError, match=r"--max-cost 5 .* 4 of 8 .* 4 in all") as stopped:
            limited.probabilities(claims(8))
        assert "--max-cost" in (stopped.value.hint or "")
        assert len(server.asked) == len(journal(limited, tmp_path).splitlines()) == 4
        with pytest.raises(UnfinishedError, match="4 of 8"):
            judge(server, tmp_path, replace(prices, max_cost=5.0)).probabilities(claims(8))
        assert len(server.asked) == 4
        one = judge(server, tmp_path, replace(prices, max_cost=100.0))
        assert one.probabilities(claims(8)).tolist() == [np.float32(0.9)] * 8
        assert len(server.asked) == 8


def test_an_estimate_is_for_all_samples_until_probabilities_are_told(tmp_path: Path, picture: Path) -> None:
    prices = replace(OPTIONS, price_in=2.0, price_out=10.0, dry_run=True)
    with serving(lambda _body, _number: says("yes", **probabilities_of("yes", yes=0.9, no=0.1))) as server:
        before = judge(server, tmp_path, prices).estimate(10)
        assert server.asked == []
        assert (before.requests, before.tokens_out) == (30, 30 * 64)
        assert before.cost == pytest.approx((before.tokens_in * 2 + before.tokens_out * 10) / 1e6)
        claim = Claim("A dog runs.", picture, "An animal moves.")
        likely = judge(server, tmp_path, prices).estimate(10, 40)
        assert (likely.requests, likely.tokens_out) == (10, 20)
        assert 0 < likely.tokens_in < before.tokens_in / 3
        one = judge(server, tmp_path, prices)
        one.probabilities([claim])
        assert judge(server, tmp_path, prices).estimate(10).requests == 10
        # from then on as replies were
        (reply,) = read_appended(next((tmp_path / "judged").iterdir()), JudgeReply)
        later = judge(server, tmp_path, prices).estimate(10, 40)
        assert (later.tokens_in, later.tokens_out) == (
            10 * (reply.prompt_tokens or 0),
            10 * (reply.completion_tokens or 0),
        )


def test_the_fingerprint_holds_what_decides_an_answer_alone(tmp_path: Path) -> None:
    def fingerprint(url: str = "http://localhost:1/v1", **changes: Any) -> str:
        return EndpointJudge(url, replace(OPTIONS, **changes), tmp_path, Silent()).fingerprint

    decisive: list[dict[str, Any]] = [{"model": "m"}, {"side": 64}, {"max_tokens": 9}, {"samples": 5}]
    others: dict[str, Any] = {"at_once": 9, "timeout": 1.0, "price_in": 1.0, "max_cost": 1.0, "dry_run": True}
    prints = [fingerprint(), fingerprint("http://localhost:2/v1"), *(fingerprint(**one) for one in decisive)]
    assert Counter(prints).most_common(1)[0][1] == 1
    assert fingerprint(**others) == prints[0]


def test_an_answer_belongs_to_the_content_of_the_picture_and_to_all_words(tmp_path: Path, picture: Path) -> None:
    copy, other = picture.with_name("copy.png"), picture.with_name("other.png")
    copy.write_bytes(picture.read_bytes())
    Image.new("RGB", (64, 48), "blue").save(other)
    first = Claim("A dog runs.", picture, "An animal moves.")
    with serving(lambda _body, _number: says("yes", **probabilities_of("yes", yes=0.9, no=0.1))) as server:
        one = judge(server, tmp_path)
        one.probabilities([first, replace(first, image=copy), replace(first, pair=("i", "q"))])
        assert len(server.asked) == 1
        one.probabilities(
            [replace(first, image=other), replace(first, premise=""), replace(first, hypothesis="A cat.")]
        )
        assert len(server.asked) == 4
        with pytest.raises(DataError, match="missing"):
            one.probabilities([replace(first, image=tmp_path / "gone.png")])


@pytest.mark.parametrize(
    ("text", "positions", "expected"),
    [
        ("yes", [{"token": "yes", "logprob": -1.0, "top_logprobs": [{"token": "no", "logprob": -1.0}]}], 0.5),
        ("yes", [{"token": "yes", "logprob": -0.1, "top_logprobs": [{"token": "yes", "logprob": -0.1}]}], None),
        ("yes", [{"token": "yes", "logprob": -0.1}], None),
        ("yes", [{"token": "ye", "logprob": -0.1, "top_logprobs": []}], None),
        ("yes", [{"token": "yes", "logprob": "high", "top_logprobs": [{"token": "no", "logprob": 0.0}]}], None),
        ("yes", [{"token": "yes", "logprob": math.nan, "top_logprobs": [{"token": "no", "logprob": -1.0}]}], None),
        ("yes", [{"token": "yes", "logprob": math.inf, "top_logprobs": [{"token": "no", "logprob": -1.0}]}], None),
        ("yes", [{"token": "yes", "logprob": 10**400, "top_logprobs": [{"token": "no", "logprob": -1.0}]}], None),
        ("yes", [{"token": 7}], None),
        ("yes", None, None),
        ("", [], None),
    ],
)
def test_probabilities_that_are_missing_or_wrong_are_none(text: str, positions: Any, expected: float | None) -> None:
    choice = {"message": {"content": text}, "logprobs": {"content": positions}}
    assert token_probability(read_completion({"choices": [choice]})) == expected


def test_the_token_of_an_answer_is_read_and_none_of_a_thought() -> None:
    likely = [{"token": "no", "logprob": math.log(0.2)}, {"token": "yes", "logprob": math.log(0.6)}]
    unlike = [{"token": "no", "logprob": math.log(0.6)}, {"token": "yes", "logprob": math.log(0.2)}]
    positions = [{"token": "yes", "logprob": math.log(0.6), "top_logprobs": likely}, {"token": "so", "logprob": 0.0}]
    positions += [{"token": "No", "logprob": math.log(0.1), "top_logprobs": unlike}]
    raw = {"choices": [{"logprobs": {"content": positions}}]}
    assert token_probability(Completion("yes so No", raw=raw)) == pytest.approx(0.75)
    assert token_probability(Completion("I say yes so No", raw=raw)) == pytest.approx(0.2 / 0.9)
    assert token_probability(Completion("<think>yes so</think>No", raw=raw)) is None


@pytest.mark.parametrize("url", ["ftp://localhost", "http://example.org/v1", "https://me:secret@example.org/v1"])
def test_an_address_that_is_none_or_would_leak_is_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(UsageError, match="--judge endpoint") as refused:
        EndpointJudge(url, OPTIONS, tmp_path, Silent())
    assert "secret" not in str(refused.value)


def test_the_options_of_an_endpoint_decide_no_round_but_through_its_judge() -> None:
    plain, other = ReviseLabels(), ReviseLabels(model="m", side=64, max_tokens=9, samples=7, at_once=2, dry_run=True)
    assert plain.key() == other.key()
    assert not plain.key().keys() & JudgeEndpointOptions.describe().keys()
    with pytest.raises(UsageError, match="--model"):
        ReviseLabels(judge=("toy", "endpoint:http://localhost:1/v1")).check()
    assert ReviseLabels(judge=("endpoint:http://localhost:1/v1",), model="m").check().model == "m"
