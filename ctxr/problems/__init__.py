"""What models are asked: queries for an image of a set, galleries, entailment."""
