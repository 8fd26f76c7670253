"""Similarities of documents, and the loss that compares each with the others (Hessel et al., EMNLP 2019)."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from ctxr.metrics.assignment import assign

Kind = Literal["dc", "tk", "ap"]
Loss = Literal["hinge", "logistic", "softmax"]


def similarities(
    sentences: Tensor, images: Tensor, n: Tensor, m: Tensor, kind: Kind, *, half: bool = False, at_most: bool = False
) -> Tensor:
    """How similar the n [B] sentences of each document are to the m [B] images of each: [B, B], in float32 at least.

    Args:
        sentences, images: unit vectors [N, D] and [M, D], document by document.
        kind: dc, the mean of the best cosine of each sentence plus that of each image; tk, the same of the k best of each; ap, the
            mean of the k links of the best assignment.
        half: k is half of min(n, m), rounded up, instead of min(n, m).
        at_most: the assignment leaves out links that are not positive; without any the similarity is 0.
    """
    cosines = sentences @ images.T
    cosines = cosines.to(torch.promote_types(cosines.dtype, torch.float32))
    n, m = n.cpu(), m.cpu()
    k = torch.minimum(n[:, None], m)
    k = (k + 1) // 2 if half else k
    if kind == "ap":
        return _blocks(cosines * _assigned(cosines, n, m, k, at_most), n, m, 0.0).sum((1, 3))
    blocks = _blocks(cosines, n, m, -torch.inf)
    sizes = (k, k) if kind == "tk" else (n[:, None].expand_as(k), m.expand_as(k))
    best = blocks.max(3).values.transpose(1, 2), blocks.max(1).values
    return _mean_of_best(best[0], sizes[0]) + _mean_of_best(best[1], sizes[1])


def _blocks(values: Tensor, n: Tensor, m: Tensor, fill: float) -> Tensor:
    """Values [N, M] by document of the sentence and of the image, [B, n, B, m], filled up to the longest."""
    if (n == n[0]).all() and (m == m[0]).all():
        return values.view(len(n), int(n[0]), len(m), int(m[0]))
    columns = pad_sequence([*torch.split(values.T, m.tolist())], batch_first=True, padding_value=fill)
    return pad_sequence([*torch.split(columns.movedim(2, 0), n.tolist())], batch_first=True, padding_value=fill)


def _mean_of_best(values: Tensor, k: Tensor) -> Tensor:
    """The mean of the k [B, B] greatest of values [B, B, L]."""
    if (k == values.shape[-1]).all():
        return values.mean(-1)
    k = k.to(values.device)
    beyond = torch.arange(values.shape[-1], device=values.device) >= k[..., None]
    return values.sort(-1, descending=True).values.masked_fill(beyond, 0).sum(-1) / k


def _assigned(cosines: Tensor, n: Tensor, m: Tensor, k: Tensor, at_most: bool) -> Tensor:
    """[N, M] with 1 / links at the links between each two documents: the gradient of their mean."""
    weights = cosines.detach().double().cpu().nan_to_num(2, 2, 2).numpy()  # the product with the cosines stays invalid
    shares, numbers = np.zeros_like(weights), k.tolist()
    row, column = (np.cumsum([0, *sizes.tolist()]).tolist() for sizes in (n, m))
    for i, j in np.ndindex(len(n), len(m)):
        block = slice(row[i], row[i + 1]), slice(column[j], column[j + 1])
        links = assign(weights[block], numbers[i][j], at_most)
        shares[block][links] = 1 / max(len(links[0]), 1)
    return torch.from_numpy(shares).to(cosines)


def document_loss(
    similar: Tensor, excluded: Tensor, kind: Loss, margin: float, negatives: Literal["hard", "mean"]
) -> Tensor:
    """Loss of similarities [B, B], each document's own against those of its sentences and of its images with others: a scalar.

    A document that is `excluded` [B, B] by a shared sentence or image is no negative; without negatives the loss is 0. The logistic
    loss has no margin, and softmax takes all negatives.
    """
    both = torch.stack((similar, similar.T))
    own = torch.eye(len(similar), dtype=torch.bool, device=similar.device)
    absent = torch.stack((excluded, excluded.T)) | own
    if kind == "softmax":
        logits = torch.where(own, both - margin, both.masked_fill(absent, -torch.inf))
        losses = logits.logsumexp(-1) - logits.diagonal(dim1=1, dim2=2)
    else:
        excess = both - similar.diagonal()[:, None]
        terms = functional.softplus(excess) if kind == "logistic" else functional.relu(margin + excess)
        terms = terms.masked_fill(absent, 0)
        losses = terms.amax(-1) if negatives == "hard" else terms.sum(-1) / (~absent).sum(-1).clamp(min=1)
    return losses.sum(0).mean()
