"""`sfumato reproduce`: run, planned, rehearsed, and asked wrongly."""

from __future__ import annotations

import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from sfumato.commands import reproduce as command
from sfumato.commands import train
from sfumato.commands.measured import Found, measure, measure_latent
from sfumato.commands.miniatures import write_miniature
from sfumato.commands.published import Judgement, Published, PublishedRecipe, find_recipe, read_published
from sfumato.commands.rehearsal import rehearsed, shrink_data
from sfumato.commands.reproduce import compare
from sfumato.datasets import open_dataset
from sfumato.errors import SfumatoError
from sfumato.evaluation import scoring
from sfumato.evaluation.latent import LatentLine
from sfumato.evaluation.metrics import MIN_GROUPS
from sfumato.evaluation.result import AttackResult, AttributeScore, Leakage, Line, Measure, Result, Score

NAME = "spact-ucf101-vispr1"
INVERTED = ("inversion-black-box-attributes", "inversion-white-box-attributes")


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working folder on a machine without a GPU."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(scoring, "SAMPLES", 60)
    return tmp_path


# ---- ours beside the paper's -------------------------------------------------------------------------------------


def attribute(name: str, ap: float, chance: float, f1: float, macro: float) -> AttributeScore:
    return AttributeScore(name, Score(ap, ap, ap, chance, ap), f1, macro, always_yes_f1=0.9, coin_f1=0.5 + chance / 10)


def line(name: str, top1: float, cmap: float) -> Line:
    leak = Leakage(0.5, 0.4, 0.6, "measured")
    asked = [attribute("face", 0.8, 0.6, 0.7, 0.65), attribute("skin", 0.6, 0.2, 0.5, 0.45)]
    attack = AttackResult(
        "frame", "attributes", "frame", "resnet-50", "cMAP", Score(cmap, cmap - 0.1, cmap + 0.1, 0.4, 0.9), leak, 0.1, 0.5,
        [cmap], [], asked,
    )  # fmt: skip
    return Line(name, Score(top1, top1 - 0.2, top1 + 0.2, 0.01, 0.8), [top1], [attack], [], leak, math.nan)


def latent_line(name: str, **scores: float) -> LatentLine:
    """Top-1 .5, a probe and two boxes that read attributes, and other scores by name."""
    leak = Leakage(0.5, 0.4, 0.6, "measured")
    readers = {"attributes-static-mlp": 0.4, "inversion-black-box-attributes": 0.6, "gait": 0.3}
    attacks = [
        AttackResult(a, "attributes", "frame", "mlp", "cMAP", Score(v, v, v, 0.2, 0.9), leak, 0.1, 0.5, [v], [])
        for a, v in readers.items()
    ]
    others = [Measure(what, Score(v, v - 0.1, v + 0.1, 0.05, 0.9)) for what, v in scores.items()]
    return LatentLine(name, Score(0.5, 0.4, 0.6, 0.02, 0.7), [0.5], attacks, [], leak, 0.5, others)


def judged(*lines: Line) -> Result:
    return Result("known", "toy", 2, 0, 4, 0, [0], {}, 1, "a CPU", {}, "", list(lines))


def test_metrics_are_read_off_a_line_with_their_chance() -> None:
    told = line("a", 0.6, 0.7)
    assert measure("top-1", told) == Found(0.6, 0.01, 0.6 - 0.2, 0.6 + 0.2)
    assert measure("cMAP", told) == Found(0.7, 0.4, 0.7 - 0.1, 0.7 + 0.1)
    assert (measure("F1", told).value, measure("F1", told).chance) == (pytest.approx(0.6), pytest.approx(0.54))
    assert measure("cMAP skin", told).value == 0.6 and measure("cMAP skin", told).chance == 0.2
    assert measure("F1 face", told).value == 0.7
    # A fair coin where 60% are yes: F1 of yes .6/1.1, of no .4/.9.
    assert measure("macro-F1 face", told).chance == pytest.approx((0.6 / 1.1 + 0.4 / 0.9) / 2)
    assert measure("macro-F1", told).value == pytest.approx(0.55)


