"""AntidoteLoss as a drop-in for `nn.CrossEntropyLoss`, and what its reference measure and its budget mean."""

import copy
import io
import itertools
import math
import re

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from antidote_learn import AntidoteLoss, Status, delta_from_rate, relax, relax_penalized

N, C = 6, 4
EXTRAS = {"vector": (), "sequence": (3,), "image": (2, 3)}
DIVERGENCES = ["kl", "chi2", "alpha:1.5", "js", "hellinger"]
BUDGETS = [{"delta": 0.2}, {"delta": 0.2, "kappa": 0.0}, {"penalty": 0.5}]
CLASS_WEIGHT = torch.tensor([0.5, 2.0, 1.0, 3.0], dtype=torch.float64)


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def make_logits(*extra, n=N, seed=0, dtype=torch.float64):
    return 2.0 * torch.randn(n, C, *extra, generator=generator(seed), dtype=dtype)


def make_labels(*extra, n=N, seed=1):
    return torch.randint(0, C, (n, *extra), generator=generator(seed))


def make_probabilities(*extra, n=N, seed=2, dtype=torch.float64):
    return torch.randn(n, C, *extra, generator=generator(seed), dtype=dtype).softmax(1)


def value_and_gradient(function, logits):
    """The value and its gradient in the logits; of an unreduced value, that of a combination of its entries."""
    logits = logits.detach().clone().requires_grad_()
    value = function(logits)
    value.backward(1.0 + torch.arange(value.numel(), dtype=value.dtype).reshape(value.shape))
    return value.detach(), logits.grad


def assert_same(ours, theirs, logits, *, rtol=1e-10, atol=1e-12):
    for a, b in zip(value_and_gradient(ours, logits), value_and_gradient(theirs, logits), strict=True):
        torch.testing.assert_close(a, b, rtol=rtol, atol=atol)


# ---- delta = 0 and eval() are cross-entropy --------------------------------------------------------------------------


def keyword_combinations():
    """Every combination of keywords but class weight with label smoothing for indices, which has a test of its own."""
    smoothing, reductions, weights = (0.0, 0.1), ("mean", "sum", "none"), (None, CLASS_WEIGHT)
    for extra, weight, ls, reduction in itertools.product(EXTRAS, weights, smoothing, reductions):
        keywords = {"weight": weight, "label_smoothing": ls, "reduction": reduction}
        names = [extra, "weighted" if weight is not None else "unweighted", f"smoothed{ls:g}", reduction]
        yield pytest.param("probabilities", EXTRAS[extra], keywords, id="-".join(["probabilities", *names]))
        if weight is not None and ls:
            continue
        for ignored in ("nothing", "default", "class"):
            ignore = {} if ignored != "class" else {"ignore_index": 1}
            kind = "indices" if ignored != "default" else "indices with -100"
            name = "-".join(["indices", f"{ignored} ignored", *names])
            yield pytest.param(kind, EXTRAS[extra], keywords | ignore, id=name)


def make_target(kind, extra):
    if kind == "probabilities":
        return make_probabilities(*extra)
    labels = make_labels(*extra)
    if kind == "indices with -100":
        labels.view(-1)[::3] = -100
    return labels


@pytest.mark.parametrize("mode", ["delta 0", "eval"])
@pytest.mark.parametrize(("kind", "extra", "keywords"), list(keyword_combinations()))
def test_equals_cross_entropy(mode, kind, extra, keywords):
    logits, target = make_logits(*extra), make_target(kind, extra)
    loss = AntidoteLoss(0.0, **keywords) if mode == "delta 0" else AntidoteLoss(0.3, **keywords).eval()
    assert_same(lambda x: loss(x, target), lambda x: F.cross_entropy(x, target, **keywords), logits)
    if mode == "eval":
        assert loss.last is None
    else:
        assert loss.last.status == Status.PLAIN


@pytest.mark.parametrize("mode", ["delta 0", "eval"])
@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
def test_class_weight_with_label_smoothing_weighs_elements_not_the_smoothing_term(extra, mode):
    logits, labels = make_logits(*extra), make_labels(*extra)
    loss = AntidoteLoss(0.0, weight=CLASS_WEIGHT, label_smoothing=0.2)
    loss.train(mode == "delta 0")

    def measure_form(x):
        smoothed = F.cross_entropy(x, labels, label_smoothing=0.2, reduction="none")
        return (CLASS_WEIGHT[labels] * smoothed).sum() / CLASS_WEIGHT[labels].sum()

    assert_same(lambda x: loss(x, labels), measure_form, logits)
    torch_form = F.cross_entropy(logits, labels, weight=CLASS_WEIGHT, label_smoothing=0.2)
    assert not torch.isclose(loss(logits, labels), torch_form)  # the documented difference


