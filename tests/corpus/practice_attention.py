"""Programs of practice: attention, positions, and blocks of language and vision transformers."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import WORDS, labelled, numbers, texts


def _predict(model, tokens):
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def _fit(model, x, y):
    return F.mse_loss(model(x), y)


def _turn(x, angles):
    a, b = x.chunk(2, -1)
    cos, sin = angles.cos(), angles.sin()
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def grouped_queries():
    """A language model whose queries share keys and values, with rotary positions."""

    class Model(nn.Module):
        def __init__(self, width=16, heads=4, groups=2):
            super().__init__()
            self.heads, self.groups, self.size = heads, groups, width // heads
            self.embed = nn.Embedding(WORDS, width)
            self.qkv = nn.Linear(width, (heads + 2 * groups) * self.size, bias=False)
            self.out = nn.Linear(width, width, bias=False)
            self.norm = nn.RMSNorm(width)
            rates = 10000.0 ** (-torch.arange(0, self.size, 2) / self.size)
            self.register_buffer("angles", torch.outer(torch.arange(6.0), rates))

        def forward(self, tokens):
            x = self.embed(tokens)
            b, t, _ = x.shape
            qkv = self.qkv(self.norm(x)).view(b, t, -1, self.size).transpose(1, 2)
            q, k, v = qkv.split([self.heads, self.groups, self.groups], 1)
            q, k = _turn(q, self.angles[:t]), _turn(k, self.angles[:t])
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.out(y.transpose(1, 2).reshape(b, t, -1))
            return x @ self.embed.weight.T

    model = Model()
    optimizer = AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95))
    return TrainingRecipe(model, _predict, optimizer, texts((2, 7)))


def latent_attention():
    """Multi-head latent attention of DeepSeek: keys and values from a small latent, apart RoPE."""

    class Model(nn.Module):
        def __init__(self, width=16, heads=2, latent=4, size=4, turned=2):
            super().__init__()
            self.heads, self.size, self.turned = heads, size, turned
            self.q = nn.Linear(width, heads * (size + turned))
            self.down = nn.Linear(width, latent + turned)
            self.norm = nn.RMSNorm(latent)
            self.up = nn.Linear(latent, heads * 2 * size)
            self.out = nn.Linear(heads * size, width)

        def forward(self, x):
            b, t, _ = x.shape
            q = self.q(x).view(b, t, self.heads, -1).transpose(1, 2)
            plain, turned = q.split([self.size, self.turned], -1)
            latent, key = self.down(x).split([self.up.in_features, self.turned], -1)
            kv = self.up(self.norm(latent)).view(b, t, self.heads, -1).transpose(1, 2)
            k, v = kv.chunk(2, -1)
            angles = torch.arange(t).float()[:, None]
            turned, key = _turn(turned, angles), _turn(key, angles)[:, None]
            scores = plain @ k.mT + turned @ key.mT
            scores = scores / (self.size + self.turned) ** 0.5
            mask = torch.ones(t, t, dtype=torch.bool).triu(1)
            y = scores.masked_fill(mask, -torch.inf).softmax(-1) @ v
            return self.out(y.transpose(1, 2).flatten(2))

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 5, 16), (2, 5, 16))
    )


def sliding_window():
    """Attention to the last three tokens and to the first one, which is a sink."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv = nn.Embedding(WORDS, 8), nn.Linear(8, 24)
            self.head = nn.Linear(8, WORDS)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k, v = self.qkv(x).view(*x.shape[:2], 2, 12).transpose(1, 2).chunk(3, -1)
            place = torch.arange(x.shape[1])
            apart = place[:, None] - place
            seen = (apart >= 0) & ((apart < 3) | (place == 0))
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            return self.head(x + y.transpose(1, 2).flatten(2))

    model = Model()
    return TrainingRecipe(model, _predict, Adam(model.parameters(), lr=1e-2), texts((3, 9)))


def yarn():
    """Rotary positions that are stretched by YaRN: by parts, with a temperature."""

    class Model(nn.Module):
        def __init__(self, size=8, scale=4.0, trained=16):
            super().__init__()
            self.embed, self.qk = nn.Embedding(WORDS, size), nn.Linear(size, 2 * size)
            rates = 10000.0 ** (-torch.arange(0, size, 2) / size)
            turns = trained * rates / (2 * math.pi)
            ramp = ((turns - 1) / (32 - 1)).clamp(0, 1)
            rates = rates * ramp + rates / scale * (1 - ramp)
            angles = torch.outer(torch.arange(16.0), rates)
            self.register_buffer("angles", angles, persistent=False)
            self.temperature = 0.1 * math.log(scale) + 1

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k = (_turn(it, self.angles[: x.shape[1]]) for it in self.qk(x).chunk(2, -1))
            q, k = q * self.temperature, k * self.temperature
            x = x + F.scaled_dot_product_attention(q, k, x, is_causal=True)
            return F.linear(x, self.embed.weight)

    model = Model()
    return TrainingRecipe(model, _predict, AdamW(model.parameters(), lr=3e-3), texts((2, 9)))


