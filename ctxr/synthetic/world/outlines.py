"""The silhouettes of the drawn actors: contours about the unit disc, y downwards.

An outline is a tuple of parts; the silhouette is the union of the parts, and within a part a contour inside another
one is a hole. Details (an eye, a door, a wheel) are painted on top and never change the silhouette.
"""

import math

import numpy as np

Contour = np.ndarray
"""Points [N, 2] float64, x to the right and y downwards, at most `REACH` from the origin."""
REACH = 1.2
"""How far a shape may reach beyond the unit disc: a square's corners do."""
Part = tuple[Contour, ...]
Detail = tuple[Contour, float]
"""A contour and its shade in [-1, 1]: below 0 darkens, above 0 lightens."""

FACED = frozenset({"circle", "square", "heart", "hexagon", "oval", "star", "cloud", "drop", "flower", "balloon"})
"""Shapes with room for a face."""


def _ellipse(x: float = 0.0, y: float = 0.0, a: float = 1.0, b: float | None = None, start: float = 0.0,
             *, stop: float = 360.0) -> Contour:  # fmt: skip
    steps = max(8, round(48 * (stop - start) / 360))
    angles = np.deg2rad(np.linspace(start, stop, steps, endpoint=stop - start < 360))
    return np.stack([x + a * np.cos(angles), y + (a if b is None else b) * np.sin(angles)], axis=1)


def _polygon(*points: tuple[float, float]) -> Contour:
    return np.array(points, dtype=np.float64)


def _box(left: float, top: float, right: float, bottom: float) -> Contour:
    return _polygon((left, top), (right, top), (right, bottom), (left, bottom))


def _regular(corners: int, radii: tuple[float, ...] = (1.0,), turn: float = -90.0) -> Contour:
    """Return a star polygon: `corners` points with radii `radii`, the first at `turn` degrees."""
    points = []
    for corner in range(corners):
        angle = math.radians(turn + 360.0 * corner / corners)
        radius = radii[corner % len(radii)]
        points.append((radius * math.cos(angle), radius * math.sin(angle)))
    return _polygon(*points)


_OUTER = _ellipse(0, 0, 0.98, start=52, stop=308)
# the inner arc runs from the upper horn back to the lower one around a centre moved to the right
_HORNS = [_OUTER[at] - (0.45, 0.0) for at in (-1, 0)]
_TURNS = [math.degrees(math.atan2(y, x)) % 360 for x, y in _HORNS]
_T = np.deg2rad(np.linspace(_TURNS[0], _TURNS[1], 26))[1:-1]
_INNER = np.stack([0.45 + np.hypot(*_HORNS[0]) * np.cos(_T), 0.0 + np.hypot(*_HORNS[0]) * np.sin(_T)], axis=1)
_CRESCENT: Contour = np.concatenate([_OUTER, _INNER]) + np.array([0.28, 0.0])
_T = np.linspace(0, 2 * np.pi, 56, endpoint=False)
_LOBES = -(13 * np.cos(_T) - 5 * np.cos(2 * _T) - 2 * np.cos(3 * _T) - np.cos(4 * _T)) - 2.5
_HEART: Contour = np.stack([16 * np.sin(_T) ** 3, _LOBES], axis=1) / 17.5
_T = np.linspace(0, 2 * np.pi, 48, endpoint=False)
_DROP: Contour = np.stack([0.72 * np.sin(_T) * np.sin(_T / 2) ** 1.4, -0.98 * np.cos(_T)], axis=1)
_T = np.linspace(-1, 1, 26)
_WIDTH = 0.5 * (1 - _T**2)
_LEAF = np.concatenate([np.stack([_T, -_WIDTH], axis=1), np.stack([_T[::-1], _WIDTH[::-1]], axis=1)[1:-1]])
_SCALLOPS = [_ellipse(0.64 * k, 0.12, 0.32, 0.2, start=180, stop=360)[::-1] for k in (1, 0, -1)]
_UMBRELLA = np.concatenate([_ellipse(0, 0.12, 0.96, 0.98, start=180, stop=360), *_SCALLOPS])
_HOOK = np.concatenate([_ellipse(0.16, 0.72, 0.25, stop=180), _ellipse(0.16, 0.72, 0.07, stop=180)[::-1]])
_T = np.linspace(0, 2 * np.pi, 80, endpoint=False)
_PETALS, _TURNED = 0.76 + 0.22 * np.cos(6 * _T), _T + math.radians(30)

