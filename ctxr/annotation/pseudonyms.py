"""Keyed pseudonyms of workers: an HMAC of platform and platform id under a key that stays in the project's private folder.

The key is needed to test whether a person is in the data; with it, a person gets the same pseudonym on every import.
"""

import base64
import hashlib
import hmac
import os
import secrets
from contextlib import suppress
from pathlib import Path

from ctxr.errors import DataError
from ctxr.store.atomic import disk_errors

PRIVATE = "private"
"""Folder that must not be published: the key, and who is behind each pseudonym."""

PREFIX = "w-"

_BYTES = 32


def read_key(folder: Path, new: str = "") -> bytes:
    """The key in `folder/key`, or else of `new` (hex) or random, for its owner alone. Raises DataError for no key."""
    path = folder / "key"
    with disk_errors(path):
        if not path.is_file():
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            passing = path.with_name(f".key.{secrets.token_hex(4)}")
            with os.fdopen(os.open(passing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
                stream.write((new or secrets.token_hex(_BYTES)).encode())
                stream.flush()
                os.fsync(stream.fileno())
            with suppress(FileExistsError):
                os.link(passing, path)  # of two that start at once, one wins and both read the same key
            passing.unlink()
        content = path.read_bytes().strip()
    try:
        key = bytes.fromhex(content.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != _BYTES:
        raise DataError(
            f"{path} is not a key of {_BYTES} bytes in hex",
            hint="restore it from a backup: with a new key the same workers get other names",
        )
    return key


def pseudonym(key: bytes, platform: str, identity: str) -> str:
    """`w-` and 16 characters that stand for a person on a platform."""
    mac = hmac.new(key, f"{platform}\0{identity}".encode(), hashlib.sha256).digest()
    return PREFIX + base64.b32encode(mac[:10]).decode().lower()


def is_pseudonym(author: str) -> bool:
    """Whether the author of a text worked here; texts of datasets have other authors."""
    return author.startswith(PREFIX)
