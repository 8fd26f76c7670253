"""Crowdsourcing platforms: each exports any form in its own format, and reads answers back."""