OUTLINES: dict[str, tuple[Part, ...]] = {
    "circle": ((_ellipse(),),),
    "square": ((_box(-0.84, -0.84, 0.84, 0.84),),),
    "triangle": ((_regular(3) * 1.05 + np.array([0.0, 0.18]),),),
    "star": ((_regular(10, (1.0, 0.46)),),),
    "heart": ((_HEART,),),
    "diamond": ((_polygon((0, -1), (0.68, 0), (0, 1), (-0.68, 0)),),),
    "ring": ((_ellipse(), _ellipse(a=0.52)),),
    "cross": ((_polygon((-0.33, -1), (0.33, -1), (0.33, -0.33), (1, -0.33), (1, 0.33), (0.33, 0.33), (0.33, 1),
                        (-0.33, 1), (-0.33, 0.33), (-1, 0.33), (-1, -0.33), (-0.33, -0.33)),),),
    "crescent": ((_CRESCENT,),),
    "hexagon": ((_regular(6, turn=0.0),),),
    "oval": ((_ellipse(a=1.0, b=0.62),),),
    "arrow": ((_polygon((-1, -0.3), (0.1, -0.3), (0.1, -0.8), (1, 0), (0.1, 0.8), (0.1, 0.3), (-1, 0.3)),),),
    "flower": ((np.stack([_PETALS * np.cos(_TURNED), _PETALS * np.sin(_TURNED)], axis=1),),),
    "fish": ((_ellipse(0.18, 0, 0.78, 0.5),), (_polygon((-0.42, 0), (-0.96, -0.52), (-0.8, 0), (-0.96, 0.52)),)),
    "house": ((_box(-0.68, -0.2, 0.68, 0.86),), (_polygon((-0.95, -0.14), (0, -0.96), (0.95, -0.14)),)),
    "tree": ((_box(-0.14, 0.4, 0.14, 0.98),), (_ellipse(0, -0.5, 0.48),), (_ellipse(-0.38, 0.02, 0.44),),
             (_ellipse(0.38, 0.02, 0.44),), (_ellipse(0, 0.1, 0.46),)),
    "boat": ((_polygon((-0.95, 0.36), (0.95, 0.36), (0.6, 0.86), (-0.6, 0.86)),),
             (_polygon((0.0, -0.96), (0.0, 0.4), (0.84, 0.4)),), (_box(-0.1, -0.96, 0.1, 0.5),),
             (_polygon((0.0, -0.76), (0.0, 0.4), (-0.7, 0.4)),)),
    "car": ((_polygon((-0.96, 0.02), (-0.9, -0.12), (0.72, -0.12), (0.96, 0.06), (0.96, 0.42), (-0.96, 0.42)),),
            (_polygon((-0.6, -0.1), (-0.4, -0.52), (0.28, -0.52), (0.56, -0.1)),), (_ellipse(-0.5, 0.4, 0.24),),
            (_ellipse(0.5, 0.4, 0.24),)),
    "mushroom": ((_polygon((-0.26, 0.0), (0.26, 0.0), (0.32, 0.86), (-0.32, 0.86)),),
                 (np.concatenate([_ellipse(0, 0.08, 0.94, 0.92, start=180, stop=360),
                                  _ellipse(0, 0.08, 0.94, 0.14, start=0, stop=180)]),)),
    "cloud": ((_ellipse(-0.5, 0.16, 0.42),), (_ellipse(0.5, 0.16, 0.42),), (_ellipse(-0.1, -0.16, 0.5),),
              (_ellipse(0.28, -0.04, 0.42),), (_box(-0.5, 0.1, 0.5, 0.58),)),
    "drop": ((_DROP,),),
    "leaf": ((_LEAF,),),
    "umbrella": ((_UMBRELLA,), (_box(-0.09, 0.0, 0.09, 0.74),), (_HOOK,)),
    "balloon": ((_ellipse(0, -0.2, 0.72, 0.78),), (_polygon((0, 0.5), (0.16, 0.76), (-0.16, 0.76)),),
                (_box(-0.03, 0.7, 0.03, 1.0),)),
    "butterfly": ((_ellipse(-0.46, -0.34, 0.48, 0.46),), (_ellipse(0.46, -0.34, 0.48, 0.46),),
                  (_ellipse(-0.34, 0.38, 0.38, 0.42),), (_ellipse(0.34, 0.38, 0.38, 0.42),),
                  (_ellipse(0, 0, 0.26, 0.78),)),
    "cup": ((_polygon((-0.72, -0.62), (0.5, -0.62), (0.36, 0.72), (-0.58, 0.72)),),
            (_ellipse(0.5, -0.06, 0.42), _ellipse(0.5, -0.06, 0.22))),
}  # fmt: skip
"""The parts of each shape's silhouette."""

