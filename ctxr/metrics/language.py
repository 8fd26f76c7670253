"""What descriptions are like, from their tokens (ImageCoDe, section 4.2 and Table 4), and from judgments on phenomena (Table 2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ctxr.store.records import Judgment, Query
from ctxr.store.tables import grouped


@dataclass(frozen=True)
class ParsedText:
    """A parsed description: lower-cased tokens, number of sentences, depth of each dependency tree, if parsed."""

    tokens: tuple[str, ...]
    sentences: int
    depths: tuple[int, ...] = ()


@dataclass(frozen=True)
class Language:
    """Figures over descriptions: different tokens, share with three sentences or more, mean depths.

    mean_depth: over sentences; mean_deepest: over descriptions of their deepest one. None if unparsed.
    """

    descriptions: int
    mean_length: float
    median_length: float
    longest: int
    word_types: int
    mean_sentences: float
    three_or_more: float
    mean_depth: float | None
    mean_deepest: float | None


def language(parsed: Sequence[ParsedText]) -> Language | None:
    """The figures of Table 4; None for no description."""
    if not parsed:
        return None
    lengths = np.array([len(description.tokens) for description in parsed])
    sentences = np.array([description.sentences for description in parsed])
    depths = [depth for description in parsed for depth in description.depths]
    deepest = [max(description.depths) for description in parsed if description.depths]
    return Language(
        descriptions=len(parsed),
        mean_length=float(lengths.mean()),
        median_length=float(np.median(lengths)),
        longest=int(lengths.max()),
        word_types=len({token for description in parsed for token in description.tokens}),
        mean_sentences=float(sentences.mean()),
        three_or_more=float((sentences >= 3).mean()),
        mean_depth=float(np.mean(depths)) if depths else None,
        mean_deepest=float(np.mean(deepest)) if deepest else None,
    )


def tree_depth(heads: Sequence[int]) -> int:
    """Edges on the longest path from a sentence's root downwards; `heads[i]` is the head of token i, the root its own."""
    deepest = 0
    for token in range(len(heads)):
        depth = 0
        while heads[token] != token:
            token, depth = heads[token], depth + 1
        deepest = max(deepest, depth)
    return deepest


@dataclass(frozen=True)
class PhenomenonShare:
    """One row of the table: by part of the dataset (`all`, `video`, `photos`), how many descriptions were judged, and
    in how many of them the phenomenon was found."""

    phenomenon: str
    present: dict[str, int]
    judged: dict[str, int]

    def percent(self, part: str) -> float | None:
        """Share of the judged descriptions that show it, 0..100; None where none was judged."""
        return 100 * self.present[part] / self.judged[part] if self.judged[part] else None


def shares(
    phenomena: Sequence[str], queries: Iterable[Query], judgments: Iterable[Judgment], kinds: Mapping[str, str]
) -> list[PhenomenonShare]:
    """A row for each phenomenon that was judged (`verdicts`), in their order; `kinds` of the image sets are by id."""
    by_id = {query.id: query for query in queries}
    answers = verdicts(phenomena, by_id.values(), judgments)
    parts = dict.fromkeys(("all", "video", "photos", *kinds.values()))
    table = {
        phenomenon: PhenomenonShare(phenomenon, dict.fromkeys(parts, 0), dict.fromkeys(parts, 0))
        for phenomenon in phenomena
    }
    for (query, phenomenon), present in answers.items():
        for part in ("all", kinds[by_id[query].image_set]):
            table[phenomenon].judged[part] += 1
            table[phenomenon].present[part] += present
    return [share for share in table.values() if share.judged["all"]]


def verdicts(
    phenomena: Sequence[str], queries: Iterable[Query], judgments: Iterable[Judgment]
) -> dict[tuple[str, str], bool]:
    """Whether a phenomenon was found, by query and phenomenon, without unjudged phenomena.

    A query counts if all its labels are phenomena; others, and judgments on others, are passed over. Several workers decide by
    majority; a tie is no. A later round replaces an earlier one of the same worker.
    """
    names = set(phenomena)
    annotated = {query.id for query in queries if query.labels and names.issuperset(query.labels)}
    latest: dict[tuple[str, str, str], Judgment] = {}
    for row in judgments:
        if row.query in annotated and row.candidate in names:
            key = (row.query, row.candidate, row.worker)
            latest[key] = max(latest.get(key, row), row, key=lambda row: row.round)
    votes = grouped(((query, name), row.value > 0) for (query, name, _), row in latest.items())
    return {key: 2 * sum(values) > len(values) for key, values in votes.items()}
