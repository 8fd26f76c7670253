"""A test is skipped for a listed reason, or it fails."""

import subprocess
import sys
from pathlib import Path

from tests.conftest import MAY_BE_SKIPPED, ROOT

SKIPPED = {
    "call": "def test_it(): pytest.skip({!r})",
    "mark": "@pytest.mark.skip(reason={!r})\ndef test_it(): pass",
    "fixture": "@pytest.fixture\ndef it(): pytest.skip({!r})\ndef test_it(it): pass",
    "file": "pytest.skip({!r}, allow_module_level=True)",
    "package": "def test_it(): pytest.importorskip('no_such_package', reason={!r})",
    "xfail": "@pytest.mark.xfail(reason={!r})\ndef test_it(): assert False",
}


def test_a_skip_for_a_reason_that_is_not_listed_fails(tmp_path: Path) -> None:
    for name, code in SKIPPED.items():
        for kind, reason in (("listed", f"{MAY_BE_SKIPPED[0]}: more"), ("other", "because")):
            (tmp_path / f"test_{name}_{kind}.py").write_text(f"import pytest\n{code.format(reason)}\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-c", "/dev/null"]
    command += ["-q", "-rfE", "--continue-on-collection-errors", str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    told = [
        line.split()[1].split("::")[0] for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))
    ]
    assert ended.returncode == 1
    assert sorted(Path(file).stem for file in told) == [
        f"test_{name}_other" for name in sorted(SKIPPED) if name != "xfail"
    ]
