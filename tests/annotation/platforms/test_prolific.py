"""Prolific: pay above the floor, bundles, codes that stay private, and a client that is patient and never pays twice."""

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from ctxr.annotation.config import ExportTasks
from ctxr.annotation.forms import Form
from ctxr.annotation.journal.identities import Visit
from ctxr.annotation.platforms import prolific
from ctxr.annotation.pseudonyms import pseudonym
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import CtxrError, DataError, UsageError

KEY = bytes(range(32))
ADDRESS = "https://prolific.test/api/v1"
STUDY = ExportTasks(
    task="retrieve", backend="prolific", server="https://crowd.example.org/", title="Find the image", reward=120
)
FILTERS = [
    {"filter_id": "handedness", "type": "select", "choices": {"0": "Left", "1": "Right"}},
    {"filter_id": "approval_rate", "type": "range", "min": 0, "max": 100},
    {
        "filter_id": "current-country-of-residence",
        "type": "select",
        "choices": {"0": "United Kingdom", "1": "United States"},
    },
]
FORM = Form("Find", ("Read it.",), ())


def unit(number: int, split: str = "valid") -> Unit:
    most = 3 if split == "valid" else 1
    return Unit(f"u-{number:03d}", "retrieve", f"set{number % 7}", "g", ("a", "b"), split=split, needed=1, most=most)  # type: ignore[arg-type]


@dataclass
class Platform(httpx.BaseTransport):
    """Prolific's addresses, with a script of troubles: a status for each of the first requests."""

    made: list[dict[str, Any]] = field(default_factory=list)
    submissions: list[dict[str, Any]] = field(default_factory=list)
    troubles: list[int] = field(default_factory=list)
    seen: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)

    def client(self, token: str = "secret") -> prolific.ProlificClient:  # noqa: S107
        return prolific.ProlificClient(token, ADDRESS, self, self.slept.append)

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        path = str(request.url).removeprefix(ADDRESS)
        self.seen.append(f"{request.method} {path}")
        if request.headers["Authorization"] != "Token secret":
            return httpx.Response(401, json={"error": {"detail": "Invalid token"}})
        if self.troubles:
            status, detail = self.troubles.pop(0), {"error": {"detail": "Later, please"}}
            return httpx.Response(status, headers={"Retry-After": "7"} if status == 429 else {}, json=detail)
        if path.endswith("/transition/"):
            return httpx.Response(200, json={"status": {"PUBLISH": "ACTIVE"}[json.loads(request.read())["action"]]})
        if request.method == "POST":
            self.made.append(json.loads(request.read()) | {"id": f"study{len(self.made)}"})
            return httpx.Response(201, json=self.made[-1])
        if path == "/filters/":
            return httpx.Response(200, json={"results": FILTERS, "_links": {"next": {"href": None}}})
        listed, _, query = path.partition("?")
        whole = self.made if listed == "/studies/" else self.submissions
        start = int(query.partition("offset=")[2] or 0)
        following = f"{ADDRESS}{listed}?limit=100&offset={start + 100}" if start + 100 < len(whole) else None
        links = {"next": {"href": following}}
        return httpx.Response(200, json={"results": whole[start : start + 100], "_links": links})


@pytest.fixture
def platform() -> Platform:
    return Platform()


def body() -> dict[str, Any]:
    parts = prolific.bundles([unit(number) for number in range(45)], 20, 21, KEY)
    written = prolific.study_body(parts, STUDY.offer([7] * 21, 20), STUDY, FORM)
    return written | {"internal_name": "ctxr-1-retrieve"}


def test_bundles_hold_every_unit_once_and_keep_sets_apart() -> None:
    units = [unit(number) for number in range(45)] + [unit(number, "train") for number in range(45, 50)]
    parts = prolific.bundles(units, 20, 23, KEY)
    assert sorted(name for part in parts for name in part.units) == sorted(one.id for one in units)
    assert sorted((len(part.units), part.raters) for part in parts) == [(16, 7), (17, 8), (17, 8)]
    sets = {one.id: one.image_set for one in units}
    for part in parts:
        assert len({sets[name] for name in part.units}) >= 5
    assert prolific.bundles(units[::-1], 20, 23, KEY) == parts


def test_the_study_gives_each_bundle_an_address_of_its_own() -> None:
    made = body()
    addresses = [one["external_url"] for one in made["access_details"]]
    assert len(set(addresses)) == len(addresses) == 3
    assert all(
        one.startswith("https://crowd.example.org/p/retrieve?bundle=b-")
        and one.endswith("&PROLIFIC_PID={{%PROLIFIC_PID%}}&STUDY_ID={{%STUDY_ID%}}&SESSION_ID={{%SESSION_ID%}}")
        for one in addresses
    )
    assert made["total_available_places"] == sum(one["total_allocation"] for one in made["access_details"]) == 21
    assert (made["reward"], made["estimated_completion_time"]) == (120, 10)
    assert made["device_compatibility"] == ["desktop", "tablet"]


def test_participants_are_filtered_as_in_the_paper() -> None:
    assert body()["filters"] == [
        {"filter_id": "approval_rate", "selected_range": {"lower": 99, "upper": 100}},
        {
            "filter_id": "current-country-of-residence",
            "selected_values": ["United States", "United Kingdom", "Canada", "Australia", "New Zealand", "Ireland"],
        },
    ]
    some = replace(STUDY, approved=90, countries="GB, US").check()
    assert prolific.filters(some, {"United Kingdom": "0", "United States": "1"}) == [
        {"filter_id": "approval_rate", "selected_range": {"lower": 91, "upper": 100}},
        {"filter_id": "current-country-of-residence", "selected_values": ["0", "1"]},
    ]
    assert prolific.filters(replace(STUDY, approved=0, countries="").check(), {}) == []


def test_people_are_asked_who_are_fluent_in_the_language_of_descriptions() -> None:
    arabic = replace(STUDY, approved=0, language="ar").check()
    assert prolific.filters(arabic) == [{"filter_id": "fluent-languages", "selected_values": ["Arabic"]}]
    assert prolific.filters(replace(arabic, countries="CA"), {"Canada": "3", "Arabic": "7"}) == [
        {"filter_id": "current-country-of-residence", "selected_values": ["3"]},
        {"filter_id": "fluent-languages", "selected_values": ["7"]},
    ]
    with pytest.raises(DataError, match="lists no language 'Arabic'"):
        prolific.filters(arabic, {"United States": "1"})


def test_a_country_that_prolific_does_not_list_is_refused(platform: Platform) -> None:
    choices = platform.client().choices("current-country-of-residence")
    assert choices == {"United Kingdom": "0", "United States": "1"}
    with pytest.raises(DataError, match="lists no country 'Ireland'"):
        prolific.filters(replace(STUDY, countries="GB,IE"), choices)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"reward": 99}, r"5\.94 GBP an hour, below the 6\.00"),
        ({"reward": 120, "currency": "USD"}, r"7\.20 USD an hour, below the 8\.00"),
        ({"server": "http://localhost"}, "needs its address"),
        ({"currency": "EUR"}, "EUR is unknown"),
        ({"devices": "watch"}, "watch is unknown"),
        ({"countries": "US,DE"}, "--countries DE"),
        ({"approved": 100}, "--approved 100"),
        ({"per_submission": 0}, "--per-submission 0"),
    ],
)
def test_a_study_that_must_not_be_is_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(STUDY, **change).check()


def test_the_default_pay_is_the_recommended_one_and_no_less_than_the_minimum_is_taken() -> None:
    assert replace(STUDY, reward=None).check().pay() == 150
    assert replace(STUDY, reward=None, currency="USD").check().pay() == 200
    with pytest.raises(UsageError) as caught:
        replace(STUDY, reward=133, currency="USD").check()
    assert caught.value.hint.split()[1] == "134"
    assert replace(STUDY, reward=250).pay() == 250


def test_a_study_is_made_published_and_found_again_on_whichever_page_it_is(platform: Platform) -> None:
    made = platform.client().create(body())
    assert made == "study0"
    assert platform.client().studies("ctxr-1-retrieve") == ["study0"]
    assert platform.client().studies("ctxr-1-tag") == []
    assert platform.client().publish(made) == "ACTIVE"
    platform.made = [{"id": f"other{number}", "internal_name": "another"} for number in range(230)] + platform.made
    assert platform.client().studies("ctxr-1-retrieve") == ["study0"]


def test_the_client_waits_when_it_is_asked_to_and_gives_up_in_one_sentence(platform: Platform) -> None:
    platform.troubles = [429, 503, 500]
    assert platform.client().studies("x") == []
    assert platform.slept == [7.0, 2.0, 4.0]
    platform.troubles, platform.seen = [500] * 6, []
    with pytest.raises(CtxrError, match="Prolific refused with 500: Later, please"):
        platform.client().studies("x")
    assert len(platform.seen) == 6


def test_a_study_is_not_made_twice_when_nobody_knows_whether_it_was_made(platform: Platform) -> None:
    platform.troubles = [502]
    with pytest.raises(CtxrError, match="refused with 502"):
        platform.client().create(body())
    assert len(platform.seen) == 1
    platform.troubles = [429]
    assert platform.client().create(body()) == "study0"


