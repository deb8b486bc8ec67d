"""The one command, `sfumato`. Heavy imports happen inside the commands, so that `--help` answers at once."""

from __future__ import annotations

import errno
import sys
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from sfumato.commands.groups import data_sets, features, index
from sfumato.commands.options import (  # fmt: skip
    DeviceOption,
    JsonOption,
    ReportOption,
    RunsOption,
    SeedsOption,
    StrictOption,
    VersionOption,
    named,
)
from sfumato.commands.places import check_places
from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from sfumato.commands.judge import Judged


class _Interruptible(TyperGroup):
    """Ctrl-C says in one line what it left; Typer on its own ends silently, or as "Aborted", depending on its version."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # a command that knows better says what is left
            left = str(stop) or "finished parts are kept, run the same command to go on"
            print(f"stopped: {left}", file=sys.stderr)
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=_Interruptible,
    help="Train, attack, certify and deploy video anonymizers: who a person is dissolves, what they do stays.",
    no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False,
)  # fmt: skip
app.add_typer(features, name="features")
app.add_typer(index, name="index")
app.add_typer(data_sets, name="data")


@app.callback()
def options(version: VersionOption = False) -> None:
    """What is asked of the command itself."""


class Listed(str, Enum):
    methods = "methods"
    anonymizers = "anonymizers"
    datasets = "datasets"
    recognizers = "recognizers"
    attacks = "attacks"
    protocols = "protocols"


class Audio(str, Enum):
    drop = "drop"
    keep = "keep"


class Suite(str, Enum):
    quick = "quick"
    full = "full"


class DetectorName(str, Enum):
    faces = "faces"
    people = "people"


@app.command("list")
def list_command(
    what: Annotated[Listed | None, typer.Argument(help="of each kind how many, unless one is named")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="an array of {name, summary}, of anonymizers knobs too; or {name, count}")
    ] = False,
) -> None:
    """What there is: methods, anonymizers, data sets, recognizers, attacks, protocols."""
    from sfumato.commands.listing import show_counts, show_inventory

    if what:
        show_inventory(what.value, as_json)
    else:
        show_counts([kind.value for kind in Listed], as_json)


@app.command()
def anonymize(
    sources: Annotated[list[str], typer.Argument(help="files, folders or globs", metavar="SOURCE")],
    output: Annotated[Path | None, typer.Option("-o", "--out", help="a file for one video, a folder for more")] = None,
    using: Annotated[str, typer.Option("--with", help="an anonymizer's name or folder", callback=named)] = "blur",
    strength: Annotated[
        float | None, typer.Option(help="of the anonymizer's first knob: see `sfumato list anonymizers`")
    ] = None,
    audio: Annotated[Audio, typer.Option(help="sound tells who speaks: dropped unless kept")] = Audio.drop,
    detector: Annotated[
        DetectorName | None, typer.Option(help="finds whom to hide, for the *-people anonymizers")
    ] = None,
    checkpoint: Annotated[str | None, typer.Option(help="the detector's Hugging Face folder or id")] = None,
    mask: Annotated[
        Path | None, typer.Option(help="also write which patches were kept (white), of one video; laf, stprivacy")
    ] = None,
    overwrite: Annotated[bool, typer.Option(help="replace outputs that exist")] = False,
    device: DeviceOption = "auto",
) -> None:
    """Write anonymized copies of videos. Sound and metadata are dropped; nothing unobscured is ever written."""
    try:
        from sfumato.commands.anonymize import anonymize_videos

        anonymize_videos(
            sources, output, using, strength=strength, audio=audio.value, detector=detector.value if detector else None,
            checkpoint=checkpoint, mask=mask, overwrite=overwrite, device=device,
        )  # fmt: skip
    except KeyboardInterrupt as stop:
        raise KeyboardInterrupt(str(stop) or "nothing was written, the same command begins anew") from None


@app.command()
def train(
    method: Annotated[
        str | None, typer.Argument(help="see `sfumato list methods`; or vlm, encoder", metavar="METHOD")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", help="theatre:small unless the recipe says otherwise")] = None,
    privacy_data: Annotated[
        str | None, typer.Option(help="clips the adversary (f_B) learns to read people from; --data unless given")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option(help="a TOML file of settings, such as recipes/spact-paper.toml")
    ] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="key=value; repeat to set several")] = None,
    folder: Annotated[Path | None, typer.Option("--out", help="the run folder; runs/METHOD unless given")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="go on where a stopped run stands")] = False,
    seed: Annotated[int, typer.Option(help="of all weights and draws")] = 0,
    strict: StrictOption = False,
    device: DeviceOption = "auto",
    devices: Annotated[int, typer.Option(min=1, help="processes; each takes a batch of its own")] = 1,
) -> None:
    """Train an anonymizer by one of the papers' methods. What comes out is for `sfumato judge` to judge.

    `sfumato train encoder` teaches a video encoder that splavu can work behind, by drawn motions.

    `sfumato train vlm` teaches the small vision-language model that laf and zero-shot need, by drawn clips and captions.
    """
    from sfumato.commands.outcome import show_run
    from sfumato.commands.train import train_method

    try:
        run = train_method(
            method, data, privacy_data=privacy_data, recipe=recipe, settings=settings or (), folder=folder,
            resume=resume, seed=seed, strict=strict, device=device, devices=devices,
        )  # fmt: skip
    except KeyboardInterrupt:
        print("stopped: run the same command with --resume to go on", file=sys.stderr)
        raise typer.Exit(130) from None
    show_run(run)


@app.command()
def judge(
    ctx: typer.Context,
    anonymizers: Annotated[
        list[str],
        typer.Argument(
            help="names (downsample:factor=16) or folders; or a result's JSON, to check it",
            metavar="ANONYMIZER",
            callback=named,
        ),
    ],
    data: Annotated[
        str,
        typer.Option(
            "--data", help="theatre, theatre:small, manifest:PATH/index.csv, folder:PATH; 'A + B': cross-dataset"
        ),
    ] = "theatre:small",
    protocol: Annotated[str, typer.Option("--protocol", help="see `sfumato list protocols`")] = "known",
    seeds: SeedsOption = 1,
    models: Annotated[str, typer.Option(help="tiny (a laptop) or standard (a GPU); auto: by the device")] = "auto",
    video_model: Annotated[str, typer.Option(help="another recognizer for whole clips, such as i3d-r50")] = "",
    frame_model: Annotated[str, typer.Option(help="another recognizer for frames, such as resnet-50")] = "",
    vlm: Annotated[str, typer.Option(help="who reads the action zero-shot: xclip:…, actionclip:…, a folder")] = "",
    prompts: Annotated[
        list[str] | None, typer.Option("--prompts", help="such as 'a person is {}'; repeat to average several")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="epochs of every training")] = None,
    views: Annotated[
        int | None, typer.Option(min=1, help="clips of a video that are averaged; 3 of files, else 1")
    ] = None,
    crops: Annotated[int, typer.Option(min=1, help="crops of a clip that are averaged when testing, such as 3")] = 1,
    attack: Annotated[list[str] | None, typer.Option("--attack", help="only these; repeat to name several")] = None,
    effort: Annotated[str, typer.Option(help="quick, standard or thorough: how many attackers, how long")] = "standard",
    strict: StrictOption = False,
    json_file: JsonOption = None,
    report: ReportOption = None,
    runs: RunsOption = Path("runs"),
    device: DeviceOption = "auto",
) -> None:
    """Judge frozen anonymizers: fresh action and attack models are trained on anonymized video, raw always beside.

    `sfumato judge RESULT.json` judges nothing: it shows a stored result again, if nobody has edited it since.
    """
    check_places(json_file, report)
    from sfumato.commands.judge import judge_anonymizers, stored_result

    judged = stored_result(anonymizers, _given(ctx, but=("json_file", "report"))) or judge_anonymizers(
        anonymizers, data, protocol=protocol, seeds=seeds, models=models, video_model=video_model, frame_model=frame_model,
        vlm=vlm, prompts=prompts or (), epochs=epochs, views=views, crops=crops, attacks=attack, effort=effort,
        strict=strict, runs=runs, device=device,
    )  # fmt: skip
    _show(judged, json_file, report)


@app.command()
def benchmark(
    suite: Annotated[Suite, typer.Option(help="quick: minutes on a laptop; full: hours on a GPU")] = Suite.quick,
    data: Annotated[
        list[str] | None, typer.Option("--data", help="full: theatre:small unless given; repeat to name several")
    ] = None,
    seeds: SeedsOption = 1,
    lanes: Annotated[int, typer.Option(min=1, help="full: processes side by side on the one device")] = 1,
    json_file: JsonOption = None,
    report: ReportOption = None,
    runs: RunsOption = Path("runs"),
    device: DeviceOption = "auto",
) -> None:
    """Every anonymizer before the same judge, in one table.

    quick: those that need no training, and those shipped for drawn people. full: every method is trained too, finished
    parts are kept, and the leaderboard is written: benchmarks/results/leaderboard.csv, docs/leaderboard.md.
    """
    check_places(json_file, report)
    from sfumato.commands.judge import run_quick_suite

    if suite is Suite.full:
        from sfumato.commands.leaderboard import run_leaderboard

        run_leaderboard(
            data or [], seeds=seeds, lanes=lanes, runs=runs, device=device, json_file=json_file, report=report
        )
        return
    if data or lanes > 1:
        raise SfumatoError("the quick suite has data of its own and one lane", "use --suite full")
    _show(run_quick_suite(seeds=seeds, runs=runs, device=device), json_file, report)


@app.command(context_settings={"allow_extra_args": True})  # more than one name is answered below
def certify(
    context: typer.Context,
    anonymizer: Annotated[
        str,
        typer.Argument(
            help="a name or folder; or a certificate's JSON, to check it", metavar="ANONYMIZER", callback=named
        ),
    ],
    footage: Annotated[Path | None, typer.Option("--footage", help="a folder; each video is one recording")] = None,
    labels: Annotated[
        Path | None, typer.Option("--labels", help="a CSV with a column path; action, person, attributes are used too")
    ] = None,
    effort: Annotated[str, typer.Option(help="quick, standard or thorough: how many attackers, how long")] = "standard",
    recordings: Annotated[
        int | None,
        typer.Option(min=1, help="how many are used at most; 1000 on a CPU, 1500 on a GPU; of unnamed people 60, 300"),
    ] = None,
    seeds: SeedsOption = 1,
    json_file: JsonOption = None,
    report: Annotated[Path | None, typer.Option("--report", help="also write two pages as self-contained HTML")] = None,
    runs: RunsOption = Path("runs"),
    device: DeviceOption = "auto",
) -> None:
    """What an attacker could still learn from your own footage: two pages for whoever answers for it."""
    if more := context.args:
        told = f"certify takes one anonymizer, and there is '{more[0]}' too"
        raise SfumatoError(told, f"name recordings by --footage {more[0]}")
    check_places(json_file, report)
    from sfumato.commands.certify import certify_footage, show_certificate

    certificate = certify_footage(
        anonymizer, footage, labels, effort=effort, seeds=seeds, runs=runs, device=device, recordings=recordings
    )
    show_certificate(certificate, json_file, report)


@app.command()
def claims(
    only: Annotated[list[str] | None, typer.Option("--only", help="such as S5; repeat to name several")] = None,
    run: Annotated[bool, typer.Option("--run", help="train and judge what is missing first")] = False,
    seeds: Annotated[int, typer.Option(min=1, help="with --run: trainings of every trial; one decides nothing")] = 3,
    lanes: Annotated[
        int | None,
        typer.Option(
            min=1, help="with --run: processes side by side; one for each CPU core, or one on a GPU, unless given"
        ),
    ] = None,
    keep_older: Annotated[
        bool, typer.Option("--keep-older", help="with --run: only what is missing or has not met all attackers yet")
    ] = False,
    json_file: JsonOption = None,
    page: Annotated[Path | None, typer.Option("--page", help="also write the ledger as Markdown to this file")] = None,
    report: ReportOption = None,
    runs: RunsOption = Path("runs/claims"),
    device: DeviceOption = "auto",
) -> None:
    """The papers' claims, each tested: holds, refuted or undecided, with the numbers."""
    check_places(json_file, page, report)
    from sfumato.commands.claims import show_claims

    show_claims(
        only or [], run=run, seeds=seeds, device=device, lanes=lanes, keep_older=keep_older, runs=runs,
        json_file=json_file, page=page, report=report,
    )  # fmt: skip


