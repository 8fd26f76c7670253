"""Which judges does an audit license? `python -m scripts.licence_proof [--repetitions 300]`.

The candidates of a round are drawn, people answer its sample, and what `ctxr revise-labels --audit` runs decides.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from ctxr.annotation.artifacts import AggregatedAnswers
from ctxr.annotation.tasks.entail import ENTAILMENT
from ctxr.cli.render import show_table
from ctxr.datasets.rounds import AuditSample, CandidateRow, Round
from ctxr.engine.report import Table
from ctxr.metrics.alternative import LEVEL, Preference, preference
from ctxr.metrics.votes import Doubles, Flags
from ctxr.pipelines.revision.auditing import audited_sample
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.licence import JudgedPairs, JudgeLicence, license_judge
from ctxr.pipelines.revision.revising import draw
from ctxr.store.records import Judgment
from scripts.ending import exit_code

PEOPLE, PICTURES, RANKS, THRESHOLD = 3, 60, 30, 0.5
SIZES = (60, 100, 200, 400)

WORLDS = {"most": 1.6, "many": 0.9, "some": 0.5, "few": 0.2}
"""How often the best caption of a picture holds; those behind it hold less often."""


def noisy(holds: Flags, rng: np.random.Generator) -> Doubles:
    """The truth, turned round in a tenth of the pairs."""
    return np.where(holds ^ (rng.random(len(holds)) < 0.1), 0.5, 0.0) + rng.random(len(holds)) / 2


def surer(holds: Flags, rng: np.random.Generator) -> Doubles:
    """Nine of ten pairs that hold are called so, and nine of ten calls are right."""
    wrong = rng.random(len(holds)) < np.where(holds, 0.1, 0.1 * holds.mean() / (1 - holds.mean()))
    return np.where(holds ^ wrong, 0.5, 0.0) + rng.random(len(holds)) / 2


JUDGES: dict[str, Callable[[Flags, np.random.Generator], Doubles]] = {
    "a coin": lambda holds, rng: rng.random(len(holds)),
    "the truth with 10 % noise": noisy,
    "nine of ten right and found": surer,
    "always no": lambda holds, rng: rng.random(len(holds)) / 2,
}


@dataclass(frozen=True)
class Drawn:
    """The candidates of a round, which of them hold, and what each person would say of them, by pair."""

    links: tuple[CandidateRow, ...]
    holds: dict[tuple[str | int, ...], bool]
    said: dict[tuple[str | int, ...], list[bool]]


def drawn(best: float, judge: Callable[[Flags, np.random.Generator], Doubles], rng: np.random.Generator) -> Drawn:
    """A round of `PICTURES` pictures; each person errs in 5 to 10 % of the pairs."""
    share = np.clip(best * np.exp(-np.arange(RANKS) / 12) * rng.uniform(0.6, 1.4, (PICTURES, 1)), 0, 1)
    holds = (rng.random(share.shape) < share).ravel()
    return round_of(holds, judge(holds, rng), said(holds, rng.uniform(0.05, 0.1, PEOPLE), rng))


def said(holds: Flags, errors: Doubles, rng: np.random.Generator) -> Flags:
    """What people who err so often, [P], say of each pair, [N, P]."""
    return np.asarray(holds[:, None] ^ (rng.random((len(holds), len(errors))) < errors))


def round_of(holds: Flags, probability: Doubles, votes: Flags) -> Drawn:
    """The round of a judge with these probabilities [N], in the order of pictures and ranks."""
    links = tuple(
        CandidateRow(
            f"i{row // RANKS}", f"c{row}", "drawn", "image", row % RANKS + 1, 0.0, round(p, 6),
            "added" if p >= THRESHOLD else "rejected", "judge", None if p >= THRESHOLD else "below_threshold",
        )
        for row, p in enumerate(probability.tolist())
    )  # fmt: skip
    keys = [link.key() for link in links]
    return Drawn(links, dict(zip(keys, holds.tolist(), strict=True)), dict(zip(keys, votes.tolist(), strict=True)))


def answered(sample: Sequence[AuditSample], world: Drawn) -> AggregatedAnswers:
    """What people say of a sample."""
    rows = tuple(
        Judgment(f"entail/{one.image}/{one.caption}", ENTAILMENT, f"w{person}", float(entailed))
        for one in sample
        for person, entailed in enumerate(world.said[one.key()])
    )
    return AggregatedAnswers(Path(), judgments=rows)


def audited(config: ReviseLabels, world: Drawn, size: int, rng: np.random.Generator) -> tuple[JudgeLicence, Preference]:
    """What the audit of a sample says."""
    current = Round(
        1, True, "drawn", "drawn", "judge", "judge", THRESHOLD, "given", PICTURES, len(world.links), 0, 0, 0, ""
    )
    sample = draw(world.links, size, rng)
    answers = audited_sample(sample, answered(sample, world), ()).answers
    pairs = JudgedPairs(current, sample, world.links, answers)
    favours = preference(pairs.probability, pairs.ranks, pairs.entailed, pairs.weights * pairs.decided, config.seed)
    licence = license_judge(config, current, "", pairs, ["test"], terms={})
    return licence, favours or Preference(0, 0, 1)


def precision(world: Drawn, threshold: float) -> float:
    """The share of pairs at or above a threshold that hold."""
    called = [world.holds[link.key()] for link in world.links if (link.probability or 0) >= threshold]
    return float(np.mean(called))


def prove(options: Namespace) -> None:
    """Audit many rounds of each kind, and print the share of licences."""
    config, rows = ReviseLabels(epsilon=options.epsilon, precision=options.precision), []
    for (world, best), (name, judge), size in product(WORLDS.items(), JUDGES.items(), SIZES):
        licences, favoured, right = [], 0, []
        share = []
        for seed in range(options.repetitions):
            rng = np.random.default_rng((seed, size))
            one = drawn(best, judge, rng)
            share.append(np.mean(list(one.holds.values())))
            licence, favours = audited(config, one, size, rng)
            licences.append(licence)
            favoured += favours.p <= LEVEL
            if licence.passed and licence.threshold is not None:
                right.append(precision(one, licence.threshold))
        tested = [licence for licence in licences if licence.omega is not None]
        means = (_mean([getattr(one, key) for one in tested]) for key in ("threshold", "omega", "rho"))
        none, passed = len(licences) - len(tested), sum(licence.passed for licence in licences)
        counts = (f"{100 * count / len(licences):.0f}" for count in (passed, none, favoured))
        rows.append((f"{world} ({100 * np.mean(share):.0f} %)", name, size, *counts, *means, _mean(right)))
    note = f"of {options.repetitions} audits by {PEOPLE} people who err in 5 to 10 %; ε {config.epsilon:g}; hold: of what it adds"
    columns = (
        "captions that hold",
        "judge",
        "pairs",
        "licensed %",
        "no threshold %",
        "favours %",
        "threshold",
        "ω",
        "ρ",
        "hold",
    )
    show_table(Table("Licences", columns, tuple(rows), note))


def _mean(values: Sequence[float]) -> str:
    return f"{np.mean(values):.2f}" if values else "–"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove and print."""
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int, default=300)
    parser.add_argument("--epsilon", type=float, default=ReviseLabels.epsilon)
    parser.add_argument("--precision", type=float)
    options = parser.parse_args(arguments)
    return exit_code(lambda: prove(options))


if __name__ == "__main__":
    sys.exit(main())
