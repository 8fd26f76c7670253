import itertools
import json
import shutil
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from ctxr.annotation.answers import REFUSED
from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.platforms.arrivals import Refusal
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import DroppedText, Reported
from ctxr.annotation.unit_factory import describe_units, repeat_units, tag_units
from ctxr.annotation.votes import decide_picks, picks_of
from ctxr.cli.app import app
from ctxr.datasets.open import read_dataset
from ctxr.datasets.readers.artifact import read_artifact
from ctxr.engine.report import share_with_interval
from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.metrics.agreement import alpha
from ctxr.metrics.votes import gather
from ctxr.models.hub import STAND_INS
from ctxr.pipelines.crowd.aggregate import run
from ctxr.pipelines.crowd.config import Aggregate, AggregateReport
from ctxr.pipelines.crowd.people import Worker, author_skills, certificate, people
from ctxr.pipelines.crowd.validation import Validation
from ctxr.store.artifacts import Content, finish, open_artifact
from ctxr.store.records import Dialogue, Record, Turn
from ctxr.store.tables import PAYLOADS, Owner, PayloadTable, read_table, write_table
from tests.exports import export
from tests.pipelines.crowd.answered import add, answer, base_of, crowd, merged, write
from tests.pipelines.report_artifacts import project

FEW = 50  # resamples


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return project(tmp_path_factory.mktemp("project") / "work", videos=6, sets=8, photos=30)


@pytest.fixture(scope="module")
def answered(work: Path) -> AggregatedAnswers:
    return crowd(work / "filtered", Protocol())


def aggregated(out: Path, answered: AggregatedAnswers) -> Aggregate:
    return Aggregate(input=write(out.parent, answered), out=out, workdir=out.parent, resamples=FEW)


@pytest.fixture(scope="module")
def report(answered: AggregatedAnswers, tmp_path_factory: pytest.TempPathFactory) -> AggregateReport:
    """Of all answers, aggregated once."""
    return run(aggregated(tmp_path_factory.mktemp("aggregated") / "dataset", answered))


def test_the_card_of_a_dataset_names_the_encoder_that_picked_its_sets_and_what_it_is_not(
    answered: AggregatedAnswers, report: AggregateReport, tmp_path: Path
) -> None:
    assert open_artifact(report.dataset).manifest.models == open_artifact(answered.root).manifest.models
    card = (export(report.dataset, tmp_path / "out", "webdataset").export / "README.md").read_text(encoding="utf-8")
    assert "0.15 (encoder ctxr-tiny)" in card.replace("\\", "")
    assert STAND_INS["ctxr-tiny"] in card


def test_a_dataset_is_read_with_the_dialogues_of_its_queries(answered: AggregatedAnswers, tmp_path: Path) -> None:
    run(aggregated(tmp_path / "plain", answered))
    assert not (tmp_path / "plain" / "dialogues.jsonl").exists()
    kept = sorted(read_dataset(tmp_path / "plain").queries)[:2]
    talks = [Dialogue(name, "unit", "photo", ("w1", "w2"), (Turn(1, "Which?"),), None) for name in (*kept, "dropped")]
    report = run(aggregated(tmp_path / "dataset", replace(answered, dialogues=tuple(talks))))
    dataset = read_dataset(tmp_path / "dataset")
    assert [dataset.payload("query", name) for name in kept] == [{"dialogues": [talk]} for talk in talks[:2]]
    assert report.counts["dialogues"] == len(dataset.payloads["dialogues"]) == 2


class Note(Record, frozen=True):
    id: str


