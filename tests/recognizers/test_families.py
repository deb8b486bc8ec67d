"""What is particular to one family: SPAct's dilation, C3D's short clips, the ViT's tubelets."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from sfumato.errors import SfumatoError
from sfumato.recognizers import make_recognizer
from sfumato.recognizers.layers import head_count
from sfumato.recognizers.vit import VideoViT, tubelets


def shape_after(recognizer: nn.Module, layer: str, video: torch.Tensor) -> tuple[int, ...]:
    shapes: list[tuple[int, ...]] = []
    recognizer.get_submodule(layer).register_forward_hook(lambda _m, _i, output: shapes.append(tuple(output.shape)))
    with torch.no_grad():
        recognizer.eval()(video)
    return shapes[0]


def test_dilated_last_stage_keeps_time() -> None:
    video = torch.rand(1, 16, 3, 32, 32)
    plain = make_recognizer("r3d-18", 2, clip=(16, 32, 32), width=0.125)
    spact = make_recognizer("r3d-18", 2, clip=(16, 32, 32), width=0.125, dilated_last_stage=True)
    assert shape_after(plain, "layer4", video) == (1, 64, 2, 2, 2)
    assert shape_after(spact, "layer4", video) == (1, 64, 4, 2, 2)
    conv = spact.get_submodule("layer4.0.conv1.0")
    assert isinstance(conv, nn.Conv3d)
    assert (conv.stride, conv.dilation, conv.padding) == ((1, 2, 2), (2, 1, 1), (2, 1, 1))
    spact.load_state_dict(plain.state_dict())  # the same weights serve both


@pytest.mark.parametrize(
    ("name", "published"),
    [
        (
            "r3d-18",
            {
                "stem.0.weight": (64, 3, 3, 7, 7),
                "stem.1.running_mean": (64,),
                "layer1.0.conv1.0.weight": (64, 64, 3, 3, 3),
                "layer1.0.conv1.1.weight": (64,),
                "layer1.1.conv2.1.running_var": (64,),
                "layer2.0.downsample.0.weight": (128, 64, 1, 1, 1),
                "layer4.1.conv2.0.weight": (512, 512, 3, 3, 3),
                "fc.weight": (400, 512),
            },
        ),
        (
            "r2plus1d-18",
            {
                "stem.0.weight": (45, 3, 1, 7, 7),
                "stem.3.weight": (64, 45, 3, 1, 1),
                "layer1.0.conv1.0.0.weight": (144, 64, 1, 3, 3),
                "layer1.0.conv1.0.1.bias": (144,),
                "layer2.0.conv1.0.3.weight": (128, 230, 3, 1, 1),
                "layer2.0.conv2.0.0.weight": (230, 128, 1, 3, 3),  # the block's one width, from its input
                "layer2.1.conv1.0.0.weight": (288, 128, 1, 3, 3),
                "layer4.0.conv1.0.0.weight": (921, 256, 1, 3, 3),
                "fc.bias": (400,),
            },
        ),
        (
            "i3d-r50",
            {
                "blocks.0.conv.weight": (64, 3, 5, 7, 7),
                "blocks.1.res_blocks.0.branch1_conv.weight": (256, 64, 1, 1, 1),
                "blocks.1.res_blocks.2.branch2.conv_a.weight": (64, 256, 3, 1, 1),
                "blocks.3.res_blocks.1.branch2.conv_a.weight": (128, 512, 1, 1, 1),
                "blocks.5.res_blocks.1.branch2.conv_a.weight": (512, 2048, 3, 1, 1),
                "blocks.5.res_blocks.2.branch2.norm_c.weight": (2048,),
                "blocks.6.proj.weight": (400, 2048),
            },
        ),
    ],
)
def test_published_parameter_names(name: str, published: dict[str, tuple[int, ...]]) -> None:
    with torch.device("meta"):
        state = make_recognizer(name, 400, clip=(16, 112, 112)).state_dict()
    assert {key: tuple(state[key].shape) for key in published} == published


@pytest.mark.parametrize("name", ["resnet-18", "resnet-50", "mobilenet-v1"])
def test_image_names_are_those_of_the_published_classifiers(name: str) -> None:
    import transformers as hf

    with torch.device("meta"):
        ours = make_recognizer(name, 10, clip=(1, 64, 64)).state_dict()
        if name == "mobilenet-v1":
            theirs = hf.MobileNetV1ForImageClassification(hf.MobileNetV1Config(num_labels=10)).state_dict()
        else:
            basic = {"layer_type": "basic", "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
            config = hf.ResNetConfig(num_labels=10, **(basic if name == "resnet-18" else {}))
            theirs = hf.ResNetForImageClassification(config).state_dict()
    assert {k: v.shape for k, v in ours.items()} == {k: v.shape for k, v in theirs.items()}


def test_c3d_takes_short_and_small_clips() -> None:
    for clip in ((16, 32, 32), (5, 16, 24), (1, 16, 16)):
        recognizer = make_recognizer("c3d", 3, clip=clip, width=0.125).eval()
        with torch.no_grad():
            assert recognizer(torch.rand(1, clip[0], 3, *clip[1:])).shape == (1, 3)
    with pytest.raises(SfumatoError, match="8×8 are too small for C3D: use at least 16×16"):
        make_recognizer("c3d", 3, clip=(16, 8, 8), width=0.125)


def test_tubelets_are_a_strided_convolution() -> None:
    clips, linear = torch.rand(2, 3, 4, 32, 48), nn.Linear(1536, 5)
    expected = F.conv3d(clips, linear.weight.view(5, 3, 2, 16, 16), linear.bias, stride=(2, 16, 16))
    torch.testing.assert_close(linear(tubelets(clips)), expected.flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-5)


def test_vit_layer_is_multi_head_attention() -> None:
    """Our layer against PyTorch's own, with the same weights."""
    torch.manual_seed(0)
    vit = make_recognizer("vit-s", 2, clip=(2, 16, 32), width=0.25, depth=1)
    assert isinstance(vit, VideoViT)
    layer = vit.layers[0]
    theirs = nn.TransformerEncoderLayer(96, head_count(96), 384, 0.0, F.gelu, batch_first=True, norm_first=True)
    names = {
        "self_attn.in_proj_weight": "qkv.weight",
        "self_attn.in_proj_bias": "qkv.bias",
        "self_attn.out_proj.weight": "project.weight",
        "self_attn.out_proj.bias": "project.bias",
        "linear1.weight": "feed.0.weight",
        "linear1.bias": "feed.0.bias",
        "linear2.weight": "feed.2.weight",
        "linear2.bias": "feed.2.bias",
    }
    state = layer.state_dict()
    theirs.load_state_dict({key: state[names.get(key, key)] for key in theirs.state_dict()})
    tokens = torch.rand(2, 7, 96)
    torch.testing.assert_close(layer(tokens), theirs(tokens), rtol=1e-4, atol=1e-5)


def test_vit_heads_stay_near_64_wide() -> None:
    assert [head_count(size) for size in (384, 768, 48, 8)] == [6, 12, 1, 1]


def test_vit_says_which_clips_it_takes() -> None:
    with pytest.raises(SfumatoError, match="cannot cut 3 frames of 32×40 into tubelets: use an even number"):
        make_recognizer("vit-s", 2, clip=(3, 32, 40))
    vit = make_recognizer("vit-s", 2, clip=(4, 32, 32), width=0.125, depth=1)
    with pytest.raises(SfumatoError, match=r"made for clips of .* \(4, 32, 32\), not \(2, 32, 32\)"):
        vit(torch.rand(1, 2, 3, 32, 32))
