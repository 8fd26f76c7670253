"""Regions of a picture: cells of an encoder, or the most certain boxes of a detector.

Letters: N pictures, R regions, F features, H and W cells of a grid.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from ctxr.errors import CtxrError, DataError, UsageError, and_more
from ctxr.media.images import Pixels
from ctxr.models.encoders import Warn, find_source, fingerprint, undrawn
from ctxr.models.hub import placeless
from ctxr.models.precision import choose_device
from ctxr.models.preprocess import Preprocess
from ctxr.models.published import fingerprint_of, read_tensors
from ctxr.store.regions import Array, with_whole

# pictures of every pass, filled up with zeros: the result must not depend on the other pictures
ROWS = 8


class GridRegions:
    """Cells of the last feature map of an encoder of open_clip, before pooling and projection.

    The picture is squashed to the encoder's square. A grid of more than `most` cells is averaged by area. Raises what `find_source`
    raises, and UsageError for an encoder without a feature map.
    """

    def __init__(self, name: str, most: int, device: str = "auto", warn: Warn = lambda _: None) -> None:
        source = find_source(name, warn)
        model = source.build()
        fitting = Preprocess.from_config(model.visual.preprocess_cfg)
        self.name, self._device = source.name, choose_device(device)
        self._preprocess = replace(fitting, resize_mode="squash")
        self._fingerprint = fingerprint(model, source.config, self._preprocess)
        self._tower = model.visual.to(self._device)
        pixels = torch.zeros(1, 3, *self._preprocess.size, device=self._device)
        with torch.inference_mode():
            _, self.features, height, width = feature_map(self._tower, pixels).shape
        self._finest, self.grid = [height, width], coarser(height, width, most)

    def describe(self) -> dict[str, object]:
        """Weights, preprocessing and grid."""
        return {
            "encoder": placeless(self.name),
            "fingerprint": self._fingerprint,
            "preprocess": asdict(self._preprocess),
            "grid": self.grid,
        }

    @torch.inference_mode()
    def regions(self, images: Sequence[Pixels]) -> list[Array]:
        """The whole picture and its cells, row by row from the top left: float32 [1 + H W, F + BOX] of each."""
        height, width = self.grid
        y, x = (edge.ravel() for edge in np.mgrid[:height, :width])
        boxes = np.stack([x / width, y / height, (x + 1) / width, (y + 1) / height], axis=1).astype(np.float32)
        regions_of = []
        for start in range(0, len(images), ROWS):
            part = images[start : start + ROWS]
            pixels = torch.zeros(ROWS, 3, *self._preprocess.size)
            pixels[: len(part)] = self._preprocess(part)
            maps = feature_map(self._tower, pixels.to(self._device)).float().cpu()[: len(part)]
            if self.grid != self._finest:
                rows, columns = (averaging(cells, kept) for cells, kept in zip(self._finest, self.grid, strict=True))
                maps = torch.einsum("hi,wj,nfij->nfhw", rows, columns, maps)
            cells = maps.flatten(2).transpose(1, 2).contiguous().numpy()
            regions_of += [with_whole(block, boxes) for block in cells]
        return regions_of


def feature_map(tower: nn.Module, pixels: Tensor) -> Tensor:
    """The last feature map [N, F, H, W] of open_clip's image tower. Raises UsageError without one."""
    from open_clip.modified_resnet import ModifiedResNet
    from open_clip.transformer import VisionTransformer

    tokens, grid = torch.zeros(0, 0, 0), (1, 1)
    if isinstance(tower, VisionTransformer):
        tokens, grid = output_of(tower.transformer, tower, pixels)[:, 1:], tower.grid_size
        # with attention pooling the norm comes after it, and is of another width
        tokens = tokens if tower.attn_pool is not None else tower.ln_post(tokens)
    elif isinstance(tower, ModifiedResNet):
        return cast("Tensor", output_of(tower.layer4, tower, pixels))
    elif trunk := cast("Any", getattr(tower, "trunk", None)):  # a network of timm
        out: Tensor = trunk.forward_features(pixels)
        if out.ndim == 4:  # a map, whose channels stand last in some networks
            channels = trunk.num_features
            return out.permute(0, 3, 1, 2) if out.shape[1] != channels and out.shape[3] == channels else out
        if out.ndim == 3:
            tokens = out[:, getattr(trunk, "num_prefix_tokens", 0) :]
            grid = (math.isqrt(tokens.shape[1]),) * 2
    if tokens.shape[1] != grid[0] * grid[1]:
        raise UsageError(
            f"an encoder of the kind {type(tower).__name__} has no grid of tokens",
            hint="name another transformer of open_clip, such as ViT-B-32:openai",
        )
    return tokens.transpose(1, 2).reshape(len(tokens), -1, *grid)