def test_any_payload_table_of_the_sets_is_kept_for_what_remains(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = shutil.copytree(work / "filtered", tmp_path / "sets")
    whole, manifest = read_artifact(sets), open_artifact(sets).manifest
    rows: dict[Owner, list[str]] = {"image": [*whole.images], "image_set": [one.id for one in whole.sets]}
    for of, ids in rows.items():
        monkeypatch.setitem(PAYLOADS, f"{of}_notes", PayloadTable(Note, of=of))
        write_table(sets / f"{of}_notes.jsonl", map(Note, ids))
    content = Content([*manifest.files, *(f"{of}_notes.jsonl" for of in rows)], manifest.counts, manifest.models)
    finish(sets, kind="image_sets", verb=manifest.verb, config={}, parents=[], content=content)
    report = run(aggregated(tmp_path / "dataset", crowd(sets, Protocol())))
    made = read_dataset(report.dataset)
    kept = {name: {row.key()[0] for row in table} for name, table in made.payloads.items()}
    assert kept == {"image_notes": set(made.images), "image_set_notes": {one.id for one in made.sets}}
    assert report.counts["image_notes"] == len(made.images) < len(whole.images)


def test_the_dataset_holds_what_the_paper_would_keep_and_nothing_else(
    answered: AggregatedAnswers, report: AggregateReport
) -> None:
    right: Counter[str] = Counter()
    for row in answered.judgments:  # counted again, from the rows alone
        gold = {one.query: one.candidate for one in answered.judgments if one.worker == "gold"}
        right[row.query] += row.worker != "gold" and gold[row.query] == row.candidate
    needed = {unit.query: 1 if unit.split == "train" else 2 for unit in answered.units.values() if unit.query}
    kept = {query for query, count in right.items() if count >= needed[query]}
    dataset = read_dataset(report.dataset)
    assert set(dataset.queries) == kept
    assert 20 < len(kept) < len(answered.queries)
    dropped = read_table(report.dataset / "dropped.jsonl", DroppedText)
    assert {row.query for row in dropped} == {query.id for query in answered.queries} - kept
    assert all(row.text and row.author for row in dropped)
    assert report.counts["queries"] == len(kept)
    # it stands on its own
    assert all((report.dataset / image.path).is_file() for image in dataset.images.values())
    assert {query.id for query, _, _ in dataset.targets()} == set(dataset.queries)
    assert {row.worker.partition("@")[0] for row in dataset.judgments if row.worker.startswith("aggregate")} == {
        "aggregate:paper"
    }
    assert set(dataset.splits) == {one.group for one in dataset.sets}
    assert dataset.sources


def test_the_same_again_changes_nothing(answered: AggregatedAnswers, report: AggregateReport) -> None:
    before = {path: path.read_bytes() for path in report.dataset.glob("*.json*")}
    again = run(aggregated(report.dataset, answered))
    assert (report.up_to_date, again.up_to_date) == (False, True)
    assert {path: path.read_bytes() for path in report.dataset.glob("*.json*")} == before
    assert again.tables == report.tables


def test_figures_on_every_basis_stand_side_by_side(answered: AggregatedAnswers, report: AggregateReport) -> None:
    figures = json.loads((report.dataset / "figures.json").read_text())
    video = {
        (row["basis"], row["level"], row["on"]): row["value"] for row in figures["agreement"] if row["kind"] == "video"
    }
    assert ("all votes", "interval", "positions") in video
    assert ("accepted only", "nominal", "image ids") in video
    assert video["accepted only", "nominal", "image ids"] > video["all votes", "nominal", "image ids"]
    assert not any(row["level"] == "interval" for row in figures["agreement"] if row["kind"] == "photos")
    accuracy = {(row["kind"], row["basis"]): row["value"] for row in figures["accuracy"]}
    picks = picks_of(answered)
    assert accuracy["all", "all votes"] == pytest.approx(sum(one.right for one in picks) / len(picks))
    assert accuracy["all", "accepted only"] > accuracy["all", "all votes"]
    assert any("(optimistic)" in str(row) for row in report.tables["agreement"].rows)
    for side in {pick.unit.split for pick in picks}:
        votes = [pick.right for pick in picks if pick.unit.split == side]
        (row,) = [row for row in figures["accuracy"] if (row["kind"], row["basis"]) == (side, "all votes")]
        assert (row["votes"], row["right"]) == (len(votes), sum(votes))


def test_a_set_counts_where_the_first_vote_on_each_of_its_descriptions_is_right(
    answered: AggregatedAnswers, report: AggregateReport
) -> None:
    wrong, seen = set(), set()
    for pick in (one for one in picks_of(answered) if one.first and one.unit.split == "test"):
        seen.add(pick.unit.image_set)
        wrong |= set() if pick.right else {pick.unit.image_set}
    figures = json.loads((report.dataset / "figures.json").read_text())["accuracy"]
    sets = {(row["kind"], row["basis"]): row["sets"] for row in figures}
    found = sets["test", "first votes"]
    assert (found["clusters"], found["value"]) == (len(seen), pytest.approx(1 - len(wrong) / len(seen)))
    assert sets["test", "all votes"]["value"] is None
    rows = {row[0]: row[1:] for row in report.tables["summary"].rows}
    assert rows["all of a set, test"] == (share_with_interval(found), f"% of {len(seen)} sets")
    assert rows["chance"] == ("25.0", "%")  # sets of four
    assert {"accuracy, test", "kept", "agreement, video"} <= rows.keys()


def test_aggregate_prints_a_summary_and_with_full_every_table(answered: AggregatedAnswers, tmp_path: Path) -> None:
    given = ["--input", str(write(tmp_path, answered)), "--out", str(tmp_path / "dataset"), "--resamples", str(FEW)]
    short, full = (CliRunner().invoke(app, ["aggregate", *given, *form]).stdout for form in ([], ["--full"]))
    assert max(map(len, short.partition("notes")[0].splitlines())) <= 80
    assert ("all of a set, test" in short, "Krippendorff's alpha\n" in short) == (True, False)
    assert all(title in full for title in ("Human accuracy", "Position bias"))


def test_spammers_are_found_and_careful_workers_are_not(report: AggregateReport) -> None:
    rows = {row.worker: row for row in read_table(report.dataset / "workers.jsonl", Worker)}
    assert rows["w-spammer"].suggestion == "block"
    assert not any(row.suggestion == "block" for name, row in rows.items() if name.startswith("w-careful"))
    found = {name: row.found.mean for name, row in rows.items() if row.found}
    assert found["w-spammer"] == min(found.values())


def test_authors_are_judged_by_others_and_text_by_text(answered: AggregatedAnswers) -> None:
    pick = picks_of(answered)[0]
    picks = [
        replace(
            pick,
            unit=msgspec.structs.replace(pick.unit, id=text),
            describer=author,
            worker=picker,
            right=right,
        )
        for text, author, picker, right in (
            ("a1", "ann", "bob", True), ("a1", "ann", "cid", True), ("a1", "ann", "ann", True),
            ("a2", "ann", "bob", False), ("b1", "bob", "ann", True), ("b1", "bob", "cid", False), ("b2", "bob", "bob", True),
        )
    ]  # fmt: skip
    skills = author_skills(picks)
    assert {author: (skill.right, skill.votes) for author, skill in skills.items()} == {"ann": (1, 2), "bob": (0.5, 1)}


def test_votes_of_blocked_workers_do_not_count_and_what_they_wrote_falls(answered: AggregatedAnswers) -> None:
    picks = picks_of(answered)
    free, blocked = decide_picks(picks, "paper", ()), decide_picks(picks, "paper", ("w-spammer",))
    wrote = {one.unit.id for one in picks if one.describer == "w-spammer"}
    assert wrote
    assert {blocked[name].reason for name in wrote} == {"writer_blocked"}
    voted = {one.unit.id for one in picks if one.worker == "w-spammer"}
    assert any(free[name].wrong > blocked[name].wrong for name in voted)
    assert all(free[name].right == blocked[name].right for name in free.keys() - voted)


def test_the_kept_share_leaves_out_what_blocked_workers_wrote(answered: AggregatedAnswers) -> None:
    picks = picks_of(answered)
    blocked = ("w-spammer",)
    decisions = decide_picks(picks, "paper", blocked)
    shown = Validation(answered, picks, decisions, blocked).kept_table().rows[0]
    reasons = Counter(decision.reason for decision in decisions.values())
    assert reasons["writer_blocked"]
    assert shown[1:4] == (len(decisions), sum(one.right + one.wrong for one in decisions.values()), reasons[None])
    assert str(shown[4]).startswith(f"{reasons[None] / (reasons[None] + reasons['not_found']):.3f} ")


def test_majority_is_what_counting_by_hand_gives_and_a_tie_stays_a_tie(answered: AggregatedAnswers) -> None:
    votes: dict[str, Counter[str]] = defaultdict(Counter)
    for pick in picks_of(answered):
        votes[pick.unit.id][pick.picked] += 1
    found = decide_picks(picks_of(answered), "majority", ())
    assert found.keys() == votes.keys()
    for unit, counter in votes.items():
        (first, most), *rest = counter.most_common(2)
        right = None if first in answered.units[unit].truth else "not_found"
        assert found[unit].reason == ("tie" if rest and rest[0][1] == most else right)
    assert {row.reason for row in found.values()} == {None, "not_found", "tie"}


def test_the_certificate_names_who_was_seen_in_train(answered: AggregatedAnswers) -> None:
    found = certificate(answered, "partly")
    work = [(one.worker, answered.units[one.unit]) for one in answered.answers]
    train = {worker for worker, unit in work if (unit.split, unit.task) == ("train", "describe")}
    for name, row in found.queries.items():
        (author,) = {text.author for text in answered.texts if text.id == name}
        assert row["describer"] == ("train_worker" if author in train else "unseen_worker")
    assert found.workers["both"] == len(found.shared_workers)


def test_an_assignment_that_breaks_a_rule_is_named(answered: AggregatedAnswers) -> None:
    retrieval = next(unit for unit in answered.units.values() if unit.task == "retrieve" and unit.split == "train")
    own = add(answered, (), [answer(retrieval, retrieval.authors[0], 9, 9000, {"pick": retrieval.truth})])
    said = certificate(own, "wholly").violations
    assert any("their own work" in line for line in said)
    assert any("were asked for" in line for line in said)
    assert not any("at most" in line for line in certificate(own, "wholly", retrieval.authors).violations)
    assert any("validation or test" in line for line in said)
    described = next(row for row in answered.answers if answered.units[row.unit].task == "describe")
    done = {row.unit for row in answered.answers if row.worker == described.worker}
    other = next(
        unit
        for unit in answered.units.values()
        if (unit.task, unit.image_set) == ("retrieve", answered.units[described.unit].image_set)
        and described.worker not in unit.authors
        and unit.id not in done
    )
    met = add(answered, (), [answer(other, described.worker, 9, 9001, {"pick": other.truth})])
    assert any("meeting its images" in line for line in certificate(met, "partly").violations)
    # another set that shows a copy of one of these pictures
    contents = {name: image.sha256 for name, image in answered.images.items()}
    shown = {*other.pictures(contents).values()}
    retrievals = [unit for unit in answered.units.values() if unit.task == "retrieve"]
    far = next(unit for unit in retrievals if shown.isdisjoint(unit.pictures(contents).values()))
    copied = msgspec.structs.replace(answered.images[far.images[0]], sha256=answered.images[other.images[0]].sha256)
    for images, count in ((answered.images, 0), ({**answered.images, copied.id: copied}, 1)):
        seen = [
            answer(other, "w-new", 9, 9002, {"pick": other.truth}),
            answer(far, "w-new", 9, 9003, {"pick": far.truth}),
        ]
        violations = certificate(replace(add(answered, (), seen), images=images), "none").violations
        assert sum(f"w-new judged {far.id} after" in line for line in violations) == count


def test_a_broken_rule_of_assignment_is_a_finding_beside_the_whole_result(
    answered: AggregatedAnswers, tmp_path: Path
) -> None:
    retrieval = next(unit for unit in answered.units.values() if unit.task == "retrieve" and unit.split == "train")
    own = add(answered, (), [answer(retrieval, retrieval.authors[0], 9, 9000, {"pick": retrieval.truth})])
    given = ["--input", str(write(tmp_path, own)), "--out", str(tmp_path / "dataset"), "--resamples", str(FEW)]
    shown, as_json = (CliRunner().invoke(app, ["aggregate", *given, *form]) for form in ([], ["--json"]))
    for result in (shown, as_json):
        assert result.exit_code == 5
        assert "violations of the" in result.stderr
    assert len(read_dataset(tmp_path / "dataset").queries) > 20
    assert "their own work" in shown.stdout
    assert any("their own work" in line for line in json.loads(as_json.stdout)["violations"])


def test_tags_become_label_queries_with_agreement_for_each_tag(
    answered: AggregatedAnswers, report: AggregateReport, tmp_path: Path
) -> None:
    units = tag_units(read_dataset(report.dataset), ("context", "spatial"), votes=2)[:12]
    answers = []
    for number, unit in enumerate(units):
        for slot, worker in enumerate(("w-careful1", "w-careful2")):
            tags = ("spatial",) if slot == 0 or number % 3 else ("none",)
            answers.append(answer(unit, worker, slot, 5000 + 2 * number + slot, {"tags": tags}))
    tagged_report = run(aggregated(tmp_path / "dataset", add(answered, units, answers)))
    dataset = read_dataset(tmp_path / "dataset")
    tagged = [query for query in dataset.queries.values() if query.labels]
    assert len(tagged) == 12
    rows = {row[1]: row for row in tagged_report.tables["labels"].rows}
    assert rows["spatial"][3] == 24
    ties = {unit.query for number, unit in enumerate(units) if number % 3 == 0}
    decided = {
        row.query for row in dataset.judgments if row.worker == "aggregate:majority" and row.candidate == "spatial"
    }
    assert decided == {unit.query for unit in units} - ties


def test_reasons_against_the_wording_check_are_shown(answered: AggregatedAnswers, tmp_path: Path) -> None:
    first = next(one for one in answered.answers if answered.units[one.unit].task == "describe")
    reasoned = msgspec.structs.replace(first, values={**first.values, "reason": ("a sign says so",)})
    answers = tuple(reasoned if one == first else one for one in answered.answers)
    report = run(aggregated(tmp_path / "dataset", replace(answered, answers=answers)))
    assert [(row[1], row[3]) for row in report.tables["overruled"].rows] == [(first.worker, "a sign says so")]


def test_what_workers_reported_is_listed_and_counts_as_what_it_is(
    answered: AggregatedAnswers, report: AggregateReport, tmp_path: Path
) -> None:
    told = {"broken": {"problem": ("broken",)}, "cannot": {"problem": ("cannot_tell",), "comment": ("two fit",)}}
    votes = [row for row in answered.answers if answered.units[row.unit].task == "retrieve"]
    several = [name for name, count in Counter(row.unit for row in votes).items() if count > 1]
    lost, vague, only = several[0], several[1], next(row.unit for row in votes if row.unit not in several)
    changed = {
        "broken": [row for row in votes if row.unit in (lost, only)],
        "cannot": [row for row in votes if row.unit == vague][:1],
    }
    values = {row.key(): told[name] for name, rows in changed.items() for row in rows}
    rows = [msgspec.structs.replace(row, values=values.get(row.key(), row.values)) for row in answered.answers]
    reported = merged(answered, answered.units.values(), rows)
    picks = picks_of(reported)
    assert lost not in {pick.unit.id for pick in picks}
    (pick, *_) = [pick for pick in picks if pick.unit.id == vague]
    assert (pick.picked, pick.right, pick.shown, pick.position, pick.first) == ("cannot_tell", False, -1, -1, True)
    result = run(aggregated(tmp_path / "dataset", reported))
    listed = {
        (row.unit, row.worker): (row.task, row.code, row.comment)
        for row in read_table(result.dataset / "reported.jsonl", Reported)
    }
    codes = {"broken": ("retrieve", "broken", ""), "cannot": ("retrieve", "cannot_tell", "two fit")}
    assert listed == {row.key(): codes[name] for name, chosen in changed.items() for row in chosen}
    assert len(result.tables["reported"].rows) == len(listed)
    dropped = {row.query: row.reason for row in read_table(result.dataset / "dropped.jsonl", DroppedText)}
    reasons = {name: dropped.get(answered.units[name].query or "") for name in (lost, only)}
    assert reasons == {lost: "broken", only: "not_asked"}
    assert result.violations == report.violations
    # a category of its own in alpha, and no position in habits
    nominal, *_ = Validation(reported, picks, decide_picks(picks, "paper", ()), resamples=FEW).agreements()
    unsure = [pick for pick in picks if pick.kind == nominal["kind"]]
    assert (
        nominal["votes"]
        == alpha(gather(*zip(*((pick.unit.id, pick.worker, pick.picked) for pick in unsure), strict=True))).votes
    )
    habits = Validation(reported, picks, {}, resamples=FEW).habits()
    assert sum(row["bias"]["votes"] for row in habits) == len(picks) - 1


def test_labels_are_a_vote_without_where_a_worker_cannot_tell(answered: AggregatedAnswers) -> None:
    shown = next(iter(answered.units.values()))
    asked = {"task": "tag", "labels": ("context", "spatial"), "truth": ()}
    units = [msgspec.structs.replace(shown, id=f"tag-{one}", query=f"tag/{one}", **asked) for one in "ab"]
    given = [
        answer(one, worker, slot, slot, values)
        for one in units
        for slot, (worker, values) in enumerate(
            [("w1", {"tags": ("context",)}), ("w2", {"tags": ("context",)}), ("w3", {"problem": ("cannot_tell",)})]
        )
    ]
    rows = {row["label"]: row for row in Validation(merged(answered, units, given), [], {}).label_agreements()}
    assert {label: row["votes"] for label, row in rows.items()} == {"context": 4, "all labels": 6}
    assert rows["all labels"]["value"] < 0


def test_a_second_look_changes_no_decision(answered: AggregatedAnswers) -> None:
    repeats = repeat_units(answered.units.values(), answered.answers, 1.0, Protocol())
    looked = [answer(one, "w-second", 0, 7000 + n, {"pick": (one.images[0],)}) for n, one in enumerate(repeats)]
    again = add(answered, repeats, looked)
    assert decide_picks(picks_of(again), "paper", ()) == decide_picks(picks_of(answered), "paper", ())


def test_a_second_look_is_held_against_the_first(answered: AggregatedAnswers) -> None:
    repeats = repeat_units(answered.units.values(), answered.answers, 1.0, Protocol())
    said = {
        one.unit: one.values for one in sorted(answered.answers, key=lambda one: (one.at, one.worker), reverse=True)
    }
    same = [answer(one, "w-second", 0, 7000 + n, said[one.of or ""]) for n, one in enumerate(repeats)]
    found = Validation(add(answered, repeats, same), picks_of(answered), {}).coefficients()
    rows = {(row["of"], row["name"]): (row["value"], row["units"]) for row in found}
    assert rows["second looks, retrieve", "Cohen's kappa"] == (pytest.approx(1.0), len(repeats))
    assert 0 < rows["video", "Fleiss' kappa"][0] < rows["video", "Gwet's AC1"][0] < 1


def test_a_description_that_all_others_missed_says_nothing_of_a_worker(answered: AggregatedAnswers) -> None:
    picks = picks_of(answered)
    worker = max({pick.worker for pick in picks}, key=[pick.worker for pick in picks].count)
    asked = {pick.unit.id for pick in picks if pick.worker == worker}
    asked &= {pick.unit.id for pick in picks if pick.worker != worker}
    suggested = {}
    for others, own, alone in itertools.product((False, True), repeat=3):
        told = [
            replace(one, right=own if one.worker == worker else others)
            for one in picks
            if one.unit.id in asked and (one.worker == worker or not alone)
        ]
        rows = people(answered, told, (), 0.8, 0.5)
        suggested[others, own, alone] = next(row.suggestion for row in rows if row.worker == worker)
    for (others, right, alone), suggestion in suggested.items():
        assert suggestion == (("block", "allow")[right] if others or alone else "undecided")


def test_a_crowd_that_minds_the_place_is_told_from_one_that_does_not(answered: AggregatedAnswers) -> None:
    lazy = [replace(one, shown=0, right=False) if n % 2 else one for n, one in enumerate(picks_of(answered))]
    fair, biased = (
        [row["bias"]["p_value"] for row in Validation(answered, picks, {}).habits()]
        for picks in (picks_of(answered), lazy)
    )
    assert min(fair) > 0.01
    assert max(biased) < 0.001
    # between accuracies of 0 and 1 nobody is blocked but for the place
    blocked = [row.position_p for row in people(answered, lazy, (), 1.0, 0.0) if row.suggestion == "block"]
    assert blocked
    assert max(one or 0 for one in blocked) < 0.01


def test_a_description_that_nobody_has_voted_on_waits(work: Path, tmp_path: Path) -> None:
    base = base_of(work / "filtered")
    units = describe_units(read_artifact(work / "filtered"), Protocol())[:2]
    answers = [answer(one, "w-a", 0, n, {"description": (f"text number {n} of this",)}) for n, one in enumerate(units)]
    report = run(aggregated(tmp_path / "dataset", merged(base, units, answers)))
    assert report.counts["queries"] == 0
    assert report.counts["dropped"] == {"not_asked": 2}


def test_a_picture_that_is_gone_is_named(answered: AggregatedAnswers, tmp_path: Path) -> None:
    lost = msgspec.structs.replace
    images = {name: lost(image, path="images/nowhere.jpg") for name, image in answered.images.items()}
    broken = AggregatedAnswers(**{**vars(answered), "images": images})
    with pytest.raises(DataError, match="is gone"):
        run(aggregated(tmp_path / "dataset", broken))
    with pytest.raises(UnfinishedError, match="dataset"):
        open_artifact(tmp_path / "dataset")


def test_an_accuracy_that_blocks_and_allows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--poor 0\.9"):
        run(Aggregate(workdir=tmp_path, poor=0.9))


def test_without_answers_there_is_nothing_to_aggregate(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError, match="no finished tasks") as caught:
        run(Aggregate(workdir=tmp_path))
    assert caught.value.hint.startswith("ctxr export-tasks describe")


def test_pictures_that_are_kept_no_more_go(answered: AggregatedAnswers, tmp_path: Path) -> None:
    config = aggregated(tmp_path / "dataset", answered)
    run(config)
    before = set((tmp_path / "dataset" / "images").rglob("*.jpg"))
    few = {name: unit for name, unit in answered.units.items() if unit.group == "clip0"}
    fewer = merged(answered, few.values(), [one for one in answered.answers if one.unit in few])
    run(aggregated(tmp_path / "dataset", fewer))
    dataset = read_dataset(tmp_path / "dataset")
    there = {path for path in (tmp_path / "dataset" / "images").rglob("*") if path.is_file()}
    assert there == {tmp_path / "dataset" / image.path for image in dataset.images.values()}
    assert 0 < len(there) < len(before)
    assert not [
        path for path in (tmp_path / "dataset" / "images").rglob("*") if path.is_dir() and not any(path.iterdir())
    ]


def test_refused_answers_are_counted_by_reason(answered: AggregatedAnswers, tmp_path: Path) -> None:
    source = write(tmp_path, answered)
    write_table(source / REFUSED, [Refusal(f"file:{row}", "u", f"w-{row}", "enough", "No.") for row in (1, 2)])
    command = ["aggregate", "--input", str(source), "--out", str(tmp_path / "dataset"), "-w", str(tmp_path)]
    shown, as_json = (CliRunner().invoke(app, [*command, "--resamples", "20", *form]) for form in ([], ["--json"]))
    assert "enough 2" in shown.stdout
    assert json.loads(as_json.stdout)["refused"] == {"enough": 2}


def test_the_full_share_is_complete_with_every_vote_and_not_before(work: Path) -> None:
    every = crowd(work / "filtered", Protocol(full_share=1.0))
    picks = picks_of(every)
    unit = next(pick.unit for pick in picks if pick.unit.full)
    (last, *others) = (row for row in every.answers if row.unit == unit.id)
    fewer = replace(every, answers=tuple(row for row in every.answers if row != last))
    unasked = replace(every, answers=tuple(row for row in every.answers if row.unit != unit.id))
    complete = [Validation(some, picks_of(some), {}).is_full_share_complete() for some in (every, fewer, unasked)]
    assert complete == [True, False, False]
    assert not Validation(every, picks, {}, (others[0].worker,)).is_full_share_complete()
