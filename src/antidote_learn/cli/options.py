"""Options of several commands, with their help."""

import csv
import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any

import typer

KEYWORD = inspect.Parameter.KEYWORD_ONLY
Labels = Annotated[Path | None, typer.Option(help="Folder of an audit of this data, to train on its labels.")]
NoiseSeed = Annotated[int | None, typer.Option(help="Seed of the noise (default: the run's seed).")]
Data = Annotated[
    str, typer.Argument(help="A built-in name, a file (.csv, .xlsx, .parquet, ...), or a folder of images.")
]
Label = Annotated[str | None, typer.Option(help="Label column of a table.")]
Text = Annotated[list[str] | None, typer.Option(help="Column that holds text; may be repeated.")]
Image = Annotated[str | None, typer.Option(help="Column of a table that holds paths of image files.")]
Exclude = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")]
Features = Annotated[str | None, typer.Option(metavar="COLUMN,...", help="Columns to learn from (default: all).")]
TextFeatures = Annotated[str, typer.Option(help="Features of text: tfidf or embeddings.")]
Encoder = Annotated[
    str, typer.Option(help="Encoder of images or text: auto, none, efficientnet-lite0 or all-minilm-l6-v2.")
]
Test = Annotated[str | None, typer.Option(help="Test table or folder (default: a fifth is held out).")]
Subset = Annotated[int | None, typer.Option(help="Number of samples to train on (default: all).")]
Holdout = Annotated[
    float | None, typer.Option(help="Share of the noisy training samples to test on, in place of the test samples.")
]
Snapshots = Annotated[
    str | None, typer.Option(help="Epochs after which the losses of all training samples are kept, e.g. 50,100.")
]
Model = Annotated[str | None, typer.Option(help="Network, e.g. cnn8:width=0.5 or package.module:factory.")]
Protocol = Annotated[str | None, typer.Option(help="Named settings, see `antidote list protocols`.")]
Epochs = Annotated[int | None, typer.Option(help="Number of passes over the data.")]
BatchSize = Annotated[int | None, typer.Option(help="Size of the global batch.")]
Rate = Annotated[float | None, typer.Option(help="Initial learning rate.")]
Optimizer = Annotated[str | None, typer.Option(help="Optimizer: sgd or adamw.")]
WeightDecay = Annotated[float | None, typer.Option(help="Weight decay.")]
Schedule = Annotated[str | None, typer.Option(help="Learning rates: constant, cosine, step:E1,E2 or exponential:F.")]
Warmup = Annotated[float | None, typer.Option(help="Epochs over which the learning rate rises.")]
Clip = Annotated[float | None, typer.Option(help="Largest norm of the gradient (0: no limit).")]
Augment = Annotated[bool, typer.Option("--augment/--no-augment", help="Crop and mirror training images.")]
Devices = Annotated[int, typer.Option(help="Processes of a run on this machine.")]
Precision = Annotated[str, typer.Option(help="Precision of the numbers: 32, bf16 or 16.")]
Workers = Annotated[int, typer.Option(help="Threads that decode image files.")]
DataRoot = Annotated[Path | None, typer.Option(help="Folder of official files (default: $ANTIDOTE_DATA).")]
Download = Annotated[bool, typer.Option("--download", help="Fetch official files that are missing.")]
Strict = Annotated[bool, typer.Option("--strict", help="Refuse unreadable images and rows without a label.")]
Encoding = Annotated[str | None, typer.Option(help="Encoding of a text file, e.g. cp1252 (default: detected).")]
Separator = Annotated[str | None, typer.Option(help="Separator of its columns, e.g. ';' or tab (default: detected).")]
Decimal = Annotated[str | None, typer.Option(help="Decimal mark of its numbers: . or , (default: detected).")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no notes.")]


@dataclass(frozen=True)
class TrainingOptions:
    """The options of every command that trains; they are arguments of `train` by the same names."""

    labels: Labels = None
    noise_seed: NoiseSeed = None
    label: Label = None
    text: Text = None
    image: Image = None
    exclude: Exclude = None
    features: Features = None
    text_features: TextFeatures = "tfidf"
    test: Test = None
    subset: Subset = None
    holdout: Holdout = None
    snapshots: Snapshots = None
    model: Model = None
    protocol: Protocol = None
    epochs: Epochs = None
    batch_size: BatchSize = None
    lr: Rate = None
    optimizer: Optimizer = None
    weight_decay: WeightDecay = None
    schedule: Schedule = None
    warmup: Warmup = None
    clip: Clip = None
    augment: Augment = True
    devices: Devices = 1
    precision: Precision = "32"
    workers: Workers = 2
    data_root: DataRoot = None
    download: Download = False
    strict: Strict = False
    encoding: Encoding = None
    separator: Separator = None
    decimal: Decimal = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments for `train`; options without a value are left out."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values |= {"text": tuple(self.text or ()), "exclude": tuple(self.exclude or ())}
        values["features"] = split_columns(self.features)
        return {name: value for name, value in values.items() if value not in (None, ())}

    @property
    def own_options(self) -> set[str]:
        """The options that are not at their default."""
        return {field.name for field in fields(self) if getattr(self, field.name) != field.default}


def split_columns(text: str | None) -> tuple[str, ...]:
    """Returns the columns in a list with commas; a name with a comma stands in double quotes."""
    return tuple(name.strip() for name in next(csv.reader([text or ""], skipinitialspace=True), []) if name.strip())


def take_training(command: Callable[..., None]) -> Callable[..., None]:
    """Returns the command with the options of `TrainingOptions` in the place of its parameter ``training``."""
    shared = [inspect.Parameter(f.name, KEYWORD, default=f.default, annotation=f.type) for f in fields(TrainingOptions)]
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        parameters += shared if parameter.name == "training" else [parameter.replace(kind=KEYWORD)]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        training = TrainingOptions(**{parameter.name: given.pop(parameter.name) for parameter in shared})
        command(**given, training=training)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run
