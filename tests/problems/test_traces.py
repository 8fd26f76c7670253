"""Queries with mouse traces: ranks and curves against the slow, obvious version, notes, statistics, the section of the report."""

import json
from array import array
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from ctxr.datasets.open import open_dataset
from ctxr.engine.progress import Silent
from ctxr.errors import DataError
from ctxr.pipelines.inspection.config import Report, Stats
from ctxr.pipelines.inspection.report import run as report
from ctxr.pipelines.inspection.stats import run as stats
from ctxr.pipelines.modelling.config import Eval
from ctxr.pipelines.modelling.eval import run as evaluate
from ctxr.problems.evaluation import ALL_SPLITS, EvalRequest
from ctxr.problems.gallery.question import Gallery
from ctxr.problems.queries import queries_of
from ctxr.problems.results import PER_QUERY, QueryResult
from ctxr.problems.traces.queries import TracedQuery, traced, traced_queries
from ctxr.problems.traces.question import Traces
from ctxr.store.artifacts import Content, Parent, finish
from ctxr.store.records import Floats, Image, ImageSet, Judgment, Query, Split, SplitName, Text, TimedWord, Trace
from ctxr.store.tables import read_table, write_tables

HOSTILE = '</script><img src=x onerror="alert(1)">'


def stroke(*points: tuple[float, float, float]) -> Floats:
    return array("f", [value for point in points for value in point])


