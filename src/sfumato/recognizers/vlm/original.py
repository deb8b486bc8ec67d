"""ActionCLIP as its authors publish it: one file of PyTorch's, with a CLIP of its own beside the temporal part.

That CLIP was trained further, so that on OpenAI's the temporal part is another model. Its weights have OpenAI's names and
are given those of `transformers` here; the size is that of the folder's config.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from sfumato.errors import SfumatoError
from sfumato.recognizers.published import require_type
from sfumato.recognizers.weights import read_file

PARTS = ("model_state_dict", "fusion_model_state_dict")
# OpenAI's names, and what they are called in `transformers`; of a name every line may change a part.
NAMES = [
    (r"^visual\.conv1\.", "vision_model.embeddings.patch_embedding."),
    (r"^visual\.class_embedding$", "vision_model.embeddings.class_embedding"),
    (r"^visual\.positional_embedding$", "vision_model.embeddings.position_embedding.weight"),
    (r"^visual\.ln_pre\.", "vision_model.pre_layrnorm."),  # spelled so there
    (r"^visual\.ln_post\.", "vision_model.post_layernorm."),
    (r"^visual\.proj$", "visual_projection.weight"),
    (r"^visual\.transformer\.resblocks\.", "vision_model.encoder.layers."),
    (r"^token_embedding\.", "text_model.embeddings.token_embedding."),
    (r"^positional_embedding$", "text_model.embeddings.position_embedding.weight"),
    (r"^ln_final\.", "text_model.final_layer_norm."),
    (r"^text_projection$", "text_projection.weight"),
    (r"^transformer\.resblocks\.", "text_model.encoder.layers."),
    (r"\.attn\.", ".self_attn."),
    (r"\.ln_([12])\.", r".layer_norm\1."),
    (r"\.mlp\.c_fc\.", ".mlp.fc1."),
    (r"\.mlp\.c_proj\.", ".mlp.fc2."),
]
TURNED = ("visual.proj", "text_projection")  # kept to be multiplied from the other side
NO_WEIGHTS = ("input_resolution", "context_length", "vocab_size")  # numbers among the weights of OpenAI's own files


def load_original(make: Any, folder: Path, path: Path) -> tuple[Any, Mapping[str, Tensor] | None]:
    """CLIP, of the class `make` and the size in the folder's config.json, and the temporal part's weights.

    None: it was trained without a temporal part.

    >>> load_original(transformers.CLIPModel, Path("actionclip"), Path("actionclip/actionclip.pt"))  # doctest: +SKIP
    """
    require_type(make, folder)
    loaded = read_file(path)
    if not isinstance(loaded, Mapping) or not all(_is_state(loaded.get(part)) for part in PARTS):
        raise SfumatoError(f"'{path}' is no published ActionCLIP", f"it needs {' and '.join(PARTS)}")
    clip, temporal = (without_module(loaded[part]) for part in PARTS)
    try:
        model = make(make.config_class.from_pretrained(folder, local_files_only=True))
        model.load_state_dict(in_transformers_names(clip))
    except Exception as error:  # a damaged or hostile file can trip a reader in any way
        raise SfumatoError(
            f"the CLIP in '{path}' does not fit '{folder / 'config.json'}'",
            "put the configuration of the CLIP that it was trained from there, such as openai/clip-vit-base-patch16",
        ) from error
    return model.float(), temporal or None


def in_transformers_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A CLIP of vision transformers under OpenAI's names as `transformers.CLIPModel` has it; other names stay.

    >>> list(in_transformers_names({"visual.transformer.resblocks.0.ln_1.bias": torch.zeros(768)}))
    ['vision_model.encoder.layers.0.layer_norm1.bias']
    """
    return dict(renamed for name, value in state.items() if name not in NO_WEIGHTS for renamed in _renamed(name, value))


def _renamed(name: str, value: Tensor) -> Iterator[tuple[str, Tensor]]:
    new = name
    for theirs, ours in NAMES:
        new = re.sub(theirs, ours, new)
    if ".in_proj_" in new:  # one matrix for queries, keys and values
        for kind, part in zip("qkv", value.chunk(3), strict=True):
            yield new.replace("in_proj_", f"{kind}_proj."), part
    else:
        yield new, value.T if name in TURNED else value


def _is_state(part: Any) -> bool:
    return isinstance(part, Mapping) and all(isinstance(value, Tensor) for value in part.values())


def without_module(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Saved from a network that was spread over several devices, every name begins with "module.".

    >>> list(without_module({"module.ln_final.bias": torch.zeros(512)}))
    ['ln_final.bias']
    """
    return {name.removeprefix("module."): value for name, value in state.items()}
