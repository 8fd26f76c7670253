import msgspec
import numpy as np
import pytest

from ctxr.synthetic.world.scenes import Actor, Backdrop, Overlay
from ctxr.synthetic.world.shots import RAMP, Course, SceneShot, sample_shot

STAR = Actor("a0", "star", "red", 0.15, 0.5, 0.5, face="sad")


def test_a_course_starts_and_ends_at_its_stops_and_never_jumps() -> None:
    course = Course(((1.0, 0.2, 0.3), (3.0, 0.8, 0.3)))
    assert [course.at(time) for time in (0.0, 1.0, 3.0, 9.0)] == [(0.2, 0.3), (0.2, 0.3), (0.8, 0.3), (0.8, 0.3)]
    xs = np.array([course.at(t)[0] for t in np.linspace(0, 4, 401)])
    assert np.diff(xs).min() >= 0
    assert np.diff(xs).max() < 0.005
    assert course.at(2.0) == pytest.approx((0.5, 0.3))


def test_moods_change_the_face_at_their_time() -> None:
    shot = SceneShot(4.0, (STAR,), (Course(((0.0, 0.5, 0.5),), ((2.0, "smiling"),)),), Backdrop("sand"))
    assert [shot.at(t).actors[0].face for t in (0.0, 1.9, 2.0, 4.0)] == ["sad", "sad", "smiling", "smiling"]


def test_a_hold_stops_the_world_and_then_it_goes_on_where_it_stopped() -> None:
    course = Course(((0.0, 0.1, 0.5), (4.0, 0.9, 0.5)))
    free = SceneShot(4.0, (STAR,), (course,), Backdrop("sand"), pan=(0.05, 0.0, 0.0))
    held = msgspec.structs.replace(free, holds=((1.0, 2.5),))
    still = [held.at(t) for t in (1.01, 1.5, 2.0, 2.5)]
    assert all(scene == still[0] for scene in still)
    assert (still[0].actors[0].x, still[0].backdrop) == (free.at(1.0).actors[0].x, free.at(1.0).backdrop)
    assert held.at(3.0) == free.at(1.5)


def test_blur_and_words_last_for_their_stretch() -> None:
    words = Overlay(("Chapter two",))
    shot = SceneShot(4.0, (STAR,), (Course(((0.0, 0.5, 0.5),)),), Backdrop("sand"), blurs=((1.0, 2.0, 0.05),),
                overlays=((2.0, 3.0, words),))  # fmt: skip
    assert [shot.at(t).blur for t in (0.9, 1.5, 2.1)] == [0, 0.05, 0]
    assert [shot.at(t).overlay for t in (1.9, 2.5, 3.1)] == [None, words, None]
    assert shot.at(1 + RAMP / 2).blur == pytest.approx(0.025)
    half = shot.at(3 - RAMP / 2).overlay
    assert half is not None
    assert half.shown == pytest.approx(0.5)


def test_an_actor_outside_the_frame_is_not_in_the_scene_and_a_still_shot_never_changes() -> None:
    shot = SceneShot(4.0, (STAR,), (Course(((0.0, -0.5, 0.5), (4.0, 0.5, 0.5))),), Backdrop("sand"))
    assert [len(shot.at(time).actors) for time in (0.0, 4.0)] == [0, 1]
    for seed in range(10):
        shot = sample_shot(np.random.default_rng(seed), 3.0, still=True)
        assert len({repr(shot.at(t)) for t in np.linspace(0, 3, 20)}) == 1


def test_a_sampled_shot_lets_actors_come_go_move_and_overlap() -> None:
    counts, moving = set(), 0
    for seed in range(40):
        shot = sample_shot(np.random.default_rng(seed), 4.0, 16 / 9)
        scenes = [shot.at(t) for t in np.linspace(0, 4, 30)]
        counts.add(len({len(scene.actors) for scene in scenes}) > 1)
        moving += len({(actor.name, actor.x, actor.y) for scene in scenes for actor in scene.actors}) > 5
    assert counts == {True, False}
    assert moving > 30
