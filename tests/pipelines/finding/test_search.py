"""Indexes and ranking: against the slow obvious version, resumed, added to, with pictures that are broken, gone or changed."""

import filecmp
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from PIL import Image as Pillow

from ctxr.datasets.open import read_dataset
from ctxr.engine import engines
from ctxr.engine.progress import SILENT, Progress
from ctxr.engine.stage import execute
from ctxr.engine.units import KILLED
from ctxr.errors import CtxrError, DataError, UsageError
from ctxr.media.images import Pixels, decode_jpeg, encode_jpeg, read_image
from ctxr.media.opencv_video import open_video
from ctxr.pipelines.finding import finder as finder_module
from ctxr.pipelines.finding import index as index_module
from ctxr.pipelines.finding.config import Search, SearchQuery
from ctxr.pipelines.finding.finder import Finder, answering
from ctxr.pipelines.finding.index import IndexStage, gallery_folder
from ctxr.pipelines.finding.search import narrative_query, run
from ctxr.pipelines.modelling.config import RegionsConfig, Train
from ctxr.pipelines.modelling.regions import run as regions
from ctxr.pipelines.modelling.train import run as train
from ctxr.problems.embeddings import Array
from ctxr.problems.runs import ScoringOptions
from ctxr.problems.traces import searching
from ctxr.problems.traces.learner import OpenTraces
from ctxr.problems.traces.searching import SearchModel
from ctxr.store.hashing import sha256_file
from ctxr.store.paths import CACHE
from ctxr.store.records import TimedWord
from ctxr.store.units import read_unit
from ctxr.synthetic.narratives import write_narratives
from tests.models.encoder_folder import COCA, make_folder
from tests.pipelines.losing import PoisonedRows
from tests.problems.test_traces_models import SMALL

