"""What users really type and really have: one sentence, the right exit code, and nothing lost."""

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner, Result

from ctxr.cli.app import app
from ctxr.errors import CtxrError
from ctxr.models.encoders import load_encoder
from ctxr.store.records import Failure
from ctxr.store.tables import read_table
from tests.drawn import LOADER
from tests.footage import two_shot_clip, write_audio, write_clip
from tests.media import clips
from tests.pipelines.conftest import THRESHOLD
from tests.pipelines.curation.test_build_sets import build as build_sets
from tests.pipelines.curation.test_build_sets import same_tree

runner = CliRunner()


def build(*arguments: object, encoder: str = "ctxr-tiny") -> Result:
    return runner.invoke(app, ["build-sets", *map(str, arguments), "--encoder", encoder])


def only_sentence(result: Result) -> str:
    """The error of a run: exactly one line, and no traceback."""
    lines = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1
    assert "Traceback" not in result.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["none/"], 2, "file or folder: none/"),
        (["empty"], 2, "photo in empty"),
        ([], 2, "no SOURCES given"),
        (["clip.mp4", "--threshold", "3"], 2, "--threshold 3.0"),
        (["clip.mp4", "--rate", "0"], 2, "--rate 0.0"),
        (["clip.mp4", "--threads", "0"], 2, "--threads 0"),
        (["clip.mp4", "--still-below", "-1"], 2, "--still-below -1.0"),
        (["clip.mp4", "--min-shot", "nan"], 2, "--min-shot nan"),
        (["clip.mp4", "--decoder", "vlc"], 2, "--decoder vlc"),
        (["clip.mp4", "--detector", "magic"], 2, "--detector magic"),
        (["clip.mp4", "--brisque", "65"], 2, "--brisque 65.0"),
        (["clip.mp4", "--engine", "dask"], 2, "--engine dask"),
        (["clip.mp4", "--max-text", "5"], 2, "--max-text 5.0"),
        (["clip.mp4", "--min-size", "0"], 2, "--min-size 0"),
        (["clip.mp4", "--jobs", "257"], 2, "--jobs 257"),
        (["clip.mp4", "--jobs", "-1"], 2, "--jobs -1"),
        (["clip.mp4", "--frames", "most"], 2, "--frames most"),
        (["clip.mp4", "--workdir", "file"], 2, "a file, not a"),
        (["clip.mp4", "--out", "file"], 2, "a file, not a"),
        (["clip.mp4", "--splits", "none.csv"], 2, "no such file: none.csv"),
        (["clip.mp4", "--config", "none.toml"], 2, "none.toml cannot"),
        (["--yield-curve"], 4, "work/sets does not"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_argument_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    Path("file").write_text("")
    Path("clip.mp4").write_text("not looked at")
    result = build(*arguments)
    assert sentence in only_sentence(result)
    assert result.exit_code == code
    assert "hint:" in result.stderr


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--encoder", "ViT-B-33:openai"], 2, "unknown encoder 'ViT-B-33:openai'"),
        (["--encoder", "ViT-B-32:openia"], 2, "unknown encoder 'ViT-B-32:openia'"),
        (["--encoder", "local-dir:nowhere"], 2, "encoder 'local-dir:nowhere'"),
        (["--splits", "splits.csv"], 3, "splits.csv:1: 'clip,nowhere' is not"),
        (["--detector-threshold", "-1"], 2, "must be above 0"),
    ],
)
def test_a_wrong_option_is_found_before_a_warning_and_before_an_encoder_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], code: int, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("open_clip.create_model", pytest.fail)
    Path("clip.mp4").write_text("not looked at")
    Path("splits.csv").write_text("clip,nowhere\n")
    Path("work/sets/sources/gone").mkdir(parents=True)
    Path("work/sets/.ctxr").touch()
    result = runner.invoke(app, ["build-sets", "clip.mp4", *options])
    assert sentence in only_sentence(result)
    assert "warning" not in result.stderr
    assert result.exit_code == code


def text_file(path: Path) -> None:
    path.write_text("this is no video\n" * 50)


def empty_file(path: Path) -> None:
    path.write_bytes(b"")


def sound_only(path: Path) -> None:
    write_audio(path)


def cut_short(path: Path) -> None:
    whole = two_shot_clip(path, 3)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 3])


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("gone.mp4"))


def text_beside_a_broken_photo(path: Path) -> None:
    text_file(path)
    path.with_name("more").mkdir()
    (path.parent / "more" / "broken.jpg").write_bytes(b"no photo")


def text_beside_one_photo(path: Path) -> None:
    text_file(path)
    assert cv2.imwrite(str(path.with_name("photo.png")), np.full((64, 64, 3), 90, np.uint8))


