"""What the simulation expects of its crowd is where the crowd comes out."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from ctxr.metrics.agreement import alpha
from ctxr.metrics.votes import gather
from ctxr.synthetic.crowd import BIASED, CAREFUL, SPAMMER, Cast, expected, pick_chances

ORDER = tuple("abcdefghij")
DESCRIPTIONS = 40


def cast_votes(rng: np.random.Generator) -> list[Cast]:
    """Three votes on each description."""
    workers = {"ada": CAREFUL, "bob": CAREFUL, "cy": BIASED, "dan": SPAMMER}
    casts = []
    for number in range(DESCRIPTIONS):
        target = ORDER[number % 10]
        verdicts = {image: image == target for image in ORDER}
        voters = rng.choice(list(workers), 3, replace=False).tolist()
        casts += [Cast(f"text {number}", name, pick_chances(workers[name], verdicts, ORDER), target) for name in voters]
    return casts


def test_all_figures_of_a_crowd_lie_in_their_ranges_in_nineteen_of_twenty_studies() -> None:
    rng = np.random.default_rng(3)
    casts = cast_votes(rng)
    sets = [SimpleNamespace(images=ORDER[:5], kind="video"), SimpleNamespace(images=ORDER[5:], kind="photos")]
    accuracy, alphas = expected(cast("Any", SimpleNamespace(casts=casts, dataset=SimpleNamespace(sets=sets))), rng)
    inside = []
    for _ in range(400):
        picks = [str(rng.choice(list(one.spread), p=list(one.spread.values()))) for one in casts]
        hits = np.mean([pick == one.target for pick, one in zip(picks, casts, strict=True)])
        figures: list[tuple[Any, tuple[float, float, float]]] = [(hits, accuracy)]
        for kind, images in (("video", ORDER[:5]), ("photos", ORDER[5:])):
            rows = [row for row, one in enumerate(casts) if one.target in images]
            votes = gather(
                [casts[row].text for row in rows], [casts[row].worker for row in rows], [picks[row] for row in rows]
            )
            figures.append((alpha(votes).value, alphas[kind]))
        inside.append(all(low <= found <= high for found, (_, low, high) in figures))
    assert 0.93 <= np.mean(inside) <= 0.99
