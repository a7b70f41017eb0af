"""The rows of the paper's tables: every case can be built, and the right one is chosen."""

import json

import pytest

from antidote_learn.presets import cases, cases_on, preset
from antidote_learn.presets.aliases import ALIASES, expand_name
from antidote_learn.registry import build_method, parse_method
from tests.commands import antidote

LIST = ("list", "losses", "--preset")
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
    ("FL_eps+MAE", "mini-webvision", "none", "0.015*eps-focal:m=1e3:gamma=0.1:detach=true+0.3*mae"),
    ("FL_eps+MAE", "cifar10", "instance:0.4", "0.045*eps-focal:m=1e5:gamma=0.1:detach=true+10*mae"),
    ("CE_eps+MAE", "cifar100", "instance:0.4", "0.03*eps-ce:m=1e4+mae"),
    ("CE_eps+MAE", "cifar100", "instance:0.6:mode=dependent", "0.00125*eps-ce:m=1e4+mae"),
    ("FL_eps+MAE", "cifar100", "instance:0.4", "0.03*eps-focal:m=1e4:gamma=0.1:detach=true+mae"),
    ("FL_eps+MAE", "cifar100", "instance:0.6", "0.00125*eps-focal:m=1e4:gamma=0.1:detach=true+mae"),
    ("NCE+RCE", "mnist", "symmetric:0.4", "nce+10*rce"),
    ("NFL+RCE", "mnist", "symmetric:0.4", "nfl:gamma=0.5:detach=true+10*rce"),
    ("NCE+MAE", "mnist", "symmetric:0.4", "nce+5*mae"),  # MAE beside NCE is half of `mae`
    ("NCE+AUL", "mnist", "symmetric:0.4", "aul:a=3:q=0.1"),  # NCE has weight 0
    ("NCE+AGCE", "mnist", "symmetric:0.4", "agce:a=4:q=0.2"),
    ("NCE+AEL", "mnist", "symmetric:0.4", "ael:a=3.5"),
    ("GCE", "cifar100", "symmetric:0", "gce:q=0.5"),  # as clean
    ("ANTIDOTE", "cifar10", "symmetric:0", "antidote:delta=0.02:kappa=0.07"),
    ("ANTIDOTE", "cifar10", "asymmetric:0.0:count=iid", "antidote:delta=0.02:kappa=0.07"),
    ("ANTIDOTE", "cifar100n", "symmetric:0", "antidote:penalty=1.2:kappa=3"),
    ("ANTIDOTE", "cifar10", "symmetric:6e-1", "antidote:delta=1:kappa=0.05"),
]


@pytest.mark.parametrize(("row", "data", "noise", "loss"), CHOICES)
def test_the_case_at_hand_is_chosen(row, data, noise, loss):
    assert preset(row, data=data, noise=noise).loss == loss


NOTES = [
    ("NCE+MAE", "digits", "symmetric:0.2", "the data 'digits': it takes those for cifar10"),
    ("NCE+MAE", "", "none", "this data: it takes those for cifar10"),
    ("SCE", "fashion-mnist", "none", "the data 'fashion-mnist': it takes those for mnist"),
    ("NFL+NNFL", "cifar100", "none", "the data 'cifar100': it takes those for cifar10"),
    ("CE_eps+MAE", "cifar10", "human:worse", "human noise: it takes those for cifar10 with symmetric noise"),
    ("CE_eps+MAE", "cifar10n-worse", "none", "human noise: it takes those for cifar10 with symmetric noise"),
    ("CE+LC", "cifar10", "pair:0.2", "pair noise: it takes those for cifar10 with asymmetric noise"),
    ("ANTIDOTE", "cifar10", "symmetric:0.45", "symmetric noise of 0.45: it takes those for cifar10 with symmetric "
     "noise of 0.4"),
    ("ANTIDOTE", "iris", "instance:0.3", "the data 'iris' and instance noise: it takes those for cifar10 with "
     "symmetric noise of 0.2"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "data", "noise", "rest"), NOTES)
def test_a_case_that_stands_in_for_another_says_so(row, data, noise, rest):
    assert preset(row, data=data, noise=noise).note == f"preset:{row} has no published values for {rest}"


def test_a_case_that_is_published_says_nothing():
    whole = {"none": "none", "": "human:noisy", "human": "human:noisy"}
    for case in cases():
        for rate in case.rates or (0.2,):
            found = preset(case.row, data=case.data, noise=whole.get(case.noise, f"{case.noise}:{rate}"))
            assert (found.loss, found.note) == (case.loss, "")
    assert preset("GCE", data="cifar100n").note == ""


