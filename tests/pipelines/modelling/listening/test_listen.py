"""`ctxr listen` against servers that know, guess, refuse and break; stopped and gone on with; and what it leaves on the disk."""

import json
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.errors import CtxrError, DataError, UnfinishedError, UsageError
from ctxr.models.chat import ChatClient, data_url
from ctxr.pipelines.modelling import listen as verb
from ctxr.pipelines.modelling.chat import Reply, shifts_of
from ctxr.pipelines.modelling.config import Eval, Listen, ListenReport
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.problems.queries import queries_of
from ctxr.store.records import Score
from ctxr.store.tables import read_table
from tests.pipelines.modelling.listening.fake_server import (
    Answer,
    Body,
    FakeServer,
    fails,
    pictures_in,
    says,
    serving,
    words_in,
)
from tests.pipelines.world_dataset import write_world_dataset

KEY = "sk-Very.Secret_1"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four queries on valid, two of a set of video and two of one of photos."""
    return write_world_dataset(tmp_path_factory.mktemp("drawn") / "dataset", sets=2)


@pytest.fixture
def work(drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(drawn, tmp_path / "work" / "dataset")
    monkeypatch.setenv("CTXR_API_KEY", KEY)
    return tmp_path / "work"


def ask(server: FakeServer, work: Path, **options: Any) -> ListenReport:
    config = Listen(endpoint=server.url, model="fake", workdir=work, **{"timeout": 60.0} | options)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(verb, "ChatClient", partial(ChatClient, pause=lambda _seconds: None))
        return verb.run(config)


def knowing(work: Path) -> Callable[[Body, int], Answer]:
    """A model that looks at the pictures and finds the target of the description."""
    dataset = read_dataset(work / "dataset")
    targets = {
        one.text: data_url(file, 384)
        for one in queries_of(dataset)
        if one.target is not None and (file := dataset.picture(dataset.images[one.images[one.target]]))
    }

    def answer(body: Body, _number: int) -> Answer:
        said = words_in(body).partition("Description: ")[2].partition("\nWhich of")[0]
        return says(json.dumps({"picture": pictures_in(body).index(targets[said]) + 1}))

    return answer


def one_by_one(body: Body, _number: int) -> Answer:
    return says("1")


def journal(work: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (work / "runs" / "fake" / "journal.jsonl").read_text().splitlines()]


def test_a_model_that_finds_every_target_is_right_at_every_shift(work: Path) -> None:
    with serving(knowing(work)) as server:
        report = ask(server, work, shifts=10)
    assert report.complete
    assert report.accuracy == 1
    assert (report.queries, report.requests, report.outcomes) == (4, 40, {"chosen": 40})
    shifts, places = report.tables
    assert [row[3] for row in shifts.rows] == [1.0] * 10
    assert [row[1:4] for row in places.rows] == [(4, pytest.approx(4), 4)] * 10
    scores = read_table(report.run / "scores.jsonl", Score)
    targets = {one.query: one.images[one.target or 0] for one in queries_of(read_dataset(work / "dataset"))}
    assert {row.value for row in scores if targets[row.query] == row.candidate} == {1.0}
    assert {row.value for row in scores if targets[row.query] != row.candidate} == {0.0}
    # and it is evaluated by its name
    results = evaluate(Eval(runs=("fake",), workdir=work, resamples=50, tokenizer="regex")).results
    figures = json.loads((results / "figures.json").read_text())["figures"]
    found = [(one["split"], one["value"]) for one in figures if (one["part"], one["measure"]) == ("all", "accuracy")]
    assert ("valid", 1.0) in found


def test_a_liking_for_a_place_shows_and_shifts_make_it_even(work: Path) -> None:
    with serving(one_by_one) as server:
        report = ask(server, work, shifts=10)
    _, places = report.tables
    assert [(row[0], row[1]) for row in places.rows] == [(1, 40)] + [(place, 0) for place in range(2, 11)]
    assert [row[2] for row in places.rows] == pytest.approx([4] * 10)
    assert {row.value for row in read_table(report.run / "scores.jsonl", Score)} == {0.1}
    assert report.accuracy == pytest.approx(0.1)
    assert any("all shifts" in note and "0.0%" in note for note in report.notes)


def test_every_request_shows_all_pictures_numbered_in_the_shifted_order(work: Path) -> None:
    dataset = read_dataset(work / "dataset")
    with serving(one_by_one) as server:
        ask(server, work, shifts=4, at_once=1, side=32)
    asked = [one for one in queries_of(dataset) if one.split == "valid"]
    assert len(server.asked) == 16
    for body, (one, shift) in zip(server.asked, [(one, s) for one in asked for s in shifts_of(4, 10)], strict=True):
        files = [dataset.picture(dataset.images[image]) for image in [*one.images[shift:], *one.images[:shift]]]
        assert pictures_in(body) == [data_url(file, 32) for file in files if file]
        labels = [part["text"] for part in body["messages"][-1]["content"] if part["type"] == "text"][:-1]
        assert labels == [f"Picture {number}:" for number in range(1, 11)]
        words = words_in(body)
        assert f"Description: {one.text}\n" in words
        assert ("order of time" in words.lower()) == one.ordered
        if one.ordered and shift == 2:
            assert "numbers 9, 10, 1, 2, 3, 4, 5, 6, 7, 8." in words
        if one.ordered and shift == 0:
            assert "order of time." in words
        assert body["temperature"] == 0
        assert body["response_format"]["json_schema"]["strict"] is True
    assert set(server.keys) == {f"Bearer {KEY}"}


def test_refusals_and_nonsense_are_kept_counted_and_scored_as_guesses(work: Path) -> None:
    huge = {"prompt_tokens": 10**40, "completion_tokens": -1}
    strange = [
        says("Sorry, I cannot", message={"refusal": "I will not look at this"}),
        says("none \ud800 of these", usage=huge),
        says("42"),
        (200, {}, b"{"),
    ]
    know = knowing(work)

    def behave(body: Body, number: int) -> Answer:
        return know(body, number) if number == 0 else strange[min(number - 1, 3)]

    with serving(behave) as server:
        report = ask(server, work, limit=0, at_once=1, shifts=2)
    assert report.complete
    assert report.outcomes == {"chosen": 1, "out_of_range": 1, "refused": 1, "unreadable": 5}
    assert any("larger --max-tokens" in note for note in report.notes)
    assert any("7 of 8 replies" in note for note in report.notes)
    replies = read_table(report.run / "replies.jsonl", Reply)
    assert Counter(reply.outcome for reply in replies) == Counter(report.outcomes)
    scores = read_table(report.run / "scores.jsonl", Score)
    first = sorted({row.query for row in scores})[0]
    assert sorted(row.value for row in scores if row.query == first) == [0.05] * 9 + [pytest.approx(0.55)]
    assert {row.value for row in scores if row.query != first} == {0.1}


def test_a_filter_of_the_host_is_a_refusal_and_a_wrong_request_is_an_error(work: Path) -> None:
    def filtered(_body: Body, number: int) -> Answer:
        return says("1") if number % 2 else fails(400, "The response was filtered: content_filter")

    with serving(filtered) as server:
        report = ask(server, work, at_once=1)
    assert report.outcomes == {"chosen": 2, "refused": 2}
    with serving(lambda _body, _number: fails(400, "no such option")) as server, pytest.raises(CtxrError, match="400"):
        ask(server, work, name="other")
    assert not (work / "runs" / "other" / "journal.jsonl").exists()


def test_a_host_with_fewer_options_is_asked_in_its_way(work: Path) -> None:
    know = knowing(work)

    def behave(body: Body, number: int) -> Answer:
        for option, other in (("max_tokens", "max_completion_tokens"), ("temperature", ""), ("response_format", "")):
            if option in body:
                return fails(400, f"Unsupported parameter: '{option}' {other}")
        return know(body, number)

    with serving(behave) as server:
        report = ask(server, work, at_once=1)
    assert report.accuracy == 1
    assert len(server.asked) == 4 + 3
    assert server.asked[-1]["max_completion_tokens"] == 64


@pytest.mark.parametrize("status", [307, 402, 413])
def test_a_status_that_is_no_answer_is_asked_about_again(work: Path, status: int) -> None:
    know = knowing(work)
    poor = True

    def behave(body: Body, number: int) -> Answer:
        return fails(status, "Insufficient credits") if poor and number >= 2 else know(body, number)

    with serving(behave) as server:
        with pytest.raises(CtxrError, match=f"refused with {status}: Insufficient credits") as caught:
            ask(server, work, at_once=1)
        assert "where it stopped" in caught.value.hint
        assert [line["outcome"] for line in journal(work)] == ["chosen"] * 2
        poor = False
        report = ask(server, work, at_once=1)
    assert (report.outcomes, report.accuracy) == ({"chosen": 4}, 1)


def test_a_host_that_breaks_down_loses_nothing_that_it_answered(work: Path) -> None:
    know = knowing(work)
    broken = True

    def behave(body: Body, number: int) -> Answer:
        return fails(500) if broken and number >= 2 else know(body, number)

    with serving(behave) as server:
        with pytest.raises(CtxrError, match="did not answer 6 times, at last: 500"):
            ask(server, work, at_once=1)
        assert len(journal(work)) == 2
        with pytest.raises(UnfinishedError, match="unfinished"):
            evaluate(Eval(runs=("fake",), workdir=work))
        partial = read_table(work / "runs" / "fake" / "partial.jsonl", Score)
        assert {row.scorer for row in partial} == {"fake-partial"}
        assert len(partial) == 20
        broken = False
        before = len(server.asked)
        report = ask(server, work, at_once=1)
        assert len(server.asked) - before == 2
        assert not (work / "runs" / "fake" / "partial.jsonl").exists()
        assert report.accuracy == 1
        again = ask(server, work, at_once=1)
        assert again.up_to_date
        assert again.tables == report.tables
        assert len(server.asked) - before == 2


def test_killed_in_the_middle_only_what_was_on_the_way_is_asked_again(work: Path, tmp_path: Path) -> None:
    know = knowing(work)
    hold, waiting = threading.Event(), threading.Semaphore(0)

    def behave(body: Body, number: int) -> Answer:
        if number >= 6 and not hold.is_set():
            waiting.release()
            hold.wait(60)
        return know(body, number)

    with serving(behave) as server:
        command = [sys.executable, "-m", "ctxr", "listen", "--endpoint", server.url, "--model", "fake"]
        command += ["-w", str(work), "--shifts", "3", "--at-once", "2"]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # both requests have arrived, so no other is counted after the kill
        assert waiting.acquire(timeout=60)
        assert waiting.acquire(timeout=60)
        # a reply is on the disk before its place is taken by the next request
        assert len(journal(work)) >= 5
        child.send_signal(signal.SIGKILL)
        child.wait()
        hold.set()
        kept = journal(work)
        with (work / "runs" / "fake" / "journal.jsonl").open("a") as stream:
            stream.write('{"query": "half a li')
        asked = len(server.asked)
        report = ask(server, work, shifts=3)
        assert len(server.asked) - asked == 12 - len(kept)
        assert 5 <= len(kept) <= 6
    with serving(know) as server:
        through = ask(server, work, shifts=3, name="through")
    assert report.complete
    stopped, whole = ((one.run / "scores.jsonl").read_text() for one in (report, through))
    assert stopped.replace('"fake"', '"through"') == whole


def test_the_cost_ends_it_in_time_and_more_goes_on(work: Path) -> None:
    prices: dict[str, Any] = {"price_in": 1000.0, "price_out": 1000.0, "max_tokens": 10, "side": 32}
    with serving(one_by_one) as server:
        dry = ask(server, work, dry_run=True, **prices)
        assert server.asked == []
        assert not (work / "runs").exists()
        assert dry.requests == 4
        assert dry.cost == pytest.approx((dry.tokens_in + 40) / 1000)
        # a reply costs 1.01, and was expected to cost more than twice that
        assert 8 < dry.cost < 16
        words = ["listen", "--endpoint", server.url, "--model", "fake", "-w", str(work), "--at-once", "1"]
        for name, value in ({"max_cost": 5.0} | prices).items():
            words += [f"--{name.replace('_', '-')}", str(value)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 4
        assert "partial" in result.stdout
        done = len(journal(work))
        assert done * 1.01 <= 5.0
        assert 1 <= done < 4
        assert "a partial run" in result.stdout
        report = ask(server, work, max_cost=20.0, **prices)
    assert report.complete
    assert len(server.asked) == 4
    assert report.cost == pytest.approx(4.04)
    assert (report.tokens_in, report.tokens_out, report.uncounted) == (4000, 40, 0)
    counts = json.loads((report.run / "manifest.json").read_text())["counts"]
    assert (counts["tokens_in"], counts["tokens_out"], counts["cost"]) == (4000, 40, 4.04)


def test_tokens_that_are_not_told_are_estimated_and_said(work: Path) -> None:
    with serving(lambda _body, _number: says("1", usage=None)) as server:
        report = ask(server, work, price_in=1.0, price_out=1.0)
    assert report.uncounted == 4
    assert report.cost > 0
    assert any("of 4 replies" in note for note in report.notes)


def test_a_larger_limit_extends_the_sample_and_another_picture_is_asked_about_anew(work: Path) -> None:
    with serving(knowing(work)) as server:
        first = ask(server, work, limit=1)
        assert any("1 of 4 queries" in note and "ctxr eval fake --partial" in note for note in first.notes)
        ask(server, work, limit=3)
        assert len(server.asked) == 3
        ask(server, work, shifts=2)
        assert len(server.asked) == 8
        ask(server, work, side=200)
        assert len(server.asked) == 12
        ask(server, work)
        assert len(server.asked) == 12


def test_an_endpoint_that_fails_leaves_the_earlier_result(work: Path) -> None:
    know = knowing(work)

    def behave(body: Body, number: int) -> Answer:
        return fails(500) if number else know(body, number)

    with serving(behave) as server:
        ask(server, work, limit=1)
        finished = {file.name: file.read_bytes() for file in (work / "runs" / "fake").glob("*.json*")}
        with pytest.raises(CtxrError, match="did not answer"):
            ask(server, work, limit=3, at_once=1)
        kept = {name: (work / "runs" / "fake" / name).read_bytes() for name in finished if name != "journal.jsonl"}
        assert kept.items() <= finished.items()
        assert ask(server, work, limit=1).up_to_date


def test_the_key_is_nowhere_on_the_disk_and_in_no_word(work: Path, tmp_path: Path) -> None:
    def behave(_body: Body, number: int) -> Answer:
        if number == 0:
            return says(f"1, and your key is {KEY}", message={"refusal": None})
        return says(f"I refuse {KEY}", message={"refusal": f"{KEY} is wrong"}) if number < 3 else fails(401, KEY)

    with serving(behave) as server:
        words = ["listen", "--endpoint", server.url, "--model", "fake", "-w", str(work), "--at-once", "1"]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 1
        assert len(journal(work)) == 3
        with serving(one_by_one) as other:
            ask(other, work, name="whole")
    assert server.keys[0] == f"Bearer {KEY}"
    assert KEY not in result.output
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert len(files) > 30
    assert not [file for file in files if KEY.encode() in file.read_bytes()]


def test_a_run_of_something_else_is_not_written_over(work: Path) -> None:
    (work / "runs" / "fake").mkdir(parents=True)
    (work / "runs" / "fake" / ".ctxr").touch()
    (work / "runs" / "fake" / "epochs.jsonl").touch()
    with serving(one_by_one) as server, pytest.raises(UsageError, match="of ctxr listen"):
        ask(server, work)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endpoint": ""}, "--endpoint is missing"),
        ({"model": ""}, "--model is missing"),
        ({"model": "\udcff"}, "--model is missing"),
        ({"split": "dev"}, "--split dev"),
        ({"shifts": 0}, "--shifts 0"),
        ({"price_in": float("nan")}, "--price-in nan"),
        ({"at_once": 0}, "--at-once 0"),
        ({"timeout": 0.0}, "--timeout 0.0"),
        ({"max_cost": 1.0}, "--max-cost needs prices"),
        ({"name": "../up"}, "a folder name"),
        ({"endpoint": "http://example.org/v1"}, "in the clear"),
        ({"key_from": KEY}, "--key-from does not"),
    ],
)
def test_wrong_words_are_one_sentence(work: Path, options: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"endpoint": "http://localhost:1/v1", "model": "fake", "workdir": work}
    with pytest.raises(UsageError, match=message) as caught:
        verb.run(Listen(**settings | options))
    assert KEY not in caught.value.message + caught.value.hint  # which may be typed for its name
    with pytest.raises(DataError, match="the side test"):
        verb.run(Listen(**settings | {"split": "test"}))
