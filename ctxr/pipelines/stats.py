"""`ctxr stats`: the tables by which a benchmark is described, for ours and for published ones (ImageCoDe, section 4)."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ctxr.errors import UsageError
from ctxr.pipelines.inputs import open_dataset
from ctxr.pipelines.result_tables import Table
from ctxr.pipelines.talk import Silent, Talk

if TYPE_CHECKING:
    from ctxr.metrics.language import Parsed


@dataclass(frozen=True)
class Stats:
    """Configuration of `ctxr stats`; a field's text is its help."""

    dataset: Path | None = None
    """Artifact, published release (folder or file) or COCO captions; default: the latest finished one in the workdir."""
    workdir: Path = Path("work")
    """Project folder, where each command finds what the one before it made."""
    out: Path | None = None
    """Write the figures as JSON to this file as well."""
    tokenizer: str = "auto"
    """How words are counted: auto (spaCy where it is installed), spacy, regex; the result names the one used."""
    parser: str | None = None
    """SpaCy model for tree depth, a name or a folder; default: en_core_web_sm where it is installed."""
    skip_pictures: bool = False
    """Do not open pictures: near-duplicates then are found by embeddings alone, where there are any."""
    near: float = 0.02
    """Pictures of two splits count as near-duplicates up to this root mean square colour difference (0..1) at 16 x 16 pixels."""
    near_embedding: float = 0.3
    """Embeddings of two splits count as near-duplicates up to this share of the encoder's threshold."""
    encoder: str | None = None
    """Embed the pictures with this encoder where a dataset has no embeddings of its own; default: leave distances out."""
    device: str = "auto"
    """Where the encoder runs: auto, cpu, cuda, mps."""


@dataclass(frozen=True)
class StatsReport:
    """What `stats` found.

    Attributes:
        tokenizer: what counted the words; "" where there are no descriptions.
        tables: by name. missing: what cannot be said of this dataset and why, one sentence each.
        notes: what the reader left out or took on trust.
    """

    dataset: str
    tokenizer: str
    tables: dict[str, Table] = field(default_factory=dict)
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def run(config: Stats, talk: Talk | None = None) -> StatsReport:
    """Every table that the dataset allows, and a sentence for each that it does not.

    Raises UsageError for wrong arguments, DataError for content that does not fit, UnfinishedError without a dataset.
    """
    if config.near < 0 or config.near_embedding < 0:
        raise UsageError("--near and --near-embedding are distances of at least 0", hint="leave them out: 0.02 and 0.3")
    if config.out is not None and config.out.is_dir():
        raise UsageError(f"{config.out} is a folder", hint="--out names a file, like stats.json")
    talk = talk or Silent()
    from ctxr.models.tokens import load_tokenizer
    from ctxr.pipelines import stats_tables as tables
    from ctxr.pipelines.leaks import Nearness, leakage_table
    from ctxr.pipelines.picture_vectors import distances_of, vectors_of
    from ctxr.pipelines.published import published_table

    tokenizer = load_tokenizer(config.tokenizer, config.parser)
    dataset = open_dataset(config.dataset, config.workdir, talk)
    described = tables.descriptions_of(dataset)
    if described and config.tokenizer == "auto" and tokenizer.name.startswith("regex"):
        talk.warn("spaCy is not installed: words are counted by a plain rule, unlike the published figures "
                  "(pip install 'ctxr[stats]')")  # fmt: skip
    parsed: dict[str, Parsed] = {}
    if described:
        parsed = dict(zip(described, tokenizer.parse(described), strict=True))
    vectors = vectors_of(dataset, config.encoder, config.device, talk)
    distances = distances_of(dataset, vectors if config.encoder else None)
    near = Nearness(None if config.skip_pictures else config.near, config.near_embedding)
    found = {
        "splits": tables.by_split(dataset),
        "sources": tables.by_source(dataset),
        "per_set": tables.per_set(dataset),
        "language": tables.language_table(dataset, parsed, tokenizer.name),
        "mentions": tables.mentions(dataset, parsed),
        "writers": tables.writers(dataset),
        "positions": tables.positions(dataset),
        "distances": tables.distance_table(dataset, distances),
        "phenomena": tables.phenomena_table(dataset),
        "licences": tables.licences(dataset),
        "leakage": leakage_table(near, dataset, vectors, talk),
    }
    made = {name: one for name, one in found.items() if isinstance(one, Table)}
    missing = [one for one in found.values() if isinstance(one, str) and one]
    if parsed and tokenizer.why_no_depth:
        missing.append(tokenizer.why_no_depth)
    comparison = published_table(dataset, parsed, distances)
    if comparison is not None:
        made["published"] = comparison
    report = StatsReport(dataset.name, tokenizer.name if parsed else "", made, tuple(missing), dataset.notes)
    if config.out is not None:
        _write(config.out, report)
    return report


def _write(out: Path, report: StatsReport) -> None:
    import msgspec

    from ctxr.data.atomic import write_bytes

    if out.exists() and not _is_ours(out):
        raise UsageError(f"{out} is no statistics that ctxr wrote", hint="choose another --out, such as stats.json")
    write_bytes(out, msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")


def _is_ours(out: Path) -> bool:
    """Whether a file holds what `--out` wrote, and may be written again."""
    import msgspec

    try:
        found = msgspec.json.decode(out.read_bytes())
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return False
    return isinstance(found, dict) and set(found) == set(StatsReport.__dataclass_fields__)
