"""Models of the transformers library under llama.cpp, if `llama_cpp` and `gguf` are installed.

Neither is a dependency: llama-cpp-python has no wheels, and is compiled for the processor where it
is installed. Weights and caches are binary32, as ours are.
"""

import ctypes
import tempfile
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moot.bench.timing import Side
from moot.offchain.commitments.tensors import Array

_TURNED = "c_attn.weight", "c_proj.weight", "c_fc.weight"
"""Weights that GPT-2 has with inputs as rows."""

_BATCH = 512
"""Tokens of a pass, as llama.cpp has it by default."""

_KINDS = "llama", "gpt2"


def is_here() -> bool:
    """Whether llama.cpp is installed, and what writes its files."""
    return all(find_spec(name) for name in ("llama_cpp", "gguf"))


@cache
def _load_library() -> tuple[Any, object]:
    """Return llama.cpp, and what it calls in place of writing a log, as long as this process is."""
    import llama_cpp  # noqa: PLC0415 - only where it is installed

    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, None)
    return llama_cpp, silent


class Loaded:
    """A model in llama.cpp.

    Args:
        model: a Llama or a GPT-2 of the transformers library, float32.

    Attributes:
        handle: llama.cpp's.
        vocabulary: the number of its tokens.
    """

    def __init__(self, model: Any) -> None:
        llama_cpp, _ = _load_library()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            write_model(model, path)
            options = llama_cpp.llama_model_default_params()
            options.use_mmap = False
            self.handle = llama_cpp.llama_model_load_from_file(str(path).encode(), options)
        self.vocabulary = int(model.config.vocab_size)


def make_answers(loaded: Loaded, prompts: Tensor, tokens: int) -> Side:
    """Return greedy answers to prompts of one length, side by side, by llama.cpp.

    Args:
        loaded: the model.
        prompts: (requests, tokens).
        tokens: of each answer.

    Returns:
        What answers, and returns the logits of each first token, (requests, vocabulary).
    """
    llama_cpp, _ = _load_library()
    count, length = prompts.shape
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = count * (length + tokens)
    settings.n_batch = settings.n_ubatch = max(_BATCH, count)
    settings.n_seq_max = count
    settings.type_k = settings.type_v = llama_cpp.GGML_TYPE_F32
    context = llama_cpp.llama_init_from_model(loaded.handle, settings)
    assert context, "llama.cpp did not take the model"
    pass_tokens = _make_pass(llama_cpp, context, settings.n_batch, loaded.vocabulary)
    listed: list[list[int]] = prompts.tolist()
    together = max(1, settings.n_batch // length)

    def run() -> Array:
        threads = torch.get_num_threads()
        llama_cpp.llama_set_n_threads(context, threads, threads)
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
        texts = [(n, 0, tokens) for n, tokens in enumerate(listed)]
        parts = [texts[n : n + together] for n in range(0, count, together)]
        first = logits = np.concatenate([pass_tokens(part) for part in parts])
        for place in range(length, length + tokens - 1):
            chosen = logits.argmax(axis=1).tolist()
            logits = pass_tokens([(n, place, [token]) for n, token in enumerate(chosen)])
        return first

    return run


def _make_pass(library: Any, context: Any, most: int, vocabulary: int) -> Callable[..., Array]:
    """Return a pass over some tokens of each of some texts: what gives the last ones' logits."""
    batch = library.llama_batch_init(most, 0, 1)

    def run(texts: list[tuple[int, int, list[int]]]) -> Array:
        wanted, number = [], 0
        for text, first, tokens in texts:
            for place, token in enumerate(tokens):
                batch.token[number], batch.pos[number] = token, first + place
                batch.n_seq_id[number], batch.seq_id[number][0] = 1, text
                batch.logits[number] = place == len(tokens) - 1
                number += 1
            wanted.append(number - 1)
        batch.n_tokens = number
        status = library.llama_decode(context, batch)
        assert status == 0, f"llama.cpp ends with status {status}"
        kind = ctypes.c_float * vocabulary
        found = (library.llama_get_logits_ith(context, n) for n in wanted)
        return np.stack([np.array(kind.from_address(ctypes.addressof(p.contents))) for p in found])

    return run


def write_model(model: Any, path: Path) -> None:
    """Write a model as llama.cpp reads it (GGUF), without a tokenizer."""
    import gguf  # noqa: PLC0415 - only where it is installed

    config, kind = model.config, model.config.model_type
    assert kind in _KINDS, kind
    writer = gguf.GGUFWriter(path, kind)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    if kind == "llama":
        writer.add_feed_forward_length(config.intermediate_size)
        writer.add_head_count_kv(config.num_key_value_heads)
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        writer.add_rope_dimension_count(config.hidden_size // config.num_attention_heads)
        writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    else:
        writer.add_feed_forward_length(config.n_inner or 4 * config.hidden_size)
        writer.add_layer_norm_eps(config.layer_norm_epsilon)
    architecture = {name: key for key, name in gguf.MODEL_ARCH_NAMES.items()}[kind]
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    tied = model.get_output_embeddings().weight is model.get_input_embeddings().weight
    for name, tensor in model.state_dict().items():
        if not (tied and name == "lm_head.weight"):
            target = names.get_name(name, try_suffixes=(".weight", ".bias"))
            writer.add_tensor(target, _arrange(name, tensor, config))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _arrange(name: str, tensor: Tensor, config: Any) -> Array:
    """Return a tensor as llama.cpp has it: its Llama turns neighbours, not halves, of a head."""
    found = tensor.detach().float()
    if config.model_type == "gpt2" and name.endswith(_TURNED):
        found = found.T
    for end, heads in (
        ("q_proj.weight", config.num_attention_heads),
        ("k_proj.weight", getattr(config, "num_key_value_heads", 1)),
    ):
        if name.endswith(end):
            halves = found.reshape(heads, 2, -1, found.shape[1])
            found = halves.transpose(1, 2).reshape(found.shape)
    return found.contiguous().numpy()
