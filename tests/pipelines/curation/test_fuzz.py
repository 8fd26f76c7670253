"""Damage at random, three seeds: the answer is a result or a sentence, never a traceback, and other files lose nothing."""

import random
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from ctxr.errors import CtxrError
from ctxr.pipelines.curation.build_sets import run
from ctxr.pipelines.curation.config import BuildSets
from ctxr.pipelines.inspection.config import Doctor
from ctxr.pipelines.inspection.doctor import run as look
from ctxr.store.records import Failure
from ctxr.store.tables import read_table
from tests.pipelines.curation.test_build_sets import build
from tests.pipelines.curation.test_filter import refilter

pytestmark = pytest.mark.prove

SEEDS = (1, 2, 3)
MUTANTS = 25


def mutated(content: bytes, rng: random.Random) -> bytes:
    """The bytes with one kind of damage: flipped bits, a hole, a cut end, a doubled stretch, noise."""
    damaged = bytearray(content)
    start = rng.randrange(len(damaged))
    length = rng.randrange(1, max(2, len(damaged) // 4))
    match rng.randrange(5):
        case 0:
            for _ in range(rng.choice((1, 10, 200))):
                damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        case 1:
            del damaged[start : start + length]
        case 2:
            del damaged[start:]
        case 3:
            damaged[start:start] = damaged[start : start + length]
        case _:
            damaged[start : start + length] = rng.randbytes(length)
    return bytes(damaged)


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_videos_and_photos_cost_only_themselves(footage: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    (tmp_path / "in" / "photos").mkdir(parents=True)
    clips, photos = sorted((footage / "videos").iterdir()), sorted((footage / "photos" / "album").iterdir())
    for number in range(MUTANTS):
        clip, photo = rng.choice(clips), rng.choice(photos)
        (tmp_path / "in" / f"mutant{number}{clip.suffix}").write_bytes(mutated(clip.read_bytes(), rng))
        name = f"mutant{number}{photo.suffix}"
        (tmp_path / "in" / "photos" / name).write_bytes(mutated(photo.read_bytes(), rng))
    shutil.copy(clips[0], tmp_path / "in" / "whole.mp4")
    alone = build(footage, tmp_path / "alone", sources=(str(clips[0]),))
    config = BuildSets(
        sources=(str(tmp_path / "in"),),
        out=tmp_path / "sets",
        encoder="ctxr-tiny",
        threshold=alone.threshold,
        brisque=3.0,  # measured, and rejects nothing
        stall_seconds=10,
    )
    report = run(config)
    units = {path.name for path in (tmp_path / "sets" / "sources").iterdir() if not path.name.startswith(".")}
    failed = {row.source for row in read_table(tmp_path / "sets" / "failures.jsonl", Failure)}
    assert "whole" in units
    assert {name.partition("-")[0] for name in units | failed} >= {f"mutant{number}" for number in range(MUTANTS)}
    assert report.counts["video_sets"] >= alone.counts["video_sets"] > 0
    assert not look(Doctor(artifact=tmp_path / "sets")).problems


@pytest.mark.parametrize("seed", SEEDS)
def test_damaged_artifacts_are_answered_in_a_sentence(footage: Path, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    build(footage, tmp_path / "sets", sources=(str(footage / "videos"), str(footage / "photos")))
    refilter(tmp_path / "sets", tmp_path / "filtered", brisque=0.5)
    files = sorted(path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size)
    for number in range(MUTANTS):
        file = rng.choice(files)
        whole = file.read_bytes()
        file.unlink()  # pictures are links: only this one shall be damaged
        file.write_bytes(mutated(whole, rng))
        again = tmp_path / "again" / f"filtered{number}"
        for out in (again, tmp_path / "filtered"):
            with suppress(CtxrError):  # any other exception is a traceback for the user
                refilter(tmp_path / "sets", out, brisque=0.4 + 0.001 * number)
        for folder in (tmp_path / "sets", tmp_path / "filtered"):
            assert look(Doctor(artifact=folder)).checks
        shutil.rmtree(tmp_path / "again", ignore_errors=True)
        if file.exists():
            file.unlink()
        if file.parent.is_dir():
            file.write_bytes(whole)
