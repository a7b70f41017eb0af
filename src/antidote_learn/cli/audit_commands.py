"""`antidote audit` finds wrong labels and prints a report; `antidote apply` carries out people's review of them."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from antidote_learn.cli import options as given
from antidote_learn.cli.escaping import escape_text, say
from antidote_learn.cli.failures import failures
from antidote_learn.cli.flags import with_flags

if TYPE_CHECKING:
    from antidote_learn.auditing.audit_result import Audit

SHOWN = (
    "label",
    "label_is_guess",
    "n",
    "estimated_errors",
    "interval",
    "noise_rate",
    "flagged",
    "why_wide",
    "look",
    "judges",
    "encoder",
    "features",
    "out",
)
WORST, CLASSES, PAIRS = 10, 5, 5  # the most rows, classes and pairs of classes in the report, which fits on a screen
WIDTH = 100  # the most characters of a reason in the report


def audit(
    data: given.Data,
    label: given.Label = None,
    text: given.Text = None,
    image: given.Image = None,
    exclude: given.Exclude = None,
    features: given.Features = None,
    encoder: given.Encoder = "auto",
    flag: Annotated[int | None, typer.Option(help="Exact number of rows to flag, the worst.")] = None,
    max_flagged: Annotated[int | None, typer.Option(help="Largest number of rows to flag.")] = None,
    fdr: Annotated[float | None, typer.Option(help="Largest share of flagged rows that may be right.")] = None,
    noise: Annotated[str, typer.Option(help="Noise to add first, as a trial, e.g. symmetric:0.2.")] = "none",
    noise_seed: Annotated[int | None, typer.Option(help="Seed of that noise (default: --seed).")] = None,
    subset: Annotated[int | None, typer.Option(help="Number of rows to audit (default: all).")] = None,
    model: given.Model = None,
    epochs: Annotated[int, typer.Option(help="Epochs of each of the three robust trainings.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of weights, halves and order.")] = 0,
    out: Annotated[Path | None, typer.Option(help="The audit's folder (default: a name under audits).")] = None,
    export: Annotated[
        Path | None, typer.Option(help="Also write all rows in the order of the data: a .csv, .parquet or .jsonl file.")
    ] = None,
    with_columns: Annotated[
        bool, typer.Option("--with-columns", help="Carry the columns of a table into issues.csv and --export.")
    ] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the audit in the folder.")] = False,
    data_root: given.DataRoot = None,
    download: given.Download = False,
    strict: given.Strict = False,
    encoding: given.Encoding = None,
    separator: given.Separator = None,
    decimal: given.Decimal = None,
    quiet: given.Quiet = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Find which labels are wrong, and how many."""
    with failures():
        from antidote_learn.auditing.audit_request import AuditRequest, check_audit
        from antidote_learn.cli.reporters import reporter_for

        asked: dict[str, Any] = {
            "label": label,
            "text": tuple(text or ()),
            "image": image,
            "exclude": tuple(exclude or ()),
            "features": given.split_columns(features),
            "encoder": encoder,
            "flag": flag,
            "max_flagged": max_flagged,
            "fdr": fdr,
            "noise": noise,
            "noise_seed": noise_seed,
            "subset": subset,
            "model": model,
            "epochs": epochs,
            "seed": seed,
            "out": out or Path("audits") / (Path(data).stem or "data"),
            "with_columns": with_columns,
            "resume": resume,
            "data_root": data_root,
            "download": download,
            "strict": strict,
            "encoding": encoding,
            "separator": separator,
            "decimal": decimal,
            "reporter": reporter_for(quiet=quiet),
        }
        request = AuditRequest(X=data, **asked)
        check_audit(request)
        from antidote_learn.auditing.audits import carry_out_audit
        from antidote_learn.auditing.exporting import writer_for

        if export is not None:
            writer_for(export)  # a bad name is refused before anything is trained
        found = carry_out_audit(request)
        if export is not None:
            found.export(export, with_columns=with_columns)
    if as_json:
        typer.echo(json.dumps({key: found.summary.get(key) for key in SHOWN}, indent=2))
    else:
        _report(found)