@app.command()
def reproduce(
    recipe: Annotated[str, typer.Argument(help="a name in recipes/published, or a file", metavar="RECIPE")],
    data_root: Annotated[Path | None, typer.Option(help="the folder with a folder for each data set")] = None,
    device: Annotated[
        str, typer.Option("--device", help="auto, cpu or cuda; to plan for a GPU, its name: a100")
    ] = "auto",
    folder: Annotated[Path, typer.Option("--out", help="where trainings are kept and reused from")] = Path(
        "runs/reproduce"
    ),
    strict: StrictOption = False,
    json_file: JsonOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="show data, steps, time and memory; do nothing")] = False,
    smoke: Annotated[bool, typer.Option("--smoke", help="every step on generated files, in two minutes")] = False,
) -> None:
    """Train and judge as a paper's table was made, and print ours beside the paper's numbers."""
    from sfumato.commands.reproduce import reproduce as run

    run(
        recipe, data_root=data_root, device=device, folder=folder, strict=strict, json_file=json_file, dry_run=dry_run,
        smoke=smoke,
    )  # fmt: skip


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--out", help="where the pictures, videos and the report go")] = Path("demo"),
    device: DeviceOption = "cpu",
) -> None:
    """The whole story on embedded data, in minutes, on a laptop."""
    from sfumato.commands.demo import run_demo

    run_demo(folder, device)