def test_numbers_stand_in_the_papers_own_unit_beside_raw() -> None:
    rows = {"raw": {"top-1": 62.33, "F1": 0.555}, "trained": {"top-1": 62.03, "cMAP": 0.57, "F1": 0.473}}
    judge = Judgement(Published("Table 1", rows, shares=("cMAP",)), "known", "ucf101:ucf101", video_model="r3d-18")
    raw, _, top1, cmap, f1 = compare(judge, judged(line("identity", 0.7, 0.9), line("f_A", 0.6, 0.7)), ["trained"])
    assert (raw.row, raw.paper, raw.ours, raw.chance) == ("raw", 62.33, pytest.approx(70), pytest.approx(1))
    assert (top1.paper, top1.paper_raw) == (62.03, 62.33)
    assert (top1.ours, top1.ours_raw) == (pytest.approx(60), pytest.approx(70))
    assert (top1.low, top1.high) == (pytest.approx(40), pytest.approx(80))
    assert (cmap.ours, cmap.ours_raw, cmap.chance) == (0.7, 0.9, 0.4)  # a share there, a share here
    assert math.isnan(cmap.paper_raw)
    assert f1.ours == pytest.approx(0.6) and (top1.data, top1.by) == ("ucf101", "r3d-18")


def test_tags_of_a_kind_are_meant_together_and_the_action_may_be_several() -> None:
    told = line("a", 0.25, 0.7)
    told.attacks[0].attributes = [
        attribute("scene/beach", 0.8, 0.6, 0.7, 0.65), attribute("scene/street", 0.4, 0.2, 0.5, 0.45),
        attribute("object/car", 0.9, 0.5, 0.5, 0.45),
    ]  # fmt: skip
    assert measure("cMAP scene", told).value == pytest.approx(0.6)
    assert measure("cMAP scene", told).chance == pytest.approx(0.4)
    assert measure("cMAP object", told).value == 0.9
    assert measure("cMAP action", told) == Found(0.25, 0.01, 0.25 - 0.2, 0.25 + 0.2)  # the utility
    with pytest.raises(SfumatoError, match="no attribute 'event'"):
        measure("cMAP event", told)


@pytest.mark.parametrize(
    ("protocol", "who", "metric", "found"),
    [
        ("latent-action", "", "top-1", Found(0.5, 0.02, 0.4, 0.6)),
        ("latent-probe", "attributes-static-mlp", "cMAP", Found(0.4, 0.2, 0.4, 0.4)),
        ("latent-gait", "gait", "top-1", Found(0.3, 0.2, 0.3, 0.3)),
        ("latent-detection", "", "mAP", Found(0.61, 0.05, 0.61 - 0.1, 0.61 + 0.1)),
        ("latent-retrieval", "", "mAP", Found(0.85, 0.05, 0.85 - 0.1, 0.85 + 0.1)),
        ("latent-inversion", "black-box", "cMAP", Found(0.6, 0.2, 0.6, 0.6)),
        ("latent-inversion", "black-box", "top-1", Found(0.67, 0.05, 0.67 - 0.1, 0.67 + 0.1)),
        ("latent-gap", "", "top-1 female", Found(0.45, 0.05, 0.45 - 0.1, 0.45 + 0.1)),
    ],
)
def test_what_a_protocol_of_features_calls_a_metric(protocol: str, who: str, metric: str, found: Found) -> None:
    others = {
        "TAD mAP": 0.61, "retrieval mAP": 0.85, "inversion-black-box-action top-1": 0.67, "natural accuracy of female": 0.45,
    }  # fmt: skip
    judge = Judgement(Published("Table 1", {}), protocol, "features:e/ucf101", attacks=(who,) if who else ())
    assert measure_latent(metric, latent_line("a", **others), judge) == found
    with pytest.raises(SfumatoError, match=f"{protocol} does not measure 'F1'"):
        measure_latent("F1", latent_line("a", **others), judge)


