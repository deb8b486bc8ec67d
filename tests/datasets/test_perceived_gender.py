from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.datasets.files import Row
from sfumato.datasets.ntu60 import NTU60Dataset
from sfumato.datasets.perceived_gender import ATTRIBUTE, label_genders
from sfumato.errors import SfumatoError


def rows() -> list[Row]:
    return [Row(Path("x"), "", "", person) for person in ("1", "20", "3")]


def test_people_are_labelled_as_the_table_says_and_who_is_not_in_it_is_unknown(tmp_path: Path) -> None:
    (tmp_path / "perceived_gender.csv").write_text("person,note,perceived_gender\nP001,,F\n 020 ,tall,Male \n")
    told = rows()
    assert label_genders(told, NTU60Dataset.at(str(tmp_path))) == (ATTRIBUTE,)
    assert [row.attributes["perceived_gender"] for row in told] == ["female", "male", ""]


def test_without_a_table_nothing_is_labelled_unless_it_is_needed(tmp_path: Path) -> None:
    told = rows()
    assert label_genders(told, NTU60Dataset.at(str(tmp_path))) == () and not told[0].attributes
    with pytest.raises(SfumatoError) as error:
        label_genders(told, NTU60Dataset.at(str(tmp_path)), needed=True)
    assert error.value.what == f"there is no 'perceived_gender.csv' in '{tmp_path}'"
    assert "nobody has published it" in error.value.next_step


@pytest.mark.parametrize("line", ["1,x", "someone,F", ",F", "1,"])
def test_a_line_that_says_something_else_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "perceived_gender.csv").write_text(f"person,perceived_gender\n2,F\n{line}\n")
    with pytest.raises(SfumatoError, match=r"perceived_gender\.csv line 3 does not say"):
        label_genders(rows(), NTU60Dataset.at(str(tmp_path)))
