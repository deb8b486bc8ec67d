from __future__ import annotations

import csv
import os
from itertools import count
from pathlib import Path

import pytest
import torch

from sfumato.datasets import VideoDataset, open_dataset
from sfumato.datasets.files import automatic_split
from sfumato.datasets.manifest import ManifestDataset, parse_options, sampling_of
from sfumato.errors import SfumatoError

PARTS = ("train", "val", "test")
_numbers = count()


def row(n: int, **more: str) -> dict[str, str]:
    """Row n of a good table: two actions, three persons, one per part of the split by person."""
    return {
        "path": f"clips/{n}.mp4", "action": "bow" if n % 2 else "wave", "person": str(n % 3 + 8),
        "hair": "dark" if n < 6 else "fair", "split_person": PARTS[n % 3], "split_clip": PARTS[n // 4],
    } | more  # fmt: skip


def table(root: Path, rows: list[dict[str, str]], *, drop: tuple[str, ...] = ()) -> Path:
    path = root / f"index{next(_numbers)}.csv"
    names = [name for name in rows[0] if name not in drop]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def good(root: Path, *, drop: tuple[str, ...] = ()) -> Path:
    return table(root, [row(n) for n in range(12)], drop=drop)


def opened(path: Path, options: str = "frames=4&size=16", strict: bool = False) -> ManifestDataset:
    data = open_dataset(f"manifest:{path}?{options}", strict=strict)
    assert isinstance(data, ManifestDataset)
    return data


def test_columns_are_taken_by_name(videos: Path) -> None:
    data = opened(good(videos))
    assert (len(data), data.problems) == (12, [])
    assert data.actions == ("bow", "wave")
    assert data.persons == ("8", "9", "10")  # numbers by value
    assert [(a.name, a.values) for a in data.attributes] == [("hair", ("dark", "fair"))]
    labels = data.labels(torch.tensor([0, 7]))
    assert labels.action.tolist() == [1, 0]
    assert labels.person.tolist() == [0, 1]
    assert labels.attributes.tolist() == [[0], [1]]
    assert data.split("val", "person").tolist() == [1, 4, 7, 10]
    assert data.split("val", "clip").tolist() == [4, 5, 6, 7]
    assert not data.mirror_safe


def test_the_order_of_the_columns_does_not_matter(videos: Path) -> None:
    shuffled = table(videos, [dict(reversed(row(n).items())) for n in range(12)])
    assert opened(shuffled).labels(torch.arange(12)).action.equal(opened(good(videos)).labels(torch.arange(12)).action)


def test_clips_are_cut_from_the_files(videos: Path) -> None:
    data = opened(good(videos))
    told: list[tuple[int, int]] = []
    clips = data.clips(torch.tensor([7, 0]), progress=lambda done, total: told.append((done, total)))
    assert (clips.pixels.shape, clips.pixels.dtype, clips.people) == ((2, 1, 4, 3, 16, 16), torch.uint8, None)
    assert told == [(1, 2), (2, 2)]
    # 12 frames, 4 asked for: every third, from the middle of what is left (10 of 12 frames: from frame 1).
    grey = clips.pixels.float().mean((-3, -2, -1))
    expected = 8 * torch.tensor([1.0, 4, 7, 10])
    assert (grey[0, 0] - 70 - expected).abs().max() < 4
    assert (grey[1, 0] - expected).abs().max() < 4


def test_views_are_spread_over_the_video(videos: Path) -> None:
    clips = opened(good(videos), "frames=4&size=16&skip=1").clips(torch.tensor([0]), views=3)
    first = clips.pixels.float().mean((-3, -2, -1))[0, :, 0] / 8
    assert first.round().tolist() == [0, 4, 8]


def test_a_sample_holds_what_is_known(videos: Path) -> None:
    sample = opened(good(videos)).sample(7)
    assert sample.clip.shape == (4, 3, 16, 16)
    assert (sample.action, sample.person, dict(sample.attributes), sample.people) == (0, 1, {"hair": 1}, None)
    assert sample.source.endswith("clips/7.mp4")


def test_options_map_other_columns(videos: Path) -> None:
    rows = [row(n, file=f"clips/{n}.mp4", sign=f"sign {n % 4}", who=f"p{n % 2}", beard=str(n % 2)) for n in range(12)]
    data = opened(
        table(videos, rows, drop=("path", "action")),
        "path=file&action=sign&person=who&attributes=beard&frames=4&size=16",
    )
    assert data.actions == ("sign 0", "sign 1", "sign 2", "sign 3")
    assert data.persons == ("p0", "p1")
    assert [a.name for a in data.attributes] == ["beard"]


def test_attributes_may_be_none(videos: Path) -> None:
    data = opened(good(videos), "attributes=&frames=4&size=16")
    assert data.attributes == ()
    assert data.labels(torch.arange(3)).attributes.shape == (3, 0)


def test_columns_that_describe_the_file_are_no_attributes(videos: Path) -> None:
    def columns(n: int) -> dict[str, str]:
        return {
            "fps": str(n % 2),
            "caption": "ab"[n % 2],
            "constant": "x",
            "split_other": "xy"[n % 2],
            "serial": str(n),
        }

    rows = [row(n, **columns(n)) for n in range(12)]
    assert [a.name for a in opened(table(videos, rows)).attributes] == ["hair", "serial"]
    many = [row(n % 12, serial=str(n)) for n in range(24)]
    assert [a.name for a in opened(table(videos, many)).attributes] == ["hair"]  # 24 values: a number, no attribute


def test_without_a_person_column_nobody_is_known(videos: Path) -> None:
    data = opened(good(videos, drop=("person",)))
    assert data.persons == ()
    assert data.labels(torch.arange(12)).person.tolist() == [-1] * 12


def test_an_empty_person_is_an_unknown_one(videos: Path) -> None:
    data = opened(table(videos, [row(0, person=""), *(row(n) for n in range(1, 12))]))
    assert data.labels(torch.arange(3)).person.tolist() == [-1, 1, 2]


def test_one_split_column_serves_both_splits(videos: Path) -> None:
    rows = [row(n, split=PARTS[n % 3]) for n in range(12)]
    data = opened(table(videos, rows, drop=("split_person", "split_clip")))
    for part in PARTS:
        assert data.split(part, "person").equal(data.split(part, "clip"))
    assert data.split("test", "clip").tolist() == [2, 5, 8, 11]


def test_without_split_columns_people_are_split_by_their_own_hash(videos: Path) -> None:
    names = {part: next(n for n in map(str, count()) if automatic_split(n) == part) for part in PARTS}
    rows = [row(n, person=names[PARTS[n % 3]]) for n in range(12)]
    data = opened(table(videos, rows, drop=("split_person",)))
    for part in PARTS:
        assert {data.rows[i].person for i in data.split(part, "person").tolist()} == {names[part]}
        assert data.split(part, "clip").tolist() == [n for n in range(12) if PARTS[n // 4] == part]


def test_the_automatic_split_is_seventy_fifteen_fifteen_for_ever() -> None:
    parts = [automatic_split(f"person {n}") for n in range(4000)]
    assert abs(parts.count("train") / 4000 - 0.70) < 0.03
    assert abs(parts.count("val") / 4000 - 0.15) < 0.03
    # The same on every machine: worked out from SHA-256 once.
    assert [automatic_split(name) for name in ("a", "b", "i")] == ["val", "train", "test"]


BAD = {
    "missing file": (row(0, path="clips/none.mp4"), "there is no file 'clips/none.mp4'"),
    "a folder": (row(0, path="clips"), "there is no file 'clips'"),
    "empty value": (row(0, hair=""), "no value for 'hair'"),
    "empty action": (row(0, action="  "), "no value for 'action'"),
    "empty path": (row(0, path=""), "no value for 'path'"),
    "outside": (row(0, path="../../etc/passwd"), "lies outside the folder of the table"),
    "absolute": (row(0, path="/etc/passwd"), "lies outside the folder of the table"),
    "name too long": (row(0, path="x" * 400), "there is no file 'xxx"),
    "split word": (row(0, split_clip="eval"), "split 'eval' is none of train, val, test"),
    "unreadable": (row(0, path="broken.mp4"), "cannot be read as a video"),
    "too short": (row(0, path="short.mp4"), "'short.mp4' has 3 frames, 4 are asked for"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_rows_are_left_out_and_reported_with_file_and_line(videos: Path, kind: str) -> None:
    bad, message = BAD[kind]
    path = table(videos, [row(0), row(1), bad, *(row(n) for n in range(2, 12))])
    data = opened(path)
    assert len(data) == 12
    (problem,) = data.problems
    assert problem.startswith(f"{path.name} line 4: ")
    assert message in problem


@pytest.mark.parametrize("kind", BAD)
def test_strict_stops_at_a_bad_row(videos: Path, kind: str) -> None:
    bad, message = BAD[kind]
    path = table(videos, [row(0), row(1), bad, *(row(n) for n in range(2, 12))])
    with pytest.raises(SfumatoError) as error:
        opened(path, strict=True)
    assert error.value.what.startswith(f"{path.name} line 4: ")
    assert message in error.value.what and error.value.next_step


def test_a_link_that_leads_outside_is_outside(videos: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.mp4").write_bytes((videos / "clips" / "0.mp4").read_bytes())
    link = videos / "link.mp4"
    link.symlink_to(tmp_path / "secret.mp4")
    data = opened(table(videos, [*(row(n) for n in range(12)), row(0, path="link.mp4")]))
    assert "lies outside" in data.problems[0]


def test_a_header_that_promises_too_much_is_found_out(videos: Path) -> None:
    whole = (videos / "clips" / "3.mp4").read_bytes()
    (videos / "cut.mp4").write_bytes(whole[: -len(whole) // 8])
    data = opened(table(videos, [*(row(n) for n in range(12)), row(0, path="cut.mp4")]), "frames=12&size=16")
    assert data.rows[12].frames == 12
    assert data.clips(torch.tensor([12])).pixels.shape == (1, 1, 12, 3, 16, 16)
    assert 0 < data.rows[12].frames < 12


def fails(source: str) -> SfumatoError:
    with pytest.raises(SfumatoError) as error:
        open_dataset(source)
    assert error.value.next_step
    return error.value


def test_a_table_without_a_needed_column_names_those_it_has(videos: Path) -> None:
    path = good(videos, drop=("action",))
    error = fails(f"manifest:{path}")
    assert error.what == f"'{path}' has no column 'action'"
    assert "path, person, hair, split_person, split_clip" in error.next_step and "?action=COLUMN" in error.next_step
    error = fails(f"manifest:{good(videos, drop=('path',))}")
    assert "has no column 'path'" in error.what and "?path=COLUMN" in error.next_step
    assert "has no column 'nose'" in fails(f"manifest:{good(videos)}?attributes=nose").what
    assert "has no column 'sign'" in fails(f"manifest:{good(videos)}?action=sign").what


def test_a_table_that_cannot_be_used_is_refused_by_name(videos: Path, tmp_path: Path) -> None:
    assert "cannot read the table" in fails(f"manifest:{tmp_path}/none.csv").what
    assert "cannot read the table" in fails(f"manifest:{tmp_path}").what
    for content in (b"", b"path,action\n"):
        (tmp_path / "empty.csv").write_bytes(content)
        assert fails(f"manifest:{tmp_path}/empty.csv").what.endswith("empty.csv' has no rows")
    (tmp_path / "binary.csv").write_bytes(b"path,action\n\xff\xfe\x00\n")
    assert "cannot read the table" in fails(f"manifest:{tmp_path}/binary.csv").what
    assert fails("manifest:").what == "'manifest:' names no path"


def test_a_table_of_bad_rows_only_names_the_first(videos: Path) -> None:
    path = table(videos, [row(0, path="none.mp4"), row(1, path="neither.mp4")])
    error = fails(f"manifest:{path}")
    assert "has no usable video" in error.what
    assert f"{path.name} line 2: there is no file 'none.mp4'" in error.what


def test_a_part_without_clips_is_named(videos: Path) -> None:
    error = fails(f"manifest:{table(videos, [row(n, split_clip='train') for n in range(12)])}?frames=4")
    assert "has no val clips in its split by clip" in error.what
    assert "the column split_clip" in error.next_step


def test_options_are_checked() -> None:
    assert parse_options("a.csv") == ("a.csv", {})
    with pytest.raises(SfumatoError, match=r"no option 'frame'.*known: path, action"):
        parse_options("a.csv?frame=8")
    sampling = sampling_of({"frames": "8", "size": "64", "skip": "2"})
    assert (sampling.frames, sampling.size, sampling.skip) == (8, 64, 2)
    for wrong in ("0", "-4", "x", "", "2.5", "²"):
        with pytest.raises(SfumatoError, match="not a positive whole number"):
            sampling_of({"frames": wrong})


def test_the_fingerprint_changes_with_labels_and_sampling(videos: Path) -> None:
    one = good(videos)
    fingerprints = {opened(one).fingerprint(), opened(good(videos)).fingerprint()}
    assert len(fingerprints) == 1
    fingerprints.add(opened(one, "frames=5&size=16").fingerprint())
    fingerprints.add(opened(table(videos, [row(0, action="bow"), *(row(n) for n in range(1, 12))])).fingerprint())
    assert len(fingerprints) == 3


def staged(n: int, **more: str) -> dict[str, str]:
    """A row with a scene of its own, and an object in all but every fourth row."""
    return row(n, scene=f"scene {n:02}", object="" if n % 4 == 0 else ("bag", "ball")[n % 2], only="x") | more


def test_every_column_can_be_asked_about(videos: Path) -> None:
    path = table(videos, [staged(n % 12, scene=f"scene {n:02}") for n in range(24)])
    data = opened(path, "attributes=hair&frames=4&size=16")
    assert [a.name for a in data.attributes] == ["hair"]
    view = data.about(["object", "nose", "scene"])
    assert [(a.name, len(a.values)) for a in view.attributes] == [("object", 2), ("scene", 24)]
    assert (len(view), data.problems) == (24, [])  # a gap in a column nobody asked about is no bad row
    labels = view.labels(torch.tensor([0, 1, 14]))
    assert labels.attributes.tolist() == [[-1, 0], [1, 1], [0, 14]]
    assert dict(view.sample(0).attributes) == {"scene": 0}
    assert view.clips(torch.tensor([5])).pixels.equal(data.clips(torch.tensor([5])).pixels)
    assert [a.name for a in data.attributes] == ["hair"]


def test_views_about_different_columns_have_different_fingerprints(videos: Path) -> None:
    def fingerprint(data: VideoDataset, *names: str) -> str:
        return data.about(names).fingerprint()

    def made(*scenes: str) -> VideoDataset:
        return opened(table(videos, [staged(n, scene=scene, place=scene) for n, scene in enumerate(scenes)]))

    data, other = made(*"abcdefghijkl"), made(*"bacdefghijkl")  # the same values, two of them the other way round
    asked = [["scene"], ["place"], ["object"], ["scene", "object"]]  # the first two differ in nothing but their names
    assert len({data.fingerprint(), *(fingerprint(data, *names) for names in asked)}) == 5
    assert fingerprint(other, "scene") != fingerprint(data, "scene")
    assert fingerprint(other, "object") == fingerprint(data, "object")


def test_columns_that_are_not_there_are_answered_with_those_that_are(videos: Path) -> None:
    with pytest.raises(SfumatoError) as error:
        opened(table(videos, [staged(n) for n in range(12)])).about(["nose", "ears", "person"])
    assert error.value.what.endswith("has no labels of nose, ears, person")
    assert error.value.next_step == "give data that has one of them; its own labels are hair, scene, object"


def real_data() -> Path | None:
    beside = Path(__file__).resolve().parents[3] / "shared" / "data"
    places = [Path(p) for p in (os.environ.get("SFUMATO_DATA"), beside) if p]
    return next((p / "lsa64-b20" / "index.csv" for p in places if (p / "lsa64-b20" / "index.csv").is_file()), None)


@pytest.mark.skipif(real_data() is None, reason="LSA64 is neither beside the repository nor at $SFUMATO_DATA")
def test_the_real_sign_language_clips_open() -> None:
    data = open_dataset(f"manifest:{real_data()}", strict=True)
    assert (len(data), len(data.actions), len(data.persons)) == (1000, 20, 10)
    for by in ("person", "clip"):
        assert [len(data.split(part, by)) for part in PARTS] == [600, 200, 200]
    people = [set(data.labels(data.split(part, "person")).person.tolist()) for part in PARTS]
    assert not people[0] & people[1] and not people[0] & people[2] and not people[1] & people[2]
    assert {a.name for a in data.attributes} == {"perceived_gender", "long_hair", "facial_hair"}
    assert data.clips(torch.tensor([0, 999])).pixels.shape == (2, 1, 16, 3, 112, 112)
