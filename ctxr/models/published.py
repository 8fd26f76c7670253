"""Published files of weights: read without running code in them, renamed, told apart."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ctxr.errors import CtxrError, DataError, and_more, first_line
from ctxr.models.hub import hub_folder

if TYPE_CHECKING:
    from torch import Tensor

HINT = "save the model's state_dict alone, as model.safetensors"

CONFIG = "config.json"
# files of a folder that transformers wrote; one of the weights is enough
WEIGHTS = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")

# keys of configs by which transformers finds Python of a model's folder, or is allowed to run it
_CODE = ("auto_map", "custom_pipelines", "trust_remote_code")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file. Raises DataError for anything else."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise DataError(f"{path}: not readable as JSON: {error}") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: holds no JSON object")
    return content


def read_tensors(path: Path, under: Iterable[str] = ()) -> dict[str, Tensor]:
    """The tensors of a `.safetensors` file, or of a pickle of tensors and plain values, by name. Nothing in it is run.

    `under`: names under which a checkpoint may keep its weights beside its optimiser and its epoch. Raises DataError for a file
    that is damaged, or holds more than tensors and plain values.
    """
    import torch

    try:
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            tensors: Any = load_file(path)
        else:
            tensors = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise DataError(f"{path} is missing") from error
    except Exception as error:  # torch's restricted unpickler and safetensors have error classes of their own
        raise DataError(
            f"{path}: no plain file of weights: it is damaged, or a pickle that holds more than tensors", hint=HINT
        ) from error
    if isinstance(tensors, dict):
        tensors = next((tensors[name] for name in under if isinstance(tensors.get(name), dict)), tensors)
        if all(isinstance(name, str) and isinstance(value, torch.Tensor) for name, value in tensors.items()):
            return dict(tensors)
    raise DataError(f"{path}: holds no table of names and tensors", hint=HINT)


def model_folder(
    kind: str, source: str, patterns: Sequence[Sequence[str]], others: Sequence[Sequence[str]] = ()
) -> Path:
    """A folder that transformers wrote, or the one of "OWNER/NAME" of the hub.

    `others`: files that a download must contain beside config and weights, one of each sequence. Raises as `hub_folder` and
    `refuse_code`; DataError without weights, or where a list of their parts leads out of the folder.
    """

    def holds(folder: Path, needed: Sequence[Sequence[str]]) -> bool:
        return all(any((folder / name).is_file() for name in names) for names in needed)

    model = ((CONFIG,), WEIGHTS)
    folder = Path(source)
    if not folder.is_dir():
        folder = hub_folder(kind, source, lambda cached: holds(cached, (*model, *others)), patterns)
    refuse_code(folder)
    if not holds(folder, model):
        hint = "give a folder that transformers wrote"
        raise DataError(f"{folder} holds no {CONFIG} with {WEIGHTS[0]} beside it", hint=hint)
    if (index := folder / WEIGHTS[1]).is_file():
        for name in set(read_object(index).get("weight_map", {}).values()):
            if not isinstance(name, str) or Path(name).name != name or name in ("", ".."):
                raise DataError(f"{index} names {name!r}, which leads out of the folder")
    return folder


def refuse_code(folder: Path) -> None:
    """Raises DataError where a config in a folder asks a library to run code that comes with the model."""
    for path in sorted(folder.glob("*config*.json")):
        parts: list[Any] = [read_object(path)]
        while parts:
            part = parts.pop()
            parts += part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
            for key, value in part.items() if isinstance(part, dict) else ():
                if key in _CODE or (key.endswith("_implementation") and "/" in str(value)):
                    raise DataError(
                        f"{path}: {key} asks for code that comes with the model, and ctxr runs none",
                        hint=f"remove {key} from the file, if the model works without, or take another model",
                    )


def checkpoint_file(folder: Path, what: str, choices: Sequence[Sequence[str]]) -> Path:
    """The file that the first patterns to match name. Raises DataError for none or several."""
    matches = ({path for pattern in patterns for path in folder.glob(pattern)} for patterns in choices)
    files = sorted(next(filter(None, matches), ()))
    if len(files) != 1:
        names = ", ".join(path.name for path in files) or "none"
        wanted = ", ".join(pattern for patterns in choices for pattern in patterns)
        problem = f"{folder}: wanted one file with the {what} ({wanted}), found {names}"
        raise DataError(problem, hint="leave exactly one there")
    return files[0]


@contextmanager
def careful(what: str) -> Iterator[None]:
    """Around a block or function: no output of libraries, and no trace in torch's generator.

    Raises what is raised of ours; DataError that `what` cannot be loaded for all else.
    """
    import torch

    try:
        # a model draws its first weights from torch's global generator, even where others replace them
        with quiet(), torch.random.fork_rng(devices=[]):
            yield
    except CtxrError:
        raise
    except Exception as error:  # transformers, tokenizers, safetensors and torch each have errors of their own
        plain = isinstance(
            error, RuntimeError | ValueError | LookupError | TypeError | OSError | AssertionError | ImportError
        )
        why = first_line(error) if plain else f"its weights cannot be read ({type(error).__name__})"
        raise DataError(f"{what} cannot be loaded: {why}") from error


def load(kind: Any, folder: Path, hint: str = "", spare: Collection[str] = ("position_ids",)) -> Any:
    """A model of transformers, fp32, from a folder; `kind` is its class, such as AutoModel. Nothing in the folder is run.

    Raises DataError for weights of wrong shapes, and with `hint` for missing ones whose names contain none of `spare`.
    """
    import torch

    model, report = kind.from_pretrained(
        folder, local_files_only=True, weights_only=True, trust_remote_code=False, dtype=torch.float32,
        ignore_mismatched_sizes=True, output_loading_info=True,
    )  # fmt: skip
    for name, shape, wanted in sorted(report["mismatched_keys"]):
        raise DataError(f"{folder}: {name} is {tuple(shape)}, wanted {tuple(wanted)}", hint="restore config.json")
    missing = sorted(key for key in report["missing_keys"] if not any(part in key for part in spare))
    if missing:
        raise DataError(f"{folder} holds no weights for {missing[0]}{and_more(len(missing))}", hint=hint)
    return model.eval()


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the logs and bars of transformers and open_clip, for output that programs read.

    open_clip logs at the root, and its first line would set up logging for everybody. transformers does not ask whether to run code
    of a model that open_clip names: it refuses.
    """
    from transformers import dynamic_module_utils
    from transformers.utils import logging as transformers_logging

    root, handler = logging.getLogger(), logging.NullHandler()
    level, verbosity = root.level, transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    dynamic_module_utils.TIME_OUT_REMOTE_CODE = 0  # for good: another thread may be loading
    root.addHandler(handler)
    root.setLevel(logging.CRITICAL)
    transformers_logging.set_verbosity(logging.CRITICAL)
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        transformers_logging.set_verbosity(verbosity)
        if bars:
            transformers_logging.enable_progress_bar()


