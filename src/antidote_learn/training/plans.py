"""What a user asks of a training, checked and made ready: all but the folder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from antidote_learn._types import Arrays
from antidote_learn.data.load import open_data
from antidote_learn.data.prepared import Prepared, fingerprint, prepare
from antidote_learn.models import check_model, default_model
from antidote_learn.registry import MethodSpec, Protocol, protocols, stand_in_note
from antidote_learn.training.engine import Engine
from antidote_learn.training.job import Job
from antidote_learn.training.loop import Settings
from antidote_learn.training.posterior import SURE, Posterior, audited, relabelled
from antidote_learn.training.progress import Reporter, Silent
from antidote_learn.training.protocols import chosen_protocol
from antidote_learn.training.requests import FOLDERS, Request, check_request, method_for
from antidote_learn.training.specs import Spec, shared

SMALLEST_BATCH = 16
FEWEST_ROWS = 10  # to train on
UNSURE = "antidote-dataset"  # what the given labels are trained with where an audit is not sure of them


@dataclass(frozen=True, eq=False)
class Plan:
    """A run that can begin: what to do, on what, and whether it may be one that is there already."""

    job: Job
    engine: Engine
    resume: bool


def plan_run(asked: Request) -> Plan:
    """Everything that can be refused is refused here; nothing is written.

    Raises:
        ValueError: Bad arguments or data.
        FileNotFoundError: Missing data.
    """
    check_request(asked)
    reporter = asked.reporter or Silent()
    posterior, digest = _read_audit(asked, reporter)
    method = method_for(asked, default="antidote" if asked.labels is None else "ce" if posterior else UNSURE)
    arrays = open_data(
        asked.data,
        label=asked.label,
        text=asked.text,
        image=asked.image,
        test=asked.test,
        root=asked.data_root,
        download=asked.download,
        strict=asked.strict,
    )
    protocol, settings = chosen_protocol(asked.protocol, arrays, asked.settings)
    prepared = _prepare(asked, arrays, settings, reporter)
    name = asked.method if isinstance(asked.method, str) else ""
    note = stand_in_note(name, data=asked.data_name, noise=asked.noise)
    prepared = replace(prepared, notes=(*prepared.notes, *([note] if note else [])))
    method, data_hash = _with_injected(method, prepared.noise), fingerprint(prepared)
    if posterior is not None:
        prepared = _relabel(prepared, posterior, soft=asked.method is None, reporter=reporter)
    model = asked.model or (default_model(prepared.encoding.shape) if settings.model == "auto" else settings.model)
    check_model(model, shape=prepared.encoding.shape, classes=len(prepared.classes))
    spec = Spec(
        data=asked.data_name or prepared.name,
        data_hash=data_hash,
        classes=len(prepared.classes),
        samples=len(prepared.labels),
        noise_seed=asked.own_noise_seed,
        method=str(method),
        protocol=protocol,
        model=model if isinstance(model, str) else f"{type(model).__name__} object",
        schedule_epochs=_schedule_epochs(protocol, asked.schedule, settings),
        **shared(settings, Spec, but=("model", "batch_size")),
        batch_size=_batch_size(asked, settings, len(prepared.labels)),
        labels=digest,
        preset_note=note,
        **{name: getattr(asked, name) for name in OWN},
    )
    job = Job(
        folder=(Path(asked.out) if asked.out is not None else _default_folder(spec)).absolute(),
        spec=spec,
        data=prepared,
        method=method,
        settings=Settings(model=model, workers=asked.workers, **shared(spec, Settings, but=("model",))),
        reporter=reporter,
    )
    engine = Engine(devices=asked.devices, nodes=asked.nodes, precision=asked.precision)
    return Plan(job, engine, asked.resume)


OWN = ("subset", "noise", "augment", "seed", "devices", "nodes", "precision", "text_features")  # as they were asked for


def _read_audit(asked: Request, reporter: Reporter) -> tuple[Posterior | None, str]:
    """What to train on in place of the given labels, and its digest; nothing where it should not be trusted."""
    if asked.labels is None:
        return None, ""
    posterior, digest = audited(Path(asked.labels))
    if asked.method is None and posterior.sureness < SURE:
        reporter.note(
            "the audit is not sure enough of this data to train on it (its likeliest classes have a mean probability "
            f"of {posterior.sureness:.2f}, below {SURE}): training on the given labels with {UNSURE} instead"
        )
        return None, digest
    return posterior, digest


def _prepare(asked: Request, arrays: Arrays, settings: Protocol, reporter: Reporter) -> Prepared:
    if asked.text_features == "embeddings":
        reporter.note(
            f"the texts of {len(arrays.labels)} samples are being embedded, which takes a minute or so for 10 000"
        )
    if len(arrays.labels) < FEWEST_ROWS:
        raise ValueError(f"at least {FEWEST_ROWS} samples are needed to train on; received {len(arrays.labels)}")
    return prepare(
        arrays,
        noise=asked.noise,
        noise_seed=asked.own_noise_seed,
        seed=asked.seed,
        subset=asked.subset,
        recipe=settings.recipe,
        text_features=asked.text_features,
        augment=asked.augment,
        root=asked.data_root,
        workers=asked.workers,
    )


def _relabel(prepared: Prepared, posterior: Posterior, *, soft: bool, reporter: Reporter) -> Prepared:
    believed = relabelled(prepared, posterior, soft=soft)
    if believed is prepared:
        reporter.note("the audit found no wrong label among the rows to train on: they are trained on as they are")
    return believed


def _batch_size(asked: Request, settings: Protocol, samples: int) -> int:
    size = asked.batch_size or min(settings.batch_size, max(SMALLEST_BATCH, samples // 8))
    processes = asked.devices * asked.nodes
    if size < 2 * processes:
        raise ValueError(f"a batch of {size} is too small for {processes} processes: give each at least 2 samples")
    return size


def _schedule_epochs(protocol: str, schedule: str | None, settings: Protocol) -> int:
    """For how many epochs the schedule was written: the protocol's own, unless the user wrote it."""
    return settings.epochs if schedule is not None else protocols()[protocol].epochs


def _with_injected(method: MethodSpec, noise: Any) -> MethodSpec:
    if method.parameters.get("noise_rate") != "injected":
        return method
    return replace(method, parameters={**method.parameters, "noise_rate": noise.rate})


def _default_folder(spec: Spec) -> Path:
    """A name that says what it is."""
    words = [Path(spec.data).stem or "data", spec.method, spec.noise, f"seed{spec.seed}"]
    name = "-".join(words).replace(":", "-").replace("=", "-")
    return Path(FOLDERS) / "".join(c for c in name if c.isalnum() or c in "-._")