def apply(
    decisions: Annotated[Path | None, typer.Argument(help="The .csv file that the review page exported.")] = None,
    data: Annotated[
        str | None, typer.Argument(help="The audited data: a .csv, .parquet or .npz file, or a folder.")
    ] = None,
    label: given.Label = None,
    out: Annotated[Path | None, typer.Option(help="The corrected data (default: beside DATA).")] = None,
    in_place: Annotated[bool, typer.Option("--in-place", help="Change DATA itself.")] = False,
    undo: Annotated[
        Path | None, typer.Option(metavar="LOG", help="Log of changes in place, the latest of which is taken back.")
    ] = None,
    encoding: given.Encoding = None,
    separator: given.Separator = None,
    decimal: given.Decimal = None,
) -> None:
    """Correct a data set as its review says."""
    with failures("the same command finishes what was begun"):
        if undo is not None:
            if decisions or data or label or out or in_place:
                raise ValueError("--undo LOG stands alone: the log says which data and what was done to them")
            return _undo(undo)
        if decisions is None or data is None:
            raise ValueError("give the decisions and the data: antidote apply decisions.csv DATA; or --undo LOG")
        from antidote_learn.auditing.applying import apply_decisions

        form = {"encoding": encoding, "separator": separator, "decimal": decimal}
        done = apply_decisions(decisions, data, label=label, out=out, in_place=in_place, **form)
    counts = f"{done.relabelled} labels changed, {done.dropped} rows dropped, {done.kept} kept as they were"
    counts += f", {done.unsure} unsure" if done.unsure else ""
    say(f"already applied: {counts}" if done.already else counts)
    say(f"corrected data: {done.out}", err=True)
    if done.log.exists():
        say(f"every change: {done.log}", err=True)


def _undo(log: Path) -> None:
    from antidote_learn.auditing.undoing import undo_decisions

    done = undo_decisions(log)
    counts = f"{done.relabelled} labels are what they were, {done.dropped} rows are back"
    say("already undone: nothing is left to undo" if done.already else counts)
    say(f"data as before: {done.data}", err=True)


def _report(found: "Audit") -> None:
    from antidote_learn.auditing.issue_table import unequal_classes
    from antidote_learn.training.specs import label_sentence

    summary, (low, high) = found.summary, found.interval
    if label := label_sentence(summary):
        say(with_flags(label))
    say(
        f"{found.estimated_errors} of {summary['n']} labels look wrong ({100 * found.noise_rate:.1f} %), "
        f"between {low} and {high}; {summary['flagged']} rows are flagged"
    )
    if summary["why_wide"]:
        say(f"The interval is wide: {summary['why_wide']}.")
    if summary.get("look"):
        say(f"{summary['look']}.")
    if summary.get("judges"):
        say(f"Who judged: {', '.join(summary['judges'])}.")
    if summary["flagged"]:
        typer.echo()
        say("The worst rows:")
        _print_rows(found.table[found.table["is_label_issue"]].head(WORST), _row_text)
    unequal = unequal_classes(found.by_class)
    if len(unequal):
        typer.echo()
        say("The classes whose labels are wrong most often:")
        _print_rows(unequal.head(CLASSES), _class_text)
    if summary["pairs"]:
        typer.echo()
        say("The most frequent mistakes:")
        _print_rows(found.by_pair.head(PAIRS), _pair_text)
    typer.echo()
    say(f"Looked at: {summary['features']}.")
    if summary.get("advice"):
        say(f"Note: {with_flags(summary['advice'])}.")
    say(f"every row, the worst first: {Path(summary['out']) / 'issues.csv'}", err=True)
    say(f"to look at them, open in a browser: {Path(summary['out']) / 'review.html'}", err=True)


def _print_rows(table: Any, line: Any) -> None:
    for row in table.to_dict("records"):
        say(f"  {line(row)}")


def _row_text(row: dict[str, Any]) -> str:
    name = f", {row['file']}" if "file" in row else ""
    reason = escape_text(row["reason"])
    reason = reason if len(reason) <= WIDTH else f"{reason[: WIDTH - 3]}..."
    return f"row {row['index']}{name}: labelled {row['given_label']}; {reason}"


def _class_text(row: dict[str, Any]) -> str:
    counts = f"{row['estimated_errors']} of {row['given']} rows look wrong ({100 * row['error_rate']:.0f} %)"
    ends = row["interval"]  # audits of version 0.2 have none
    return f"{row['label']}: {counts}" + (f", between {ends[0]} and {ends[1]}" if isinstance(ends, list) else "")


def _pair_text(row: dict[str, Any]) -> str:
    count = row["estimated_errors"]
    return f"{row['predicted_label']} labelled as {row['given_label']}: {count} row{'' if count == 1 else 's'}"
