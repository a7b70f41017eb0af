"""RobustLoss: the keywords of torch's cross-entropy, for every loss; and losses under AntidoteLoss."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import antidote_learn
from antidote_learn import AntidoteLoss, RobustLoss, relax
from antidote_learn.core.losses import LOSSES
from antidote_learn.core.losses.grammar import loss_function

SUMS = ["nce+0.5*mae", "0.01*eps-ce:m=1e5+5*mae"]
each_loss = pytest.mark.parametrize("name", [*LOSSES, *SUMS])


def batch(shape=(12, 5), *, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(shape, generator=generator, dtype=torch.float64)
    labels = torch.randint(0, shape[1], (shape[0], *shape[2:]), generator=generator)
    return logits.to(dtype).requires_grad_(), labels


CLASS_WEIGHT = torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0])
KEYWORDS = [
    keywords
    for keywords in itertools.product(
        [None, CLASS_WEIGHT], [-100, 1], [0.0, 0.2], ["mean", "sum", "none"], [False, True]
    )
    if keywords[0] is None or not keywords[2] or keywords[4]  # torch weights the smoothing of indices too, we do not
]


@pytest.mark.parametrize(("weight", "ignore_index", "label_smoothing", "reduction", "soft"), KEYWORDS)
@pytest.mark.parametrize("shape", [(12, 5), (4, 5, 3)])
def test_cross_entropy_is_torchs(shape, weight, ignore_index, label_smoothing, reduction, soft):
    logits, labels = batch(shape)
    target = torch.softmax(batch(shape, seed=1)[0].detach(), 1) if soft else labels
    keywords = {"weight": weight, "label_smoothing": label_smoothing, "reduction": reduction}
    if not soft:
        keywords["ignore_index"] = ignore_index
    ours, theirs = RobustLoss("ce", **keywords)(logits, target), nn.CrossEntropyLoss(**keywords)(logits, target)
    torch.testing.assert_close(ours, theirs)


@each_loss
def test_smoothing_weights_and_ignored_labels_mean_the_same_for_every_loss(name):
    logits, labels = batch()
    apart = loss_function(name)(logits.double(), labels)
    weight = torch.tensor([0.5, 2.0, 1.0, 0.0, 3.0], dtype=torch.float64)
    module = RobustLoss(name, weight=weight)
    expected = (weight[labels] * apart).sum() / weight[labels].sum()
    torch.testing.assert_close(module(logits.double(), labels), expected)
    kept = labels != 2
    torch.testing.assert_close(RobustLoss(name, ignore_index=2)(logits.double(), labels), apart[kept].mean())
    smooth = 0.8 * F.one_hot(labels, 5) + 0.04
    expected = loss_function(name)(logits.double(), smooth).mean()
    torch.testing.assert_close(RobustLoss(name, label_smoothing=0.2)(logits.double(), labels), expected)


@each_loss
def test_sample_weight_is_repetition(name):
    logits, labels = batch()
    times = torch.tensor([0, 1, 2, 3] * 3)
    module = RobustLoss(name)
    weighted = module(logits, labels, sample_weight=times)
    again = module(logits.repeat_interleave(times, 0), labels.repeat_interleave(times))
    torch.testing.assert_close(weighted, again)


@each_loss
def test_it_is_a_base_loss_of_antidote(name):
    logits, labels = batch()
    losses = loss_function(name)(logits, labels)
    expected = relax(losses, 0.3, kappa=0.05)
    objective = AntidoteLoss(0.3, base_loss=name)
    value = objective(logits, labels)
    torch.testing.assert_close(value, expected.value)
    (gradient,) = torch.autograd.grad(value, logits)
    (by_parts,) = torch.autograd.grad(expected.value, logits)
    torch.testing.assert_close(gradient, by_parts)
    kept = labels != 1
    ignoring = AntidoteLoss(0.3, base_loss=name, ignore_index=1)(logits, labels)
    torch.testing.assert_close(ignoring, relax(losses[kept], 0.3, kappa=0.05).value)


@each_loss
def test_autocast_changes_nothing_and_half_precision_is_widened(name):
    logits, labels = batch()
    module = RobustLoss(name)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(module(logits, labels), module(logits, labels), rtol=0, atol=0)
        assert module(logits.bfloat16(), labels).dtype == torch.float32


@each_loss
def test_it_compiles_to_one_graph(name):
    torch.compiler.reset()  # the same code for each loss: more than the compiler keeps apart
    logits, labels = batch()
    compiled = torch.compile(RobustLoss(name), backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(logits, labels), RobustLoss(name)(logits, labels))


def test_everything_ignored_is_zero():
    logits, labels = batch()
    value = RobustLoss("gce", ignore_index=0)(logits, torch.zeros_like(labels))
    assert value == 0.0
    value.backward()
    assert torch.equal(logits.grad, torch.zeros_like(logits))


@each_loss
def test_labels_out_of_range_are_named(name):
    logits, labels = batch()
    labels[3] = 7
    with pytest.raises(ValueError, match=r"1 labels outside 0 ... 4, the first is 7"):
        RobustLoss(name)(logits, labels)


def test_bad_keywords_are_refused():
    with pytest.raises(ValueError, match="reduction must be one of mean, sum, none; got 'avg'"):
        RobustLoss("gce", reduction="avg")
    with pytest.raises(ValueError, match="label_smoothing"):
        RobustLoss("gce", label_smoothing=2.0)
    with pytest.raises(ValueError, match="unknown loss 'gcee'"):
        RobustLoss("gcee")
    with pytest.raises(ValueError, match="weight must have one entry for each of 5 classes"):
        RobustLoss("gce", weight=torch.ones(3))(*batch())
    with pytest.raises(ValueError, match=r"base_loss: unknown loss 'gcee'.*also accepted: a callable"):
        AntidoteLoss(0.3, base_loss="gcee")


def test_by_name_and_by_preset():
    assert repr(antidote_learn.loss("nce+rce")) == "RobustLoss('nce+rce', reduction='mean')"
    logits, labels = batch()
    torch.testing.assert_close(
        antidote_learn.loss("preset:NCE+MAE")(logits, labels), RobustLoss("nce+0.5*mae")(logits, labels)
    )
    assert antidote_learn.loss("NCEandAGCE").name == "nce+4*agce:a=6:q=1.5"


def test_state_holds_the_class_weights():
    module = RobustLoss("gce", weight=torch.ones(5))
    assert list(module.state_dict()) == ["weight"]
