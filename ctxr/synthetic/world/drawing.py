"""Drawing a scene: actors as stickers with a rim and a soft shadow, before a backdrop."""

import math
from functools import cache
from typing import NamedTuple

import cv2
import numpy as np

from ctxr.synthetic.world.backdrops import window
from ctxr.synthetic.world.outlines import DETAILS, OUTLINES, REACH, Contour
from ctxr.synthetic.world.scenes import COLOURS, Actor, Overlay, Scene

_SUB = 4  # binary digits of a pixel's fraction, for OpenCV's fixed-point coordinates
_TILE = 256
_RIM = 0.075  # width of a sticker's rim, as a share of the actor's radius
_SHADOW = 0.42  # how dark the shadow is
_PAPER, _INK = (248, 246, 240), (24, 24, 30)  # an overlay's panel and text; dark on light is read best by Tesseract


@cache
def _stencils(shape: str) -> tuple[np.ndarray, ...]:
    """Return a shape's mask at 512, 256, ... 8 pixels across `REACH`, uint8: how much of each pixel is inside."""
    # OpenCV's own anti-aliasing makes figures half a pixel too wide on every side, a third of a small one's area
    fine = np.zeros((2048, 2048), np.uint8)
    for part in OUTLINES[shape]:
        points = [np.round((contour / REACH + 1) * 1024 - 0.5).astype(np.int32) for contour in part]
        layer = np.zeros_like(fine)
        cv2.fillPoly(layer, points, 255)
        fine = np.maximum(fine, layer)
    levels = [np.asarray(cv2.resize(fine, (512, 512), interpolation=cv2.INTER_AREA))]
    while levels[-1].shape[0] > 8:
        size = levels[-1].shape[0] // 2
        levels.append(np.asarray(cv2.resize(levels[-1], (size, size), interpolation=cv2.INTER_AREA)))
    return tuple(levels)


class Silhouette(NamedTuple):
    """An actor's anti-aliased mask, uint8 [h, w], 255 inside, and where its upper left corner lies in the picture.

    It is not cut at the picture's edges: the corner may be negative, and the mask may reach beyond the picture.
    """

    mask: np.ndarray
    left: int
    top: int


def silhouette(actor: Actor, width: int, height: int) -> Silhouette:
    """Return the silhouette of an actor in a picture of width x height pixels."""
    scale = actor.radius * min(width, height)
    x, y = actor.x * width, actor.y * height
    reach = math.ceil(scale * REACH) + 1
    left, top = math.floor(x) - reach, math.floor(y) - reach
    levels = _stencils(actor.shape)
    level = next((stencil for stencil in reversed(levels) if stencil.shape[0] / 2 >= 0.7 * scale * REACH), levels[0])
    half = level.shape[0] / 2
    matrix = _to_actor(actor, half / (REACH * scale), (x - left - 0.5, y - top - 0.5), half - 0.5)
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    mask = np.asarray(cv2.warpAffine(level, matrix, (2 * reach + 1, 2 * reach + 1), flags=flags))
    return Silhouette(mask, left, top)


def _to_actor(actor: Actor, step: float, centre: tuple[float, float], origin: float) -> np.ndarray:
    """The map from a window's pixels to a pattern, at `step` to a pixel, with its `origin` on the actor's `centre`."""
    angle = math.radians(actor.angle)
    cosine, sine = math.cos(angle) * step, math.sin(angle) * step
    x, y = centre
    return np.array([[cosine, sine, origin - cosine * x - sine * y], [-sine, cosine, origin + sine * x - cosine * y]])


@cache
def _pattern(texture: str) -> np.ndarray:
    """Return the share of the second colour, uint8 [256, 256], one tile of four periods, soft at the edges."""
    rows, columns = np.mgrid[0:_TILE, 0:_TILE] / (_TILE / 4)
    if texture == "striped":
        share = ((columns + rows) % 1.0) < 0.5
    elif texture == "dotted":
        share = np.hypot((columns % 1.0) - 0.5, (rows % 1.0) - 0.5) < 0.29
    else:
        share = ((columns % 1.0) < 0.5) ^ ((rows % 1.0) < 0.5)
    hard = np.where(share, 255, 0).astype(np.uint8)
    return np.asarray(cv2.blur(hard, (5, 5), borderType=cv2.BORDER_REFLECT_101))