TINY: dict[str, Any] = {"model": "ctxr-tiny", "device": "cpu"}
STROKE = [[(0.2, 0.3, 0.5), (0.3, 0.3, 0.7)]]


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drawn")
    write_narratives(folder, {"test": 12}, seed=5)
    return folder


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Six photos of one colour each, in two folders."""
    folder = tmp_path / "photos"
    for number, colour in enumerate(("red", "green", "blue", "white", "black", "yellow")):
        file = folder / ("sea" if number % 2 else "") / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Pillow.new("RGB", (64, 48), colour).save(file)
    return folder


def opened(config: Search) -> Finder:
    run(config if config.text else replace(config, text="a red disc"))
    inputs = IndexStage(config).inputs(SILENT)
    return Finder(config, gallery_folder(inputs.source), inputs.by, SILENT)


def said(text: str) -> SearchQuery:
    return SearchQuery([TimedWord(text, 0, 0)])


def counting(monkeypatch: pytest.MonkeyPatch, fail_at: int = -1) -> list[int]:
    """How many pictures each call embedded; the call with a number fails."""
    calls, look = list[int](), SearchModel.look

    def looked(self: SearchModel, pictures: Sequence[Pixels], contents: Sequence[str] = ()) -> Array:
        if len(calls) == fail_at:
            raise KeyboardInterrupt
        calls.append(len(pictures))
        return look(self, pictures, contents)

    monkeypatch.setattr(SearchModel, "look", looked)
    return calls


class Heard(Progress):
    """Keeps what was said."""

    def __init__(self) -> None:
        self.lines = list[str]()

    def warn(self, text: str) -> None:
        self.lines.append(text)


def same_files(one: Path, other: Path) -> bool:
    names = {file.relative_to(folder) for folder in (one, other) for file in folder.rglob("*") if file.is_file()}
    return all(filecmp.cmp(one / name, other / name, shallow=False) for name in names)


def test_scores_are_those_that_eval_gives_text_and_trace(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searching, "TRACE_WEIGHT", 1.0)
    finder = opened(Search(drawn, workdir=tmp_path, **TINY))
    slow = OpenTraces.open("ctxr-tiny", ScoringOptions(tmp_path, "cpu"), SILENT).score((read_dataset(drawn), None))
    (scores,) = slow.values()
    asked = narrative_query(next(drawn.glob("*.jsonl")))
    answer, expected = finder.find(asked, 12), scores[min(scores)]
    assert [one.image for one in answer.results] == sorted(expected, key=lambda image: (-expected[image], image))
    np.testing.assert_allclose([one.score for one in answer.results], sorted(expected.values())[::-1], atol=1e-5)


def test_a_stroke_changes_the_order_and_says_what_answered(drawn: Path, tmp_path: Path) -> None:
    finder = opened(Search(drawn, workdir=tmp_path, **TINY))
    words = [TimedWord("red", 0, 0.2), TimedWord("disc", 0.2, 0.6)]
    plain, traced = finder.find(SearchQuery(words), 12), finder.find(SearchQuery(words, STROKE), 12)
    assert [one.image for one in plain.results] != [one.image for one in traced.results]
    assert all(one.box is not None and 0 <= one.box[0] < one.box[2] <= 1 for one in plain.results + traced.results)
    # STROKE lies in the upper left
    assert all(one.box is not None and one.box[0] < 0.5 and one.box[1] < 0.5 for one in traced.results)
    assert finder.find(SearchQuery([], STROKE), 12).says
    assert finder.find(SearchQuery([TimedWord("  ", 0, 0)]), 12).says


def test_of_many_pictures_those_that_fit_the_words_best_are_looked_at_closely(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = opened(Search(drawn, workdir=tmp_path, **TINY))
    words = [TimedWord("red disc", 0, 0.2)]
    by_words = [one.image for one in finder.find(SearchQuery(words), 5).results]
    monkeypatch.setattr(finder_module, "ALL_TRACED", 11)
    monkeypatch.setattr(finder_module, "MOST_TRACED", 5)
    assert {one.image for one in finder.find(SearchQuery(words, STROKE), 12).results} == {*by_words}


def test_the_region_that_answers_is_what_a_slow_search_around_the_best_cell_finds() -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        cells = rng.normal(size=(5, 5)).astype(np.float32)
        half, best = (cells.max() + cells.mean()) / 2, divmod(int(cells.argmax()), 5)
        inside, waiting = set[tuple[int, int]](), [best]
        while waiting:
            row, column = waiting.pop()
            if (row, column) in inside or not (0 <= row < 5 and 0 <= column < 5) or cells[row, column] < half:
                continue
            inside.add((row, column))
            waiting += [(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)]
        rows, columns = [row for row, _ in inside], [column for _, column in inside]
        expected = min(columns) / 5, min(rows) / 5, (max(columns) + 1) / 5, (max(rows) + 1) / 5
        assert answering(cells) == pytest.approx(expected)


def test_new_photos_alone_are_embedded_and_the_index_is_that_of_a_first_run(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, late = [], sorted(photos.rglob("*.png"))[::3]
    for file in late:
        kept.append((file, file.read_bytes()))
        file.unlink()
    calls, config = counting(monkeypatch), Search(photos, text="red", workdir=tmp_path / "added", **TINY)
    assert len(run(config).answer.results) == 4  # type: ignore[union-attr]
    for file, content in kept:
        file.write_bytes(content)
    assert run(config).pictures == 6
    assert calls == [4, 2]
    assert run(config).up_to_date
    run(Search(photos, text="red", workdir=tmp_path / "once", **TINY))
    folders = [next((tmp_path / name / "indexes").iterdir()) for name in ("added", "once")]
    assert same_files(*folders)


def test_a_stopped_run_goes_on_behind_the_last_chunk(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "CHUNK", 2)
    config = Search(photos, text="red", workdir=tmp_path, **TINY)
    with monkeypatch.context() as first:
        assert counting(first, fail_at=2) == []
        with pytest.raises(KeyboardInterrupt):
            run(config)
    with monkeypatch.context() as last:
        last.setattr("ctxr.engine.stage.finish", Mock(side_effect=KeyboardInterrupt))
        calls = counting(last)
        with pytest.raises(KeyboardInterrupt):
            run(config)
        assert calls == [2]
    calls = counting(monkeypatch)
    assert run(config).pictures == 6
    assert calls == []
    assert not [*(tmp_path / CACHE).rglob("*.npy")]


def test_unreadable_photos_are_left_out_and_named(photos: Path, tmp_path: Path) -> None:
    (photos / "broken.jpg").write_bytes(b"\xff\xd8 no picture")
    (photos / os.fsdecode(b"\xff.png")).write_bytes((photos / "0.png").read_bytes())
    heard = Heard()
    report = run(Search(photos, text="red", workdir=tmp_path, **TINY), heard)
    assert (report.pictures, report.left_out) == (6, ("broken.jpg",))
    assert any("broken.jpg" in line for line in heard.lines)


@pytest.mark.parametrize(
    ("engine", "chunk"), [("losing", 64), ("losing", 5), pytest.param("processes", 64, marks=pytest.mark.prove)]
)
def test_a_picture_that_kills_its_workers_is_left_out_and_never_read_by_the_command(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, chunk: int
) -> None:
    monkeypatch.setattr(index_module, "CHUNK", chunk)
    monkeypatch.setattr(index_module, "CachedRows", PoisonedRows)
    monkeypatch.setitem(engines.ENGINES, "losing", "tests.pipelines.losing:run_losing")
    *_, poison = sorted(photos.rglob("*.png"), key=sha256_file)
    monkeypatch.setenv(PoisonedRows.POISON, sha256_file(poison))
    read = list[Path]()

    def listed(file: Path) -> Pixels:
        read.append(file)
        return read_image(file)

    monkeypatch.setattr(index_module, "read_image", listed)
    config, heard = Search(photos, text="red", workdir=tmp_path, engine=engine, jobs=1, **TINY), Heard()
    if engine == "losing":
        with monkeypatch.context() as stopped:
            stopped.setattr("ctxr.engine.stage.finish", Mock(side_effect=KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                run(config)
    report, name = run(config, heard), poison.relative_to(photos).as_posix()
    assert (report.pictures, report.left_out) == (5, (name,))
    (line,) = (line for line in heard.lines if name in line)
    assert KILLED in line
    assert poison not in read


def test_where_workers_die_at_every_picture_no_picture_is_to_blame(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_module, "CachedRows", PoisonedRows)
    monkeypatch.setattr(PoisonedRows, "kills", lambda _job, _unit: True)
    monkeypatch.setitem(engines.ENGINES, "losing", "tests.pipelines.losing:run_losing")
    with pytest.raises(CtxrError, match="two worker processes"):
        run(Search(photos, text="red", workdir=tmp_path, engine="losing", **TINY))


def test_pictures_that_vanish_or_change_are_not_shown(photos: Path, tmp_path: Path) -> None:
    finder = opened(Search(photos, workdir=tmp_path, **TINY))
    first, second = finder.find(said("red"), 6).results[:2]
    finder.picture(first.place)
    (photos / first.file).unlink()
    (photos / second.file).write_bytes(b"another")
    answer = finder.find(said("red"), 6)
    assert (answer.gone, len(answer.results), first.file in {one.file for one in answer.results}) == (1, 5, False)
    for place in (-1, 6):
        with pytest.raises(DataError, match=str(place)):
            finder.alike(place, 1)
    for one in (first, second):
        with pytest.raises(DataError, match=one.file):
            finder.picture(one.place)


def test_more_like_this_finds_another_copy_first_and_not_the_picture_itself(drawn: Path, tmp_path: Path) -> None:
    finder = opened(Search(drawn, workdir=tmp_path, **TINY))
    place = 3
    likes = finder.alike(place, 11)
    assert place not in {one.place for one in likes.results}
    dropped = finder.alike(read_image(finder.picture(place)), 1)
    assert (dropped.results[0].place, round(dropped.results[0].score, 5)) == (place, 1)
    nearest = np.argsort(-(finder._vectors @ finder._vectors[place]).numpy(), kind="stable")
    assert [one.place for one in likes.results] == [row for row in nearest.tolist() if row != place]


def test_an_encoder_without_cells_ranks_by_words_alone(photos: Path, tmp_path: Path) -> None:
    encoder = make_folder(tmp_path / "coca", parts=COCA)
    finder = opened(Search(photos, workdir=tmp_path, model=f"local-dir:{encoder}", device="cpu"))
    expected = finder._vectors.numpy() @ finder._model.read(["red"])[0]
    found = finder.find(SearchQuery([TimedWord("red", 0, 0)], STROKE), 6).results
    assert [one.score for one in found] == pytest.approx(sorted(expected.tolist(), reverse=True), abs=1e-6)


def test_whether_anything_fits_is_told_by_everyday_words_alone(
    photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = opened(Search(photos, workdir=tmp_path, **TINY))
    assert finder.find(said("red"), 1).fits is None
    best = float((finder._vectors.numpy() @ finder._model.read(["red"])[0]).max())
    for others, fits in (([best + 1] * 9 + [best - 1], False), ([best + 1] * 7 + [best - 1] * 3, True)):
        monkeypatch.setattr(finder, "_background", np.array(others))
        assert finder.find(said("red"), 1).fits is fits


@pytest.mark.parametrize(("files", "error"), [(("film.mp4",), "videos"), (("notes.txt",), "given"), ((), "given")])
def test_a_folder_without_photos_is_refused(tmp_path: Path, files: Sequence[str], error: str) -> None:
    (tmp_path / "given").mkdir()
    for name in files:
        (tmp_path / "given" / name).write_bytes(b"content")
    with pytest.raises(UsageError, match=error):
        run(Search(tmp_path / "given", text="red", workdir=tmp_path / "work", **TINY))


def test_frames_that_were_embedded_and_are_in_no_set_are_found_with_their_times(sets: Path, footage: Path) -> None:
    finder = opened(Search(sets, workdir=sets.parent, **TINY))
    images, frames = read_dataset(sets).images, [one for one in finder.pictures if not one.path]
    ledger = {f"{row.source}/img{row.index}": row for row in read_unit(sets, "clip0").ledger if row.row is not None}
    own = [one for one in frames if one.source == "clip0"]
    assert own
    assert {one.id for one in own} == ledger.keys() - images.keys()
    assert all(one.time == ledger[one.id].time for one in own)
    one = own[-1]
    shown = read_image(finder.picture(finder.pictures.index(one)))
    with open_video(footage / "videos/clip0.mp4") as video:
        (decoded,) = (frame.rgb() for frame in video if frame.index == one.index)
    assert (shown == decode_jpeg(encode_jpeg(decoded))).all()
    results = finder.find(said("red"), len(finder.pictures)).results
    assert {one.image: one.time for one in results} == {one.id: float(one.time or 0) for one in finder.pictures}


def test_frames_of_a_video_that_is_gone_are_left_out_with_a_sentence(sets: Path, tmp_path: Path) -> None:
    shutil.rmtree(sets.parent / CACHE / "places")
    heard = Heard()
    report = run(Search(sets, text="red", workdir=tmp_path / "other", **TINY), heard)
    assert report.pictures == len({name for one in read_dataset(sets).sets for name in one.images})
    assert sum("clip0" in line for line in heard.lines) == 1


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Narratives with regions and a run of each kind of query."""
    folder = tmp_path_factory.mktemp("trained")
    data = folder / "narratives"
    write_narratives(data, {"train": 8, "val": 4}, 0)
    regions(RegionsConfig(data, extractor="grid:ctxr-tiny", workdir=folder, device="cpu", most=4))
    small = [f"{name}={value}" for name, value in SMALL.items()]
    for recipe, query, changes in (
        ("traces-patches", "trace", ["encoder=ctxr-tiny", "grid=3"]),
        ("traces-patches", "text+trace", ["encoder=ctxr-tiny", "grid=3"]),
        ("traces", "text+trace", small),
    ):
        name = f"{recipe}-{query[:5]}"
        changes = [*changes, f"query={query}", "epochs=1", "batch=8"]
        train(Train(recipe=recipe, dataset=data, name=name, workdir=folder, device="cpu", changes=tuple(changes)))
    return folder


