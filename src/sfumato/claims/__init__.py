"""The papers' claims, each as one entry: what is run, what is compared, and when it holds, fixed before the runs."""

from __future__ import annotations

from sfumato.claims.ledger import Claim, Comparison, load_ledger
from sfumato.claims.verdict import Evidence, Judgement, decide

__all__ = ["Claim", "Comparison", "Evidence", "Judgement", "decide", "load_ledger"]
