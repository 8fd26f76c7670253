"""What an actor of the toy world can be: its colours, sizes, textures and faces."""

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (214, 40, 40),
    "orange": (244, 132, 28),
    "yellow": (250, 214, 50),
    "green": (52, 158, 72),
    "turquoise": (42, 190, 190),
    "blue": (40, 96, 212),
    "purple": (128, 62, 176),
    "pink": (246, 132, 178),
    "brown": (128, 80, 44),
    "white": (246, 244, 238),
    "black": (34, 34, 40),
    "gray": (140, 144, 150),
}
"""Colour name to RGB in 0..255."""

SIZES: dict[str, tuple[float, float]] = {"small": (0.085, 0.1), "medium": (0.14, 0.165), "large": (0.215, 0.25)}
"""Size name to the range of an actor's radius, as a share of the frame's shorter side. The gaps keep the words apart."""

TEXTURES = ("plain", "striped", "dotted", "checkered")
"""Surface patterns."""

FACES = ("smiling", "sad", "sleeping")
"""Expressions of actors that have a face; an actor without one has the empty string."""


def size_name(radius: float) -> str:
    """Return the size word of a radius (share of the shorter side); between two ranges the nearer one."""
    return "small" if radius < 0.12 else "medium" if radius < 0.19 else "large"
