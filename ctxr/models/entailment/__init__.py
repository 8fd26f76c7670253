"""Does a premise of text, picture or both entail a hypothesis? (Entailment paper, section 3.1.)"""
