"""Similarities of documents, and the loss that compares each with the others (Hessel et al., EMNLP 2019)."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

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
        return _assigned(cosines, n, m, k.tolist(), at_most)
    of_sentences, of_images = (k, k.T) if kind == "tk" else (n[:, None].expand_as(k), m[:, None].expand_as(k))
    return _mean_of_best(cosines, n, m, of_sentences) + _mean_of_best(cosines.T, m, n, of_images).T


def _mean_of_best(cosines: Tensor, n: Tensor, m: Tensor, k: Tensor) -> Tensor:
    """The mean of the k [B, B] greatest among the maxima of the rows of document i within the columns of document j: [B, B]."""
    columns = pad_sequence(
        list(torch.split(cosines.T, m.tolist())), batch_first=True, padding_value=-torch.inf
    )  # [B, m, N]
    maxima = list(torch.split(columns.amax(1).T, n.tolist()))
    best = pad_sequence(maxima, batch_first=True, padding_value=-torch.inf)  # [B, n, B]
    if not torch.equal(k, n[:, None].expand_as(k)):
        best = best.sort(1, descending=True).values
    k = k.to(best.device)
    beyond = torch.arange(best.shape[1], device=best.device)[None, :, None] >= k[:, None]
    return best.masked_fill(beyond, 0).sum(1) / k


def _assigned(cosines: Tensor, n: Tensor, m: Tensor, k: list[list[int]], at_most: bool) -> Tensor:
    """The mean cosine of the links between documents i and j: [B, B]; the choice of the links has no gradient."""
    weights = cosines.detach().double().cpu().numpy()
    row, column = np.cumsum([0, *n.tolist()]), np.cumsum([0, *m.tolist()])
    flat, counts = [], []
    for i, of_row in enumerate(k):
        for j, links in enumerate(of_row):
            block = weights[row[i] : row[i + 1], column[j] : column[j + 1]]
            rows, columns = assign(block, links, at_most)
            flat.append((rows + row[i]) * weights.shape[1] + columns + column[j])
            counts.append(len(rows))
    chosen = cosines.flatten().gather(0, torch.from_numpy(np.concatenate(flat)).to(cosines.device))
    size = torch.tensor(counts, device=cosines.device)
    pairs = torch.arange(len(counts), device=cosines.device).repeat_interleave(size)
    return cosines.new_zeros(len(counts)).index_add(0, pairs, chosen / size[pairs]).view(len(n), len(n))


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
