"""Revising labels by entailment: revise-labels."""