SHAPES = tuple(OUTLINES)

DETAILS: dict[str, tuple[Detail, ...]] = {
    "flower": ((_ellipse(a=0.3), 0.75),),
    "fish": ((_ellipse(0.58, -0.12, 0.12), 0.95), (_ellipse(0.61, -0.12, 0.06), -0.9)),
    "house": ((_polygon((-0.95, -0.14), (0, -0.96), (0.95, -0.14)), -0.45), (_box(-0.16, 0.3, 0.2, 0.86), -0.6),
              (_box(-0.54, 0.06, -0.26, 0.34), 0.8), (_box(0.3, 0.06, 0.56, 0.34), 0.8)),
    "tree": ((_box(-0.14, 0.5, 0.14, 0.98), -0.55),),
    "boat": ((_polygon((-0.95, 0.36), (0.95, 0.36), (0.6, 0.86), (-0.6, 0.86)), -0.4),),
    "car": ((_polygon((-0.46, -0.12), (-0.32, -0.42), (-0.06, -0.42), (-0.06, -0.12)), 0.8),
            (_polygon((0.04, -0.12), (0.04, -0.42), (0.24, -0.42), (0.42, -0.12)), 0.8),
            (_ellipse(-0.5, 0.4, 0.24), -0.8), (_ellipse(0.5, 0.4, 0.24), -0.8),
            (_ellipse(-0.5, 0.4, 0.1), 0.6), (_ellipse(0.5, 0.4, 0.1), 0.6)),
    "mushroom": ((_polygon((-0.22, 0.24), (0.22, 0.24), (0.28, 0.84), (-0.28, 0.84)), 0.8),),
    "leaf": ((_polygon((-0.96, -0.02), (0.7, -0.02), (0.7, 0.02), (-0.96, 0.02)), -0.45),),
    "umbrella": ((_box(-0.09, 0.12, 0.09, 0.76), -0.55), (_HOOK, -0.55),),
    "balloon": ((_ellipse(-0.26, -0.48, 0.14, 0.18), 0.6),),
    "butterfly": ((_ellipse(0, 0, 0.13, 0.72), -0.65), (_ellipse(-0.5, -0.36, 0.18), 0.55),
                  (_ellipse(0.5, -0.36, 0.18), 0.55)),
    "cup": ((_ellipse(-0.11, -0.58, 0.52, 0.08), -0.4),),
}  # fmt: skip
"""What is painted on top of a shape, with shades; plain geometric shapes are not here."""