def test_cases_differ_by_noise_only_where_there_is_one_for_symmetric_noise_or_for_any():
    for row, data in {(case.row, case.data) for case in cases()}:
        assert {"", "symmetric"} & {case.noise for case in cases_on(row, data)}


def test_rows_of_the_papers_own_method_cite_its_appendix():
    assert {case.source for case in cases() if case.row == "ANTIDOTE"} == {
        "the paper's appendix on hyper-parameters; KL"
    }


def test_a_run_says_that_its_preset_is_for_other_data(tmp_path):
    train = ("train", "iris", "--noise", "symmetric:0.2", "--epochs", "2", "--json", "--out")
    done = antidote(*train, str(tmp_path / "run"), "--method", "preset:NCE+MAE")
    note = "preset:NCE+MAE has no published values for the data 'iris': it takes those for cifar10"
    assert done.code == 0
    assert f"note: {note}" in done.err
    assert note in json.loads(done.out)["notes"]
    spec = json.loads((tmp_path / "run" / "spec.json").read_text())["run"]
    assert (spec["method"], spec["preset_note"]) == ("nce+0.5*mae", note)
    again = antidote(*train, str(tmp_path / "run"), "--method", "nce+0.5*mae", "--resume")
    assert again.code == 0  # the same run, however its method was named
    plain = antidote(*train, str(tmp_path / "plain"), "--method", "nce+0.5*mae")
    assert "preset" not in plain.err
    assert json.loads(plain.out)["accuracy"] == json.loads(done.out)["accuracy"]


def test_a_grid_says_so_too(tmp_path):
    compare = ("compare", "iris", "--methods", "preset:GCE,ce", "--noise", "none,symmetric:0.2", "--seeds", "1")
    done = antidote(*compare, "--epochs", "1", "--jobs", "1", "--out", str(tmp_path / "grid"))
    assert done.code == 0
    assert done.err.count("note: preset:GCE has no published values for the data 'iris'") == 1


def test_an_unknown_row_is_refused():
    with pytest.raises(ValueError, match="unknown preset 'NCE'; accepted: CE, FL, GCE"):
        preset("NCE")


@pytest.mark.parametrize("name", ALIASES)
def test_names_of_the_published_code_are_known(name):
    assert build_method(parse_method(f"{expand_name(name)}{':delta=0.1' if 'antidote' in name else ''}"))


ALIASED = {
    "MSE": "mse",
    "NFL": "nfl:gamma=0.5:detach=true",
    "NNCE": "nnce",
    "NFLandMAE": "nfl:gamma=0.5:detach=true+0.5*mae",
    "NCEandNNCE": "5*nce+5*nnce",
    "NFLandNNFL": "5*nfl:gamma=0.5:detach=true+5*nnfl:gamma=0.5:detach=true",
    "antidote_kl": "antidote-gradient",
    "antidote_alpha": "antidote-gradient:divergence=[alpha:2]",
}


@pytest.mark.parametrize(("name", "meaning"), ALIASED.items())
def test_what_names_of_the_published_code_stand_for(name, meaning):
    assert expand_name(name) == meaning


def test_the_command_lists_them():
    done = antidote("list", "losses", "--preset", "cifar100", "--json")
    assert done.code == 0
    assert '"10*nce+0.1*rce"' in done.out
    refused = antidote("list", "losses", "--preset", "imagenet")
    assert refused.code == 2
    assert "no presets for 'imagenet'; accepted: cifar10, cifar100" in refused.err
    mnist = {row["name"]: row["stands in for"] for row in json.loads(antidote(*LIST, "mnist", "--json").out)}
    assert mnist["preset:NCE+RCE"] == "nothing"
    assert mnist["preset:CE+LC"] == "mnist (published for cifar10)"
    assert {row["name"] for row in json.loads(antidote(*LIST, "digits", "--json").out)} >= {
        f"preset:{row}" for row in PAPER
    }
    human = [row for row in json.loads(antidote(*LIST, "cifar10", "--json").out) if row["name"] == "preset:CE_eps+MAE"]
    assert [(row["noise"], row["stands in for"]) for row in human] == [
        ("none", "nothing"),
        ("symmetric", "noise that is not listed"),
        ("asymmetric", "nothing"),
        ("instance", "nothing"),
    ]
    assert antidote("list", "data", "--preset", "cifar10").code == 2
