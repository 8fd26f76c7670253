"""Metrics of epochs as TensorBoard event files."""

import shutil
from pathlib import Path
from typing import Any

from ctxr.errors import UsageError
from ctxr.models.training.state import Epoch


def find_writer() -> Any:
    """The class that writes event files. Raises UsageError where the package tensorboard is not installed."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise UsageError(
            "--tensorboard needs the package tensorboard, which is not installed",
            hint="pip install 'ctxr[tensorboard]'",
        ) from error
    return SummaryWriter


class Events:
    """Event files of one training; a resumed training adds a file.

    Args:
        folder: of the files; files of an earlier training are deleted at the first epoch of this one.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writer: Any = None

    def epoch(self, row: Epoch) -> None:
        """Write loss, accuracy and seconds of an epoch, at once."""
        if self._writer is None:
            if row.epoch == 1:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._writer = find_writer()(str(self._folder), purge_step=row.epoch)
        self._writer.add_scalar("train/loss", row.loss, row.epoch)
        if row.accuracy is not None:
            self._writer.add_scalar("valid/accuracy", row.accuracy, row.epoch)
        self._writer.add_scalar("train/seconds", row.seconds, row.epoch)
        self._writer.flush()

    def close(self) -> None:
        """Close the file."""
        if self._writer is not None:
            self._writer.close()
