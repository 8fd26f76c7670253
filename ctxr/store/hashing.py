"""Hashes of content."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec

from ctxr.store.tables import encode_other

_BLOCK = 1 << 22


def sha256_bytes(content: bytes) -> str:
    """SHA-256 of bytes, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def sha256_if_readable(path: Path) -> str | None:
    """SHA-256 of the bytes of a file; None if it cannot be read."""
    try:
        return sha256_file(path)
    except OSError:
        return None


def sha256_file(path: Path, passed: Callable[[int], None] | None = None) -> str:
    """SHA-256 of a file's bytes, 64 hex digits, in constant memory; `passed` hears of every block's bytes."""
    with path.open("rb") as stream:
        if passed is None:
            return hashlib.file_digest(stream, "sha256").hexdigest()
        digest = hashlib.sha256()
        while block := stream.read(_BLOCK):
            digest.update(block)
            passed(len(block))
        return digest.hexdigest()


def sha256_of(value: object) -> str:
    """SHA-256 of a JSON-able value; equal values hash equally whatever the order of their keys."""
    return sha256_bytes(msgspec.json.encode(value, enc_hook=encode_other, order="deterministic"))
