"""The search between samples: more sets, the same bytes however it is reached, and nothing spent on still shots."""

import os
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from ctxr.media.decoder_process import Scanner
from ctxr.media.images import Pixels
from ctxr.pipelines.curation import videos
from ctxr.store.artifacts import open_artifact
from ctxr.store.records import BETWEEN, LedgerRow
from ctxr.store.units import read_unit
from tests.media.clips import scene, write_clip
from tests.pipelines.curation.test_build_sets import build, same_tree


def ledger(artifact: Path, name: str = "clip0") -> list[LedgerRow]:
    """The rows of a video, by frame."""
    return sorted(read_unit(artifact, name).ledger, key=lambda row: row.index)


def test_a_search_finds_more_sets_and_embeds_fewer_frames_than_there_are(
    footage: Path, built: Path, tmp_path: Path
) -> None:
    searched = open_artifact(built).manifest.counts
    sampled, every = (build(footage, tmp_path / one, frames=one).counts for one in ("samples", "every"))
    assert sampled["sets"] < searched["sets"] <= every["sets"]
    assert sampled["embedded"] < searched["embedded"] < every["embedded"]
    assert sampled[BETWEEN] == every[BETWEEN] == 0 < searched[BETWEEN]


def test_the_ledger_names_samples_held_and_embedded_frames(built: Path) -> None:
    rows = ledger(built)
    unit = read_unit(built, "clip0")
    embedded = [row for row in rows if row.row is not None]
    assert [row.row for row in embedded] == list(range(len(unit.vectors)))
    assert {row.reason for row in rows if row.row is None} <= {"near_still", "between_samples"}
    assert all(row.held for row in rows if row.reason == "between_samples")
    assert all((row.phash is not None) is (row.row is not None and not row.held) for row in rows)
    assert any(row.held for row in embedded)


def test_the_sets_do_not_depend_on_how_many_samples_are_embedded_together(
    footage: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(videos, "BATCH", 1000)
    assert same_tree(built, build(footage, tmp_path / "two" / "sets").artifact)


def test_a_full_store_of_frames_is_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [scene(3, 4 * step, (1280, 720)) for step in range(100)]
    folder = tmp_path / "videos"
    folder.mkdir()
    write_clip(folder / "clip0.mp4", pictures)
    # a batch never becomes full, and the frames between two samples take more than the decoder may keep
    monkeypatch.setattr(videos, "BATCH", 1000)
    settled: list[int] = []
    settle = videos.VideoPass.settle

    def counted(self: videos.VideoPass, keep: int | None = None) -> None:
        settled.append(len(self._gaps))
        settle(self, keep)

    monkeypatch.setattr(videos.VideoPass, "settle", counted)
    report = build(tmp_path, tmp_path / "sets", memory_limit=1.0)
    assert len(settled) > 2
    assert report.counts["sets"] >= 1


def test_a_still_shot_costs_what_it_costs_without_a_search(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    folder.mkdir()
    write_clip(folder / "still.mp4", [scene(1, 0)] * 60)
    searched, sampled = (build(tmp_path, tmp_path / one, frames=one).counts for one in ("search", "samples"))
    assert searched["embedded"] == sampled["embedded"] == 1
    assert searched[BETWEEN] == 0


@pytest.mark.parametrize("spent", [1, pytest.param(12, marks=pytest.mark.prove)])
def test_a_decoder_that_is_killed_while_a_frame_is_asked_for_is_replaced_by_the_other_one(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spent: int
) -> None:
    fetch, asked = Scanner.fetch, list[int]()

    def killing(scanner: Scanner, indices: Sequence[int]) -> list[Pixels]:
        asked.extend(indices)
        if len(asked) >= spent > len(asked) - len(indices) and scanner._child:
            os.kill(scanner._child._process.pid, signal.SIGKILL)
        return fetch(scanner, indices)

    expected = build(footage, tmp_path / "one" / "sets", decoder="opencv").artifact
    monkeypatch.setattr(Scanner, "fetch", killing)
    artifact = build(footage, tmp_path / "two" / "sets", jobs=1).artifact
    units = [read_unit(artifact, f"clip{number}") for number in range(3)]
    assert [unit.source.decoder for unit in units].count("opencv") == 1
    (killed,) = [unit for unit in units if unit.source.decoder == "opencv"]
    assert killed.ledger == read_unit(expected, killed.source.name).ledger
