"""Films: shots with hard cuts and dissolves between them, on the time grid of a format."""

import bisect
from fractions import Fraction

import msgspec
import numpy as np

from ctxr.synthetic.world.backdrops import BACKDROPS
from ctxr.synthetic.world.scenes import Overlay, Scene, choose
from ctxr.synthetic.world.shots import SceneShot, sample_shot

BLUR = 0.055
"""Standard deviation of blurred stretches, as a share of the shorter side: above what BRISQUE 0.65 lets pass."""

GRAINED = frozenset({"wood", "sea"})
"""Backdrops that films leave out: BRISQUE with the shipped weights takes their streaks, perfectly sharp, for blur."""


class Format(msgspec.Struct, frozen=True):
    """How a film is stored.

    Attributes:
        width, height: of the upright picture, in pixels, even. rate: frames per second; the mean where `variable`.
        codec: the encoder's name in FFmpeg. variable: whether the frames' durations differ.
        rotation: degrees counterclockwise by which a player must turn the stored frames: 0, 90, 180 or 270.
    """

    name: str
    width: int
    height: int
    rate: Fraction
    codec: str = "libx264"
    suffix: str = ".mp4"
    variable: bool = False
    rotation: int = 0


FORMATS: dict[str, Format] = {
    film.name: film
    for film in (
        Format("web", 320, 180, Fraction(25)),
        Format("variable", 320, 180, Fraction(25), variable=True),
        Format("rotated", 320, 180, Fraction(25), rotation=90),
        Format("cinema", 426, 240, Fraction(24)),
        Format("portrait", 240, 426, Fraction(30)),
        Format("broadcast", 640, 360, Fraction(30000, 1001)),
        Format("vp9", 320, 240, Fraction(25), codec="libvpx-vp9", suffix=".webm"),
    )
}


class Take(msgspec.Struct, frozen=True):
    """A shot's place in a film: its first frame, at time zero of its clock, and frames of a dissolve, 0 for a cut."""

    first: int
    shot: SceneShot
    mixed: int = 0


class Film(msgspec.Struct, frozen=True):
    """A film before it is encoded: the exact seconds of each frame, ascending from zero, and its shots."""

    format: Format
    times: tuple[Fraction, ...]
    takes: tuple[Take, ...]

    def shot_of(self, frame: int) -> int:
        """Return the index of the shot that a frame belongs to; in a dissolve the new one, from its first frame on."""
        return bisect.bisect_right([take.first for take in self.takes], frame) - 1

    def scene(self, frame: int, shot: int | None = None) -> Scene:
        """Return the scene of a frame, of the given shot where two are mixed."""
        take = self.takes[self.shot_of(frame) if shot is None else shot]
        return take.shot.at(float(self.times[frame] - self.times[take.first]))

    def mix(self, frame: int) -> float:
        """Return how much of the frame's own shot it shows: 1, or less in a dissolve, the rest being the shot before."""
        take = self.takes[self.shot_of(frame)]
        return min(1.0, (frame - take.first + 1) / (take.mixed + 1))


_HEADLINES = (
    ("Subscribe for more",), ("Chapter two",), ("Add the flour and stir",), ("Breaking news tonight",),
    ("How to fix a bicycle", "in seven easy steps"), ("Meanwhile in the garden",), ("The next morning",),
    ("Weather report", "Rain in the afternoon"), ("Ingredients", "Two eggs and some milk"), ("Thank you for watching",),
    ("Learn to draw", "Lesson number four"), ("Final score three to one",), ("Bake for twenty minutes",),
    ("Coming up after the break",), ("Travel guide", "Best places to visit"), ("Directed by nobody",),
)  # fmt: skip


def _with_stretch(rng: np.random.Generator, shot: SceneShot, feature: str, after: float) -> SceneShot:
    """Return the shot with a blurred, titled or motionless stretch, of a second at least where there is room."""
    remaining = shot.seconds - after
    length = min(0.7 * remaining, max(1.1, float(rng.uniform(0.36, 0.52)) * remaining))
    begin = after + float(rng.uniform(0.1, 0.92 - length / remaining)) * remaining
    begin, end = round(begin, 3), round(begin + length, 3)
    if feature == "blur":
        return msgspec.structs.replace(shot, blurs=((begin, end, BLUR),))
    if feature == "hold":
        return msgspec.structs.replace(shot, holds=((begin, end),))
    lines: tuple[str, ...] = choose(rng, _HEADLINES)
    if shot.aspect < 1:  # two words a line: an upright picture is too narrow for more
        words = " ".join(lines).split()
        lines = tuple(" ".join(words[i : i + 2]) for i in range(0, len(words), 2))
    overlay = Overlay(lines, "bottom" if rng.random() < 0.75 else "top")
    return msgspec.structs.replace(shot, overlays=((begin, end, overlay),))


def sample_film(rng: np.random.Generator, name: str, seconds: float) -> Film:
    """Return a random film in one of `FORMATS`: shots of 2 to 4.5 seconds, one in ten motionless, one cut in six a dissolve.

    Of each four shots three have, in an order by chance, a blurred stretch, one with a title, and one in which nothing moves.
    """
    film = FORMATS[name]
    count = max(2, round(seconds * film.rate))
    times = tuple(Fraction(frame) / film.rate for frame in range(count))
    if film.variable:  # whole milliseconds around the nominal duration, as of phones
        steps = rng.choice((20, 30, 35, 45, 70), size=count - 1)
        times = tuple(Fraction(int(at), 1000) for at in np.concatenate([[0], np.cumsum(steps)]))
    firsts, cut = [0], float(rng.uniform(2.0, 4.5))
    while cut <= float(times[-1]) - 1.5:  # a shorter rest joins the last shot
        firsts.append(bisect.bisect_left(times, Fraction(cut)))
        cut += float(rng.uniform(2.0, 4.5))
    features = [("blur", "text", "hold")[i] for i in rng.permutation(3)]
    takes: list[Take] = []
    for index, first in enumerate(firsts):
        stop = firsts[index + 1] if index + 1 < len(firsts) else len(times)
        length = float(times[stop - 1] - times[first])
        feature = features[index % 4] if index % 4 < 3 else ""
        still = feature != "hold" and rng.random() < 0.1
        shot = sample_shot(rng, length, film.width / film.height, still)
        unwanted = GRAINED | {takes[-1].shot.backdrop.name} if takes else GRAINED
        if shot.backdrop.name in unwanted:
            others = [backdrop for backdrop in BACKDROPS if backdrop not in unwanted]
            behind = msgspec.structs.replace(shot.backdrop, name=choose(rng, others))
            shot = msgspec.structs.replace(shot, backdrop=behind)
        mixed = 0
        if index and rng.random() < 1 / 6:
            mixed = 1 + round(float(rng.uniform(0.3, 0.7) * film.rate))
        if feature:  # not within a dissolve: its mixed frames are neither sharp nor blurred
            shot = _with_stretch(rng, shot, feature, float(times[first + max(0, mixed - 1)] - times[first]))
        takes.append(Take(first, shot, mixed))
    return Film(film, times, tuple(takes))
