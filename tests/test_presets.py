"""The rows of the paper's tables: every case can be built, and the right one is chosen."""

import pytest

from antidote_learn.presets import cases, preset
from antidote_learn.registry import ALIASES, build_method, parse_method, resolved
from tests.commands import antidote

PAPER = [  # the rows of Table 1, in its order
    "CE", "FL", "GCE", "NLNL", "SCE", "NCE+MAE", "NCE+RCE", "NFL+RCE", "NCE+AUL", "NCE+AGCE", "NCE+AEL", "LDR-KL",
    "CE+LC", "CE_eps+MAE", "FL_eps+MAE", "ANTIDOTE",
]  # fmt: skip


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.row}-{case.data}-{case.noise}-{case.rates}")
def test_every_case_can_be_built(case):
    for text in filter(None, (case.loss, case.code)):
        spec = parse_method(text)
        assert build_method(spec).objective is not None
    assert case.source


def test_every_row_of_the_papers_table_is_there():
    rows = {case.row for case in cases() if case.data == "cifar10"}
    assert rows >= set(PAPER)


CHOICES = [
    ("GCE", "cifar10", "symmetric:0.4", "gce:q=0.7"),
    ("gce", "cifar100", "symmetric:0.8", "gce:q=0.9"),
    ("GCE", "cifar100", "none", "gce:q=0.5"),
    ("GCE", "cifar100", "asymmetric:0.4", "gce:q=0.7"),
    ("NCE+MAE", "cifar100n", "none", "10*nce+0.05*mae"),
    ("NCE+MAE", "digits", "symmetric:0.2", "nce+0.5*mae"),
    ("CE+LC", "cifar10", "symmetric:0.6", "logitclip:clip=1.5:mode=reference"),
    ("CE+LC", "cifar10", "symmetric:0.45", "logitclip:clip=1:mode=reference"),
    ("CE+LC", "cifar10", "pair:0.2", "logitclip:clip=2.5:mode=reference"),
    ("CE_eps+MAE", "cifar10", "human:worse", "0.01*eps-ce:m=1e5+5*mae"),
    ("CE_eps+MAE", "cifar100", "asymmetric:0.3:count=iid", "0.005*eps-ce:m=1e2+mae"),
    ("SCE", "fashion-mnist", "symmetric:0.4", "sce:alpha=0.01:beta=1"),
    ("ANTIDOTE", "cifar10", "symmetric:0.2", "antidote:delta=0.27:kappa=0.05"),
    ("ANTIDOTE", "cifar100n", "none", "antidote:penalty=1.2:kappa=3"),
    ("ANTIDOTE", "cifar100", "human:noisy", "antidote:penalty=1.2:kappa=3"),
]


@pytest.mark.parametrize(("row", "data", "noise", "loss"), CHOICES)
def test_the_case_at_hand_is_chosen(row, data, noise, loss):
    assert preset(row, data=data, noise=noise).loss == loss


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="unknown preset 'NCE'; accepted: CE, FL, GCE"):
        preset("NCE")


@pytest.mark.parametrize("name", ALIASES)
def test_names_of_the_published_code_are_known(name):
    assert build_method(parse_method(f"{resolved(name)}{':delta=0.1' if 'antidote' in name else ''}"))


def test_the_command_lists_them():
    done = antidote("list", "losses", "--preset", "cifar100", "--json")
    assert done.code == 0
    assert '"10*nce+0.1*rce"' in done.out
    refused = antidote("list", "losses", "--preset", "imagenet")
    assert refused.code == 2
    assert "no presets for 'imagenet'; accepted: cifar10, cifar100" in refused.err
    assert antidote("list", "data", "--preset", "cifar10").code == 2
