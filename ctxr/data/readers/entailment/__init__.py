"""Published entailment datasets as `EntailmentPair` rows: SNLI-VE, e-SNLI-VE, XNLI, MNLI, MRPC, RTE, STS-B, QQP, CxC, ECCV."""

from ctxr.data.readers.entailment.captions import Captions, read_captions
from ctxr.data.readers.entailment.formats import SOURCES, THRESHOLD
from ctxr.data.readers.entailment.oddities import Oddity, Reading
from ctxr.data.readers.entailment.pairs import read_pairs
from ctxr.data.readers.entailment.positives import pairs_of, positives_of, read_positives
from ctxr.data.readers.entailment.similarities import Rated, read_similarities

__all__ = [
    "SOURCES", "THRESHOLD", "Captions", "Oddity", "Rated", "Reading", "pairs_of", "positives_of",
    "read_captions", "read_pairs", "read_positives", "read_similarities",
]  # fmt: skip
