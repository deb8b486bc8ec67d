"""Image networks that look at one frame at a time: ResNet-18 to 152 and MobileNetV1, as `transformers` builds them.

The configuration is made here and the weights begin at random; the parameter names are those of the published
`*ForImageClassification` checkpoints, so that these load from a file.
"""

from __future__ import annotations

from torch import Tensor, nn

from sfumato.recognizers.base import CENTRED, IMAGENET, Clip, FrameRecognizer
from sfumato.recognizers.layers import initialise, make_norm, scaled

# Blocks per stage (He et al., 2016, table 1) and the kind of block.
RESNETS: dict[int, tuple[str, tuple[int, int, int, int]]] = {
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
    152: ("bottleneck", (3, 8, 36, 3)),
}


class ImageResNet(FrameRecognizer):
    """ResNet of 18, 34, 50, 101 or 152 layers on each frame; logits are averaged over T.

    >>> ImageResNet(50, 10, (1, 64, 64), width=0.125).feature_width
    256
    """

    head_name = "classifier.1"

    def __init__(self, layers: int, outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch") -> None:
        super().__init__(outputs, clip, IMAGENET)
        from transformers import ResNetConfig, ResNetModel

        block, depths = RESNETS[layers]
        expansion = 4 if block == "bottleneck" else 1
        sizes = [expansion * scaled(channels, width) for channels in (64, 128, 256, 512)]
        config = ResNetConfig(
            embedding_size=scaled(64, width), hidden_sizes=sizes, depths=list(depths), layer_type=block
        )
        self.resnet = ResNetModel(config)
        self.feature_width = sizes[-1]
        self.classifier = nn.Sequential(nn.Flatten(), nn.Linear(self.feature_width, outputs))
        _replace_norms(self.resnet, norm)
        initialise(self)

    def encode(self, frames: Tensor) -> Tensor:
        pooled: Tensor = self.resnet(frames).pooler_output
        return pooled.flatten(1)


class MobileNetV1(FrameRecognizer):
    """MobileNetV1 (Howard et al., 2017) on each frame; logits are averaged over T. `width` is the paper's α.

    >>> MobileNetV1(10, (1, 64, 64), width=0.25).feature_width
    256
    """

    head_name = "classifier"

    def __init__(self, outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "batch") -> None:
        super().__init__(outputs, clip, CENTRED)
        from transformers import MobileNetV1Config, MobileNetV1Model

        # α is rounded so that the first layer's 32·α channels, and with them all others, are multiples of 8.
        self.mobilenet_v1 = MobileNetV1Model(MobileNetV1Config(depth_multiplier=scaled(32, width) / 32))
        self.feature_width = int(self.mobilenet_v1.layer[-1].convolution.out_channels)
        self.classifier = nn.Linear(self.feature_width, outputs)
        _replace_norms(self.mobilenet_v1, norm)
        initialise(self)

    def encode(self, frames: Tensor) -> Tensor:
        pooled: Tensor = self.mobilenet_v1(frames).pooler_output
        return pooled


def _replace_norms(network: nn.Module, norm: str) -> None:
    """Put a fresh norm of this kind in the place of every BatchNorm2d.

    Also for "batch": transformers' MobileNetV1 writes TensorFlow's momentum .9997 where PyTorch means 1 - .9997, so
    that its running statistics would be those of the last batch alone.
    """
    for parent in list(network.modules()):
        for name, child in parent.named_children():
            if isinstance(child, nn.BatchNorm2d):
                setattr(parent, name, make_norm(norm, child.num_features, 2, child.eps))