def test_features_stand_beside_the_papers_numbers_and_its_chance_beside_ours() -> None:
    rows = {"raw": {"mAP": 60.82}, "trained": {"mAP": 60.5}, "random chance": {"mAP": 2.0}}
    judge = Judgement(Published("Table 1", rows), "latent-detection", "features:videomae-b/thumos14")
    lines = (latent_line("identity", **{"TAD mAP": 0.6}), latent_line("f_A", **{"TAD mAP": 0.5}))
    raw, trained, chance = compare(judge, judged(*lines), ["trained"])
    assert (raw.data, raw.by, raw.ours, raw.chance) == ("thumos14", "tridet", pytest.approx(60), pytest.approx(5))
    assert (trained.ours, trained.ours_raw, trained.paper_raw) == (pytest.approx(50), pytest.approx(60), 60.82)
    assert (chance.paper, chance.ours) == (2.0, pytest.approx(5)) and math.isnan(chance.low)


def test_what_is_not_judged_keeps_the_papers_number_alone() -> None:
    judge = Judgement(Published("Table 1", {"trained": {"UCF101 top-1": 90.14}}), not_yet="no protocol")
    (row,) = compare(judge, None)
    assert row.paper == 90.14 and math.isnan(row.ours) and math.isnan(row.chance)
    other = Judgement(Published("Table 1", {"raw": {"top-1": 50.0}, "blacken-people": {"top-1": 21.2}}), "known", "a:a")
    _, hidden = compare(other, judged(line("identity", 0.7, 0.9)), [])
    assert hidden.paper == 21.2 and math.isnan(hidden.ours)


# ---- a run -------------------------------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> PublishedRecipe:
    """A recipe made small, with its data under `data`."""
    return rehearsed(read_published(find_recipe("spact-vp-hmdb51")), tmp_path / "data")


def lose_a_film(folder: Path) -> str:
    """Remove a training video; its name."""
    film = sorted((folder / "Archery").iterdir())[-1]
    film.unlink()
    return film.name


@pytest.mark.parametrize("name", ["spact-vp-hmdb51", "baselines-vp-hmdb51"])
def test_strict_stops_where_a_video_is_missing(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sfumato: Any, trained: list[str]
) -> None:
    recipe = rehearsed(read_published(find_recipe(name)), tmp_path / "data")  # one is trained, one only judged
    monkeypatch.setattr(command, "read_published", lambda path: recipe)
    missing = lose_a_film(Path("data/hmdb51"))
    error = sfumato("reproduce", name, "--data-root", "data", "--out", "runs", "--strict").error
    assert missing in error and error.endswith("run without --strict to leave it out")
    assert not Path("runs").exists() and not trained


