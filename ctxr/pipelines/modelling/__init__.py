"""Training and evaluating models: train, eval, listen, regions."""
