"""C3D (Tran et al., 2015): eight 3×3×3 convolutions and three fully connected layers."""

from __future__ import annotations

from collections import OrderedDict

from torch import Tensor, nn

from sfumato.errors import SfumatoError
from sfumato.recognizers.base import KINETICS, Clip, VideoRecognizer
from sfumato.recognizers.layers import initialise, make_norm, scaled

# (name, channels, whether a pooling layer follows), as in the paper's figure 3.
CONVOLUTIONS = (
    ("conv1", 64, True),
    ("conv2", 128, True),
    ("conv3a", 256, False),
    ("conv3b", 256, True),
    ("conv4a", 512, False),
    ("conv4b", 512, True),
    ("conv5a", 512, False),
    ("conv5b", 512, True),
)


class C3D(VideoRecognizer):
    """(B, T, 3, H, W) to (B, outputs). The features are fc7's, after its ReLU.

    `clip` fixes the size of fc6, so that other sizes do not fit later. `norm` "none" is the paper's; "batch" and
    "group" put one after each convolution, which is what training from scratch wants.

    >>> C3D(10, (16, 112, 112), width=0.125).feature_width
    512
    """

    head_name = "fc8"

    def __init__(self, outputs: int, clip: Clip, *, width: float = 1.0, norm: str = "none") -> None:
        super().__init__(outputs, clip, KINETICS)
        if min(clip[1:]) < 16:
            raise SfumatoError(f"frames of {clip[1]}×{clip[2]} are too small for C3D", "use at least 16×16")
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        channels, size = 3, clip
        for name, full_channels, pooled in CONVOLUTIONS:
            after = scaled(full_channels, width)
            layers[name] = nn.Conv3d(channels, after, 3, padding=1)
            if norm != "none":
                layers[name.replace("conv", "norm")] = make_norm(norm, after, 3)
            layers[name.replace("conv", "relu")] = nn.ReLU(inplace=True)
            if pooled:
                stage = name[4]
                layers[f"pool{stage}"], size = _pool(stage, size)
            channels = after
        # Not a submodule of its own: the published names are conv1.weight, ..., fc8.bias.
        for name, layer in layers.items():
            self.add_module(name, layer)
        self._order = tuple(layers)
        self.feature_width = scaled(4096, width)
        self.fc6 = nn.Linear(channels * size[0] * size[1] * size[2], self.feature_width)
        self.fc7 = nn.Linear(self.feature_width, self.feature_width)
        self.fc8 = nn.Linear(self.feature_width, outputs)
        self.relu = nn.ReLU(inplace=True)
        self.dropout = nn.Dropout(0.5)
        initialise(self)
        for hidden in (self.fc6, self.fc7):
            nn.init.kaiming_normal_(hidden.weight, nonlinearity="relu")

    def encode(self, clips: Tensor) -> Tensor:
        hidden = clips
        for name in self._order:
            hidden = self.get_submodule(name)(hidden)
        hidden = self.dropout(self.relu(self.fc6(hidden.flatten(1))))
        features: Tensor = self.relu(self.fc7(hidden))
        return features

    def classify(self, features: Tensor) -> Tensor:
        logits: Tensor = self.fc8(self.dropout(features))
        return logits


def _pool(stage: str, size: Clip) -> tuple[nn.MaxPool3d, Clip]:
    """The pooling layer after a stage and the (T, H, W) it leaves: space halved, and time too except after stage 1."""
    time, height, width = size
    # A clip too short to be halved again keeps its length: eight frames work as well as the paper's sixteen.
    step = 1 if stage == "1" or time == 1 else 2
    # The published network pads the last pooling, which makes 112 pixels end in 4×4.
    edge = 1 if stage == "5" else 0
    pool = nn.MaxPool3d((step, 2, 2), (step, 2, 2), (0, edge, edge))
    return pool, (time // step, (height + 2 * edge) // 2, (width + 2 * edge) // 2)
