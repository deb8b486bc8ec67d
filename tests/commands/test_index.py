"""`sfumato index`: anonymized features only, gone on with, searched by a video or a sentence, and asked wrongly."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from sfumato.anonymizers.latent_adapter import LatentAdapter
from sfumato.anonymizers.latent_storage import load_latent, save_latent
from sfumato.commands import index
from sfumato.datasets.vector_store import VectorStore
from sfumato.evaluation.latent.material import moved_between
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.encoders import load_encoder
from sfumato.recognizers.vlm import SmallVLM, SmallVLMConfig, save_vlm
from sfumato.training.extraction import clips_of_file, describe, encode

Make = Callable[..., Path]
FPS = 25


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder, with a folder for temporary files in it, on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return tmp_path


def write_encoder(path: Path, seed: int = 0) -> str:
    torch.manual_seed(seed)
    torch.save(make_recognizer("tiny-video", 3, clip=(16, 112, 112)).state_dict(), path)
    return f"tiny-video:{path}"


def write_adapter(folder: Path, encoder: str, *, frame_step: int = 1, seed: int = 0, away: float = 0.02) -> Path:
    """An adapter over the clips of a video, as if trained: moved so far away from the identity it begins as."""
    network = load_encoder(encoder)
    torch.manual_seed(seed)
    adapter = LatentAdapter(network.width, layers=1, heads=2, attend="video", feed_forward=False)
    with torch.no_grad():
        for parameter in adapter.parameters():
            parameter += away * torch.randn_like(parameter)
    return save_latent(adapter, describe(network, encoder, frame_step=frame_step), folder)


@pytest.fixture
def encoder(tmp_path: Path) -> str:
    return write_encoder(tmp_path / "weights.pt")


@pytest.fixture
def adapter(tmp_path: Path, encoder: str) -> Path:
    return write_adapter(tmp_path / "adapter", encoder)


@pytest.fixture
def reader(tmp_path: Path) -> str:
    """A vision-language model."""
    torch.manual_seed(0)
    words = ("a", "jumps", "person", "waves")
    small = SmallVLMConfig(
        (8, 32, 32), words, width=24, depth=1, temporal_depth=1, text_width=16, text_depth=1, embedding=16
    )
    return str(save_vlm(SmallVLM(small), tmp_path / "reader"))


@pytest.fixture
def raw(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """Every raw feature the command comes by from now on."""
    seen: list[Tensor] = []

    def spied(*arguments: Any) -> Tensor:
        rows = encode(*arguments)
        seen.extend(rows[:, 0])
        return rows

    monkeypatch.setattr(index, "encode", spied)
    return seen


def stored(folder: Path) -> Tensor:
    """All vectors, by video and time."""
    rows = VectorStore(folder)._table.to_arrow().to_pylist()
    return torch.tensor([row["vector"] for row in sorted(rows, key=lambda row: (row["video"], row["start"]))])


def on_disk(root: Path, vectors: Tensor) -> bool:
    """Whether any four numbers side by side of any of these vectors are in any file."""
    pieces = [vector[place : place + 4].numpy().tobytes() for vector in vectors for place in range(0, len(vector), 4)]
    pieces = [piece for piece in pieces if any(piece)]  # zeros are everywhere
    contents = [path.read_bytes() for path in root.rglob("*") if path.is_file()]
    return any(piece in content for content in contents for piece in pieces)


def test_only_anonymized_features_are_ever_on_the_disk(
    encoder: str, adapter: Path, raw: list[Tensor], tmp_path: Path, make_video: Make, sfumato: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(index, "BATCH", 2)  # the three clips of a video must be anonymized together all the same
    video = make_video(tmp_path / "a.mp4", frames=48)
    really, looked = VectorStore.add, []

    def add(*arguments: Any) -> None:
        really(*arguments)
        looked.append(on_disk(tmp_path, torch.stack(raw)))

    monkeypatch.setattr(VectorStore, "add", add)
    run = sfumato("index", "build", video, "-o", "db", "--encoder", encoder, "--with", adapter)
    assert (run.code, run.out, run.err) == (0, "db: 3 clips of 1 videos, 1 of them new or changed\n", "")
    assert sfumato("index", "search", "db", "--like", video, "--json", "found.json").code == 0
    assert looked == [False] and len(raw) == 6
    assert not on_disk(tmp_path, torch.stack(raw))

    clips = torch.stack([clip for _, clip in clips_of_file(video, 16, 1)])
    network = load_encoder(encoder)
    plain = encode(network, clips, describe(network, encoder, static=0), torch.device("cpu"))[:, 0]
    with torch.no_grad():
        hidden = load_latent(adapter)[0](plain[None])[0]
    assert torch.allclose(stored(tmp_path / "db"), hidden, atol=1e-5)
    assert not torch.allclose(stored(tmp_path / "db"), plain, atol=1e-2)
    assert on_disk(tmp_path / "db", stored(tmp_path / "db"))  # so that raw ones would have been seen, too


def test_an_adapter_that_changes_nothing_is_refused_and_nothing_is_kept(
    encoder: str, raw: list[Tensor], tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    untrained = write_adapter(tmp_path / "untrained", encoder, away=0)
    video = make_video(tmp_path / "a.mp4", frames=16)
    run = sfumato("index", "build", video, "-o", "db", "--encoder", encoder, "--with", untrained)
    assert (
        run.error == f"'{untrained}' leaves features as they are: stopped, so that nothing raw is kept: train it first"
    )
    assert not on_disk(tmp_path, torch.stack(raw))
    assert sfumato("index", "search", "db", "--like", video).code == 2


def test_an_adapter_that_changes_little_is_warned_of(
    encoder: str, adapter: Path, tmp_path: Path, make_video: Make, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = write_adapter(tmp_path / "begun", encoder, away=1e-4)
    for number in range(3):
        make_video(tmp_path / "videos" / f"{number}.mp4", frames=32, seed=number)
    monkeypatch.setattr(index, "WATCHED", 5)
    looked: list[Tensor] = []

    def spied(before: Tensor, after: Tensor) -> Any:
        looked.append(torch.cat([before, after], 1))
        return moved_between(before, after)

    monkeypatch.setattr(index, "moved_between", spied)
    run = sfumato("index", "build", "videos", "-o", "db", "--encoder", encoder, "--with", begun)
    before, after = looked[0].unbind(1)
    share = ((after - before).norm(dim=1) / (before - before.mean(0)).norm(dim=1)).median()
    assert len(before) == 5 and 1e-4 < share < 0.1
    told = f"warning: '{begun}': whole clips pass nearly as they are, changed by {share:.2g} of their spread\n"
    assert (run.code, run.err) == (0, told) and run.out.startswith("db: 6 clips of 3 videos")
    again = sfumato("index", "build", "videos", "-o", "db", "--encoder", encoder, "--with", begun)
    assert (again.code, again.err) == (0, "")  # nothing was added
    assert sfumato("index", "build", "videos", "-o", "other", "--encoder", encoder, "--with", adapter).err == ""


def test_a_second_run_adds_what_is_new_and_replaces_what_changed(
    encoder: str, adapter: Path, raw: list[Tensor], tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    videos = tmp_path / "videos"
    build = ("index", "build", "videos", "-o", "db", "--encoder", encoder, "--with", adapter)
    changing = make_video(videos / "it's.mp4", frames=32)
    make_video(videos / "b.mp4", frames=16, seed=1)
    assert sfumato(*build).out == "db: 3 clips of 2 videos, 2 of them new or changed\n"
    before, encoded = stored(tmp_path / "db")[1:], len(raw)
    # The same videos, named otherwise and twice.
    again = sfumato("index", "build", videos.resolve(), "videos/*.mp4", *build[3:])
    assert again.out == "db: 3 clips of 2 videos, 0 of them new or changed\n" and len(raw) == encoded
    make_video(videos / "c.mp4", frames=16, seed=2)
    make_video(changing, frames=16, seed=3)
    assert sfumato(*build).out == "db: 3 clips of 3 videos, 2 of them new or changed\n"
    assert len(raw) == encoded + 2
    assert not on_disk(tmp_path / "db", before)


def test_a_changed_video_that_cannot_be_read_any_more_answers_no_more(
    encoder: str, adapter: Path, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    videos = tmp_path / "videos"
    build = ("index", "build", videos, "-o", "db", "--encoder", encoder, "--with", adapter)
    broken = make_video(videos / "a.mp4", frames=16)
    make_video(videos / "b.mp4", frames=16, seed=1)
    assert sfumato(*build).code == 0
    broken.write_bytes(b"no video")
    run = sfumato(*build)
    named, error = run.err.splitlines()
    assert run.code == 2 and named.startswith(f"{broken}: ")
    assert error == "error: 1 of the videos could not be read: mend or remove them, and run again to go on"
    assert run.out == "db: 1 clips of 1 videos, 0 of them new or changed\n"


def test_an_unreadable_video_stops_nobody_unless_strict(
    encoder: str, adapter: Path, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    videos = tmp_path / "videos"
    make_video(videos / "b.mp4", frames=16)
    (videos / "a.mp4").write_bytes(b"no video")
    build = ("index", "build", videos, "--encoder", encoder, "--with", adapter, "-o")
    run = sfumato(*build, "db", "--strict")
    assert run.error.startswith(f"'{videos / 'a.mp4'}' cannot be read as a video") and run.out == ""
    run = sfumato(*build, "db")
    assert run.code == 2 and run.out == "db: 1 clips of 1 videos, 1 of them new or changed\n"


def test_the_span_that_was_asked_for_is_found_first(
    encoder: str, tmp_path: Path, make_video: Make, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = write_adapter(tmp_path / "adapter", encoder, frame_step=2)
    videos = [make_video(tmp_path / "videos" / f"{n}.mp4", frames=40, seed=n) for n in range(3)]
    names = ("--encoder", "tiny-video:weights.pt", "--with", "adapter")
    assert sfumato("index", "build", "videos", "-o", "db", *names).code == 0
    # From another folder: encoder and adapter were given relative to the old one, and are found all the same.
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    run = sfumato("index", "search", "../db", "--like", videos[1], "--top", 3, "--json", "new/found.json")
    assert (run.code, run.err) == (0, "")
    first, second = run.out.splitlines()[:2]
    # 32 frames make a clip, the last has 8 left; both are in the answer and touch.
    assert first == f"1.000  0.00–1.60 s  {videos[1]}"
    assert str(videos[1]) not in second and len(run.out.splitlines()) == 2
    content = json.loads(Path("new/found.json").read_text())
    assert (content["index"], content["like"]) == ("../db", str(videos[1]))
    assert content["spans"][0] == {
        "video": str(videos[1]), "start": 0.0, "end": 40 / FPS, "score": pytest.approx(1, abs=1e-5),
    }  # fmt: skip
    moved = adapter.rename(tmp_path / "moved")
    assert sfumato("index", "search", "../db", "--like", videos[1]).error.startswith("cannot read")
    assert sfumato("index", "search", "../db", "--like", videos[1], "--with", moved, "--top", 3).out == run.out


def test_what_does_not_belong_together_is_refused_by_name(
    encoder: str, adapter: Path, reader: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    video = make_video(tmp_path / "a.mp4", frames=16)
    other = write_encoder(tmp_path / "other.pt", seed=1)
    narrow = write_adapter(tmp_path / "narrow", reader)
    theirs = write_adapter(tmp_path / "theirs", other)
    trained_again = write_adapter(tmp_path / "again", encoder, seed=1)
    build, search = ("index", "build", video, "-o", "db"), ("index", "search", "db", "--like", video)
    told = sfumato(*build, "--encoder", other, "--with", adapter).error
    assert told.startswith(f"'{adapter}' is for features of '{encoder}' with weights ") and f"'{other}' has" in told
    told = sfumato(*build, "--encoder", encoder, "--with", narrow).error
    assert told.startswith(
        f"'{narrow}' is for features of '{reader}', 16 wide, and those of '{encoder}' are 192 wide: name that encoder"
    )
    assert not Path("db").exists()
    assert sfumato(*build, "--encoder", encoder, "--with", adapter).code == 0
    told = sfumato(*build, "--encoder", encoder, "--with", trained_again).error
    assert told.startswith("'db' was built with the adapter ") and f"not '{trained_again}'" in told
    told = sfumato(*search, "--with", trained_again).error
    assert told.startswith("'db' was built with the adapter ")
    told = sfumato(*search, "--encoder", other, "--with", theirs).error
    assert told.startswith("'db' was built with the encoder ") and f"not '{other}'" in told
    assert sfumato(*search, "--encoder", encoder, "--with", adapter).code == 0
    write_encoder(tmp_path / "weights.pt", seed=2)  # other weights under the old name
    assert "has weights" in sfumato(*search).error


def test_a_sentence_finds_what_the_model_holds_for_most_alike(
    reader: str, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    adapter = write_adapter(tmp_path / "adapter", reader)
    for number in range(4):
        make_video(tmp_path / "videos" / f"{number}.mp4", frames=8, seed=number)
    assert sfumato("index", "build", "videos", "-o", "db", "--encoder", reader, "--with", adapter).code == 0
    network = load_encoder(reader)
    for sentence in ("a person waves", "jumps"):
        text: Tensor = network.read([sentence])  # type: ignore[operator]
        cosines = torch.cosine_similarity(stored(tmp_path / "db"), text)
        run = sfumato("index", "search", "db", "--text", f" {sentence} ", "--json", "found.json", "--top", 4)
        assert (run.code, run.err) == (0, "")
        content = json.loads(Path("found.json").read_text())
        assert content["text"] == sentence
        best = cosines.sort(descending=True)
        assert [Path(span["video"]).stem for span in content["spans"]] == [str(n) for n in best.indices.tolist()]
        assert [span["score"] for span in content["spans"]] == pytest.approx(best.values.tolist(), abs=1e-5)
    run = sfumato("index", "search", "db", "--text", "a cat")
    assert run.code == 0 and run.err == "warning: words that this model has never read count as <unk>: cat\n"


def test_questions_that_cannot_be_answered(
    encoder: str, adapter: Path, tmp_path: Path, make_video: Make, sfumato: Any
) -> None:
    video = make_video(tmp_path / "a.mp4", frames=16)
    assert sfumato("index", "build", video, "-o", "db", "--encoder", encoder, "--with", adapter).code == 0
    for question in ((), ("--like", video, "--text", "waves"), ("--text", " ")):
        told = sfumato("index", "search", "db", *question).error
        assert told == "there is not one question: give either --like VIDEO or --text SENTENCE"
    told = sfumato("index", "search", "db", "--text", "a person waves").error
    assert told.startswith(f"'db' was built with '{encoder}', which reads no text: search with --like")
    assert sfumato("index", "search", "db", "--like", "none.mp4").error == "there is no file 'none.mp4': check the name"
    assert "name a folder that `sfumato index build` made" in sfumato("index", "search", "dv", "--like", video).error
    assert not Path("dv").exists()


def test_without_the_library_both_say_how_to_get_it(
    encoder: str, adapter: Path, tmp_path: Path, make_video: Make, sfumato: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    video = make_video(tmp_path / "a.mp4", frames=16)
    monkeypatch.setitem(sys.modules, "lancedb", None)
    told = "an index needs LanceDB, which is not installed: pip install sfumato[index]"
    assert sfumato("index", "build", video, "-o", "db", "--encoder", encoder, "--with", adapter).error == told
    assert sfumato("index", "search", "db", "--like", video).error == told
    assert not Path("db").exists()