@pytest.mark.parametrize("mode", ["delta 0", "eval"])
def test_a_single_sample_without_batch_dimension_is_accepted_as_in_torch(mode):
    logits, label = make_logits()[0], torch.tensor(2)
    loss = AntidoteLoss(0.0).train(mode == "delta 0")
    assert_same(lambda x: loss(x, label), lambda x: F.cross_entropy(x, label), logits)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_eval_changes_no_state(reduction):
    loss = AntidoteLoss(0.3, reduction=reduction, weight=CLASS_WEIGHT)
    loss(make_logits(seed=5), make_labels())
    before, state = loss.last, copy.deepcopy(loss.state_dict())
    loss.eval()
    loss(make_logits(seed=6), make_labels())
    loss.relax(torch.rand(7, generator=generator()))
    torch.testing.assert_close(loss.last.weights, before.weights, rtol=0, atol=0)
    torch.testing.assert_close(loss.last.value, before.value, rtol=0, atol=0)
    assert loss.state_dict().keys() == state.keys()
    assert all(torch.equal(loss.state_dict()[key], state[key]) for key in state)


def test_eval_with_sample_weight_is_the_weighted_mean():
    logits, labels, weight = make_logits(), make_labels(), torch.tensor([1, 0, 2, 3, 0, 1])
    loss = AntidoteLoss(0.3).eval()
    rows = torch.repeat_interleave(torch.arange(N), weight)
    assert_same(
        lambda x: loss(x, labels, sample_weight=weight), lambda x: F.cross_entropy(x[rows], labels[rows]), logits
    )


# ---- the objective ---------------------------------------------------------------------------------------------------


def relaxed(losses, budget, divergence):
    """`relax` or `relax_penalized`, whichever belongs to the loss's arguments."""
    kappa = budget.get("kappa", 0.05)
    if "penalty" in budget:
        return relax_penalized(losses, budget["penalty"], kappa=kappa, divergence=divergence)
    return relax(losses, budget["delta"], kappa=kappa, divergence=divergence)


@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_objective_is_the_relaxation_of_the_cross_entropies(divergence, budget, extra):
    logits, labels = make_logits(*extra), make_labels(*extra)
    loss = AntidoteLoss(**budget, divergence=divergence)

    def reference(x):
        losses = F.cross_entropy(x, labels, reduction="none").reshape(-1)
        return relaxed(losses, budget, divergence).value

    assert_same(lambda x: loss(x, labels), reference, logits)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_gradient_is_the_sum_of_q_times_the_gradient_of_each_loss(divergence, budget):
    logits, labels = make_logits(), make_labels()
    loss = AntidoteLoss(**budget, divergence=divergence)
    _, gradient = value_and_gradient(lambda x: loss(x, labels), logits)
    expected = torch.zeros_like(logits)
    for i, weight in enumerate(loss.last.weights):
        x = logits.clone().requires_grad_()
        expected += weight / N * torch.autograd.grad(F.cross_entropy(x[i], labels[i]), x)[0]
    torch.testing.assert_close(gradient, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_gradient_equals_finite_differences(divergence):
    logits, labels = make_logits(n=3), make_labels(n=3)
    loss = AntidoteLoss(0.1, divergence=divergence)
    value_of = lambda x: loss(x, labels)  # noqa: E731
    _, gradient = value_and_gradient(value_of, logits)
    step = 1e-5
    for i, k in itertools.product(range(3), range(C)):
        bump = torch.zeros_like(logits)
        bump[i, k] = step
        slope = (value_of(logits + bump) - value_of(logits - bump)) / (2 * step)
        torch.testing.assert_close(slope, gradient[i, k], rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.7])
def test_noise_rate_is_the_budget_of_that_rate(rate, divergence):
    logits, labels = make_logits(), make_labels()
    by_rate = AntidoteLoss(noise_rate=rate, divergence=divergence)
    by_delta = AntidoteLoss(delta_from_rate(rate, divergence), divergence=divergence)
    assert torch.equal(by_rate(logits, labels), by_delta(logits, labels))
    assert by_rate.delta == by_delta.delta