def complex_rope():
    """Rotary positions as products of complex numbers, as Llama's first code has them."""

    class Model(nn.Module):
        def __init__(self, size=8):
            super().__init__()
            self.embed, self.qk = nn.Embedding(WORDS, size), nn.Linear(size, 2 * size)
            rates = 10000.0 ** (-torch.arange(0, size, 2).float() / size)
            self.register_buffer("angles", torch.outer(torch.arange(16.0), rates))

        def turn(self, x):
            turns = torch.polar(torch.ones_like(self.angles), self.angles)[: x.shape[1]]
            pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
            return torch.view_as_real(pairs * turns).flatten(-2)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k = map(self.turn, self.qk(x).chunk(2, -1))
            x = x + F.scaled_dot_product_attention(q, k, x, is_causal=True)
            return F.linear(x, self.embed.weight)

    model = Model()
    return TrainingRecipe(model, _predict, SGD(model.parameters(), lr=0.5), texts((2, 9)))


def normed_queries():
    """Attention with normed queries and keys, a learned scale, and logits with a soft cap."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv = nn.Embedding(WORDS, 16), nn.Linear(16, 48, bias=False)
            self.scale = nn.Parameter(torch.full((4, 1, 1), 10.0).log())
            self.norm = nn.LayerNorm(16)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 4, 4)).permute(2, 0, 3, 1, 4)
            scores = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).mT
            scores = 50 * torch.tanh(scores * self.scale.exp().clamp(max=100) / 50)
            mask = torch.full(scores.shape[-2:], float("-inf")).triu(1)
            y = (scores + mask).softmax(-1) @ v
            logits = F.linear(x + y.transpose(1, 2).flatten(2), self.embed.weight)
            return 30 * torch.tanh(logits / 30)

    model = Model()
    return TrainingRecipe(
        model, _predict, AdamW(model.parameters(), lr=1e-2), texts((2, 6)), clip=ClipNorm(1.0)
    )


def alibi():
    """Attention with biases that fall with the distance."""

    class Model(nn.Module):
        def __init__(self, heads=4):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 16)
            self.attend = nn.MultiheadAttention(16, heads, batch_first=True)
            slopes = 2.0 ** (-8.0 / heads * torch.arange(1, heads + 1))
            apart = torch.arange(8)[None] - torch.arange(8)[:, None]
            bias = (slopes[:, None, None] * apart).masked_fill(apart > 0, -torch.inf)
            self.register_buffer("bias", bias.repeat(2, 1, 1))

        def forward(self, tokens):
            x = self.embed(tokens)
            y, _ = self.attend(x, x, x, attn_mask=self.bias, need_weights=False)
            return F.linear(x + y, self.embed.weight)

    model = Model()
    return TrainingRecipe(model, _predict, AdamW(model.parameters(), lr=1e-2), texts((2, 9)))


def differential_attention():
    """The difference of two attentions, with a learned share of the second."""

    class Model(nn.Module):
        def __init__(self, size=4, begin=0.8):
            super().__init__()
            self.qk, self.v = nn.Linear(8, 4 * size), nn.Linear(8, 8)
            self.shares = nn.Parameter(torch.randn(4, size) * 0.1)
            self.norm, self.begin = nn.RMSNorm(8, elementwise_affine=False), begin

        def forward(self, x):
            q1, k1, q2, k2 = self.qk(x).chunk(4, -1)
            a, b, c, d = self.shares
            share = (a * b).sum().exp() - (c * d).sum().exp() + self.begin
            mask = torch.full((x.shape[1],) * 2, -torch.inf).triu(1)
            first = (q1 @ k1.mT / 2 + mask).softmax(-1)
            second = (q2 @ k2.mT / 2 + mask).softmax(-1)
            return x + self.norm((first - share * second) @ self.v(x)) * (1 - self.begin)

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-2), numbers((2, 6, 8), (2, 6, 8))
    )


def gated_attention_with_sinks():
    """Attention with learned sinks in the softmax, and a gate on each head's output."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.gate = nn.Linear(8, 24), nn.Linear(8, 8)
            self.sinks, self.out = nn.Parameter(torch.zeros(2)), nn.Linear(8, 8)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).view(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
            scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * 0.5
            scores = scores.masked_fill(~torch.ones(t, t).tril().bool(), float("-inf"))
            sinks = self.sinks[None, :, None, None].expand(b, -1, t, 1)
            weights = torch.cat([scores, sinks], -1).softmax(-1)[..., :-1]
            y = torch.einsum("bhqk,bhkd->bqhd", weights, v).flatten(2)
            return self.out(y * self.gate(x).sigmoid())

    model = Model()
    return TrainingRecipe(
        model, _fit, Adam(model.parameters(), lr=1e-2), numbers((2, 6, 8), (2, 6, 8))
    )


def relative_buckets():
    """T5's attention: biases for the logarithm of the distance."""

    class Model(nn.Module):
        def __init__(self, buckets=8):
            super().__init__()
            self.bias, self.qkv = nn.Embedding(buckets, 2), nn.Linear(8, 24)
            self.norm = nn.LayerNorm(8)

        def bucket(self, t):
            apart = (torch.arange(t)[:, None] - torch.arange(t)).abs()
            far = 4 + (torch.log(apart.float().clamp(min=1) / 4) / math.log(4) * 4).long()
            return torch.where(apart < 4, apart, far.clamp(max=7))

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(self.norm(x)).view(b, t, 2, 12).transpose(1, 2).chunk(3, -1)
            scores = q @ k.mT + self.bias(self.bucket(t)).permute(2, 0, 1)
            return x + (scores.softmax(-1) @ v).transpose(1, 2).reshape(b, t, -1)

    model = Model()
    return TrainingRecipe(
        model, _fit, Adam(model.parameters(), lr=1e-2), numbers((2, 12, 8), (2, 12, 8))
    )


def several_tokens_ahead():
    """A language model that predicts the next token and the one after it."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 16)
            self.trunk = nn.TransformerEncoderLayer(
                16, 2, 32, dropout=0.0, batch_first=True, norm_first=True, activation="gelu"
            )
            self.join, self.second = nn.Linear(32, 16), nn.Linear(16, 16)

        def forward(self, tokens):
            mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1])
            x = self.trunk(self.embed(tokens), src_mask=mask, is_causal=True)
            joined = self.join(torch.cat([x[:, :-1], self.embed(tokens[:, 1:])], -1))
            return x @ self.embed.weight.T, F.silu(self.second(joined)) @ self.embed.weight.T

    def loss(model, tokens):
        one, two = model(tokens[:, :-1])
        near = F.cross_entropy(one.transpose(1, 2), tokens[:, 1:])
        far = F.cross_entropy(two[:, :-1].transpose(1, 2), tokens[:, 2:-1])
        return near + 0.3 * far

    model = Model()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), texts((2, 8)))


def registers():
    """A vision transformer with a class token, registers, layer scale and stochastic depth."""

    class Block(nn.Module):
        def __init__(self, width, rate):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
            self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))
            self.scales, self.rate = nn.Parameter(torch.full((2, width), 0.1)), rate

        def drop(self, x):
            keep = torch.rand(x.shape[0], 1, 1) > self.rate
            return x * keep / (1 - self.rate) if self.training else x

        def forward(self, x):
            y = self.norms[0](x)
            x = x + self.drop(self.attend(y, y, y)[0] * self.scales[0])
            return x + self.drop(self.mlp(self.norms[1](x)) * self.scales[1])

    class Model(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.patch = nn.Conv2d(3, width, 4, 4)
            self.first = nn.Parameter(torch.randn(1, 3, width) * 0.02)
            self.places = nn.Parameter(torch.randn(1, 4, width) * 0.02)
            self.blocks = nn.Sequential(Block(width, 0.0), Block(width, 0.2))
            self.head = nn.Linear(width, 5)

        def forward(self, x):
            x = self.patch(x).flatten(2).mT + self.places
            x = torch.cat([self.first.expand(len(x), -1, -1), x], 1)
            return self.head(self.blocks(x)[:, 0])

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y, label_smoothing=0.1),
        AdamW(model.parameters(), lr=1e-3, weight_decay=0.05),
        labelled((4, 3, 8, 8), 5),
    )


def perceiver():
    """A perceiver: a few latents read a long input, and think about it twice."""

    class Model(nn.Module):
        def __init__(self, width=12):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(4, width) * 0.1)
            self.read = nn.MultiheadAttention(width, 2, kdim=3, vdim=3, batch_first=True)
            self.think = nn.TransformerEncoderLayer(width, 2, 16, dropout=0, batch_first=True)
            self.head = nn.Linear(width, 3)

        def forward(self, x):
            latents = self.latents.unsqueeze(0).repeat(x.size(0), 1, 1)
            for _ in range(2):
                latents = self.think(latents + self.read(latents, x, x)[0])
            return self.head(latents.mean(1))

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y),
        Adam(model.parameters(), lr=1e-3),
        labelled((4, 20, 3), 3),
    )


def swin():
    """Attention in windows that are shifted by half of their side, with a mask."""

    class Model(nn.Module):
        def __init__(self, width=8, side=8, window=4):
            super().__init__()
            self.window, self.embed = window, nn.Conv2d(3, width, 1)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, 5)
            self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2))
            grid = torch.stack(torch.meshgrid(*[torch.arange(window)] * 2, indexing="ij"))
            apart = (grid.flatten(1)[:, :, None] - grid.flatten(1)[:, None]) + window - 1
            self.register_buffer("index", apart[0] * (2 * window - 1) + apart[1])
            region = torch.zeros(side, side)
            region[-window // 2 :] += 1
            region[:, -window // 2 :] += 2
            region = self.split(region.roll((-2, -2), (0, 1))[None, :, :, None]).squeeze(-1)
            self.register_buffer("mask", region[:, :, None] != region[:, None])

        def split(self, x):
            b, h, w, c = x.shape
            x = x.view(b, h // self.window, self.window, w // self.window, self.window, c)
            return x.transpose(2, 3).reshape(-1, self.window**2, c)

        def forward(self, x):
            x = self.embed(x).permute(0, 2, 3, 1)
            windows = self.split(x.roll((-2, -2), (1, 2)))
            q, k, v = self.qkv(windows).chunk(3, -1)
            scores = q @ k.mT / 8**0.5 + self.bias[self.index]
            scores = scores.unflatten(0, (-1, 4)).masked_fill(self.mask, -100.0)
            return self.out((scores.flatten(0, 1).softmax(-1) @ v).mean(1)).view(-1, 4, 5).mean(1)

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y),
        AdamW(model.parameters(), lr=1e-3),
        labelled((2, 3, 8, 8), 5),
    )


def chosen_blocks():
    """Sparse attention: a query reads the two blocks of keys whose means are the nearest."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(8, 24), nn.Linear(8, 8)

        def forward(self, x, size=4):
            q, k, v = self.qkv(x).chunk(3, -1)
            means = k.unflatten(1, (-1, size)).mean(2)
            near = (q @ means.mT).topk(2, -1).indices
            chosen = torch.zeros(*q.shape[:2], means.shape[1]).scatter(-1, near, 1.0)
            seen = chosen.repeat_interleave(size, -1).bool()
            scores = (q @ k.mT / 8**0.5).masked_fill(~seen, -torch.inf)
            return x + self.out(scores.softmax(-1) @ v)

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 16, 8), (2, 16, 8))
    )


