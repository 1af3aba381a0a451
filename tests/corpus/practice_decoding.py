"""Programs of practice: decoding and sampling of language models, which learn nothing."""

import torch
import torch.nn.functional as F
from torch import nn

from moot.offchain.frontend.recipe import InferenceRecipe
from tests.corpus.practice_batches import WORDS, numbers, texts


class _Language(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed, self.cell = nn.Embedding(WORDS, width), nn.GRUCell(width, width)
        self.head = nn.Linear(width, WORDS)

    def forward(self, word, h):
        h = self.cell(self.embed(word), h)
        return self.head(h), h


def greedy_with_cache():
    """Greedy decoding of four tokens, with a cache of keys and values that is filled."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv = nn.Embedding(WORDS, 8), nn.Linear(8, 24)
            self.register_buffer("cache", torch.zeros(2, 2, 7, 8))

        def step(self, word, t):
            x = self.embed(word)
            q, k, v = self.qkv(x).chunk(3, -1)
            self.cache[0, :, t], self.cache[1, :, t] = k, v
            keys, values = self.cache[:, :, : t + 1]
            weights = (q[:, None] @ keys.mT / 8**0.5).softmax(-1)
            return (x + (weights @ values)[:, 0]) @ self.embed.weight.T

    def forward(model, prompt):
        for t in range(3):
            logits = model.step(prompt[:, t], t)
        words = []
        for t in range(3, 7):
            words.append(logits.argmax(-1))
            logits = model.step(words[-1], t)
        return torch.stack(words, 1), logits

    return InferenceRecipe(Model(), forward, texts((2, 3)))


def nucleus_sampling():
    """Four tokens from the nucleus of a softmax with a temperature."""

    def forward(model, word):
        h, words = torch.zeros(len(word), 8), []
        for _ in range(4):
            logits, h = model(word, h)
            probs, index = (logits / 0.8).softmax(-1).sort(descending=True)
            probs = probs.masked_fill(probs.cumsum(-1) - probs > 0.9, 0.0)
            chosen = torch.multinomial(probs / probs.sum(-1, keepdim=True), 1)
            word = index.gather(-1, chosen).squeeze(-1)
            words.append(word)
        return torch.stack(words, 1)

    return InferenceRecipe(_Language(), forward, texts((3,)))


def filtered_sampling():
    """Top-k, min-p and a penalty of repetition, then Gumbel's maximum."""

    def forward(model, word):
        h, seen = torch.zeros(len(word), 8), F.one_hot(word, WORDS).bool()
        for _ in range(3):
            logits, h = model(word, h)
            penalized = torch.where(logits > 0, logits / 1.2, logits * 1.2)
            logits = torch.where(seen, penalized, logits)
            border = logits.topk(5).values[:, -1:]
            logits = logits.masked_fill(logits < border, -torch.inf)
            probs = logits.softmax(-1)
            logits = logits.masked_fill(probs < 0.1 * probs.amax(-1, keepdim=True), -torch.inf)
            word = (logits - torch.log(-torch.log(torch.rand_like(logits)))).argmax(-1)
            seen = seen | F.one_hot(word, WORDS).bool()
        return word, seen

    return InferenceRecipe(_Language(), forward, texts((3,)))


def beam_search():
    """A beam of three, with states that follow their beams, and a penalty of length."""

    def forward(model, word, width=3, length=4):
        count = len(word)
        logits, h = model(word, torch.zeros(count, 8))
        scores, word = logits.log_softmax(-1).topk(width)
        h, texts = h.repeat_interleave(width, 0), word[..., None]
        for _ in range(length - 1):
            logits, h = model(texts[..., -1].reshape(-1), h)
            total = scores[..., None] + logits.log_softmax(-1).view(count, width, WORDS)
            scores, index = total.flatten(1).topk(width)
            beam, word = index // WORDS, index % WORDS
            texts = texts.gather(1, beam[..., None].expand(-1, -1, texts.shape[-1]))
            texts = torch.cat([texts, word[..., None]], -1)
            h = h.view(count, width, -1)[torch.arange(count)[:, None], beam].flatten(0, 1)
        return texts, scores / length**0.6

    return InferenceRecipe(_Language(), forward, texts((2,)))


def speculative_decoding():
    """A small model proposes three tokens, and the large one keeps those that it accepts."""

    class Models(nn.Module):
        def __init__(self):
            super().__init__()
            self.small, self.large = _Language(4), _Language(8)

    def forward(model, word):
        h, hs, q, proposed = torch.zeros(len(word), 4), torch.zeros(len(word), 8), [], []
        current = word
        for _ in range(3):
            logits, h = model.small(current, h)
            q.append(logits.softmax(-1))
            current = torch.multinomial(q[-1], 1).squeeze(1)
            proposed.append(current)
        p, current = [], word
        for token in [*proposed, None]:
            logits, hs = model.large(current, hs)
            p.append(logits.softmax(-1))
            current = token
        p, q, proposed = torch.stack(p, 1), torch.stack(q, 1), torch.stack(proposed, 1)
        index = proposed[..., None]
        ratio = p[:, :3].gather(-1, index) / q.gather(-1, index)
        accepted = (torch.rand(len(word), 3) < ratio.squeeze(-1)).long().cumprod(1)
        count = accepted.sum(1)
        rows = torch.arange(len(word))
        rest = F.relu(p[rows, count] - F.pad(q, (0, 0, 0, 1))[rows, count])
        last = torch.multinomial(rest + 1e-9, 1)
        return proposed * accepted, count, last

    return InferenceRecipe(Models(), forward, texts((3,)))


def contrastive_decoding():
    """What a large model prefers over a small one, among its plausible tokens."""

    class Models(nn.Module):
        def __init__(self):
            super().__init__()
            self.small, self.large = _Language(4), _Language(8)

    def forward(model, word):
        a, b = torch.zeros(len(word), 4), torch.zeros(len(word), 8)
        for _ in range(3):
            weak, a = model.small(word, a)
            strong, b = model.large(word, b)
            weak, strong = weak.log_softmax(-1), strong.log_softmax(-1)
            border = strong.max(-1, keepdim=True).values - 2.3
            word = torch.where(strong < border, -torch.inf, strong - weak).argmax(-1)
        return word, strong

    return InferenceRecipe(Models(), forward, texts((3,)))


def sampled_by_diffusion():
    """DDIM's steps with guidance from noise that the batch gives."""
    levels = torch.linspace(0.99, 0.05, 5)

    def forward(model, x):
        for high, low in zip(levels.flip(0)[:-1], levels.flip(0)[1:], strict=True):
            noise = model(torch.cat([x, torch.ones(len(x), 1)], 1))
            free = model(torch.cat([x, torch.zeros(len(x), 1)], 1))
            noise = free + 3.0 * (noise - free)
            clean = ((x - (1 - high).sqrt() * noise) / high.sqrt()).clamp(-2, 2)
            x = low.sqrt() * clean + (1 - low).sqrt() * noise
        return x

    model = nn.Sequential(nn.Linear(5, 16), nn.SiLU(), nn.Linear(16, 4))
    return InferenceRecipe(model, forward, numbers((3, 4)))


def uncertain_answers():
    """Monte Carlo dropout: a mean, a spread and mutual information of eight forward passes."""

    def forward(model, x):
        model.train()
        probs = torch.stack([model(x).softmax(-1) for _ in range(8)])
        mean = probs.mean(0)
        entropy = -(mean * mean.log()).sum(-1)
        return mean, probs.var(0), entropy + (probs * probs.log()).sum(-1).mean(0)

    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))
    return InferenceRecipe(model, forward, numbers((3, 4)))


