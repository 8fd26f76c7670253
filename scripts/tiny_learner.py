"""The model behind ctxr-tiny and one step of its training."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from open_clip import CLIP
from torch import Tensor, nn

from scripts.tiny_pool import Pool

MODEL: dict[str, object] = {
    "embed_dim": 256,
    "vision_cfg": {"image_size": 96, "layers": [2, 2, 2, 1], "width": 16, "head_width": 32},
    "text_cfg": {"context_length": 48, "vocab_size": 49408, "width": 96, "heads": 3, "layers": 2},
}
"""A small convolutional net with attention pooling, and a text tower as wide as open_clip's vocabulary allows in 15 MB."""

PREPROCESS: dict[str, object] = {
    "mean": [0.5, 0.5, 0.5],
    "std": [0.5, 0.5, 0.5],
    "interpolation": "bicubic",
    # the whole picture, not its centre: descriptions speak of the edges
    "resize_mode": "squash",
}
SIZE = 96
MATCH_SCALE = 20.0  # inverse temperature between two takes of one picture
MATCH_WEIGHT = 0.5


@dataclass(frozen=True)
class Batch:
    """What one step sees.

    Attributes:
        pictures: uint8 [N, size, size, 3]; the first `len(tokens)` have captions.
        again: positions of the pictures that are seen a second time, as another camera would take them.
        tokens: int64 [M, C, T], C captions for each of the first M pictures.
    """

    pictures: Tensor
    again: Tensor
    tokens: Tensor


