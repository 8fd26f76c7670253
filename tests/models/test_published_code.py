"""No folder of a model runs Python of its own, whichever key of whichever file asks for it."""

import io
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

from ctxr.errors import CtxrError
from ctxr.models.blip import load_blip
from ctxr.models.encoders import check_encoder_name, find_source
from ctxr.models.entailment.recipe import ClassifierRecipe
from ctxr.models.entailment.sources import find_text
from ctxr.models.judges.nli import NliJudge
from tests.models.bert_folder import make_bert
from tests.models.blip_folder import make_blip
from tests.models.encoder_folder import MODEL, make_folder
from tests.models.judges.nli_folder import make_nli

AUTO_MAP = {
    "AutoConfig": "planted.Config", "AutoModel": "planted.Model", "AutoTokenizer": ["planted.Words", "planted.Words"],
    "AutoProcessor": "planted.Processor", "AutoImageProcessor": "planted.Pictures",
}  # fmt: skip
FOREIGN = {"model_type": "planted", "auto_map": AUTO_MAP, "trust_remote_code": True}


def change(path: Path, values: dict[str, Any]) -> None:
    """Write values into the JSON object of a file, which may not be there yet."""
    held = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    path.write_text(json.dumps(held | values), encoding="utf-8")


def text_cfg(folder: Path, **values: Any) -> None:
    """Write values into text_cfg of an encoder's config."""
    model = MODEL | {"text_cfg": {**MODEL["text_cfg"], **values}}
    change(folder / "open_clip_config.json", {"model_cfg": model})


def with_tokenizer(folder: Path, **values: Any) -> None:
    """Let an encoder take the tokenizer of its folder, which brings its own class along."""
    text_cfg(folder, hf_tokenizer_name="planted", **values)
    change(folder / "tokenizer_config.json", {"auto_map": AUTO_MAP, "tokenizer_class": "Words"})


class Bomb:
    """Runs the planted code when it is unpickled."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
        return __import__, ("planted",)


def pickled(folder: Path) -> None:
    """Put a pickle in the place of the weights."""
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Bomb()}, folder / "pytorch_model.bin")


def in_file(name: str, values: dict[str, Any]) -> Callable[[Path], None]:
    """What writes values into the JSON object of a file of a folder."""
    return lambda folder: change(folder / name, values)


def read_encoder(folder: Path) -> None:
    source = find_source(f"local-dir:{folder}")
    source.build()
    source.tokenize(["a bat"])


def read_checkpoint(folder: Path) -> None:
    check_encoder_name(f"checkpoint:{folder}")
    find_source(f"checkpoint:{folder}").tokenize(["a bat"])


def read_text_branch(folder: Path, kind: str = "bert") -> None:
    source = find_text(f"{kind}:{folder}", ClassifierRecipe())
    source.build()
    source.tokenize(["a bat"], ["a"])


def read_blip(folder: Path) -> None:
    source = load_blip(f"blip:{folder}")
    source.build()
    source.tokenize(["a bat"])


def read_nli(folder: Path) -> None:
    NliJudge(str(folder))


def with_config(folder: Path, file: str = "config.json") -> None:
    """Let the config of a folder name classes of its own."""
    change(folder / file, FOREIGN)


def with_tokenizer_and_config(folder: Path) -> None:
    text_cfg(folder, hf_tokenizer_name="x", tokenizer_kwargs=TRUST)
    with_config(folder)


def with_text_tower(folder: Path) -> None:
    """Let an encoder take a text tower from a folder that lies where the command runs."""
    (folder.parent / "tower").mkdir()
    with_config(folder.parent / "tower")
    shutil.copy(folder / "planted.py", folder.parent / "tower")
    text_cfg(folder, hf_model_name="tower")


def with_older_config(folder: Path) -> None:
    with_config(folder, "config.4.0.0.json")
    change(folder / "config.json", {"configuration_files": ["config.4.0.0.json"]})


Plant = Callable[[Path], None]
TRUST = {"trust_remote_code": True}
trusting: Plant = partial(with_tokenizer, tokenizer_kwargs=TRUST)
DOORS: dict[str, tuple[Callable[[Path], Path], Plant, Callable[[Path], None]]] = {
    "tokenizer_kwargs": (make_folder, trusting, read_encoder),
    "tokenizer_kwargs of a checkpoint": (make_folder, trusting, read_checkpoint),
    "tokenizer_kwargs and a config": (make_folder, with_tokenizer_and_config, read_encoder),
    "yes to transformers' question": (make_folder, with_tokenizer, read_encoder),
    "hf_model_name": (make_folder, with_text_tower, read_encoder),
    "config of BERT": (make_bert, with_config, read_text_branch),
    "older config of BERT": (make_bert, with_older_config, read_text_branch),
    "kernels of BERT": (make_bert, in_file("config.json", {"attn_implementation": "planted/kernel"}), read_text_branch),
    "tokenizer of BERT": (make_bert, in_file("tokenizer_config.json", {"auto_map": AUTO_MAP}), read_text_branch),
    "weights of BERT": (make_bert, pickled, read_text_branch),
    "late interaction": (make_bert, with_config, partial(read_text_branch, kind="late")),
    "config of a judge": (make_nli, with_config, read_nli),
    "kernels of a judge": (make_nli, in_file("config.json", {"attn_implementation": "planted/kernel"}), read_nli),
    "tokenizer of a judge": (make_nli, in_file("tokenizer_config.json", {"auto_map": AUTO_MAP}), read_nli),
    "weights of a judge": (make_nli, pickled, read_nli),
    "config of BLIP": (make_blip, in_file("config.json", {"auto_map": AUTO_MAP}), read_blip),
    "tokenizer of BLIP": (make_blip, in_file("tokenizer_config.json", {"auto_map": AUTO_MAP}), read_blip),
    "pictures of BLIP": (make_blip, in_file("preprocessor_config.json", {"auto_map": AUTO_MAP}), read_blip),
    "weights of BLIP": (make_blip, pickled, read_blip),
}


@pytest.mark.parametrize("door", DOORS)
def test_a_model_runs_no_code_of_its_folder(door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make, plant, read = DOORS[door]
    folder, ran = make(tmp_path / "folder"), tmp_path / "ran"
    code = f"import pathlib\npathlib.Path({str(ran)!r}).mkdir(exist_ok=True)\n"
    code += "from transformers import BertTokenizerFast\nclass Words(BertTokenizerFast): ...\n"
    (folder / "planted.py").write_text(code, encoding="utf-8")
    plant(folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(folder)
    # where a library asks whether to run code, someone who answers yes to everything is listening
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n" * 20))
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    try:
        with pytest.raises(CtxrError) as caught:
            read(folder)
    finally:
        assert not ran.exists()
    assert "\n" not in caught.value.message
