"""The report on a dataset of the project's crowd: its image sets beside it, descriptions with their votes, and people beside runs."""

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.protocol import Protocol
from ctxr.annotation.records import DroppedText
from ctxr.annotation.tasks.values import query_of
from ctxr.datasets.open import read_dataset
from ctxr.engine.progress import SILENT
from ctxr.engine.report import share_with_interval
from ctxr.metrics.votes import FIRST_VOTES
from ctxr.pipelines.crowd.aggregate import run as aggregate
from ctxr.pipelines.crowd.config import Aggregate
from ctxr.pipelines.inspection.config import Report
from ctxr.pipelines.inspection.pages.chain import load_chain
from ctxr.pipelines.inspection.pages.results import find_scored
from ctxr.pipelines.inspection.report import run
from ctxr.store.tables import read_table
from tests.pipelines.crowd.answered import crowd, write
from tests.pipelines.evaluated import at_random, evaluate, write_scores
from tests.pipelines.opened import Open, data_of
from tests.pipelines.report_artifacts import project


@pytest.fixture(scope="module")
def answered(tmp_path_factory: pytest.TempPathFactory) -> AggregatedAnswers:
    work = project(tmp_path_factory.mktemp("asked") / "work", videos=3, sets=3, photos=8)
    protocol = Protocol(targets=2, full_share=1.0, train_needed=2, train_most=3, disjoint="none")
    return crowd(work / "filtered", protocol, seed=3)


@pytest.fixture(scope="module")
def work(answered: AggregatedAnswers) -> Path:
    """A project with sets, answers, a dataset made of them, and two evaluated runs."""
    folder = answered.root.parent
    aggregate(Aggregate(input=write(folder, answered), out=folder / "dataset", workdir=folder, resamples=50))
    files = [write_scores(folder / "scores" / f"{name}.jsonl", folder / "dataset", at_random(seed), ("train", "valid", "test"))
             for seed, name in enumerate(("one", "two"))]  # fmt: skip
    evaluate(folder / "dataset", *files, workdir=folder)
    return folder


@pytest.fixture(scope="module")
def asked(work: Path) -> Path:
    return run(Report(workdir=work)).page


def votes_by_query(answered: AggregatedAnswers) -> dict[str, list[tuple[str, str]]]:
    votes: dict[str, list[tuple[str, str]]] = {}
    for answer in answered.answers:
        unit = answered.units[answer.unit]
        if unit.task == "retrieve" and unit.query:
            votes.setdefault(unit.query, []).append((answer.worker, answer.values["pick"][0]))
    return votes


def test_the_furthest_artifact_is_shown_with_what_its_image_sets_left_out(work: Path, asked: Path) -> None:
    written = run(Report(workdir=work, out=asked))
    assert [path.name for path in written.chain] == ["sets", "filtered", "dataset"]
    assert written.sets == len(read_table_of_sets(work))
    parts = re.findall(r'<section id="(\w+)"', asked.read_text(encoding="utf-8"))
    assert {"people", "results", "timelines", "dropped", "distributions"} <= set(parts)
    alone = run(Report(workdir=work, input=work / "filtered", out=work / "filtered.html")).page
    assert {"people"} == set(parts) - set(re.findall(r'<section id="(\w+)"', alone.read_text(encoding="utf-8")))


def read_table_of_sets(work: Path) -> list[object]:
    return [*read_dataset(work / "filtered").sets]


def test_every_description_has_its_votes_and_dropped_ones_their_reason(
    answered: AggregatedAnswers, work: Path, asked: Path
) -> None:
    votes, images = votes_by_query(answered), {one.id: one.images for one in answered.sets.values()}
    dropped = {row.query: row for row in read_table(work / "dataset" / "dropped.jsonl", DroppedText)}
    assert dropped
    shown = load_chain(work, None, SILENT).descriptions
    assert set(shown) == set(votes)
    for query, one in shown.items():
        places = images[one.image_set]
        assert sorted((worker, places[at]) for worker, at in one.votes) == sorted(votes[query])
        assert one.dropped == (dropped[query].reason if query in dropped else "")
    written = {query_of(one.unit, one.worker): one.worker for one in answered.answers if "description" in one.values}
    assert {query: one.author for query, one in shown.items()} == written
    rows = [row for one in data_of(asked)["sets"] for row in one["people"] or ()]
    assert sum(len(row[1]) for row in rows) == sum(map(len, votes.values()))
    assert Counter(row[2] for row in rows if row[2]) == Counter(
        row.reason.replace("_", " ") for row in dropped.values()
    )


def test_answers_that_changed_since_leave_the_votes_of_the_dataset(work: Path, tmp_path: Path) -> None:
    chain = load_chain(work, None, SILENT)
    (work / "judgments").rename(tmp_path / "judgments")
    try:
        kept = load_chain(work, None, SILENT).descriptions
    finally:
        (tmp_path / "judgments").rename(work / "judgments")
    assert kept == {query: one for query, one in chain.descriptions.items() if not one.dropped}


