"""Recipes of published experiments: what was trained on what, how it was judged, and the numbers that were printed.

paper = "SPAct"
method = "spact"                       # or anonymizers = ["downsample:factor=2"], where nothing is trained
not_yet = "why it cannot be run"       # only where that is so
bring = "what nobody can make here"    # features of an encoder that is not here, say: who has them can run it

[data]                                 # NAME:FOLDER?OPTIONS, folders under the data root
action = "ucf101:ucf101?frames=16"
privacy = "vispr:vispr?subset=1"

[config]                               # all settings of the method

[[judge]]                              # one for every judgement
protocol = "cross-dataset"
data = "ucf101:ucf101?frames=16"

[judge.published]
table = "Table 1"
raw = { top-1 = 62.33 }                # a row: metric and number, as printed
trained = { top-1 = 62.03 }            # "trained", or the name of an anonymizer
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, get_type_hints
from urllib.parse import parse_qsl

from sfumato.datasets import LISTED
from sfumato.datasets.prepared import check_small, is_packed, packed_as
from sfumato.errors import SfumatoError
from sfumato.registry import unknown_name
from sfumato.training.options import read_toml

RAW, TRAINED, CHANCE = "raw", "trained", "random chance"
FEATURES = "features"
# How the metrics of a judgement are called; of one attribute, or tags of one kind, its name follows: "cMAP face".
METRICS = ("top-1", "cMAP", "F1", "macro-F1")
# And of a judgement of features, besides.
LATENT_METRICS = ("mAP", "AUC", "R@1", "R@5", "R@10", "gap")
ROLES = ("action", "privacy", "detection", "anomaly")
FOLDER = Path("recipes") / "published"


@dataclass(frozen=True)
class Published:
    """What a paper printed: rows by the name of an anonymizer, each a number per metric, in the paper's own unit.

    shares: the metrics that are shares of 1 there; all others but F1 are percent. lost: why a number is not here.
    """

    table: str
    rows: dict[str, dict[str, float]]
    shares: tuple[str, ...] = ()
    lost: str = ""


@dataclass(frozen=True)
class Judgement:
    """One judgement: the protocol's name, its data, and what `JudgeConfig` takes. not_yet: why nobody can do it here.

    epochs: 0 is what the protocol holds for enough. attacks: of features, the one reading that was published.
    """

    published: Published
    protocol: str = ""
    data: str = ""
    privacy_data: str = ""
    video_model: str = ""
    frame_model: str = ""
    vlm: str = ""
    not_yet: str = ""
    epochs: int = 0
    views: int = 1
    crop: float = 1.0
    crops: int = 1
    seeds: int = 1
    attacks: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()


@dataclass(frozen=True)
class PublishedRecipe:
    """A recipe as its file says it."""

    name: str
    paper: str
    method: str = ""
    anonymizers: tuple[str, ...] = ()
    not_yet: str = ""
    bring: str = ""
    data: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    judge: tuple[Judgement, ...] = ()

    def settings(self) -> list[str]:
        """`[config]` the way `--set` takes it.

        >>> PublishedRecipe("a", "SPAct", config={"grey": False}).settings()
        ['grey=false']
        """
        return [f"{key}={str(v).lower() if isinstance(v, bool) else v}" for key, v in self.config.items()]

    def data_names(self) -> list[str]:
        """Every data set that is needed, for training and for judging, once."""
        judged = (name for judge in self.judge if not judge.not_yet for name in (judge.data, judge.privacy_data))
        return list(dict.fromkeys(name for name in (*self.data.values(), *judged) if name))


def find_recipe(name: str) -> Path:
    """The file that a path or the name of a published recipe stands for.

    >>> find_recipe("spact-ucf101-vispr1").name  # doctest: +SKIP
    'spact-ucf101-vispr1.toml'
    """
    if Path(name).is_file():
        return Path(name)
    folder = next((place for place in _places() if place.is_dir()), FOLDER)
    known = sorted(path.stem for path in folder.glob("*.toml"))
    stem = Path(name).name.removesuffix(".toml")
    if stem in known and name in (stem, f"{stem}.toml"):
        return folder / f"{stem}.toml"
    near = difflib.get_close_matches(stem, known, n=3, cutoff=0.4)
    guess = f"did you mean {' or '.join(near)}? " if near else ""
    raise SfumatoError(f"there is no recipe '{name}'", f"{guess}name a TOML file, or one of those in {folder}")


def _places() -> Iterator[Path]:
    """Where published recipes lie: below the working folder, or beside the source."""
    yield FOLDER
    yield Path(__file__).parents[3] / FOLDER


def read_published(path: Path) -> PublishedRecipe:
    """The recipe in a file; what is wrong in it is named by its place.

    >>> read_published(Path("recipes/published/spact-ucf101-vispr1.toml")).method  # doctest: +SKIP
    'spact'
    """
    content = read_toml(path)
    try:
        judges = content.pop("judge", [])
        if not isinstance(judges, list) or not judges:
            raise SfumatoError("there is no [[judge]]", "say how it is judged, and what was published")
        told = _fitting(
            PublishedRecipe, content | {"name": path.stem, "judge": (), "config": content.get("config", {})}
        )
        recipe = PublishedRecipe(**told | {"judge": tuple(_judgement(judge) for judge in judges)})
        _check(recipe)
    except SfumatoError as error:
        raise SfumatoError(f"in the recipe '{path}' {error.what}", error.next_step) from None
    return recipe


def _judgement(content: Any) -> Judgement:
    if not isinstance(content, dict) or not isinstance(content.get("published"), dict):
        raise SfumatoError("a [[judge]] has no [judge.published]", "write down what was published")
    told = dict(content)
    numbers = told.pop("published")
    about = {key: value for key, value in numbers.items() if not isinstance(value, dict)}
    rows = {key: value for key, value in numbers.items() if isinstance(value, dict)}
    for name, row in rows.items():
        for metric, value in row.items():
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise SfumatoError(f"{name}: {metric} = {value!r} does not fit", "copy the number as it was printed")
    published = Published(**_fitting(Published, about | {"rows": rows}))
    return Judgement(**_fitting(Judgement, told) | {"published": published})


@lru_cache
def _hints(kind: type) -> dict[str, Any]:
    """Working them out takes longer than all else about a recipe."""
    return get_type_hints(kind)


def _fitting(kind: type, content: Mapping[str, Any]) -> dict[str, Any]:
    """Keys that `kind` knows with values of the right type; lists become tuples."""
    hints = _hints(kind)
    known = [entry.name for entry in fields(kind)]
    found = {}
    for key, value in content.items():
        if key not in known:
            raise unknown_name("key", key, known)
        wanted = hints[key]
        value = tuple(value) if isinstance(value, list) else value
        base = getattr(wanted, "__origin__", wanted)
        right = isinstance(value, base) and not (base is int and isinstance(value, bool))
        if not right or (base is tuple and not all(isinstance(word, str) for word in value)):
            raise SfumatoError(f"{key} = {value!r} does not fit", f"make it {_WORDS.get(base, 'text')}")
        found[key] = value
    for entry in ("paper", "table"):
        if entry in known and entry not in found:
            raise SfumatoError(f"{entry} is not said", "name the paper, and of every judgement the table")
    return found


_WORDS: dict[Any, str] = {int: "a whole number", dict: "a table", tuple: "a list of words"}


def _check(recipe: PublishedRecipe) -> None:
    """What must fit together."""
    if bool(recipe.method) == bool(recipe.anonymizers):
        raise SfumatoError("there must be a method or anonymizers", "name what is trained, or what is judged untrained")
    if recipe.method and "action" not in recipe.data:
        raise SfumatoError("[data] names no action", 'write action = "ucf101:ucf101?frames=16", say')
    for role in recipe.data:
        if role not in ROLES:
            raise unknown_name("data", role, list(ROLES))
    every = (*recipe.data.values(), *(n for j in recipe.judge for n in (j.data, j.privacy_data) if n))
    for name in every:
        kind, colon, rest = name.partition(":")
        if not colon or not rest.partition("?")[0]:
            raise SfumatoError(f"'{name}' is no data set", "write NAME:FOLDER, and options behind a question mark")
        if kind != FEATURES and kind not in LISTED:
            raise unknown_name("data set", kind, [*LISTED, FEATURES])
    for judge in recipe.judge:
        if not judge.not_yet and not (judge.protocol and judge.data):
            raise SfumatoError("a [[judge]] needs protocol and data", "name both, or say in not_yet why there are none")
        if not judge.published.rows and not judge.published.lost:
            raise SfumatoError(f"no number of {judge.published.table} is here", "copy them, or say in lost why not")


def under(name: str, root: Path) -> str:
    """A data set's name with its folder under `root`; where that holds shards, theirs, if they are of this data set.

    >>> under("vp-ucf101:ucf101?split=1", Path("/data"))
    'vp-ucf101:/data/ucf101?split=1'
    """
    kind, _, rest = name.partition(":")
    folder, question, options = rest.partition("?")
    if kind in LISTED and is_packed(root / folder):
        return packed_as(kind, root / folder, options)
    return f"{kind}:{root / folder}{question}{options}"


def data_label(name: str) -> str:
    """What a data set is called in a table; features by what they are of.

    >>> data_label("vp-ucf101:ucf101?split=1"), data_label("features:videomae-b/hmdb51")
    ('vp-ucf101', 'hmdb51')
    """
    kind, _, rest = name.partition(":")
    return rest.rpartition("/")[2] if kind == FEATURES else kind


def folder_of(name: str, root: Path) -> Path:
    """The folder of a data set under `root`.

    >>> folder_of("vp-ucf101:ucf101?split=1", Path("/data")).name
    'ucf101'
    """
    return root / name.partition(":")[2].partition("?")[0]


def where_to_get(name: str) -> str:
    """Where a data set's files are to be had.

    >>> where_to_get("ucf101:ucf101")[:12]
    'crcv.ucf.edu'
    """
    kind = name.partition(":")[0]
    if kind == FEATURES:
        return "`sfumato features extract`: the recipe's header has the command"
    return LISTED[kind].get_from


def require_data(recipe: PublishedRecipe, root: Path) -> None:
    """Stop where a data set's folder is missing, or was prepared for something else, and say what to get where.

    >>> require_data(PublishedRecipe("a", "SPAct"), Path("/data"))
    """
    missing = [name for name in recipe.data_names() if not folder_of(name, root).is_dir()]
    if missing:
        first = missing[0]
        more = f" (and {len(missing) - 1} more: --dry-run lists them)" if len(missing) > 1 else ""
        get = f"put the videos there, and the label files from {where_to_get(first)}"
        if first.startswith(f"{FEATURES}:"):
            get = f"bring {recipe.bring}" if recipe.bring else f"make it by {where_to_get(first)}"
        raise SfumatoError(f"{data_label(first)} is not there: no folder '{folder_of(first, root)}'{more}", get)
    for name in recipe.data_names():
        check_small(folder_of(name, root), int(dict(parse_qsl(under(name, root).partition("?")[2])).get("size", 0)))
