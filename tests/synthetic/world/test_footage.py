from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
from PIL import Image

from ctxr.errors import UsageError
from ctxr.media.images import read_image
from ctxr.store.hashing import sha256_file
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.footage import PhotoTruth, World, WorldConfig, sample_album, write_world

CONFIG = WorldConfig(seed=3, videos=2, seconds=5.0, formats=("web", "rotated"), albums=2, photos_per_album=12)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return write_world(tmp_path_factory.mktemp("world") / "made", CONFIG)


def path_of(world: World, photo: PhotoTruth) -> Path:
    return world.folder / "photos" / photo.album / photo.photo


def hashes(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): sha256_file(path) for path in sorted(folder.rglob("*")) if path.is_file()}


def test_equal_configurations_give_equal_bytes_however_many_videos_follow(world: World, tmp_path: Path) -> None:
    fewer = write_world(tmp_path / "fewer", replace(CONFIG, videos=1))
    files = hashes(world.folder)
    equal = {name: sha256 for name, sha256 in hashes(fewer.folder).items() if not name.startswith("truth/")}
    assert equal.items() <= files.items()
    other = write_world(tmp_path / "other", WorldConfig(seed=4, videos=0, albums=1, photos_per_album=4))
    assert not set(hashes(other.folder).values()) & set(files.values())


def test_an_equal_finished_world_is_only_read(world: World) -> None:
    before = {path: path.stat().st_mtime_ns for path in world.folder.rglob("*.*")}
    assert write_world(world.folder, CONFIG) == world
    assert {path: path.stat().st_mtime_ns for path in world.folder.rglob("*.*")} == before


def test_every_frames_row_agrees_with_the_decoded_file(world: World) -> None:
    for video, turns in (("000-web", 0), ("001-rotated", 1)):
        rows = [row for row in world.frames.values() if row.video == video]
        with av.open(str(world.folder / "videos" / f"{video}.mp4")) as container:
            decoded = list(container.decode(video=0))
        assert [frame.pts * frame.time_base for frame in decoded] == [row.time for row in rows]
        assert [row.frame for row in rows] == list(range(len(decoded)))
        assert len({row.shot for row in rows}) == len([shot for shot in world.shots if shot[0] == video])
        # frames next to a cut may be of a dissolve
        alone = [
            row for row in rows if all(abs(row.time - shot.time) > 1 for shot in world.shots.values() if shot.shot)
        ]
        for row in alone[::9]:
            scene = world.scene(video, row.frame)
            drawn = render(scene, 320, 180)
            assert np.abs(np.rot90(decoded[row.frame].to_ndarray(format="rgb24"), turns).astype(int) - drawn).mean() < 9
            assert (row.text, row.blur) == (scene.overlay.shown if scene.overlay else 0, scene.blur)


def test_duplicates_are_as_the_truth_says_and_nothing_else_is(world: World) -> None:
    kinds = set()
    for album in ("album-00", "album-01"):
        groups = defaultdict(list)
        for row in world.photos.values():
            if row.album == album:
                groups[row.group].append(row)
        firsts = set()
        for members in groups.values():
            original = next(row for row in members if not row.copy)
            content = path_of(world, original).read_bytes()
            assert content not in firsts
            firsts.add(content)
            for copy in (row for row in members if row.copy):
                kinds.add(copy.copy)
                assert copy.scene == original.scene
                assert (path_of(world, copy).read_bytes() == content) == (copy.copy == "bytes")
                pictures = [read_image(path_of(world, row)).astype(int) for row in (original, copy)]
                assert np.abs(pictures[0] - pictures[1]).mean() < 5
    assert kinds == {"bytes", "encoding"}


def test_photos_are_upright_once_their_orientation_is_applied(world: World) -> None:
    turned = set()
    for row in world.photos.values():
        picture = read_image(path_of(world, row))
        height, width = picture.shape[:2]
        assert np.abs(picture.astype(int) - render(row.scene, width, height)).mean() < 8
        with Image.open(path_of(world, row)) as stored:
            if stored.getexif().get(0x0112) == 6:
                turned.add(row.album)
                assert stored.size == (height, width)
    assert turned == {"album-00", "album-01"}


@pytest.mark.parametrize("count", [0, 1, 3, 4, 9, 40])
def test_an_album_has_as_many_photos_as_asked_for(count: int) -> None:
    album = sample_album(np.random.default_rng(1), count)
    assert len(album) == count
    assert sum(bool(shot.copy) for shot in album) == (max(2, count // 8) if count >= 4 else 0)


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "diary.txt").write_text("dear diary")
    with pytest.raises(UsageError, match=r"'diary\.txt'"):
        write_world(tmp_path, CONFIG)
    assert (tmp_path / "diary.txt").read_text() == "dear diary"


def test_an_unfinished_world_or_another_one_is_drawn_again(tmp_path: Path) -> None:
    for stamp in ("", '{"version": 1, "config": {}}'):
        (tmp_path / "videos").mkdir(exist_ok=True)
        (tmp_path / "videos" / "000-web.mp4").write_bytes(b"half")
        if stamp:
            (tmp_path / "truth" / "world.json").write_text(stamp)
        world = write_world(tmp_path, WorldConfig(videos=0, albums=0))
        assert (world.frames, world.photos) == ({}, {})
        assert not list((tmp_path / "videos").iterdir())
