"""The command line: parse, call, print.

Data goes to stdout, words to stderr. Exit codes: 0 done, 1 the run failed, 2 bad usage (one line on stderr), 130
stopped by Ctrl-C. Nothing heavy is imported before a command needs it: `antidote --help` imports no torch.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from antidote_learn._version import __version__
from antidote_learn.cli import options as given
from antidote_learn.cli.auditing import apply, audit
from antidote_learn.cli.comparing import compare
from antidote_learn.cli.escaping import print_data, say
from antidote_learn.cli.failures import failures

app = typer.Typer(
    name="antidote",
    help="Learning from labels that cannot be trusted.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The class of every bad usage; older versions of typer export only those derived from it.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]


def main() -> int:
    """Runs the program and returns its exit code."""
    try:
        return app(prog_name="antidote", standalone_mode=False) or 0
    except _UsageError as error:  # found by typer or by a command below
        say(f"antidote: {error.format_message()}", err=True)
        return error.exit_code
    except typer.Abort:
        return 1


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antidote-learn {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
def train(
    data: given.Data,
    method: Annotated[
        str | None, typer.Option(help="Method with parameters, e.g. ce or antidote:kappa=0.", show_default="antidote")
    ] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Folder of an audit of this data, to train on its labels.")
    ] = None,
    noise: Annotated[str, typer.Option(help="Noise to add to the training labels, e.g. symmetric:0.4.")] = "none",
    noise_seed: Annotated[int | None, typer.Option(help="Seed of that noise (default: --seed).")] = None,
    noise_rate: Annotated[str, typer.Option(help="Share of wrong labels, or auto to estimate it.")] = "auto",
    delta: Annotated[float | None, typer.Option(help="Budget of forgetting, instead of a rate.")] = None,
    penalty: Annotated[float | None, typer.Option(help="Price of forgetting, instead of a rate.")] = None,
    label: given.Label = None,
    text: given.Text = None,
    image: given.Image = None,
    text_features: given.TextFeatures = "tfidf",
    test: given.Test = None,
    subset: given.Subset = None,
    model: given.Model = None,
    protocol: given.Protocol = None,
    epochs: given.Epochs = None,
    batch_size: given.BatchSize = None,
    lr: given.Rate = None,
    optimizer: given.Optimizer = None,
    weight_decay: given.WeightDecay = None,
    schedule: given.Schedule = None,
    warmup: given.Warmup = None,
    clip: given.Clip = None,
    augment: given.Augment = True,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and augmentation.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: a name under runs).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    devices: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    nodes: Annotated[int, typer.Option(help="Machines.")] = 1,
    precision: Annotated[str, typer.Option(help="32, bf16 or 16.")] = "32",
    workers: Annotated[int, typer.Option(help="Threads that decode image files.")] = 2,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    strict: given.Strict = False,
    figures: Annotated[bool, typer.Option("--figures", help="Draw the run's figures into its folder.")] = False,
    quiet: given.Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train a network on labels that cannot be trusted."""
    with failures():
        from antidote_learn.cli.reporters import reporter_for
        from antidote_learn.training.engine import Engine
        from antidote_learn.training.runs import train as run

        done = run(
            data,
            method=method,
            labels=labels,
            noise=noise,
            noise_seed=noise_seed,
            noise_rate=_rate(noise_rate),
            delta=delta,
            penalty=penalty,
            label=label,
            text=tuple(text or ()),
            image=image,
            text_features=text_features,
            test=test,
            subset=subset,
            model=model,
            protocol=protocol,
            epochs=epochs,
            batch_size=batch_size,
            lr=lr,
            optimizer=optimizer,
            weight_decay=weight_decay,
            schedule=schedule,
            warmup=warmup,
            clip=clip,
            augment=augment,
            seed=seed,
            out=out,
            resume=resume,
            devices=devices,
            nodes=nodes,
            precision=precision,
            workers=workers,
            data_root=data_root,
            download=download,
            strict=strict,
            reporter=reporter_for(quiet=quiet),
        )
        if not Engine(devices=devices, nodes=nodes).is_first:  # torchrun or a cluster has started it beside the first
            return
        if figures:
            from antidote_learn.bench.plots import draw_figures

            for path in draw_figures(done):
                say(f"figure: {path}", err=True)
    _print_summary(done.summary, as_json)


app.command()(audit)
app.command()(apply)
app.command()(compare)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[str, typer.Argument(help="Data like that of training; a built-in name means its test part.")],
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file (default: CSV on stdout).")] = None,
    which: Annotated[str, typer.Option(help="The model of the last or of the best epoch.")] = "last",
    model: Annotated[
        str | None, typer.Option(help="The run's network, package.module:factory, where it is none of the package.")
    ] = None,
    data_root: given.DataRoot = None,
) -> None:
    """Predict labels and probabilities with a trained run."""
    with failures():
        from antidote_learn.training.predictions import check_target, predicted, predictions_text, write_predictions

        if out is not None:
            check_target(out)
        table = predicted(run, data, which=which, model=model, root=data_root)
        if out is None:
            print_data(predictions_text(table))
        else:
            write_predictions(table, out)
            say(f"{len(table)} predictions in {out}", err=True)


@app.command("list")
def list_names(
    kind: Annotated[
        str, typer.Argument(help="What to list.", metavar="{methods|data|models|protocols|noise|losses|divergences}")
    ],
    preset: Annotated[str | None, typer.Option(help="With losses: the paper's rows on this data set.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what can be chosen by name."""
    from antidote_learn.cli.lists import LISTS, preset_losses, print_table

    if kind not in LISTS:
        raise typer.BadParameter(f"cannot list {kind!r}; choose from: {', '.join(LISTS)}")
    if preset is not None and kind != "losses":
        raise typer.BadParameter(f"--preset belongs to `antidote list losses`, not to {kind!r}")
    with failures():
        rows = LISTS[kind]() if preset is None else preset_losses(preset)
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        print_table(rows)


def _rate(text: str) -> float | str:
    if text in ("auto", "injected"):
        return text
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--noise-rate must be auto, injected or a number in [0, 1), got {text!r}") from error


def _print_summary(summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(summary, indent=2))
        return
    accuracy = summary["accuracy"]
    what = "accuracy" if accuracy["against"] == "clean" else "agreement with the given labels"
    say(
        f"{summary['method']} on {summary['data']}: {what} {accuracy['last']:.2f} % in the last epoch, "
        f"{accuracy['best']:.2f} % in epoch {accuracy['best_epoch']}, the best on these test samples (optimistic)"
    )
    say(f"run: {summary['out']}", err=True)
