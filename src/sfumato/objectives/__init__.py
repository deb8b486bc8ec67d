"""Losses, one per file, each tested against a formula worked by hand."""
