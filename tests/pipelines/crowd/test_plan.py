from math import ceil
from pathlib import Path

import pytest

from ctxr.annotation.journal.results import UnpaidWait
from ctxr.annotation.owed import owed_table
from ctxr.annotation.records import Answer, Unit
from ctxr.errors import UnfinishedError, UsageError
from ctxr.pipelines.crowd.config import Plan
from ctxr.pipelines.crowd.plan import run
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.tables import write_table
from tests.annotation.crowd_units import unit
from tests.pipelines.report_artifacts import project


def planned(work: Path, **more: object) -> Plan:
    return Plan(workdir=work, **more)  # type: ignore[arg-type]


def write_pilot(work: Path, units: list[Unit], answers: list[Answer]) -> None:
    folder = work / "judgments"
    folder.mkdir()
    write_table(folder / "units.jsonl", units)
    write_table(folder / "answers.jsonl", answers)
    content = Content(["units.jsonl", "answers.jsonl"], {}, {})
    finish(folder, kind="judgments", verb="import-answers", config={}, parents=[], content=content)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return project(tmp_path / "work", photos=0)


def test_a_plan_counts_what_three_targets_of_each_set_take(work: Path) -> None:
    report = run(planned(work, right=1.0, full_share=0.0, targets=2))
    sets = sum(report.sets.values())
    describe, retrieve = report.forecasts
    assert describe.votes == 2 * sets
    train = report.sets.get("train", 0)
    assert retrieve.votes == pytest.approx(2 * train + 2 * 2 * (sets - train))
    assert report.kept == pytest.approx(2 * sets)
    assert report.people["eval"] == 2 + 2 * 3
    assert report.people["all"] >= max(report.people[pool] for pool in ("train", "eval"))
    assert report.cost == describe.cost + retrieve.cost
    assert open_artifact(work / "plan", "plan").manifest.counts["cost"] == report.cost
    assert (describe.task, retrieve.task) == ("describe", "retrieve")


def test_sets_that_share_pictures_take_more_people_and_the_plan_says_so(tmp_path: Path) -> None:
    work = project(tmp_path, videos=1, sets=1, photos=12)
    report = run(planned(work, targets=1))
    # a set of four photos shares some with six others, each with a writer and a vote
    assert report.people["train"] == 7 * 2
    assert report.people["eval"] == 4
    (note,) = [note for note in report.notes if "share pictures" in note]
    assert note.startswith("12 of 13 sets ")


