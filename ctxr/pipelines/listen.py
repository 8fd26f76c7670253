"""`ctxr listen`: a multimodal language model finds the picture that a description is about, behind any compatible endpoint."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ctxr.errors import UsageError
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

SPLITS = ("train", "valid", "test", "none")


@dataclass(frozen=True)
class Listen:
    """Configuration of `ctxr listen`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact or published release with queries and pictures; default: the latest finished one in the workdir."""
    endpoint: str = ""
    """Address of an OpenAI-compatible server, such as http://localhost:8000/v1."""
    model: str = ""
    """Name of the model, as the server knows it."""
    split: str = "valid"
    """Side of the benchmark that is asked: train, valid, test or none."""
    limit: int = 0
    """Ask this many queries alone, a random sample that a larger limit extends; 0: all."""
    shifts: int = 1
    """Ask each query so often, the pictures turned round by equal steps, against a liking for places; 10 turn a set of ten fully."""
    side: int = 384
    """Longer side in pixels of the pictures that are sent."""
    name: str | None = None
    """What the run is called, in `runs/` of the workdir; default: as the model."""
    key_from: str = "CTXR_API_KEY"
    """Environment variable that holds the key; a local endpoint needs none."""
    at_once: int = 4
    """Requests on the way at the same time."""
    timeout: float = 120.0
    """Seconds that an answer may take before it is asked for again."""
    max_tokens: int = 64
    """Tokens of an answer; models that think aloud need thousands."""
    price_in: float = 0.0
    """Price of a million tokens that are sent."""
    price_out: float = 0.0
    """Price of a million tokens that are answered."""
    max_cost: float = 0.0
    """Stop before all replies of this run together cost more; 0: no limit. The same command with more goes on."""
    dry_run: bool = False
    """Say how many requests, tokens and how much money it would take, and ask nothing."""
    insecure: bool = False
    """Send pictures and key over plain http to another machine."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""

    def folder(self) -> Path:
        """Where the run is written."""
        return self.workdir / "runs" / (self.name or re.sub(r"[^\w.-]+", "-", self.model).strip(".-") or "listener")


@dataclass(frozen=True)
class ListenReport:
    """What `listen` heard.

    Attributes:
        run: the artifact. queries: asked about. requests: in all. answered: of them, by now.
        complete: whether every request was answered. up_to_date: whether it was there already.
        outcomes: how many replies were chosen, out_of_range, unreadable, refused.
        tokens_in, tokens_out: of all replies; in a dry run, about how many there would be.
        cost: at the given prices. uncounted: replies of which the host did not say the tokens: they are estimated.
        tables: accuracy by shift, and by place. notes: what one must know to believe the figures.
    """

    run: Path
    dataset: str
    model: str
    queries: int
    requests: int
    answered: int
    complete: bool
    dry_run: bool
    up_to_date: bool
    outcomes: dict[str, int]
    tokens_in: int
    tokens_out: int
    cost: float
    uncounted: int
    accuracy: float | None
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()


def run(config: Listen, talk: Talk | None = None) -> ListenReport:
    """Ask what was not answered yet, and write scores once everything is; a run that stopped at its cost is reported as such.

    Raises UsageError for wrong arguments, CtxrError without a key, and for a host that refuses or does not answer (every
    answer until then is kept), DataError for pictures that cannot be sent, UnfinishedError without a finished dataset.
    """
    _check(config)
    from ctxr.pipelines.lineage import remember_dataset
    from ctxr.pipelines.listening.work import listen

    report = listen(config, talk or Silent())
    if report.complete and not config.dry_run:
        remember_dataset(report.run, config.dataset)
    return report


def _check(config: Listen) -> None:
    """Raises UsageError for what is missing or out of range."""
    if not config.endpoint:
        raise UsageError("no --endpoint is named", hint="--endpoint http://localhost:8000/v1")
    if not config.model or not config.model.isprintable():
        raise UsageError("no --model is named", hint="--model NAME, as the server calls it")
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", config.key_from):
        # not repeated: it may be the key itself
        raise UsageError("--key-from names no environment variable", hint="--key-from CTXR_API_KEY, without the key")
    if config.split not in SPLITS:
        raise UsageError(f"--split {config.split!r} is unknown", hint=f"choose one of {', '.join(SPLITS)}")
    name = config.name
    if name is not None and (name in ("", ".", "..") or Path(name).name != name or not name.isprintable()):
        raise UsageError(f"--name {name!r} is no name of a folder", hint="--name first-try")
    least: dict[str, Any] = {"shifts": 1, "side": 16, "at_once": 1, "max_tokens": 1, "limit": 0}
    least |= {"price_in": 0, "price_out": 0, "max_cost": 0}
    for field, low in least.items():
        value = getattr(config, field)
        if not low <= value < float("inf"):
            raise UsageError(f"--{field.replace('_', '-')} {value} is below {low}", hint="leave it out")
    if not 0 < config.timeout < float("inf"):
        raise UsageError(f"--timeout {config.timeout:g} is no time to wait", hint="--timeout 120")
    if config.max_cost and not (config.price_in or config.price_out):
        raise UsageError("--max-cost needs prices", hint="--price-in 2.5 --price-out 10, for a million tokens each")