def coarser(height: int, width: int, most: int) -> list[int]:
    """[height, width] of the finest grid of at most `most` cells, of about the same shape.

    >>> coarser(14, 14, 36), coarser(7, 7, 49), coarser(8, 4, 10)
    ([6, 6], [7, 7], [4, 2])
    """
    scale = min(1.0, math.sqrt(most / (height * width)))
    return [max(1, min(most, math.floor(side * scale + 1e-9))) for side in (height, width)]


def averaging(cells: int, kept: int) -> Tensor:
    """Weights [kept, cells] by which `kept` equal parts of a line average its equal cells; rows add to 1."""
    fine, coarse = torch.arange(cells + 1) / cells, torch.arange(kept + 1) / kept
    upper = torch.minimum(fine[None, 1:], coarse[1:, None])
    return (upper - torch.maximum(fine[None, :-1], coarse[:-1, None])).clamp(min=0) * kept


def output_of(layer: nn.Module, tower: nn.Module, pixels: Tensor) -> Any:
    """The output of a layer while the tower computes."""
    seen: list[Any] = []
    handle = layer.register_forward_hook(lambda _layer, _given, out: seen.append(out))
    try:
        tower(pixels)
    finally:
        handle.remove()
    return seen[0]


# kind of the names of detectors: `faster-rcnn:WEIGHTS`, or without weights torchvision's own
DETECTOR = "faster-rcnn"

# a weight by which each of torchvision's two architectures is known
LAYOUTS = {"v2": "roi_heads.box_head.0.0.weight", "v1": "roi_heads.box_head.fc6.weight"}

CLASSES = "roi_heads.box_predictor.cls_score.weight"

# names of buffers that frozen normalisation does not save, and evaluation does not read
COUNTERS = "num_batches_tracked"


