"""Every published recipe is whole: its settings, its data, its judge, its numbers and its command."""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from sfumato.anonymizers import ANONYMIZERS
from sfumato.commands.judge_latent import is_latent
from sfumato.commands.measured import measure_latent
from sfumato.commands.published import (
    CHANCE,
    FEATURES,
    LATENT_METRICS,
    METRICS,
    RAW,
    TRAINED,
    Judgement,
    PublishedRecipe,
    read_published,
)
from sfumato.commands.reproduce import training_folder
from sfumato.datasets import LISTED
from sfumato.datasets.listed import OPTIONS
from sfumato.evaluation.attacks import attacks_named
from sfumato.evaluation.latent import LatentLine
from sfumato.evaluation.latent.inversion import BOXES
from sfumato.evaluation.protocols import PROTOCOLS
from sfumato.evaluation.result import AttackResult, Leakage, Measure, Score
from sfumato.methods import find_method
from sfumato.recognizers import level_of
from sfumato.training.options import load_options

ROOT = Path(__file__).parents[2]
RECIPES = sorted((ROOT / "recipes" / "published").glob("*.toml"))
# Where the papers' text may lie on a developer's machine; it is never part of the project.
PAPERS = Path(os.environ.get("SFUMATO_PAPERS", ROOT.parent / "shared" / "papers"))
TEXTS = {
    "SPAct": "spact", "STPrivacy": "stprivacy", "penalty": "penalty", "LaF-Privacy": "laf-privacy", "SPLAVU": "splavu",
}  # fmt: skip
# What lines of features have besides the action and attacks, as their protocols call it.
SCORES = (
    "TAD mAP", "AD AUC", "retrieval R@1", "retrieval R@5", "retrieval R@10", "retrieval mAP", "natural subclass gap",
    "natural accuracy", "natural accuracy of female", "natural accuracy of male",
    *(f"inversion-{box}-action top-1" for box in BOXES),
)  # fmt: skip
each = pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)


@each
def test_settings_and_data_are_known(path: Path) -> None:
    recipe = read_published(path)
    if recipe.method:
        config = load_options(find_method(recipe.method).config, settings=recipe.settings())
        assert {key: getattr(config, key) for key in recipe.config} == recipe.config
    for name in recipe.anonymizers:
        assert name.partition(":")[0] in ANONYMIZERS
    for name in (*recipe.data.values(), *(n for j in recipe.judge for n in (j.data, j.privacy_data) if n)):
        kind, _, rest = name.partition(":")
        options = [option.partition("=")[0] for option in rest.partition("?")[2].split("&") if option]
        assert set(options) <= ({*OPTIONS, *LISTED[kind].options} if kind != FEATURES else set())


@each
def test_the_header_holds_the_command_and_the_name_says_what_is_trained(path: Path) -> None:
    text, recipe = path.read_text(), read_published(path)
    assert f"#     sfumato reproduce recipes/published/{path.name} --data-root DATA\n" in text
    assert text.count("sfumato reproduce") == 1
    if recipe.method == "splavu" and not recipe.bring and not recipe.not_yet:
        made = re.findall(r"^#     sfumato features extract '[\w-]+:DATA/\S+' .* -o DATA/(\S+)$", text, re.M)
        assert sorted(f"{FEATURES}:{folder}" for folder in made) == sorted(recipe.data_names())
    assert path.stem.partition("-")[0] in ((recipe.method,) if recipe.method else ("baselines", "collective"))


@each
def test_the_judge_can_do_it_or_it_is_said_why_not(path: Path) -> None:
    recipe = read_published(path)
    rows = {RAW, TRAINED} if recipe.method else {RAW, *recipe.anonymizers}
    for judge in recipe.judge:
        assert recipe.paper in TEXTS and re.fullmatch(r"Table \d+", judge.published.table)
        if judge.not_yet:
            continue
        if is_latent(judge.protocol):
            check_latent(recipe, judge)
        else:
            check_judge(judge)
        extra = set(judge.published.rows) - rows - {CHANCE}
        assert all(name.endswith("-people") for name in extra)  # quoted, not judged: there is no detector
        known = {*METRICS, *(LATENT_METRICS if is_latent(judge.protocol) else ())}
        assert {metric.partition(" ")[0] for row in judge.published.rows.values() for metric in row} <= known


