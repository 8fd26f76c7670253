"""A small untrained model in open_clip's local-dir format, for tests of encoders."""

import json
from pathlib import Path

import torch
from open_clip import CLIP
from safetensors.torch import save_file

PREPROCESS = {"mean": [0.5, 0.4, 0.3], "std": [0.2, 0.3, 0.4], "interpolation": "bicubic", "resize_mode": "shortest"}
MODEL = {
    "embed_dim": 32,
    "vision_cfg": {"image_size": 48, "layers": 2, "width": 64, "head_width": 32, "patch_size": 16},
    "text_cfg": {"context_length": 12, "vocab_size": 49408, "width": 32, "heads": 1, "layers": 1},
}


def make_folder(folder: Path, seed: int = 0, preprocess: dict[str, object] | None = None) -> Path:
    """Write the config and the weights of that seed into a new folder and give it back."""
    folder.mkdir(parents=True)
    config = {"model_cfg": MODEL, "preprocess_cfg": preprocess or PREPROCESS}
    (folder / "open_clip_config.json").write_text(json.dumps(config), encoding="utf-8")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = CLIP(**MODEL)
    save_file(model.state_dict(), folder / "open_clip_model.safetensors")
    return folder