def test_a_wrong_token_is_named_and_never_shown(platform: Platform) -> None:
    wrong = platform.client("hunter2")
    with pytest.raises(CtxrError, match="refused with 401: Invalid token") as caught:
        wrong.studies("x")
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_the_token_follows_no_redirect(status: int) -> None:
    asked: list[str] = []

    def redirect(request: httpx.Request) -> httpx.Response:
        asked.append(str(request.url))
        return httpx.Response(status, headers={"Location": f"{ADDRESS}/elsewhere/"})

    client = prolific.ProlificClient("hunter2", ADDRESS, httpx.MockTransport(redirect))
    for call in (lambda: client.studies("x"), lambda: client.create(body()), lambda: client.publish("s1")):
        with pytest.raises(CtxrError, match=f"refused with {status}: a redirect to {ADDRESS}/elsewhere/") as caught:
            call()
        assert "hunter2" not in caught.value.message
    assert len(asked) == 3
    assert not any("elsewhere" in address for address in asked)


def test_without_a_token_or_a_network_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROLIFIC_TOKEN", raising=False)
    with pytest.raises(CtxrError, match="PROLIFIC_TOKEN is not"):
        prolific.connect()
    monkeypatch.setenv("PROLIFIC_TOKEN", "secret")
    assert prolific.connect("http://127.0.0.1:9") is not None
    unreached = prolific.ProlificClient("secret", "http://127.0.0.1:9", sleep=lambda seconds: None)
    with pytest.raises(CtxrError, match="cannot be reached"):
        unreached.studies("x")


def test_every_page_of_submissions_is_fetched(platform: Platform) -> None:
    platform.submissions = [{"id": f"s{number}", "status": "APPROVED", "participant_id": "p"} for number in range(230)]
    found = platform.client().submissions("study0")
    assert len({row["id"] for row in found}) == 230
    assert found[0]["study_id"] == "study0"


def test_the_next_page_must_be_on_the_platform(platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    one = platform.client()
    stray = {"results": [], "_links": {"next": {"href": "https://evil.example/x"}}}
    monkeypatch.setattr(one, "_call", lambda *given: stray)
    with pytest.raises(DataError, match="own address"):
        one.submissions("study0")


def stored(*participants: str, backend: str = "prolific") -> list[Answer]:
    return [
        Answer(f"u-{one}", pseudonym(KEY, backend, one), {"pick": ("a",)}, ("a", "b"), 0, "2026-01-01", 3.0, backend)
        for one in participants
    ]


def visit(submission: str, participant: str) -> Visit:
    worker = pseudonym(KEY, "prolific", participant)
    return Visit(submission, participant, "5f", worker, "pilot", 0, datetime(2026, 1, 1, tzinfo=UTC))


def test_an_answer_counts_when_its_submission_is_known_and_the_participant_is_the_same(tmp_path: Path) -> None:
    file = tmp_path / "submissions.json"
    rows = [
        {"id": "s1", "participant_id": "p1", "status": "AWAITING REVIEW", "study_id": "5f"},
        {"id": "s2", "participant_id": "p9", "status": "APPROVED", "study_id": "5f"},
        {"id": "s3", "participant": "p3", "status": "RETURNED", "study": "5f", "is_complete": False},
        {"id": "s4", "participant": "p4", "status": "TIMED-OUT"},
        {"id": "s6", "participant_id": "", "status": "APPROVED"},
    ]
    file.write_text(json.dumps(rows))
    visits = [visit(f"s{number}", f"p{number}") for number in range(1, 7)]
    people = ("p1", "p2", "p3", "p4", "p5", "p6", "p7")
    given = [*stored(*people), *stored("one of the team", backend="local")]
    read = prolific.confirmed_answers(file, given, visits, ["5f"], KEY)
    assert [row.answer.unit for row in read.rows] == ["u-p1"]
    assert [refusal.sentence.rstrip(".").split()[-1] for refusal in read.refused] == [
        "Prolific",
        "returned",
        "timed-out",
        "submission",
        "submission",
        "worker",
    ]
    assert set(read.identities.values()) == {f"p{number}" for number in range(1, 7)}


def test_who_came_twice_counts_once_they_have_finished(tmp_path: Path) -> None:
    file = tmp_path / "submissions.json"
    file.write_text(
        '[{"id": "s1", "participant_id": "p1", "status": "RETURNED"}, {"id": "s2", "participant_id": "p1", "status": "APPROVED"}]'
    )
    visits = [visit("s1", "p1"), visit("s2", "p1")]
    assert len(prolific.confirmed_answers(file, stored("p1"), visits, [], KEY).rows) == 1
