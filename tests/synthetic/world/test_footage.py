from collections import defaultdict
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from ctxr.errors import DataError, UnfinishedError, UsageError
from ctxr.media.images import read_image
from ctxr.store.hashing import sha256_file
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.footage import World, WorldConfig, read_world, sample_album, seen_in, write_world

CONFIG = WorldConfig(seed=3, videos=2, seconds=5.0, formats=("web", "rotated"), albums=2, photos_per_album=12)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return write_world(tmp_path_factory.mktemp("world") / "made", CONFIG)


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_equal_configurations_give_equal_bytes_and_other_seeds_do_not(world: World, tmp_path: Path) -> None:
    again = write_world(tmp_path / "again", CONFIG)
    assert hashes(again.folder) == hashes(world.folder)
    other = write_world(tmp_path / "other", WorldConfig(seed=4, videos=0, albums=1, photos_per_album=4))
    assert not set(hashes(other.folder).values()) & set(hashes(world.folder).values())


def test_what_is_read_back_is_what_was_written(world: World) -> None:
    read = read_world(world.folder)
    assert read == world
    assert read.config == CONFIG
    assert [row.video for row in read.videos] == ["000-web", "001-rotated"]


def test_a_world_does_not_depend_on_how_many_videos_follow(world: World, tmp_path: Path) -> None:
    fewer = write_world(tmp_path / "fewer", WorldConfig(3, 1, 5.0, ("web", "rotated"), 0, 12))
    assert sha256_file(fewer.folder / "videos/000-web.mp4") == sha256_file(world.folder / "videos/000-web.mp4")


def test_an_equal_finished_world_is_only_read(world: World) -> None:
    before = {path: path.stat().st_mtime_ns for path in world.folder.rglob("*.mp4")}
    assert write_world(world.folder, CONFIG) == world
    assert {path: path.stat().st_mtime_ns for path in world.folder.rglob("*.mp4")} == before


def test_every_frames_row_agrees_with_the_decoded_file(world: World) -> None:
    for video in world.videos:
        rows = [row for row in world.frames if row.video == video.video]
        with av.open(str(world.folder / video.path)) as container:
            decoded = list(container.decode(video=0))
        assert len(decoded) == len(rows) == video.frames
        assert [frame.pts * frame.time_base for frame in decoded] == [row.time for row in rows]
        assert [row.frame for row in rows] == list(range(video.frames))
        for row in rows[:: video.frames // 9]:
            if row.mix < 1:
                continue
            upright = np.rot90(decoded[row.frame].to_ndarray(format="rgb24"), video.rotation // 90)
            drawn = render(world.scene(row), video.width, video.height)
            assert np.abs(upright.astype(int) - drawn).mean() < 9
            assert row.seen == seen_in(world.scene(row), video.width, video.height)
            overlay = world.scene(row).overlay
            assert row.text == (overlay.shown if overlay else 0)
            assert row.blur == world.scene(row).blur


def test_shots_cover_all_frames_and_cuts_lie_between_them(world: World) -> None:
    for video in world.videos:
        shots = [row for row in world.shots if row.video == video.video]
        cuts = [row for row in world.cuts if row.video == video.video]
        assert [row.first for row in shots] == [0, *(cut.first for cut in cuts)]
        assert [row.last + 1 for row in shots] == [*(row.first for row in shots[1:]), video.frames]
        by_frame = {row.frame: row for row in world.frames if row.video == video.video}
        assert all(by_frame[cut.first].time == cut.time for cut in cuts)
        assert all(by_frame[frame].shot == row.shot for row in shots for frame in (row.first, row.last))


def test_boxes_enclose_the_pixels_that_an_actor_changes(world: World) -> None:
    photo = next(row for row in world.photos if len(row.scene.actors) == 1)
    seen = photo.seen[0]
    with_actor = render(photo.scene, photo.width, photo.height).astype(int)
    without = render(type(photo.scene)((), photo.scene.backdrop, light=photo.scene.light), photo.width, photo.height)
    rows, columns = np.nonzero(np.abs(with_actor - without).sum(-1) > 120)
    assert columns.min() / photo.width >= seen.left - 0.02
    assert (columns.max() + 1) / photo.width <= seen.right + 0.03
    assert rows.min() / photo.height >= seen.top - 0.02
    assert (rows.max() + 1) / photo.height <= seen.bottom + 0.04


def test_duplicates_are_as_the_truth_says_and_nothing_else_is(world: World) -> None:
    kinds = set()
    for album in ("album-00", "album-01"):
        groups = defaultdict(list)
        for row in world.photos:
            if row.album == album:
                groups[row.group].append(row)
        firsts = set()
        for members in groups.values():
            original = next(row for row in members if not row.copy)
            content = (world.folder / original.path).read_bytes()
            assert content not in firsts
            firsts.add(content)
            for copy in (row for row in members if row.copy):
                kinds.add(copy.copy)
                assert copy.scene == original.scene
                same = (world.folder / copy.path).read_bytes() == content
                assert same == (copy.copy == "bytes")
                pictures = [read_image(world.folder / row.path).astype(int) for row in (original, copy)]
                assert np.abs(pictures[0] - pictures[1]).mean() < 5
    assert kinds == {"bytes", "encoding"}


def test_photos_are_upright_once_their_orientation_is_applied(world: World) -> None:
    turned = [row for row in world.photos if row.orientation != 1]
    assert len({row.album for row in turned}) == 2
    for row in world.photos:
        picture = read_image(world.folder / row.path)
        assert picture.shape == (row.height, row.width, 3)
        assert np.abs(picture.astype(int) - render(row.scene, row.width, row.height)).mean() < 8
    with Image.open(world.folder / turned[0].path) as stored:
        assert stored.size == (turned[0].height, turned[0].width)
        assert stored.getexif()[0x0112] == 6


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9, 40])
def test_an_album_has_as_many_photos_as_asked_for(count: int) -> None:
    album = sample_album(np.random.default_rng(1), count)
    assert len(album) == count
    assert sum(bool(shot.copy) for shot in album) == (max(2, count // 8) if count >= 4 else 0)


def test_progress_names_each_file(tmp_path: Path) -> None:
    lines: list[str] = []
    write_world(tmp_path, WorldConfig(videos=1, seconds=1.0, albums=1, photos_per_album=2), lines.append)
    assert lines == ["videos/000-web.mp4: 25 frames, 1 shots", "photos/album-00: 2 photos"]


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    with pytest.raises(UsageError, match=r"'diary\.txt'"):
        write_world(tmp_path, CONFIG)
    assert (tmp_path / "diary.txt").read_text() == "dear diary"


def test_an_unfinished_world_is_drawn_again_but_not_read(tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "000-web.mp4").write_bytes(b"half")
    with pytest.raises(UnfinishedError, match="finished toy world"):
        read_world(tmp_path)
    world = write_world(tmp_path, WorldConfig(videos=0, albums=0))
    assert (world.videos, world.photos) == ((), ())
    assert not list((tmp_path / "videos").iterdir())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"version": 99, "config": {}}', "version 99 is not 1"),
        ('{"version": 1', "toy world's head"),
        ('{"version": 1, "config": {"seed": "x"}}', "toy world's head"),
    ],
)
def test_a_head_that_cannot_be_read_is_named(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "truth").mkdir()
    (tmp_path / "truth" / "world.json").write_text(content)
    with pytest.raises(DataError, match=message):
        read_world(tmp_path)


def test_impossible_configurations_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="albums is -1"):
        write_world(tmp_path, WorldConfig(albums=-1))
    with pytest.raises(UsageError, match="no video format"):
        write_world(tmp_path, WorldConfig(formats=()))