def test_penalty_chooses_the_budget_for_each_batch():
    loss = AntidoteLoss(penalty=0.5)
    chosen = []
    for seed in range(2):
        logits, labels = make_logits(seed=seed), make_labels()
        value = loss(logits, labels)
        expected = relax_penalized(F.cross_entropy(logits, labels, reduction="none"), 0.5, kappa=0.05)
        torch.testing.assert_close(value, expected.value)
        torch.testing.assert_close(loss.last.r_max, expected.r_max)
        chosen.append(float(loss.last.delta))
    assert chosen[0] != chosen[1]


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_worst_fitting_sample_weighs_least(divergence):
    logits, labels = 5.0 * torch.eye(C), torch.tensor([0, 1, 2, 0])
    loss = AntidoteLoss(noise_rate=0.25, divergence=divergence)
    loss(logits, labels)
    assert loss.last.weights[3] < 0.05
    assert (loss.last.weights[:3] > 1.0).all()


def test_last_is_detached_and_its_weights_have_mean_one():
    loss = AntidoteLoss(0.2)
    assert loss.last is None
    value = loss(make_logits(3).requires_grad_(), make_labels(3))
    last = loss.last
    assert value.requires_grad
    assert not last.value.requires_grad
    assert not last.weights.requires_grad
    assert not last.lam.requires_grad
    assert torch.equal(last.value, value.detach())
    assert last.weights.shape == (N * 3,)
    assert math.isclose(float(last.weights.mean()), 1.0, rel_tol=1e-12)
    assert last.status == Status.BUDGET
    assert math.isclose(float(last.achieved), 0.2, rel_tol=1e-6)


def test_second_derivatives_are_refused():
    logits = make_logits().requires_grad_()
    for keywords in ({}, {"weight": CLASS_WEIGHT}, {"ignore_index": 1}, {"reduction": "sum"}):
        value = AntidoteLoss(0.2, **keywords)(logits, make_labels())
        with pytest.raises(RuntimeError, match="second derivatives"):
            torch.autograd.grad(value, logits, create_graph=True)


# ---- the reference measure -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("n", [1, 7, 49])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_no_sample_weight_is_ones_bit_for_bit(divergence, n, dtype, reduction):
    logits, labels = make_logits(n=n, dtype=dtype), make_labels(n=n)
    loss = AntidoteLoss(0.2, divergence=divergence, reduction=reduction)
    plain = value_and_gradient(lambda x: loss(x, labels), logits)
    weights = loss.last.weights
    ones = value_and_gradient(lambda x: loss(x, labels, sample_weight=torch.ones(n, dtype=dtype)), logits)
    assert torch.equal(weights, loss.last.weights)
    assert torch.equal(plain[0], ones[0])
    assert torch.equal(plain[1], ones[1])


