"""The command line parses arguments, calls the library and prints.

Data goes to stdout, words to stderr. Exit codes: 0 done, 1 the run failed, 2 bad usage (one line on stderr), 130
stopped by Ctrl-C. Nothing heavy is imported before a command needs it: `antidote --help` imports no torch.
"""

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from antidote_learn._version import __version__
from antidote_learn.cli import options as given
from antidote_learn.cli.audit_commands import apply, audit
from antidote_learn.cli.compare_command import compare
from antidote_learn.cli.escaping import print_data, say
from antidote_learn.cli.failures import failures
from antidote_learn.cli.flags import with_flags
from antidote_learn.cli.reproduce_command import report, reproduce

app = typer.Typer(
    name="antidote",
    help="Learning from labels that cannot be trusted.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
# The base class of all usage errors; older versions of typer export only its subclasses.
_UsageError: type[typer.BadParameter] = typer.BadParameter.__mro__[1]


def main() -> int:
    """Runs the program and returns its exit code."""
    try:
        return app(prog_name="antidote", standalone_mode=False) or 0
    except _UsageError as error:  # typer or a command below raised it
        say(f"antidote: {error.format_message()}", err=True)
        return error.exit_code
    except typer.Abort:
        return 1


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"antidote-learn {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _show_help(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command()
@given.take_training
def train(
    data: given.Data,
    method: Annotated[
        str | None, typer.Option(help="Method with parameters, e.g. ce or antidote:kappa=0.", show_default="antidote")
    ] = None,
    noise: Annotated[str, typer.Option(help="Noise to add to the training labels, e.g. symmetric:0.4.")] = "none",
    noise_rate: Annotated[str, typer.Option(help="Share of wrong labels, or auto to estimate it.")] = "auto",
    delta: Annotated[float | None, typer.Option(help="Budget of forgetting, instead of a rate.")] = None,
    penalty: Annotated[float | None, typer.Option(help="Price of forgetting, instead of a rate.")] = None,
    *,
    training: given.TrainingOptions,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and augmentation.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The run's folder (default: a name under runs).")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the run in the folder.")] = False,
    nodes: Annotated[int, typer.Option(help="Number of machines.")] = 1,
    figures: Annotated[bool, typer.Option("--figures", help="Draw the run's figures into its folder.")] = False,
    quiet: given.Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Train a network on labels that cannot be trusted."""
    with failures():
        from antidote_learn.cli.reporters import reporter_for
        from antidote_learn.training.resolve import Request, resolve_request

        asked: dict[str, Any] = {
            "method": method,
            "noise": noise,
            "noise_rate": _rate_argument(noise_rate),
            "delta": delta,
            "penalty": penalty,
            "seed": seed,
            "out": out,
            "resume": resume,
            "nodes": nodes,
            "reporter": reporter_for(quiet=quiet),
            **training.arguments,
        }
        resolved = resolve_request(Request(data, **asked))
        from antidote_learn.training.engine import Engine  # imported only now, as it takes seconds
        from antidote_learn.training.runs import carry_out

        done = carry_out(resolved)
        engine = Engine(devices=training.devices, nodes=nodes)
        if not engine.is_first:  # torchrun or a cluster started this process beside the first
            return
        if figures or "transition" in done.summary:
            from antidote_learn.bench.plots import draw_figures, draw_transition

            for path in draw_figures(done) if figures else draw_transition(done):
                say(f"figure: {path}", err=True)
    _print_summary(done.summary, as_json)


app.command()(audit)
app.command()(apply)
app.command()(compare)
app.command()(reproduce)
app.command()(report)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run.")],
    data: Annotated[str, typer.Argument(help="Data like that of training; a built-in name means its test part.")],
    out: Annotated[Path | None, typer.Option(help="A .csv or .parquet file (default: CSV on stdout).")] = None,
    which: Annotated[str, typer.Option(help="Model of which epoch: last or best.")] = "last",
    model: Annotated[
        str | None, typer.Option(help="The run's own network, package.module:factory, if it is none of the package.")
    ] = None,
    data_root: given.DataRoot = None,
    encoding: given.Encoding = None,
    separator: given.Separator = None,
    decimal: given.Decimal = None,
    quiet: given.Quiet = False,
) -> None:
    """Predict labels and probabilities with a trained run."""
    with failures():
        from antidote_learn.cli.reporters import reporter_for
        from antidote_learn.data.text_forms import text_form
        from antidote_learn.training.predictions import (
            check_output_file,
            predict_table,
            predictions_text,
            write_predictions,
        )

        form = text_form(encoding, separator, decimal)
        if out is not None:
            check_output_file(out)
        note = reporter_for(quiet=quiet).note
        table = predict_table(run, data, which=which, model=model, root=data_root, form=form, note=note)
        if out is None:
            print_data(predictions_text(table))
        else:
            write_predictions(table, out)
            say(f"{len(table)} predictions in {out}", err=True)


@app.command("list")
def list_names(
    kind: Annotated[
        str,
        typer.Argument(
            help="The kind of names to list.", metavar="{methods|data|models|protocols|noise|losses|divergences}"
        ),
    ],
    preset: Annotated[str | None, typer.Option(help="With losses: the paper's rows on this data set.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List what can be chosen by name; docs/methods.md and docs/losses.md say more about methods and losses."""
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


def _rate_argument(text: str) -> float | str:
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
    from antidote_learn.training.specs import label_sentence

    accuracy = summary["accuracy"]
    if label := label_sentence(summary):
        say(with_flags(label))
    what = "accuracy" if accuracy["against"] == "clean" else "agreement with the given labels"
    say(
        f"{summary['method']} on {summary['data']}: {what} {accuracy['last']:.2f} % in the last epoch, "
        f"{accuracy['best']:.2f} % in epoch {accuracy['best_epoch']}, the best on these test samples (optimistic)"
    )
    say(f"run: {summary['out']}", err=True)
