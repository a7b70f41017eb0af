"""Accumulated over micro-batches, the objective is that of the joined batch."""

import copy
from dataclasses import dataclass, field

import pytest
import torch
from processes import WORLD_SIZE, run_in_processes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from antidote_learn import AntidoteLoss, Status, accumulate

FEATURES, C = 5, 3
SIZES = (4, 1, 7, 3)
CLASS_WEIGHT = torch.tensor([1.0, 3.0, 0.5], dtype=torch.float64)


def make_model(*, dropout=0.0, norm=False, dtype=torch.float64):
    layers = [nn.Linear(FEATURES, 6), nn.BatchNorm1d(6) if norm else nn.Tanh(), nn.Dropout(dropout), nn.Linear(6, C)]
    model = nn.Sequential(*layers).to(dtype)
    with torch.no_grad():
        for k, parameter in enumerate(model.parameters()):
            parameter.copy_(torch.arange(1.0 + k, 1.0 + k + parameter.numel()).sin().reshape(parameter.shape))
    return model


def make_batches(sizes=SIZES, *, weighted=False, ignore=False, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    batches = []
    for size in sizes:
        features = 2.0 * torch.randn(size, FEATURES, generator=generator, dtype=torch.float64)
        labels = torch.randint(0, C, (size,), generator=generator)
        weight = torch.randint(0, 4, (size,), generator=generator).double()
        if ignore:
            labels[::3] = -100
        batches.append((features.to(dtype), labels, weight) if weighted else (features.to(dtype), labels))
    return batches


def joint(loss, model, batches):
    """One call of the loss over the outputs of one ordinary pass over the micro-batches, all graphs kept."""
    outputs = torch.cat([model(batch[0]) for batch in batches])
    weight = torch.cat([batch[2] for batch in batches]) if len(batches[0]) == 3 else None
    value = loss(outputs, torch.cat([batch[1] for batch in batches]), sample_weight=weight)
    value.backward()
    return value.detach()


def gradient(model):
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def distance(a, b):
    return float((a.double() - b.double()).norm() / b.double().norm())


@dataclass(frozen=True)
class Case:
    """The arguments of the loss and of what it is tried on."""

    loss: dict = field(default_factory=lambda: {"delta": 0.2})
    model: dict = field(default_factory=dict)
    batches: dict = field(default_factory=dict)


CASES = {
    "plain": Case(),
    "no budget": Case({"delta": 0.0}),
    "chi2": Case({"delta": 0.3, "divergence": "chi2"}),
    "js": Case({"delta": 0.1, "divergence": "js"}),
    "penalty": Case({"penalty": 0.5}),
    "sum": Case({"delta": 0.2, "reduction": "sum"}),
    "sum with sample weight": Case({"delta": 0.2, "reduction": "sum"}, batches={"weighted": True}),
    "sample weight": Case(batches={"weighted": True}),
    "class weight": Case({"delta": 0.2, "weight": CLASS_WEIGHT}),
    "ignored": Case(batches={"ignore": True}),
    "ignored with sample weight": Case(batches={"ignore": True, "weighted": True}),
    "an empty micro-batch": Case(batches={"sizes": (4, 0, 7)}),
    "one micro-batch": Case(batches={"sizes": (9,)}),
    "a fully ignored micro-batch": Case(batches={"sizes": (4, 1, 7), "ignore": True}),
    "dropout": Case(model={"dropout": 0.5}),
    "batch norm": Case(model={"norm": True}, batches={"sizes": (4, 2, 7, 3)}),
    "dropout and batch norm": Case(model={"dropout": 0.5, "norm": True}, batches={"sizes": (4, 2, 7, 3)}),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_accumulated_equals_joint(name, dtype):
    case = CASES[name]
    loss, ours, theirs = (
        AntidoteLoss(**case.loss),
        make_model(**case.model, dtype=dtype),
        make_model(**case.model, dtype=dtype),
    )
    batches = make_batches(**case.batches, dtype=dtype)
    tolerance = 1e-6 if dtype == torch.float32 else 1e-10
    torch.manual_seed(7)
    value = accumulate(loss, ours, iter(batches))
    weights, random_state = loss.last.weights, torch.get_rng_state()
    torch.manual_seed(7)
    expected = joint(loss, theirs, batches)
    assert not value.requires_grad
    torch.testing.assert_close(value.double(), expected.double(), rtol=tolerance, atol=0.0)
    assert distance(gradient(ours), gradient(theirs)) <= tolerance
    torch.testing.assert_close(weights, loss.last.weights, rtol=10 * tolerance, atol=tolerance)
    assert torch.equal(random_state, torch.get_rng_state())  # random numbers were drawn once
    for mine, reference in zip(ours.buffers(), theirs.buffers(), strict=True):
        torch.testing.assert_close(mine, reference, rtol=tolerance, atol=tolerance)


def test_batch_norm_sees_one_pass():
    model, batches = make_model(norm=True), make_batches((4, 2, 7, 3))
    once = copy.deepcopy(model)
    accumulate(AntidoteLoss(0.2), model, batches)
    with torch.no_grad():
        for features, _ in batches:
            once(features)
    assert int(model[1].num_batches_tracked) == len(batches)
    torch.testing.assert_close(model[1].running_mean, once[1].running_mean, rtol=0, atol=0)
    torch.testing.assert_close(model[1].running_var, once[1].running_var, rtol=0, atol=0)


def test_dropout_masks_of_the_weights_are_those_of_the_gradient():
    model, batches, loss = make_model(dropout=0.5), make_batches(), AntidoteLoss(0.2)
    torch.manual_seed(3)
    with torch.no_grad():
        outputs = torch.cat([model(features) for features, _ in batches])
    loss(outputs, torch.cat([labels for _, labels in batches]))
    weights = loss.last.weights
    seen = []
    model.register_forward_hook(lambda module, inputs, output: seen.append(output.detach()))
    torch.manual_seed(3)
    accumulate(loss, model, batches)
    torch.testing.assert_close(loss.last.weights, weights)
    first, second = seen[: len(batches)], seen[len(batches) :]
    for a, b in zip(first, second, strict=True):
        assert torch.equal(a, b)


def test_the_mean_of_the_objectives_of_micro_batches_is_another_objective():
    batches, loss = make_batches(), AntidoteLoss(0.2)
    ours, naive = make_model(), make_model()
    value = accumulate(loss, ours, batches)
    values = []
    for features, labels in batches:
        part = loss(naive(features), labels) * (len(labels) / sum(SIZES))
        part.backward()
        values.append(part.detach())
    assert float(sum(values) / value) > 1.02
    assert distance(gradient(naive), gradient(ours)) > 0.05


def test_gradients_are_added_to_what_is_there():
    model, batches = make_model(), make_batches()
    accumulate(AntidoteLoss(0.2), model, batches)
    once = gradient(model).clone()
    accumulate(AntidoteLoss(0.2), model, batches)
    torch.testing.assert_close(gradient(model), 2.0 * once)


def test_backward_may_be_given():
    ours, theirs, batches, calls = make_model(), make_model(), make_batches(), []

    def scaled(value):
        calls.append(value.detach())
        (8.0 * value).backward()

    value = accumulate(AntidoteLoss(0.2), ours, batches, backward=scaled)
    torch.testing.assert_close(value, accumulate(AntidoteLoss(0.2), theirs, batches))
    torch.testing.assert_close(gradient(ours), 8.0 * gradient(theirs))
    assert len(calls) == len(batches)


def test_last_is_the_joint_solution():
    loss, batches = AntidoteLoss(0.2), make_batches()
    value = accumulate(loss, make_model(), batches)
    assert loss.last.weights.shape == (sum(SIZES),)
    assert torch.equal(loss.last.value, value)
    assert loss.last.status == Status.BUDGET


@pytest.mark.parametrize("sizes", [(0, 0), (2, 1)])
def test_nothing_to_weigh_gives_zero(sizes):
    model, loss = make_model(), AntidoteLoss(0.2)
    batches = [(features, torch.full_like(labels, -100)) for features, labels in make_batches(sizes)]
    assert accumulate(loss, model, batches) == 0
    assert (gradient(model) == 0).all()
    assert loss.last.status == Status.EMPTY


# ---- errors ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("loss", "batches", "message"),
    [
        (AntidoteLoss(0.2).eval(), make_batches(), "training mode.*got one in eval mode"),
        (
            AntidoteLoss(0.2, reduction="none"),
            make_batches(),
            "reduction 'mean' or 'sum', got one with reduction 'none'",
        ),
        (AntidoteLoss(0.2), [], "at least one"),
        (AntidoteLoss(0.2), [(torch.ones(2, FEATURES),)], r"\(input, target\)"),
        (AntidoteLoss(0.2), [(torch.ones(2, FEATURES),) * 4], r"\(input, target, sample_weight\)"),
    ],
    ids=["eval", "none", "no batches", "no target", "too much"],
)
def test_bad_arguments_say_what_is_accepted(loss, batches, message):
    with pytest.raises(ValueError, match=message):
        accumulate(loss, make_model(), batches)


def test_an_error_in_the_first_pass_leaves_model_and_random_state_alone():
    model, batches = make_model(norm=True, dropout=0.5), make_batches((4, 3))
    batches[1] = (batches[1][0], batches[1][1] + C)
    before, state = copy.deepcopy(list(model.buffers())), torch.get_rng_state()
    with pytest.raises(ValueError, match=r"labels outside 0 \.\.\. 2"):
        accumulate(AntidoteLoss(0.2), model, batches)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(a, b) for a, b in zip(model.buffers(), before, strict=True))
    assert all(p.grad is None for p in model.parameters())


