"""Rockafellian relaxation and NLNL's stages against loops that are written out sample by sample."""

import itertools
import math

import pytest
import torch

from antidote_learn import train
from antidote_learn.methods.base import Hooks
from antidote_learn.methods.nlnl_stages import NAMES, NlnlStages
from antidote_learn.methods.rrm import Rrm
from tests.methods.steps import batch_of, built, check_step, copy_of, iris_context, mean, samples, surprise

ROWS = [3, 1, 4, 15, 9, 2, 6, 5]


@pytest.fixture
def ctx(tmp_path):
    return iris_context(tmp_path, epochs=13)


# --- Rockafellian relaxation -----------------------------------------------------------------------------------------


def exact_weights(losses, rate, penalty):
    """Mass leaves the largest losses, one after the other, or all that cost more than twice the price."""
    weights = [1.0] * len(losses)
    order = sorted(range(len(losses)), key=lambda i: losses[i])
    if penalty is not None:
        for i in order:
            weights[i] = 0.0 if losses[i] - losses[order[0]] > 2 * penalty else 1.0
    else:
        left = rate * len(losses)
        for i in reversed(order):
            weights[i] -= min(1.0, left)
            left -= min(1.0, left)
    weights[order[0]] += len(losses) - sum(weights)
    return weights


@pytest.mark.parametrize(
    ("budget", "damping", "every", "warmup", "chosen"),
    [
        ({"noise_rate": 0.3}, 0.5, 1, 0.0, {1, 2, 3, 4, 5, 6, 7, 8, 9}),
        ({"noise_rate": 0.123}, 1.0, 2, 0.0, {2, 4, 6, 8}),
        ({"penalty": 0.2}, 0.3, 1, 0.2, {3, 4, 5, 6, 7, 8, 9}),
        ({"penalty": 0.4}, 0.25, 3, 0.5, {9}),
    ],
)
def test_weights_move_a_part_of_the_way_to_the_exact_ones(ctx, budget, damping, every, warmup, chosen):
    method = built(Rrm(**budget, damping=damping, every=every, warmup=warmup), ctx)
    weights = [1.0] * ctx.samples
    for epoch in range(10):
        ctx.start_epoch(epoch)
        ctx.progress = epoch / ctx.epochs
        losses = ctx.score(method.net).losses.tolist()
        method.begin_epoch(epoch, ctx)
        if epoch in chosen:
            exact = exact_weights(losses, budget.get("noise_rate"), budget.get("penalty"))
            weights = [w + damping * (e - w) for w, e in zip(weights, exact, strict=True)]
        torch.testing.assert_close(method.weights, torch.tensor(weights), rtol=1e-4, atol=1e-4)
        method.step(batch_of(ctx, range(40)), ctx)
    assert method.weights.mean().item() == pytest.approx(1.0, abs=1e-4)
    assert method.weights.min() < 1.0


def test_a_step_is_the_weighted_mean(ctx):
    method, batch = built(Rrm(noise_rate=0.3), ctx), batch_of(ctx, ROWS)
    weights = torch.rand(ctx.samples, generator=torch.Generator().manual_seed(0)) * 2.0
    method.weights.copy_(weights)
    before = copy_of(method.net)
    stats = method.step(batch, ctx)
    found = zip(ROWS, samples(before, batch), strict=True)
    check_step(stats, method.net, before, mean([weights[i] * surprise(z, y) for i, (z, _, y) in found]))
    assert float(stats.numbers["forgotten"]) == pytest.approx(sum(w < 0.5 for w in weights.tolist()) / ctx.samples)


# --- NLNL ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epochs", "lengths"), [(3120, [720, 720, 720, 480, 480]), (13, [3, 3, 3, 2, 2]), (130, [30, 30, 30, 20, 20])]
)
def test_the_stages_have_the_published_proportions(epochs, lengths):
    stages = NlnlStages().stages(epochs)
    assert [stage.epochs for stage in stages] == lengths
    assert [stage.schedule for stage in stages] == ["constant"] * 3 + ["cosine"] * 2
    assert len({stage.name for stage in stages}) == 5


def test_the_stages_fit_any_number_of_epochs():
    for epochs in range(1, 300):
        stages = Hooks(NlnlStages()).stages(epochs)  # refuses lengths that do not add up
        assert all(
            abs(s.epochs - epochs * part) < 1.0 for s, part in zip(stages, [3 / 13] * 3 + [2 / 13] * 2, strict=True)
        )


EPOCHS = {"negative": 1, "selected negative": 4, "selected positive": 7, "confident set": 10, "soft labels": 12}


def entered(stage, ctx, **parameters):
    """A method in the middle of a stage."""
    method = built(NlnlStages(**parameters), ctx)
    ctx.epoch = EPOCHS[stage]
    return method