class Learner:
    """A CLIP with bf16 weights for the passes and fp32 ones for the optimiser."""

    def __init__(self, rate: float) -> None:
        self.model = CLIP(**MODEL)
        self.model.visual.to(memory_format=torch.channels_last)
        for module in self.model.modules():
            # statistics and the sums over thousands of tokens need fp32
            if not isinstance(module, nn.BatchNorm2d | nn.Embedding):
                for name, weights in module.named_parameters(recurse=False):
                    if name != "logit_scale":
                        weights.data = weights.data.bfloat16()
        self.model.attn_mask = self.model.attn_mask.bfloat16()
        self._rounded = list(self.model.parameters())
        self._master = [weights.detach().float().clone() for weights in self._rounded]
        plain = [w for w in self._master if w.ndim < 2 or w.shape[0] == self.model.vocab_size]
        matrices = [w for w in self._master if not any(w is other for other in plain)]
        groups = [{"params": matrices, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
        # one tower each: two threads that never wait for one another in the middle of a layer
        self._reader = ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=(1,))
        self._optimiser = torch.optim.AdamW(groups, lr=rate, betas=(0.9, 0.98), eps=1e-6)

    def step(self, batch: Batch, rate: float, generator: torch.Generator) -> dict[str, float]:
        """Learn from one batch; the losses by name."""
        self.model.train()
        told, captions = len(batch.tokens), batch.tokens.shape[1]
        reading = self._reader.submit(self.read, batch.tokens.transpose(0, 1).flatten(0, 1))
        seen = self.see(photographed(torch.cat([batch.pictures, batch.pictures[batch.again]]), generator))
        said = reading.result()
        # the towers meet in their vectors only: the loss goes back to those first, then through both at the same time
        vectors, texts = seen.detach().requires_grad_(), said.detach().requires_grad_()
        first, second = F.normalize(vectors, dim=-1).split([len(batch.pictures), len(batch.again)])  # type: ignore[no-untyped-call]
        scale = self.model.logit_scale.exp().clamp(max=100)
        own = torch.arange(told)
        contrast = torch.zeros(())
        for one in F.normalize(texts, dim=-1).view(captions, told, -1):
            logits = scale * first[:told] @ one.T
            contrast = contrast + (F.cross_entropy(logits, own) + F.cross_entropy(logits.T, own)) / (2 * captions)
        match = F.cross_entropy(MATCH_SCALE * second @ first.T, batch.again)
        (contrast + MATCH_WEIGHT * match).backward()  # type: ignore[no-untyped-call]
        reading_back = self._reader.submit(said.backward, texts.grad)
        seen.backward(vectors.grad)  # type: ignore[no-untyped-call]
        reading_back.result()
        self._update(rate)
        return {"contrast": contrast.item(), "match": match.item()}

    def see(self, pixels: Tensor) -> Tensor:
        """Float32 [N, D], not normalised."""
        vectors: Tensor = self.model.encode_image(pixels).float()
        return vectors

    def read(self, tokens: Tensor) -> Tensor:
        """Float32 [N, D], not normalised; as open_clip does it, but without the empty end of the context."""
        model = self.model
        longest = int((tokens != 0).sum(1).max())
        tokens = tokens[:, :longest]
        x = model.token_embedding(tokens).bfloat16() + model.positional_embedding[:longest]
        x = model.ln_final(model.transformer(x, attn_mask=model.attn_mask[:longest, :longest]))
        vectors: Tensor = (x[torch.arange(len(x)), tokens.argmax(1)] @ model.text_projection).float()
        return vectors

    def weights(self) -> dict[str, Tensor]:
        """The state of the model with the fp32 weights rounded to fp16 for storage."""
        precise = dict(zip((name for name, _ in self.model.named_parameters()), self._master, strict=False))
        state = {name: precise.get(name, value) for name, value in self.model.state_dict().items()}
        return {name: (v.half() if v.is_floating_point() else v).contiguous() for name, v in state.items()}

    def _update(self, rate: float) -> None:
        for rounded, master in zip(self._rounded, self._master, strict=True):
            master.grad = None if rounded.grad is None else rounded.grad.float()
            rounded.grad = None
        nn.utils.clip_grad_norm_(self._master, 2.0)
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.step()
        with torch.no_grad():
            for rounded, master in zip(self._rounded, self._master, strict=True):
                rounded.copy_(master)


def photographed(pictures: Tensor, generator: torch.Generator) -> Tensor:
    """Pictures as a camera might take them, bf16 [N, 3, S, S]: a pixel to the side, lighter, tinted, soft, noisy.

    Args:
        pictures: uint8 [N, S, S, 3].
        generator: the source of chance.
    """
    count, side = pictures.shape[:2]

    def chance(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator)

    x = F.pad(pictures.permute(0, 3, 1, 2).float() / 255, (1, 1, 1, 1), mode="replicate")
    shifts = torch.randint(0, 3, (count, 2), generator=generator).tolist()
    x = torch.stack(
        [one[:, down : down + side, right : right + side] for one, (down, right) in zip(x, shifts, strict=True)]
    )
    x = x * (0.92 + 0.16 * chance(count, 1, 1, 1)) + 0.06 * (chance(count, 3, 1, 1) - 0.5)
    soft = chance(count) < 0.2
    x[soft] = F.avg_pool2d(F.pad(x[soft], (1, 1, 1, 1), mode="replicate"), 3, 1)
    noisy = (chance(count) < 0.3).nonzero().flatten()
    x[noisy] += torch.randn(len(noisy), *x.shape[1:], generator=generator) * (0.04 * chance(len(noisy), 1, 1, 1))
    return ((x.clamp(0, 1) - 0.5) / 0.5).bfloat16().contiguous(memory_format=torch.channels_last)


def tokenized(texts: list[list[str]], tokenize: Callable[[list[str]], Tensor]) -> Tensor:
    """int32 [N, C, T] from C texts for each picture."""
    flat = [text for one in texts for text in one]
    parts = [tokenize(flat[start : start + 4096]).int() for start in range(0, len(flat), 4096)]
    return torch.cat(parts).view(len(texts), -1, parts[0].shape[1])


class Batches:
    """An endless source of batches: pairs of pictures in random order, every pair once before any comes again."""

    def __init__(
        self, pool: Pool, photos: Pool, tokens: Tensor, generator: torch.Generator, told: int, *, said: int
    ) -> None:
        self._pictures, self._photos = torch.from_numpy(pool.pictures), torch.from_numpy(photos.pictures)
        self._tokens = tokens
        self._generator, self._told, self._said = generator, min(told, len(pool.pictures)), said
        self._order = torch.zeros(0, dtype=torch.int64)

    def draw(self) -> Batch:
        """The next batch: an eighth as many photographs as captioned pictures, and a quarter of all taken twice."""
        pairs = self._told // 2
        if len(self._order) < pairs:
            self._order = torch.randperm(len(self._pictures) // 2, generator=self._generator)
        chosen = _both(self._order[:pairs])
        self._order = self._order[pairs:]
        others = _both(torch.randint(0, len(self._photos) // 2, (max(1, pairs // 8),), generator=self._generator))
        told = len(chosen)
        again = torch.cat([torch.arange(told // 4), torch.arange(told, told + len(others))])
        pictures = torch.cat([self._pictures[chosen], self._photos[others]])
        # other captions of a picture each time it comes
        order = torch.rand(told, self._tokens.shape[1], generator=self._generator).argsort(1)[:, : self._said]
        return Batch(pictures, again, self._tokens[chosen[:, None], order].long())


def _both(pairs: Tensor) -> Tensor:
    """The positions of the pictures of some pairs."""
    return torch.stack([2 * pairs, 2 * pairs + 1], dim=1).flatten()
