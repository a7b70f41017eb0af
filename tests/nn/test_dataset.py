"""The relaxation over the data set against a slow loop that is written as the method is described."""

import copy
import math
import pickle
from dataclasses import dataclass, field

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from processes import WORLD_SIZE, run_in_processes
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from antidote_learn import AntidoteLoss, DatasetAntidoteLoss, Status, accumulate, relax
from tests.references import grouped_kl, grouped_temperature

N, C, FEATURES = 60, 4, 5
CLASS_WEIGHT = torch.tensor([1.0, 3.0, 0.5, 2.0], dtype=torch.float64)


class FormM:
    """Form M, a sample at a time: averages of losses, one temperature, every given class with its mass."""

    def __init__(self, rate: float, kappa: float = 0.05, *, class_fair: bool = True) -> None:
        self.rate, self.kappa, self.class_fair = rate, kappa, class_fair
        self.count: dict[int, int] = {}
        self.average: dict[int, float] = {}
        self.label: dict[int, int] = {}
        self.mass: dict[int, float] = {}
        self.t = math.nan

    def weights(self, index, losses, labels, u=1.0, mass=None) -> list[float]:
        beta, mass = 0.5, [1.0] * len(index) if mass is None else mass
        for i, loss, label, weight in zip(index, losses, labels, mass, strict=True):
            self.count[i] = self.count.get(i, 0) + 1
            self.average[i] = beta * self.average.get(i, 0.0) + (1 - beta) * loss
            self.label[i], self.mass[i] = label if self.class_fair else 0, weight
        seen = sorted(self.count)
        scores = np.array([self.average[i] / (1 - beta ** self.count[i]) for i in seen])
        groups, p = np.array([self.label[i] for i in seen]), np.array([self.mass[i] for i in seen])
        delta = -math.log(1 - self.rate) * min(1, u / 0.1)
        ratio = np.ones(len(seen))
        if delta > 0 and any(np.ptp(scores[groups == g]) > 0 for g in groups):
            high_enough = grouped_kl(scores, p, groups, max(self.kappa, 1e-5))[1] > delta
            self.t = grouped_temperature(scores, p, groups, delta) if high_enough else self.kappa
            ratio = grouped_kl(scores, p, groups, self.t)[0]
        return [ratio[seen.index(i)] for i in index]