def _brightness(colour: tuple[int, int, int]) -> float:
    return 0.299 * colour[0] + 0.587 * colour[1] + 0.114 * colour[2]


def _shaded(colour: tuple[int, int, int], shade: float) -> tuple[float, ...]:
    return tuple(c + (255 - c) * shade if shade >= 0 else c * (1 + shade) for c in colour)


def _surface(actor: Actor, scale: float, centre: tuple[float, float], shape: tuple[int, ...]) -> np.ndarray:
    """Return what fills the silhouette, uint8 [h, w, 3]: colour, pattern, details and face."""
    colour, angle = COLOURS[actor.colour], math.radians(actor.angle)
    cosine, sine = math.cos(angle) * scale, math.sin(angle) * scale
    turn = np.array([[cosine, sine], [-sine, cosine]])

    def place(contour: Contour) -> np.ndarray:
        # OpenCV's integer coordinates name pixel centres
        return np.asarray(np.round((contour @ turn + centre - 0.5) * (1 << _SUB)), np.int32)

    patch = np.full((*shape, 3), colour, np.uint8)
    if actor.texture != "plain":
        matrix = _to_actor(actor, _TILE / (scale * 1.9), centre, 0.0)
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        share = cv2.warpAffine(_pattern(actor.texture), matrix, shape[::-1], flags=flags, borderMode=cv2.BORDER_WRAP)
        # stripes and dots are lighter on dark colours, darker on light ones
        second = _shaded(colour, 0.62 if _brightness(colour) < 165 else -0.45)
        patch = np.linspace(colour, second, 256).round().astype(np.uint8)[share]
    for contour, shade in DETAILS.get(actor.shape, ()):
        cv2.fillPoly(patch, [place(contour)], _shaded(colour, shade), cv2.LINE_AA, _SUB)
    if actor.face:
        ink = (250, 248, 240) if _brightness(colour) < 70 else (30, 26, 30)
        lift = 0.04 if actor.shape in ("cloud", "drop") else -0.06
        thick = max(1, round(scale * 0.075))
        around = np.deg2rad(np.arange(0, 360, 15))
        disc = np.stack([np.cos(around), np.sin(around)], axis=1)
        for x in (-0.24, 0.24):
            eye = disc * (0.085, 0.12) + np.array([x, lift - 0.08])
            if actor.face == "sleeping":
                arc = np.deg2rad(np.arange(20, 161, 20))
                line = np.stack([np.cos(arc) * 0.13, np.sin(arc) * 0.09], axis=1) + np.array([x, lift - 0.08])
                cv2.polylines(patch, [place(line)], False, ink, thick, cv2.LINE_AA, _SUB)
            else:
                cv2.fillPoly(patch, [place(eye)], ink, cv2.LINE_AA, _SUB)
        arc = np.deg2rad(np.arange(25, 156, 13))
        sign, base, tall = {
            "smiling": (1, 0.12, 0.24),
            "sad": (-1, 0.42, 0.2),
            "sleeping": (1, 0.24, 0.05),
        }[actor.face]
        wide = 0.14 if actor.face == "sleeping" else 0.32
        mouth = np.stack([np.cos(arc) * wide, sign * np.sin(arc) * tall], axis=1) + np.array([0, lift + base])
        cv2.polylines(patch, [place(mouth)], False, ink, thick, cv2.LINE_AA, _SUB)
    return patch


