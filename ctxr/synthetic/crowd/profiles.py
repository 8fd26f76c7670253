"""Kinds of workers: how they pick, how they write, how long they take."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ctxr.synthetic.world.predicates import Verdict


@dataclass(frozen=True)
class Profile:
    """How a simulated worker behaves.

    Attributes:
        care: probability that the text is compared with every image; otherwise the pick is careless.
        place: probability that a careless pick is the first place shown; otherwise it is any image.
        writes: probability that a description is true of its target; otherwise it says something empty.
    """

    name: str
    care: float
    place: float
    writes: float


CAREFUL = Profile("careful", care=0.97, place=0.0, writes=1.0)
HASTY = Profile("hasty", care=0.8, place=0.1, writes=0.9)
BIASED = Profile("position-biased", care=0.35, place=0.9, writes=0.8)
SPAMMER = Profile("spammer", care=0.0, place=0.0, writes=0.0)

PROFILES = (CAREFUL, HASTY, BIASED, SPAMMER)


def chances(profile: Profile, verdicts: Mapping[str, Verdict], order: Sequence[str]) -> dict[str, float]:
    """Probability of each image being picked, by image id; they sum to 1.

    `verdicts` says whether the text is true (True), false (False), or undecidable (None) of each image. With care one of
    the images for which it holds is picked, or of the undecidable ones, or of all; `order` is as shown.

    >>> spread = chances(SPAMMER, {"a": True, "b": False}, ("b", "a"))
    >>> spread["a"], spread["b"]
    (0.5, 0.5)
    """
    holding = [image for image in order if verdicts.get(image) is True]
    meant = holding or [image for image in order if verdicts.get(image, None) is None] or list(order)
    careless = 1 - profile.care
    spread = dict.fromkeys(order, careless * (1 - profile.place) / len(order))
    spread[order[0]] += careless * profile.place
    for image in meant:
        spread[image] += profile.care / len(meant)
    return spread
