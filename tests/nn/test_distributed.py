"""Two processes relax over the global batch: value, weights and averaged gradient are those of one process."""

import copy
import math
from dataclasses import dataclass, field

import pytest
import torch
import torch.distributed as dist
from processes import WORLD_SIZE, run_in_processes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from antidote_learn import AntidoteLoss, Status

FEATURES, C = 5, 3
EVEN, UNEVEN, ONE_EMPTY, ALL_EMPTY = (6, 6), (9, 2), (7, 0), (0, 0)
CLASS_WEIGHT = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)


@dataclass(frozen=True)
class Case:
    """The sizes of the batch on each rank, the arguments of the loss and what else the batch has."""

    sizes: tuple[int, int]
    loss: dict = field(default_factory=lambda: {"delta": 0.2})
    sample_weight: bool = False
    ignore: str = "nothing"
    dtype: torch.dtype = torch.float64


CASES = {
    "even": Case(EVEN),
    "uneven": Case(UNEVEN),
    "one empty": Case(ONE_EMPTY),
    "first empty": Case((0, 7)),
    "float32": Case(UNEVEN, dtype=torch.float32),
    "no budget": Case(UNEVEN, {"delta": 0.0}),
    "kappa 0": Case(UNEVEN, {"delta": 0.2, "kappa": 0.0}),
    "chi2": Case(UNEVEN, {"delta": 0.3, "divergence": "chi2"}),
    "chi2, one empty": Case(ONE_EMPTY, {"delta": 0.3, "divergence": "chi2"}),
    "js": Case(UNEVEN, {"delta": 0.1, "divergence": "js"}),
    "penalty": Case(UNEVEN, {"penalty": 0.5}),
    "penalty, chi2": Case(EVEN, {"penalty": 0.5, "divergence": "chi2"}),
    "sample weight": Case(UNEVEN, sample_weight=True),
    "sample weight, one empty": Case(ONE_EMPTY, sample_weight=True),
    "class weight": Case(UNEVEN, {"delta": 0.2, "weight": CLASS_WEIGHT}),
    "ignored on both": Case(UNEVEN, ignore="some"),
    "ignored on the first": Case(UNEVEN, ignore="some of the first"),
    "all of the first ignored": Case(UNEVEN, ignore="all of the first"),
    "sample weight, ignored, smoothing": Case(UNEVEN, {"delta": 0.2, "label_smoothing": 0.1}, True, "some"),
}
REDUCED = {
    f"{reduction}, {name}": Case(case.sizes, case.loss | {"reduction": reduction}, case.sample_weight, case.ignore)
    for reduction in ("sum", "none")
    for name, case in CASES.items()
    if name in ("even", "uneven", "one empty", "sample weight", "ignored on the first")
}
NOTHING = {
    "all empty": Case(ALL_EMPTY),
    "all ignored": Case(UNEVEN, ignore="all"),
    "ignored and empty": Case(ONE_EMPTY, ignore="all"),
    "all empty, penalty": Case(ALL_EMPTY, {"penalty": 0.5}),
}
EVERY = CASES | REDUCED | NOTHING


def make_model(dtype=torch.float64):
    model = nn.Linear(FEATURES, C, dtype=dtype)
    with torch.no_grad():
        model.weight.copy_(torch.linspace(-1.0, 1.0, FEATURES * C).sin().reshape(C, FEATURES))
        model.bias.copy_(torch.linspace(-0.5, 0.5, C))
    return model


def make_batch(name):
    """(features, labels, sample weight or None) of the joined batch."""
    case, total = EVERY[name], sum(EVERY[name].sizes)
    generator = torch.Generator().manual_seed(len(name))
    features = 2.0 * torch.randn(total, FEATURES, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, C, (total,), generator=generator)
    weight = torch.randint(0, 4, (total,), generator=generator).double() if case.sample_weight else None
    rows = {
        "nothing": slice(0, 0),
        "some": slice(0, None, 3),
        "some of the first": slice(0, 3),
        "all of the first": slice(0, case.sizes[0]),
        "all": slice(None),
    }
    labels[rows[case.ignore]] = -100
    return features.to(case.dtype), labels, weight


def own_rows(name, rank):
    first = EVERY[name].sizes[0]
    return slice(0, first) if rank == 0 else slice(first, None)


def run(loss, model, features, labels, weight):
    """Value, gradient of the parameters, weights and status of one step."""
    value = loss(model(features), labels, sample_weight=weight)
    value.sum().backward()
    gradient = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    return {
        "value": value.detach(),
        "gradient": gradient,
        "weights": loss.last.weights,
        "last value": loss.last.value,
        "lam": loss.last.lam,
        "achieved": loss.last.achieved,
        "status": int(loss.last.status),
    }


def joined(name, rows=slice(None)):
    """The same step in one process, over the given rows of the joined batch."""
    features, labels, weight = make_batch(name)
    weight = None if weight is None else weight[rows]
    return run(AntidoteLoss(**EVERY[name].loss), make_model(EVERY[name].dtype), features[rows], labels[rows], weight)


# ---- in the processes ------------------------------------------------------------------------------------------------


def step(name, rank, loss):
    features, labels, weight = make_batch(name)
    rows = own_rows(name, rank)
    weight = None if weight is None else weight[rows]
    model = DistributedDataParallel(make_model(EVERY[name].dtype))
    return run(loss, model, features[rows], labels[rows], weight)


