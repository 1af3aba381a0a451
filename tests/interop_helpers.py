"""Tiny models, tokenizers, checkpoints and Trainers of the transformers library."""

import copy
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    GPT2Config,
    GPT2LMHeadModel,
    PreTrainedTokenizerFast,
    Trainer,
    TrainingArguments,
)

from moot.offchain.execution.executor import Executor
from moot.offchain.frontend.capture import Captured, capture
from moot.offchain.frontend.recipe import Recipe, get_function

VOCABULARY = 64
TOKENS = 8

Rows = list[dict[str, torch.Tensor]]


def make_speaker(seed: int = 0, *, layers: int = 2, **settings: Any) -> Any:
    """Return GPT-2, without dropout."""
    torch.manual_seed(seed)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=16,
        n_embd=16,
        n_layer=layers,
        n_head=2,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
        **{"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0} | settings,
    )
    return GPT2LMHeadModel(config)


def make_judge(labels: int = 3) -> Any:
    """Return BERT of one layer, which classifies a text, without dropout."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=labels,
    )
    return BertForSequenceClassification(config)


def make_texts(count: int = 12) -> Rows:
    """Return rows of tokens, of which a different number are labels, and a column too many."""
    generator = torch.Generator().manual_seed(1)
    rows = []
    for row in range(count):
        tokens = torch.randint(VOCABULARY, (TOKENS,), generator=generator)
        labels = tokens.clone()
        labels[: row % 5] = -100
        mask = torch.ones(TOKENS, dtype=torch.int64)
        rows.append(
            {
                "input_ids": tokens,
                "attention_mask": mask,
                "labels": labels,
                "row": torch.tensor(row),
            }
        )
    return rows


def make_cases(count: int = 12) -> Rows:
    """Return rows of tokens that have one label each."""
    rows = make_texts(count)
    return [{**row, "labels": row["input_ids"][0] % 3} for row in rows]


def make_tokenizer() -> Any:
    """Return a tokenizer of single letters, with a mask."""
    letters = string.ascii_letters + string.digits[:9] + "_"
    tokens = ["[UNK]", "[MASK]", *letters]
    assert len(tokens) == VOCABULARY
    model = WordLevel({token: place for place, token in enumerate(tokens)}, "[UNK]")
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = Split(Regex("."), "isolated")
    special = {"unk_token": tokens[0], "mask_token": tokens[1]}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)


def save_checkpoint(folder: Path, model: Any = None, *, tokenizer: bool = True) -> Path:
    """Write a checkpoint folder; return it."""
    (make_speaker() if model is None else model).save_pretrained(folder)
    if tokenizer:
        make_tokenizer().save_pretrained(folder)
    return folder


def make_arguments(folder: Path, **settings: Any) -> TrainingArguments:
    """Return the arguments of a Trainer that writes nothing."""
    quiet: dict[str, Any] = {
        "report_to": [],
        "save_strategy": "no",
        "logging_strategy": "no",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    usual: dict[str, Any] = {
        "per_device_train_batch_size": 2,
        "learning_rate": 1e-2,
        "max_steps": 6,
    }
    return TrainingArguments(output_dir=str(folder), **quiet | usual | settings)


def make_trainer(folder: Path, model: Any = None, rows: Any = None, **settings: Any) -> Trainer:
    """Return a Trainer; what is no argument of its own is one of its `TrainingArguments`."""
    own = ("data_collator", "compute_loss_func", "callbacks", "optimizers", "eval_dataset")
    given = {name: settings.pop(name) for name in own if name in settings}
    return Trainer(
        model=make_speaker() if model is None else model,
        args=make_arguments(folder, **settings),
        train_dataset=make_texts() if rows is None else rows,
        **given,
    )


def train(trainer: Trainer) -> list[float]:
    """Return the losses of the updates that a Trainer makes on a copy of its model."""
    losses: list[list[float]] = []

    class Recorder(Trainer):  # type: ignore[misc]  # the library's types are not read
        """Notes the loss of each batch, in the update that it belongs to."""

        def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
            """Return the loss of a batch."""
            loss: torch.Tensor = super().training_step(*args, **kwargs)
            if len(losses) == self.state.global_step:
                losses.append([])
            losses[-1].append(loss.item())
            return loss

    recorder = Recorder(
        model=copy.deepcopy(trainer.model),
        args=trainer.args,
        data_collator=trainer.data_collator,
        train_dataset=trainer.train_dataset,
        processing_class=trainer.processing_class,
        compute_loss_func=trainer.compute_loss_func,
    )
    recorder.train()
    return [sum(several) for several in losses]


def run(captured: Captured, steps: int) -> tuple[list[float], Sequence[Any]]:
    """Return the losses of a program's first steps, and the state after them."""
    place = [slot.name for slot in captured.program.state].index("output.loss")
    executor, state, losses = Executor(captured.program), captured.initial_state, []
    for step in range(steps):
        state = executor.run(state, captured.batch(step), step)
        losses.append(float(state[place]))
    return losses, state


def ask(recipe: Recipe, step: int = 0) -> Any:
    """Return what a recipe's function makes of a batch, in eager torch."""
    batch = recipe.batch(step)
    arguments = batch if isinstance(batch, (tuple, list)) else (batch,)
    return get_function(recipe)(recipe.model, *arguments)


def learn(recipe: Recipe, steps: int) -> list[float]:
    """Return the losses of the first steps of a recipe, which is not rehearsed."""
    return run(capture(recipe, trust=True), steps)[0]
