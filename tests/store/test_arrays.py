"""Arrays that stay open: more of them than a shell allows, and none where the system allows no more."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ctxr.store.arrays import save_vectors

OPENED = """
import sys, resource
from pathlib import Path
from ctxr.store.arrays import load_vectors
from ctxr.errors import CtxrError
soft, hard = map(int, sys.argv[2:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
try:
    print(len([load_vectors(Path(sys.argv[1])) for _ in range(100)]))
except CtxrError as error:
    print(error.hint.split()[-2:])
"""


@pytest.mark.parametrize(("hard", "said"), [(200, "100"), (64, "['ulimit', '-n']")])
def test_as_many_files_are_open_as_the_system_allows(tmp_path: Path, hard: int, said: str) -> None:
    save_vectors(tmp_path / "vectors.npy", np.eye(4, dtype=np.float32))
    command = [sys.executable, "-c", OPENED, str(tmp_path / "vectors.npy"), "64", str(hard)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == said
