"""10 000 classes: no N x K matrix is ever made."""

import subprocess
import sys

PROGRAM = """
import resource, sys
import numpy as np
from antidote_learn.auditing.neighbours import nearest_rows
from antidote_learn.auditing.scores import score
from antidote_learn.core.beliefs import MeanBeliefs, blocks

rows = count = 10_000
rng = np.random.default_rng(0)
true = np.arange(count) // 2 * 2
wrong = rng.random(rows) < 0.1
given = np.where(wrong, rng.integers(0, count, rows), true)
centres = rng.normal(size=(count, 8)).astype(np.float32)
features = centres[true] + 0.05 * rng.normal(size=(rows, 8)).astype(np.float32)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
said = MeanBeliefs(given, count)
for part in blocks(rows, count):
    index = np.arange(part.start, part.stop)
    probs = np.full((len(index), count), 0.2 / count)
    probs[np.arange(len(index)), true[part]] += 0.8
    said.add(index, probs)
found = score(given, count, said=[said.mean], around=nearest_rows(features), trust=said.mean.of(given))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print((peak - before) / 1024, (found.likeliest_class == true).mean(), ((found.quality < 0.5) == (given != true)).mean())
"""


def test_ten_thousand_classes_take_little_memory():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    megabytes, right, agree = map(float, done.stdout.split())
    assert megabytes < 300  # N x K doubles would be 800
    assert right > 0.99
    assert agree > 0.99
