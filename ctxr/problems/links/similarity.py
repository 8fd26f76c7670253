"""Similarities of documents, and the loss that compares each with the others (Hessel et al., EMNLP 2019)."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

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
    cosines = images @ sentences.T
    cosines = cosines.to(torch.promote_types(cosines.dtype, torch.float32))
    n, m = n.cpu(), m.cpu()
    k = torch.minimum(n[:, None], m)
    if half:
        k = (k + 1) // 2
    if kind == "ap":
        return _assigned(cosines.T, n, m, k, at_most)
    blocks = _padded(_padded(cosines, m).T, n).T.view(len(m), int(m.max()), len(n), int(n.max()))  # [B, m, B, n]
    of_sentences, of_images = (k.T, k.T) if kind == "tk" else (n.expand_as(k), m[:, None].expand_as(k))
    best_images, best_sentences = blocks.max(1).values, blocks.max(3).values.transpose(1, 2)
    return (_mean_of_best(best_images, of_sentences) + _mean_of_best(best_sentences, of_images)).T


def _padded(rows: Tensor, sizes: Tensor) -> Tensor:
    """Rows [N, C] of documents with as many rows for each as the longest has; the new ones are -inf."""
    place = torch.arange(int(sizes.max()))
    inside = place < sizes[:, None]
    if inside.all():
        return rows
    index = torch.where(inside, (sizes.cumsum(0) - sizes)[:, None] + place, len(rows)).flatten()
    return functional.pad(rows, (0, 0, 0, 1), value=-torch.inf).index_select(0, index.to(rows.device))


def _mean_of_best(values: Tensor, k: Tensor) -> Tensor:
    """The mean of the k [B, B] greatest of values [B, B, L]."""
    if (k == values.shape[-1]).all():
        return values.mean(-1)
    k = k.to(values.device)
    beyond = torch.arange(values.shape[-1], device=values.device) >= k[..., None]
    return values.sort(-1, descending=True).values.masked_fill(beyond, 0).sum(-1) / k


def _assigned(cosines: Tensor, n: Tensor, m: Tensor, k: Tensor, at_most: bool) -> Tensor:
    """The mean cosine of the links between documents i and j: [B, B]; the choice of the links has no gradient."""
    weights = (
        cosines.detach().double().cpu().nan_to_num(2, 2, 2).numpy()
    )  # what is invalid is linked, so the loss shows it
    row, column = (np.cumsum([0, *sizes.tolist()]).tolist() for sizes in (n, m))
    cells, numbers = [], k.tolist()
    for i, j in np.ndindex(len(n), len(m)):
        rows, columns = assign(weights[row[i] : row[i + 1], column[j] : column[j + 1]], numbers[i][j], at_most)
        cells.append(torch.from_numpy((row[i] + rows) * weights.shape[1] + column[j] + columns))
    size = torch.tensor([len(part) for part in cells]).to(cosines.device)
    pairs = torch.arange(len(cells), device=cosines.device).repeat_interleave(size)
    shares = cosines.flatten().gather(0, torch.cat(cells).to(cosines.device)) / size[pairs]
    return cosines.new_zeros(len(cells)).index_add(0, pairs, shares).view(k.shape)


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