def test_what_only_decoding_shows_is_told_too(
    small: PublishedRecipe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Decoding:
        def __init__(self, dataset: Any, *_: object, **__: object) -> None:
            self.dataset = dataset

        def judge(self, *_: object) -> Result:
            self.dataset.problems.append("a film has 3 readable frames")
            return judged()

    monkeypatch.setattr(command, "PROTOCOLS", SimpleNamespace(find=lambda name: SimpleNamespace(make=Decoding)))
    command.judge_recipe(small.judge[0], [], Path("data"), Path("runs"), "cpu", tiny=True)
    assert capsys.readouterr().err == "left out: a film has 3 readable frames\n"


def test_a_run_on_data_that_is_there_and_again_without_training(
    small: PublishedRecipe, monkeypatch: pytest.MonkeyPatch, sfumato: Any, trained: list[str]
) -> None:
    monkeypatch.setattr(command, "read_published", lambda path: small)
    told = ["reproduce", "spact-vp-hmdb51", "--data-root", "data", "--out", "runs", "--json", "result.json"]
    left_out = lose_a_film(Path("data/hmdb51"))
    run = sfumato(*told)
    assert run.code == 0, run.err
    assert run.err.count("left out: ") == run.err.count(left_out) == 1  # of the training and of the judgement
    assert trained == ["action", "video"] * 2
    found = json.loads(Path("result.json").read_text())
    assert (found["schema"], found["smoke"]) == ("sfumato-reproduction/1", False)
    assert [(r["row"], r["metric"], r["paper"]) for r in found["rows"]] == [
        ("raw", "top-1", 51.44), ("raw", "F1", 0.673), ("raw", "cMAP", 75.58),
        ("trained", "top-1", 48.56), ("trained", "F1", 0.642), ("trained", "cMAP", 73.78),
    ]  # fmt: skip
    assert "51.44" in run.out and "chance" in run.out and command.SMOKE not in run.out
    (folder,) = Path("runs").glob("spact-*")
    weights = (folder / "anonymizer" / "model.safetensors").stat().st_mtime_ns
    again = sfumato(*told)
    assert f"'{folder}' is finished already" in again.err and len(trained) == 4
    assert again.err.count(left_out) == 1
    assert (folder / "anonymizer" / "model.safetensors").stat().st_mtime_ns == weights
    assert json.loads(Path("result.json").read_text())["rows"] == found["rows"]


@pytest.mark.parametrize("name", ["spact-no-fb", "laf-phase-3-only", "laf-phases-1-and-3"])
def test_a_recipe_may_tell_of_what_is_not_played(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(train, "launch", lambda work, devices, order, device: asked.append(order.method))
    command._train(read_published(find_recipe(name)), tmp_path / "data", tmp_path / "runs", "cpu", False)
    assert asked == [name.partition("-")[0]]


def test_what_several_tables_print_is_judged_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = rehearsed(read_published(find_recipe("splavu-vp-hmdb51")), tmp_path / "data")
    asked: list[str] = []

    def judge(adapters: list[str], data: str, *, protocol: str, **rest: Any) -> Result:
        asked.append(f"{protocol} {Path(data).name}")
        assert len(adapters) == 1 and rest["models"] == "tiny" and rest["epochs"] == 1
        inverted = {f"inversion-{box}-action top-1": 0.6 for box in ("black-box", "white-box")}
        lines = [latent_line(name, **inverted) for name in ("identity", "f_A")]
        for each in lines:
            for attack, name in zip(each.attacks, ("attributes-whole-mlp", *INVERTED), strict=True):
                attack.attacker = name
        return judged(*lines)

    monkeypatch.setattr(command, "judge_latent", judge)
    compared = command.run_recipe(recipe, tmp_path / "data", tmp_path / "runs", "cpu", tiny=True)
    assert asked == ["latent-action vp-hmdb51", "latent-probe vp-hmdb51", "latent-inversion vp-hmdb51"]
    assert all(math.isfinite(row.ours) and math.isfinite(row.chance) for row in compared)
    assert {row.table for row in compared} == {"Table 2", "Table 8"}


# ---- generated files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "ucf101:ucf101?split=1",
        "vp-ucf101:ucf101?split=1",
        "hmdb51:hmdb51?split=1",
        "vp-hmdb51:hmdb51",
        "pa-hmdb51:hmdb51?split=rest",
        "pa-hmdb51:hmdb51?split=random",
        "vispr:vispr?subset=2",
        "celebv-hq:celebv-hq",
        "p-hvu:p-hvu",
    ],
)
def test_generated_files_are_a_data_set_that_the_judge_accepts(name: str, tmp_path: Path) -> None:
    write_miniature(name, tmp_path)
    data = open_dataset(command.under(name, tmp_path), strict=True)
    for part in ("train", "val", "test"):
        clips = data.split(part, "clip")
        assert len(data.recordings(clips).unique()) >= MIN_GROUPS
        labels = data.labels(clips).attributes
        for spec, column in zip(data.attributes, labels.T, strict=True):
            if spec.binary and bool((column >= 0).all()):
                assert int((column == 1).sum()) >= MIN_GROUPS


def test_small_data_keeps_every_option_but_its_sizes() -> None:
    assert shrink_data("vp-ucf101:ucf101?split=1&frames=16&size=224&skip=4") == (
        "vp-ucf101:ucf101?split=1&frames=8&size=32&skip=4"
    )
    assert shrink_data("features:videomae-b/ucf101") == "features:videomae-b/ucf101"


def test_a_recipe_made_small_keeps_what_is_special_about_it(tmp_path: Path) -> None:
    def config(name: str) -> dict[str, Any]:
        return rehearsed(read_published(find_recipe(name)), tmp_path / name).config

    assert config("spact-rotnet")["budget"] == "rotation" and config("spact-fb-both")["budget_models"] == (
        "tiny-frame+tiny-frame"
    )
    assert config("spact-spatio-temporal-fb")["budget_models"] == "tiny-video"
    assert config("spact-frozen-fb")["budget_update"] == "frozen"
    assert config("splavu-mlp-5")["layers"] == 5 and config("laf-ratio-05")["keep_ratio"] == 0.5
    assert config("spact-positives-far")["positives"] == ">8" and config("spact-positives-near")["positives"] == "<8"
    assert config("vita-vp-hmdb51")["restart_steps"] == 1 and config("penalty-lambda03")["penalty_weight"] == 0.3


