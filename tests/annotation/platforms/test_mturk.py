"""Mechanical Turk: what is sent keeps its rules, nothing is sent twice, and what comes back is read."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import boto3
import msgspec
import pytest
from botocore.stub import Stubber

from ctxr.annotation.config import ExportTasks
from ctxr.annotation.platforms import mturk
from ctxr.annotation.platforms.mturk import Launched
from ctxr.annotation.platforms.sheets import sheet
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import Unit
from ctxr.errors import CtxrError, DataError, UsageError
from tests.annotation.platforms.fake_mturk import FakeMTurk, refusal

KEY = bytes(range(32))
PROTOCOL = Protocol()
OFFER = ExportTasks(task="retrieve", backend="mturk", image_base="https://img.example.org", countries="US,GB")
IMAGES = tuple(f"set/img{number}" for number in range(10))
ADDRESSES = {image: f"https://img.example.org/{image}.jpg" for image in IMAGES}
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def unit(name: str = "u-1", **other: Any) -> Unit:
    plain: dict[str, Any] = {
        "task": "retrieve", "image_set": "set", "group": "set", "images": IMAGES, "query": "q",
        "texts": ("The dog's left ear is folded back.",), "truth": (IMAGES[3],), "needed": 2, "most": 3, "split": "valid",
    }  # fmt: skip
    return Unit(name, **(plain | other))


def hits(*units: Unit, offer: ExportTasks = OFFER) -> list[mturk.Hit]:
    (content,) = mturk.export(units, ADDRESSES, offer, KEY).values()
    return [msgspec.json.decode(line, type=mturk.Hit) for line in content.splitlines()]


def launched(fake: FakeMTurk, record: Path, *units: Unit) -> dict[str, Launched]:
    list(mturk.launch(fake, hits(*units), record, KEY, {}))
    return mturk.read_launched(record)


def test_a_hit_asks_for_the_votes_that_decide_and_for_workers_as_in_the_paper() -> None:
    (hit,) = hits(unit())
    asked = hit.parameters
    assert (asked["MaxAssignments"], asked["Reward"]) == (2, "0.10")
    assert [
        (one["QualificationTypeId"], one["Comparator"], one.get("IntegerValues") or one.get("LocaleValues"))
        for one in asked["QualificationRequirements"]
    ] == [(mturk.APPROVED, "GreaterThan", [98]), (mturk.LOCALE, "In", [{"Country": "US"}, {"Country": "GB"}])]
    assert len(asked["UniqueRequestToken"]) <= 64
    assert hits(unit(full=True))[0].parameters["MaxAssignments"] == 3
    assert hits(unit(split="train", needed=1, most=1))[0].side == "train"


def test_own_lists_let_in_and_keep_out() -> None:
    (hit,) = hits(unit(), offer=replace(OFFER, require="3ALLOWED", exclude="3BLOCKED").check())
    own = [(one["QualificationTypeId"], one["Comparator"]) for one in hit.parameters["QualificationRequirements"][2:]]
    assert own == [("3ALLOWED", "Exists"), ("3BLOCKED", "DoesNotExist")]
    assert all("IntegerValues" not in one for one in hit.parameters["QualificationRequirements"][2:])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"countries": "USA"}, "'USA' is not"),
        ({"approved": 101}, "--approved 101"),
        ({"reward": -1}, "--reward -1"),
        ({"exclude": "no-id"}, "a qualification type"),
    ],
)
def test_an_offer_that_would_be_refused_is_refused_at_once(change: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(OFFER, **change).check()


def test_the_question_is_one_page_that_shows_the_pictures_in_order_and_hides_the_truth() -> None:
    one = unit(texts=("Ends with ]]> & <script>alert(1)</script>",))
    fake = FakeMTurk()
    fake.create_hit(**hits(one)[0].parameters)
    (name,) = fake.hits
    page = fake.page(name)
    order = sheet(one, 0, PROTOCOL.seed).order
    assert page.images == [ADDRESSES[image] for image in order]
    assert page.form().offered == {"pick": list(order)}
    assert "Ends with ]]> & <script>alert(1)</script>" in page.text
    assert page.form().fields["ctxr_unit"] == ["u-1"]
    assert "truth" not in fake.hits[name]["Question"]


def test_a_question_that_is_too_large_names_its_unit() -> None:
    with pytest.raises(DataError, match=r"unit 'u-1' .* \d+ bytes"):
        hits(unit(texts=("x" * 70_000,)))


def test_the_parameters_fit_the_shapes_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = tmp_path / "hits.jsonl"
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    client = boto3.client("mturk", region_name="us-east-1", endpoint_url=mturk.SANDBOX)
    (hit,) = hits(unit())
    with Stubber(client) as stub:
        stub.add_response("create_hit", {"HIT": {"HITId": "3HIT"}}, hit.parameters)
        assert client.create_hit(**hit.parameters)["HIT"]["HITId"] == "3HIT"
        stub.add_response("list_hits", {"HITs": []}, {"MaxResults": 100})
        stub.add_response("create_hit", {"HIT": {"HITId": "3HIT"}}, hit.parameters)
        (row,) = mturk.launch(client, [hit], record, KEY, {})
        assert row == Launched("u-1", "3HIT", 2)
        moment = {"AcceptTime": NOON, "SubmitTime": NOON, "AssignmentStatus": "Submitted", "Answer": ""}
        stub.add_response(
            "list_assignments_for_hit",
            {"Assignments": [{"AssignmentId": "3A", "WorkerId": "A1", "HITId": "3HIT", **moment}]},
            {"HITId": "3HIT", "MaxResults": 100},
        )
        assert [one.WorkerId for one in mturk.fetch(client, [row])] == ["A1"]
        stub.add_response("get_hit", {"HIT": {"MaxAssignments": 2}}, {"HITId": "3HIT"})
        asked = {"HITId": "3HIT", "NumberOfAdditionalAssignments": 1, "UniqueRequestToken": mturk.token(KEY, "u-1", 3)}
        stub.add_response("create_additional_assignments_for_hit", {}, asked)
        mturk.extend(client, {"u-1": row}, {"u-1": 3}, record, KEY)
        listing = {"MustBeRequestable": False, "MustBeOwnedByCaller": True, "MaxResults": 100}
        stub.add_response("list_qualification_types", {"QualificationTypes": []}, listing)
        for pool in ("train", "eval"):
            parameters = {
                "Name": f"ctxr-{mturk.project(KEY)}-{pool}",
                "Description": "Keeps the workers of the parts of a study apart.",
                "QualificationTypeStatus": "Active",
            }
            answer = {"QualificationType": {"QualificationTypeId": f"3P{pool}"}}
            stub.add_response("create_qualification_type", answer, parameters)
        assert mturk.pools_of(client, KEY) == {"train": "3Ptrain", "eval": "3Peval"}
        given = {"QualificationTypeId": "3P", "WorkerId": "A1", "IntegerValue": 1, "SendNotification": False}
        stub.add_response("associate_qualification_with_worker", {}, given)
        mturk.join_pool(client, "3P", ["A1"])
        stub.assert_no_pending_responses()


def test_a_launch_that_loses_an_answer_goes_on_without_a_second_hit(tmp_path: Path) -> None:
    fake, record = FakeMTurk(lose=1), tmp_path / "hits.jsonl"
    units = [unit(f"u-{number}") for number in range(3)]
    with pytest.raises(CtxrError, match="Mechanical Turk refused: Read timed out"):
        launched(fake, record, *units)
    rows = launched(fake, record, *units)
    assert len(fake.hits) == 3
    assert {row.hit for row in rows.values()} == set(fake.hits)
    before = len(fake.calls)
    assert launched(fake, record, *units) == rows
    assert len(fake.calls) == before


def test_a_token_that_was_used_a_moment_ago_names_the_hit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMTurk()
    launched(fake, tmp_path / "first.jsonl", unit())
    # the list of HITs lags behind, and what was written down is lost: the token still knows
    monkeypatch.setattr(fake, "list_hits", lambda **given: {"HITs": []})
    rows = launched(fake, tmp_path / "second.jsonl", unit())
    assert len(fake.hits) == 1
    assert rows["u-1"].hit in fake.hits


def test_a_hit_is_found_again_when_its_token_has_expired(tmp_path: Path) -> None:
    fake = FakeMTurk()
    launched(fake, tmp_path / "first.jsonl", *(unit(f"u-{number}") for number in range(150)))
    fake.tokens.clear()
    rows = launched(fake, tmp_path / "second.jsonl", unit("u-149"), unit("u-150"))
    assert len(fake.hits) == 151
    assert rows["u-149"].hit == fake.hit_of("u-149")


def test_a_half_written_record_is_read_and_a_damaged_one_is_not(tmp_path: Path) -> None:
    fake, record = FakeMTurk(), tmp_path / "hits.jsonl"
    rows = launched(fake, record, unit("u-1"), unit("u-2"))
    whole = record.read_text()
    record.write_text(whole[:-20])
    assert mturk.read_launched(record) == {"u-1": rows["u-1"]}
    record.write_text("{\n" + whole)
    with pytest.raises(DataError, match=r"hits\.jsonl:1"):
        mturk.read_launched(record)


def test_a_launch_after_a_half_written_record_goes_on_below_it(tmp_path: Path) -> None:
    fake, record = FakeMTurk(), tmp_path / "hits.jsonl"
    rows = launched(fake, record, unit("u-1"), unit("u-2"))
    record.write_text(record.read_text()[:-20])
    assert launched(fake, record, unit("u-1"), unit("u-2"), unit("u-3")).keys() == {*rows, "u-3"}
    assert len(fake.hits) == 3


def test_every_page_of_assignments_is_fetched(tmp_path: Path) -> None:
    fake = FakeMTurk()
    rows = launched(fake, tmp_path / "hits.jsonl", unit(needed=230, most=230))
    for number in range(230):
        fake.work(rows["u-1"].hit, f"A{number}", {"pick": (IMAGES[0],)}, NOON, NOON + timedelta(seconds=9))
    found = list(mturk.fetch(fake, rows.values()))
    assert len({one.WorkerId for one in found}) == 230


def test_a_third_vote_is_asked_for_once(tmp_path: Path) -> None:
    fake, record = FakeMTurk(), tmp_path / "hits.jsonl"
    rows = launched(fake, record, unit("u-1"), unit("u-2"))
    assert [row.asked for row in mturk.extend(fake, rows, {"u-1": 3, "u-2": 2}, record, KEY)] == [3]
    assert fake.hits[rows["u-1"].hit]["MaxAssignments"] == 3
    # what was written down is lost: the HIT itself says how many it has
    mturk.extend(fake, rows, {"u-1": 3}, record, KEY)
    assert fake.calls.count("extend") == 1
    assert mturk.extend(fake, mturk.read_launched(record), {"u-1": 3}, record, KEY) == []


def test_a_hit_of_fewer_than_ten_is_never_extended_to_ten(tmp_path: Path) -> None:
    fake, record = FakeMTurk(), tmp_path / "hits.jsonl"
    rows = launched(fake, record, unit(needed=8, most=9))
    assert [row.asked for row in mturk.extend(fake, rows, {"u-1": 12}, record, KEY)] == [9]


def test_a_hit_that_may_want_ten_has_them_from_the_start_and_can_get_more(tmp_path: Path) -> None:
    fake, record = FakeMTurk(), tmp_path / "hits.jsonl"
    rows = launched(fake, record, unit(needed=8, most=12))
    assert rows["u-1"].asked == 10
    assert [row.asked for row in mturk.extend(fake, rows, {"u-1": 12}, record, KEY)] == [12]


def test_sides_that_are_wholly_apart_bar_one_another(tmp_path: Path) -> None:
    fake = FakeMTurk()
    pools = mturk.pools_of(fake, KEY)
    assert mturk.pools_of(fake, KEY) == pools
    units = (unit("u-1"), unit("u-2", split="train", needed=1, most=1))
    list(mturk.launch(fake, hits(*units), tmp_path / "hits.jsonl", KEY, pools))
    for name, other in (("u-1", "train"), ("u-2", "eval")):
        barred = fake.hits[fake.hit_of(name)]["QualificationRequirements"][-1]
        assert (barred["QualificationTypeId"], barred["Comparator"]) == (pools[other], "DoesNotExist")
    mturk.join_pool(fake, pools["train"], ["A1"])
    assert fake.granted == {(pools["train"], "A1")}


def test_a_refusal_is_one_sentence_with_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeMTurk()

    def broke(**given: Any) -> dict[str, Any]:
        raise refusal("AWS.MechanicalTurk.InsufficientFunds", "The account has too little money.")

    monkeypatch.setattr(fake, "create_hit", broke)
    with pytest.raises(CtxrError, match=r"too little money\. \(AWS.*InsufficientFunds\)"):
        launched(fake, tmp_path / "hits.jsonl", unit())


def test_without_credentials_it_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("boto3.session.Session.get_credentials", lambda self: None)
    with pytest.raises(CtxrError, match="no credentials"):
        mturk.connect(live=False)


def test_without_boto3_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(CtxrError, match="boto3 is not installed"):
        mturk.connect(live=False)


def test_an_answer_is_read_as_the_service_writes_it() -> None:
    xml = (
        '<?xml version="1.0" encoding="ASCII"?><QuestionFormAnswers xmlns="http://mechanicalturk.amazonaws.com/'
        'AWSMechanicalTurkDataSchemas/2005-10-01/QuestionFormAnswers.xsd">\n <Answer>\n'
        "  <QuestionIdentifier>pick</QuestionIdentifier>\n  <FreeText>set/img7</FreeText>\n </Answer>\n"
        " <Answer><QuestionIdentifier>note</QuestionIdentifier><FreeText>a &lt; b\n&amp; c</FreeText></Answer>\n"
        " <Answer><QuestionIdentifier>empty</QuestionIdentifier><FreeText/></Answer></QuestionFormAnswers>"
    )
    assert mturk.sent_values(xml) == {"pick": "set/img7", "note": "a < b\n& c", "empty": ""}
    assert mturk.sent_values("") == {}
    crowd = '[{"pick":"set/img7","tags":{"context":true,"negation":false}}]'
    wrapped = (
        f"<A><Answer><QuestionIdentifier>taskAnswers</QuestionIdentifier><FreeText>{crowd}</FreeText></Answer></A>"
    )
    assert mturk.sent_values(wrapped) == {"pick": "set/img7", "tags.context": "yes"}


def archive(tmp_path: Path, *sent: str, **other: Any) -> Path:
    """Answers to u-1 as they are archived, each by a worker of its own."""
    path = tmp_path / "answers.jsonl"
    rows = [mturk.Fetched("u-1", "3H", f"3A{n}", f"A{n}", "Submitted", NOON, NOON, xml) for n, xml in enumerate(sent)]
    path.write_bytes(b"".join(msgspec.json.encode(msgspec.structs.replace(row, **other)) + b"\n" for row in rows))
    return path


def posted(**fields: str) -> str:
    """What the page of u-1 sends, with some fields put in."""
    page = {"ctxr_unit": "u-1", "ctxr_slot": "0", "ctxr_seal": sheet(unit(), 0, PROTOCOL.seed).seal, "pick": IMAGES[0]}
    answers = "".join(
        f"<Answer><QuestionIdentifier>{name}</QuestionIdentifier><FreeText>{value}</FreeText></Answer>"
        for name, value in (page | fields).items()
    )
    return f"<QuestionFormAnswers>{answers}</QuestionFormAnswers>"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (posted(ctxr_seal="0" * 16), "other_page"),
        (posted(ctxr_unit="u-2"), "other_page"),
        (posted(ctxr_unit="nowhere"), "other_page"),
        ("", "other_page"),
        ("<a>", "unreadable"),
        (posted(pick="&#x0B;"), "unreadable"),
        ('<!DOCTYPE a [<!ENTITY e SYSTEM "file:///etc/passwd">]><a>&e;</a>', "unreadable"),
    ],
)
def test_what_a_worker_sends_is_refused_alone(sent: str, code: str, tmp_path: Path) -> None:
    read = mturk.answers(
        archive(tmp_path, posted(), sent, posted()), {"u-1": unit(), "u-2": unit("u-2")}, PROTOCOL, KEY
    )
    assert [(refusal.where, refusal.code) for refusal in read.refused] == [("answers.jsonl:2", code)]
    assert [row.where for row in read.rows] == ["answers.jsonl:1", "answers.jsonl:3"]


@pytest.mark.parametrize("loose", ["5", "null", "[5]", '{"a":1}', "[{},{}]", "[" * 9999])
def test_answers_of_foreign_form_elements_that_are_none_say_nothing(loose: str, tmp_path: Path) -> None:
    read = mturk.answers(archive(tmp_path, posted(taskAnswers=loose)), {"u-1": unit()}, PROTOCOL, KEY)
    assert [row.answer.values for row in read.rows] == [{"pick": (IMAGES[0],)}]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"unit": "u-9"}, "'u-9' .*export"),
        ({"unit": ""}, "'' .*export"),
        ({"SubmitTime": datetime.max.replace(tzinfo=timezone(timedelta(hours=-8)))}, "value out of"),
    ],
)
def test_what_the_requester_holds_stops_everything(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=rf"answers\.jsonl:1: .*{message}"):
        mturk.answers(archive(tmp_path, posted(), **change), {"u-1": unit()}, PROTOCOL, KEY)


def test_a_rejected_assignment_is_not_taken(tmp_path: Path) -> None:
    fake = FakeMTurk()
    rows = launched(fake, tmp_path / "hits.jsonl", unit())
    for worker in ("A1", "A2"):
        fake.work(rows["u-1"].hit, worker, {"pick": (IMAGES[0],)}, NOON, NOON + timedelta(seconds=9))
    fake.assignments[rows["u-1"].hit][0]["AssignmentStatus"] = "Rejected"
    file = tmp_path / "answers.jsonl"
    found = mturk.fetch(fake, rows.values())
    file.write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in found))
    read = mturk.answers(file, {"u-1": unit()}, PROTOCOL, KEY)
    assert [refusal.code for refusal in read.refused] == ["rejected"]
    assert [(row.answer.values, row.answer.seconds) for row in read.rows] == [({"pick": (IMAGES[0],)}, 9.0)]
