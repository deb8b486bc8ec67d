"""Losses, one per file, each tested against a formula worked by hand.

Pure functions of tensors to one scalar with a gradient; only MoCo's queue has a memory. Every one computes in float32,
whatever precision the networks ran in, and returns what is to be made small by whoever is told to: the sign and the
weight of a term belong to the method.
"""
