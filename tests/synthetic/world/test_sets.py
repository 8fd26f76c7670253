import numpy as np
import pytest

from ctxr.synthetic.world.scenes import Actor, Backdrop, Scene
from ctxr.synthetic.world.sets import SIZE, SceneSet, neighbour, neighbours, sample_sets, unlike

STAR = Actor("a0", "star", "red", 0.15, 0.5, 0.5, face="sad")


@pytest.mark.parametrize("kind", ["video", "photos"])
def test_a_set_has_ten_scenes_that_differ(kind: str) -> None:
    sets = list(sample_sets(np.random.default_rng(2), 20, kind, 16 / 9))  # type: ignore[arg-type]
    assert len(sets) == 20
    for image_set in sets:
        assert len(image_set.scenes) == SIZE
        assert image_set.ordered == (kind == "video")
        assert all(scene.aspect == 16 / 9 for scene in image_set.scenes)
    distinct = [len({repr(scene) for scene in image_set.scenes}) for image_set in sets]
    assert min(distinct) >= 8
    assert sets == list(sample_sets(np.random.default_rng(2), 20, kind, 16 / 9))  # type: ignore[arg-type]


def test_a_video_set_follows_one_cast_before_one_backdrop() -> None:
    for image_set in sample_sets(np.random.default_rng(4), 10, "video"):
        assert isinstance(image_set, SceneSet)
        assert len({scene.backdrop.name for scene in image_set.scenes}) == 1
        looks = {(a.name, a.shape, a.colour, a.radius) for scene in image_set.scenes for a in scene.actors}
        assert len(looks) == len({name for name, *_ in looks})


def test_neighbours_differ_from_the_base_and_from_each_other_by_little() -> None:
    rng = np.random.default_rng(9)
    base = Scene((STAR, Actor("a1", "cup", "blue", 0.15, 0.2, 0.2)), Backdrop("wood"))
    made = neighbours(rng, base, 12)
    assert len({repr(scene.actors) for scene in (base, *made)}) == 13
    for scene in made:
        assert abs(len(scene.actors) - 2) <= 2
        assert scene.backdrop.name == "wood"
        assert scene.light == pytest.approx(base.light, abs=0.0301)
        assert len({actor.name for actor in scene.actors}) == len(scene.actors)
    assert len(neighbour(rng, Scene((), Backdrop("wood"))).actors) == 1


def test_unlike_counts_comings_and_steps() -> None:
    base = Scene((STAR,), Backdrop("wood"))
    assert unlike(base, base) == 0
    assert unlike(base, Scene((), Backdrop("wood"))) == 1
    assert unlike(base, Scene((STAR.moved(0.7, 0.4),), Backdrop("wood"))) == pytest.approx(0.3)
