"""Growth curves as a small picture: time over size, both relative to each curve's smallest point, on logarithmic axes."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from bench.table import Row

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 800, 340, 60, 16, 370, 44
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")


def draw(growing: Mapping[str, Sequence[Row]]) -> str:
    """An SVG with a dashed line where time would be proportional to size; "" without a curve of two points."""
    lines = {
        name: [(row.size / points[0].size, row.seconds / points[0].seconds) for row in points]
        for name, points in growing.items()
        if len(points) > 1
    }
    if not lines:
        return ""
    most = max(size for points in lines.values() for size, _ in points)
    high = max(most, *(time for points in lines.values() for _, time in points))

    def place(size: float, time: float) -> str:
        across = LEFT + (WIDTH - LEFT - RIGHT) * math.log(size) / math.log(most)
        down = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * math.log(max(time, 0.5) / 0.5) / math.log(high / 0.5)
        return f"{across:.1f},{down:.1f}"

    parts = [f'<polyline points="{place(1, 1)} {place(most, most)}" stroke="#999" stroke-dasharray="4 4" fill="none"/>']
    for tick in _ticks(most):
        across, down = place(tick, 0.5).split(",")
        parts.append(f'<text x="{across}" y="{float(down) + 18}" text-anchor="middle">{tick} x</text>')
    for tick in _ticks(high):
        across, down = place(1, tick).split(",")
        parts.append(f'<text x="{float(across) - 8}" y="{float(down) + 4}" text-anchor="end">{tick} x</text>')
        parts.append(f'<path d="M{across},{down}H{WIDTH - RIGHT}" stroke="#e5e5e5"/>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">size</text>')
    parts.append(f'<text x="14" y="{HEIGHT / 2}" transform="rotate(-90 14 {HEIGHT / 2})">time</text>')
    for index, (name, points) in enumerate(lines.items()):
        colour, height = COLOURS[index % len(COLOURS)], TOP + 12 + 18 * index
        path = " ".join(place(*point) for point in points)
        parts.append(f'<polyline points="{path}" stroke="{colour}" stroke-width="2" fill="none"/>')
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{height}" fill="{colour}">{escape(name)}</text>')
    parts.append(
        f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 12 + 18 * len(lines)}" fill="#777">dashed: proportional</text>'
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    body = "\n".join(parts)
    return f'{head} font-family="sans-serif" font-size="12">\n<rect width="100%" height="100%" fill="#fff"/>\n{body}\n</svg>\n'


def _ticks(most: float) -> list[int]:
    """Powers of two up to `most`."""
    return [1 << power for power in range(int(math.log2(most) + 0.01) + 1)]
