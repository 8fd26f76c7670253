"""A dry run refuses what its command refuses, says how much there is to do, and leaves every file as it was."""

import shlex
import shutil
from pathlib import Path

import pytest

import ctxr
from ctxr.errors import UsageError
from ctxr.synthetic.benchmark import WorldBenchmark, write_benchmark
from tests.counted_run import counted_run
from tests.footage import two_shot_clip
from tests.test_second_runs import everything

BUILD = "build-sets videos -w work --encoder ctxr-tiny --threshold 0.02"
TRAIN = "train -w models --recipe clip-batch --set encoder=ctxr-tiny --set epochs=1"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two videos of one shot change each, sets of them that people were asked about, two ranks of which one has run, a benchmark, and
    the same without its pictures."""
    root = tmp_path_factory.mktemp("dry")
    for seed in range(2):
        two_shot_clip(root / "videos" / f"clip{seed}.mp4", seed, frames=60)
    write_benchmark(WorldBenchmark(root / "world", train=6, valid=3, test=3, video=0.5, side=48, workers=1))
    shutil.copytree(root / "world", root / "blind")
    for picture in [*(root / "blind").rglob("*.jpg"), *(root / "blind").rglob("*.png")]:
        picture.unlink()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        for line in (BUILD, "export-tasks describe -w work", f"{BUILD} -w ranks --rank 0 --world-size 2"):
            assert counted_run(shlex.split(line)).code == 0
    return root


@pytest.fixture
def there(drawn: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(drawn)
    return drawn


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (BUILD.replace("0.02", "0.03"), 2),
        (BUILD.replace("videos", "videos/clip0.mp4"), 2),
        (f"{BUILD} --out videos", 2),
        ("filter -w work --videos nowhere", 2),
        ("merge -w ranks", 4),
        ("export-tasks retrieve -w work", 4),
        ("export --to imagecode -w work --out videos", 2),
        (f"{TRAIN} --dataset nowhere", 2),
        (f"{TRAIN} --dataset blind", 3),
        (f"{TRAIN.replace('clip-batch', 'clip-bach')} --dataset world", 2),
        ("eval ctxr-tiny -w models --dataset nowhere", 2),
        ("eval ctxr-tiny -w models --dataset blind", 3),
        ("eval nobody -w models --dataset world", 2),
        ("listen blind -w models --endpoint http://127.0.0.1:9/v1 --model m", 3),
        ("import-answers -w work --from prolific", 4),
        ("aggregate -w work", 4),
        ("report -w nowhere", 4),
        ("workers -w work --block w-a --reason x", 4),
        ("revise-labels -w work --undo", 4),
    ],
)
def test_a_dry_run_refuses_what_its_command_refuses(line: str, code: int, there: Path) -> None:
    before = everything(there)
    dry = counted_run([*shlex.split(line), "--dry-run"])
    assert everything(there) == before
    real = counted_run(shlex.split(line))
    assert (dry.code, dry.document) == (real.code, real.document)
    assert real.code == code


@pytest.mark.parametrize(
    ("line", "plan"),
    [
        (f"{BUILD} -w new", {"new_videos": 2, "videos_again": 0, "videos_kept": 0, "albums": 0, "loss": None}),
        (
            f"{BUILD} -w new --rank 1 --world-size 2",
            {"new_videos": 1, "videos_again": 0, "videos_kept": 0, "albums": 0, "loss": None},
        ),
        (
            "filter -w work --min-size 8",
            {"new_videos": 2, "videos_again": 0, "videos_kept": 0, "albums": 0, "loss": None},
        ),
        (f"{TRAIN} --dataset world", {"seeds": 1}),
        ("eval ctxr-tiny -w models --dataset world --split valid", {"queries": 3}),
        ("report -w work", {}),
    ],
)
def test_a_dry_run_says_how_much_there_is_to_do(line: str, plan: dict[str, object], there: Path) -> None:
    before = everything(there)
    dry = counted_run([*shlex.split(line), "--dry-run"])
    assert everything(there) == before
    assert (dry.code, dry.document["would"].partition(" ")[0]) == (0, "would")
    assert plan.items() <= dry.document["plan"].items()


def test_a_dry_run_says_which_sets_are_lost_and_which_videos_are_made_again(there: Path) -> None:
    one, other = BUILD.replace("videos", "videos/clip0.mp4"), BUILD.replace("0.02", "0.03")
    plans = [counted_run([*shlex.split(line), "--yes", "--dry-run"]).document["plan"] for line in (one, other)]
    assert [(plan["new_videos"], plan["videos_again"], plan["videos_kept"]) for plan in plans] == [(0, 0, 1), (0, 2, 0)]
    assert "removes 1 of 2 sources (clip1)" in plans[0]["loss"]
    assert "replaces" in plans[1]["loss"]


def test_a_command_that_serves_has_no_dry_run_and_says_why(there: Path) -> None:
    refused = counted_run(["serve", "-w", "work", "--dry-run"])
    assert (refused.code, refused.document["error"]) == (2, "no such option: --dry-run")
    assert "no artifact" in refused.document["hint"]


def test_in_python_a_dry_run_returns_what_the_command_prints(there: Path) -> None:
    before = everything(there)
    told = ctxr.build_sets("videos", workdir="new", encoder="ctxr-tiny", threshold=0.02, dry_run=True)
    printed = counted_run(shlex.split(f"{BUILD} -w new --dry-run")).document
    assert printed == {**told, "next": f"ctxr {BUILD} -w new --json"}
    listened = ctxr.listen("world", workdir="models", endpoint="http://127.0.0.1:9/v1", model="m", dry_run=True)
    assert listened.dry_run
    assert listened.requests > 0
    with pytest.raises(UsageError, match="dry_run"):
        ctxr.stats("world", dry_run=True)  # type: ignore[call-arg]
    assert everything(there) == before
