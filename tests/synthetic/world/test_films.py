from fractions import Fraction
from itertools import pairwise
from pathlib import Path

import av
import cv2
import msgspec
import numpy as np
import numpy.typing as npt
import pytest

from ctxr.store.hashing import sha256_file
from ctxr.synthetic.world.films import BLUR, FORMATS, Film, Take, sample_film
from ctxr.synthetic.world.footage import encode, frames
from ctxr.synthetic.world.shots import sample_shot

Pixels = npt.NDArray[np.uint8]


def difference(one: Pixels, two: Pixels) -> float:
    """Mean difference of two pictures at an eighth of their size: coding changes fine grain, not places."""
    small = [
        cv2.resize(np.ascontiguousarray(each), None, fx=1 / 8, fy=1 / 8, interpolation=cv2.INTER_AREA)
        for each in (one, two)
    ]
    return float(np.abs(small[0].astype(int) - small[1]).mean())


def decode(path: Path) -> tuple[list[Pixels], list[Fraction], set[int]]:
    """Upright pictures, exact times and rotations of a file."""
    pictures, times, rotations = [], [], set()
    with av.open(str(path)) as container:
        for frame in container.decode(video=0):
            stored = frame.to_ndarray(format="rgb24")
            pictures.append(np.rot90(stored, frame.rotation // 90))
            times.append(frame.pts * frame.time_base)
            rotations.add(frame.rotation)
    return pictures, times, rotations


def small_film(name: str, mixed: int = 0, counts: tuple[int, ...] = (9, 9)) -> Film:
    """Two short shots in a format, before unlike backdrops."""
    form, firsts = FORMATS[name], np.cumsum((0, *counts))
    rng = np.random.default_rng(5)
    takes = []
    for first, backdrop in zip(firsts[:-1], ("snow", "leaves", "wood"), strict=False):
        shot = sample_shot(rng, 4.0, form.width / form.height)
        behind = msgspec.structs.replace(shot.backdrop, name=backdrop)
        takes.append(Take(int(first), msgspec.structs.replace(shot, backdrop=behind), mixed if first else 0))
    times = tuple(Fraction(frame) / form.rate for frame in range(int(firsts[-1])))
    if form.variable:
        times = tuple(Fraction(37 * frame + 9 * (frame % 3), 1000) for frame in range(int(firsts[-1])))
    return Film(form, times, tuple(takes))


@pytest.mark.parametrize("name", FORMATS)
def test_a_decoded_film_shows_what_its_scenes_say_at_the_times_they_say(name: str, tmp_path: Path) -> None:
    film = small_film(name)
    path = tmp_path / f"film{film.format.suffix}"
    encode(film, path)
    pictures, times, rotations = decode(path)
    with av.open(str(path)) as container:
        stored = (container.streams.video[0].width, container.streams.video[0].height)
    assert (stored == (film.format.width, film.format.height)) == (film.format.rotation not in (90, 270))
    assert tuple(times) == film.times
    assert rotations == {film.format.rotation}
    drawn = list(frames(film))
    assert len(pictures) == len(drawn) == 18
    for decoded, truth in zip(pictures, drawn, strict=True):
        assert decoded.shape == truth.shape == (film.format.height, film.format.width, 3)
        assert difference(decoded, truth) < 2
    again = tmp_path / f"again{film.format.suffix}"
    encode(film, again)
    assert sha256_file(again) == sha256_file(path)


def test_a_dissolve_leads_from_one_shot_to_the_other_in_equal_steps() -> None:
    film = small_film("web", 4, counts=(9, 12))
    assert [film.mix(frame) for frame in (8, 9, 10, 11, 12, 13)] == pytest.approx([1, 0.2, 0.4, 0.6, 0.8, 1])
    assert [film.shot_of(frame) for frame in (8, 9, 12, 13)] == [0, 1, 1, 1]
    pictures = list(frames(film))
    means = [picture.astype(float).mean() for picture in pictures[8:14]]
    assert means == sorted(means, reverse=True)  # from snow to leaves
    # past its end the old shot goes on: the mixed part moves
    assert film.scene(10, 0) == film.takes[0].shot.at(float(film.times[10]))


@pytest.mark.parametrize("name", FORMATS)
def test_a_sampled_films_shots_cuts_and_stretches_fit_together(name: str) -> None:
    stretches: set[str] = set()
    for seed in range(3):
        film = sample_film(np.random.default_rng(seed), name, 12)
        assert film == sample_film(np.random.default_rng(seed), name, 12)
        assert list(film.times) == sorted(set(film.times))
        assert film.times[0] == 0
        assert float(film.times[-1]) == pytest.approx(12, abs=1.5)
        assert len(film.takes) >= 2
        assert film.takes[0].mixed == 0
        for take in film.takes[1:]:
            before = film.takes[film.shot_of(take.first) - 1]
            assert before.shot.backdrop.name != take.shot.backdrop.name
            assert float(film.times[take.first] - film.times[before.first]) > 1.4
        for frame in range(0, len(film.times), 7):
            scene = film.scene(frame)
            assert 0 <= scene.blur <= BLUR
            stretches.update(
                ["blur"] * (scene.blur == BLUR) + ["text"] * (scene.overlay is not None and scene.overlay.shown == 1)
            )
            stretches.update(["still"] * (frame > 0 and scene == film.scene(frame - 1)))
            if film.mix(frame) < 1:
                assert not scene.blur
                assert scene.overlay is None
    assert stretches == {"blur", "text", "still"}


def test_a_variable_films_durations_differ() -> None:
    film = sample_film(np.random.default_rng(3), "variable", 6)
    steps = {later - earlier for earlier, later in pairwise(film.times)}
    assert len(steps) > 3
    even = sample_film(np.random.default_rng(3), "broadcast", 6)
    assert {b - a for a, b in pairwise(even.times)} == {Fraction(1001, 30000)}
