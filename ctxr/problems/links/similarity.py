"""Similarities of documents, and the loss that compares each with the others (Hessel et al., EMNLP 2019)."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ctxr.metrics.assignment import assign


def similarities(
    sentences: Tensor,
    images: Tensor,
    n: Tensor,
    m: Tensor,
    kind: Literal["dc", "tk", "ap"],
    *,
    half: bool = False,
    at_most: bool = False,
) -> Tensor:
    """How similar the sentences of each document are to the images of each: [B, B], in float32 at least.

    Args:
        sentences, images: unit vectors [N, D] and [M, D], document by document.
        n, m: [B] numbers of sentences and images of each document, 1 or more.
        kind: dc, the mean of the best cosine of each sentence plus that of each image; tk, the same of the k best sentences and
            the k best images; ap, the mean of the k links of the best assignment.
        half: k is half of min(n, m), rounded up, instead of min(n, m).
        at_most: the assignment leaves out links that are not positive; without any the similarity is 0.
    """
    cosines = sentences @ images.T
    cosines = cosines.to(torch.promote_types(cosines.dtype, torch.float32))
    n, m = n.cpu(), m.cpu()
    k = torch.minimum(n[:, None], m)
    if half:
        k = (k + 1) // 2
    if kind == "ap":
        return _assigned(cosines, n, m, k, at_most)
    blocks = _padded(_padded(cosines, n).T, m).view(len(m), int(m.max()), len(n), int(n.max()))  # [B, m, B, n]
    of_sentences, of_images = (k, k) if kind == "tk" else (n[:, None].expand_as(k), m.expand_as(k))
    best = (blocks.max(1).values, of_sentences), (blocks.max(3).values.transpose(1, 2), of_images)
    return torch.stack([_mean_of_best(maxima, number.T) for maxima, number in best]).sum(0).T


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
    weights = np.nan_to_num(
        cosines.detach().double().cpu().numpy(), nan=2, posinf=2, neginf=2
    )  # linked, so the loss shows it
    row, column = (np.cumsum([0, *sizes.tolist()]).tolist() for sizes in (n, m))
    links = [
        assign(weights[row[i] : row[i + 1], column[j] : column[j + 1]], number, at_most)
        for i, numbers in enumerate(k.tolist())
        for j, number in enumerate(numbers)
    ]
    size = np.array([len(rows) for rows, _ in links])
    corner = np.add.outer(np.multiply(row[:-1], weights.shape[1]), column[:-1]).ravel().repeat(size)
    rows, columns = (np.concatenate(part) for part in zip(*links, strict=True))
    cells = torch.from_numpy(corner + rows * weights.shape[1] + columns).to(cosines.device)
    pairs = torch.from_numpy(np.arange(len(links)).repeat(size)).to(cosines.device)
    shares = cosines.flatten().gather(0, cells) / torch.from_numpy(size.repeat(size)).to(cosines.device)
    return cosines.new_zeros(len(links)).index_add(0, pairs, shares).view(k.shape)


def document_loss(
    similar: Tensor,
    excluded: Tensor,
    kind: Literal["hinge", "logistic", "softmax"],
    margin: float,
    negatives: Literal["hard", "mean"],
) -> Tensor:
    """Mean over documents of how little each is more similar to itself than its parts are to the parts of others: a scalar.

    Args:
        similar: [B, B] of the sentences of document i and the images of document j.
        excluded: [B, B] documents that share a sentence or an image: not each other's negatives.
        kind: hinge with the margin; logistic, of the difference without a margin; softmax over all negatives, where the document
            itself is less by the margin.
        negatives: the hardest one, or the mean over all; a document without any has loss 0.
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