def write_narratives(
    folder: Path, gallery: int = 40, videos: int = 2, pictures: bool = False, split: SplitName = "test"
) -> Path:
    """A gallery in which a word of each query was said without a point, and videos of ten keyframes with three relevant ones; the last
    query of the gallery has no trace."""
    tables, rng = defaultdict[str, list[Any]](list), np.random.default_rng(0)
    sets = [
        ("g", "photos", gallery, gallery * 3 // 4),
        *((f"v{number}", "keyframes", 10, 1) for number in range(videos)),
    ]
    for name, kind, images, queries in sets:
        ids = [f"{name}/i{number:02}" for number in range(images)]
        for number, image in enumerate(ids):
            path, side = (f"images/{image.replace('/', '-')}.jpg", 24) if pictures else ("", 0)
            if pictures:
                (folder / "images").mkdir(parents=True, exist_ok=True)
                colour = (5 * number, 120, 200 - 4 * number)
                Picture.new("RGB", (side, side // 2), colour).save(folder / path)
            group = name if kind == "keyframes" else f"album{number % 8}"
            tables["images"].append(Image(image, path, "", group, side, side // 2, None))
        tables["sets"].append(ImageSet(name, kind, tuple(ids), name, name, 0, 0.1, 0.2))
        tables["splits"].append(Split(name, split))
        for number in range(queries):
            query, targets = f"{name}/q{number:02}", [ids[number]] if kind == "photos" else ids[2:5]
            said = (HOSTILE, "left", "to", "right")
            tables["texts"].append(Text(f"{query}/t", " ".join(said), "ann", 0))
            tables["queries"].append(Query(query, name, (f"{query}/t",)))
            tables["judgments"] += [Judgment(query, image, "gold", 1.0) for image in targets]
            x, y = rng.uniform(0.1, 0.9, 2).tolist()
            strokes = (stroke((x, y, 0.1), (x, 0.5, 0.6), (0.4, 0.5, 1.5)), stroke((0.9, y, 3.2), (1.0, 0.0, 3.9)))
            words = tuple(TimedWord(word, float(at), at + 1.0) for at, word in enumerate(said))
            if (name, number) != ("g", queries - 1):
                tables["traces"].append(Trace(query, words, strokes, (0, len(targets) - 1)))
    content = Content([f"{name}.jsonl" for name in tables], write_tables(folder, tables), {})
    finish(folder, kind="dataset", verb="aggregate", config={}, parents=[Parent("x", "x", "0" * 64)], content=content)
    return folder


def scores_of(one: TracedQuery) -> Any:
    """Higher for images whose number is near where the trace goes; ties are common."""
    place = float(one.points[:, :2].mean()) if one.strokes else 0.5
    return -np.round(np.abs(np.arange(len(one.query.images)) / len(one.query.images) - place), 1) + len(one.words) % 2


class Opened:
    """A model of two seeds, the second of which scores upside down."""

    def score(self, examples: Any) -> dict[str, dict[str, dict[str, float]]]:
        found = traced(queries_of(*examples))
        return {
            f"toy/seed{seed}": {
                one.query.query: dict(zip(one.query.images, (sign * scores_of(one)).tolist(), strict=True))
                for one in found
            }
            for seed, sign in enumerate((1, -1))
        }

    def rescored(self, dataset: Any, queries: Sequence[TracedQuery]) -> dict[str, list[Any]]:
        return {f"toy/seed{seed}": [sign * scores_of(one) for one in queries] for seed, sign in enumerate((1, -1))}


class Learner:
    def open_run(self, source: Any, options: Any, progress: Any) -> Opened:
        return Opened()


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Traces, "LEARNER", f"{__name__}:Learner")


def evaluated(work: Path, *runs: str, **more: Any) -> dict[str, Any]:
    options = Eval(runs, work / "narratives", work, resamples=200, permutations=99, **more)
    found: dict[str, Any] = json.loads((evaluate(options).results / "figures.json").read_text())
    return found


def figure_of(figures: Mapping[str, Any], view: str, part: str, measure: str, split: str = "test") -> Any:
    wanted = split, view, part, measure
    (one,) = (row for row in figures["figures"] if (row["split"], row["view"], row["part"], row["measure"]) == wanted)
    return one


def slow_mean(queries: Sequence[TracedQuery], measure: Callable[[int], float]) -> float:
    """The mean over seeds, queries and all orders of the candidates that share a score with the best relevant one."""
    values = []
    for one, sign in ((one, sign) for sign in (1, -1) for one in queries):
        scores = (sign * scores_of(one)).tolist()
        best = max(scores[target] for target in one.query.targets)
        above, level = sum(score > best for score in scores), [at for at, score in enumerate(scores) if score == best]
        orders = [min(order.index(at) for at in level if at in one.query.targets) for order in permutations(level)]
        values.append(fmean(measure(1 + above + place) for place in orders))
    return fmean(values)


@pytest.mark.usefixtures("toy")
def test_figures_and_curves_are_those_of_the_slow_version(tmp_path: Path) -> None:
    write_narratives(tmp_path / "narratives", gallery=24, videos=3)
    figures = evaluated(tmp_path, "ctxr-tiny", recall="3")
    queries = sorted(
        traced_queries(open_dataset(tmp_path / "narratives", tmp_path, Silent())), key=lambda one: one.query.query
    )
    for k in (1, 3, 5, 10):
        assert figure_of(figures, "overall", "all", f"R@{k}")["value"] == pytest.approx(slow_mean(queries, k.__ge__))
    assert figure_of(figures, "overall", "all", "MRR")["value"] == pytest.approx(
        slow_mean(queries, lambda rank: 1 / rank)
    )
    for share in (0.25, 0.5, 0.75):
        expected = slow_mean([one.first(share) for one in queries], (1).__eq__)
        assert figure_of(figures, "words", f"{100 * share:.0f} %", "R@1")["value"] == pytest.approx(expected)
    for noise in (0.05, 0.1, 0.2):
        rng = np.random.default_rng((0, ALL_SPLITS.index("test")))
        expected = slow_mean([one.moved(noise, rng) for one in queries], (1).__eq__)
        assert figure_of(figures, "noise", f"{noise:g}", "R@1")["value"] == pytest.approx(expected)
    whole, chance = figure_of(figures, "overall", "all", "R@1"), figure_of(figures, "overall", "all", "chance")["value"]
    for view, part in (("noise", "0"), ("words", "100 %")):
        assert figure_of(figures, view, part, "R@1")["low"] == whole["low"] is not None
    assert chance == pytest.approx(fmean(len(one.query.targets) / len(one.query.images) for one in queries))
    tables = {table["title"]: table for table in figures["tables"]}
    assert {"test: R@1 by noise", "test: R@1 by words", "test: over seeds"} <= tables.keys()
    assert tables["test: relevant images found"]["rows"][0][:2] == ["random", f"{100 * chance:.1f}"]
    rows = read_table(tmp_path / "results" / "ctxr-tiny" / PER_QUERY, QueryResult)
    assert fmean(row.accuracy for row in rows) == pytest.approx(whole["value"])


def write_scores(work: Path, name: str, value: float, queries: slice = slice(None)) -> str:
    """A file of scores in which relevant images have `value` and the others less the farther they stand behind."""
    dataset = open_dataset(work / "narratives", work, Silent())
    lines = [
        json.dumps({"query": one.query, "candidate": image, "value": value if at in one.targets else -at / 100})
        for one in queries_of(dataset)[queries] for at, image in enumerate(one.images)
    ]  # fmt: skip
    (work / name).write_text("\n".join(lines))
    return str(work / name)


def test_files_of_scores_are_compared_and_have_no_curves(tmp_path: Path) -> None:
    write_narratives(tmp_path / "narratives", gallery=40)
    good, bad = write_scores(tmp_path, "good.jsonl", 1.0), write_scores(tmp_path, "bad.jsonl", -9.0, slice(1, None))
    with pytest.raises(DataError, match=r"bad\.jsonl"):
        evaluated(tmp_path, good, bad)
    figures = evaluated(tmp_path, good, bad, compare=True, partial=True)
    assert {row["view"] for row in figures["figures"]} == {"overall"}
    assert {(row["part"], row["run"], row["against"]) for row in figures["differences"]} >= {
        ("R@1", "bad", "good"),
        ("MRR", "bad", "good"),
    }
    (worst,) = {row["value"] for row in figures["figures"] if (row["run"], row["measure"]) == ("bad", "R@10")}
    assert worst == pytest.approx(2 / 31)  # relevant keyframes stand eighth of ten
    notes = " ".join(figures["notes"])
    for said in ("good has no", "1 of 32 queries lack", "1 of 32 queries have"):
        assert said in notes
    assert "too few" not in notes
    rows = read_table(tmp_path / "results" / "good-vs-bad" / PER_QUERY, QueryResult)
    kept = next(row for row in rows if (row.run, row.query) == ("bad", "g/q20"))
    assert kept.candidates == tuple(f"g/i{number:02}" for number in (0, 1, 2, 3, 4, 20))
    assert (kept.above, kept.level, kept.targets) == (39, 1, ("g/i20",))


def test_few_videos_are_said_to_be_few_and_recall_of_all_keyframes_is_left_out(tmp_path: Path) -> None:
    write_narratives(tmp_path / "narratives", gallery=0, videos=3)
    figures = evaluated(tmp_path, write_scores(tmp_path, "good.jsonl", 1.0), cluster="group")
    notes = " ".join(figures["notes"])
    assert "3 queries in 3 clusters" in notes
    assert "R@10 is left out" in notes
    assert {row["measure"] for row in figures["figures"]} == {"R@1", "R@5", "MRR", "accuracy", "chance"}


def test_queries_with_traces_are_evaluated_as_such_unless_another_problem_is_named(tmp_path: Path) -> None:
    write_narratives(tmp_path / "narratives", gallery=40, videos=0)
    for source in ("ctxr-tiny", write_scores(tmp_path, "good.jsonl", 1.0)):
        request = EvalRequest(Eval((source,), tmp_path / "narratives", tmp_path), Silent())
        assert Traces().takes(request)
        assert not Gallery().takes(request)
        assert Gallery().asks(request.dataset)  # which --problem gallery evaluates


def test_statistics_count_strokes_points_and_words_by_split(tmp_path: Path) -> None:
    write_narratives(tmp_path / "narratives", gallery=40, videos=1)
    found = stats(Stats(tmp_path / "narratives", tmp_path, tokenizer="regex"))
    # of 31 queries one has no trace; of their four words the third was said while nothing was drawn
    assert found.tables["narratives"].rows == (("test", 30, 50, 60, 150, 120, 30), ("all", 30, 50, 60, 150, 120, 30))


@pytest.mark.usefixtures("toy")
@pytest.mark.parametrize("pictures", [True, False])
def test_the_report_draws_strokes_and_shows_what_people_said_as_text(tmp_path: Path, pictures: bool) -> None:
    write_narratives(tmp_path / "narratives", gallery=0, videos=6, pictures=pictures)
    evaluated(tmp_path, "ctxr-tiny", write_scores(tmp_path, "good.jsonl", 1.0))
    text = report(Report(workdir=tmp_path, input=tmp_path / "narratives")).page.read_text()
    assert HOSTILE not in text
    assert "<img src=x" not in text
    data = json.loads(text.partition('id="data">')[2].partition("</script>")[0])
    drawn = data["traces"]["rows"][0]
    assert drawn["words"] == [HOSTILE, "left", "to", "right"]
    assert [(number < 0) for _, number in drawn["images"]] == [not pictures] * 3
    assert [(image, word) for image, word, _ in drawn["lines"]] == [(0, 0), (0, 1), (2, 3)]
    assert all(0 <= place <= 1000 for *_, places in drawn["lines"] for place in places)
    assert drawn["lines"][0][2][-2:] == drawn["lines"][1][2][:2]  # a piece starts where the one before it ends
    assert set(drawn["runs"]) == set(data["traces"]["runs"]) == {"ctxr-tiny/seed0", "ctxr-tiny/seed1", "good"}
    assert drawn["runs"]["good"]["found"][0][2] is True
    assert {row[1] for row in data["traces"]["curves"]} == {"noise", "words", "overall"}
    assert 'id="t-curves"' in text
    assert "Accuracy on test" in text
