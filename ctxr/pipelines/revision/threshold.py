"""The threshold of a round: given, of a licence, of the judge, or chosen on dev."""

from dataclasses import replace
from pkgutil import resolve_name

import msgspec

from ctxr.datasets.rounds import Base
from ctxr.engine.progress import Progress
from ctxr.errors import DataError, UsageError
from ctxr.models.judges.cascade import Cascade
from ctxr.pipelines.revision.config import ReviseLabels
from ctxr.pipelines.revision.inputs import ChosenThreshold
from ctxr.store.hashing import sha256_if_readable
from ctxr.store.memory import Watch, remembered


def choose_threshold(
    config: ReviseLabels, base: Base, cascade: Cascade, licensed: float | None, progress: Progress
) -> ChosenThreshold:
    """The last judge's threshold: as given, or the lowest that reaches the precision wanted on dev, or the licence's, or its own.

    Of dev, pairs of split valid or without a split that also choose the threshold in training are used, as far as the judges before
    the last leave them unsure. Raises DataError where the pictures of all dev pairs are missing, or no threshold reaches the
    precision, UsageError where --unsure lies above the threshold.
    """
    if config.precision is not None:
        # the threshold that was chosen by the same judges on the same pairs before, or is chosen now
        dev = config.dev or (base.path / "pairs.jsonl" if "pairs.jsonl" in (base.tables or {}) else None)
        if dev is None:
            raise DataError(
                f"{base.dataset.name} has no pairs to choose a threshold on",
                hint="--dev PAIRS.jsonl, or --threshold P, or leave --precision out for the classifier's own",
            )

        def choose(_watch: Watch) -> str:
            choice = resolve_name("ctxr.pipelines.revision.decisions:threshold_on_dev")
            chosen = choice(config, base, dev, cascade, wanted=config.precision, progress=progress)
            return msgspec.json.encode(chosen).decode()

        about = ["threshold on dev", cascade.fingerprint, base.content, sha256_if_readable(dev), config.precision]
        chosen = msgspec.json.decode(remembered(config.workdir, about, choose), type=ChosenThreshold)
    elif config.threshold is not None:
        chosen = ChosenThreshold(config.threshold, "given")
    elif licensed is not None:
        chosen = ChosenThreshold(licensed, "audit")
    else:
        chosen = ChosenThreshold(cascade.threshold, "classifier")
    if config.unsure is not None and config.unsure > chosen.value:
        raise UsageError(
            f"--unsure {config.unsure:g} lies above the threshold {chosen.value:.3g}",
            hint="--unsure with a lower probability, or --threshold with a higher one",
        )
    return replace(chosen, unsure=None if config.unsure == chosen.value else config.unsure)