def test_the_first_stage_makes_a_random_other_class_unlikely(ctx):
    """One of the combinations of other classes explains the loss, and each class comes up as often as the other."""
    method, batch = entered("negative", ctx), batch_of(ctx, [3, 1, 4, 15])
    before = copy_of(method.net)
    found = samples(before, batch)
    classes = [[k for k in range(3) if k != y] for _, _, y in found]
    losses = {
        taken: mean([-torch.log(1 - p[k]) for k, (_, p, _) in zip(taken, found, strict=True)])
        for taken in itertools.product(*classes)
    }
    update, counts = ctx.update, [0, 0, 0, 0]
    ctx.update = lambda loss, *optimizers: None
    for seed in range(100):
        ctx.set_seed(seed)
        loss = method.step(batch, ctx).loss
        (taken,) = [taken for taken, expected in losses.items() if torch.isclose(loss, expected, rtol=1e-5)]
        counts = [count + (k == pair[0]) for count, k, pair in zip(counts, taken, classes, strict=True)]
    assert all(50 - 4.5 * 5 < count < 50 + 4.5 * 5 for count in counts)
    ctx.update = update
    ctx.set_seed(99)
    check_step(method.step(batch, ctx), method.net, before, losses[taken])


def test_a_sure_wrong_class_has_a_finite_loss(ctx):
    method, batch = entered("negative", ctx), batch_of(ctx, ROWS)
    assert 1 not in batch.labels
    with torch.no_grad():
        list(method.net.parameters())[-1].copy_(torch.tensor([0.0, 200.0, 0.0]))  # the biases of the last layer
    assert 1.0 < method.step(batch, ctx).loss < -math.log(1e-7)
    assert all(parameter.isfinite().all() for parameter in method.net.parameters())


@pytest.mark.parametrize(
    ("stage", "sure", "least"),
    [("selected negative", 0.5, 1 / 3), ("selected positive", 0.5, 0.5), ("selected positive", 0.9, 0.9)],
)
def test_samples_are_selected_by_the_mean_probability_of_their_label(ctx, stage, sure, least):
    method = entered(stage, ctx, sure=sure)
    means = torch.rand(ctx.samples, 3, generator=torch.Generator().manual_seed(0))
    method.average.copy_(means)
    assert Hooks(method).begin_epoch(ctx.epoch, ctx).streams[0].index is None  # all samples are seen
    chosen = [float(row[y] >= least) for row, y in zip(means.tolist(), ctx.labels.tolist(), strict=True)]
    assert 0.0 < mean(chosen) < 1.0
    assert method.chosen.tolist() == chosen
    assert float(method.step(batch_of(ctx, ROWS), ctx).numbers["kept"]) == pytest.approx(mean(chosen))


def test_all_samples_are_selected_where_none_is_likely(ctx):
    method = entered("selected positive", ctx)
    method.begin_epoch(ctx.epoch, ctx)  # every class is as likely as the others
    assert method.chosen.tolist() == [1.0] * ctx.samples


def test_the_first_stage_selects_none(ctx):
    method = entered("negative", ctx)
    method.average.zero_()
    method.begin_epoch(ctx.epoch, ctx)
    assert method.chosen.tolist() == [1.0] * ctx.samples


@pytest.mark.parametrize("stage", ["selected negative", "selected positive", "confident set"])
def test_a_sample_that_is_not_selected_has_no_gradient(ctx, stage):
    method, batch = entered(stage, ctx), batch_of(ctx, ROWS)
    method.chosen.zero_()
    method.chosen[torch.tensor(ROWS[:3])] = 1.0
    before = copy_of(method.net)
    ctx.set_seed(0)
    stats = method.step(batch, ctx)
    found = samples(before, batch)[:3]
    if stage == "selected negative":
        sums = [
            sum(-torch.log(1 - p[(y + step) % 3]) for step, (_, p, y) in zip(steps, found, strict=True)) / 8
            for steps in itertools.product([1, 2], repeat=3)
        ]
        (expected,) = [loss for loss in sums if torch.isclose(loss, stats.loss, rtol=1e-5)]
    else:
        expected = sum(surprise(z, y) for z, _, y in found) / 8
    check_step(stats, method.net, before, expected)


