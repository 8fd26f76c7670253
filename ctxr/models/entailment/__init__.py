"""Does a premise of text, picture or both entail a hypothesis? The classifier of the entailment
paper (section 3.1)."""
