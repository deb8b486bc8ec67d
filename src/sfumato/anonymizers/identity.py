"""`identity`: the raw video, the line every other anonymizer is compared with."""

from __future__ import annotations

from torch import Tensor

from sfumato.anonymizers.base import Anonymizer


class Identity(Anonymizer):
    """Leaves the video as it is; its privacy is that of raw video.

    >>> Identity()(video)  # the same video
    """

    name = "identity"
    summary = "the raw video, nothing hidden"
    changes_nothing = True

    def forward(self, video: Tensor) -> Tensor:
        """(B, T, C, H, W) to itself."""
        return video