def _draw_actor(picture: np.ndarray, actor: Actor) -> None:
    height, width = picture.shape[:2]
    mask, left, top = silhouette(actor, width, height)
    scale = actor.radius * min(width, height)
    soft = max(1, round(scale * 0.1))
    # the shadow falls down and to the right: grow the window so that it fits
    mask = np.pad(mask, ((soft, 2 * soft), (soft, 2 * soft)))
    left, top = left - soft, top - soft
    x0, x1 = (min(max(x, 0), width) for x in (left, left + mask.shape[1]))
    y0, y1 = (min(max(y, 0), height) for y in (top, top + mask.shape[0]))
    shadow = cv2.blur(mask, (2 * soft + 1, 2 * soft + 1))
    surface = _surface(actor, scale, (actor.x * width - left, actor.y * height - top), mask.shape)
    rim = max(1, round(scale * _RIM))
    inner = cv2.erode(mask, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * rim + 1, 2 * rim + 1)))
    light = _brightness(COLOURS[actor.colour]) > 205
    edge = np.array((58, 54, 60) if light else (250, 247, 240), np.float32)
    cut = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    below = picture[y0:y1, x0:x1].astype(np.float32)
    # what comes round are zeros: the window grew by twice what the shadow was blurred by
    veil = np.roll(shadow, (soft, soft // 2), (0, 1))[cut].astype(np.float32)[..., None] * (_SHADOW / 255)
    below *= 1 - veil
    inside = inner[cut].astype(np.float32)[..., None] * (1 / 255)
    figure = edge + (surface[cut].astype(np.float32) - edge) * inside
    below += (figure - below) * (mask[cut].astype(np.float32)[..., None] * (1 / 255))
    picture[y0:y1, x0:x1] = (below + 0.5).astype(np.uint8)


def panel(overlay: Overlay, width: int, height: int) -> slice:
    """Return the rows that the overlay's panel covers in a picture of that size."""
    seen = round(_panel_height(overlay, width, height) * overlay.shown)
    return slice(0, seen) if overlay.edge == "top" else slice(height - seen, height)


def _panel_height(overlay: Overlay, width: int, height: int) -> int:
    return min(height, round(min(width, height) * (0.05 + 0.15 * len(overlay.lines))))


def render(scene: Scene, width: int, height: int) -> np.ndarray:
    """Return the picture of a scene, uint8 RGB [height, width, 3]; equal scenes give equal pixels.

    Positions are shares of width and height and radii shares of the shorter side, so the drawing scales; what the
    scene's statements say about overlaps holds for its own aspect ratio.
    Raises DataError if a photograph is missing from the installed scikit-image.
    """
    behind = scene.backdrop
    picture = window(behind.name, behind.x, behind.y, behind.zoom, behind.mirrored, width=width, height=height)
    for actor in scene.actors:
        _draw_actor(picture, actor)
    if scene.light != 1.0:
        picture = np.asarray(cv2.convertScaleAbs(picture, alpha=scene.light))
    if scene.blur > 0:
        sigma = scene.blur * min(width, height)
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), sigma, borderType=cv2.BORDER_REFLECT_101))
    if (overlay := scene.overlay) is not None:
        sheet = np.full((_panel_height(overlay, width, height), width, 3), _PAPER, np.uint8)
        row = sheet.shape[0] / len(overlay.lines)
        font = cv2.FONT_HERSHEY_DUPLEX
        for index, line in enumerate(overlay.lines):
            (wide, tall), _ = cv2.getTextSize(line, font, 1.0, 1)
            scale = min(width * 0.9 / wide, row * 0.55 / tall)
            thick = max(1, round(scale * 1.3))
            origin = (round((width - wide * scale) / 2), round(row * (index + 0.5) + tall * scale / 2))
            cv2.putText(sheet, line, origin, font, scale, _INK, thick, cv2.LINE_AA)
        rows = panel(overlay, width, height)
        # it slides in from its edge: at the top its lower rows come first
        first = sheet.shape[0] - rows.stop if overlay.edge == "top" else 0
        picture[rows] = sheet[first : first + rows.stop - rows.start]
    return picture