def test_who_missed_what_is_counted_and_leads_to_the_sets(show: Open, answered: AggregatedAnswers, asked: Path) -> None:
    tab = show(asked).tab
    votes, truth = votes_by_query(answered), {unit.query: unit.truth for unit in answered.units.values() if unit.truth}
    missed = Counter(worker for query, rows in votes.items() for worker, pick in rows if pick not in truth[query])
    for row in tab.locator("#people tbody tr").all():
        worker = row.locator("th").text_content() or ""
        assert row.locator("td").nth(2).text_content() == str(missed[worker])
        numbers = [row.locator("td").nth(at).text_content() or "" for at in (0, 1, 2, 4, 5)]
        assert [number for number in numbers if not number.isdecimal()] == []
    worker, count = missed.most_common(1)[0]
    tab.locator("#people tbody tr", has_text=worker).locator("a").click()
    expect(tab.locator("#votes")).to_have_value(worker)
    wrong = tab.locator(f".card .votes .wrong[title='{worker}']")
    total = tab.locator(".card").count()
    sets = {unit.image_set for unit in answered.units.values() if unit.query and any(
        name == worker and pick not in unit.truth for name, pick in votes.get(unit.query, ()))}  # fmt: skip
    assert total == len(sets)
    assert wrong.count() == count
    assert "votes=" in tab.url


def test_a_description_says_who_found_its_image_and_marks_what_was_picked_instead(show: Open, asked: Path) -> None:
    tab = show(asked).tab
    tab.select_option("#votes", "missed")
    card = tab.locator(".card").first
    line = card.locator(".texts li", has=tab.locator(".wrong")).first
    right, all_votes = re.findall(r"(\d+) of (\d+) found it", line.locator(".votes").text_content() or "")[0]
    assert int(right) < int(all_votes)
    card.locator(".title").click()
    expect(tab.locator("#look .strip .target")).to_have_count(1)
    target = (tab.locator("#look .strip .target .place").text_content() or "").strip()
    assert tab.locator("#look .read button").text_content() == target
    assert tab.locator("#look .strip .wrong").count() >= 1
    expect(tab.locator("#look .stage .front .flag")).to_have_text("target")
    tab.keyboard.press("f")
    expect(tab.locator("#look .stage .front .flag")).to_have_text("picked instead")


def test_people_stand_beside_the_runs_on_every_split_and_on_one_axis(show: Open, work: Path, asked: Path) -> None:
    tab, (scored,) = show(asked).tab, find_scored(work)
    panels = tab.locator("#results .scored")
    splits = [(title or "").removeprefix("Accuracy on ") for title in panels.locator("h3").all_text_contents()]
    assert len(splits) > 1
    accuracy = json.loads((work / "dataset" / "figures.json").read_text())["accuracy"]
    first = {row["kind"]: row["value"] for row in accuracy if row["basis"] == FIRST_VOTES}
    axes = []
    expect(tab.locator(".cut-off").first).to_be_hidden()
    tab.set_viewport_size({"width": 390, "height": 844})
    for at, split in enumerate(splits):
        ((name, share),) = scored.people_on(split).items()
        said = share_with_interval(vars(share))
        assert share.value == first[split]
        expect(panels.nth(at).locator(".s-people title")).to_have_text(f"{name}: {said} %")
        expect(panels.nth(at).locator(".series")).to_contain_text(f"{name}: {said} %", use_inner_text=True)
        last = panels.nth(at).locator("tbody tr").last
        assert last.locator("th, td").all_text_contents()[:2] == [name, said]
        axes.append([(line.get_attribute("x1"), text.text_content()) for line, text in zip(
            panels.nth(at).locator("line.grid").all(), panels.nth(at).locator("text.x").all(), strict=True)])  # fmt: skip
    assert all(axis == axes[0] for axis in axes)


def test_queries_are_chosen_by_what_people_and_runs_found(show: Open, asked: Path) -> None:
    tab = show(asked).tab
    tab.select_option("#r-right", "people")
    for card in tab.locator(".miss").all():
        assert card.locator(".verdict.bad").count() == 2
        assert "people" in (card.locator(".verdict.good").text_content() or "")
    tab.select_option("#r-right", "")
    expect(tab.locator(".miss").first.locator(".picked", has_text="people")).not_to_have_count(0)


def test_the_descriptions_that_were_kept_are_a_step_of_their_own(show: Open, work: Path, asked: Path) -> None:
    tab = show(asked).tab
    dropped = read_table(work / "dataset" / "dropped.jsonl", DroppedText)
    funnel = tab.locator(".funnel", has_text="Descriptions")
    written, kept = (int(text) for text in funnel.locator(".count").all_text_contents())
    assert written - kept == len(dropped)
    funnel.locator(".lost a").first.click()
    expect(tab.locator("#votes")).to_have_value("dropped")
    expect(tab.locator(".card").first.locator(".dropped")).not_to_have_count(0)


@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("dark", 390),
        *(pytest.param(*one, marks=pytest.mark.prove) for one in (("light", 1280), ("dark", 1280), ("light", 390))),
    ],
)
def test_the_page_and_an_opened_set_are_accessible(show: Open, asked: Path, theme: str, width: int) -> None:
    tab = show(asked, theme, width).tab
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    found = Axe(AXE_SCRIPT).run(tab)
    assert found.violations_count == 0, found.generate_report()
    tab.select_option("#votes", "missed")
    tab.locator(".card .title").first.click()
    found = Axe("").run(tab, context="#look")
    assert found.violations_count == 0, found.generate_report()
    assert tab.evaluate("document.getElementById('look').scrollWidth <= document.getElementById('look').clientWidth")
