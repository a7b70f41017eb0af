"""A tracker in a training loop of one's own: the table of means kept by hand, in any order, after a restart."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import average_precision_score
from torch import nn

from antidote_learn import AntidoteLoss, Tracker, find_label_issues, inject

ROWS, CLASSES = 90, 3
LABELS = np.arange(ROWS) % CLASSES


def said(seed=0):
    """What a network could say: mostly the label, of the first six rows the next class."""
    generator = torch.Generator().manual_seed(seed)
    truth = np.where(np.arange(ROWS) < 6, (LABELS + 1) % CLASSES, LABELS)
    return 3.0 * torch.from_numpy(np.eye(CLASSES)[truth]).float() + torch.randn(ROWS, CLASSES, generator=generator)


def test_the_table_is_that_of_the_mean_of_what_was_said():
    tracker, mean = Tracker(LABELS), np.zeros((ROWS, CLASSES))
    for epoch in range(3):
        logits = said(epoch)
        mean += logits.double().softmax(1).numpy() / 3
        for index in torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch)).split(32):
            tracker.add(index, logits[index])
    expected = find_label_issues(LABELS, pred_probs=mean)
    found = tracker.table()
    assert found.columns.tolist() == expected.columns.tolist()
    assert found["index"].tolist() == expected["index"].tolist()
    np.testing.assert_allclose(found["label_quality"], expected["label_quality"], rtol=1e-5)
    assert set(found["index"][:6]) == set(range(6))


def test_a_row_that_comes_twice_in_a_batch_counts_twice():
    once, twice = Tracker(LABELS), Tracker(LABELS)
    first, second = said(0), said(1)
    for logits in (first, second):
        once.add(np.arange(ROWS), logits)
    twice.add(np.concatenate([np.arange(ROWS), np.arange(ROWS)]), torch.cat([first, second]))
    np.testing.assert_array_equal(once.table()["label_quality"], twice.table()["label_quality"])


def test_a_checkpoint_goes_on_where_it_was():
    whole, begun = Tracker(LABELS), Tracker(LABELS)
    for tracker in (whole, begun):
        tracker.add(np.arange(ROWS), said(0))
    resumed = Tracker(LABELS)
    resumed.load_state_dict(begun.state_dict())
    for tracker in (whole, resumed):
        tracker.add(np.arange(ROWS), said(1))
    assert resumed.table().equals(whole.table())


def test_rows_that_were_never_seen_are_not_suspected():
    tracker = Tracker(LABELS)
    tracker.add(np.arange(30), said()[:30])
    table = tracker.table()
    assert not table.loc[table["index"] >= 30, "is_label_issue"].any()


def digits():
    X, y = load_digits(return_X_y=True)
    noisy = inject(y[:900], "symmetric:0.3", seed=0)
    return torch.from_numpy(X[:900] / 16).float(), torch.from_numpy(noisy.labels), noisy.mask


@pytest.mark.parametrize("what", ["logits", "loss.last"])
def test_wrong_labels_of_a_loop_are_found(what):
    torch.manual_seed(0)
    inputs, labels, wrong = digits()
    net = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    loss, optimizer = AntidoteLoss(noise_rate=0.3), torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    tracker = Tracker(labels)
    for _ in range(12):
        for index in torch.randperm(len(labels)).split(100):
            logits = net(inputs[index])
            value = loss(logits, labels[index])
            tracker.add(index, logits if what == "logits" else loss.last)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
    table = tracker.table().sort_values("index")
    assert average_precision_score(wrong, 1 - table["label_quality"]) > (0.95 if what == "logits" else 0.9)
    assert (
        average_precision_score(wrong, 1 - tracker.table(inputs.numpy()).sort_values("index")["label_quality"]) > 0.95
    )


@pytest.mark.parametrize(
    ("index", "logits", "says"),
    [
        ([0, 1], torch.zeros(3, 3), "index must name one sample for each of the 3 rows"),
        ([0, 90], torch.zeros(2, 3), r"index must lie in 0 \.\.\. 89, got 0 \.\.\. 90"),
        ([0, -1], torch.zeros(2, 3), r"index must lie in 0 \.\.\. 89"),
        ([0, 1], torch.zeros(2, 4), r"give logits of shape \(B, 3\)"),
        ([0, 1], [0.0, 0.0], "got list"),
    ],
)
def test_bad_calls_say_what_is_wanted(index, logits, says):
    with pytest.raises(ValueError, match=says):
        Tracker(LABELS).add(index, logits)


def test_a_table_of_nothing_is_refused():
    with pytest.raises(ValueError, match="nothing was added yet"):
        Tracker(LABELS).table()


def test_names_and_classes_without_samples():
    tracker = Tracker([0, 1] * 20, num_classes=3)
    tracker.add(np.arange(40), torch.zeros(40, 3))
    assert len(tracker.table()) == 40
    named = Tracker(np.array(["b", "a"])[LABELS % 2])
    named.add(np.arange(ROWS), torch.tensor([[0.0, 5.0], [5.0, 0.0]])[torch.from_numpy(LABELS % 2)])
    assert not named.table()["is_label_issue"].any()