def error_of_nan_on_the_second(rank, loss):
    features, labels, _ = make_batch("even")
    features[-2:] = math.nan
    rows = own_rows("even", rank)
    try:
        loss(make_model()(features[rows]), labels[rows])
    except ValueError as error:
        return str(error)
    return "no error"


def worker():
    losses = {name: AntidoteLoss(**case.loss) for name, case in EVERY.items()}  # there is no group yet
    plain = AntidoteLoss(0.2)

    def job(rank):
        results = {name: step(name, rank, loss) for name, loss in losses.items()}
        results["local"] = step("uneven", rank, AntidoteLoss(0.2, process_group=None))
        group, alone = dist.new_group(list(range(WORLD_SIZE))), [dist.new_group([r]) for r in range(WORLD_SIZE)]
        results["own group"] = step("uneven", rank, AntidoteLoss(0.2, process_group=group))
        results["group of one"] = step("uneven", rank, AntidoteLoss(0.2, process_group=alone[rank]))
        results["error"] = error_of_nan_on_the_second(rank, copy.deepcopy(plain))
        if rank == 0:  # eval needs nobody else
            features, labels, _ = make_batch("uneven")
            results["eval"] = plain.eval()(make_model()(features[:4]), labels[:4]).detach()
        return results

    return job


# ---- the laws --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_in_processes(worker, tmp_path_factory.mktemp("processes"))


def distance(a, b):
    """The relative distance of two vectors."""
    return float((a.double() - b.double()).norm() / b.double().norm())


@pytest.mark.parametrize("name", CASES)
def test_averaged_gradient_is_that_of_the_joined_batch(ranks, name):
    expected = joined(name)["gradient"]
    assert expected.norm() > 1e-3
    for rank in range(WORLD_SIZE):
        assert distance(ranks[rank][name]["gradient"], expected) <= 1e-6


@pytest.mark.parametrize("name", CASES)
def test_every_rank_has_the_value_of_the_joined_batch(ranks, name):
    expected = joined(name)
    rtol = 1e-6 if EVERY[name].dtype == torch.float32 else 1e-10
    for rank in range(WORLD_SIZE):
        ours = ranks[rank][name]
        for key in ("value", "last value", "lam", "achieved"):
            torch.testing.assert_close(ours[key].double(), expected[key].double(), rtol=rtol, atol=1e-12)
        assert ours["status"] == expected["status"]
    torch.testing.assert_close(
        ranks[0][name]["value"], ranks[1][name]["value"], rtol=4e-7 if rtol > 1e-8 else 1e-15, atol=0.0
    )


@pytest.mark.parametrize("name", CASES)
def test_every_rank_keeps_its_part_of_the_weights(ranks, name):
    expected = joined(name)["weights"]
    parts = [ranks[rank][name]["weights"] for rank in range(WORLD_SIZE)]
    assert tuple(part.numel() for part in parts) == EVERY[name].sizes
    assert parts[0].dtype == EVERY[name].dtype
    torch.testing.assert_close(torch.cat(parts), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", [name for name in REDUCED if name.startswith("sum")])
def test_averaged_gradient_of_the_sum_is_that_of_the_joined_batch(ranks, name):
    expected = joined(name)
    for rank in range(WORLD_SIZE):
        assert distance(ranks[rank][name]["gradient"], expected["gradient"]) <= 1e-6
        torch.testing.assert_close(ranks[rank][name]["value"], expected["value"])


@pytest.mark.parametrize("name", [name for name in REDUCED if name.startswith("none")])
def test_unreduced_losses_are_those_of_the_joined_batch(ranks, name):
    ours = torch.cat([ranks[rank][name]["value"] for rank in range(WORLD_SIZE)])
    torch.testing.assert_close(ours, joined(name)["value"])


@pytest.mark.parametrize("name", NOTHING)
def test_nothing_on_any_rank_is_zero_everywhere(ranks, name):
    for rank in range(WORLD_SIZE):
        ours = ranks[rank][name]
        assert ours["value"] == 0
        assert (ours["gradient"] == 0).all()
        assert ours["status"] == Status.EMPTY


def test_without_a_group_every_rank_has_its_own_objective(ranks):
    parts = [joined("uneven", own_rows("uneven", rank)) for rank in range(WORLD_SIZE)]
    mean = sum(part["gradient"] for part in parts) / WORLD_SIZE
    for rank, kind in ((r, k) for r in range(WORLD_SIZE) for k in ("local", "group of one")):
        ours = ranks[rank][kind]
        torch.testing.assert_close(ours["value"], parts[rank]["value"])
        torch.testing.assert_close(ours["weights"], parts[rank]["weights"])
        torch.testing.assert_close(ours["gradient"], mean)
    assert distance(mean, joined("uneven")["gradient"]) > 1e-2  # another objective


def test_a_given_group_is_the_one_that_is_joined(ranks):
    for rank in range(WORLD_SIZE):
        for key in ("value", "gradient", "weights"):
            torch.testing.assert_close(ranks[rank]["own group"][key], ranks[rank]["uneven"][key])


def test_a_bad_loss_on_one_rank_is_an_error_on_all(ranks):
    for rank in range(WORLD_SIZE):
        assert "2 NaN" in ranks[rank]["error"]


def test_eval_is_local(ranks):
    features, labels, _ = make_batch("uneven")
    expected = nn.functional.cross_entropy(make_model()(features[:4]), labels[:4])
    torch.testing.assert_close(ranks[0]["eval"], expected.detach())