@app.command()
def doctor(as_json: Annotated[bool, typer.Option("--json", help="what was found, as JSON")] = False) -> None:
    """What this machine has, what is missing, and how to get it."""
    from sfumato.commands.doctor import examine_machine

    if not examine_machine(as_json):
        raise typer.Exit(2)


def _given(ctx: typer.Context, but: tuple[str, ...]) -> list[str]:
    """The options on the command line, as they are spelled there; without those named."""
    options = {p.name or "": p.opts[0] for p in ctx.command.params if p.opts[0].startswith("-")}
    sources = {name: ctx.get_parameter_source(name) for name in options if name not in but}
    return [options[name] for name, source in sources.items() if source and source.name == "COMMANDLINE"]


def _show(judged: Judged, json_file: Path | None, report: Path | None) -> None:
    from sfumato.commands.console import out, say
    from sfumato.report import render_table, write_report

    out.print(render_table(judged.result))
    if json_file:
        judged.result.save(json_file)
        say(f"result: {json_file}")
    if report:
        write_report(judged.result, report, strips=judged.strips())
        say(f"report: {report}")


def main() -> None:
    """Run the command; a mistake the user can mend is one line and exit code 2, never a traceback."""
    try:
        app()
    except SfumatoError as error:
        if error.left_out:
            from sfumato.commands.console import say_left_out

            say_left_out(error.left_out)
        _fail(str(error))
    except OSError as error:
        where = f" '{error.filename}'" if error.filename else ""
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            _fail("no space left on the disk: free some and run again")
        if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
            _fail(f"not allowed to write{where}: choose another place")
        if where:  # a folder that is a file, a name too long; without a name it is no mistake of the user's
            _fail(f"cannot use{where} ({error.strerror}): choose another place")
        raise


def _fail(message: str) -> None:
    print(f"error: {message}", file=sys.stderr)
    sys.exit(2)
