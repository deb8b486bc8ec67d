from __future__ import annotations

from .conftest import NOTHING_HIDDEN, Lab, Parade


def test_it_begins_with_what_raw_video_taught() -> None:
    """On clips that are not hidden it knows everybody from the first epoch on; who begins afresh does not."""
    lab = Lab(Parade(), epochs=4)
    (fresh,), (pretrained,) = (
        lab.attack(name, NOTHING_HIDDEN).curve for name in ("identity-frames", "pretrained-identity-frames")
    )
    assert len(fresh) == len(pretrained) == 4  # the curve is that of the second training, which is as long
    assert fresh[0] < 0.7 and pretrained[0] > 0.9
