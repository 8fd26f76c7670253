"""Wheels of the shape of ctxr-lite's, with untrained weights and a few words."""

import hashlib
from pathlib import Path
from zipfile import ZipFile

import timm
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from ctxr.models.wheels import MEMBERS, NETWORK_FILE, Wheel
from tests.models.blip_folder import WORDS


def make_weights(folder: Path) -> Path:
    """Write the folder of the weights: a network whose tensors have other names than timm's, and an encoder of texts, 384 wide."""
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=384, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(0)
        BertModel(config).save_pretrained(folder / "minilm")
        state = timm.create_model("tf_efficientnet_lite0", pretrained=False).state_dict()
    BertTokenizerFast(vocab={word: row for row, word in enumerate(WORDS)}).save_pretrained(folder / "minilm")
    torch.save({f"part{at}": value for at, value in enumerate(state.values())}, folder / NETWORK_FILE)
    return folder


def make_wheels(weights: Path, folder: Path) -> dict[Wheel, dict[str, str]]:
    """Write the wheels that hold these weights into a folder; what they are instead of `MEMBERS`."""
    folder.mkdir()
    wheels = {}
    for published, members in MEMBERS.items():
        file, about = folder / published.file, "-".join(published.file.split("-")[:2])
        with ZipFile(file, "w") as archive:
            for member, name in members.items():
                path = weights / name
                archive.writestr(member, path.read_bytes() if path.is_file() else b"{}")
            package, version = about.split("-")
            archive.writestr(
                f"{about}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n"
            )
            archive.writestr(
                f"{about}.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py2.py3-none-any\nTag: py3-none-any\n"
            )
        wheels[Wheel(file.name, hashlib.sha256(file.read_bytes()).hexdigest())] = members
    return wheels