def renamed(
    state: Mapping[str, Tensor], names: Mapping[str, str], needless: Callable[[str], bool], path: Path
) -> dict[str, Tensor]:
    """Weights by our names. Raises DataError for missing ones, and others not `needless`."""
    missing = [key for key in names if key not in state]
    foreign = [key for key in state if key not in names and not needless(key)]
    if missing or foreign:
        missed, strange = (", ".join(keys[:3]) + and_more(len(keys), 3) for keys in (missing, foreign))
        faults = [f"lacks {missed}"] * bool(missing) + [f"holds {strange} that nothing here takes"] * bool(foreign)
        raise DataError(f"{path}: {' and '.join(faults)}", hint="give the config that these weights were trained with")
    return {ours: state[key] for key, ours in names.items()}


def vocabulary_hash(tokenizer: Any) -> str:
    """sha256 in hex over the words of a tokenizer of transformers."""
    return hashlib.sha256(json.dumps(sorted(tokenizer.get_vocab().items())).encode()).hexdigest()


def check_shapes(weights: Mapping[str, Tensor], parameters: Mapping[str, Tensor], path: Path) -> None:
    """Raises DataError naming the first weight of another shape than its parameter."""
    for name, parameter in parameters.items():
        if name in weights and parameter.shape != weights[name].shape:
            shape, wanted = tuple(weights[name].shape), tuple(parameter.shape)
            raise DataError(f"{path}: {name} is {shape}, wanted {wanted}", hint="give the config of these weights")


def fingerprint_of(tensors: Mapping[str, Tensor], about: bytes = b"", after: bytes = b"") -> str:
    """sha256 in hex over `about`, tensors with their names and shapes in the order of names, and `after`."""
    import torch

    digest = hashlib.sha256(about)
    for name, tensor in sorted(tensors.items()):
        digest.update(f"{name} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    digest.update(after)
    return digest.hexdigest()
