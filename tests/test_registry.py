from __future__ import annotations

import pytest

from sfumato.errors import SfumatoError
from sfumato.registry import Registry, unknown_name


@pytest.fixture
def shapes() -> Registry[str]:
    registry: Registry[str] = Registry("shape")
    registry.add("circle", "round", lambda size=1: "()" * size)
    registry.add("square", "four corners", lambda: "[]")
    return registry


def test_things_are_made_by_name_and_kept_in_order(shapes: Registry[str]) -> None:
    assert shapes.names() == ["circle", "square"]
    assert [(entry.name, entry.summary) for entry in shapes] == [("circle", "round"), ("square", "four corners")]
    assert shapes.make("circle", size=2) == "()()"
    assert shapes.find("square").make() == "[]"
    assert "circle" in shapes and "cube" not in shapes


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("circel", "there is no shape 'circel': did you mean 'circle'? known: circle, square"),
        ("squares", "there is no shape 'squares': did you mean 'square'? known: circle, square"),
        ("tetrahedron", "there is no shape 'tetrahedron': known: circle, square"),
        ("", "there is no shape '': known: circle, square"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest_and_all(shapes: Registry[str], name: str, line: str) -> None:
    for ask in (shapes.find, shapes.make):
        with pytest.raises(SfumatoError) as error:
            ask(name)
        assert str(error.value) == line
        assert error.value.what == f"there is no shape '{name}'"


def test_a_name_registered_twice_is_a_programming_error(shapes: Registry[str]) -> None:
    with pytest.raises(ValueError, match="shape 'circle' is registered twice"):
        shapes.add("circle", "another", lambda: "o")
    assert shapes.make("circle") == "()"
    assert len(list(shapes)) == 2


def test_of_several_near_names_the_nearest_is_given() -> None:
    error = unknown_name("attack", "identity-frame", ["frame", "identity", "identity-frames"])
    assert error.next_step.startswith("did you mean 'identity-frames'?")


def test_an_error_is_what_and_what_next() -> None:
    assert str(SfumatoError("no video", "name one")) == "no video: name one"
    assert str(SfumatoError("no video")) == "no video"
    error = SfumatoError("no video", "name one")
    assert (error.what, error.next_step) == ("no video", "name one")


def test_more_names_than_anybody_reads_are_told_where_they_are_listed() -> None:
    names = [f"attack-{number}" for number in range(40)]
    assert str(unknown_name("attack", "atack-7", names)) == (
        "there is no attack 'atack-7': did you mean 'attack-7'? "
        "nearest: attack-7, attack-37, attack-27; all 40: sfumato list attacks"
    )
    like_none = str(unknown_name("data set", "?", names))
    assert like_none.startswith("there is no data set '?': nearest: attack-") and like_none.count("attack-") == 3
    assert like_none.endswith("; all 40: sfumato list datasets")
    assert "known: attack-0, attack-1" in str(unknown_name("setting", "atack-7", names))  # nothing lists settings
