"""SPLAVU: anonymize a frozen encoder's features instead of pixels, for every downstream task (latent anonymization)."""
