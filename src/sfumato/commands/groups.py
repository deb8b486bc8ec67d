"""Commands that come in groups: `sfumato features|index|data …`. What they do is in files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfumato.commands.options import DeviceOption, JsonOption, StrictOption, named
from sfumato.commands.places import check_places
from sfumato.commands.prepare import prepare

features = typer.Typer(help="Features of a frozen encoder, on disk.", no_args_is_help=True)


@features.command("extract")
def extract_command(
    sources: Annotated[list[str], typer.Argument(help="files, folders, globs, or data sets by name", metavar="SOURCE")],
    encoder: Annotated[str, typer.Option(help="a folder or Hub id of VideoMAE, V-JEPA 2, …, or NAME:WEIGHTS")],
    output: Annotated[Path, typer.Option("-o", "--out", help="the folder they go into; run again to go on")],
    static: Annotated[int, typer.Option(min=0, help="static clips beside every clip")] = 2,
    frame_step: Annotated[int, typer.Option(min=1, help="every n-th frame makes a clip, of video files")] = 1,
    batch: Annotated[int, typer.Option(min=1, help="clips at a time")] = 8,
    strict: StrictOption = False,
    device: DeviceOption = "auto",
) -> None:
    """Clips of videos, one after another, through an encoder; nothing but vectors is kept."""
    from sfumato.commands.features import extract_features

    extract_features(
        sources, encoder, output, static=static, frame_step=frame_step, batch=batch, strict=strict, device=device
    )


@features.command("import")
def import_command(
    lists: Annotated[list[Path], typer.Argument(help="text files with one path of a .npy file a line", metavar="LIST")],
    labels: Annotated[Path, typer.Option(help="the folder of UCF-Crime's Anomaly_Train.txt and Temporal_Anomaly_…")],
    encoder: Annotated[str, typer.Option(help="who made them: a name, or the folder of a store of the same encoder")],
    output: Annotated[Path, typer.Option("-o", "--out", help="the folder they go into; run again to go on")],
    frames: Annotated[int, typer.Option(min=1, help="of a video in one row, where the encoder is a name")] = 16,
    strict: StrictOption = False,
) -> None:
    """Other people's features of UCF-Crime, a .npy file a video, into a folder as `extract` makes it."""
    from sfumato.commands.features import import_features

    import_features(lists, labels, encoder, output, frames=frames, strict=strict)


index = typer.Typer(help="A private index of videos: anonymized features only, to search in.", no_args_is_help=True)


@index.command("build")
def index_build_command(
    sources: Annotated[list[str], typer.Argument(help="files, folders or globs", metavar="VIDEOS")],
    output: Annotated[Path, typer.Option("-o", "--out", help="the folder of the index; run again to go on")],
    encoder: Annotated[
        str, typer.Option(help="as for `features extract`; with xclip:…, actionclip:… --text works too")
    ],
    adapter: Annotated[
        str, typer.Option("--with", help="the folder of an adapter, of `sfumato train splavu`", callback=named)
    ],
    strict: Annotated[bool, typer.Option("--strict", help="stop at the first video that cannot be read whole")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Keep the anonymized features of videos, and nothing else of them; those already there are left out."""
    from sfumato.commands.index import build_index

    build_index(sources, output, encoder, adapter, strict=strict, device=device)


@index.command("search")
def index_search_command(
    folder: Annotated[Path, typer.Argument(help="the folder of the index", metavar="DB")],
    like: Annotated[Path | None, typer.Option("--like", help="a video to find the likes of")] = None,
    text: Annotated[str | None, typer.Option("--text", help="a sentence, where the encoder reads them")] = None,
    top: Annotated[int, typer.Option(min=1, help="clips to answer with; those that touch are one span")] = 10,
    encoder: Annotated[str | None, typer.Option(help="where the index's encoder lies now, if it moved")] = None,
    adapter: Annotated[str | None, typer.Option("--with", help="where its adapter lies now, if it moved")] = None,
    json_file: JsonOption = None,
    device: DeviceOption = "auto",
) -> None:
    """The spans of the indexed videos that are most like a video, or a sentence: score, time, video."""
    check_places(json_file)
    from sfumato.commands.index import search_index

    search_index(
        folder, like=like, text=text, top=top, encoder_name=encoder, adapter_name=adapter, json_file=json_file,
        device=device,
    )  # fmt: skip


data_sets = typer.Typer(help="The papers' data sets, and your own.", no_args_is_help=True)


@data_sets.command("check")
def check_command(
    name: Annotated[str, typer.Argument(help="such as ucf101:PATH?split=1; see `sfumato list datasets`")],
    json_file: JsonOption = None,
) -> None:
    """Hold your copy of a data set against what was published; the exit code is 1 where they differ."""
    check_places(json_file)
    from sfumato.commands.data import check_data

    if not check_data(name, json_file):
        raise typer.Exit(1)


data_sets.command("prepare")(prepare)


@data_sets.command("stats")
def stats_command(
    name: Annotated[str, typer.Argument(help="any data set; of the papers' the label files are enough")],
    json_file: JsonOption = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="also draw the prevalences into this SVG file")] = None,
) -> None:
    """How often each private attribute occurs, and what a blind guess reaches."""
    check_places(json_file, plot)
    from sfumato.commands.data import show_stats

    show_stats(name, json_file, plot)