def check_latent(recipe: PublishedRecipe, judge: Judgement) -> None:
    """On features of the encoder that f_A was trained for, and every metric is one that the protocol has."""
    encoder = recipe.data["action"].removeprefix(f"{FEATURES}:").partition("/")[0]
    assert judge.data.startswith(f"{FEATURES}:{encoder}/") and judge.protocol in PROTOCOLS
    assert len(judge.attacks) == (judge.protocol in ("latent-probe", "latent-gait", "latent-inversion"))
    score = Score(0.5, 0.4, 0.6, 0.1, 0.9)
    leak = Leakage(0.5, 0.4, 0.6, "measured")
    attackers = ("attributes-static-mlp", "attributes-whole-mlp", "gait", *(f"inversion-{b}-attributes" for b in BOXES))
    attacks = [AttackResult(a, "", "", "", "", score, leak, 0, 0, [], []) for a in attackers]
    others = [Measure(name, score) for name in SCORES]
    line = LatentLine("f_A", score, [], attacks, [], leak, 0.5, others)
    for row in judge.published.rows.values():
        assert all(measure_latent(metric, line, judge).value == 0.5 for metric in row)


def check_judge(judge: Judgement) -> None:
    assert judge.protocol in PROTOCOLS
    assert bool(judge.privacy_data) == (judge.protocol == "cross-dataset")
    assert bool(judge.vlm) == (judge.protocol == "zero-shot")
    (attack,) = (
        exam for name in judge.attacks for exam in attacks_named(name)
    )  # which one the numbers are of is clear
    assert attack.target == "attributes"
    assert level_of(judge.video_model) == "video"
    assert attack.level == "video" or level_of(judge.frame_model) == "frame"


@each
def test_the_numbers_are_there(path: Path) -> None:
    for judge in read_published(path).judge:
        told = judge.published
        assert told.lost or told.rows
        assert all(row for row in told.rows.values())
        for row in told.rows.values():
            for metric, value in row.items():
                share = metric in told.shares or metric.split()[0] in ("F1", "macro-F1")
                assert 0 <= value <= (1 if share else 200), (metric, value)


@pytest.mark.skipif(not PAPERS.is_dir(), reason="the papers' text is not here")
@each
def test_every_number_is_in_the_paper_as_it_is_written_here(path: Path) -> None:
    recipe, text = read_published(path), path.read_text()
    paper = (PAPERS / f"{TEXTS[recipe.paper]}.txt").read_text()
    rows = [line for line in text.splitlines() if re.match(r'^("[^"]+"|[\w-]+) = \{ ', line)]
    numbers = [number for row in rows for number in re.findall(r"= ([\d.]+)", row)]
    assert len(numbers) == sum(len(row) for j in recipe.judge for row in j.published.rows.values())
    glued = recipe.paper == "SPLAVU"  # its Table 1 has the drop right behind the number: 41.0735.5%
    for number in numbers:
        written = rf"(?<![\d.]){re.escape(number)}" + ("" if glued else r"(?!\d)")
        assert re.search(written, paper), f"{number} is not in {recipe.paper}"


def test_every_result_table_of_the_papers_is_here() -> None:
    found: dict[str, set[int]] = defaultdict(set)
    for path in RECIPES:
        recipe = read_published(path)
        found[recipe.paper] |= {int(judge.published.table.removeprefix("Table ")) for judge in recipe.judge}
    assert found == {
        "SPAct": {1, 2, 3, 4, 5, 6},
        "STPrivacy": {1, 2, 3, 4, 5},
        "penalty": {1, 2, 3, 5, 6, 7, 8},  # 4 lists the attributes of VISPR
        "LaF-Privacy": {1, 2, 3, 4, 5, 6, 8},  # 7 counts parameters
        # 9 lists the attributes of VISPR, 16 counts parameters
        "SPLAVU": {1, 2, 3, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15, 17},
    }


