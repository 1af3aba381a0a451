"""A checkpoint folder is a recipe of its model, and one that can't be read is refused by name."""

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM, GPT2LMHeadModel
from transformers.utils import logging

from moot.offchain.errors import CannotTranslate, UsageError
from moot.offchain.frontend.capture import capture
from moot.offchain.frontend.interop import from_pretrained, to_state_dict
from moot.offchain.frontend.interop.folders import load_model
from moot.offchain.frontend.load import load_recipe
from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.interop_helpers import (
    VOCABULARY,
    ask,
    learn,
    make_judge,
    make_speaker,
    make_tokenizer,
    run,
    save_checkpoint,
)


def make_finder() -> Any:
    """Return BERT of one layer that finds masked tokens."""
    torch.manual_seed(0)
    return BertForMaskedLM(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=16,
        )
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint of GPT-2, in shards."""
    path = tmp_path_factory.mktemp("shards")
    make_speaker(layers=1).save_pretrained(path, max_shard_size="8KB")
    assert len(list(path.glob("model-*.safetensors"))) > 1
    make_tokenizer().save_pretrained(path)
    return path


def copy(folder: Path, place: Path) -> Path:
    """Return a copy of a folder."""
    return Path(shutil.copytree(folder, place / "copy"))


def test_a_folder_learns_its_text_and_goes_back(folder: Path) -> None:
    """A checkpoint in shards is captured, learns, and its state is what torch's model loads."""
    recipe = from_pretrained(folder, samples=1, tokens=6, seed=3)
    assert isinstance(recipe, TrainingRecipe)
    assert recipe.model.training
    captured = capture(recipe, trust=True)
    losses, state = run(captured, 2)
    assert losses[0] == pytest.approx(ask(recipe).loss.item(), rel=1e-5)
    model = GPT2LMHeadModel(recipe.model.config)
    weights = to_state_dict(state, recipe)
    model.load_state_dict(weights)
    assert weights["lm_head.weight"] is weights["transformer.wte.weight"]
    place = [it.name for it in captured.program.state].index("parameter.transformer.wte.weight")
    assert torch.equal(model.lm_head.weight, torch.from_numpy(state[place].copy()))


def test_the_weights_are_the_folders(folder: Path) -> None:
    """The recipe begins with the weights that were saved, and its inference with dropout off."""
    recipe = load_recipe(f"hf:{folder}", inference=True)
    assert isinstance(recipe, InferenceRecipe)
    assert not recipe.model.training
    saved, read = make_speaker(layers=1).state_dict(), recipe.model.state_dict()
    assert all(torch.equal(read[name], tensor) for name, tensor in saved.items())
    assert list(recipe.batch(0)) == ["input_ids"]
    assert recipe.batch(0)["input_ids"].shape == (2, 16)
    assert torch.equal(recipe.batch(5)["input_ids"], recipe.batch(5)["input_ids"])
    assert list(ask(recipe)) == ["logits"]


def test_loading_draws_no_bars(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The library says nothing on stderr while it loads, and may draw again afterwards."""
    was_shown = logging.is_progress_bar_enabled()
    load_model(folder, torch.float32)
    assert capfd.readouterr() == ("", "")
    assert logging.is_progress_bar_enabled() == was_shown


def test_a_masked_model_learns_to_find_what_is_hidden(tmp_path: Path) -> None:
    """A masked language model has labels where its tokenizer's mask is, and nowhere else."""
    recipe = from_pretrained(save_checkpoint(tmp_path, make_finder()), samples=4, tokens=12)
    batch = recipe.batch(1)
    assert torch.equal(batch["labels"] != -100, batch["input_ids"] == 1)
    assert ask(recipe, 1).loss.requires_grad


def test_batches_of_ones_own_need_no_tokenizer(tmp_path: Path) -> None:
    """A model of any head learns from batches that are given, and asks for them by name."""
    save_checkpoint(tmp_path, make_judge(), tokenizer=False)

    def batch(step: int) -> dict[str, torch.Tensor]:
        tokens = torch.arange(8).reshape(2, 4) + step % 3
        return {"input_ids": tokens, "labels": tokens[:, 0] % 3}

    recipe = from_pretrained(tmp_path, batch=batch)
    assert ask(recipe).loss.requires_grad
    with pytest.raises(CannotTranslate, match="BertForSequenceClassification is no language model"):
        from_pretrained(tmp_path)


def test_a_text_is_read(folder: Path, tmp_path: Path) -> None:
    """The text of a file makes the batches, and one that is too short or no text is refused."""
    text = tmp_path / "text"
    text.write_text("abcdefgh" * 4)
    tokens = load_recipe(f"hf:{folder}", data=text).batch(0)["input_ids"]
    assert ((tokens[:, 1:] - tokens[:, :-1]) % 8 == 1).all()
    text.write_text("abc")
    with pytest.raises(UsageError, match="the text has 3 tokens, and a window 16"):
        load_recipe(f"hf:{folder}", data=text)
    text.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="is no text in UTF-8"):
        load_recipe(f"hf:{folder}", data=text)
    with pytest.raises(UsageError, match="did you mean 'tiny'"):
        load_recipe(f"hf:{folder}", "tinny")


