"""`ctxr agreement`: figures of anybody's votes against the slow way, its files, and the same from Python."""

import csv
import json
import re
from collections.abc import Sequence
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest
from axe_playwright_python.base import AXE_SCRIPT
from axe_playwright_python.sync_playwright import Axe
from typer.testing import CliRunner

import ctxr
from ctxr.cli.app import app
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.pipelines.inspection import agreement
from ctxr.pipelines.inspection.agreement import run
from ctxr.pipelines.inspection.config import AgreementConfig
from tests.metrics.test_agreement import slow_alpha
from tests.pipelines.opened import Open

VALUES = 4


def drawn(seed: int, items: int = 60, people: int = 8) -> list[tuple[str, str, int]]:
    """Votes of people who are right in 80 % of their votes, but the last, who guesses; half of them are missing."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, VALUES, items)
    return [
        (
            f"i{item}",
            f"p{person}",
            int(truth[item] if rng.random() < (0.8 if person < people - 1 else 0) else rng.integers(0, VALUES)),
        )
        for item in range(items)
        for person in range(people)
        if rng.random() < 0.5
    ]


def written(path: Path, votes: Sequence[tuple[str, str, object]]) -> Path:
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("item", "worker", "value"), *votes])
    return path


def test_each_figure_is_that_of_the_slow_way(tmp_path: Path) -> None:
    votes = drawn(1)
    report = run(AgreementConfig(votes=written(tmp_path / "v.csv", votes)))
    said = {(item, person): value for item, person, value in votes}
    items, people = sorted({row[0] for row in votes}), sorted({row[1] for row in votes})
    coded = [(items.index(item), people.index(person), float(value)) for item, person, value in votes]
    for level, value, *_ in report.tables["agreement"].rows:
        assert value == pytest.approx(slow_alpha(coded, level), abs=1e-9)
    agrees = {person: share for person, _, share, _ in report.tables["people"].rows}
    for person in people:
        others = [
            said[item, person] == said[item, other]
            for item in items for other in people
            if other != person and (item, person) in said and (item, other) in said
        ]  # fmt: skip
        assert agrees[person] == pytest.approx(np.mean(others))
    assert min(agrees, key=lambda name: agrees[name]) == report.tables["people"].rows[0][0] == "p7"
    pairs = {(one, other): (count, share) for one, other, count, share in report.tables["pairs"].rows}
    assert len(pairs) == len(people) * (len(people) - 1) / 2
    for one, other in combinations(people, 2):
        same = [said[item, one] == said[item, other] for item in items if (item, one) in said and (item, other) in said]
        assert pairs[one, other] == (len(same), pytest.approx(np.mean(same)))
    confusion = np.array([row[1:] for row in report.tables["confusion"].rows])
    slow = np.zeros((VALUES, VALUES))
    for item in items:
        given = [value for (name, _), value in said.items() if name == item]
        for left, right in permutations(given, 2):
            slow[left, right] += 1 / (len(given) - 1)
    assert confusion == pytest.approx(slow)


def test_the_model_of_people_finds_more_than_the_majority(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 2, 400)
    able = (0.95, 0.95, 0.55, 0.55, 0.55)
    votes = [
        (f"i{item}", f"p{person}", int(truth[item] if rng.random() < share else 1 - truth[item]))
        for item in range(400)
        for person, share in enumerate(able)
    ]
    report = run(AgreementConfig(votes=written(tmp_path / "v.csv", votes)))
    rows = report.tables["items"].rows
    right = [np.mean([row[column] == str(truth[int(row[0][1:])]) for row in rows]) for column in (2, 4)]
    assert right[1] > right[0] + 0.05
    found = {person: accuracy for person, _, _, accuracy in report.tables["people"].rows}
    assert [found[f"p{person}"] for person in range(5)] == pytest.approx(able, abs=0.06)


def test_intervals_over_people_are_wider_and_hold_the_value(tmp_path: Path) -> None:
    report = run(AgreementConfig(votes=written(tmp_path / "v.csv", drawn(2))))
    for _, value, low, high, least, most, *_ in report.tables["agreement"].rows:
        assert least < low < value < high < most


def test_where_all_say_the_same_alpha_is_undefined_and_many_values_have_no_confusion(tmp_path: Path) -> None:
    report = run(
        AgreementConfig(votes=written(tmp_path / "v.csv", [(item, person, 1) for item, person, _ in drawn(1)]))
    )
    assert [row[1] for row in report.tables["agreement"].rows] == [None] * 3
    assert report.tables["agreement"].note.endswith("is the same")
    assert "two or more" not in report.tables["agreement"].note
    many = [(item, person, number) for number, (item, person, _) in enumerate(drawn(1))]
    report = run(AgreementConfig(votes=written(tmp_path / "v.csv", many)))
    assert "confusion" not in report.tables
    assert {row[4] for row in report.tables["items"].rows} == {None}


@pytest.mark.parametrize(
    ("votes", "reason"),
    [
        ([("a", "x", 1), ("b", "y", 2)], "no item"),
        ([("a", "x", 1), ("a", "y", 1), ("b", "y", 2)], "or more is"),
    ],
)
def test_the_note_says_only_why_alpha_is_undefined(
    tmp_path: Path, votes: Sequence[tuple[str, str, int]], reason: str
) -> None:
    file = written(tmp_path / "v.csv", votes)
    report = run(AgreementConfig(votes=file))
    note = report.tables["agreement"].note
    assert note.startswith("alpha is undefined: ")
    assert reason in note
    assert "interval" not in "".join((note, *report.notes))
    shown = CliRunner().invoke(app, ["agreement", str(file)])
    assert shown.exit_code == 0
    assert "unit" not in shown.output


def test_intervals_of_fewer_than_ten_items_are_noted_as_too_narrow(tmp_path: Path) -> None:
    for items, noted in ((9, True), (10, False)):
        votes = [(f"i{item}", person, item % 3) for item in range(items) for person in "xyz"] + [("lone", "x", 1)]
        report = run(AgreementConfig(votes=written(tmp_path / "v.csv", votes)))
        assert any("narrow" in note for note in report.notes) == noted


def test_pairs_that_share_fewer_than_five_items_are_not_listed(tmp_path: Path) -> None:
    for items, people in ((4, []), (5, [("x", "y", 5, 1.0)])):
        votes = [(f"i{item}", person, item % 2) for item in range(items) for person in "xy"]
        votes += [("i0", "z", 1), ("i1", "z", 0)]
        report = run(AgreementConfig(votes=written(tmp_path / "v.csv", votes)))
        assert [*report.tables["pairs"].rows] == people
        assert any("no two share" in note for note in report.notes) == (not people)


def test_two_people_have_no_interval_of_people_and_no_model(tmp_path: Path) -> None:
    two = [vote for vote in drawn(1) if vote[1] in ("p0", "p1")]
    report = run(AgreementConfig(votes=written(tmp_path / "v.csv", two)))
    for _, value, low, high, *crowd in report.tables["agreement"].rows:
        assert low < value < high
        assert crowd == [None, None]
    assert "none of people" in report.tables["agreement"].note
    assert {row[4] for row in report.tables["items"].rows} == {None}
    assert "fewer than three" in report.notes[-1]


def test_huge_and_many_numbers_have_an_alpha(tmp_path: Path) -> None:
    few = [(item, person, value * 10**307) for item, person, value in drawn(1)]
    many = [(f"i{number // 3}", f"p{number % 3}", number**2 / 7) for number in range(90_000)]
    for votes, size in ((few, VALUES), (many, len(many))):
        text = [(item, person, f"{float(value)!r}") for item, person, value in votes]
        report = run(AgreementConfig(votes=written(tmp_path / "v.csv", text)))
        assert report.counts["values"] == size
        assert all(np.isfinite(row[1:]).all() for row in report.tables["agreement"].rows)
    assert report.tables["items"].rows[0][2] == "tie"


def test_what_takes_too_long_is_left_out_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path / "v.csv", drawn(1))
    monkeypatch.setattr(agreement, "MOST_FITTED", 4 * len(drawn(1)) * VALUES)
    report = run(AgreementConfig(votes=file))
    assert report.notes[-1].endswith("4 rounds")
    monkeypatch.setattr(agreement, "MOST_FITTED", 1)
    monkeypatch.setattr(agreement, "MOST_PAIRS", 1)
    report = run(AgreementConfig(votes=file))
    assert len(report.notes) == 3
    assert not report.tables["pairs"].rows
    assert {row[4] for row in report.tables["items"].rows} == {None}


def test_numbers_stay_as_given_and_formulas_are_text(tmp_path: Path) -> None:
    assert agreement._words(np.array([1234567.5, 3.0])) == ["1234567.5", "3"]
    votes = [("=1+1", "@p", 1), ("=1+1", "-q", -1), ("=1+1", "+r", -1)]
    run(AgreementConfig(votes=written(tmp_path / "v.csv", votes), out=tmp_path / "out"))
    assert (tmp_path / "out" / "items.csv").read_text().splitlines()[1].startswith("'=1+1,3,-1,")
    assert {row[:3] for row in (tmp_path / "out" / "people.csv").read_text().splitlines()[1:]} == {"'@p", "'-q", "'+r"}


def test_files_hold_every_row_and_the_page_loads_nothing(tmp_path: Path) -> None:
    votes = [(item, "<b>p&" + person, value) for item, person, value in drawn(1, items=90)]
    file, out = written(tmp_path / "v.csv", votes), tmp_path / "out"
    shown = CliRunner().invoke(app, ["agreement", str(file), "-o", str(out), "--json"])
    assert shown.exit_code == 0
    report = json.loads(shown.stdout)
    for name, table in report["tables"].items():
        with (out / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
            heads, *rows = csv.reader(stream)
        assert heads == table["columns"]
        assert len(rows) == len(table["rows"])
    assert r"\begin{tabular}" in (out / "agreement.tex").read_text()
    page = (out / "agreement.html").read_text()
    assert "<b>p" not in page
    assert not re.search(r"(?:src|href)=", page)
    first = {name: (out / name).read_bytes() for name in ("agreement.html", "items.csv")}
    CliRunner().invoke(app, ["agreement", str(file), "-o", str(out)])
    assert {name: (out / name).read_bytes() for name in first} == first


def test_a_run_that_is_interrupted_leaves_the_folder_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = AgreementConfig(votes=written(tmp_path / "v.csv", drawn(1)), out=tmp_path / "new" / "out")

    def interrupted(_: object) -> bytes:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(agreement, "_page", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    assert [*(tmp_path / "new").iterdir()] == []
    run(config)
    assert {file.name for file in (tmp_path / "new" / "out").iterdir()} == agreement.FILES
    before = {file.name: file.read_bytes() for file in (tmp_path / "new" / "out").iterdir()}
    written(tmp_path / "v.csv", drawn(2))
    with monkeypatch.context() as patched:
        patched.setattr(agreement, "_page", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(config)
    assert {file.name: file.read_bytes() for file in (tmp_path / "new" / "out").iterdir()} == before
    assert [file.name for file in (tmp_path / "new").iterdir()] == ["out"]


def test_tables_that_a_run_no_longer_has_are_gone_and_files_of_others_are_kept(tmp_path: Path) -> None:
    config = AgreementConfig(votes=written(tmp_path / "v.csv", drawn(1)), out=tmp_path / "out")
    run(config)
    written(tmp_path / "v.csv", [(item, person, number) for number, (item, person, _) in enumerate(drawn(1))])
    run(config)
    assert {file.name for file in (tmp_path / "out").iterdir()} == agreement.FILES - {"confusion.csv"}
    (tmp_path / "out" / "mine.txt").write_text("kept")
    with pytest.raises(UsageError, match=r"mine\.txt"):
        run(config)
    assert (tmp_path / "out" / "mine.txt").read_text() == "kept"
    with pytest.raises(CtxrError, match=r"v\.csv"):
        run(AgreementConfig(votes=config.votes, out=config.votes))


def test_a_phone_shows_the_numbers_and_no_note_on_columns_is_a_warning(show: Open, tmp_path: Path) -> None:
    run(AgreementConfig(votes=written(tmp_path / "v.csv", drawn(1)), out=tmp_path / "out"))
    tab = show(tmp_path / "out" / "agreement.html", "light", 390).tab
    shown = tab.locator(".alphas p:not(.ticks) > *")
    assert shown.count() == 9
    for box in (shown.nth(place).bounding_box() for place in range(9)):
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
    assert tab.locator("p", has_text="items: item").get_attribute("class") == "muted"
    colour = "(one) => getComputedStyle(one).backgroundColor"
    cells = [[cell.evaluate(colour) for cell in row.locator("td").all()] for row in tab.locator(".heat tbody tr").all()]
    (same,) = {row[place] for place, row in enumerate(cells)}
    counts = np.array([row[1:] for row in run(AgreementConfig(votes=tmp_path / "v.csv")).tables["confusion"].rows])
    np.fill_diagonal(counts, 0)
    assert cells[0].count(same) < VALUES
    assert np.array(cells)[np.unravel_index(counts.argmax(), counts.shape)] != same


def test_the_page_is_accessible_in_both_themes_and_fits_a_phone(show: Open, tmp_path: Path) -> None:
    run(AgreementConfig(votes=written(tmp_path / "v.csv", drawn(1)), out=tmp_path / "out"))
    for theme, width in (("dark", 1280), ("light", 390)):
        tab = show(tmp_path / "out" / "agreement.html", theme, width).tab
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        found = Axe(AXE_SCRIPT).run(tab)
        assert found.violations_count == 0, found.generate_report()


def test_python_takes_a_file_a_frame_and_rows(tmp_path: Path) -> None:
    votes = drawn(1)
    file = written(tmp_path / "v.csv", votes)
    columns = dict(zip(("item", "worker", "value"), map(list, zip(*votes, strict=True)), strict=True))

    class Frame(dict[str, list[object]]):
        columns = ("item", "worker", "value")

    rows = [dict(zip(columns, vote, strict=True)) for vote in votes]
    wanted = ctxr.agreement(file).tables
    for given in (str(file), columns, Frame(columns), rows):
        assert ctxr.agreement(given).tables == wanted
    with pytest.raises(DataError, match="lengths"):
        ctxr.agreement(columns | {"value": [1]})
    nothing: tuple[object, ...] = ([], {}, Frame({name: [] for name in columns}), {name: [] for name in columns})
    for empty in nothing:
        with pytest.raises(DataError, match="holds no votes"):
            ctxr.agreement(empty)
    with pytest.raises(UsageError, match="int"):
        ctxr.agreement(3)
    with pytest.raises(UsageError, match="levels"):
        ctxr.agreement(file, levels=3)
    with pytest.raises(CtxrError, match="nowhere"):
        ctxr.agreement(tmp_path / "nowhere.csv")
    wrongs: list[dict[str, object]] = [
        {"item": "ab", "worker": "xy", "value": "12"},
        columns | {"value": 3},
        columns | {"value": {}},
    ]
    for wrong in wrongs:
        with pytest.raises(UsageError, match="column"):
            ctxr.agreement(wrong)
    assert (
        ctxr.agreement([{1: "a", 2: "x", 3: "1"}, {1: "a", 2: "y", 3: "2"}], item="1", worker="2", value="3").counts[
            "votes"
        ]
        == 2
    )


def test_a_frame_of_pandas_may_have_its_items_as_index() -> None:
    pandas = pytest.importorskip("pandas")
    long = pandas.DataFrame(drawn(1), columns=["item", "worker", "value"])
    wanted = ctxr.agreement(long).tables
    wide = long.pivot(index="item", columns="worker", values="value")
    assert ctxr.agreement(long[long.value >= 0].sample(frac=1, random_state=1)).tables.keys() == wanted.keys()
    for empty in (pandas.DataFrame(), long[:0], wide[:0], long.set_index("item")[:0]):
        with pytest.raises(DataError, match="holds no votes"):
            ctxr.agreement(empty)
    for frame in (long.set_index("item"), wide, wide.rename_axis(index=None), wide.reset_index()):
        assert ctxr.agreement(frame).tables["agreement"].rows == wanted["agreement"].rows