@pytest.mark.parametrize("kind", [torch.int64, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_integer_weight_is_repetition_and_zero_is_removal(divergence, budget, kind):
    logits, labels = make_logits(), make_labels()
    counts = torch.tensor([2, 1, 0, 3, 0, 1])
    rows = torch.repeat_interleave(torch.arange(N), counts)
    weighted, repeated = (AntidoteLoss(**budget, divergence=divergence) for _ in range(2))
    assert_same(
        lambda x: weighted(x, labels, sample_weight=counts.to(kind)), lambda x: repeated(x[rows], labels[rows]), logits
    )
    for name in ("lam", "achieved", "delta", "ess", "forgotten", "threshold"):
        ours, theirs = getattr(weighted.last, name), getattr(repeated.last, name)
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10, msg=lambda m, name=name: f"{name}: {m}")
    totals = torch.zeros(N, dtype=torch.float64).index_add_(0, rows, repeated.last.weights)
    torch.testing.assert_close(weighted.last.weights / N, totals / len(rows), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_reductions_with_integer_weight_are_those_of_the_repeated_batch(reduction):
    logits, labels, counts = make_logits(), make_labels(), torch.tensor([2, 1, 0, 3, 0, 1])
    rows = torch.repeat_interleave(torch.arange(N), counts)
    loss = AntidoteLoss(0.2, reduction=reduction)
    assert_same(lambda x: loss(x, labels, sample_weight=counts), lambda x: loss(x[rows], labels[rows]), logits)


def test_the_scale_of_sample_weight_does_not_matter():
    logits, labels, weight = make_logits(), make_labels(), torch.rand(N, generator=generator(), dtype=torch.float64)
    loss = AntidoteLoss(0.2)
    assert_same(
        lambda x: loss(x, labels, sample_weight=weight), lambda x: loss(x, labels, sample_weight=1e6 * weight), logits
    )


def test_one_weight_for_each_sample_is_that_weight_for_all_its_elements():
    logits, labels = make_logits(2, 3), make_labels(2, 3)
    weight = torch.rand(N, generator=generator(), dtype=torch.float64)
    loss = AntidoteLoss(0.2)
    everywhere = weight[:, None, None].expand(N, 2, 3)
    assert_same(
        lambda x: loss(x, labels, sample_weight=weight), lambda x: loss(x, labels, sample_weight=everywhere), logits
    )


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_class_weight_is_the_reference_measure(divergence):
    logits, labels = make_logits(3), make_labels(3)
    by_class = AntidoteLoss(0.2, divergence=divergence, weight=CLASS_WEIGHT)
    by_sample = AntidoteLoss(0.2, divergence=divergence)
    assert_same(
        lambda x: by_class(x, labels), lambda x: by_sample(x, labels, sample_weight=CLASS_WEIGHT[labels]), logits
    )
    torch.testing.assert_close(by_class.last.weights, by_sample.last.weights)


def test_class_weight_and_sample_weight_multiply():
    logits, labels, weight = make_logits(), make_labels(), torch.tensor([1.0, 2.0, 0.0, 1.0, 0.5, 3.0]).double()
    by_class, by_sample = AntidoteLoss(0.2, weight=CLASS_WEIGHT), AntidoteLoss(0.2)
    product = CLASS_WEIGHT[labels] * weight
    assert_same(
        lambda x: by_class(x, labels, sample_weight=weight),
        lambda x: by_sample(x, labels, sample_weight=product),
        logits,
    )


def test_a_class_of_weight_zero_is_absent():
    logits, labels = make_logits(n=12), make_labels(n=12)
    weight = torch.tensor([1.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    kept = labels != 1
    assert 0 < kept.sum() < 12
    weighted, plain = AntidoteLoss(0.2, weight=weight), AntidoteLoss(0.2)
    assert_same(lambda x: weighted(x, labels), lambda x: plain(x[kept], labels[kept]), logits)
    assert (weighted.last.weights[~kept] == 0).all()
    assert math.isclose(float(weighted.last.weights.mean()), 1.0, rel_tol=1e-12)


def test_class_weight_with_probability_targets_is_inside_the_loss():
    logits, target = make_logits(), make_probabilities()
    loss = AntidoteLoss(0.2, weight=CLASS_WEIGHT)

    def reference(x):
        return relax(F.cross_entropy(x, target, weight=CLASS_WEIGHT, reduction="none"), 0.2, kappa=0.05).value

    assert_same(lambda x: loss(x, target), reference, logits)


@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_ignored_elements_are_absent(divergence, extra):
    logits, labels = make_logits(*extra), make_labels(*extra)
    labels.view(-1)[1::3] = -100
    kept = labels != -100
    ignoring, plain = AntidoteLoss(0.2, divergence=divergence), AntidoteLoss(0.2, divergence=divergence)
    rows = lambda x: x.movedim(1, -1)[kept]  # noqa: E731
    assert_same(lambda x: ignoring(x, labels), lambda x: plain(rows(x), labels[kept]), logits)
    weights = ignoring.last.weights.reshape(labels.shape)
    assert (weights[~kept] == 0).all()
    torch.testing.assert_close(weights[kept] / labels.numel(), plain.last.weights / int(kept.sum()))


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("keywords", [{}, {"label_smoothing": 0.1}, {"weight": CLASS_WEIGHT}], ids=["", "ls", "weight"])
def test_ignored_elements_get_no_gradient_whatever_their_logits(keywords, bad, mode):
    logits, labels = make_logits(), make_labels()
    labels[2] = -100
    loss = AntidoteLoss(0.2, **keywords).train(mode == "train")
    clean_value, clean_gradient = value_and_gradient(lambda x: loss(x, labels), logits)
    logits[2] = bad
    value, gradient = value_and_gradient(lambda x: loss(x, labels), logits)
    assert torch.equal(value, clean_value)
    assert (gradient[2] == 0).all()
    assert torch.equal(gradient, clean_gradient)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_losses_of_weight_zero_are_not_looked_at(bad):
    losses, weight = torch.tensor([0.3, bad, 1.0, 2.0], dtype=torch.float64), torch.tensor([1.0, 0.0, 1.0, 1.0])
    kept = [0, 2, 3]
    for training in (True, False):
        loss = AntidoteLoss(0.2).train(training)
        value, gradient = value_and_gradient(lambda x: loss.relax(x, sample_weight=weight), losses)  # noqa: B023
        removed, expected = value_and_gradient(loss.relax, losses[kept])
        torch.testing.assert_close(value, removed)
        torch.testing.assert_close(gradient[kept], expected)
        assert gradient[1] == 0


# ---- nothing to weigh ------------------------------------------------------------------------------------------------


NOTHING = {
    "empty": (torch.empty(0, C), torch.empty(0, dtype=torch.long), {}),
    "empty sequence": (torch.empty(0, C, 3), torch.empty(0, 3, dtype=torch.long), {}),
    "empty probabilities": (torch.empty(0, C), torch.empty(0, C), {}),
    "all ignored": (make_logits(dtype=torch.float32), torch.full((N,), -100), {}),
    "absent class": (make_logits(dtype=torch.float32), torch.full((N,), 2), {"weight": torch.tensor([1.0, 1, 0, 1])}),
}


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("budget", [{"delta": 0.2}, {"delta": 0.0}, {"penalty": 1.0}], ids=str)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("case", NOTHING)
def test_nothing_to_weigh_gives_zero_with_a_connected_gradient(case, reduction, budget, mode):
    logits, target, keywords = NOTHING[case]
    model = nn.Linear(C, C)
    features = logits.movedim(1, -1)
    loss = AntidoteLoss(**budget, reduction=reduction, **keywords).train(mode == "train")
    value = loss(model(features).movedim(-1, 1), target)
    assert (value == 0).all()
    value.sum().backward()
    assert torch.equal(model.weight.grad, torch.zeros_like(model.weight))
    assert torch.equal(model.bias.grad, torch.zeros_like(model.bias))
    if mode == "train":
        assert loss.last.status == Status.EMPTY
        assert (loss.last.weights == 0).all()


def test_all_zero_sample_weight_is_nothing_to_weigh():
    logits = make_logits().requires_grad_()
    loss = AntidoteLoss(0.2)
    value = loss(logits, make_labels(), sample_weight=torch.zeros(N))
    value.backward()
    assert value == 0
    assert (logits.grad == 0).all()
    assert loss.last.status == Status.EMPTY


# ---- reductions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keywords", [{}, {"weight": CLASS_WEIGHT}, {"ignore_index": 1}], ids=["", "weight", "ignore"])
@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
def test_reductions_are_one_objective(extra, keywords):
    logits, labels = make_logits(*extra), make_labels(*extra)
    by = {name: AntidoteLoss(0.2, reduction=name, **keywords) for name in ("mean", "sum", "none")}
    mean, total, each = (by[name](logits, labels) for name in ("mean", "sum", "none"))
    measure = torch.ones(labels.shape, dtype=torch.float64)
    if "weight" in keywords:
        measure = CLASS_WEIGHT[labels]
    if "ignore_index" in keywords:
        measure = (labels != 1).double()
    assert each.shape == labels.shape
    torch.testing.assert_close(total, mean * measure.sum())
    torch.testing.assert_close(each.sum() / measure.sum() + 0.05 * by["none"].last.achieved, mean)


def test_reduction_none_is_weight_times_loss():
    logits, labels = make_logits(3), make_labels(3)
    loss = AntidoteLoss(0.2, reduction="none")
    each = loss(logits, labels)
    expected = loss.last.weights.reshape(N, 3) * F.cross_entropy(logits, labels, reduction="none")
    torch.testing.assert_close(each, expected)
    torch.testing.assert_close(each.mean() + 0.05 * loss.last.achieved, AntidoteLoss(0.2)(logits, labels))


def test_gradient_of_the_sum_of_unreduced_losses_is_that_of_the_summed_objective():
    logits, labels = make_logits(), make_labels()
    each, total = AntidoteLoss(0.2, reduction="none"), AntidoteLoss(0.2, reduction="sum")
    a = torch.autograd.grad(each(x := logits.clone().requires_grad_(), labels).sum(), x)[0]
    b = torch.autograd.grad(total(x := logits.clone().requires_grad_(), labels), x)[0]
    torch.testing.assert_close(a, b)


# ---- any base loss ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 3, 2)])
@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_relax_takes_any_losses(budget, shape):
    losses = torch.rand(shape, generator=generator(), dtype=torch.float64)
    loss = AntidoteLoss(**budget)
    assert_same(loss.relax, lambda x: relaxed(x.reshape(-1), budget, "kl").value, losses)
    assert AntidoteLoss(**budget, reduction="none").relax(losses).shape == shape
    assert torch.equal(loss.eval().relax(losses), losses.mean())


def test_callable_base_loss():
    inputs, targets = torch.randn(8, generator=generator(), dtype=torch.float64), torch.zeros(8, dtype=torch.float64)
    loss = AntidoteLoss(0.2, base_loss=lambda x, y: (x - y).square())
    assert_same(lambda x: loss(x, targets), lambda x: relax(x.square(), 0.2, kappa=0.05).value, inputs)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("make", [nn.CrossEntropyLoss, nn.MultiMarginLoss])
def test_module_base_loss_is_used_without_reduction_and_left_untouched(make, reduction):
    module = make(reduction=reduction)
    logits, labels = make_logits(), make_labels()
    loss = AntidoteLoss(0.2, base_loss=module)
    each = make(reduction="none")
    assert_same(lambda x: loss(x, labels), lambda x: relax(each(x, labels), 0.2, kappa=0.05).value, logits)
    assert module.reduction == reduction


def test_module_base_loss_moves_with_the_loss():
    loss = AntidoteLoss(0.2, base_loss=nn.CrossEntropyLoss(weight=CLASS_WEIGHT.float(), reduction="none"))
    assert loss.double().base_loss.weight.dtype == torch.float64


@pytest.mark.parametrize(
    "keywords", [{"weight": CLASS_WEIGHT}, {"ignore_index": 0}, {"label_smoothing": 0.1}], ids=lambda k: next(iter(k))
)
@pytest.mark.parametrize("base_loss", [nn.CrossEntropyLoss(reduction="none"), F.mse_loss], ids=["module", "function"])
def test_keywords_of_cross_entropy_with_another_base_loss_are_refused(base_loss, keywords):
    with pytest.raises(ValueError, match=r"belong to a base_loss that is named.*callable"):
        AntidoteLoss(0.2, base_loss=base_loss, **keywords)


# ---- precision -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["indices", "probabilities"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_logits_are_computed_in_float32(dtype, target):
    logits = make_logits(n=40, dtype=torch.float32).to(dtype)
    target = make_labels(n=40) if target == "indices" else make_probabilities(n=40, dtype=torch.float32).to(dtype)
    wide = target.float() if target.is_floating_point() else target
    loss = AntidoteLoss(0.2)
    value, gradient = value_and_gradient(lambda x: loss(x, target), logits)
    expected, expected_gradient = value_and_gradient(lambda x: loss(x, wide), logits.float())
    assert value.dtype == torch.float32
    assert torch.equal(value, expected)
    assert gradient.dtype == dtype
    assert torch.equal(gradient, expected_gradient.to(dtype))


@pytest.mark.parametrize("mode", ["train", "eval"])
def test_autocast_does_not_reach_the_loss(mode):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = nn.Linear(5, C)
    features, labels = torch.randn(32, 5, generator=generator()), make_labels(n=32)
    loss = AntidoteLoss(0.2).train(mode == "train")
    with torch.autocast("cpu", dtype=torch.bfloat16):
        logits = model(features)
        inside = loss(logits, labels)
        inside_relax = loss.relax(F.cross_entropy(logits.float(), labels, reduction="none"))
    assert logits.dtype == torch.bfloat16
    assert inside.dtype == torch.float32
    assert torch.equal(inside, loss(logits.float(), labels))
    assert torch.equal(inside_relax, loss.relax(F.cross_entropy(logits.float(), labels, reduction="none")))
    assert torch.equal(inside_relax, inside)
    inside.backward()
    assert model.weight.grad.isfinite().all()


def test_callable_base_loss_runs_outside_autocast():
    seen = []

    def base_loss(x, y):
        seen.append((x @ x.T).dtype)
        return F.cross_entropy(x, y, reduction="none")

    with torch.autocast("cpu", dtype=torch.bfloat16):
        AntidoteLoss(0.2, base_loss=base_loss)(make_logits(dtype=torch.float32), make_labels())
    assert seen == [torch.float32]


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_class_weight_is_summed_in_float32(dtype, reduction, mode):
    weight = torch.tensor([300.0, 1.0, 7.0, 0.3]).to(dtype)
    logits, labels = make_logits(n=999, dtype=torch.float32), make_labels(n=999)
    half = AntidoteLoss(0.2, weight=weight, reduction=reduction).train(mode == "train")
    full = AntidoteLoss(0.2, weight=weight.float(), reduction=reduction).train(mode == "train")
    assert_same(lambda x: half(x, labels), lambda x: full(x, labels), logits, rtol=1e-5, atol=1e-6)


def test_to_dtype_moves_the_class_weight():
    loss = AntidoteLoss(0.2, weight=CLASS_WEIGHT.float()).to(torch.float64)
    assert loss.weight.dtype == torch.float64
    logits, labels = make_logits(), make_labels()
    assert loss(logits, labels).dtype == torch.float64
    torch.testing.assert_close(loss(logits, labels), AntidoteLoss(0.2, weight=CLASS_WEIGHT)(logits, labels))


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_fields_have_the_precision_of_the_losses(divergence):
    for dtype in (torch.float32, torch.float64):
        loss = AntidoteLoss(0.2, divergence=divergence)
        value = loss(make_logits(dtype=dtype), make_labels())
        fields = [value, loss.last.value, loss.last.weights, loss.last.lam, loss.last.achieved, loss.last.delta]
        assert {x.dtype for x in fields} == {dtype}


# ---- as a module -----------------------------------------------------------------------------------------------------


def test_state_is_the_class_weight_and_is_loaded_without_pickle():
    loss, other = AntidoteLoss(0.2, weight=CLASS_WEIGHT), AntidoteLoss(0.2, weight=torch.ones(C, dtype=torch.float64))
    loss(make_logits(), make_labels())
    assert set(loss.state_dict()) == {"weight"}
    assert set(AntidoteLoss(0.2).state_dict()) == set()
    file = io.BytesIO()
    torch.save(loss.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(other(make_logits(), make_labels()), loss(make_logits(), make_labels()))


@pytest.mark.parametrize("called", [False, True], ids=["before a call", "after a call"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_a_deep_copy_is_the_same_loss(divergence, called):
    loss = AntidoteLoss(0.2, divergence=divergence)
    logits, labels = make_logits().requires_grad_(), make_labels()
    if called:
        loss(logits, labels)
    twin = copy.deepcopy(loss)
    assert torch.equal(twin(logits, labels), loss(logits, labels))
    assert torch.equal(twin.last.weights, loss.last.weights)
    assert (twin.last.rho is None) == (loss.last.rho is None)


def test_repr_names_the_budget():
    assert "delta=0.2" in repr(AntidoteLoss(0.2))
    assert "penalty=1.5" in repr(AntidoteLoss(penalty=1.5, divergence="chi2"))
    assert "chi2" in repr(AntidoteLoss(penalty=1.5, divergence="chi2"))


# ---- bad input: what was received, and what is accepted --------------------------------------------------------------


BAD_ARGUMENTS = {
    "no budget": ({}, "none of them", "exactly one of delta, noise_rate and penalty"),
    "two budgets": ({"delta": 0.1, "noise_rate": 0.2}, "delta=0.1 and noise_rate=0.2", "exactly one"),
    "three budgets": ({"delta": 0.1, "noise_rate": 0.2, "penalty": 1.0}, "penalty=1.0", "exactly one"),
    "negative delta": ({"delta": -0.1}, "-0.1", "delta must be a finite number >= 0"),
    "NaN delta": ({"delta": math.nan}, "nan", "delta must be a finite number >= 0"),
    "infinite delta": ({"delta": math.inf}, "inf", "delta must be a finite number >= 0"),
    "delta of text": ({"delta": "much"}, "'much'", "delta must be a number >= 0"),
    "rate one": ({"noise_rate": 1.0}, "1.0", "[0, 1)"),
    "rate in percent": ({"noise_rate": 20}, "20", "[0, 1)"),
    "negative rate": ({"noise_rate": -0.1}, "-0.1", "noise_rate must be"),
    "NaN rate": ({"noise_rate": math.nan}, "nan", "noise_rate must be"),
    "penalty zero": ({"penalty": 0.0}, "0.0", "penalty must be a finite number > 0"),
    "negative kappa": ({"delta": 0.1, "kappa": -1.0}, "-1.0", "kappa must be a finite number >= 0"),
    "NaN kappa": ({"delta": 0.1, "kappa": math.nan}, "nan", "kappa must be a finite number >= 0"),
    "unknown divergence": ({"delta": 0.1, "divergence": "tv"}, "'tv'", "'kl'"),
    "alpha of one": ({"delta": 0.1, "divergence": "alpha:1"}, "'alpha:1'", "above 1"),
    "unknown base loss": ({"delta": 0.1, "base_loss": "hinge"}, "'hinge'", "accepted: ce, ls"),
    "base loss of no kind": ({"delta": 0.1, "base_loss": 3}, "int", "a name, a callable or a module"),
    "unknown reduction": ({"delta": 0.1, "reduction": "median"}, "'median'", "mean, sum, none"),
    "smoothing above one": ({"delta": 0.1, "label_smoothing": 1.5}, "1.5", "[0, 1]"),
    "NaN smoothing": ({"delta": 0.1, "label_smoothing": math.nan}, "nan", "[0, 1]"),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_constructor_says_what_it_received_and_what_it_accepts(case):
    arguments, received, accepted = BAD_ARGUMENTS[case]
    with pytest.raises(ValueError, match=re.escape(received)) as error:
        AntidoteLoss(**arguments)
    assert accepted in str(error.value)


def labels_with(value):
    labels = make_labels()
    labels[1] = value
    return labels


BAD_CALLS = {
    "target of another length": ({"target": make_labels(n=N - 1)}, "(5,)", "(6,)"),
    "target with a column": ({"target": make_labels()[:, None]}, "(6, 1)", "class indices of shape (6,)"),
    "one-hot integers": ({"target": F.one_hot(make_labels(), C)}, "(6, 4)", "class indices of shape (6,)"),
    "boolean target": ({"target": make_labels() > 1}, "bool", "class indices"),
    "probabilities of other classes": ({"target": torch.rand(N, C + 1)}, "(6, 5)", "(6, 4)"),
    "float indices": ({"target": make_labels().float()}, "(6,)", "class indices must be integers"),
    "integer logits": ({"input": make_labels(C).reshape(N, C)}, "int64", "logits"),
    "list target": ({"target": [0] * N}, "list", "tensors"),
    "label too large": ({"target": labels_with(C)}, "the first is 4", "0 ... 3"),
    "negative label": ({"target": labels_with(-1)}, "the first is -1", "0 ... 3"),
    "sample weight of another length": ({"sample_weight": torch.ones(N + 1)}, "(7,)", "(6,)"),
    "list sample weight": ({"sample_weight": [1.0] * N}, "list", "tensor"),
    "negative sample weight": ({"sample_weight": -torch.ones(N)}, "6 of 6 negative", ">= 0"),
    "NaN sample weight": ({"sample_weight": torch.full((N,), math.nan)}, "6 of 6", ">= 0"),
    "NaN logits": ({"input": make_logits().index_fill(0, torch.tensor([1, 4]), math.nan)}, "2 NaN", "finite or +inf"),
}


@pytest.mark.parametrize("case", BAD_CALLS)
def test_call_says_what_it_received_and_what_it_accepts(case):
    changes, received, accepted = BAD_CALLS[case]
    arguments = {"input": make_logits(), "target": make_labels()} | changes
    with pytest.raises(ValueError, match=re.escape(received)) as error:
        AntidoteLoss(0.2)(**arguments)
    assert accepted in str(error.value)


@pytest.mark.parametrize("keywords", [{}, {"label_smoothing": 0.1}, {"weight": CLASS_WEIGHT}], ids=["", "ls", "weight"])
@pytest.mark.parametrize("extra", EXTRAS.values(), ids=EXTRAS)
def test_a_label_out_of_range_is_an_error_in_every_shape(extra, keywords):
    labels = make_labels(*extra)
    labels.view(-1)[-1] = C + 3
    for mode in (True, False):
        with pytest.raises(ValueError, match=r"1 labels outside 0 \.\.\. 3, the first is 7"):
            AntidoteLoss(0.2, **keywords).train(mode)(make_logits(*extra), labels)


@pytest.mark.parametrize("size", [C - 1, C + 1])
def test_class_weight_of_another_length_is_an_error(size):
    with pytest.raises(ValueError, match=rf"weight.*{size}") as error:
        AntidoteLoss(0.2, weight=torch.ones(size, dtype=torch.float64))(make_logits(), make_labels())
    assert str(C) in str(error.value)


@pytest.mark.parametrize("result", [torch.tensor(1.0), 1.0, torch.ones(3, dtype=torch.long)], ids=str)
def test_a_base_loss_that_reduces_is_refused(result):
    with pytest.raises(ValueError, match="one floating-point loss for each sample"):
        AntidoteLoss(0.2, base_loss=lambda x, y: result)(make_logits(), make_labels())


def test_nan_losses_are_counted():
    losses = torch.tensor([0.1, math.nan, 0.3, math.nan, math.nan])
    with pytest.raises(ValueError, match="3 NaN") as error:
        AntidoteLoss(0.2).relax(losses)
    assert "among 5" in str(error.value)


def test_an_infinite_loss_is_forgotten_if_the_budget_allows_it():
    losses = torch.tensor([0.1, 0.2, 0.3, 0.4, math.inf], requires_grad=True)
    enough, short = AntidoteLoss(noise_rate=0.3), AntidoteLoss(noise_rate=0.1)
    value = enough.relax(losses)
    value.backward()
    assert value < 0.3
    assert losses.grad.isfinite().all()
    assert losses.grad[-1] == 0
    assert short.relax(losses) == math.inf
    assert short.last.status == Status.INFINITE