def test_places_on_prolific_suffice_for_people_who_judge_a_set_once(work: Path) -> None:
    """Three descriptions of a set, three votes each: no two of nine votes, nor a writer's, are one person's."""
    paid = {"platform": "prolific", "fee_percent": 30.0, "disjoint": "none"}
    report = run(planned(work, **paid, per_submission=6))
    describe, retrieve = (row.offer for row in report.forecasts)
    assert describe is not None
    assert retrieve is not None
    sets = sum(report.sets.values())
    assert (describe.places, describe.short) == (-(-3 * sets // 6), (3 * sets % 6) > 0)
    assert retrieve.places >= 9
    assert retrieve.total == retrieve.places * retrieve.pay
    assert [note for note in report.notes if note.startswith("retrieve: ")] == [f"retrieve: {retrieve.shortage}"]


def test_money_is_rounded_up_once(work: Path) -> None:
    retrieve = run(planned(work, right=0.7, fee_percent=20.0, retrieve_reward=7)).forecasts[1]
    rewards = retrieve.votes * 7
    assert rewards % 1
    assert (retrieve.fee, retrieve.cost) == (ceil(rewards / 5), ceil(rewards) + ceil(rewards / 5))
    assert retrieve.hours == pytest.approx(retrieve.votes * retrieve.seconds / 3600)


def test_what_is_assumed_is_said(work: Path) -> None:
    notes = run(planned(work)).notes
    assert [" ".join(note.split()[:2]) for note in notes] == ["no describe", "no retrieve", "no retrieval"]  # fmt: skip


def test_a_pilot_replaces_assumptions_by_medians(work: Path) -> None:
    units = [unit("retrieve", id=f"retrieve-{number}", truth=("clip/img3",)) for number in range(3)]
    picks = ("clip/img3", "clip/img3", "clip/img4")
    answers = [
        Answer(one.id, "w-a", {"pick": (pick,)}, one.images, 0, "2026-01-01T00:00:00Z", seconds, "local")
        for one, pick, seconds in zip(units, picks, (20.0, 24.0, 90.0), strict=True)
    ]
    write_pilot(work, units, answers)
    report = run(planned(work))
    assert (report.forecasts[1].seconds, report.forecasts[1].measured) == (24.0, 3)
    assert report.right == pytest.approx(2 / 3)


def test_the_accuracy_of_a_pilot_is_that_of_first_votes(work: Path) -> None:
    units = [unit("retrieve", id=f"retrieve-{number}", truth=("clip/img3",), most=3) for number in range(2)]
    votes = ((0, "b", "img3", 0), (1, "a", "img3", 5), (1, "b", "img4", 1), (1, "c", "img3", 6))
    answers = [
        Answer(units[row].id, who, {"pick": (f"clip/{pick}",)}, (), 0, f"2026-01-01T00:00:0{second}Z", 9.0, "local")
        for row, who, pick, second in votes
    ]
    write_pilot(work, units, answers)
    assert run(planned(work)).right == 0.5


def test_pay_below_the_floor_is_refused_and_nothing_written(work: Path) -> None:
    with pytest.raises(UsageError, match=r"floor of 8\.00") as caught:
        run(planned(work, retrieve_seconds=60.0))
    assert caught.value.hint == "--retrieve-reward 14"
    assert not (work / "plan" / "manifest.json").exists()


def test_checks_of_the_workers_are_paid_too(work: Path) -> None:
    plain, checked = (run(planned(work, gold_every=every)).forecasts[1].votes for every in (0, 5))
    assert checked == pytest.approx(plain * 1.25)


def test_without_sets_there_is_nothing_to_plan(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="finished image sets"):
        run(planned(tmp_path))


def test_checks_of_the_workers_are_no_pilot(work: Path) -> None:
    check = unit("retrieve", id="retrieve-check", truth=("clip/img3",), purpose="attention")
    answer = Answer(check.id, "w-a", {"pick": ("clip/img3",)}, check.images, 0, "2026-01-01T00:00:00Z", 2.0, "local")
    write_pilot(work, [check], [answer])
    report = run(planned(work))
    assert (report.forecasts[1].measured, report.right) == (0, 0.735)


def test_waiting_is_paid_at_the_planned_floor_which_holds_on_prolific_too(work: Path) -> None:
    paid = {"platform": "prolific", "fee_percent": 30.0, "describe_reward": 275, "describe_seconds": 75.0}
    assert run(planned(work, **paid)).floor == 600
    waits = [UnpaidWait("w-a", "talk", "nobody_came", 3600.0, "")]
    assert owed_table(work, {}, (), waits, {}).rows == (("w-a", "local", 0, 60.0, 8.0, "USD"),)
    with pytest.raises(UsageError, match=r"floor of 9\.00"):
        run(planned(work, **paid, floor=900))
    run(planned(work, floor=500))
    assert owed_table(work, {}, (), waits, {}).rows == (("w-a", "local", 0, 60.0, 5.0, "USD"),)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [({"platform": "prolific"}, "on your account"), ({"right": 1.5}, "--right 1.5 is out"),
     ({"fee_percent": -5.0}, "--fee-percent -5.0 is out"), ({"floor": -1}, "--floor -1 is out"),
     ({"describe_seconds": -4.0}, "--describe-seconds -4.0 is out")],
)  # fmt: skip
def test_figures_that_cannot_be_are_refused(work: Path, wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(planned(work, **wrong))


def test_larger_studies_have_narrower_intervals_and_resolve_smaller_differences(tmp_path: Path) -> None:
    wide, narrow = (run(planned(tmp_path, target_ci=width)) for width in (20.0, 10.0))
    assert [size.targets for size in wide.sizes] == [1, 2, 3, 5, 8]
    for large, small in zip(narrow.sizes, wide.sizes, strict=True):
        assert large.sets > small.sets
        assert large.cost > small.cost
        assert large.width == pytest.approx(10, rel=0.05)
    assert all(size.people >= 5 for size in wide.sizes)  # fewer have no interval
    sets = [size.sets for size in narrow.sizes]
    assert sets == sorted(sets, reverse=True)


def test_both_goals_are_reached_and_the_paper_is_told_so(tmp_path: Path) -> None:
    report = run(planned(tmp_path, target_ci=12.0, resolve=8.0))
    assert all(size.width <= 12 and size.resolves <= 8 for size in report.sizes)
    own = next(size for size in report.sizes if size.targets == 3)
    assert [
        f"{own.width:.1f} points wide" in report.sentences[0],
        f"{own.resolves:.1f} points" in report.sentences[1],
    ] == [True] * 2
    assert report.size_table.rows[2][:2] == (3, own.sets)
    assert {"figures/frontier.svg", "figures/frontier.pdf"} < {*open_artifact(tmp_path / "plan", "plan").manifest.files}


def test_sizes_on_prolific_cost_its_submissions_and_fee(tmp_path: Path) -> None:
    paid = {"platform": "prolific", "fee_percent": 25.0, "target_ci": 15.0}
    size = run(planned(tmp_path, **paid)).sizes[0]
    places = [ceil(count / 20) for count in (size.descriptions, size.votes)]
    describe, retrieve = (
        planned(tmp_path, **paid).tasks(task, seconds).pay()
        for task, seconds in (("describe", 75.0), ("retrieve", 30.0))
    )
    assert size.cost == pytest.approx(1.25 * (places[0] * describe + places[1] * retrieve), abs=2)


def test_a_pilot_of_careless_people_asks_for_more_sets(tmp_path: Path) -> None:
    """Half of the people are always wrong, so votes of one person are alike."""
    units = [unit("retrieve", id=f"retrieve-{number}", truth=("clip/img3",), most=3) for number in range(40)]
    answers = [
        Answer(
            one.id,
            f"w-{(number + vote) % 8}",
            {"pick": (f"clip/img{3 + (number + vote) % 2}",)},
            (),
            vote,
            f"2026-01-01T00:00:0{vote}Z",
            9.0,
            "local",
        )
        for number, one in enumerate(units)
        for vote in range(2)
    ]
    alike = project(tmp_path / "alike", photos=0)
    write_pilot(alike, units, answers)
    careless, stated = (run(planned(alike, target_ci=20.0, agreement=given)) for given in (None, 0.55))
    assert careless.right == stated.right == 0.5
    assert careless.sizes[0].sets > 1.5 * stated.sizes[0].sets
    assert any("only 8" in note for note in careless.notes)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"target_ci": 0.1}, "50,000 descriptions"),
        ({"resolve": 5.0, "right": 0.9, "agreement": 0.5}, r"agree in 82\.0%"),
        ({"resolve": 5.0, "right": 0.0}, "no retrieval"),
        ({"target_ci": 5.0, "right": 1.0}, "every retrieval"),
        ({"target_ci": 5.0, "right": 0.8, "agreement": 1.0}, r"92\.\d% at most"),
        ({"resolve": 5.0, "model_accuracy": 0.96}, r"at 0\.96"),
        ({"target_ci": 0.0}, "target-ci"),
        ({"resolve": 101.0}, "resolve"),
    ],
)
def test_sizes_that_nothing_reaches_are_refused(tmp_path: Path, options: dict[str, float], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run(planned(tmp_path, **options).check())
