"""VITA: the supervised adversary (Wu et al., TPAMI 2020), with budget model restarting and ensembling."""
