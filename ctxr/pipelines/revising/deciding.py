"""What decides a round: whether the same was asked before, and what differs where it was not."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ctxr.data.hashing import sha256_of
from ctxr.pipelines.revise_labels import ReviseLabels
from ctxr.pipelines.revising.judging import ChosenThreshold
from ctxr.pipelines.revising.pair_mining import PairMiner
from ctxr.pipelines.revising.records import Round
from ctxr.pipelines.revising.rounds import Base

if TYPE_CHECKING:
    from ctxr.models.encode import Encoder
    from ctxr.models.entailment.base import Classifier

SETTINGS = ("top_k", "both", "per_image", "per_caption", "split", "limit", "sample", "seed")
"""Options that decide a round, beside who proposes, who judges and from where on."""


def settings_of(config: ReviseLabels) -> dict[str, Any]:
    """The options that decide a round."""
    return {name: getattr(config, name) for name in SETTINGS}


def decides(
    config: ReviseLabels,
    base: Base,
    before: Sequence[Round],
    encoder: "Encoder | PairMiner",
    classifier: "Classifier",
    edge: ChosenThreshold,
) -> str:
    """Hash over everything that decides a round on top of those before it that are in force."""
    made_by = [encoder.fingerprint, encoder.precision, classifier.fingerprint, edge.value]
    return sha256_of([settings_of(config), base.content, made_by, [one.decides for one in before if one.active]])


def on_top(
    config: ReviseLabels,
    before: Sequence[Round],
    settings: Mapping[str, Any],
    encoder: "Encoder | PairMiner",
    classifier: "Classifier",
    edge: ChosenThreshold,
) -> str:
    """That rounds in force stay so, and in what the new one differs from the latest of them.

    Args:
        settings: of the latest, as `settings_of` says; empty where they were not written down.
    """
    last = before[-1]
    asked = settings_of(config)
    differ = [
        f"--{name.replace('_', '-')} ({was}, now {asked[name]})" for name, was in settings.items() if was != asked[name]
    ]
    made_by = (
        ("--by", last.by, encoder.name, last.by_fingerprint != encoder.fingerprint),
        ("the classifier", last.classifier, classifier.name, last.classifier_fingerprint != classifier.fingerprint),
        ("the threshold", f"{last.threshold:.6g}", f"{edge.value:.6g}", last.threshold != edge.value),
    )
    differ += [f"{what} ({was}, now {now})" for what, was, now, other in made_by if other]
    many = len(before) > 1
    numbers = _listed([str(one.number) for one in before])
    stays = f"rounds {numbers} stay" if many else f"round {numbers} stays"
    why = (
        f"{_listed(differ)} {'differ' if len(differ) > 1 else 'differs'}"
        if differ
        else f"round {last.number} was made on top of others"
    )
    of = f" from round {last.number}" if many and differ else ""
    return f"{stays} in force; this is another one on top, since {why}{of}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, [", ".join(words[:-1]), words[-1]]))
