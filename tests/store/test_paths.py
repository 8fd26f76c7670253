"""Whereabouts: a memory of places that no other run can spoil."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ctxr.store.paths import CACHE, last_path, remember_paths, safe_name


def digest(number: int) -> str:
    return f"{number:064x}"


def test_a_place_is_remembered_for_all_artifacts_beside_one_another(tmp_path: Path) -> None:
    remember_paths(tmp_path / "sets", {digest(1): tmp_path / "x" / "ü\n.mp4"})
    assert last_path(tmp_path / "filtered", digest(1)) == tmp_path / "x" / "ü\n.mp4"
    assert last_path(tmp_path / "filtered", digest(2)) is None
    remember_paths(tmp_path / "sets", {digest(1): tmp_path / "y.mp4"})
    assert last_path(tmp_path / "sets", digest(1)) == tmp_path / "y.mp4"


def test_parallel_runs_lose_nothing(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        jobs = [
            pool.submit(remember_paths, tmp_path / f"sets{at}", {digest(at): tmp_path / str(at)}) for at in range(100)
        ]
        for job in jobs:
            job.result()
    assert [last_path(tmp_path / "a", digest(at)) for at in range(100)] == [tmp_path / str(at) for at in range(100)]


def test_what_is_no_hash_names_no_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("/etc/passwd")
    remember_paths(tmp_path / "sets", {"../../secret": tmp_path / "x"})
    assert (tmp_path / "secret").read_text() == "/etc/passwd"
    assert last_path(tmp_path / "sets", "../../secret") is None


def test_a_damaged_memory_is_no_memory(tmp_path: Path) -> None:
    remember_paths(tmp_path / "sets", {digest(1): tmp_path / "x"})
    file = tmp_path / CACHE / "places" / digest(1)
    for content in (b"", b"relative", b"\0"):
        file.write_bytes(content)
        assert last_path(tmp_path / "sets", digest(1)) is None
    file.unlink()
    file.mkdir()
    assert last_path(tmp_path / "sets", digest(1)) is None


def test_a_safe_name_fits_every_file_system() -> None:
    names = {"../../etc/passwd": "etc_passwd", "Ünï cødé": "n_c_d", "...": "source", "a b": "a_b"}
    assert {text: safe_name(text) for text in names} == names
