"""From answers to a validated benchmark: votes, what they keep, how far they agree, who may be trusted, and the dataset."""