@pytest.mark.parametrize("name", ["traces-patches-trace", "traces-patches-text+", "traces-text+"])
def test_a_trained_run_scores_as_eval_does(project: Path, name: str) -> None:
    data = project / "narratives"
    wanted = project / "runs" / name
    (scores,) = (
        OpenTraces.open(wanted, ScoringOptions(project, "cpu"), SILENT).score((read_dataset(data), None)).values()
    )
    finder = opened_by(Search(data, model=name, workdir=project, name=name, device="cpu"), data)
    query = next(iter(read_dataset(data).queries))
    answer = finder.find(narrative_query(next(data.glob("*train*.jsonl"))), 12)
    own = {one.image: one.score for one in answer.results if one.image in scores[query]}
    assert own == pytest.approx(scores[query], rel=1e-5)
    strokes_alone, words_alone = finder.find(SearchQuery([], STROKE), 1), finder.find(said("red disc"), 1)
    assert bool(strokes_alone.says) == (finder.reads == "text+trace")
    assert bool(words_alone.says) == (finder.reads == "trace")
    assert bool(finder.alike(read_image(finder.picture(0)), 1).says) == (name == "traces-text+")


def opened_by(config: Search, data: Path) -> Finder:
    execute(IndexStage(config), SILENT)
    return Finder(config, data, config.workdir / "runs" / config.model, SILENT)
