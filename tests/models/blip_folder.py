"""A small untrained BLIP in the layout in which transformers writes one."""

import json
import string
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import BlipConfig, BlipForImageTextRetrieval

CONFIG: dict[str, Any] = {
    "text_config": {
        "vocab_size": 64, "hidden_size": 32, "encoder_hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4, "max_position_embeddings": 128, "bos_token_id": 2, "sep_token_id": 3, "eos_token_id": 3,
        "initializer_range": 0.2,
    },
    "vision_config": {
        "hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
        "patch_size": 16, "initializer_range": 0.2,
    },
    "image_text_hidden_size": 16,
    "initializer_range": 0.2,
}  # fmt: skip
PREPROCESSOR = {
    "do_resize": True, "do_rescale": True, "do_normalize": True, "size": {"height": 32, "width": 32}, "resample": 3,
    "image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4],
}  # fmt: skip
LETTERS = string.ascii_lowercase
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS)]


def make_model(seed: int = 0) -> Any:
    """The model as transformers has it, in evaluation mode."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return BlipForImageTextRetrieval(BlipConfig(**CONFIG)).eval()


def make_blip(folder: Path, seed: int = 0, leave_out: str = "\0") -> Path:
    """Write config, weights, vocabulary and preprocessing into a new folder; weights whose names begin so are left out."""
    folder.mkdir(parents=True)
    model = make_model(seed)
    model.config.save_pretrained(folder)
    kept = {name: value for name, value in model.state_dict().items() if not name.startswith(leave_out)}
    save_file(kept, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "preprocessor_config.json").write_text(json.dumps(PREPROCESSOR), encoding="utf-8")
    (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return folder
