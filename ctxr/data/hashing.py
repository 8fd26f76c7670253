"""Content hashes: what a thing is, whatever it is called."""

import hashlib
from pathlib import Path

import msgspec

from ctxr.data.tables import encode_other


def sha256_bytes(content: bytes) -> str:
    """SHA-256 of bytes, 64 hex digits."""
    return hashlib.sha256(content).hexdigest()


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, 64 hex digits; reads in constant memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of(value: object) -> str:
    """SHA-256 of a JSON-able value; equal values hash equally whatever the order of their keys."""
    return sha256_bytes(msgspec.json.encode(value, enc_hook=encode_other, order="deterministic"))
