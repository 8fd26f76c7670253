"""What can be seen of each actor: shares of its silhouette, counted in the masks that are drawn."""

from functools import cached_property

import cv2
import msgspec
import numpy as np

from ctxr.synthetic.world.drawing import panel, silhouette
from ctxr.synthetic.world.scenes import Actor, Scene

SHORT_SIDE = 108
"""Rows (or columns, whichever is fewer) of the raster on which a scene's statements are decided."""

OVERLAY = "overlay"
"""The name under which an overlay's panel covers actors."""


class Sight(msgspec.Struct, frozen=True):
    """How much of one actor can be seen. All shares are of its whole silhouette, 0..1.

    Attributes:
        shown: inside the frame and not covered; `shown` + `covered` + `beyond` = 1.
        covered: inside the frame, behind nearer actors or the overlay's panel.
        beyond: outside the frame, over all edges together.
        edges: outside the frame over the left, top, right and bottom edge; a corner counts for both of its edges.
        behind: for every nearer actor that covers some of it, that actor's name and the share it covers alone.
        box: (left, top, right, bottom) of the part inside the frame as shares of width and height; zeros if none.
    """

    shown: float
    covered: float
    beyond: float
    edges: dict[str, float]
    behind: dict[str, float]
    box: tuple[float, float, float, float]

    @property
    def hidden(self) -> float:
        """The share that cannot be seen: covered or outside the frame."""
        return 1.0 - self.shown


def measure_sights(scene: Scene, width: int, height: int) -> dict[str, Sight]:
    """Return each actor's sight by name, counted in pixels of a raster, which belong to a silhouette if half of them is inside."""
    nearer: dict[str, np.ndarray] = {}
    union = np.zeros((height, width), bool)
    if scene.overlay is not None:
        union[panel(scene.overlay, width, height)] = True
        nearer[OVERLAY] = union.copy()
    sights: dict[str, Sight] = {}
    for actor in reversed(scene.actors):
        mask, left, top = silhouette(actor, width, height)
        body = mask >= 128
        whole = max(1, int(body.sum()))
        columns, rows = body.sum(0), body.sum(1)
        outside = {
            "left": columns[: max(0, -left)],
            "top": rows[: max(0, -top)],
            "right": columns[max(0, width - left) :],
            "bottom": rows[max(0, height - top) :],
        }
        x0, x1 = (min(max(x, 0), width) for x in (left, left + len(columns)))
        y0, y1 = (min(max(y, 0), height) for y in (top, top + len(rows)))
        canvas = np.zeros((height, width), bool)
        canvas[y0:y1, x0:x1] = body[y0 - top : y1 - top, x0 - left : x1 - left]
        inside, covered = int(canvas.sum()), int((canvas & union).sum())
        x, y, across, down = cv2.boundingRect(canvas.view(np.uint8))
        shares = {name: int((canvas & other).sum()) / whole for name, other in nearer.items()}
        sights[actor.name] = Sight(
            shown=(inside - covered) / whole,
            covered=covered / whole,
            beyond=(whole - inside) / whole,
            edges={edge: int(line.sum()) / whole for edge, line in outside.items()},
            behind={name: share for name, share in shares.items() if share > 0},
            box=(x / width, y / height, (x + across) / width, (y + down) / height),
        )
        union |= canvas
        nearer[actor.name] = canvas
    return sights


class SceneView:
    """A scene together with what can be seen in it, which is counted once."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene

    @cached_property
    def sights(self) -> dict[str, Sight]:
        """Each actor's sight by name."""
        aspect = self.scene.aspect
        size = (round(SHORT_SIDE * aspect), SHORT_SIDE) if aspect >= 1 else (SHORT_SIDE, round(SHORT_SIDE / aspect))
        return measure_sights(self.scene, *size)

    def shown(self, name: str) -> float:
        """The share of an actor that can be seen; 0 for one that is not in the scene."""
        return self.sights[name].shown if name in self.sights else 0.0

    @cached_property
    def clear(self) -> tuple[Actor, ...]:
        """The actors that are clearly there: at least a third is shown."""
        return tuple(actor for actor in self.scene.actors if self.shown(actor.name) >= 1 / 3)

    @cached_property
    def doubtful(self) -> tuple[Actor, ...]:
        """The actors that are hardly visible: annotators would disagree about their presence."""
        return tuple(actor for actor in self.scene.actors if 0.02 < self.shown(actor.name) < 1 / 3)

    @cached_property
    def present(self) -> tuple[Actor, ...]:
        """The clear actors, then the doubtful ones."""
        return self.clear + self.doubtful

    def unless_doubtful(self, verdict: bool | None, *actors: Actor) -> bool | None:
        """Return the verdict on actors; None instead of True where one of them is doubtful."""
        return None if verdict and any(actor in self.doubtful for actor in actors) else verdict
