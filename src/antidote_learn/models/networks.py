"""The networks, each made of features and a head.

The factories draw weights from torch's random state, like any module; `build_model` draws them from a seed instead.
In training, `cnn8`, `cnn_mnist` and `mlp` refuse a batch of one sample, as batch norm needs more values.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from antidote_learn._checks import check_number

MOST_LAYERS, WIDEST = 100, 10**6  # the largest depth and width of a perceptron; larger ones are slips of the pen


class Network(nn.Module):
    """head(features(x)): ``features`` gives (B, F), ``head`` is linear and gives the logits (B, classes)."""

    def __init__(self, features: nn.Module, head: nn.Linear) -> None:
        super().__init__()
        self.features = features
        self.head = head

    def forward(self, x: Tensor) -> Tensor:
        """Map inputs (B, C, H, W) or (B, D) to logits (B, classes)."""
        logits: Tensor = self.head(self.features(x))
        return logits


def features_and_head(model: nn.Module) -> tuple[nn.Module, nn.Module]:
    """The two parts of a network, with head(features(x)) = model(x).

    A module that is not a `Network` has its logits as features, and a head that does nothing.
    """
    return (model.features, model.head) if isinstance(model, Network) else (model, nn.Identity())


class Residual(nn.Module):
    """The block relu(body(x) + shortcut(x)), from (B, C, H, W) to (B, C', H', W')."""

    def __init__(self, body: nn.Sequential, shortcut: nn.Module) -> None:
        super().__init__()
        self.body = body
        self.shortcut = shortcut

    def forward(self, x: Tensor) -> Tensor:
        """Add, then activate."""
        return torch.relu(self.body(x) + self.shortcut(x))


class PreActivated(nn.Module):
    """The block body(a) + x with a = relu(norm(x)), or body(a) + shortcut(a) where the shape changes.

    This is the block of He et al. (ECCV 2016). Only sums lie between two blocks of one shape.
    """

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.activation = nn.Sequential(*_norm_relu(inputs))
        self.body = nn.Sequential(_conv(inputs, width, stride=stride), *_norm_relu(width), _conv(width, width))
        self.shortcut = _conv(inputs, width, 1, stride) if stride > 1 or inputs != width else None

    def forward(self, x: Tensor) -> Tensor:
        """Activate, then add."""
        a = self.activation(x)
        result: Tensor = self.body(a) + self.skip(x, a)
        return result

    def skip(self, x: Tensor, a: Tensor) -> Tensor:
        """The term that is added to the body's result."""
        result: Tensor = x if self.shortcut is None else self.shortcut(a)
        return result


class DivideMixBlock(PreActivated):
    """The block body(a) + shortcut(a) with a = relu(norm(x)); the identity, too, starts behind the activation."""

    def skip(self, x: Tensor, a: Tensor) -> Tensor:
        """The term that is added to the body's result."""
        return super().skip(a, a)


def cnn8(classes: int, *, channels: int = 3, size: int | tuple[int, int] = 32, width: float = 1.0) -> Network:
    """Build the paper's CIFAR-10 network: six convolutions (64, 64, 128, 128, 196, 196), two linear layers.

    Args:
        classes: The number of classes.
        channels: The number of channels of the images.
        size: The height and width of the images (one number where they are equal), at least 8.
        width: The factor on all hidden widths, which are rounded to whole numbers.
    """
    check_number("width", width, 0, open_end=True)
    a, b, c, hidden = (max(1, round(width * n)) for n in (64, 128, 196, 256))
    widths = [channels, a, a, b, b, c, c]
    layers: list[nn.Module] = []
    for i in range(6):
        layers += [_conv(widths[i], widths[i + 1], bias=True), *_norm_relu(widths[i + 1])]
        layers += [nn.MaxPool2d(2)] if i % 2 else []
    return _initialise_weights(_convolutional(layers, c * _pixels_after_pooling(size, 3), hidden, classes))


def cnn_mnist(classes: int, *, channels: int = 1, size: int | tuple[int, int] = 28) -> Network:
    """Build the paper's MNIST network: two convolutions (32, 64), two linear layers.

    Args:
        classes: The number of classes.
        channels: The number of channels of the images.
        size: The height and width of the images (one number where they are equal), at least 4.
    """
    layers: list[nn.Module] = []
    for inputs, outputs in ((channels, 32), (32, 64)):
        layers += [_conv(inputs, outputs, bias=True), *_norm_relu(outputs), nn.MaxPool2d(2)]
    return _initialise_weights(_convolutional(layers, 64 * _pixels_after_pooling(size, 2), 128, classes))


def resnet34(classes: int, *, channels: int = 3, init: str = "kaiming") -> Network:
    """Build the CIFAR form of ResNet-34, with a 3x3 stem without pooling, for any image size.

    Args:
        classes: The number of classes.
        channels: The number of channels of the images.
        init: The initial weights, "kaiming" as in the paper's code or "default" as in torch.
    """
    if init not in ("kaiming", "default"):
        raise ValueError(f"init must be 'kaiming' or 'default'; received {init!r}")
    stem = [_conv(channels, 64), *_norm_relu(64)]
    network = _residual([*stem, *_stages(_basic, (3, 4, 6, 3))], 512, classes)
    return _initialise_weights(network) if init == "kaiming" else network


def preact_resnet18(classes: int, *, channels: int = 3, block: type[PreActivated] = PreActivated) -> Network:
    """Build PreAct ResNet-18 with norm and ReLU in the stem and none after the last block, for any image size.

    Limits: the two kinds of blocks have the same parameters, but are different functions of them.

    Args:
        classes: The number of classes.
        channels: The number of channels of the images.
        block: `PreActivated` as in He et al., `DivideMixBlock` as in the code of DivideMix and its successors.
    """
    stem = [_conv(channels, 64), *_norm_relu(64)]
    return _residual([*stem, *_stages(block, (2, 2, 2, 2))], 512, classes)


def resnet50(classes: int, *, channels: int = 3) -> Network:
    """Build ResNet-50 as in torchvision with ``zero_init_residual``: a block starts as its shortcut; any image size."""
    stem = [_conv(channels, 64, 7, 2), *_norm_relu(64), nn.MaxPool2d(3, 2, padding=1)]
    network = _residual([*stem, *_stages(_bottleneck, (3, 4, 6, 3), expansion=4)], 2048, classes)
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if isinstance(module, Residual):
            nn.init.zeros_(module.body[-1].weight)  # type: ignore[arg-type]  # the last batch norm
    return network


def mlp(classes: int, *, inputs: int, hidden: Sequence[int] = (256, 256), norm: str = "batch") -> Network:
    """Build linear layers with ReLU for features; images are flattened.

    Limits: without hidden layers it is logistic regression.

    Args:
        classes: The number of classes.
        inputs: The number of features, C H W for images.
        hidden: The widths of the hidden layers.
        norm: "batch" for batch norm before each ReLU; "none" for outputs that depend on no other sample.
    """
    widths = isinstance(hidden, (list, tuple)) and len(hidden) <= MOST_LAYERS
    if not widths or not all(type(n) is int and 0 < n <= WIDEST for n in hidden):
        raise ValueError(
            f"hidden must be a list of at most {MOST_LAYERS} layer widths of at most {WIDEST}, such as [256,256] or "
            f"[]; received {reprlib.repr(hidden)}"
        )
    if norm not in ("batch", "none"):
        raise ValueError(f"norm must be 'batch' or 'none'; received {norm!r}")
    layers: list[nn.Module] = [nn.Flatten()]
    for outputs in hidden:
        layers += [nn.Linear(inputs, outputs), *([nn.BatchNorm1d(outputs)] if norm == "batch" else []), nn.ReLU()]
        inputs = outputs
    return Network(nn.Sequential(*layers), nn.Linear(inputs, classes))


def _conv(inputs: int, outputs: int, kernel: int = 3, stride: int = 1, *, bias: bool = False) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=bias)


