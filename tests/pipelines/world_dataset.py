"""An artifact of kind `dataset` drawn from the toy world: sets, pictures, contextual descriptions, targets, phenomena."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image as Pillow

from ctxr.store.artifacts import Content, finish
from ctxr.store.hashing import sha256_file
from ctxr.store.records import Image, ImageSet, Judgment, Kind, Query, Split, SplitName, Text
from ctxr.store.tables import write_table
from ctxr.synthetic.world.drawing import render
from ctxr.synthetic.world.sets import SIZE, sample_sets
from ctxr.synthetic.world.statements import TAGS, contextual_description


def write_world_dataset(folder: Path, sets: int = 6, seed: int = 3, prefix: str = "") -> Path:
    """`sets` sets of video and half as many of photos, two descriptions each, the last set of each kind on valid; their ids begin with
    `prefix`."""
    for name, content in _files(sets, seed, prefix).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


@cache
def _files(sets: int, seed: int, prefix: str) -> dict[str, bytes]:
    """Content by path; drawing takes longer than writing, and many tests want the same."""
    with TemporaryDirectory() as name:
        _draw(Path(name), sets, seed, prefix)
        return {
            path.relative_to(name).as_posix(): path.read_bytes() for path in Path(name).rglob("*") if path.is_file()
        }


def _draw(folder: Path, sets: int, seed: int, prefix: str) -> None:
    rng = np.random.default_rng(seed)
    rows: dict[str, list[object]] = {name: [] for name in ("sets", "images", "splits", "texts", "queries", "judgments")}
    kinds: tuple[tuple[Kind, int], ...] = (("video", sets), ("photos", max(1, sets // 2)))
    for kind, count in kinds:
        for number, drawn in enumerate(sample_sets(rng, count, kind)):
            name = f"{prefix}{kind}{number}-shot0_0" if kind == "video" else f"{prefix}{kind}{number}"
            side: SplitName = "valid" if number == count - 1 else "train"
            ids = tuple(f"{name}/img{frame}" for frame in range(3, 3 + SIZE))
            rows["sets"].append(ImageSet(name, kind, ids, name, name, 0 if kind == "video" else None, 0.1, 0.2))
            rows["splits"].append(Split(name, side))
            for place, scene in enumerate(drawn.scenes):
                file = folder / "images" / name / f"img{3 + place}.jpg"
                file.parent.mkdir(parents=True, exist_ok=True)
                Pillow.fromarray(render(scene, 48, 48)).save(file)
                path, digest = file.relative_to(folder).as_posix(), sha256_file(file)
                index = 3 + place if kind == "video" else None
                rows["images"].append(Image(ids[place], path, digest, name, 48, 48, index))
            for target in rng.permutation(SIZE)[:2].tolist():
                said = contextual_description(drawn.scenes, target, rng, drawn.ordered)
                if said is None:
                    continue
                key = f"{name}/{target}"
                rows["texts"].append(Text(key, said.text, "drawn"))
                rows["queries"] += [Query(key, name, (key,)), Query(f"{key}/tags", name, (key,), TAGS)]
                rows["judgments"].append(Judgment(key, ids[target], "gold", 1.0))
                rows["judgments"] += [Judgment(f"{key}/tags", tag, "world", float(tag in said.tags)) for tag in TAGS]
    for table, content in rows.items():
        write_table(folder / f"{table}.jsonl", content)  # type: ignore[type-var]
    files = [f"{table}.jsonl" for table in rows]
    finish(folder, kind="dataset", verb="test", config={}, parents=[], content=Content(files, {}, {}))