class DetectorRegions:
    """The boxes with a detector's highest scores for any class, and the features of its box head there.

    Of boxes that overlap more than the detector's threshold (0.5) the best one stays, whatever their classes.

    Args:
        weights: file of torchvision's `fasterrcnn_resnet50_fpn` or `_v2`, `.pth` or `.safetensors`.
        most: boxes of a picture, without the whole picture. settings: of torchvision's model, such as `min_size`.

    Raises DataError for a file of something else.
    """

    def __init__(self, weights: Path, most: int, device: str = "auto", settings: dict[str, int] | None = None) -> None:
        state = read_tensors(weights)
        layout = next((name for name, key in LAYOUTS.items() if key in state), None)
        if layout is None or CLASSES not in state:
            raise DataError(
                f"{weights} holds no weights of torchvision's fasterrcnn_resnet50_fpn or its v2",
                hint="give the state dict of that model as .pth or .safetensors",
            )
        self._layout, self._most, self._settings = layout, most, dict(settings or {})
        self._device = choose_device(device)
        with undrawn():
            self._model = build(layout, len(state[CLASSES]), self._settings)
        load_torchvision(self._model, state, weights, "detector")
        self._model.to(self._device)
        self._fingerprint = fingerprint_of({name: state[name] for name in state if not name.endswith(COUNTERS)})
        self.features = int(state[CLASSES].shape[1])

    def describe(self) -> dict[str, object]:
        """Weights, architecture, size of the picture and threshold."""
        transform, heads = self._model.transform, self._model.roi_heads
        return {
            "detector": f"fasterrcnn_resnet50_fpn {self._layout}",
            "fingerprint": self._fingerprint,
            "most": self._most,
            "overlap": heads.nms_thresh,
            "min_size": list(transform.min_size),
            "max_size": transform.max_size,
            "settings": self._settings,
        }

    @torch.inference_mode()
    def regions(self, images: Sequence[Pixels]) -> list[Array]:
        """The whole picture and its surest boxes: float32 [1 + up to `most`, F + BOX] each."""
        from torchvision.ops import clip_boxes_to_image, nms, remove_small_boxes

        model, heads, regions_of = self._model, self._model.roi_heads, list[Array]()
        for image in images:
            pixels = torch.tensor(image).permute(2, 0, 1).to(self._device).float() / 255
            batch, _ = model.transform([pixels])
            maps = model.backbone(batch.tensors)
            proposals, _ = model.rpn(batch, maps)
            # each proposal counts as the box of its best class; class 0 is the background
            logits, deltas = heads.box_predictor(heads.box_head(heads.box_roi_pool(maps, proposals, batch.image_sizes)))
            sure, best = torch.softmax(logits, -1)[:, 1:].max(-1)
            decoded = heads.box_coder.decode(deltas, proposals)
            boxes = decoded[torch.arange(len(best), device=best.device), best + 1]
            boxes = clip_boxes_to_image(boxes, batch.image_sizes[0])
            large = remove_small_boxes(boxes, min_size=1.0)
            kept = boxes[large][nms(boxes[large], sure[large], heads.nms_thresh)[: self._most]]
            features = heads.box_head(heads.box_roi_pool(maps, [kept], batch.image_sizes))
            height, width = batch.image_sizes[0]
            shares = kept / kept.new_tensor([width, height, width, height])
            regions_of.append(with_whole(features.float().cpu().numpy(), shares.float().cpu().numpy()))
        return regions_of


Extractor = GridRegions | DetectorRegions


def build(layout: str, classes: int, settings: dict[str, int]) -> Any:
    """The untrained detector in evaluation mode; nothing is downloaded."""
    from torchvision.models import detection

    make = detection.fasterrcnn_resnet50_fpn_v2 if layout == "v2" else detection.fasterrcnn_resnet50_fpn
    with torch.random.fork_rng(devices=[]):
        model = make(weights=None, weights_backbone=None, num_classes=classes, **settings)
    if layout == "v1":
        # torchvision's published weights of v1 were trained, and are run, without the small number under the root
        for layer in model.modules():
            if isinstance(layer, torch.nn.BatchNorm2d):
                layer.eps = 0.0
    return model.eval().requires_grad_(False)


def weights_here() -> Path:
    """torchvision's weights in its cache, v2 before v1. Raises CtxrError without: nothing is downloaded."""
    from torchvision.models import detection

    folder = Path(torch.hub.get_dir()) / "checkpoints"
    kinds = (detection.FasterRCNN_ResNet50_FPN_V2_Weights, detection.FasterRCNN_ResNet50_FPN_Weights)
    names = [str(kind.DEFAULT.url).rpartition("/")[2] for kind in kinds]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise CtxrError(
        f"the weights of torchvision's Faster R-CNN are not on this machine: {folder} holds neither {' nor '.join(names)}",
        hint="put one of them there, name a file (--extractor faster-rcnn:WEIGHTS.pth), or use a grid: --extractor grid:ENCODER",
    )


def load_torchvision(model: nn.Module, state: dict[str, Tensor], file: Path, what: str) -> None:
    """Fill a model of torchvision. Raises DataError where the weights of `file` are not those of `what`."""
    try:
        missing, strange = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        first = (str(error).strip().splitlines() or [""])[-1].strip()
        raise DataError(f"{file} does not fit torchvision's {what}: {first}") from error
    wrong = [name for name in (*missing, *strange) if not name.endswith(COUNTERS)]
    if wrong:
        raise DataError(f"{file} does not fit torchvision's {what} in {wrong[0]}{and_more(len(wrong))}")
