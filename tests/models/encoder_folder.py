"""A small untrained model in open_clip's local-dir format, for tests of encoders."""

import json
from pathlib import Path
from typing import Any

import torch
from open_clip import CLIP, CoCa
from safetensors.torch import save_file

PREPROCESS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bicubic", "resize_mode": "shortest"}
MODEL: dict[str, Any] = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 1, "layers": 1},
}
COCA = MODEL | {
    "vision_cfg": MODEL["vision_cfg"] | {"output_tokens": True, "attentional_pool": True, "attn_pooler_heads": 2},
    "text_cfg": MODEL["text_cfg"] | {"embed_cls": True, "output_tokens": True},
    "multimodal_cfg": {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 1, "layers": 1},
    "custom_text": True,
}


def make_folder(
    folder: Path, seed: int = 0, preprocess: dict[str, object] | None = None, parts: dict[str, Any] = MODEL
) -> Path:
    """Write the config and the weights of that seed into a new folder and give it back."""
    folder.mkdir(parents=True)
    config = {"model_cfg": parts, "preprocess_cfg": preprocess or PREPROCESS}
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = (
            CoCa(**{name: part for name, part in parts.items() if name != "custom_text"})
            if parts is COCA
            else CLIP(**parts)
        )
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder
