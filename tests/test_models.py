"""Networks: sizes counted by hand, blocks written out, initial weights, and every way to name a model."""

import functools
import math
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from antidote_learn.models import MODELS, Network, build_model, default_model, features_and_head
from antidote_learn.models.networks import cnn8, cnn_mnist, mlp, preact_resnet18, resnet34, resnet50

SHAPES = {
    "cnn8": (3, 32, 32),
    "cnn-mnist": (1, 28, 28),
    "resnet34": (3, 16, 16),
    "preact-resnet18": (3, 16, 16),
    "preact-resnet18-dividemix": (3, 16, 16),
    "resnet50": (3, 64, 64),
    "mlp": (64,),
}
FEATURES = {
    "cnn8": 256, "cnn-mnist": 128, "resnet34": 512, "preact-resnet18": 512, "preact-resnet18-dividemix": 512,
    "resnet50": 2048, "mlp": 256,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)  # factories draw from torch's own random state


def inputs(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def build(spec: str, *, seed: int = 0) -> nn.Module:
    return build_model(spec, shape=SHAPES[spec.split(":")[0]], classes=10, seed=seed)


def conv(n: int, m: int, kernel: int = 3) -> int:
    """Weights of a convolution from n to m channels without bias, and of the batch norm after it."""
    return n * m * kernel**2 + 2 * m


# --- layer for layer -------------------------------------------------------------------------------------------------

SIZES = {
    # conv 3-64-64-128-128-196-196 with bias and batch norm, 3136-256 with batch norm, 256-10
    "cnn8": (
        lambda: cnn8(10),
        (1792 + 36928 + 73856 + 147584 + 225988 + 345940) + 2 * 776 + (803072 + 512) + 2570,
        1_639_794,
    ),
    # conv 1-32-64 with bias and batch norm, 3136-128 with batch norm, 128-10
    "cnn-mnist": (lambda: cnn_mnist(10), (320 + 18496) + 2 * 96 + (401536 + 256) + 1290, 422_090),
    "resnet34": (
        lambda: resnet34(100),
        conv(3, 64)
        + 6 * conv(64, 64)
        + conv(64, 128) + 7 * conv(128, 128) + conv(64, 128, 1)
        + conv(128, 256) + 11 * conv(256, 256) + conv(128, 256, 1)
        + conv(256, 512) + 5 * conv(512, 512) + conv(256, 512, 1)
        + 51300,
        21_328_292,
    ),
    # the norm comes before each convolution; the shortcuts have none
    "preact-resnet18": (
        lambda: preact_resnet18(10),
        (1728 + 128)
        + 2 * (128 + 36864 + 128 + 36864)
        + (128 + 73728 + 256 + 147456 + 8192) + 2 * (256 + 147456)
        + (256 + 294912 + 512 + 589824 + 32768) + 2 * (512 + 589824)
        + (512 + 1179648 + 1024 + 2359296 + 131072) + 2 * (1024 + 2359296)
        + 5130,
        11_171_274,
    ),
    "resnet50": (
        lambda: resnet50(1000),
        conv(3, 64, 7)
        + sum(
            conv(n, 4 * m, 1)
            + conv(n, m, 1) + (blocks - 1) * conv(4 * m, m, 1)
            + blocks * (conv(m, m) + conv(m, 4 * m, 1))
            for n, m, blocks in ((64, 64, 3), (256, 128, 4), (512, 256, 6), (1024, 512, 3))
        )
        + 2_049_000,
        25_557_032,  # as torchvision states it
    ),
    "mlp": (lambda: mlp(10, inputs=64), 16640 + 512 + 65792 + 512 + 2570, 86_026),
    "mlp without norm": (lambda: mlp(10, inputs=64, norm="none"), 16640 + 65792 + 2570, 85_002),
    "mlp without hidden layers": (lambda: mlp(10, inputs=64, hidden=()), 650, 650),
}  # fmt: skip


@pytest.mark.parametrize(("factory", "by_hand", "literal"), SIZES.values(), ids=SIZES.keys())
def test_the_number_of_parameters_is_that_of_the_layer_list(factory, by_hand, literal):
    with torch.device("meta"):
        network = factory()
    assert by_hand == literal
    assert sum(p.numel() for p in network.parameters()) == literal


def test_resnet50_costs_what_torchvision_states():
    """4.09 G multiplications at 224 pixels; with the stride in the 1x1 convolutions it were 3.8."""
    with torch.device("meta"):
        network, x = resnet50(1000).eval(), torch.empty(1, 3, 224, 224)
    with FlopCounterMode(display=False) as counter:
        network(x)
    assert counter.get_total_flops() / 2e9 == pytest.approx(4.09, abs=0.005)


def test_resnet34_keeps_the_resolution_in_its_stem():
    """Multiplications at 32 pixels, stage by stage at 32, 16, 8 and 4 pixels."""
    with torch.device("meta"):
        network, x = resnet34(10).eval(), torch.empty(1, 3, 32, 32)
    with FlopCounterMode(display=False) as counter:
        network(x)
    stages = [(32, 64, 6, 0), (16, 128, 7, 64), (8, 256, 11, 128), (4, 512, 5, 256)]
    by_hand = 9 * 3 * 64 * 32**2 + 512 * 10
    by_hand += sum(side**2 * (9 * m * m * blocks + 10 * n * m) for side, m, blocks, n in stages)
    assert counter.get_total_flops() == 2 * by_hand


def norm(x: Tensor, layer: nn.Module) -> Tensor:
    """Batch norm in training, written out."""
    mean, var = x.mean((0, 2, 3), keepdim=True), x.var((0, 2, 3), keepdim=True, unbiased=False)
    return (x - mean) / (var + 1e-5).sqrt() * layer.weight.view(1, -1, 1, 1) + layer.bias.view(1, -1, 1, 1)


@functools.cache
def disturbed(factory: Callable[[int], Network]) -> Network:
    """Parameters of batch norm that differ from 1 and 0, so that each layer's place is seen."""
    network, generator = factory(10), torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.weight.data.uniform_(0.5, 1.5, generator=generator)
            module.bias.data.uniform_(-0.5, 0.5, generator=generator)
    return network.double()


@pytest.mark.parametrize(("index", "stride"), [(3, 1), (5, 2), (6, 1)])
def test_a_preactivated_block_written_out(index, stride):
    block = disturbed(preact_resnet18).features[index]
    x = inputs(4, block.activation[0].num_features, 8, 8).double()
    a = F.relu(norm(x, block.activation[0]))
    inner = F.relu(norm(F.conv2d(a, block.body[0].weight, stride=stride, padding=1), block.body[1]))
    shortcut = x if block.shortcut is None else F.conv2d(a, block.shortcut.weight, stride=stride)
    expected = F.conv2d(inner, block.body[3].weight, padding=1) + shortcut
    assert (block.shortcut is None) == (index != 5)
    torch.testing.assert_close(block(x), expected)


@pytest.mark.parametrize(("index", "stride"), [(3, 1), (6, 2), (7, 1)])
def test_a_residual_block_written_out(index, stride):
    block = disturbed(resnet34).features[index]
    x = inputs(4, block.body[0].in_channels, 8, 8).double()
    inner = F.relu(norm(F.conv2d(x, block.body[0].weight, stride=stride, padding=1), block.body[1]))
    outer = norm(F.conv2d(inner, block.body[3].weight, padding=1), block.body[4])
    shortcut = x
    if index == 6:
        shortcut = norm(F.conv2d(x, block.shortcut[0].weight, stride=2), block.shortcut[1])
    torch.testing.assert_close(block(x), F.relu(outer + shortcut))


def test_the_stem_of_resnet50_written_out():
    stem, x = disturbed(resnet50).features[:4], inputs(2, 3, 33, 40).double()
    expected = F.relu(norm(F.conv2d(x, stem[0].weight, stride=2, padding=3), stem[1]))
    torch.testing.assert_close(stem(x), F.max_pool2d(expected, 3, stride=2, padding=1))


def by_pixels(x: Tensor, weight: Tensor, stride: int) -> Tensor:
    """A convolution as a sum over the pixels of its kernel."""
    side = weight.shape[-1]
    x = F.pad(x, [side // 2] * 4)
    height, width = ((n - side) // stride + 1 for n in x.shape[2:])
    result = torch.zeros(len(x), len(weight), height, width, dtype=x.dtype)
    for i in range(side):
        for j in range(side):
            seen = x[:, :, i : i + stride * height : stride, j : j + stride * width : stride]
            result += torch.einsum("nchw,oc->nohw", seen, weight[:, :, i, j])
    return result


def by_hand(state: dict[str, Tensor], x: Tensor, *, activated: bool) -> Tensor:
    """The logits of a PreAct ResNet-18 from its weights alone; ``activated``: identities start behind the ReLU."""

    def relu_norm(x: Tensor, key: str) -> Tensor:
        mean, var, a, b = (state[f"{key}.{name}"] for name in ("running_mean", "running_var", "weight", "bias"))
        return (((x - mean[:, None, None]) / (var[:, None, None] + 1e-5).sqrt()) * a[:, None, None]
                + b[:, None, None]).clamp(min=0)  # fmt: skip

    x = relu_norm(by_pixels(x, state["features.0.weight"], 1), "features.1")
    for number in range(8):
        key = f"features.{3 + number}"
        stride = 2 if number in (2, 4, 6) else 1
        a = relu_norm(x, f"{key}.activation.0")
        inner = relu_norm(by_pixels(a, state[f"{key}.body.0.weight"], stride), f"{key}.body.1")
        kept = a if activated else x
        if stride == 2:
            kept = by_pixels(a, state[f"{key}.shortcut.weight"], 2)
        x = by_pixels(inner, state[f"{key}.body.3.weight"], 1) + kept
    return x.mean((2, 3)) @ state["head.weight"].T + state["head.bias"]


@pytest.mark.parametrize(("name", "activated"), [("preact-resnet18", False), ("preact-resnet18-dividemix", True)])
def test_a_preact_resnet18_computed_from_its_weights_alone(name, activated):
    network = build(name).double()
    for step in range(3):  # so that the running means are not 0
        network(inputs(8, 3, 12, 12, seed=step).double() + 0.3)
    network.eval()
    x = inputs(2, 3, 12, 12, seed=9).double()
    torch.testing.assert_close(network(x), by_hand(network.state_dict(), x, activated=activated))
    assert not torch.allclose(network(x), by_hand(network.state_dict(), x, activated=not activated), rtol=0.01)


def test_nothing_follows_the_last_preactivated_block():
    x = inputs(4, 3, 32, 32)
    assert (preact_resnet18(10).features(x) < 0).any()
    assert (cnn8(10).features(x) >= 0).all()


def test_cnn8_is_its_layer_list():
    """conv, batch norm, ReLU, conv, batch norm, ReLU, pool, three times; then linear, batch norm, ReLU."""
    third = ["Conv2d", "BatchNorm2d", "ReLU"] * 2 + ["MaxPool2d"]
    expected = [*third * 3, "Flatten", "Linear", "BatchNorm1d", "ReLU"]
    assert [type(layer).__name__ for layer in cnn8(10).features] == expected


def bound(weight: Tensor) -> float:
    return float(weight.detach().abs().max())


@pytest.mark.parametrize("factory", [cnn8, cnn_mnist, resnet34])
def test_the_papers_networks_start_kaiming_and_xavier_uniform(factory):
    for module in factory(10).modules():
        if isinstance(module, nn.Conv2d) and module.weight.numel() > 1000:
            fan_in = module.in_channels * module.kernel_size[0] ** 2
            assert 0.97 < bound(module.weight) / math.sqrt(6 / fan_in) < 1.000001
            if module.bias is not None:
                assert 0.5 < bound(module.bias) * math.sqrt(fan_in) < 1.000001
        if isinstance(module, nn.Linear):
            limit = math.sqrt(6 / (module.in_features + module.out_features))
            assert 0.97 < bound(module.weight) / limit < 1.000001


def test_resnet34_can_start_as_torch_does():
    """Every weight within torch's own bound for a layer of its shape, which its spread fills; batch norm as it is."""
    network = build("resnet34:init=default")
    for module in network.modules():
        if not isinstance(module, (nn.Conv2d, nn.Linear)) or module.weight.numel() < 1000:
            continue
        own = type(module)(*module.weight.shape[1::-1], *module.weight.shape[2:3])
        limit = 1 / math.sqrt(module.weight[0].numel())  # nn.init.kaiming_uniform_ with a = sqrt(5)
        assert 0.97 * limit < bound(module.weight) < 1.000001 * limit
        assert 0.97 * limit < bound(own.weight) < 1.000001 * limit
        assert float(module.weight.detach().std()) == pytest.approx(limit / math.sqrt(3), rel=0.03)
        assert float(own.weight.detach().std()) == pytest.approx(limit / math.sqrt(3), rel=0.03)
    assert bound(network.head.bias) < 1 / math.sqrt(512)
    norms = [module for module in network.modules() if isinstance(module, nn.BatchNorm2d)]
    assert all(torch.all(norm.weight == 1) and torch.all(norm.bias == 0) for norm in norms)
    count = sum(weight.numel() for weight in network.parameters())
    assert count == sum(weight.numel() for weight in build("resnet34").parameters()) == 21_328_292 - 90 * 513


def test_resnet34_starts_as_in_the_papers_code_unless_asked():
    same, other = build("resnet34:init=kaiming").state_dict(), build("resnet34:init=default").state_dict()
    for name, weight in build("resnet34").state_dict().items():
        assert torch.equal(weight, same[name])
    assert not torch.equal(same["head.weight"], other["head.weight"])


def test_resnet50_starts_as_its_shortcuts():
    network = resnet50(10)
    for block in network.features[4:-2]:
        x = inputs(2, block.body[0].in_channels, 4, 4)
        torch.testing.assert_close(block(x), F.relu(block.shortcut(x)))
        weight = block.body[6].weight.detach()
        assert float(weight.std()) == pytest.approx(math.sqrt(2 / weight.shape[0]), rel=0.03)  # fan_out


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (1.0, [64, 64, 128, 128, 196, 196, 256]),
        (0.5, [32, 32, 64, 64, 98, 98, 128]),
        (0.3, [19, 19, 38, 38, 59, 59, 77]),
        (2, [128, 128, 256, 256, 392, 392, 512]),
        (1e-6, [1, 1, 1, 1, 1, 1, 1]),
    ],
)
def test_width_scales_every_hidden_layer(width, expected):
    network = cnn8(10, width=width)
    layers = [m for m in network.features if isinstance(m, (nn.Conv2d, nn.Linear))]
    assert [layer.weight.shape[0] for layer in layers] == expected
    assert network.head.weight.shape == (10, expected[-1])


# --- what every network does -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_features_and_head_make_the_logits_and_all_parameters_learn(name):
    network, x = build(name), inputs(4, *SHAPES[name])
    logits = network(x)
    logits.square().sum().backward()
    assert logits.shape == (4, 10)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    features, head = features_and_head(network.eval())
    assert features(x).shape == (4, FEATURES[name])
    assert torch.equal(head(features(x)), network(x))
    assert isinstance(head, nn.Linear)


@pytest.mark.parametrize("name", MODELS)
def test_the_state_is_parameters_and_running_statistics(name):
    with torch.device("meta"):
        network = build(name)
    statistics = {"running_mean", "running_var", "num_batches_tracked"}
    parameters = dict(network.named_parameters())
    for key, value in network.state_dict().items():
        assert key.startswith(("features.", "head."))
        assert key in parameters or key.rpartition(".")[2] in statistics
        assert value.is_contiguous()
    assert {"head.weight", "head.bias"} <= set(parameters)


def test_the_state_of_an_mlp_without_norm_is_its_weights():
    names = ["features.1.weight", "features.1.bias", "features.3.weight", "features.3.bias", "head.weight", "head.bias"]
    assert list(mlp(3, inputs=5, norm="none").state_dict()) == names


@pytest.mark.parametrize("name", ["cnn8", "cnn-mnist", "preact-resnet18"])
def test_the_order_in_memory_changes_nothing(name):
    network, x = build(name).double().eval(), inputs(2, *SHAPES[name]).double()
    torch.testing.assert_close(network(x.contiguous(memory_format=torch.channels_last)), network(x))


@pytest.mark.parametrize("shape", [(1, 8, 8), (4, 9, 17), (2, 40, 24)])
@pytest.mark.parametrize("name", MODELS)
def test_other_channels_and_sizes(name, shape):
    with torch.device("meta"):
        network, x = build_model(name, shape=shape, classes=7, seed=0), torch.empty(3, *shape)
        assert network(x).shape == (3, 7)
        assert all(value.is_meta for value in network.state_dict().values())


def test_size_may_be_one_number():
    assert cnn8(10, channels=1, size=24)(inputs(2, 1, 24, 24)).shape == (2, 10)
    assert cnn_mnist(10, channels=3, size=20)(inputs(2, 3, 20, 20)).shape == (2, 10)


def test_without_norm_no_sample_depends_on_another():
    x = inputs(6, 1, 8, 8).double()
    alone = mlp(10, inputs=64, norm="none").double()
    torch.testing.assert_close(alone(x)[:1], alone(x[:1]))
    together = mlp(10, inputs=64).double()
    assert not torch.allclose(together(x)[:2], together(x[:2]))


def test_the_features_of_a_foreign_module_are_its_logits():
    model, x = nn.Linear(5, 3), inputs(2, 5)
    features, head = features_and_head(model)
    assert torch.equal(features(x), model(x))
    assert torch.equal(head(features(x)), model(x))


# --- building by name ------------------------------------------------------------------------------------------------


def same(one: nn.Module, other: nn.Module) -> bool:
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize("spec", ["cnn8:width=0.25", "cnn-mnist", "mlp"])
def test_the_seed_alone_decides_the_weights(spec):
    state = torch.get_rng_state()
    first = build(spec, seed=5)
    assert torch.equal(torch.get_rng_state(), state)
    nn.Linear(2, 2)  # moves torch's own random state
    assert same(build(spec, seed=5), first)
    assert not same(build(spec, seed=6), first)


def test_parameters_follow_the_name():
    half = build("cnn8:width=0.5")
    assert half.head.in_features == 128
    network = build("mlp:hidden=[128,64]:norm=none")
    sizes = [64, 128, 64, 10]
    linear = [m for m in network.modules() if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == list(pairwise(sizes))
    assert not any(isinstance(m, nn.BatchNorm1d) for m in network.modules())
    assert build("mlp:hidden=[]").head.in_features == 64


def test_the_table_is_complete():
    assert list(MODELS) == [
        "cnn8", "cnn-mnist", "resnet34", "preact-resnet18", "preact-resnet18-dividemix", "resnet50", "mlp",
    ]  # fmt: skip
    for entry in MODELS.values():
        assert entry.description
        assert "\n" not in entry.description
        assert all(f"{parameter}=" in entry.description for parameter in entry.parameters)


DEFAULTS = {
    (1,): "mlp", (4000,): "mlp", (1, 8, 8): "mlp", (3, 15, 200): "mlp", (3, 16, 16): "cnn8", (1, 28, 28): "cnn-mnist",
    (3, 28, 28): "cnn8", (1, 32, 32): "cnn8", (3, 32, 32): "cnn8", (3, 32, 48): "preact-resnet18",
    (3, 64, 64): "preact-resnet18", (3, 65, 64): "resnet50", (3, 224, 224): "resnet50",
}  # fmt: skip


@pytest.mark.parametrize(("shape", "name"), DEFAULTS.items())
def test_the_default_suits_the_shape(shape, name):
    assert default_model(shape) == name
    with torch.device("meta"):
        assert build_model(name, shape=shape, classes=2, seed=0)(torch.empty(2, *shape)).shape == (2, 2)


MODULE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, classes, depth=1):
        super().__init__()
        self.layer = nn.Linear(4, classes)

def both(*, shape, classes):
    return nn.Linear(shape[0], classes)

def anything(**given):
    return nn.Linear(given["shape"][0], given["classes"])

def nothing():
    return nn.Linear(4, 3)

def later():
    import antidote_test_neighbour
    return nn.Linear(4, antidote_test_neighbour.CLASSES)

def needs_more(num_classes):
    return nn.Linear(4, num_classes)

def text():
    return "a network"

ready = nn.Linear(4, 3)
number = 3
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module in the current directory, which is not on the path."""
    package = tmp_path / "antidote_test_package"
    package.mkdir()
    (package / "nets.py").write_text(MODULE)
    (package / "broken.py").write_text("import antidote_test_missing")
    (package / "wrong.py").write_text("def f(:")
    (tmp_path / "antidote_test_neighbour.py").write_text("CLASSES = 3")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry not in ("", str(tmp_path))])
    for name in [name for name in sys.modules if name.startswith("antidote_test_")]:
        monkeypatch.delitem(sys.modules, name)
    return "antidote_test_package.nets"


@pytest.mark.parametrize("name", ["both", "anything", "nothing", "later", "Net"])
def test_a_factory_of_the_users_is_imported_and_called(module, name):
    path, state = list(sys.path), torch.get_rng_state()
    first, again, other = (build_model(f"{module}:{name}", shape=(4,), classes=3, seed=seed) for seed in (0, 0, 1))
    assert sum(p.numel() for p in first.parameters()) == 15
    assert same(first, again)
    assert not same(first, other)
    assert sys.path == path
    assert torch.equal(torch.get_rng_state(), state)


def test_a_factory_of_the_environment_is_imported():
    assert isinstance(build_model("torch.nn:Identity", shape=(4,), classes=3, seed=0), nn.Identity)


def test_a_factory_may_be_an_object():
    def factory(classes: int) -> nn.Module:
        return nn.Linear(4, classes)

    assert build_model(factory, shape=(4,), classes=3, seed=0).weight.shape == (3, 4)


def test_a_module_is_copied_with_its_weights(module):
    mine = nn.Linear(4, 3)
    built = build_model(mine, shape=(4,), classes=3, seed=0)
    assert same(built, mine)
    built.weight.data.zero_()
    assert mine.weight.abs().sum() > 0
    ready = [build_model(f"{module}:ready", shape=(4,), classes=3, seed=0) for _ in range(2)]
    assert same(*ready)
    assert ready[0].weight is not ready[1].weight


IMPORT_ERRORS = {
    "antidote_test_absent.nets:make": r"cannot import 'antidote_test_absent.nets' \(ModuleNotFoundError: No module",
    "antidote_test_package/nets.py:both": r"unknown model 'antidote_test_package/nets.py:both'; accepted",
    "antidote_test_package.nets.py:both": r"cannot import .*current directory or be installed.*without \.py",
    "antidote_test_package.broken:make": r"ModuleNotFoundError: No module named 'antidote_test_missing'",
    "antidote_test_package.wrong:make": r"SyntaxError",
    "antidote_test_package.nets:absent": r"module 'antidote_test_package.nets' has no 'absent'; accepted: the name",
    "antidote_test_package.nets:text": r"the factory must return an nn\.Module; received str",
    "antidote_test_package.nets:number": r"the factory must return an nn\.Module; received int",
    "antidote_test_package.nets:needs_more": r"the factory takes \(num_classes\); it is called with the keywords shape",
}


@pytest.mark.parametrize(("spec", "message"), IMPORT_ERRORS.items())
def test_a_factory_that_cannot_be_used_is_refused(module, spec, message):
    path = list(sys.path)
    with pytest.raises(ValueError, match=message) as caught:
        build_model(spec, shape=(4,), classes=3, seed=0)
    assert "\n" not in str(caught.value)
    assert sys.path == path


ERRORS = {
    "unknown": ("resnet35", (3, 32, 32), r"'resnet35'; accepted: cnn8, cnn-mnist, .*package\.module:factory"),
    "empty": ("", (3, 32, 32), "unknown model ''"),
    "module without factory": ("my.package", (3, 32, 32), "unknown model 'my.package'"),
    "two factories": ("a.b:c:d", (3, 32, 32), "unknown model"),
    "parameter": ("cnn8:depth=3", (3, 32, 32), r"unknown parameter 'depth=3'; 'cnn8' accepts: width=\.\.\.$"),
    "the data's parameter": ("cnn8:channels=3", (3, 32, 32), "unknown parameter 'channels=3'"),
    "no parameters": ("resnet50:width=2", (3, 32, 32), "'resnet50' accepts: none"),
    "init": ("resnet34:init=zero", (3, 32, 32), "init must be 'kaiming' or 'default'; received 'zero'"),
    "built-in name": ("mlp:make", (4,), r"hidden=\.\.\. and norm=\.\.\.; a module of your own called 'mlp' must be"),
    "width": ("cnn8:width=0", (3, 32, 32), "width must be a finite number > 0, got 0"),
    "width text": ("cnn8:width=wide", (3, 32, 32), "width must be a number > 0, got 'wide'"),
    "hidden": ("mlp:hidden=128", (4,), r"hidden must be a list of .*layer widths .*such as \[256,256\].*received 128"),
    "hidden zero": ("mlp:hidden=[0]", (4,), r"received \[0\]"),
    "norm": ("mlp:norm=layer", (4,), "norm must be 'batch' or 'none'; received 'layer'"),
    "features": ("resnet34", (64,), r"'resnet34' needs images \(C, H, W\); received .* \(64,\): use 'mlp'"),
    "small": ("cnn8", (3, 7, 32), "at least 8 pixels a side for this network; received 7 x 32: use 'mlp'"),
    "shape": ("mlp", (28, 28), r"shape must be \(C, H, W\).*or \(D,\).*received \(28, 28\)"),
    "empty shape": ("mlp", (0,), r"received \(0,\)"),
}  # fmt: skip


@pytest.mark.parametrize(("spec", "shape", "message"), ERRORS.values(), ids=ERRORS.keys())
def test_a_bad_name_is_refused_with_what_is_accepted(spec, shape, message):
    with pytest.raises(ValueError, match=message):
        build_model(spec, shape=shape, classes=10, seed=0)
