"""Mouse traces as boxes, heat maps and shares of a grid (What and where, section 4.3); x and y are shares of the image, from its top left.

Letters: P points, K words, G cells of a side.
"""

import numpy as np

from ctxr.metrics.votes import Codes, Doubles, Flags

WHOLE = (0.0, 0.0, 1.0, 1.0, 1.0)
"""The box of a whole image: x1, y1, x2, y2 and area."""


def segments(times: Doubles, words: Doubles, margin: float) -> Codes:
    """Which points were drawn while each word was said, or up to `margin` seconds before or after: the first and the one behind the
    last, [K, 2].

    Args:
        times: [P] seconds, rising. words: [K, 2] start and end.
    """
    start, end = words[:, 0] - margin, words[:, 1] + margin
    return np.stack([np.searchsorted(times, start, "left"), np.searchsorted(times, end, "right")], axis=1)


def word_boxes(points: Doubles, words: Doubles, margin: float, padding: float) -> tuple[Doubles, Flags]:
    """The box of the points that were drawn while each word was said, [K, 5], and whether there are any, [K].

    The tightest box is enlarged by `padding` on all sides, then cut at the edges of the image. The box of a word without points is `WHOLE`.

    Args:
        points: [P, 3] x, y and seconds in any order. words: [K, 2] start and end. margin: seconds, `t_p`. padding: `s_p`, 0..1.

    >>> boxes, present = word_boxes(np.array([[0.5, 0.5, 1.0]]), np.array([[1.0, 2.0], [4.0, 5.0]]), 0.0, 0.25)
    >>> boxes.tolist(), present.tolist()
    ([[0.25, 0.25, 0.75, 0.75, 0.25], [0.0, 0.0, 1.0, 1.0, 1.0]], [True, False])
    """
    points = points[np.argsort(points[:, 2], kind="stable")]
    ends = segments(points[:, 2], words, margin)
    present = ends[:, 1] > ends[:, 0]
    boxes = np.tile(np.array(WHOLE), (len(words), 1))
    if present.any():
        # pairs of first and behind the last: reduceat also reduces what lies between the pairs, which is left out
        edges, closed = ends[present].ravel(), np.concatenate([points[:, :2], points[-1:, :2]])
        boxes[present, :2] = np.minimum.reduceat(closed, edges)[::2] - padding
        boxes[present, 2:4] = np.maximum.reduceat(closed, edges)[::2] + padding
    boxes[:, :4] = boxes[:, :4].clip(0, 1)
    boxes[:, 4] = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    return boxes, present


def cell_shares(boxes: Doubles, side: int) -> Doubles:
    """How much of each box lies in each cell of a grid, [K, G * G], row by row; rows add to 1.

    A box without area counts as a point.
    """
    edges = np.arange(side + 1) / side
    low, high = boxes[:, None, :2], boxes[:, None, 2:4]
    overlap = np.minimum(high, edges[1:, None]) - np.maximum(low, edges[:-1, None])  # [K, G, 2]
    inside = np.minimum((low[:, 0] * side).astype(np.int64), side - 1)  # [K, 2]
    flat = (high <= low)[:, 0]
    at = np.arange(side)[:, None] == inside[:, None]
    shares = np.where(flat[:, None], at, overlap.clip(min=0))
    shares = shares / shares.sum(axis=1, keepdims=True)
    return np.asarray(shares[:, :, None, 1] * shares[:, None, :, 0]).reshape(len(boxes), side * side)


def heat_map(points: Doubles, side: int, spread: float) -> Doubles:
    """How much was drawn around each cell of a grid, [G * G], adding to 1; 0 without points.

    Each point is a Gaussian of standard deviation `spread`, a share of the image's sides.
    """
    centres = (np.arange(side) + 0.5) / side
    x, y = (np.exp(-((points[:, axis, None] - centres) ** 2) / (2 * spread**2)) for axis in (0, 1))
    heat = np.einsum("ph,pw->hw", y, x).ravel()
    return np.asarray(heat / heat.sum() if heat.sum() > 0 else heat)