def lose_shard(folder: Path) -> None:
    """Remove a shard."""
    sorted(folder.glob("model-*.safetensors"))[1].unlink()


def lose_tokenizer(folder: Path) -> None:
    """Remove the tokenizer."""
    for path in folder.glob("tokenizer*"):
        path.unlink()


def lose_config(folder: Path) -> None:
    """Remove the configuration."""
    (folder / "config.json").unlink()


def lose_weights(folder: Path) -> None:
    """Remove all weights."""
    for path in folder.glob("model*"):
        path.unlink()


def pickle_weights(folder: Path) -> None:
    """Have pickled weights alone."""
    lose_weights(folder)
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(_Bomb()))


class _Bomb:
    """What explodes when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, ("raise SystemExit('unpickled')",)


def cut_shard(folder: Path) -> None:
    """Cut a shard short."""
    path = min(folder.glob("model-*.safetensors"))
    path.write_bytes(path.read_bytes()[:-100])


def change_config(folder: Path, **settings: Any) -> None:
    """Change settings of the configuration."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | settings))


def rename_class(folder: Path) -> None:
    """Name a class that nobody knows."""
    change_config(folder, architectures=["FrogForCausalLM"])


def bring_code(folder: Path) -> None:
    """Bring a class along."""
    change_config(folder, architectures=["Frog"], auto_map={"AutoModel": "frog.Frog"})
    (folder / "frog.py").write_text("raise SystemExit('run')")


def break_config(folder: Path) -> None:
    """Have a configuration that is no JSON."""
    (folder / "config.json").write_text("{")


def grow(folder: Path) -> None:
    """Have a configuration of more layers than there are weights for."""
    change_config(folder, n_layer=2)


DAMAGES = {
    lose_shard: r"1 of its shards are missing, model-00002-of-\d+\.safetensors first; copy",
    lose_tokenizer: "it has no tokenizer, and a text was asked for; save the tokenizer there",
    lose_config: r"it has no config\.json; save it with save_pretrained",
    lose_weights: r"it has no weights, neither model\.safetensors nor",
    pickle_weights: r"its weights are pickled \(pytorch_model\.bin\).*convert it to safetensors",
    cut_shard: r"it can't be loaded \(.*\); save it with",
    rename_class: r"transformers [\d.]+ knows no architecture FrogForCausalLM",
    bring_code: "Frog is code of the folder's own, which is not run",
    break_config: r"its config\.json can't be read",
    grow: r"it has no weights for transformer\.h\.1\..* and \d+ more of GPT2LMHeadModel",
}


@pytest.mark.slow
@pytest.mark.parametrize("model", [make_finder, make_speaker])
def test_checkpoints_are_rehearsed(model: Any, tmp_path: Path) -> None:
    """Training and inference of a checkpoint, with dropout, are what eager torch makes of them."""
    save_checkpoint(tmp_path, model())
    assert len(learn(from_pretrained(tmp_path), 2)) == 2
    for inference in (False, True):
        assert capture(from_pretrained(tmp_path, inference=inference)).is_rehearsed


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_what_is_no_checkpoint_is_refused(damage: Any, folder: Path, tmp_path: Path) -> None:
    """A folder that lacks something or would run code is refused in one line that names it."""
    damaged = copy(folder, tmp_path)
    damage(damaged)
    with pytest.raises(CannotTranslate, match=DAMAGES[damage]) as caught:
        from_pretrained(damaged)
    assert "\n" not in str(caught.value)
    assert caught.value.subject == f"the checkpoint {damaged}"


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    """What is no folder is never looked for on the network."""
    with pytest.raises(CannotTranslate, match="checkpoint openai/gpt2: there is no such"):
        load_recipe("hf:openai/gpt2")
    with pytest.raises(CannotTranslate, match="there is no such folder"):
        from_pretrained(tmp_path / "nothing")
