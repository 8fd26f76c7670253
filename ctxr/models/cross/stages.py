"""The layers of a region cross-encoder. Letters: P pairs, T tokens, R regions; each stream has a width of its own."""

from torch import Tensor, nn
from torch.nn import functional

from ctxr.models.cross.config import CrossConfig, Stage, Stream
from ctxr.models.layers import EPSILON, Block


class Side(nn.Module):
    """One stream's part of a crossed stage: asks the other stream, then transforms what it heard.

    Args:
        stream: whose items these are.
        width: of the attention. heads: a divisor of it. dropout: 0..1.
    """

    def __init__(self, stream: Stream, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        if width % heads:
            raise ValueError(f"{heads} heads do not divide a width of {width}")
        self.heads, self.rate = heads, dropout
        self.query, self.key, self.value = (nn.Linear(stream.width, width) for _ in range(3))
        self.out = nn.Linear(width, stream.width)
        self.after_attention = nn.LayerNorm(stream.width, eps=EPSILON)
        self.widen, self.narrow = nn.Linear(stream.width, stream.inner), nn.Linear(stream.inner, stream.width)
        self.after_widening = nn.LayerNorm(stream.width, eps=EPSILON)
        self.dropout = nn.Dropout(dropout)

    def heard(self, items: Tensor, other: "Side", others: Tensor, mask: Tensor) -> Tensor:
        """What items [P, T, width] become when they have looked at others [P, R, ...], where `mask` [P, R] is True."""
        seen = functional.scaled_dot_product_attention(
            self._by_head(self.query(items)),
            self._by_head(other.key(others)),
            self._by_head(other.value(others)),
            attn_mask=mask[:, None, None, :],
            dropout_p=self.rate if self.training else 0.0,
        )
        mixed = self.out(seen.transpose(1, 2).flatten(2))
        items = self.after_attention(items + self.dropout(mixed))
        wide = functional.gelu(self.widen(items), approximate="none")
        normal: Tensor = self.after_widening(items + self.dropout(self.narrow(wide)))
        return normal

    def _by_head(self, items: Tensor) -> Tensor:
        return items.view(*items.shape[:2], self.heads, items.shape[2] // self.heads).transpose(1, 2)


class Crossed(nn.Module):
    """Each stream looks at the other (ViLBERT's co-attention)."""

    def __init__(self, config: CrossConfig) -> None:
        super().__init__()
        rest = (config.crossed_width, config.crossed_heads, config.dropout)
        self.text, self.vision = Side(config.text, *rest), Side(config.vision, *rest)

    def forward(self, words: Tensor, regions: Tensor, said: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """Words [P, T, ...] and regions [P, R, ...]; `said` [P, T] and `seen` [P, R] are True where there is one."""
        return (
            self.text.heard(words, self.vision, regions, seen),
            self.vision.heard(regions, self.text, words, said),
        )


class Own(nn.Module):
    """Each stream that takes part looks at itself."""

    def __init__(self, config: CrossConfig, text: bool, vision: bool) -> None:
        super().__init__()
        self.text = _block(config.text, config.dropout) if text else None
        self.vision = _block(config.vision, config.dropout) if vision else None

    def forward(self, words: Tensor, regions: Tensor, said: Tensor, seen: Tensor) -> tuple[Tensor, Tensor]:
        """As `Crossed`; rows of words and of regions need not belong together."""
        words = words if self.text is None else self.text(words, said)
        return words, regions if self.vision is None else self.vision(regions, seen)


class Joint(Block):
    """Word pieces and regions as one sequence (UNITER)."""

    def __init__(self, config: CrossConfig) -> None:
        if config.text != config.vision:
            raise ValueError("a joint stage needs two streams of the same widths and heads")
        super().__init__(config.text.width, config.text.heads, config.text.inner, config.dropout)


def make_stage(kind: Stage, config: CrossConfig) -> nn.Module:
    """The layer of that kind."""
    if kind == "joint":
        return Joint(config)
    if kind == "crossed":
        return Crossed(config)
    return Own(config, text=kind != "vision", vision=kind != "text")


def _block(stream: Stream, dropout: float) -> Block:
    return Block(stream.width, stream.heads, stream.inner, dropout)
