"""Train the gate before Tesseract (`ctxr.media.text_area`) on text drawn over the photographs of scikit-image.

    python -m scripts.train_text_gate FOLDER_WITH_TTF_FONTS --steps 6000

What `HOT` and `LEAST_SHARE` of `ctxr.media.text_area` should then be: `python -m bench.quality gate`.
"""

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from safetensors.torch import save_file
from skimage import data as photographs

from ctxr.media.text_area import CELL, LAYERS, WEIGHTS, even_contrast

Picture = NDArray[np.uint8]
Heat = NDArray[np.float32]
Rng = np.random.Generator

PHOTOS = (
    *("astronaut", "brick", "camera", "cell", "chelsea", "coffee", "coins", "grass", "gravel", "hubble_deep_field"),
    *("immunohistochemistry", "moon", "retina", "rocket"),
)
SIDE = 256
BATCH = 24
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# contrast of letters against what is around them, in spreads and in grey levels; fainter text is not asked for
LEAST_CONTRAST, LEAST_LEVELS = 0.9, 7.0


@dataclass(frozen=True)
class Example:
    """A picture [256, 256] of evened contrast, where text is [32, 32], and which cells count [32, 32]."""

    picture: NDArray[np.float32]
    text: Heat
    counts: Heat


def colour(rng: Rng) -> tuple[int, int, int]:
    """Any colour."""
    red, green, blue = (int(level) for level in rng.integers(0, 256, 3))
    return red, green, blue


def brightness(rgb: tuple[int, int, int]) -> float:
    """Its grey level, 0..255."""
    return 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2]


def words(rng: Rng) -> str:
    """One to five words of random letters, sometimes a number."""
    chosen = []
    for _ in range(rng.integers(1, 6)):
        word = "".join(LETTERS[at] for at in rng.integers(0, 26, rng.integers(2, 10)))
        chosen.append((word.upper, word.capitalize, word.lower, word.lower)[rng.integers(4)]())
    if rng.random() < 0.15:
        chosen.append(str(rng.integers(1, 9999)))
    return " ".join(chosen)


def crop(photos: list[Picture], rng: Rng) -> Picture:
    """A part of a photo, turned, mirrored, relit; sometimes two of them, for edges that nature has not."""
    photo = photos[rng.integers(len(photos))]
    side = min(int(SIDE * np.exp(rng.uniform(-0.7, 1.0))), *photo.shape[:2])
    top, left = (int(rng.integers(0, size - side + 1)) for size in photo.shape[:2])
    part = photo[top : top + side, left : left + side]
    part = cv2.resize(part, (SIDE, SIDE), interpolation=cv2.INTER_AREA if side > SIDE else cv2.INTER_CUBIC)
    if rng.random() < 0.3:
        part = np.rot90(part, int(rng.integers(1, 4)))
    if rng.random() < 0.5:
        part = part[:, ::-1]
    part = np.clip(part * rng.uniform(0.5, 1.5) + rng.uniform(-50, 50), 0, 255).astype(np.uint8)
    if rng.random() < 0.2:
        rows = int(rng.integers(30, 220))
        part[:rows] = crop(photos, rng)[:rows]
    return np.ascontiguousarray(part)


def background(photos: list[Picture], rng: Rng) -> Picture:
    """Something without text: a photo, one colour or a ramp; sometimes with shapes, or with bars and tiles in a row."""
    kind = rng.random()
    if kind < 0.06:
        found = np.full((SIDE, SIDE, 3), colour(rng), np.uint8)
    elif kind < 0.1:
        ramp = np.linspace(rng.integers(256), rng.integers(256), SIDE).astype(np.uint8)
        found = np.ascontiguousarray(np.broadcast_to(ramp[:, None, None], (SIDE, SIDE, 3)))
    else:
        found = crop(photos, rng)
    if rng.random() < 0.35:
        for _ in range(rng.integers(1, 12)):
            shape(found, rng)
    if rng.random() < 0.15:
        step, height = int(rng.integers(5, 40)), int(rng.integers(5, 60))
        top, left = (int(at) for at in rng.integers(0, 180, 2))
        fill = colour(rng)
        for place in range(int(rng.integers(4, 14))):
            corner = (left + place * step, top)
            cv2.rectangle(found, corner, (corner[0] + int(step * 0.6), top + height), fill, -1)
    return found


