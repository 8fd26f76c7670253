"""What can be said of how much of a figure can be seen."""

import msgspec

from ctxr.synthetic.world.kinds import Existential, Kind, Verdict, pairs, some
from ctxr.synthetic.world.scenes import Actor
from ctxr.synthetic.world.sights import SceneView

AMOUNTS: dict[str, tuple[float, float]] = {"little": (0.08, 0.3), "half": (0.42, 0.58), "most": (0.7, 0.92)}
"""Words for how much of a figure is hidden, as ranges of the hidden share; the gaps between them are too close to call."""


class Behind(msgspec.Struct, frozen=True, tag=True):
    """One of the first kind is partly hidden behind one of the second kind."""

    kind: Kind
    other: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: from a tenth covered on it does, below a fiftieth it does not."""
        return some(self._pair(view, a, b) for a, b in pairs(self.kind, self.other, view.scene.actors))

    def _pair(self, view: SceneView, a: Actor, b: Actor) -> Verdict:
        share, sight = view.sights[a.name].behind.get(b.name, 0.0), view.sights[a.name]
        if share < 0.02:
            return False
        seen = sight.shown >= 0.15 and view.sights[b.name].shown >= 1 / 3
        return True if share >= 0.1 and seen else None


class CutOff(Existential, frozen=True, tag=True):
    """One of the kind is cut by an edge of the frame: left, top, right, bottom, or any of them if `edge` is empty."""

    edge: str = ""

    def _of(self, view: SceneView, actor: Actor) -> Verdict:
        sight = view.sights[actor.name]
        edges = dict(zip(("left", "top", "right", "bottom"), sight.edges, strict=True))
        share = edges[self.edge] if self.edge else max(sight.edges)
        if share < 0.02 or sight.shown <= 0.02:
            return False
        return True if share >= 0.12 and sight.shown >= 0.2 else None


class Entire(Existential, frozen=True, tag=True):
    """One of the kind can be seen as a whole: nothing covers it and no edge cuts it."""

    def _of(self, view: SceneView, actor: Actor) -> Verdict:
        shown = view.sights[actor.name].shown
        return True if shown >= 0.98 else None if shown > 0.92 else False


class NoOverlap(msgspec.Struct, frozen=True, tag="Apart"):
    """There are several figures and none covers any of another."""

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        covered = max((sight.covered for sight in view.sights.values()), default=0.0)
        if covered >= 0.05 or len(view.present) < 2:
            return False
        return None if covered > 0 or len(view.clear) < 2 else True


class Hidden(Existential, frozen=True, tag=True):
    """A little, half or most of one of the kind is hidden: covered or outside the frame."""

    amount: str

    def _of(self, view: SceneView, actor: Actor) -> Verdict:
        hidden, (low, high) = view.sights[actor.name].hidden, AMOUNTS[self.amount]
        if low <= hidden <= high:
            return True
        others = [bounds for amount, bounds in AMOUNTS.items() if amount != self.amount]
        clearly = hidden < 0.02 or hidden > 0.98 or any(lo <= hidden <= hi for lo, hi in others)
        return False if clearly else None