def data(seed=0, size=N, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    features = torch.randn(size, FEATURES, generator=generator, dtype=dtype)
    return features, torch.randint(C, (size,), generator=generator)


def make_model(dtype=torch.float64):
    model = nn.Linear(FEATURES, C, dtype=dtype)
    with torch.no_grad():
        model.weight.copy_(torch.linspace(-1.0, 1.0, FEATURES * C).sin().reshape(C, FEATURES))
        model.bias.copy_(torch.linspace(-0.5, 0.5, C))
    return model


def batches(epochs=3, size=16, seed=0, total=N):
    """(fraction of the training done, indices) of each step; the last batch of an epoch is a smaller one."""
    generator, found = torch.Generator().manual_seed(seed), []
    for _ in range(epochs):
        found += torch.randperm(total, generator=generator).split(size)
    return [(k / len(found), index) for k, index in enumerate(found)]


def gradient(model):
    return torch.cat([p.grad.reshape(-1) for p in model.parameters()])


def descend(model, value):
    model.zero_grad()
    value.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.5 * parameter.grad


# ---- the loop --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("class_fair", [True, False])
@pytest.mark.parametrize(("rate", "kappa"), [(0.4, 0.05), (0.4, 0.9), (0.1, 0.0), (0.75, 0.3), (0.0, 0.05)])
def test_every_step_is_that_of_the_loop(rate, kappa, class_fair):
    features, labels = data()
    ours, theirs = make_model(), make_model()
    loss, form = (
        DatasetAntidoteLoss(N, noise_rate=rate, kappa=kappa, class_fair=class_fair),
        FormM(rate, kappa, class_fair=class_fair),
    )
    for u, index in batches():
        loss.set_progress(u)
        value = loss(ours(features[index]), labels[index], index=index)
        descend(ours, value)
        losses = F.cross_entropy(theirs(features[index]), labels[index], reduction="none")
        weights = form.weights(index.tolist(), losses.tolist(), labels[index].tolist(), u)
        descend(theirs, (torch.tensor(weights) * losses).mean())
        assert value.item() == pytest.approx((torch.tensor(weights) * losses).mean().item(), rel=1e-5)
        torch.testing.assert_close(loss.last.weights, torch.tensor(weights), rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(gradient(ours), gradient(theirs), rtol=1e-4, atol=1e-6)
    if rate > 0:
        assert float(loss.last.lam) + kappa == pytest.approx(form.t, rel=1e-5)


def test_the_weights_are_those_of_relax_over_the_averages():
    features, labels = data()
    loss, model = DatasetAntidoteLoss(N, delta=0.4), make_model()
    for _, index in batches(epochs=2):
        loss(model(features[index]), labels[index], index=index)
    whole = relax(loss.scores, 0.4, kappa=0.05, groups=labels)
    torch.testing.assert_close(loss.last.weights.float(), whole.weights[index], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(loss.last.scope.weights, whole.weights, rtol=1e-5, atol=1e-6)
    for name in ("lam", "achieved", "delta", "ess", "forgotten"):
        assert float(getattr(loss.last, name)) == pytest.approx(float(getattr(whole, name)), rel=1e-5)
    assert loss.last.status is Status.BUDGET
    assert not loss.last.value.requires_grad
    for k in range(C):
        assert float(loss.last.scope.weights[labels == k].mean()) == pytest.approx(1, abs=1e-6)


def test_samples_that_were_not_seen_are_not_there():
    features, labels = data()
    loss, model, index = DatasetAntidoteLoss(N, noise_rate=0.4), make_model(), torch.arange(10, 30)
    value = loss(model(features[index]), labels[index], index=index)
    losses = F.cross_entropy(model(features[index]), labels[index], reduction="none")
    solved = relax(losses.detach(), -math.log(0.6), kappa=0.05, groups=labels[index])
    torch.testing.assert_close(loss.last.weights, solved.weights, rtol=1e-5, atol=1e-6)
    assert value.item() == pytest.approx((solved.weights * losses).mean().item(), rel=1e-5)
    assert (loss.last.scope.weights[:10] == 0).all()
    assert float(loss.last.ess) == pytest.approx(float(solved.ess), rel=1e-5)


def test_without_being_told_there_is_no_ramp_and_the_ramp_is_a_tenth():
    features, labels = data()
    index = torch.arange(N)
    for told, share in ((None, 1.0), (1.0, 1.0), (0.1, 1.0), (0.05, 0.5), (0.0, 0.0)):
        loss = DatasetAntidoteLoss(N, delta=0.3)
        if told is not None:
            loss.set_progress(told)
        loss(make_model()(features), labels, index=index)
        assert float(loss.last.delta) == pytest.approx(0.3 * share)
        assert (loss.last.status is Status.PLAIN) == (share == 0)


def test_a_sample_that_a_batch_holds_twice_counts_once_with_the_mean_of_its_losses():
    labels = data()[1]
    model, index = make_model(), torch.tensor([3, 5, 3, 7, 9, 3, 11])
    other = torch.randn(7, FEATURES, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    loss = DatasetAntidoteLoss(N, delta=0.3)
    losses = F.cross_entropy(model(other), labels[index], reduction="none")
    value = loss(model(other), labels[index], index=index)
    assert loss.visits[index].tolist() == [1] * 7
    assert float(loss.scores[3]) == pytest.approx(losses[index == 3].mean().item(), rel=1e-6)
    assert loss.last.weights[0] == loss.last.weights[2] == loss.last.weights[5]
    assert value.item() == pytest.approx((loss.last.weights * losses).mean().item(), rel=1e-6)
    assert float(loss.measure.sum()) == 5


# ---- keywords --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize(
    ("keywords", "probabilities"),
    [
        ({}, False),
        ({}, True),
        ({"weight": CLASS_WEIGHT}, False),
        ({"weight": CLASS_WEIGHT}, True),
        ({"label_smoothing": 0.1}, False),
        ({"ignore_index": 2}, False),
    ],
    ids=str,
)
def test_without_a_budget_it_is_cross_entropy(keywords, probabilities, reduction):
    features, labels = data(size=20)
    target = F.one_hot(labels, C).double() * 0.7 + 0.3 / C if probabilities else labels
    loss = DatasetAntidoteLoss(20, noise_rate=0.0, reduction=reduction, **keywords)
    ours, theirs = make_model(), make_model()
    value = loss(ours(features), target, index=torch.arange(20))
    expected = F.cross_entropy(theirs(features), target, reduction=reduction, **keywords)
    torch.testing.assert_close(value, expected, rtol=1e-6, atol=1e-9)
    value.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(gradient(ours), gradient(theirs), rtol=1e-6, atol=1e-7)


def test_an_integer_weight_is_the_sample_as_often_and_zero_is_none():
    features, labels = data(size=20)
    counts = torch.randint(0, 4, (20,), generator=torch.Generator().manual_seed(0))
    weighted, repeated = DatasetAntidoteLoss(20, noise_rate=0.4), DatasetAntidoteLoss(int(counts.sum()), noise_rate=0.4)
    ours, theirs = make_model(), make_model()
    of = torch.arange(20).repeat_interleave(counts)
    for part in (torch.arange(11), torch.arange(11, 20), torch.arange(5, 20)):
        rows = torch.cat([(of == i).nonzero()[:, 0] for i in part])
        one = weighted(ours(features[part]), labels[part], index=part, sample_weight=counts[part])
        many = repeated(theirs(features[of[rows]]), labels[of[rows]], index=rows)
        torch.testing.assert_close(one, many, rtol=1e-6, atol=1e-8)
        descend(ours, one)
        descend(theirs, many)
    torch.testing.assert_close(gradient(ours), gradient(theirs), rtol=1e-5, atol=1e-7)
    for name in ("lam", "achieved", "ess", "forgotten"):
        torch.testing.assert_close(getattr(weighted.last, name), getattr(repeated.last, name), rtol=1e-5, atol=1e-6)
    assert (weighted.visits[counts == 0] == 0).all()


def test_class_weights_are_the_measure_and_ignored_elements_are_not_remembered():
    features, labels = data(size=30)
    labels[::5] = -100
    loss, form = DatasetAntidoteLoss(30, noise_rate=0.4, weight=CLASS_WEIGHT), FormM(0.4)
    model, index = make_model(), torch.arange(30)
    value = loss(model(features), labels, index=index)
    kept = labels >= 0
    losses = F.cross_entropy(model(features[kept]), labels[kept], reduction="none").detach()
    mass = CLASS_WEIGHT[labels[kept]]
    weights = form.weights(index[kept].tolist(), losses.tolist(), labels[kept].tolist(), mass=mass.tolist())
    torch.testing.assert_close(loss.last.weights[kept], torch.tensor(weights), rtol=1e-4, atol=1e-5)
    assert value.item() == pytest.approx(float((mass * losses * torch.tensor(weights)).sum() / mass.sum()), rel=1e-5)
    assert (loss.visits == kept).all()


def test_the_class_of_probabilities_is_the_largest():
    features, labels = data(size=30)
    target = F.one_hot(labels, C).double() * 0.6 + 0.4 / C
    soft, smooth = DatasetAntidoteLoss(30, noise_rate=0.4), DatasetAntidoteLoss(30, noise_rate=0.4, label_smoothing=0.4)
    index, logits = torch.arange(30), make_model()(features)
    torch.testing.assert_close(soft(logits, target, index=index), smooth(logits, labels, index=index))
    assert torch.equal(soft.labels, labels)


def test_elements_of_an_image_have_a_place_each():
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(3, C, 2, 5, generator=generator, dtype=torch.float64)
    labels = torch.randint(C, (3, 2, 5), generator=generator)
    flat, shaped = DatasetAntidoteLoss(30, noise_rate=0.3), DatasetAntidoteLoss(30, noise_rate=0.3, reduction="none")
    index = torch.arange(30).reshape(3, 2, 5)
    value = flat(logits.movedim(1, -1).reshape(30, C), labels.reshape(-1), index=index.reshape(-1))
    weighted = shaped(logits, labels, index=index)
    assert weighted.shape == (3, 2, 5)
    torch.testing.assert_close(weighted.mean(), value)


def test_any_base_loss_and_any_target():
    features, labels = data(size=30)
    named, own = (
        DatasetAntidoteLoss(30, noise_rate=0.3, base_loss=base)
        for base in ("gce:q=0.5", lambda x, y: (1 - x.softmax(1).gather(1, y[:, None])[:, 0] ** 0.5) / 0.5)
    )
    index, logits = torch.arange(30), make_model()(features)
    torch.testing.assert_close(own(logits, labels, index=index), named(logits, labels, index=index))
    heights = torch.rand(30, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    squares = DatasetAntidoteLoss(30, delta=0.3, class_fair=False, base_loss=lambda x, y: (x[:, 0] - y) ** 2)
    value = squares(logits, heights, index=index)
    solved = relax((logits[:, 0] - heights).detach() ** 2, 0.3, kappa=0.05)
    assert value.item() == pytest.approx((solved.weights * (logits[:, 0] - heights) ** 2).mean().item(), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_half_precision_is_widened(dtype):
    features, labels = data(size=30)
    loss, logits = DatasetAntidoteLoss(30, noise_rate=0.3), make_model()(features).to(dtype)
    value = loss(logits, labels, index=torch.arange(30, dtype=torch.int32))
    again = DatasetAntidoteLoss(30, noise_rate=0.3)(logits.float(), labels, index=torch.arange(30))
    assert value.dtype == torch.float32
    torch.testing.assert_close(value, again)


# ---- state -----------------------------------------------------------------------------------------------------------


def test_in_evaluation_it_is_the_plain_mean_and_remembers_nothing():
    features, labels = data()
    loss, model = DatasetAntidoteLoss(N, noise_rate=0.4), make_model()
    loss(model(features), labels, index=torch.arange(N))
    before, last = copy.deepcopy(loss.state_dict()), loss.last
    value = loss.eval()(model(features[:7]), labels[:7])
    torch.testing.assert_close(value, F.cross_entropy(model(features[:7]), labels[:7]))
    assert all(torch.equal(tensor, before[name]) for name, tensor in loss.state_dict().items())
    assert torch.equal(loss.last.weights, last.weights)


def steps(loss, model, features, labels, parts):
    values = []
    for u, index in parts:
        if u is not None:
            loss.set_progress(u)
        value = loss(model(features[index]), labels[index], index=index)
        descend(model, value)
        values.append(value.item())
    return values


@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "pickle"])
@pytest.mark.parametrize("cut", [1, 3, 7, 9])
def test_saved_and_continued_is_uninterrupted_to_the_last_bit(cut, way):
    features, labels = data(dtype=torch.float32)
    parts = batches(epochs=3)
    if cut == 9:  # nobody tells it any more: what was told last holds
        parts = parts[:9] + [(None, index) for _, index in parts[9:]]
    whole, model = DatasetAntidoteLoss(N, noise_rate=0.4), make_model(torch.float32)
    expected = steps(whole, model, features, labels, parts)
    first, model = DatasetAntidoteLoss(N, noise_rate=0.4), make_model(torch.float32)
    values = steps(first, model, features, labels, parts[:cut])
    if way == "state_dict":
        second = DatasetAntidoteLoss(N, noise_rate=0.4)
        second.load_state_dict({k: v.clone() for k, v in first.state_dict().items()})
    else:
        second = copy.deepcopy(first) if way == "deepcopy" else pickle.loads(pickle.dumps(first))
    assert values + steps(second, model, features, labels, parts[cut:]) == expected
    for name, tensor in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name


def test_state_is_a_few_numbers_a_sample():
    state = DatasetAntidoteLoss(1000, noise_rate=0.4).state_dict()
    assert all(isinstance(tensor, torch.Tensor) for tensor in state.values())
    assert sum(tensor.numel() * tensor.element_size() for tensor in state.values()) <= 24 * 1000


def test_what_was_looked_at_does_not_change_later():
    features, labels = data()
    loss, model = DatasetAntidoteLoss(N, noise_rate=0.4), make_model()
    first, second = torch.arange(30), torch.arange(30, N)
    loss(model(features[first]), labels[first], index=first)
    last = loss.last
    forgotten, ess = float(last.forgotten), float(last.ess)
    loss(model(features[second]), labels[second], index=second)
    assert (float(last.forgotten), float(last.ess)) == (forgotten, ess)


# ---- micro-batches ---------------------------------------------------------------------------------------------------


def test_parts_of_a_batch_add_up_to_it_where_losses_are_as_remembered():
    """No sample is coupled with its batch: one pass over the parts has the gradient of the whole."""
    features, labels = data()
    loss, model = DatasetAntidoteLoss(N, noise_rate=0.4), make_model()
    index = torch.arange(N)
    for _ in range(3):
        loss(model(features), labels, index=index)
    whole, parts, batch = copy.deepcopy(loss), copy.deepcopy(loss), index[5:35]
    whole(model(features[batch]), labels[batch], index=batch).backward()
    expected = gradient(model).clone()
    model.zero_grad()
    for part in batch.split([4, 11, 15]):
        (parts(model(features[part]), labels[part], index=part) * (len(part) / len(batch))).backward()
    torch.testing.assert_close(gradient(model), expected, rtol=1e-6, atol=1e-8)


def test_two_passes_are_not_for_it():
    with pytest.raises(
        ValueError, match="is for AntidoteLoss, got DatasetAntidoteLoss: call that on every micro-batch"
    ):
        accumulate(DatasetAntidoteLoss(N, noise_rate=0.4), make_model(), [data()])


# ---- nothing, and bad arguments --------------------------------------------------------------------------------------


@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("kind", ["empty", "ignored"])
def test_nothing_to_weigh_is_zero_and_changes_nothing(kind, seen):
    features, labels = data()
    loss, model = DatasetAntidoteLoss(N, noise_rate=0.4), make_model()
    if seen:
        loss(model(features), labels, index=torch.arange(N))
    before = copy.deepcopy(loss.state_dict())
    index = torch.arange(0 if kind == "empty" else 5)
    value = loss(model(features[index]), torch.full_like(index, -100), index=index)
    value.backward()
    assert value.item() == 0
    assert (gradient(model) == 0).all()
    assert loss.last.status is Status.EMPTY
    assert all(torch.equal(tensor, before[name]) for name, tensor in loss.state_dict().items())


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_that_are_no_numbers_are_refused_before_they_are_remembered(bad):
    labels = data()[1]
    loss, logits = DatasetAntidoteLoss(N, noise_rate=0.4, base_loss=lambda x, y: x[:, 0]), torch.zeros(N, C)
    loss(logits, labels, index=torch.arange(N))
    before, logits = copy.deepcopy(loss.state_dict()), torch.zeros(N, C)
    logits[[3, 8]] = bad
    with pytest.raises(ValueError, match="must be finite to be remembered, got 2 that are not among 60"):
        loss(logits, labels, index=torch.arange(N))
    assert all(torch.equal(tensor, before[name]) for name, tensor in loss.state_dict().items())
    weight = torch.ones(N)
    weight[[3, 8]] = 0.0
    assert loss(logits, labels, index=torch.arange(N), sample_weight=weight).isfinite()


LOGITS, LABELS = torch.zeros(3, C), torch.tensor([0, 1, 2])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: DatasetAntidoteLoss(0, delta=0.1), r"num_samples must be a whole number >= 1.*got 0"),
        (lambda: DatasetAntidoteLoss(2.5, delta=0.1), r"num_samples must be .* got 2.5"),
        (lambda: DatasetAntidoteLoss(3), r"exactly one of delta and noise_rate, got none of them"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1, noise_rate=0.1), r"got delta=0.1 and noise_rate=0.1"),
        (lambda: DatasetAntidoteLoss(3, noise_rate=1.0), r"noise_rate must be in \[0, 1\), got 1.0"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1, kappa=-1), r"kappa must be"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1).set_progress(1.5), r"progress must be in \[0, 1\].*got 1.5"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1).set_progress(math.nan), r"progress must be .* got nan"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1)(LOGITS, LABELS), r"index must hold .* got NoneType: have the data"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1)(LOGITS, LABELS, index=[0, 1, 2]), r"got list"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1)(LOGITS, LABELS, index=torch.arange(2)), r"of shape \(3,\).*\(2,\)"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1)(LOGITS, LABELS, index=torch.zeros(3)), r"got torch.float32"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1)(LOGITS, LABELS, index=torch.arange(1, 4)), r"0 ... 2; got 1 ... 3"),
        (lambda: DatasetAntidoteLoss(3, delta=0.1)(LOGITS, LABELS, index=torch.arange(-1, 2)), r"got -1 ... 1"),
        (
            lambda: DatasetAntidoteLoss(3, delta=0.1, base_loss=lambda x, y: x[:, 0])(
                LOGITS, torch.ones(3), index=torch.arange(3)
            ),
            r"class_fair needs targets that are classes .* got torch.float32 of shape \(3,\).*class_fair=False",
        ),
    ],
)
def test_bad_arguments_say_what_is_accepted(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_it_shows_what_it_is():
    assert (
        repr(DatasetAntidoteLoss(9, delta=0.25)) == "DatasetAntidoteLoss(9, delta=0.25, kappa=0.05, reduction='mean')"
    )


# ---- compiled, and the path of a device ------------------------------------------------------------------------------


def test_compiled_steps_are_those_of_eager():
    features, labels = data(dtype=torch.float32)
    eager, loss = (DatasetAntidoteLoss(N, noise_rate=0.4) for _ in range(2))
    torch.compiler.reset()
    compiled, model = torch.compile(loss, fullgraph=True, backend="eager"), make_model(torch.float32)
    for _, index in batches(epochs=2, size=20):
        ours = compiled(model(features[index]), labels[index], index=index)
        theirs = eager(model(features[index]), labels[index], index=index)
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)
        descend(model, theirs)
    torch.testing.assert_close(loss.scores, eager.scores)