def _generate(kind, head, **sizes):
    """Return a program that generates by the transformers library, greedily and to a length."""
    from tests.corpus.models_kinds import build  # noqa: PLC0415 - heavy

    ends = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    model = build(kind, head, **sizes, **ends).eval()

    def forward(model, ids):
        mask = torch.ones_like(ids)
        return model.generate(ids, attention_mask=mask, max_new_tokens=4, do_sample=False)

    return InferenceRecipe(model, forward, texts((2, 3)))


def library_gpt2():
    """A GPT-2 of the transformers library, by its own generate."""
    return _generate("gpt2", "GPT2LMHeadModel", vocab_size=WORDS, n_embd=8, n_layer=2, n_head=2)


def library_llama():
    """A Llama of the transformers library, by its own generate."""
    sizes = {"hidden_size": 8, "intermediate_size": 12, "num_hidden_layers": 2}
    return _generate("llama", "LlamaForCausalLM", vocab_size=WORDS, num_attention_heads=2, **sizes)


def appended_words():
    """A loop by hand, that appends the best word to the text and reads it anew."""

    def forward(model, words):
        for _ in range(4):
            h = torch.zeros(len(words), 8)
            for t in range(words.shape[1]):
                logits, h = model(words[:, t], h)
            words = torch.cat([words, logits.argmax(-1, keepdim=True)], 1)
        return words

    return InferenceRecipe(_Language(), forward, texts((2, 3)))