def test_the_index_names_every_recipe_and_what_is_missing_for_it() -> None:
    text = (ROOT / "recipes" / "published" / "README.md").read_text()
    named = dict(re.findall(r"\| \[([\w-]+)\]\(\1\.toml\) \|.*\| (.*) \|", text))
    assert sorted(named) == sorted(path.stem for path in RECIPES)
    for path in RECIPES:
        recipe = read_published(path)
        assert (named[path.stem] == "–") == (not recipe.not_yet and not recipe.bring)
        assert recipe.not_yet in ("", named[path.stem])


def test_one_recipe_alone_cannot_be_run_at_all_and_six_need_features_of_encoders_that_are_not_here() -> None:
    recipes = [read_published(path) for path in RECIPES]
    assert [recipe.name for recipe in recipes if recipe.not_yet] == ["splavu-raw-videos"]
    brought = [recipe for recipe in recipes if recipe.bring]
    assert {recipe.data["action"].partition("/")[0] for recipe in brought} == {
        "features:internvideo-h", "features:videomaev2-g", "features:i3d", "features:vjepa-h",
    }  # fmt: skip
    assert len(brought) == 6
    left = Counter(judge.not_yet.partition(",")[0] for recipe in recipes for judge in recipe.judge if judge.not_yet)
    assert left == {
        "the judge's networks begin at random": 30, "no protocol here judges detection in anonymized videos yet": 4,
        "how long it takes depends on the machine": 2,
    }  # fmt: skip


def test_some_numbers_by_hand() -> None:
    def row(name: str, who: str = TRAINED, judge: int = 0) -> dict[str, float]:
        return read_published(ROOT / "recipes" / "published" / f"{name}.toml").judge[judge].published.rows[who]

    assert row("spact-ucf101-vispr1") == {"top-1": 62.03, "cMAP": 57.43, "F1": 0.473}
    assert row("spact-ucf101-vispr1", RAW) == {"top-1": 62.33, "cMAP": 64.41, "F1": 0.555}
    assert row("stprivacy-vp-hmdb51") == {"top-1": 50.73, "F1": 0.613, "cMAP": 72.48}
    assert row("penalty-vphmdb-vispr1-b03") == {"top-1": 74.61, "cMAP": 70.01, "F1": 0.514}
    assert row("laf-vp-ucf101-xclip") == {"top-1": 65.239, "macro-F1": 0.6417, "cMAP": 0.6791}
    assert row("splavu-k400-videomae") == {"cMAP": 49.92} and row("splavu-k400-videomae", judge=3) == {"mAP": 60.50}
    assert row("splavu-ntu-bias-f", RAW) == {"top-1 female": 46.78, "top-1 male": 56.20, "top-1": 51.49, "gap": 9.42}
    assert row("splavu-vp-ucf101", judge=4) == {"top-1": 96.8, "cMAP": 58.4}  # black box
    assert row("stprivacy-p-hvu-ospar") == {"cMAP action": 26.42, "cMAP object": 12.38, "cMAP scene": 25.64}
    assert row("baselines-vp-ucf101", "downsample:factor=4") == {"top-1": 56.07, "F1": 0.615, "cMAP": 69.85}
    assert row("penalty-other-ft-b09", judge=5) == {"top-1": 50.91}  # C3D


def test_recipes_that_train_the_same_share_the_training() -> None:
    def folder(name: str) -> Path:
        recipe = read_published(ROOT / "recipes" / "published" / f"{name}.toml")
        return training_folder(recipe, Path("data"), Path("runs"))

    assert folder("spact-ucf101-vispr1") == folder("spact-ucf101-to-hmdb51") == folder("spact-fb-resnet50")
    assert folder("penalty-ucf101-vispr1-b03") == folder("penalty-other-fb-b03") == folder("penalty-lambda10")
    assert folder("penalty-ucf101-vispr1-b03") != folder("penalty-ucf101-vispr1-b05")
    assert folder("spact-ucf101-vispr1") != folder("spact-moco")
    assert folder("stprivacy-vp-ucf101") == folder("stprivacy-vp-ucf101-to-vp-hmdb51")
    assert folder("stprivacy-vp-ucf101") != folder("stprivacy-vp-hmdb51-to-vp-ucf101")
