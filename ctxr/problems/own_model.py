"""A model of one's own: a function of texts and pictures, or an array of scores; and the checks of what it gives."""

import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module, invalidate_caches, reload
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image as Picture

from ctxr.datasets.dataset import Dataset
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError, did_you_mean, first_line, plural
from ctxr.media.images import read_image
from ctxr.problems.queries import EvalQuery, pictures_of
from ctxr.store.atomic import write_bytes
from ctxr.store.records import Score
from ctxr.store.tables import grouped

ARRAY = ".npy"

ScoreFunction = Callable[[list[str], list[Any]], Any]
"""Of T texts about a set and its K pictures (PIL, RGB), in its order, the scores [T, K], higher is better: an array, a tensor, lists."""


def write_model_template(path: Path) -> None:
    """Write a model to start from, such as `my_model.py`. Raises UsageError where something is."""
    if path.exists():
        raise UsageError(f"{path} exists", hint=f"ctxr eval --model {path.stem}:score   evaluates it")
    template = (files("ctxr") / "configs" / "my_model.txt").read_text(encoding="utf-8")
    write_bytes(path, template.replace("my_model", path.stem).encode())


def find_model(name: str) -> tuple[ScoreFunction, Path]:
    """The function that `module:function` names, and the file of its module, which is run; the current folder is searched first.

    Raises UsageError for a module or function that is not found or fails.
    """
    (module, _, function), here, imported = name.partition(":"), str(Path.cwd()), None
    hint = "leave out .py: " * module.endswith(".py")
    hint += "--model my_model:score names the function score of my_model.py in the current folder"
    if not function:
        raise UsageError(f"--model {name} names no function", hint=hint)
    known = sys.modules.get(module)
    own = known is not None and Path(str(getattr(known, "__file__", None))).resolve().is_relative_to(here)
    if module in sys.stdlib_module_names or (known and not own and Path(f"{module}.py").exists()):
        raise UsageError(
            f"--model {name}: a library is called {module}", hint=f"rename {module}.py, such as my_model.py"
        )
    sys.path.insert(0, here)
    invalidate_caches()
    try:
        imported = reload(known) if known and own else import_module(module)
        found = getattr(imported, function)
        if not callable(found):
            raise TypeError(f"{function} is not a function")
        return found, Path(str(imported.__file__))
    except (Exception, SystemExit) as error:
        has = getattr(imported, "__dict__", {}).items()
        defined = [key for key, one in has if callable(one) and getattr(one, "__module__", "") == module]
        listed = f"{module} has {', '.join(defined)}; " if defined else ""
        near = did_you_mean(function, defined, listed + hint, f"--model {module}:{{}}")
        raise UsageError(f"--model {name}: {_told(error)}", hint=near) from error
    finally:  # what it imports later is found, and ctxr imports nothing from the folder
        sys.path.remove(here)
        sys.path.append(here)


def model_scores(
    name: str, function: ScoreFunction, dataset: Dataset, queries: Sequence[EvalQuery], progress: Progress
) -> Iterator[Score]:
    """What a function says of every candidate of the queries, under this name, set by set.

    Raises DataError for pictures that are missing, UsageError for a function that fails or returns anything but finite scores [T, K].
    """
    paths = pictures_of(dataset, queries)
    with progress.task(f"scoring with {name}", len(queries)) as task:
        for asked in grouped((one.image_set, one) for one in queries).values():
            pictures = [Picture.fromarray(read_image(paths[image])) for image in asked[0].images]
            try:
                values = function([one.text for one in asked], pictures)
            except (Exception, SystemExit) as error:
                raise UsageError(f"{name} fails on query {asked[0].query!r}: {_told(error)}") from error
            yield from checked_scores(values, asked, name)
            task.advance(len(asked))


def checked_scores(values: Any, queries: Sequence[EvalQuery], by: str) -> Iterator[Score]:
    """Scores [T, K] of T queries and at most K candidates as rows. Raises UsageError for another shape and for what is not finite."""
    try:
        given = np.asarray(values.detach().float().cpu() if hasattr(values, "detach") else values)
        if np.iscomplexobj(given):
            raise TypeError("it has complex numbers")
        table = np.asarray(given, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise UsageError(f"{by}: not an array of numbers: {first_line(error)}", hint=_HINT) from error
    wanted = len(queries), max((len(one.images) for one in queries), default=0)
    if table.shape != wanted:
        at = f" (query {queries[0].query!r} first)" * bool(queries)
        expected = f"({plural(wanted[0], 'text')}, {plural(wanted[1], 'picture')})"
        raise UsageError(f"{by}: scores have shape {table.shape}, expected {expected}{at}", hint=_HINT)
    for one, row in zip(queries, table.tolist(), strict=True):
        for image, value in zip(one.images, row, strict=False):
            if not np.isfinite(value):
                raise UsageError(f"{by}: the score of {image!r} for query {one.query!r} is {value}", hint=_HINT)
            yield Score(one.query, image, by, value)


_HINT = "give for each text a row with a finite score for each picture"


def read_array(file: Path) -> npt.NDArray[Any]:
    """The array of a `.npy`; nothing is unpickled. Raises DataError for another file."""
    try:
        return np.asarray(np.load(file, allow_pickle=False))
    except (OSError, ValueError, EOFError) as error:
        hint = "numpy.save scores [queries, candidates]"
        raise DataError(f"{file} is not an array: {first_line(error)}", hint=hint) from error


def _told(error: BaseException) -> str:
    """What went wrong, and where in other code than this."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        f" ({one.filename}:{one.lineno})"
        for one in frames
        if one.filename != __file__ and one.filename[0] != "<" and "importlib" not in one.filename
    ]
    return f"{type(error).__name__}: {first_line(error)}{''.join(places[-1:])}"
