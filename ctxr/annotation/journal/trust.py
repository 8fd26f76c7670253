"""Is a worker's accuracy below a limit? Told from questions with a known answer."""

from math import exp, lgamma, log


def chance_below(right: int, wrong: int, limit: float) -> float:
    """Probability that the accuracy behind `right` and `wrong` answers is below `limit`, from a uniform prior.

    The posterior is Beta(right + 1, wrong + 1); with whole numbers its distribution function is a binomial tail: at least
    right + 1 of right + wrong + 1 coins that fall with probability `limit`.

    >>> chance_below(0, 0, 0.5), round(chance_below(0, 4, 0.5), 3)
    (0.5, 0.969)
    """
    if limit <= 0 or limit >= 1:
        return float(limit >= 1)
    coins = right + wrong + 1
    return min(
        1.0,
        sum(
            exp(
                lgamma(coins + 1)
                - lgamma(heads + 1)
                - lgamma(coins - heads + 1)
                + heads * log(limit)
                + (coins - heads) * log(1 - limit)
            )
            for heads in range(right + 1, coins + 1)
        ),
    )
