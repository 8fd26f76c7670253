"""Sources found again by their content."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ctxr.engine.progress import Silent
from ctxr.media import footage as footage_again
from ctxr.media.footage import SourceLocator
from ctxr.media.sources import find_sources
from ctxr.media.video import VideoError
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Source


@pytest.fixture
def footage(tmp_path: Path) -> Path:
    """Three files in `videos` and two in an album, which nobody decodes."""
    for name in (
        "videos/clip0.mp4",
        "videos/clip1.mp4",
        "videos/clip2.mp4",
        "photos/album/1.png",
        "photos/album/2.png",
    ):
        file = tmp_path / "footage" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    return tmp_path / "footage"


def test_workers_that_ask_at_the_same_time_make_one_search(
    footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[object] = []

    def search(typed: list[str], progress: Any) -> Any:
        searched.append(typed)
        return find_sources(typed, progress)

    monkeypatch.setattr(footage_again, "find_sources", search)
    sources = SourceLocator(tmp_path, footage, Silent())
    clips = sorted((footage / "videos").iterdir())
    wanted = [Source(clip.stem, "video", "another.mp4", sha256_file(clip), 1) for clip in clips]
    begin = threading.Barrier(len(clips))

    def ask(source: Source) -> Path:
        begin.wait(60)
        return sources.video(source)

    with ThreadPoolExecutor(len(clips)) as pool:
        assert list(pool.map(ask, wanted)) == clips
    assert len(searched) == 1
    assert sources.places == {source.sha256: clip for source, clip in zip(wanted, clips, strict=True)}


def test_an_album_is_found_by_the_hash_of_all_its_photos(footage: Path, tmp_path: Path) -> None:
    (found,) = [one for one in find_sources([str(footage)]).found if one.kind == "photos"]
    sources = SourceLocator(tmp_path, footage, Silent())
    assert sources.album(Source("holiday", "photos", "holiday", found.sha256, 1)) == footage / "photos" / "album"
    with pytest.raises(VideoError, match=r"holiday \(holiday, sha256 0000") as lost:
        sources.album(Source("holiday", "photos", "holiday", "0" * 64, 1))
    assert lost.value.reason == "no_such_file"
    with pytest.raises(VideoError, match=r"photos.album .*other content") as other:
        sources.album(Source("album", "photos", "album", "0" * 64, 1))
    assert other.value.reason == "changed"