@pytest.mark.parametrize("make", [empty_file, dangling_link, text_beside_a_broken_photo, text_beside_one_photo])
def test_bad_files_alone_are_an_error_with_their_reasons_on_disk(tmp_path: Path, make: Callable[[Path], None]) -> None:
    (tmp_path / "videos").mkdir()
    make(tmp_path / "videos" / "clip.mp4")
    result = build(tmp_path / "videos", "--out", tmp_path / "sets")
    assert "no source could" in only_sentence(result)
    assert "clip.mp4" in only_sentence(result)
    assert ("too few for" in result.stderr) == (make is text_beside_one_photo)
    assert result.exit_code == 3
    rows = read_table(tmp_path / "sets" / "failures.jsonl", Failure)
    assert len(rows) == 1 + (make is text_beside_a_broken_photo)
    assert all(row.reason and "--retry-failed" in row.retry for row in rows)
    assert not (tmp_path / "sets" / "manifest.json").exists()


def test_files_that_are_no_videos_even_by_name_are_refused_before_an_encoder_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, footage: Path
) -> None:
    for name in ("diary.txt", "notes.md"):
        (tmp_path / name).write_text(f"Dear {name},\n" * 200)
    with monkeypatch.context() as patch:
        patch.setattr("open_clip.create_model", pytest.fail)
        result = build(tmp_path / "diary.txt", tmp_path / "notes.md", "--out", tmp_path / "sets")
    assert "diary.txt: " in only_sentence(result)
    assert "1 more" in only_sentence(result)
    assert ".mp4" in result.stderr.partition("hint:")[2]
    assert result.exit_code == 3
    assert not (tmp_path / "sets").exists()
    # one that is a video by its content is taken, and the other costs only itself
    clip = shutil.copy(footage / "videos" / "clip1.mp4", tmp_path / "clip.dat")
    result = build(tmp_path / "diary.txt", clip, "--out", tmp_path / "sets", "--threshold", THRESHOLD)
    assert result.exit_code == 0
    assert [row.source for row in read_table(tmp_path / "sets" / "failures.jsonl", Failure)] == ["diary"]


def test_a_run_that_gives_nothing_leaves_the_finished_sets_as_they_were(footage: Path, tmp_path: Path) -> None:
    arguments = ("--out", tmp_path / "sets", "--threshold", THRESHOLD)
    assert build(footage / "videos" / "clip0.mp4", *arguments).exit_code == 0
    shutil.copytree(tmp_path / "sets", tmp_path / "before")
    (tmp_path / "fake.mp4").write_text("no video")
    assert build(tmp_path / "fake.mp4", *arguments, "--yes").exit_code == 3
    assert same_tree(tmp_path / "before", tmp_path / "sets")


def test_a_place_that_cannot_be_made_is_one_sentence(footage: Path) -> None:
    result = build(footage / "videos" / "clip0.mp4", "--workdir", "/proc/ctxr")
    assert "cannot be written" in only_sentence(result) or "no permission" in only_sentence(result)
    assert result.exit_code == 1