def _norm_relu(width: int) -> list[nn.Module]:
    return [nn.BatchNorm2d(width), nn.ReLU(inplace=True)]


def _pixels_after_pooling(size: int | tuple[int, int], times: int) -> int:
    """The number of pixels of an image after it is halved ``times`` times."""
    height, width = (size, size) if isinstance(size, int) else size
    if min(height, width) < 2**times:
        raise ValueError(
            f"images must have at least {2**times} pixels a side for this network; received {height} x {width}: "
            "use 'mlp' for images this small"
        )
    return (height >> times) * (width >> times)


def _convolutional(layers: list[nn.Module], inputs: int, hidden: int, classes: int) -> Network:
    """Join convolutions, a hidden linear layer and the head."""
    last = [nn.Flatten(), nn.Linear(inputs, hidden), nn.BatchNorm1d(hidden), nn.ReLU()]
    return Network(nn.Sequential(*layers, *last), nn.Linear(hidden, classes))


def _residual(layers: list[nn.Module], outputs: int, classes: int) -> Network:
    """Join residual blocks, the mean over all pixels and the head."""
    return Network(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()), nn.Linear(outputs, classes))


def _stages(
    block: Callable[[int, int, int], nn.Module], counts: tuple[int, ...], *, expansion: int = 1
) -> list[nn.Module]:
    """Build blocks of widths 64, 128, 256, 512; every stage but the first halves the image."""
    blocks, inputs = [], 64
    for stage, count in enumerate(counts):
        width = 64 * 2**stage
        for i in range(count):
            blocks.append(block(inputs, width, 2 if stage > 0 and i == 0 else 1))
            inputs = width * expansion
    return blocks


def _shortcut(inputs: int, outputs: int, stride: int) -> nn.Module:
    if stride == 1 and inputs == outputs:
        return nn.Identity()
    return nn.Sequential(_conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def _basic(inputs: int, width: int, stride: int) -> Residual:
    body = [_conv(inputs, width, 3, stride), *_norm_relu(width), _conv(width, width), nn.BatchNorm2d(width)]
    return Residual(nn.Sequential(*body), _shortcut(inputs, width, stride))


def _bottleneck(inputs: int, width: int, stride: int) -> Residual:
    squeeze = [_conv(inputs, width, 1), *_norm_relu(width), _conv(width, width, 3, stride), *_norm_relu(width)]
    body = [*squeeze, _conv(width, 4 * width, 1), nn.BatchNorm2d(4 * width)]
    return Residual(nn.Sequential(*body), _shortcut(inputs, 4 * width, stride))


def _initialise_weights(network: Network) -> Network:
    """Draw Kaiming-uniform convolutions and Xavier-uniform linear layers, as the paper's code; biases stay torch's."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight, mode="fan_in", nonlinearity="relu")
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
    return network
