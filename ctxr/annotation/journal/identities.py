"""Who is behind a pseudonym: a small file of its own in the private folder, never in the journal."""

from pathlib import Path


class Identities:
    """Platform and platform id of each pseudonym, in `folder/identities.sqlite`, readable to its owner alone."""

    def __init__(self, folder: Path, key: bytes) -> None:
        raise NotImplementedError

    def worker(self, platform: str, identity: str) -> str:
        """The pseudonym of a person, remembered from now on."""
        raise NotImplementedError

    def who(self, worker: str) -> tuple[str, str] | None:
        """Platform and platform id behind a pseudonym; None for one that is not known here."""
        raise NotImplementedError