# ---- under two processes ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spread:
    """The micro-batches of each rank."""

    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    loss: dict = field(default_factory=lambda: {"delta": 0.2})
    batches: dict = field(default_factory=dict)


SPREAD = {
    "even": Spread(((4, 3), (5, 2))),
    "uneven": Spread(((4, 3, 6), (5,))),
    "one empty": Spread(((4, 3), (0,))),
    "chi2": Spread(((4, 3), (5, 1)), {"delta": 0.3, "divergence": "chi2"}),
    "sample weight": Spread(((4, 3), (5, 1)), batches={"weighted": True}),
    "ignored": Spread(((4, 3), (5, 1)), batches={"ignore": True}),
    "sum": Spread(((4, 3), (5, 1)), {"delta": 0.2, "reduction": "sum"}),
    "local": Spread(((4, 3), (5, 1)), {"delta": 0.2, "process_group": None}),
}


def spread_batches(name):
    """The micro-batches of both ranks."""
    case = SPREAD[name]
    batches = make_batches(case.sizes[0] + case.sizes[1], **case.batches)
    return batches[: len(case.sizes[0])], batches[len(case.sizes[0]) :]


def worker():
    losses = {name: AntidoteLoss(**case.loss) for name, case in SPREAD.items()}

    def job(rank):
        results = {}
        for name, loss in losses.items():
            model = DistributedDataParallel(make_model())
            value = accumulate(loss, model, spread_batches(name)[rank])
            results[name] = {"value": value, "gradient": gradient(model), "weights": loss.last.weights}
        return results

    return job


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_in_processes(worker, tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("name", [name for name in SPREAD if name != "local"])
def test_accumulated_in_two_processes_equals_joint_in_one(ranks, name):
    model, loss = make_model(), AntidoteLoss(**SPREAD[name].loss)
    first, second = spread_batches(name)
    expected = joint(loss, model, first + second)
    for rank in range(WORLD_SIZE):
        assert distance(ranks[rank][name]["gradient"], gradient(model)) <= 1e-6
        torch.testing.assert_close(ranks[rank][name]["value"], expected)


def test_accumulated_without_a_group_is_local(ranks):
    gradients = []
    for rank, batches in enumerate(spread_batches("local")):
        model, loss = make_model(), AntidoteLoss(0.2)
        torch.testing.assert_close(ranks[rank]["local"]["value"], joint(loss, model, batches))
        torch.testing.assert_close(ranks[rank]["local"]["weights"], loss.last.weights)
        gradients.append(gradient(model))
    torch.testing.assert_close(ranks[0]["local"]["gradient"], (gradients[0] + gradients[1]) / WORLD_SIZE)
