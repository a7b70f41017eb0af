"""More than 50 000 samples: the relaxation over the data set is solved now and then, and used again in between."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from processes import WORLD_SIZE, run_in_processes

from antidote_learn import DatasetAntidoteLoss, Status, relax
from antidote_learn.nn import dataset
from tests.references import grouped_kl, grouped_temperature

N, C, B = 640, 4, 20


@pytest.fixture
def few(monkeypatch):
    """Few samples are many: solved anew 8 times while all of them pass, every fourth step of 20 samples."""
    monkeypatch.setattr(dataset, "EXACT", 0)
    monkeypatch.setattr(dataset, "SOLVES", 8)


@pytest.fixture
def solves(monkeypatch):
    """A list that grows with every solve."""
    found, weigh = [], dataset.weigh

    def counted(*args, **keywords):
        found.append(1)
        return weigh(*args, **keywords)

    monkeypatch.setattr(dataset, "weigh", counted)
    return found


def data(seed=0, size=N):
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(size, C, generator=generator), torch.randint(C, (size,), generator=generator)


def parts(epochs, size=N, batch=B):
    generator = torch.Generator().manual_seed(1)
    return [index for _ in range(epochs) for index in torch.randperm(size, generator=generator).split(batch)]


def learn(loss, logits, labels, batches, total=None):
    """The value of every step; logits are moved as a network would be."""
    values, total = [], total or len(batches)
    for step, index in enumerate(batches):
        loss.set_progress(step / total)
        own = logits[index].requires_grad_()
        value = loss(own, labels[index], index=index)
        (gradient,) = torch.autograd.grad(value, own)
        logits[index] = own.detach() - 2 * B * gradient
        values.append(value.item())
    return values


def test_up_to_50_000_samples_every_step_solves_and_beyond_few_do(solves):
    assert dataset.EXACT == 50_000
    logits, labels = data(size=8192)
    for size, expected in ((50_000, 64), (50_001, 48)):
        solves.clear()
        learn(DatasetAntidoteLoss(size, noise_rate=0.3), logits.clone(), labels, parts(1, 8192, 128))
        assert len(solves) == expected  # from 4096 samples on a batch is a 32nd of those seen: every second step


def test_it_is_solved_anew_whenever_a_share_of_the_samples_has_passed(few, solves):
    logits, labels = data()
    loss = DatasetAntidoteLoss(N, noise_rate=0.3)
    learn(loss, logits, labels, parts(1))
    solves.clear()
    learn(loss, logits, labels, parts(3))
    assert len(solves) == 3 * N // (5 * B) + 1  # four batches of 20 fit into 80: every fifth step
    for name in ("lam", "delta", "achieved"):
        assert getattr(loss.last, name).isfinite()


def test_solved_in_every_step_it_is_the_exact_form_to_the_last_bit(monkeypatch):
    found = []
    for exact in (50_000, 0):
        monkeypatch.setattr(dataset, "EXACT", exact)
        monkeypatch.setattr(dataset, "SOLVES", 10**9)
        logits, labels = data()
        loss = DatasetAntidoteLoss(N, noise_rate=0.3)
        found.append((learn(loss, logits, labels, parts(3)), loss.last.weights, logits))
    for one, other in zip(*found, strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


@pytest.mark.parametrize("class_fair", [True, False])
@pytest.mark.parametrize("kappa", [0.05, 5.0])
def test_losses_that_come_later_are_weighed_by_the_last_temperature_and_normalisers(few, solves, kappa, class_fair):
    logits, labels = data()
    mass = torch.randint(1, 4, (N,), generator=torch.Generator().manual_seed(2)).float()
    loss = DatasetAntidoteLoss(N, noise_rate=0.3, kappa=kappa, class_fair=class_fair)
    loss(logits, labels, index=torch.arange(N), sample_weight=mass)
    before, groups = loss.scores.double().numpy(), labels.numpy() if class_fair else np.zeros(N, dtype=np.int64)
    t = max(kappa, grouped_temperature(before, mass.numpy(), groups, -math.log(0.7)))
    ratio, achieved = grouped_kl(before, mass.double().numpy(), groups, t)
    index = torch.arange(40, 60)
    value = loss(logits[index] * 1.2, labels[index], index=index, sample_weight=mass[index])
    assert len(solves) == 1
    moved = loss.scores[index].double().numpy() - before[40:60]
    assert np.abs(moved).max() > 0.1
    torch.testing.assert_close(
        loss.last.weights.double(), torch.tensor(ratio[40:60] * np.exp(-moved / t)), rtol=1e-4, atol=1e-6
    )
    losses = F.cross_entropy(logits[index] * 1.2, labels[index], reduction="none")
    expected = (loss.last.weights * mass[index] * losses).sum() / mass[index].sum()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    assert float(loss.last.lam) + kappa == pytest.approx(t, rel=1e-4)
    assert float(loss.last.achieved) == pytest.approx(achieved, rel=1e-3)
    assert loss.last.status is (Status.BUDGET if kappa < 1 else Status.FLOOR)
    p = mass[index] / mass[index].sum()
    assert float(loss.last.forgotten) == pytest.approx(float(p[loss.last.weights < 0.05].sum()), abs=1e-6)


def test_a_new_class_weighs_one_and_no_loss_more_than_the_smallest_did(few, solves):
    logits, labels = data()
    loss = DatasetAntidoteLoss(N, noise_rate=0.3)
    seen = (labels != 2).nonzero()[:, 0]
    loss(logits[seen], labels[seen], index=seen)
    most = {k: float(loss.last.weights[labels[seen] == k].max()) for k in (0, 1, 3)}
    new = (labels == 2).nonzero()[:5, 0]
    loss(logits[new], labels[new], index=new)
    assert loss.last.weights.tolist() == [1.0] * 5
    easy = torch.cat([(labels == k).nonzero()[:4, 0] for k in most])
    loss(F.one_hot(labels[easy], C) * 1e4, labels[easy], index=easy)
    assert len(solves) == 1
    largest = torch.tensor([most[int(k)] for k in labels[easy]])
    assert (loss.last.weights <= largest * (1 + 1e-5)).all()


@pytest.mark.parametrize("keywords", [{"noise_rate": 0.0}, {"delta": 9.0, "kappa": 0.0}], ids=str)
def test_without_a_budget_or_with_all_of_it(few, keywords):
    """The plain mean, and the smallest losses alone, which has no temperature to keep."""
    logits, labels = data()
    loss = DatasetAntidoteLoss(N, **keywords)
    loss(logits, labels, index=torch.arange(N))
    index = torch.arange(B)
    value = loss(logits[index], labels[index], index=index)
    if "noise_rate" in keywords:
        torch.testing.assert_close(value, F.cross_entropy(logits[index], labels[index]))
    else:
        expected = relax(loss.scores, 9.0, groups=labels).weights[index]
        torch.testing.assert_close(loss.last.weights, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", ["state_dict", "deepcopy", "pickle"])
@pytest.mark.parametrize("cut", [1, 33, 34, 37, 50])
def test_saved_and_continued_is_uninterrupted_to_the_last_bit(few, cut, way):
    batches = parts(3)
    logits, labels = data()
    whole = DatasetAntidoteLoss(N, noise_rate=0.3)
    expected = [learn(whole, logits, labels, batches[:cut]), learn(whole, logits, labels, batches[cut:])]
    logits, _ = data()
    first = DatasetAntidoteLoss(N, noise_rate=0.3)
    values = learn(first, logits, labels, batches[:cut])
    if way == "state_dict":
        second = DatasetAntidoteLoss(N, noise_rate=0.3)
        second.load_state_dict({k: v.clone() for k, v in first.state_dict().items()})
    else:
        second = copy.deepcopy(first) if way == "deepcopy" else pickle.loads(pickle.dumps(first))
    assert [values, learn(second, logits, labels, batches[cut:])] == expected
    for name, tensor in whole.state_dict().items():
        assert torch.equal(second.state_dict()[name], tensor), name


def test_it_trains_as_the_exact_form_does(monkeypatch):
    found = []
    for exact in (50_000, 0):
        monkeypatch.setattr(dataset, "EXACT", exact)
        logits, labels = data(size=4000)
        loss = DatasetAntidoteLoss(4000, noise_rate=0.3)
        learn(loss, logits, labels, parts(6, 4000))
        found.append((float(loss.last.lam), relax(loss.scores, -math.log(0.7), kappa=0.05, groups=labels).weights))
    (lam, weights), (near, others) = found
    assert near == pytest.approx(lam, rel=0.03)
    assert float((weights - others).abs().mean()) < 0.01


def test_compiled_it_solves_in_every_step(few):
    logits, labels = data()
    loss = DatasetAntidoteLoss(N, noise_rate=0.3)
    loss(logits, labels, index=torch.arange(N))
    torch.compiler.reset()
    index = torch.arange(B)
    torch.compile(loss, fullgraph=True, backend="eager")(logits[index], labels[index], index=index)
    assert loss.last.scope.weights.numel() == N


def trained(rank=None):
    """Steps over some of 51 200 samples, of one rank's rows or of all; the last one uses a solution again."""
    logits, labels = data(size=51_200)
    loss, results = DatasetAntidoteLoss(51_200, noise_rate=0.3), []
    for index in parts(1, 51_200, 256)[:41]:
        own = index if rank is None else index[:96] if rank == 0 else index[96:]
        results.append(loss(logits[own], labels[own], index=own))
    used = loss.last.scope.weights.numel() if loss.last.scope else 0
    return {"values": torch.stack(results), "used": torch.tensor(used), **loss.state_dict()}


def worker():
    return trained


def test_two_processes_are_one(tmp_path):
    expected, ranks = trained(), run_in_processes(worker, tmp_path)
    assert int(expected.pop("used")) == 256  # not 51 200: the last step did not solve
    for rank in range(WORLD_SIZE):
        for name, tensor in expected.items():
            torch.testing.assert_close(
                ranks[rank][name], tensor, rtol=1e-5, atol=1e-6, msg=lambda t, n=name: f"{n}: {t}"
            )
