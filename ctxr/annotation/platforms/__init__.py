"""Crowdsourcing platforms: each exports any form in its own format, and reads its files back into answers."""