@pytest.mark.parametrize("seen", [False, True])
def test_compiled_a_loss_that_is_no_number_shows_in_the_value_and_is_not_remembered(seen):
    features, labels = data(dtype=torch.float32)
    loss, logits, index = DatasetAntidoteLoss(N, noise_rate=0.4), make_model(torch.float32)(features), torch.arange(N)
    if seen:
        loss(logits, labels, index=index)
    torch.compiler.reset()
    bad = logits.detach().clone()
    bad[3] = math.nan
    assert torch.compile(loss, fullgraph=True, backend="eager")(bad, labels, index=index).isnan()
    assert loss.scores.isfinite().all()
    assert loss.visits.tolist() == [int(seen) + (i != 3) for i in range(N)]


# ---- two processes ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """The share of every batch that the first rank has, and the arguments of the loss."""

    share: float = 0.5
    loss: dict = field(default_factory=lambda: {"noise_rate": 0.4})
    weighted: bool = False
    ignore: bool = False


CASES = {
    "even": Case(),
    "uneven": Case(0.8),
    "first empty": Case(0.0),
    "second empty": Case(1.0),
    "not fair": Case(0.3, {"noise_rate": 0.4, "class_fair": False}),
    "kappa 0": Case(0.3, {"delta": 0.2, "kappa": 0.0}),
    "sum": Case(0.3, {"noise_rate": 0.4, "reduction": "sum"}),
    "sample weight": Case(0.6, weighted=True),
    "ignored": Case(0.4, {"noise_rate": 0.4, "weight": CLASS_WEIGHT}, ignore=True),
}


