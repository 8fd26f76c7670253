"""A real PostgreSQL server in a folder of its own, for tests and measurements: started, and gone without a trace."""

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER, PASSWORD = "ctxr", "only-for-tests"


@dataclass(frozen=True)
class Server:
    """A server that answers.

    Attributes:
        port: on 127.0.0.1.
    """

    programs: Path
    folder: Path
    port: int

    def url(self, database: str = "postgres", password: str = PASSWORD) -> str:
        """The address of a database."""
        return f"postgresql://{USER}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The address of a new, empty database."""
        name = f"crowd_{secrets.token_hex(4)}"
        command = ["psql", "-q", "-h", "127.0.0.1", "-p", str(self.port), "-U", USER, "-d", "postgres"]
        command[0] = str(self.programs / "psql")
        environment = {**os.environ, "PGPASSWORD": PASSWORD}
        subprocess.run([*command, "-c", f"CREATE DATABASE {name}"], check=True, env=environment, capture_output=True)
        return self.url(name)

    def stop(self, mode: str = "fast") -> None:
        """Stop it; `immediate` as a crash would."""
        _as_nobody([self.programs / "pg_ctl", "stop", "-D", self.folder / "data", "-m", mode, "-w"])

    def start(self) -> None:
        """Start it, again after `stop`."""
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={self.folder}"
        log = self.folder / "log"
        _as_nobody([self.programs / "pg_ctl", "start", "-D", self.folder / "data", "-o", options, "-l", log, "-w"])


def programs() -> Path | None:
    """The folder of initdb, pg_ctl and psql; None where there is no PostgreSQL server."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else []
    versions = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name), reverse=True)
    for place in [*places, *versions]:
        if all((place / name).exists() for name in ("initdb", "pg_ctl", "postgres", "psql")):
            return place
    return None


@contextmanager
def server(durable: bool = False) -> Iterator[Server]:
    """A new server, stopped and deleted at the end; without `durable` it does not wait for the disk.

    Raises LookupError where PostgreSQL is not installed.
    """
    place = programs()
    if place is None:
        raise LookupError("no PostgreSQL server on this machine: apt-get install postgresql (make system)")
    folder = Path(tempfile.mkdtemp(prefix="ctxr-pg-"))
    try:
        password = folder / "password"
        password.write_text(PASSWORD)
        user = _unprivileged()
        if user is not None:
            for path in (folder, password):
                os.chown(path, user.pw_uid, user.pw_gid)
        data = folder / "data"
        _as_nobody(
            [
                place / "initdb",
                "-D",
                data,
                "-U",
                USER,
                "-A",
                "scram-sha-256",
                f"--pwfile={password}",
                "-N",
                "-E",
                "UTF8",
            ]
        )
        if not durable:
            with (data / "postgresql.conf").open("a") as stream:
                stream.write("fsync = off\nfull_page_writes = off\nsynchronous_commit = off\n")
        made = Server(place, folder, _free_port())
        made.start()
        try:
            yield made
        finally:
            made.stop("immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unprivileged() -> pwd.struct_passwd | None:
    """Whom to become: PostgreSQL does not run as root."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


def _as_nobody(command: list[str | Path]) -> None:
    user = _unprivileged()
    who = {} if user is None else {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    done = subprocess.run(
        [str(word) for word in command],
        cwd="/",
        check=False,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if "start" not in command else subprocess.DEVNULL,
        text=True,
        **who,  # type: ignore[call-overload]
    )
    if done.returncode != 0:
        raise RuntimeError(f"{Path(str(command[0])).name} failed: {(done.stderr or '').strip()}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
