"""What the papers' data sets share, shown on UCF101."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from sfumato.commands.data import check_data, show_stats
from sfumato.datasets import DATASETS, LISTED, open_dataset, reads_files
from sfumato.datasets.files import Row, Tags, label_rows
from sfumato.datasets.listed import ListedDataset, both, hold_out, within
from sfumato.datasets.sample import AttributeSpec, Segment
from sfumato.errors import SfumatoError

from . import copies
from .copies import SMALL, put, video


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return copies.ucf101(tmp_path / "ucf101")


def opened(root: Path, options: str = SMALL, strict: bool = False) -> ListedDataset:
    data = open_dataset(f"ucf101:{root}?{options}", strict=strict)
    assert isinstance(data, ListedDataset)
    return data


def fails(name: str, strict: bool = False) -> SfumatoError:
    with pytest.raises(SfumatoError) as error:
        open_dataset(name, strict=strict)
    assert error.value.next_step
    return error.value


CLIP = "UCF-101/Archery/v_Archery_g03_c01.avi"


def test_every_name_is_listed_with_its_placeholder() -> None:
    names = ["ucf101", "hmdb51", "vp-ucf101", "vp-hmdb51", "pa-hmdb51", "vispr", "p-hvu", "kinetics400", "thumos14"]
    names += ["ucf-crime", "ntu60", "toyota-smarthome", "casia-b", "celebv-hq", "kth", "lsa64"]
    for name in names:
        assert f"{name}:PATH" in DATASETS.names() and name in LISTED
        assert reads_files(f"{name}:x") and fails(name).what == f"'{name}' names no path"
    assert not reads_files("theatre:small")


def test_files_are_found_wherever_they_lie_and_whatever_their_container(root: Path) -> None:
    (root / CLIP).unlink()
    put(root / "converted" / "v_Archery_g03_c01.mp4", video(90, container="mp4"))
    data = opened(root)
    (index,) = [i for i, row in enumerate(data.rows) if "Archery_g03_c01" in row.path.name]
    assert data.rows[index].path == (root / "converted" / "v_Archery_g03_c01.mp4").resolve()
    # Frames 1, 3, 5 and 7 of 8: every second, from the middle of what is left.
    grey = data.sample(index).clip.float().mean((1, 2, 3))
    assert (grey - 90 - 8 * torch.tensor([0, 2, 4, 6])).abs().max() < 12


def test_nothing_is_decoded_before_it_is_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.datasets.files.read_clip", lambda *_: pytest.fail("decoded"))
    data = opened(root)
    assert len(data.labels(torch.arange(len(data))).action) == 16


def test_a_short_video_starts_again(root: Path) -> None:
    data = opened(root, "frames=12&size=16&skip=2")
    assert len(data) == 16 and data.clips(torch.tensor([0])).pixels.shape == (1, 1, 12, 3, 16, 16)


def test_short_videos_are_left_out_on_request(root: Path) -> None:
    assert len(opened(root, "frames=4&size=16&least=8")) == 16
    put(root / CLIP, video(20, 7))
    data = opened(root, "frames=4&size=16&least=8")
    assert len(data) == 15 and data.problems[0].endswith("has 7 frames, fewer than least=8")
    assert "least = '0' is not a positive whole number" in fails(f"ucf101:{root}?least=0").what


@pytest.mark.parametrize("what", ["missing", "cut", "no video", "empty"])
def test_a_bad_file_is_reported_once_and_skipped_or_stops(root: Path, what: str) -> None:
    path = root / CLIP
    content = {"cut": path.read_bytes()[:-60], "no video": b"this is no video" * 40, "empty": b""}.get(what)
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    data = opened(root)
    assert len(data) == 15
    data.clips(torch.arange(15))
    (problem,) = data.problems
    assert problem.startswith("trainlist01.txt line ") and "v_Archery_g03_c01.avi" in problem
    assert fails(f"ucf101:{root}?{SMALL}", strict=True).what.startswith("trainlist01.txt line ")


def test_a_file_that_is_shorter_than_its_header_says_is_reported_once_when_it_is_read(root: Path) -> None:
    data, strict = opened(root, "frames=8&size=16"), opened(root, "frames=8&size=16", strict=True)
    number = next(i for i, row in enumerate(data.rows) if row.path.name == Path(CLIP).name)
    (root / CLIP).write_bytes(video(frames=3))  # as a Matroska file would turn out, whose length nobody states
    for _ in range(2):
        assert data.clips(torch.tensor([number])).pixels.shape[2] == 8
    (problem,) = data.problems
    assert "3 readable frames, not 8" in problem
    with pytest.raises(SfumatoError, match="run without --strict"):
        strict.clips(torch.tensor([number]))


@pytest.mark.parametrize("line", ["../../secret.avi", "/etc/secret.avi", "Archery/../../../secret.avi"])
def test_a_path_that_leaves_the_data_root_is_refused(root: Path, line: str) -> None:
    put(root.parent / "secret.avi", video())
    put(root / "secret.avi", video())  # of the same name inside: still refused
    lists = root / "ucfTrainTestlist" / "trainlist01.txt"
    lists.write_text(lists.read_text() + f"{line} 1\n")
    data = opened(root)
    assert len(data) == 16 and data.problems == [f"trainlist01.txt line 13: '{line}' lies outside the data root"]
    assert "outside the data root" in fails(f"ucf101:{root}?{SMALL}", strict=True).what


def test_links_that_lead_out_of_the_root_are_not_followed(root: Path, tmp_path: Path) -> None:
    (root / CLIP).unlink()
    (root / CLIP).symlink_to(put(tmp_path / "elsewhere" / "x.avi", video()))
    (root / "UCF-101" / "BabyCrawling").rename(tmp_path / "BabyCrawling")
    (root / "linked").symlink_to(tmp_path / "BabyCrawling")
    data = opened(root, SMALL)
    assert {row.action for row in data.rows} == {"Archery"} and len(data) == 7
    assert data.problems[0].startswith(f"'{root.resolve() / 'linked'}' leads out of the data root")
    assert any("v_Archery_g03_c01.avi' lies outside the data root" in line for line in data.problems)


def test_links_inside_the_root_are_files_like_others(root: Path) -> None:
    (root / CLIP).rename(root / "x.avi")
    (root / CLIP).symlink_to(root / "x.avi")
    assert len(opened(root)) == 16


def test_a_missing_label_file_is_named_with_where_to_get_it(root: Path) -> None:
    (root / "ucfTrainTestlist" / "testlist01.txt").unlink()
    error = fails(f"ucf101:{root}")
    assert error.what == f"there is no 'testlist01.txt' in '{root.resolve()}'"
    assert "crcv.ucf.edu" in error.next_step and "?annotations=FOLDER" in error.next_step


@pytest.mark.parametrize(
    ("name", "file", "source"),
    [
        ("thumos14", "thumos14.json", "actionformer"),
        ("ucf-crime", "Anomaly_Train.txt", "crcv.ucf.edu"),
        ("celebv-hq", "celebvhq_info.json", "github.com/CelebV-HQ"),
    ],
)
def test_every_set_names_its_missing_label_file(tmp_path: Path, name: str, file: str, source: str) -> None:
    error = fails(f"{name}:{tmp_path}")
    assert error.what == f"there is no '{file}' in '{tmp_path.resolve()}'" and source in error.next_step


@pytest.mark.parametrize(
    ("name", "make", "clips", "published"),
    [
        ("thumos14", copies.thumos14, 6, 412),
        ("ucf-crime", copies.ucf_crime, 11, 1900),
        ("ntu60", copies.ntu60, 36, 56_880),
        ("toyota-smarthome", copies.toyota_smarthome, 60, 16_115),
        ("casia-b", copies.casia_b, 48, 13_640),
        ("celebv-hq", copies.celebv_hq, 20, 35_666),
    ],
)
def test_every_set_can_be_checked_and_counted(
    tmp_path: Path, name: str, make: Callable[[Path], Path], clips: int, published: int
) -> None:
    source = f"{name}:{make(tmp_path / 'copy')}"
    put(tmp_path / "copy" / "holiday.avi", video())
    assert not check_data(source, tmp_path / "check.json")  # a few videos are not the published set
    found = json.loads((tmp_path / "check.json").read_text())
    assert found["counts"][0] == {"what": "videos", "published": published, "listed": clips, "found": clips}
    assert [found[what] for what in ("unreadable", "outside", "straddling")] == [[]] * 3
    assert found["extra"] == ["holiday.avi"]
    # Of casia-b, which has no list, all names are known.
    assert len(found["missing"]) == (published - clips if name == "casia-b" else 0)
    stats = show_stats(source)
    assert stats["all"].clips == clips == sum(stats[part].clips for part in ("train", "val", "test"))
    private = {
        "ntu60": {"perceived_gender"},
        "celebv-hq": {"young", "pointy_nose", "male", "rosy_cheeks", "brown_hair"},
    }
    assert set(stats["all"].prevalence) == private.get(name, set())


def test_label_files_may_lie_elsewhere(root: Path, tmp_path: Path) -> None:
    (root / "ucfTrainTestlist").rename(tmp_path / "lists")
    assert len(opened(root, f"{SMALL}&annotations={tmp_path / 'lists'}")) == 16


def test_wrong_sources_are_one_line(root: Path, tmp_path: Path) -> None:
    assert "there is no folder" in fails(f"ucf101:{tmp_path / 'nowhere'}").what
    assert "there is no option 'part'" in fails(f"ucf101:{root}?part=2").what
    error = fails(f"ucf101:{root}?split=4")
    assert error.what == "ucf101 has no split '4'" and error.next_step == "use one of 1, 2, 3"
    for path in (root / "UCF-101").rglob("*.avi"):
        path.unlink()
    assert "no usable video (first: trainlist01.txt line 1: there is no file" in fails(f"ucf101:{root}").what


def rows(*groups: tuple[str, str, int]) -> list[Row]:
    """(group, action, number of clips) as training rows."""
    return [
        Row(Path(f"{g}-{a}-{n}.avi"), "", a, group=g, split=both("train"))
        for g, a, clips in groups
        for n in range(clips)
    ]


def test_validation_takes_whole_groups_and_about_a_tenth_of_every_action() -> None:
    told = rows(*((f"{a}{g}", a, 5) for a in ("bow", "wave") for g in range(20)))
    hold_out(told)
    assert Counter((row.action, row.split["clip"]) for row in told)[("bow", "val")] == 10
    assert Counter((row.action, row.split["person"]) for row in told)[("wave", "val")] == 10
    parts = {row.group: {r.split["clip"] for r in told if r.group == row.group} for row in told}
    assert all(len(part) == 1 for part in parts.values())


def test_a_group_of_several_actions_moves_as_one_and_no_action_loses_more_than_half() -> None:
    for film in map(str, range(9)):  # whatever its turn
        told = rows((film, "bow", 9), (film, "wave", 1), ("a", "bow", 1), ("b", "wave", 5), ("c", "wave", 4))
        hold_out(told)
        val = {row.group for row in told if row.split["clip"] == "val"}
        assert film not in val  # it holds nine of ten bows
        assert "a" in val and len(val & {"b", "c"}) == 1


def test_validation_is_the_same_whatever_the_order_and_leaves_test_alone() -> None:
    one, two = (rows(*((f"g{g}", "bow", 2) for g in range(9))) for _ in range(2))
    two.reverse()
    for told in (one, two):
        hold_out(told)
    val = [{row.path for row in told if row.split["clip"] == "val"} for told in (one, two)]
    assert val[0] == val[1] and val[0]
    test = rows(*((f"t{g}", "bow", 2) for g in range(50)))
    for row in test:
        row.split = both("test")
    hold_out([*test, *(mixed := rows(*((f"g{g}", "bow", 2) for g in range(9))))])
    assert all(row.split["clip"] == "test" for row in test)
    assert {row.path for row in mixed if row.split["clip"] == "val"} == val[0]  # a share of training, not of all


def test_one_split_can_be_held_out_by_people_and_leaves_the_other_alone() -> None:
    told = rows(*((f"g{g}", "bow", 2) for g in range(20)))
    for n, row in enumerate(told):
        row.person = str(n // 4)
    hold_out(told, by=("person",), group_of=lambda row: row.person)
    held = {row.person for row in told if row.split["person"] == "val"}
    assert len(held) == 1 and all((row.person in held) == (row.split["person"] == "val") for row in told)
    assert {row.split["clip"] for row in told} == {"train"}


def test_segments_end_with_the_video() -> None:
    told = [Segment(0, 4, "a"), Segment(3, 9, "b"), Segment(5, 6, "c"), Segment(2, 5, "d")]
    assert within(told, 5) == (Segment(0, 4, "a"), Segment(3, 5, "b"), Segment(2, 5, "d"))


def test_tags_are_yes_and_no_and_unknown_values_are_minus_one() -> None:
    names = ("ball", "car", "tree")
    specs = tuple(AttributeSpec(name) for name in ("tree", "ball"))
    tagged = Row(Path("a"), "", "", attributes=Tags(names, {"car", "tree"}))
    told = Row(Path("b"), "", "bow", attributes={"ball": "yes", "car": "no", "tree": ""})
    labels = label_rows([tagged, told], ("bow",), (), specs)
    assert labels.attributes.tolist() == [[1, 0], [-1, 1]]
    assert (labels.action.tolist(), labels.person.tolist()) == ([-1, 0], [-1, -1])
    assert dict(tagged.attributes) == {"ball": "no", "car": "yes", "tree": "yes"}