def shape(picture: Picture, rng: Rng) -> None:
    """Draw a rectangle, an ellipse, a line or a disc."""
    x, y = (int(at) for at in rng.integers(0, SIDE, 2))
    width, height = (int(size) for size in rng.integers(3, 120, 2))
    line = -1 if rng.random() < 0.5 else int(rng.integers(1, 6))
    match rng.integers(4):
        case 0:
            cv2.rectangle(picture, (x, y), (x + width, y + height), colour(rng), line)
        case 1:
            cv2.ellipse(picture, (x, y), (width, height), float(rng.integers(180)), 0, 360, colour(rng), line)
        case 2:
            cv2.line(picture, (x, y), (x + width, y + height - 60), colour(rng), abs(line))
        case _:
            cv2.circle(picture, (x, y), width // 4 + 1, colour(rng), line)


class Writer:
    """Draws text and knows where it can be read."""

    def __init__(self, folder: Path) -> None:
        self.files = sorted(folder.rglob("*.ttf"))
        if not self.files:
            raise SystemExit(f"no .ttf files under {folder}")

    def font(self, rng: Rng, size: int) -> Any:
        """A font of the folder, or Pillow's own."""
        at = int(rng.integers(len(self.files) + 5))
        return ImageFont.truetype(self.files[at], size) if at < len(self.files) else ImageFont.load_default(size)

    def write(self, picture: Picture, text: Heat, counts: Heat, rng: Rng) -> Picture:
        """`picture` with a line of words; `text` and `counts` are updated."""
        size = int(np.exp(rng.uniform(np.log(9), np.log(110))))
        font, line = self.font(rng, size), words(rng)
        layer = Image.new("RGBA", (SIDE, SIDE), (0, 0, 0, 0))
        pen = ImageDraw.Draw(layer)
        box = pen.textbbox((0, 0), line, font=font)
        width, height = int(box[2] - box[0]), int(box[3] - box[1])
        left = int(rng.integers(min(0, SIDE - width) - 20, max(1, SIDE - width) + 20))
        top = int(rng.integers(-5, max(1, SIDE - height)))
        ink = ((255, 255, 255), (255, 255, 255), (0, 0, 0), colour(rng), colour(rng))[rng.integers(5)]
        opposite = (0, 0, 0) if brightness(ink) > 110 else (255, 255, 255)
        opacity = int(255 * rng.choice([1, 1, 1, 0.7, 0.45]))
        if rng.random() < 0.35:
            behind = colour(rng) if rng.random() < 0.3 else opposite
            edge = max(2, size // 6)
            corners = (left - edge, top - edge, left + width + edge, top + height + edge)
            pen.rectangle(corners, fill=(*behind, int(255 * rng.choice([0.5, 0.8, 1]))))
        outline = int(rng.integers(1, 3)) if size > 12 and rng.random() < 0.35 else 0
        at = (left - box[0], top - box[1])
        pen.text(at, line, font=font, fill=(*ink, opacity), stroke_width=outline, stroke_fill=(*opposite, opacity))
        written = np.array(Image.alpha_composite(Image.fromarray(picture).convert("RGBA"), layer).convert("RGB"))
        mask = Image.new("L", (SIDE, SIDE), 0)
        ImageDraw.Draw(mask).text(at, line, font=font, fill=255)
        bounds = (max(0, top), min(SIDE, top + height), max(0, left), min(SIDE, left + width))
        self.label(
            written,
            np.asarray(mask) > 128,
            bounds,
            top >= -height * 0.15 and top + height <= SIDE * 1.03,
            text,
            counts=counts,
        )
        return written

    @staticmethod
    def label(
        written: Picture,
        ink: NDArray[np.bool_],
        bounds: tuple[int, int, int, int],
        whole: bool,
        text: Heat,
        *,
        counts: Heat,
    ) -> None:
        """Say where the new text is, and leave out what is around it, cut off or too faint to be asked for."""
        top, bottom, left, right = bounds
        if bottom - top < 4 or right - left < 8:
            return
        grey = cv2.cvtColor(written, cv2.COLOR_RGB2GRAY)[top:bottom, left:right].astype(np.float32)
        on, off = grey[ink[top:bottom, left:right]], grey[~ink[top:bottom, left:right]]
        rows, columns = slice(top // CELL, -(-bottom // CELL)), slice(left // CELL, -(-right // CELL))
        around = (
            slice(max(0, rows.start - 1), rows.stop + 1),
            slice(max(0, columns.start - 1), columns.stop + 1),
        )
        before = counts[rows, columns].copy()
        counts[around] = 0
        counts[rows, columns] = before
        levels = abs(float(on.mean() - off.mean())) if min(on.size, off.size) > 5 else 0.0
        if whole and levels > LEAST_LEVELS and levels > LEAST_CONTRAST * float(on.std() + off.std() + 8):
            text[rows, columns] = 1
        else:
            counts[rows, columns] = 0


def example(photos: list[Picture], writer: Writer, rng: Rng) -> Example:
    """A picture, half of the time with text; blurred, noisy or packed as JPEG some of the time."""
    picture = background(photos, rng)
    text = np.zeros((SIDE // CELL, SIDE // CELL), np.float32)
    counts = np.ones_like(text)
    if rng.random() < 0.5:
        for _ in range(rng.integers(1, 4)):
            picture = writer.write(picture, text, counts, rng)
    if rng.random() < 0.2:
        picture = np.asarray(cv2.GaussianBlur(picture, (0, 0), rng.uniform(0.4, 1.0)), np.uint8)
    if rng.random() < 0.2:
        noise = rng.normal(0, rng.uniform(2, 14), picture.shape)
        picture = np.clip(picture + noise, 0, 255).astype(np.uint8)
    if rng.random() < 0.5:
        packed = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, int(rng.integers(35, 95))])[1]
        picture = np.asarray(cv2.imdecode(packed, cv2.IMREAD_COLOR), np.uint8)
    return Example(even_contrast(np.asarray(cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY), np.uint8)), text, counts)


def build_network() -> torch.nn.Sequential:
    """The gate as torch trains it: [B, 1, H, W] evened grey levels -> [B, 1, H / 8, W / 8] logits."""
    parts: list[torch.nn.Module] = []
    channels = 1
    for layer in LAYERS:
        margin = layer.dilation * (layer.size // 2)
        parts += [
            torch.nn.Conv2d(channels, layer.channels, layer.size, layer.stride, margin, layer.dilation),
            torch.nn.ReLU(),
        ]
        channels = layer.channels
    return torch.nn.Sequential(*parts[:-1])


def save(network: torch.nn.Sequential) -> None:
    """Write the weights by number of the layer."""
    tensors: dict[str, torch.Tensor] = {}
    for number, convolution in enumerate(network[::2]):
        tensors |= {f"{number}.{name}": tensor.detach().clone() for name, tensor in convolution.named_parameters()}
    WEIGHTS.parent.mkdir(parents=True, exist_ok=True)
    save_file(tensors, WEIGHTS)
    WEIGHTS.chmod(0o644)


def loss_of(heat: torch.Tensor, text: torch.Tensor, counts: torch.Tensor) -> torch.Tensor:
    """Focal cross-entropy, plus what the four most text-like cells without text of each picture cost."""
    plain = torch.nn.functional.binary_cross_entropy_with_logits(heat, text, reduction="none")
    sure = torch.where(text > 0, heat.sigmoid(), 1 - heat.sigmoid())
    focal = (plain * (1 - sure) ** 1.5 * counts).sum() / counts.sum()
    wrong = torch.where((text == 0) & (counts > 0), heat, heat.new_tensor(-20.0)).flatten(1).topk(4).values
    return 20 * focal + 0.3 * torch.nn.functional.softplus(wrong).mean()


def main() -> None:
    """Train and write the weights."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fonts", type=Path, help="folder with .ttf files")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    photos = [np.asarray(getattr(photographs, name)(), np.uint8) for name in PHOTOS]
    photos = [photo if photo.ndim == 3 else np.repeat(photo[:, :, None], 3, axis=2) for photo in photos]
    photos += [np.asarray(view, np.uint8) for view in photographs.stereo_motorcycle()[:2]]
    writer = Writer(options.fonts)
    network = build_network()
    optimiser = torch.optim.AdamW(network.parameters(), 4e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, options.steps)
    for step in range(options.steps):
        examples = [example(photos, writer, rng) for _ in range(BATCH)]
        pictures, text, counts = (
            torch.from_numpy(np.stack([getattr(one, name) for one in examples]))
            for name in ("picture", "text", "counts")
        )
        loss = loss_of(network(pictures[:, None])[:, 0], text, counts)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        schedule.step()
        if step % 250 == 0:
            print(f"step {step}: loss {loss.item():.3f}", flush=True)
    save(network)
    print(f"wrote {WEIGHTS.name}")


if __name__ == "__main__":
    main()
