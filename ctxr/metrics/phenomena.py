"""Shares of descriptions that show a phenomenon, from the judgments on it (ImageCoDe, Table 2)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ctxr.store.records import Judgment, Query


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
    phenomena: Sequence[str],
    queries: Iterable[Query],
    judgments: Iterable[Judgment],
    kinds: Mapping[str, str],
) -> list[PhenomenonShare]:
    """A row for each phenomenon that was judged (`verdicts`), in their order; `kinds` of the image sets are by id."""
    by_id = {query.id: query for query in queries}
    answers = verdicts(phenomena, by_id.values(), judgments)
    parts = ("all", "video", "photos")
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
    """Whether a phenomenon was found, by query and phenomenon; phenomena without judgments are left out.

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
    votes: dict[tuple[str, str], list[bool]] = {}
    for (query, phenomenon, _), row in latest.items():
        votes.setdefault((query, phenomenon), []).append(row.value > 0)
    return {key: 2 * sum(values) > len(values) for key, values in votes.items()}
