"""Adapters of LoRA as further models, as PEFT writes them."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.generation.attention import ChunkCache
from moot.offchain.frontend.interop.folders import load_model
from moot.offchain.serving.adapters import adapt
from moot.offchain.serving.checkpoints import load_all
from tests.serving_checkpoints import make_checkpoint

LAYERS = {"llama": ["q_proj", "down_proj"], "gpt2": ["c_attn"]}


def make_adapter(base: Path, folder: Path, name: str, alpha: int = 6, **more: Any) -> Any:
    """Write an adapter of a checkpoint that says something; return PEFT's own model."""
    from peft import LoraConfig, get_peft_model  # noqa: PLC0415 - heavy

    model = load_model(base, torch.float32)
    config = LoraConfig(r=2, lora_alpha=alpha, target_modules=LAYERS[name], **more)
    adapted = get_peft_model(model, config).eval()
    for it, parameter in adapted.named_parameters():
        if "lora_B" in it:
            torch.nn.init.normal_(parameter)
    adapted.save_pretrained(folder)
    return adapted


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.filterwarnings("ignore")  # PEFT's own
def test_an_adapter_says_what_peft_says(name: str, tmp_path: Path) -> None:
    """The adapted model has PEFT's logits, beside a base that is as it was and shares weights."""
    base = make_checkpoint(tmp_path / "base", name)
    theirs = make_adapter(base, tmp_path / "adapter", name)
    plain, adapted = load_all(base, "plain", adapters={"tuned": tmp_path / "adapter"})
    assert (plain.name, adapted.name) == ("plain", "tuned")
    tokens = torch.tensor([[5, 9, 2, 7]])
    with torch.no_grad():
        expected = theirs(input_ids=tokens).logits
        found, before = (
            it.programs.reader(tokens, ChunkCache({}, torch.zeros(1, dtype=torch.int64), 4))
            for it in (adapted, plain)
        )
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-4)
    assert not torch.allclose(before, expected, rtol=1e-3, atol=1e-3)
    one, other = (it.programs.reader.model.get_input_embeddings().weight for it in (plain, adapted))
    assert one.data_ptr() == other.data_ptr()


@pytest.mark.filterwarnings("ignore")  # PEFT's own
def test_what_is_no_plain_lora_is_refused(tmp_path: Path) -> None:
    """An adapter of another kind, of another base, with pickled weights or none is refused."""
    base = make_checkpoint(tmp_path / "base")
    model, folder = load_model(base, torch.float32), tmp_path / "adapter"
    with pytest.raises(CannotTranslate, match="as PEFT writes it"):
        adapt(model, folder)
    make_adapter(base, folder, "llama")
    path = folder / "adapter_config.json"
    settings = json.loads(path.read_text())
    for change, message in (
        ({"use_dora": True}, "use_dora is True"),
        ({"peft_type": "IA3"}, "peft_type is 'IA3'"),
        ({"lora_alpha": None}, "no lora_alpha"),
    ):
        path.write_text(json.dumps({**settings, **change}))
        with pytest.raises(CannotTranslate, match=message):
            adapt(model, folder)
    path.write_text(json.dumps(settings))
    other = load_model(make_checkpoint(tmp_path / "other", "gpt2"), torch.float32)
    with pytest.raises(CannotTranslate, match="give the adapter of this base"):
        adapt(other, folder)
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(CannotTranslate, match="pickled weights"):
        adapt(model, folder)
    with pytest.raises(UsageError, match="choose another name"):
        load_all(base, "x", adapters={"x": folder})
    with pytest.raises(UsageError, match="choose --precision fp32"):
        load_all(base, adapters={"x": folder}, precision="int8")