# ---- asked wrongly -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["spact-ucf101"], "there is no recipe 'spact-ucf101': did you mean spact-vp-ucf101 or spact-ucf101-vispr1"),
        (["nothing-like-it"], "there is no recipe 'nothing-like-it': "),
        ([NAME], "no data root is named: add --data-root DIR"),
        (
            [NAME, "--data-root", "."],
            "ucf101 is not there: no folder 'ucf101' (and 1 more: --dry-run lists them): put the",
        ),
        (
            ["splavu-raw-videos", "--data-root", "."],
            "'splavu-raw-videos' cannot be run here yet: splavu encodes every clip once",
        ),
        (
            ["splavu-retrieval", "--data-root", "."],
            "kinetics400 is not there: no folder 'videomae-b/kinetics400' (and 1 more: --dry-run lists them): make it by "
            "`sfumato features extract`",
        ),
        (
            ["splavu-ucf101-internvideo-h", "--data-root", "."],
            "more: --dry-run lists them): bring features of InternVideo-H, which is not among the encoders here",
        ),
        ([NAME, "--dry-run", "--device", "gtx"], "there is no GPU 'gtx'"),
        ([NAME, "--smoke", "--json", "."], "'.' is a folder: name a file to write"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_nothing(
    arguments: list[str], complaint: str, sfumato: Any, files: Any, tmp_path: Path
) -> None:
    assert complaint in sfumato("reproduce", *arguments).error
    assert not files(tmp_path)


GOOD = """paper = "SPAct"
method = "spact"
[data]
action = "ucf101:ucf101"
[[judge]]
protocol = "known"
data = "ucf101:ucf101"
[judge.published]
table = "Table 1"
trained = { top-1 = 62.03 }
"""


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("method =", "metod =", "there is no key 'metod': did you mean 'method'?"),
        ('paper = "SPAct"\n', "", "paper is not said"),
        ('method = "spact"\n', "", "there must be a method or anonymizers"),
        ("action = ", "actions = ", "[data] names no action"),
        ("ucf101:ucf101", "ucf11:ucf101", "there is no data set 'ucf11': did you mean 'ucf101'?"),
        ("ucf101:ucf101", "ucf101", "'ucf101' is no data set: write NAME:FOLDER"),
        ('protocol = "known"\n', "", "a [[judge]] needs protocol and data"),
        ("trained = { top-1 = 62.03 }", "", "no number of Table 1 is here: copy them, or say in lost why not"),
        ("62.03", '"62.03"', "trained: top-1 = '62.03' does not fit"),
        ("[judge.published]", "[judge.print]", "a [[judge]] has no [judge.published]"),
        (
            'protocol = "known"',
            'protocol = "known"\nepochs = "20"',
            "epochs = '20' does not fit: make it a whole number",
        ),
        ("[data]", "[data", "is not valid TOML"),
        ('method = "spact"', 'method = "spact"\n[config]\nbudget_wait = 1', "there is no setting 'budget_wait'"),
        ('method = "spact"', 'method = "spact"\n[config]\nbudget_weight = -1', "budget_weight (ω) = '-1' does not fit"),
    ],
)
def test_a_malformed_recipe_says_what_is_wrong_with_it(
    old: str, new: str, complaint: str, sfumato: Any, tmp_path: Path
) -> None:
    (tmp_path / "good.toml").write_text(GOOD)
    assert read_published(tmp_path / "good.toml").judge[0].published.rows == {"trained": {"top-1": 62.03}}
    assert old in GOOD
    (tmp_path / "mine.toml").write_text(GOOD.replace(old, new))
    assert complaint in sfumato("reproduce", "mine.toml", "--data-root", ".").error


def test_a_recipe_is_found_by_its_name_and_by_its_path(tmp_path: Path) -> None:
    assert find_recipe(NAME).name == find_recipe(f"{NAME}.toml").name == f"{NAME}.toml"
    (tmp_path / "own.toml").write_text(GOOD)
    assert find_recipe("own.toml") == Path("own.toml")