def trained(case, model, rank=None):
    """Values, gradients and state of a few steps, of the rows of one rank or of all."""
    features, labels = data()
    if case.ignore:
        labels[::4] = -100
    weight = torch.randint(0, 3, (N,), generator=torch.Generator().manual_seed(5)) if case.weighted else None
    loss, results = DatasetAntidoteLoss(N, **case.loss), {}
    for step, (u, index) in enumerate(batches()):
        cut = round(case.share * len(index))
        own = index if rank is None else index[:cut] if rank == 0 else index[cut:]
        loss.set_progress(u)
        value = loss(
            model(features[own]), labels[own], index=own, sample_weight=None if weight is None else weight[own]
        )
        descend(model, value)
        results |= {f"value {step}": value.detach(), f"gradient {step}": gradient(model).clone()}
    return results | {"weights": loss.last.weights, **{k: v for k, v in loss.state_dict().items() if k != "weight"}}


def worker():
    def job(rank):
        found = {name: trained(case, DistributedDataParallel(make_model()), rank) for name, case in CASES.items()}
        try:
            logits = torch.zeros(4, C) if rank == 0 else torch.full((4, C), math.nan)
            DatasetAntidoteLoss(N, noise_rate=0.4)(logits, torch.zeros(4, dtype=torch.long), index=torch.arange(4))
        except ValueError as error:
            found["error"] = str(error)
        return found

    return job


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return run_in_processes(worker, tmp_path_factory.mktemp("processes"))


