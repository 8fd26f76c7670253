"""Regions of a picture as a detector's most certain boxes: torchvision's Faster R-CNN over ResNet-50 with a feature pyramid.

These are the 1024 features of its box head, trained on COCO; not the 2048 of the bottom-up-attention detector (Visual Genome),
which come in as files.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ctxr.data.images import Pixels
from ctxr.data.regions import Array, with_whole
from ctxr.errors import CtxrError, DataError
from ctxr.models.precision import choose_device
from ctxr.models.published import fingerprint_of, read_tensors

LAYOUTS = {"v2": "roi_heads.box_head.0.0.weight", "v1": "roi_heads.box_head.fc6.weight"}
"""A weight by which each of torchvision's two architectures is known."""

CLASSES = "roi_heads.box_predictor.cls_score.weight"

COUNTERS = "num_batches_tracked"
"""Names of buffers that frozen normalisation does not save, and evaluation does not read."""


class DetectorRegions:
    """The boxes that a detector is surest of, with the features of its box head at these boxes.

    Each proposal counts with its best class; boxes that overlap more than the detector's own threshold (0.5) with a surer one
    go, whatever their classes. Fewer than `most` may remain.

    Args:
        weights: file of torchvision's `fasterrcnn_resnet50_fpn` or `_v2`, `.pth` or `.safetensors`.
        most: boxes of a picture, the whole picture not counted.
        device: "auto", "cpu" or "cuda".
        settings: of torchvision's model, such as `min_size`; its own by default.

    Raises DataError for a file that holds something else.
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
        self._model = build(layout, len(state[CLASSES]), self._settings)
        _load(self._model, state, weights)
        self._model.to(self._device)
        self._fingerprint = _fingerprint(state)
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

    def regions(self, images: Sequence[Pixels]) -> list[Array]:
        """The whole picture and its boxes, the surest first: float32 [1 + up to `most`, F + BOX] of each picture."""
        with torch.inference_mode():
            return [self._look(image) for image in images]

    def _look(self, image: Pixels) -> Array:
        from torchvision.ops import nms

        model, heads = self._model, self._model.roi_heads
        pixels = torch.tensor(image).permute(2, 0, 1).to(self._device).float() / 255
        batch, _ = model.transform([pixels])
        maps = model.backbone(batch.tensors)
        proposals, _ = model.rpn(batch, maps)
        boxes, sure = self._boxes(maps, proposals, batch.image_sizes)
        kept = boxes[nms(boxes, sure, heads.nms_thresh)[: self._most]]
        features = heads.box_head(heads.box_roi_pool(maps, [kept], batch.image_sizes))
        height, width = batch.image_sizes[0]
        shares = kept / kept.new_tensor([width, height, width, height])
        return with_whole(features.float().cpu().numpy(), shares.float().cpu().numpy())

    def _boxes(
        self, maps: dict[str, Tensor], proposals: list[Tensor], sizes: list[tuple[int, int]]
    ) -> tuple[Tensor, Tensor]:
        """Each proposal as the box of its best class [P, 4], inside the picture, and how sure that class is [P]."""
        from torchvision.ops import clip_boxes_to_image, remove_small_boxes

        heads = self._model.roi_heads
        logits, deltas = heads.box_predictor(heads.box_head(heads.box_roi_pool(maps, proposals, sizes)))
        # class 0 is the background
        sure, best = torch.softmax(logits, -1)[:, 1:].max(-1)
        decoded = heads.box_coder.decode(deltas, proposals)
        boxes = clip_boxes_to_image(decoded[torch.arange(len(best), device=best.device), best + 1], sizes[0])
        there = remove_small_boxes(boxes, min_size=1.0)
        return boxes[there], sure[there]


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
    """torchvision's published weights where an earlier download left them, v2 before v1.

    Raises CtxrError where they are not: nothing is downloaded.
    """
    from torchvision.models import detection

    folder = Path(torch.hub.get_dir()) / "checkpoints"
    published = (
        detection.FasterRCNN_ResNet50_FPN_V2_Weights.DEFAULT,
        detection.FasterRCNN_ResNet50_FPN_Weights.DEFAULT,
    )
    names = [str(one.url).rpartition("/")[2] for one in published]
    for name in names:
        if (folder / name).is_file():
            return folder / name
    raise CtxrError(
        f"the weights of torchvision's Faster R-CNN are not on this machine: {folder} holds neither {' nor '.join(names)}",
        hint="put one of them there, name a file (--by faster-rcnn:WEIGHTS.pth), or use a grid: --by grid:ENCODER",
    )


def _load(model: Any, state: dict[str, Tensor], file: Path) -> None:
    try:
        missing, strange = model.load_state_dict(state, strict=False)
    except RuntimeError as error:
        first = (str(error).strip().splitlines() or [""])[-1].strip()
        raise DataError(f"{file} does not fit torchvision's detector: {first}") from error
    wrong = [name for name in (*missing, *strange) if not name.endswith(COUNTERS)]
    if wrong:
        raise DataError(f"{file} does not fit torchvision's detector: {wrong[0]} and {len(wrong) - 1} more differ")


def _fingerprint(state: dict[str, Tensor]) -> str:
    """sha256 over names, shapes and values, whatever file they came from."""
    return fingerprint_of({name: tensor for name, tensor in state.items() if not name.endswith(COUNTERS)})
