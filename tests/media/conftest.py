"""The decoder process itself: each client starts its own."""

import pytest

from ctxr.media.decoder_process import ChildProcess


@pytest.fixture(autouse=True)
def own_decoders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ctxr.media.decoder_process.ChildProcess", ChildProcess)
