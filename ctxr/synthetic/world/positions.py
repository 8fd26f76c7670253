"""What can be said of where figures are and how big they are."""

import msgspec

from ctxr.synthetic.world.kinds import Kind, Verdict, pairs, some
from ctxr.synthetic.world.scenes import Actor
from ctxr.synthetic.world.sights import SceneView


def middle(view: SceneView, name: str) -> tuple[float, float]:
    """Return the middle of an actor's box inside the frame, as shares of width and height."""
    left, top, right, bottom = view.sights[name].box
    return (left + right) / 2, (top + bottom) / 2


class RelativePosition(msgspec.Struct, frozen=True, tag="Beside"):
    """One of the first kind is left of, right of, above or below another one of the second kind."""

    kind: Kind
    side: str
    other: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene, judged by the middles of what is drawn inside the frame."""
        couples = pairs(self.kind, self.other, view.present)
        return some(self._pair(view, a, b) for a, b in couples)

    def _pair(self, view: SceneView, a: Actor, b: Actor) -> Verdict:
        (x, y), (u, v) = middle(view, a.name), middle(view, b.name)
        across, down = x - u, y - v
        along, athwart = {"left": (-across, down), "right": (across, down), "above": (-down, across)}.get(
            self.side, (down, across)
        )
        # further along than a tenth of the frame, and not mostly in the other direction
        if along >= 0.12 and along >= 0.6 * abs(athwart):
            return view.unless_doubtful(True, a, b)
        return False if along <= 0.04 else None


class Within(msgspec.Struct, frozen=True, tag=True):
    """One of the kind is in a region: left, right, top, bottom, middle, or a corner such as "top left"."""

    kind: Kind
    region: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene."""
        actors = (actor for actor in view.present if self.kind.fits(actor))
        return some(view.unless_doubtful(self._one(*middle(view, actor.name)), actor) for actor in actors)

    def _one(self, x: float, y: float) -> Verdict:
        if self.region == "middle":
            far = max(abs(x - 0.5), abs(y - 0.5))
            return True if far <= 0.13 else (False if far >= 0.2 else None)
        parts = {"left": 1 - x, "right": x, "top": 1 - y, "bottom": y}
        # a corner asks for both sides, but less of each
        sure, never = (0.62, 0.52) if " " in self.region else (0.68, 0.58)
        reached = min(parts[word] for word in self.region.split())
        return True if reached >= sure else (False if reached <= never else None)


class Bigger(msgspec.Struct, frozen=True, tag=True):
    """One of the first kind is bigger than one of the second kind."""

    kind: Kind
    other: Kind

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: sizes of one name are too close to call."""
        couples = pairs(self.kind, self.other, view.present)
        return some(view.unless_doubtful(None if a.size == b.size else a.radius > b.radius, a, b) for a, b in couples)


class Outermost(msgspec.Struct, frozen=True, tag=True):
    """Of several figures, the one farthest to a side (left, right, top, bottom) is of the kind."""

    kind: Kind
    side: str

    def verdict(self, view: SceneView) -> Verdict:
        """Return whether it holds of the view's scene: a lead below 4 % of the frame is too close to call."""
        if len(view.clear) < 2:
            return None if len(view.present) >= 2 else False
        ranked = sorted(view.clear, key=lambda actor: self._out(view, actor), reverse=True)
        lead = self._out(view, ranked[0])
        rivals = [actor for actor in (*ranked, *view.doubtful) if lead - self._out(view, actor) < 0.04]
        fits = {self.kind.fits(actor) for actor in rivals}
        return fits.pop() if len(fits) == 1 else None

    def _out(self, view: SceneView, actor: Actor) -> float:
        x, y = middle(view, actor.name)
        return {"left": -x, "right": x, "top": -y}.get(self.side, y)