def test_means_of_predictions_are_plain_for_ten_epochs_and_fade_later(ctx):
    method, batch = entered("negative", ctx), batch_of(ctx, ROWS)
    seen, faded = [], None
    for _ in range(14):
        with torch.no_grad():
            seen.append(copy_of(method.net)(batch.inputs).softmax(dim=1))
        method.step(batch, ctx)
        if len(seen) <= 10:
            faded = torch.stack(seen).mean(dim=0)
        else:
            faded = 0.9 * faded + 0.1 * seen[-1]
        torch.testing.assert_close(method.average[ROWS], faded, rtol=1e-4, atol=1e-5)
    assert (seen[0] - seen[9]).abs().max() > 0.01
    others = [i for i in range(ctx.samples) if i not in ROWS]
    torch.testing.assert_close(method.average[others], torch.full((len(others), 3), 1 / 3))


def test_the_last_two_stages_begin_with_new_weights_and_what_was_learned(ctx):
    method = entered("selected positive", ctx, sure=0.6)
    method.step(batch_of(ctx, ROWS), ctx)
    likely = torch.Generator().manual_seed(0)
    weights = [[p.detach().clone() for p in method.net.parameters()]]
    for epoch, stage in zip((9, 11), method.stages(13)[3:], strict=True):
        means = torch.rand(ctx.samples, 3, generator=likely)
        method.average.copy_(means)
        ctx.epoch = epoch
        assert method.optimizer.state
        method.begin_stage(stage, ctx)
        weights.append([p.detach().clone() for p in method.net.parameters()])
        assert not method.optimizer.state
        assert torch.equal(method.targets, means)
        assert (method.seen == 0.0).all()
        sure = [float(row[y] >= 0.6) for row, y in zip(means.tolist(), ctx.labels.tolist(), strict=True)]
        assert method.chosen.tolist() == (sure if stage.name == "confident set" else [1.0] * ctx.samples)
        method.step(batch_of(ctx, ROWS), ctx)
        assert not torch.allclose(method.average[ROWS], means[ROWS])
    for one, two in itertools.combinations(weights, 2):
        assert not torch.equal(one[0], two[0])


@pytest.mark.parametrize("stage", ["negative", "selected negative", "selected positive"])
def test_the_first_stages_go_on_with_the_same_network(ctx, stage):
    method = built(NlnlStages(), ctx)
    before = copy_of(method.net)
    method.begin_stage(method.stages(13)[NAMES.index(stage)], ctx)
    for one, two in zip(before.parameters(), method.net.parameters(), strict=True):
        assert torch.equal(one, two)


def test_the_last_stage_learns_averaged_predictions_with_balanced_classes(ctx):
    method, batch = entered("soft labels", ctx), batch_of(ctx, ROWS)
    draw = torch.rand(ctx.samples, 3, generator=torch.Generator().manual_seed(0)) * torch.tensor([3.0, 2.0, 1.0])
    targets = draw / draw.sum(dim=1, keepdim=True)
    method.targets.copy_(targets)
    method.chosen.zero_()  # selects nothing in this stage
    before = copy_of(method.net)
    stats = method.step(batch, ctx)
    likeliest = [row.index(max(row)) for row in targets.tolist()]
    sizes = [likeliest.count(k) for k in range(3)]
    assert len(set(sizes)) == 3
    losses = [
        max(sizes) / sizes[likeliest[i]] * sum(targets[i, k] * surprise(z, k) for k in range(3))
        for i, (z, _, _) in zip(ROWS, samples(before, batch), strict=True)
    ]
    check_step(stats, method.net, before, mean(losses))


# --- parameters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: Rrm(damping=0.0), r"rrm needs damping in \(0, 1\], every >= 1 and warmup in \[0, 1\), got 0.0, 1"),
        (lambda: Rrm(every=0), "rrm needs damping"),
        (lambda: Rrm(warmup=1.0), "rrm needs damping"),
        (lambda: Rrm(penalty=-1.0), "penalty must be a finite number >= 0, got -1.0"),
        (lambda: Rrm(noise_rate=1.5), r"noise_rate must be in \[0, 1\), got 1.5; 20 % is 0.2"),
        (lambda: Rrm(noise_rate=math.nan), r"noise_rate must be in \[0, 1\), got nan"),
        (lambda: NlnlStages(sure=1.0), r"nlnl-stages needs sure in \[0, 1\), got 1.0"),
        (lambda: NlnlStages(sure=math.nan), r"nlnl-stages needs sure in \[0, 1\), got nan"),
    ],
)
def test_parameters_out_of_range_are_refused(make, says):
    with pytest.raises(ValueError, match=says):
        make()


def test_rrm_says_which_samples_it_leaves_out(tmp_path):
    run = train("iris", method="rrm:noise_rate=0.25", noise="symmetric:0.2", epochs=3, out=tmp_path / "run")
    samples = run.samples.sort_values("loss")
    left = samples["forgotten"].to_numpy()
    assert left.sum() == int(0.25 * len(samples))
    assert left[-left.sum() :].all()  # those of largest loss
    assert samples["weight"].mean() == pytest.approx(1.0)
