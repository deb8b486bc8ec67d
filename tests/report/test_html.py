"""The page: it stands alone, says what the result says, and never calls anything private that was not measured."""

from __future__ import annotations

import base64
import io
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sfumato.errors import SfumatoError
from sfumato.evaluation.result import Result
from sfumato.report import Strip, write_report
from sfumato.report.html import summary

VOID = {"meta", "img", "br", "path", "use", "rect"}


class Page(HTMLParser):
    """The parsed page: its tags with attributes, the cells of every table row, and whether all tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.source, self.tags, self.tables, self.open = text, [], [], []  # type: ignore[var-annotated]
        self.cell: list[str] | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        if tag in ("td", "th") and self.cell is not None:
            self.tables[-1][-1].append(" ".join("".join(self.cell).split()))
            self.cell = None

    def handle_data(self, data: str) -> None:
        if self.cell is not None:
            self.cell.append(data)


def page(result: Result, folder: Path, **options: object) -> Page:
    path = folder / "report.html"
    write_report(result, path, **options)  # type: ignore[arg-type]
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def shown(unchanged: Result, tmp_path_factory: pytest.TempPathFactory) -> Page:
    """The page of the unchanged result, with one strip; drawn once, since curves take their time."""
    return page(unchanged, tmp_path_factory.mktemp("report"), strips=[Strip("identity", clip())])


def clip(frames: int = 8, side: int = 64) -> torch.Tensor:
    return torch.randint(256, (frames, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_the_page_stands_alone_and_is_well_formed(shown: Page) -> None:
    assert "http:" not in shown.source
    assert "https:" not in shown.source
    assert not {"script", "link", "iframe", "object"} & {tag for tag, _ in shown.tags}
    for tag, attributes in shown.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith(("data:image/png;base64,", "#")), (tag, attributes)
    assert not re.search(r"@import|url\((?!#)", shown.source)
    assert shown.open == []


def test_equal_results_give_equal_bytes(result: Result, tmp_path: Path) -> None:
    del result.lines[2:]
    assert page(result, tmp_path / "a").source == page(result, tmp_path / "b").source


def test_the_main_table_has_chance_and_every_anonymizer(shown: Page) -> None:
    heading, chance, *rows = shown.tables[0]
    assert heading == [
        "Anonymizer", "Action top-1 ↑", "Attributes cMAP ↓", "Identity top-1 ↓", "Residual leakage ↓", "NHV ↑",
        "Verdict",
    ]  # fmt: skip
    assert chance == ["chance", "10.0", "58.0", "5.0", "0.0", "–", ""]
    assert [row[0] for row in rows] == ["raw video", "downsample factor=4", "blur", "strong-blur-people", "noise"]
    assert rows[2] == [
        "blur", "80.0 [78.0–82.0]", "76.0 [74.0–78.0]", "45.0 [43.0–47.0]", "48.6 [45.6–51.6]", "0.42",
        "measured leaks most: attributes",
    ]  # fmt: skip
    assert rows[3][1] == "40.0 no interval"


def test_chance_and_raw_stand_beside_every_score(shown: Page) -> None:
    labels = [a["aria-label"] for tag, a in shown.tags if tag == "span" and a.get("class") == "gauge"]
    assert labels == ["chance 10.0, raw video 94.4", "chance 58.0, raw video 95.0", "chance 5.0, raw video 98.0"] * 5


def test_the_bar_of_leakage_ends_where_the_number_says(result: Result, tmp_path: Path) -> None:
    result.lines[2].headline.high = 1.2  # beyond the scale: drawn at its end
    source = page(result, tmp_path).source
    assert 'class="fill" style="width:48.6%"' in source
    assert 'class="span" style="left:45.6%;right:calc(100% - 100.0%)"' in source


def test_an_inconclusive_line_says_so_and_nothing_more(shown: Page) -> None:
    noise = shown.tables[0][-1]
    assert noise[4:] == [
        "≥ 32.4 [29.4–35.4]", "–", "inconclusive the attacker did not reach its floor on raw video: identity",
    ]  # fmt: skip
    assert "Not drawn, because inconclusive or undefined: noise." in shown.source
    assert "<em>noise</em> is inconclusive: the attacker did not reach its floor on raw video." in shown.source
    assert not re.search(r"\bprivate\b", shown.source)


def test_the_summary_names_what_leaks_least_and_the_best_trade_off(result: Result) -> None:
    # strong-blur-people: (0.66 − 0.58)/0.37 = 22% read, (0.40 − 0.1)/0.844 = 36% kept
    text = str(summary(result))
    assert text.startswith(
        "Of 3 measured anonymizers, <em>strong-blur-people</em> leaks least: the strongest attacker still reads "
        "22% [19–25] of what raw video gives away, and 36% of the action accuracy above chance is kept."
    )
    assert "The best trade-off is <em>blur</em>, at 49% [46–52] read and 83% kept." in text


def test_the_summary_of_one_anonymizer(result: Result) -> None:
    result.lines = result.lines[:2]
    assert str(summary(result)).startswith(
        "Under <em>downsample:factor=4</em> the strongest attacker still reads 93% [90–96]"
    )


def test_the_summary_does_not_take_noise_for_a_leak(result: Result) -> None:
    result.lines = result.lines[:2]
    result.lines[1].headline.value, result.lines[1].headline.low, result.lines[1].headline.high = 0.01, -0.02, 0.04
    assert "reads 1% [−2–4] of what raw video gives away, which cannot be told from chance" in str(summary(result))


def test_the_summary_where_nothing_could_be_measured(result: Result, tmp_path: Path) -> None:
    for line in result.lines:
        line.headline.verdict = "inconclusive"
        for strongest in line.strongest:
            strongest.leakage.verdict = "inconclusive"
    text = str(summary(result))
    assert text.endswith("<em>noise</em> are inconclusive: the attacker did not reach its floor on raw video.")
    assert "still reads" not in text
    found = page(result, tmp_path)
    assert {row[4] for row in found.tables[0][2:]} == {"–"}
    assert "Not drawn, because inconclusive or undefined: raw video, downsample:factor=4" in found.source


def test_raw_video_alone_makes_a_page(result: Result, tmp_path: Path) -> None:
    result.lines = result.lines[:1]
    assert "Only raw video was judged: it shows what there is to protect.</p>" in page(result, tmp_path).source
    result.lines[0].headline.verdict = "inconclusive"
    assert "<em>raw video</em> is inconclusive: the attacker did not reach" in str(summary(result))


def test_every_attribute_has_its_chance_lines(shown: Page) -> None:
    tables = shown.tables[1:]
    assert len(tables) == 5
    blur = tables[2]
    assert [row[0] for row in blur[2:7]] == ["face", "skin", "gender", "nudity", "relationship"]
    assert blur[1] == ["attacker frame (tiny, frame level)"]
    assert blur[7] == ["attacker video (tiny, video level)"]
    assert blur[4] == ["gender", "76.0", "[74.0–78.0]", "58.0", "95.0", "81.0", "72.0", "73.0", "54.0"]
    assert blur[5][5] == "–"  # an undefined F1


def test_only_the_strongest_attackers_are_listed_by_attribute(result: Result, tmp_path: Path) -> None:
    del result.lines[1:]
    result.lines[0].strongest[0].attackers = ["video"]
    rows = page(result, tmp_path).tables[1]
    assert len(rows) == 1 + 1 + 5
    assert rows[1] == ["attacker video (tiny, video level)"]


def test_zero_shot_says_the_gain_below_the_attributes(result: Result, tmp_path: Path) -> None:
    for attribute in result.lines[2].attacks[0].attributes:
        attribute.f1_gain, attribute.ap_gain = 0.02, -0.01
    assert "without looking" not in page(result, tmp_path).source
    result.protocol = "zero-shot"
    source = page(result, tmp_path).source
    told = (
        "Frame against answers without looking, in points of F1 over a coin, F1 over always yes, and AP: "
        "face +2.0, +8.0 and −1.0, skin +2.0, +8.0 and −1.0,"
    )
    assert source.count("without looking") == source.count(told) == 1  # of the others it is not known
    assert source.index(told) < source.index('id="curves"') and source.index(told) > source.index('id="attributes"')


def test_undefined_values_are_dashes(result: Result, tmp_path: Path) -> None:
    blur = result.lines[2]
    for score in (blur.utility, blur.strongest[0].score):
        score.value = score.low = score.high = score.raw = score.chance = math.nan
    found = page(result, tmp_path)
    assert found.tables[0][4][1].startswith("–")
    assert not re.search(r"\bnan\b", found.source, re.IGNORECASE)


def test_every_attacker_has_a_curve(shown: Page) -> None:
    source = shown.source
    assert source.count('<svg class="plot"') == 1 + 5 * 4


def test_ids_of_the_page_are_unique(shown: Page) -> None:
    ids = [attributes["id"] for _, attributes in shown.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_what_users_name_is_escaped(result: Result, tmp_path: Path) -> None:
    evil = '<script>alert("x")</script>'
    result.data = result.lines[1].anonymizer = result.lines[1].attacks[0].attributes[0].name = result.notes[0] = evil
    found = page(result, tmp_path, title=evil, strips=[Strip(evil, clip(), caption=evil)])
    assert "<script" not in found.source
    assert found.source.count("&lt;script&gt;") >= 8


def test_strips_are_grouped_and_show_six_frames_from_first_to_last(result: Result, tmp_path: Path) -> None:
    del result.lines[1:]
    frames = torch.arange(11, dtype=torch.uint8).view(11, 1, 1, 1).expand(11, 3, 4, 6) * 20
    strips = [Strip("identity", frames, "one"), Strip("blur", frames, "one"), Strip("identity", frames[:2], "two")]
    found = page(result, tmp_path, strips=strips)
    assert [a["class"] for _, a in found.tags if a.get("class") in ("film", "row")] == [
        "film",
        "row",
        "row",
        "film",
        "row",
    ]
    assert re.findall(r"<figcaption>(one|two)</figcaption>", found.source) == ["one", "two"]
    images = [a for tag, a in found.tags if tag == "img"]
    assert len(images) == 6 + 6 + 2
    shown = [Image.open(io.BytesIO(base64.b64decode(a["src"].split(",")[1]))).convert("RGB") for a in images[:6]]
    assert [np.asarray(image).shape for image in shown] == [(4, 6, 3)] * 6
    assert [int(np.asarray(image)[0, 0, 0]) // 20 for image in shown] == [0, 2, 4, 6, 8, 10]
    assert all(a["class"] == "small" for a in images)


def test_large_frames_are_made_small_and_smooth(result: Result, tmp_path: Path) -> None:
    del result.lines[1:]
    found = page(result, tmp_path, strips=[Strip("blur", clip(2, 64).repeat(1, 1, 6, 8))])
    image = next(a for tag, a in found.tags if tag == "img")
    assert Image.open(io.BytesIO(base64.b64decode(image["src"].split(",")[1]))).size == (128, 96)
    assert "class" not in image


def test_a_page_with_noisy_strips_can_be_mailed(result: Result, tmp_path: Path) -> None:
    del result.lines[1:]
    strips = [Strip(name, clip(16, 112)) for name in ("identity", "downsample", "blur", "pixelate", "noise")]
    page(result, tmp_path, strips=strips * 2)  # noise is the worst case: no frame of a camera compresses as badly
    assert (tmp_path / "report.html").stat().st_size < 1_500_000


@pytest.mark.parametrize("frames", [clip().float(), clip()[0], clip()[:, :1], clip()[:0]])
def test_a_strip_is_a_clip(frames: torch.Tensor) -> None:
    with pytest.raises(ValueError, match=r"uint8 \(T, 3, H, W\)"):
        Strip("x", frames)


def test_a_page_that_cannot_be_written_leaves_nothing(result: Result, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    target.mkdir()
    with pytest.raises(SfumatoError, match="cannot write"):
        write_report(result, target)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