@pytest.mark.parametrize("name", CASES)
def test_two_processes_are_one(ranks, name):
    expected = trained(CASES[name], make_model())
    for rank in range(WORLD_SIZE):
        for key, tensor in expected.items():
            if key != "weights":
                torch.testing.assert_close(
                    ranks[rank][name][key], tensor, rtol=1e-5, atol=1e-6, msg=lambda t, k=key: f"{k}: {t}"
                )
    joined = torch.cat([ranks[rank][name]["weights"] for rank in range(WORLD_SIZE)])
    torch.testing.assert_close(joined, expected["weights"], rtol=1e-5, atol=1e-6)
    for key in ("scores", "visits", "measure", "labels"):
        assert torch.equal(ranks[0][name][key], ranks[1][name][key])


def test_a_bad_loss_on_one_rank_is_an_error_on_all(ranks):
    for rank in range(WORLD_SIZE):
        assert "got 4 that are not among 8" in ranks[rank]["error"]


def test_one_batch_of_everything_is_relaxed_as_by_the_plain_loss():
    features, labels = data()
    ours, theirs = make_model(), make_model()
    fair = DatasetAntidoteLoss(N, noise_rate=0.4, class_fair=False)
    plain = AntidoteLoss(noise_rate=0.4)
    fair(ours(features), labels, index=torch.arange(N)).backward()
    plain(theirs(features), labels).backward()
    torch.testing.assert_close(gradient(ours), gradient(theirs), rtol=1e-5, atol=1e-7)
