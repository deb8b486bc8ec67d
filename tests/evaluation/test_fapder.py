from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sfumato.datasets.theatre import TheatreDataset
from sfumato.errors import SfumatoError
from sfumato.evaluation.protocols import PROTOCOLS
from sfumato.evaluation.protocols.fapder import FapderProtocol
from sfumato.evaluation.protocols.known import JudgeConfig


def test_it_is_about_the_five_looks_of_the_paper() -> None:
    assert FapderProtocol.private == ("young", "pointy_nose", "male", "rosy_cheeks", "brown_hair")
    assert FapderProtocol.attacks == ("frame", "video", "video-placed", "decode-frame")


def test_data_without_such_labels_is_refused_with_those_it_has(minute: TheatreDataset, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with pytest.raises(SfumatoError) as error:
        PROTOCOLS.make(
            "fapder", dataset=minute, config=JudgeConfig(models="tiny"), device=torch.device("cpu"), folder=folder
        )
    assert error.value.what == "theatre:small has no labels of young, pointy_nose, male, rosy_cheeks, brown_hair"
    assert "its own labels are face, skin, gender, nudity, relationship, hair_colour" in error.value.next_step
    assert "scene" in error.value.next_step and "object" in error.value.next_step
    assert not folder.exists()