def packed_documents():
    """A language model on packed documents: attention stays inside, positions begin anew."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.places = nn.Embedding(WORDS, 8), nn.Embedding(12, 8)
            self.qkv, self.head = nn.Linear(8, 24), nn.Linear(8, WORDS)

        def forward(self, tokens):
            ends = (tokens == 0).long()
            document = ends.cumsum(1) - ends
            same = document[:, :, None] == document[:, None]
            seen = same & torch.ones(tokens.shape[1], tokens.shape[1]).tril().bool()
            x = self.embed(tokens) + self.places(seen.sum(-1) - 1)
            q, k, v = self.qkv(x).chunk(3, -1)
            return self.head(x + F.scaled_dot_product_attention(q, k, v, attn_mask=seen))

    def loss(model, tokens):
        targets = tokens[:, 1:].masked_fill(tokens[:, :-1] == 0, -100)
        return F.cross_entropy(model(tokens[:, :-1]).mT, targets, ignore_index=-100)

    model = Model()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-2), texts((3, 12), words=6))


def mixture_of_depths():
    """A block that only the best half of the tokens of a text pass through."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.router = nn.Embedding(WORDS, 8), nn.Linear(8, 1)
            self.places = nn.Parameter(torch.randn(8, 8))
            self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)

        def forward(self, tokens):
            x = self.embed(tokens) + self.places
            weights, chosen = self.router(x).squeeze(-1).topk(4, sorted=False)
            chosen, order = chosen.sort()
            weights = weights.gather(1, order)
            index = chosen.unsqueeze(-1).expand(-1, -1, x.size(-1))
            y = self.block(x.gather(1, index)) * weights.sigmoid().unsqueeze(-1)
            return x.scatter_add(1, index, y) @ self.embed.weight.T

    model = Model()
    return TrainingRecipe(model, _predict, AdamW(model.parameters(), lr=1e-3), texts((2, 9)))


def looped_transformer():
    """One block that is applied four times, with checkpoints of the activations."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 8)
            self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
            self.inject = nn.Linear(16, 8)

        def forward(self, tokens):
            x = first = self.embed(tokens)
            for _ in range(4):
                x = torch.utils.checkpoint.checkpoint(self.step, x, first, use_reentrant=False)
            return x @ self.embed.weight.T

        def step(self, x, first):
            return self.block(self.inject(torch.cat([x, first], -1)))

    model = Model()
    return TrainingRecipe(model, _predict, AdamW(model.parameters(), lr=1e-3), texts((2, 7)))