def test_bad_files_cost_only_themselves(footage: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    for name, make in {"text": text_file, "empty": empty_file, "sound": sound_only, "short": cut_short}.items():
        make(videos / f"{name}.mp4")
    os.link(footage / "videos" / "clip0.mp4", videos / "good.mp4")
    result = build(videos, "--out", tmp_path / "sets", "--threshold", THRESHOLD)
    assert result.exit_code == 0
    rows = {row.source: row.reason for row in read_table(tmp_path / "sets" / "failures.jsonl", Failure)}
    assert set(rows) == {"text", "empty", "sound", "short"}
    assert len(set(rows.values())) == 4
    assert "4 failed" in result.stdout


def test_sources_are_never_written_over(footage: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("images/album").mkdir(parents=True)
    for photo in (footage / "photos" / "album").iterdir():
        os.link(photo, Path("images/album") / photo.name)
    result = build("images", "--out", ".")
    assert "inside the artifact" in only_sentence(result)
    assert result.exit_code == 2
    assert len(list(Path("images/album").iterdir())) == 15


def test_a_failed_source_is_tried_again_when_asked(footage: Path, tmp_path: Path) -> None:
    videos = tmp_path / "videos"
    videos.mkdir()
    os.link(footage / "videos" / "clip0.mp4", videos / "good.mp4")
    empty_file(videos / "other.mp4")
    arguments = (videos, "--out", tmp_path / "sets", "--threshold", THRESHOLD)
    assert build(*arguments).exit_code == 0
    assert "nothing to do" in build(*arguments).stdout
    assert "nothing to do" not in build(*arguments, "--retry-failed").stdout
    (videos / "other.mp4").write_bytes((footage / "videos" / "clip1.mp4").read_bytes())
    result = build(*arguments)
    assert result.exit_code == 0
    assert "1 failed" not in result.stdout


def test_a_video_shorter_than_a_set_says_so(tmp_path: Path) -> None:
    clip = two_shot_clip(tmp_path / "clip.mp4", 1, frames=10)
    result = build(clip, "--out", tmp_path / "sets", "--frames", "samples")
    assert result.exit_code == 0
    assert "gives no set" in result.stderr
    assert "of its 20 frames" in result.stderr
    assert "--frames every takes" in result.stderr
    shorter = build(two_shot_clip(tmp_path / "short.mp4", 1, frames=4), "--out", tmp_path / "few")
    assert "it has 8 frames" in shorter.stderr


def test_a_video_without_motion_names_the_option_that_keeps_its_frames(tmp_path: Path) -> None:
    clip = clips.write_clip(tmp_path / "clip.mp4", [clips.scene(1, 0)] * 100)
    result = build(clip, "--out", tmp_path / "sets", "--frames", "search")
    assert result.exit_code == 0
    assert "leave 1 of its 100 frames" in result.stderr
    assert "try --still-below 0" in result.stderr


def without_override() -> None:
    """Root reads everything; a process without these two capabilities, even root's, does not."""
    if os.geteuid() == 0:
        drop, override, read_search = 24, 1, 2
        for capability in (override, read_search):
            ctypes.CDLL(None).prctl(drop, capability, 0, 0, 0)


def test_a_file_without_permission_is_named(tmp_path: Path) -> None:
    clip = two_shot_clip(tmp_path / "videos" / "clip.mp4", 1, frames=5)
    clip.chmod(0)
    code = """
import sys
from ctxr.media.decoder_process import Scanner
from ctxr.media.scan import ScanOptions
from ctxr.media.sources import find_sources
from ctxr.media.video import VideoError
(video,) = find_sources(sys.argv[1:]).found
try:
    list(Scanner().scan(video.path, ScanOptions()))
except VideoError as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(clip.parent)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=without_override)
    assert "clip.mp4: the file cannot" in done.stdout


def test_a_full_disk_is_one_sentence_and_the_run_goes_on_when_there_is_space(
    footage: Path, built: Path, tmp_path: Path
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3000, before[1]))
    try:
        with pytest.raises(CtxrError, match="disk is full"):
            build_sets(footage, tmp_path / "sets")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, ignored)
    assert not (tmp_path / "sets" / "manifest.json").exists()
    build_sets(footage, tmp_path / "sets")
    assert same_tree(tmp_path / "sets", built)


@pytest.fixture(scope="module")
def every_frame(footage: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of a short and a longer video in `videos`, of which every frame is considered by ctxr-tiny itself."""
    project = tmp_path_factory.mktemp("every")
    two_shot_clip(project / "videos" / "clip0.mp4", 8, frames=20)
    long = two_shot_clip(project / "videos" / "long.mp4", 9, frames=400)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(LOADER, load_encoder)
        build_sets(footage, project / "sets", sources=(str(long.parent),), frames="every")
    return project


def run_aside(words: list[str], stderr: Path) -> None:
    """Run a command in a process of its own, which has loaded what it was forked from."""
    # a shell's background job, and with it every test that it runs, ignores interrupts
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.nice(19)  # on a busy machine too, the test must get its turn before the run is over
    with stderr.open("w") as sys.stderr:
        app(words)


@pytest.mark.prove
@pytest.mark.usefixtures("real_encoder")
@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_a_run_stopped_within_a_video_goes_on_to_the_same_bytes(
    footage: Path, every_frame: Path, tmp_path: Path, ending: signal.Signals
) -> None:
    videos, stopped, log = every_frame / "videos", tmp_path / "sets", tmp_path / "stderr"
    command = ["build-sets", str(videos), "--encoder", "ctxr-tiny"]
    command += ["--threshold", THRESHOLD, "--frames", "every", "--out", str(stopped)]
    # forked from a process without threads: a fork of this one, in which torch has worked, may crash when it is interrupted
    context = get_context("forkserver")
    context.set_forkserver_preload(["open_clip", "ctxr.cli.app"])
    process = context.Process(target=run_aside, args=(command, log))
    process.start()
    assert process.pid
    while not list(stopped.glob("sources/.long.vectors")):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, ending)
    process.join()
    assert process.exitcode == (130 if ending == signal.SIGINT else -signal.SIGKILL)
    assert ("interrupted" in log.read_text()) == (ending == signal.SIGINT)
    assert "Traceback" not in log.read_text()
    assert not (stopped / "sources" / "long").exists()
    build_sets(footage, stopped, sources=(str(videos),), frames="every")
    assert same_tree(stopped, every_frame / "sets")


def test_frames_of_odd_size_are_taken(tmp_path: Path) -> None:
    import numpy as np

    rng = np.random.default_rng(0)
    pictures = [rng.integers(0, 255, (66, 94, 3)).astype(np.uint8) for _ in range(30)]
    assert build(write_clip(tmp_path / "odd.mp4", pictures), "--out", tmp_path / "sets").exit_code == 0
