"""Boxes, shares and heat maps of traces against the slow, obvious way to make them."""

import numpy as np
import pytest

from ctxr.metrics.traces import WHOLE, cell_shares, heat_map, word_boxes


def slow_box(points: list[list[float]], start: float, end: float, margin: float, padding: float) -> tuple[float, ...]:
    """Point by point."""
    own = [(x, y) for x, y, t in points if start - margin <= t <= end + margin]
    if not own:
        return WHOLE
    x, y = zip(*own, strict=True)
    edges = min(x) - padding, min(y) - padding, max(x) + padding, max(y) + padding
    x1, y1, x2, y2 = (min(1.0, max(0.0, edge)) for edge in edges)
    return x1, y1, x2, y2, (x2 - x1) * (y2 - y1)


@pytest.mark.parametrize(("margin", "padding"), [(0.0, 0.0), (0.4, 0.05), (3.0, 0.6)])
def test_boxes_of_words_are_those_of_the_points_in_their_time_in_any_order(margin: float, padding: float) -> None:
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 40):
        points, starts = rng.uniform(0, 1, (count, 3)) * (1, 1, 9), rng.uniform(-1, 11, 30)
        words = np.stack([starts, starts + rng.choice([0.0, 0.5, 4.0], 30)], axis=1)
        boxes, drawn = word_boxes(points, words, margin, padding)
        expected = [slow_box(points.tolist(), start, end, margin, padding) for start, end in words.tolist()]
        np.testing.assert_allclose(boxes, np.array(expected), atol=1e-12)
        inside = [[start - margin <= t <= end + margin for t in points[:, 2]] for start, end in words.tolist()]
        assert drawn.tolist() == [any(row) for row in inside]


def test_the_box_of_a_whole_image_is_zero_zero_one_one_one() -> None:
    corners = np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])
    boxes, drawn = word_boxes(corners, np.array([[0.0, 1.0]]), 0.0, 0.3)
    assert (boxes[0].tolist(), drawn.tolist()) == ([0, 0, 1, 1, 1], [True])
    assert word_boxes(corners, np.zeros((0, 2)), 0.0, 0.0)[0].shape == (0, 5)


def test_a_single_point_without_padding_is_a_box_without_area_that_lies_in_one_cell() -> None:
    boxes, _ = word_boxes(np.array([[1.0, 0.5, 2.0]]), np.array([[2.0, 2.0]]), 0.0, 0.0)
    assert boxes[0].tolist() == [1.0, 0.5, 1.0, 0.5, 0.0]
    assert np.flatnonzero(cell_shares(boxes, 4)[0]).tolist() == [2 * 4 + 3]


def test_shares_of_cells_are_the_areas_in_common() -> None:
    rng = np.random.default_rng(1)
    low, high = np.sort(rng.uniform(0, 1, (2, 20, 2)), axis=0)
    boxes = np.concatenate([low, high, np.prod(high - low, axis=1)[:, None]], axis=1)
    for side in (1, 3, 7):
        shares = cell_shares(boxes, side).reshape(-1, side, side)
        np.testing.assert_allclose(shares.sum((1, 2)), 1)
        for box, grid in zip(boxes, shares, strict=True):
            for row in range(side):
                for column in range(side):
                    width = min(box[2], (column + 1) / side) - max(box[0], column / side)
                    height = min(box[3], (row + 1) / side) - max(box[1], row / side)
                    assert grid[row, column] == pytest.approx(max(0, width) * max(0, height) / box[4], abs=1e-9)


def test_a_heat_map_adds_a_gaussian_around_each_point() -> None:
    points, spread = np.random.default_rng(2).uniform(0, 1, (9, 3)), 0.2
    expected = np.zeros((4, 4))
    for x, y, _ in points:
        for row in range(4):
            for column in range(4):
                away = (x - (column + 0.5) / 4) ** 2 + (y - (row + 0.5) / 4) ** 2
                expected[row, column] += np.exp(-away / (2 * spread**2))
    np.testing.assert_allclose(heat_map(points, 4, spread).reshape(4, 4), expected / expected.sum())
    assert heat_map(np.zeros((0, 3)), 4, spread).tolist() == [0.0] * 16
