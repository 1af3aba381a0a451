"""Programs of practice: mixtures of experts."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, AdamW

from offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import labelled, numbers


def _fit(model, x, y):
    return F.mse_loss(model(x), y)


def _expert(width=8):
    return nn.Sequential(nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, width))


DATA = numbers((12, 8), (12, 8))


def top_one_with_capacity():
    """A switch layer: one expert each, a capacity, and a loss that balances them."""

    class Switch(nn.Module):
        def __init__(self, experts=4, capacity=4):
            super().__init__()
            self.gate, self.capacity = nn.Linear(8, experts, bias=False), capacity
            self.experts = nn.ModuleList(_expert() for _ in range(experts))

        def forward(self, x):
            probs = self.gate(x).softmax(-1)
            best, index = probs.max(-1)
            chosen = F.one_hot(index, len(self.experts))
            place = (chosen.cumsum(0) - 1) * chosen
            chosen = chosen * (place < self.capacity)
            slots = F.one_hot(place.sum(-1).clamp(max=self.capacity - 1), self.capacity)
            send = chosen.float()[..., None] * slots.float()[:, None]
            inputs = torch.einsum("nec,nd->ecd", send, x)
            outputs = torch.stack([f(i) for f, i in zip(self.experts, inputs, strict=True)])
            y = torch.einsum("nec,ecd->nd", send, outputs) * best[:, None]
            balance = (chosen.float().mean(0) * probs.mean(0)).sum() * len(self.experts)
            return x + y, balance

    def loss(model, x, y):
        found, balance = model(x)
        return F.mse_loss(found, y) + 0.01 * balance

    model = Switch()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), DATA)


def top_two():
    """Mixtral's layer: two of four experts each, weights by a softmax of the two."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4, bias=False)
            self.experts = nn.ModuleList(_expert() for _ in range(4))

        def forward(self, x):
            weights, chosen = torch.topk(self.gate(x), 2)
            weights = F.softmax(weights, dim=1, dtype=torch.float)
            y = torch.zeros_like(x)
            for k, expert in enumerate(self.experts):
                share = (weights * (chosen == k)).sum(-1, keepdim=True)
                y = y + share * expert(x)
            return y

    model = Model()
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-3), DATA)


def top_two_by_masks():
    """The same layer, where each expert reads the rows that a mask selects."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4, bias=False)
            self.experts = nn.ModuleList(_expert() for _ in range(4))

        def forward(self, x):
            weights, chosen = torch.topk(self.gate(x).softmax(-1), 2)
            y = torch.zeros_like(x)
            for k, expert in enumerate(self.experts):
                token, which = torch.where(chosen == k)
                y[token] += weights[token, which, None] * expert(x[token])
            return y

    model = Model()
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-3), DATA)


def shared_experts():
    """DeepSeek's layer: one shared expert, and three of eight, with balance by biases."""

    class Model(nn.Module):
        def __init__(self, experts=8, inner=4):
            super().__init__()
            self.gate, self.shared = nn.Linear(8, experts, bias=False), _expert()
            self.enter = nn.Parameter(torch.randn(experts, 8, inner) * 0.3)
            self.leave = nn.Parameter(torch.randn(experts, inner, 8) * 0.3)
            self.register_buffer("bias", torch.zeros(experts))

        def forward(self, x):
            scores = self.gate(x).sigmoid()
            _, chosen = (scores + self.bias).topk(3, -1)
            weights = scores.gather(-1, chosen)
            weights = weights / weights.sum(-1, keepdim=True)
            h = F.silu(torch.einsum("nd,nkdi->nki", x, self.enter[chosen]))
            y = torch.einsum("nki,nkid,nk->nd", h, self.leave[chosen], weights)
            with torch.no_grad():
                load = torch.zeros(8).scatter_add(0, chosen.flatten(), torch.ones(chosen.numel()))
                self.bias += 0.01 * torch.sign(load.mean() - load)
            return self.shared(x) + y

    model = Model()
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-3), DATA)


def dispatch_by_sorting():
    """Tokens are sorted by their expert, stably, and kept while there is room."""

    class Model(nn.Module):
        def __init__(self, experts=4, capacity=4):
            super().__init__()
            self.gate = nn.Linear(8, experts)
            self.weight = nn.Parameter(torch.randn(experts, 8, 8) * 0.3)
            self.capacity = capacity

        def forward(self, x):
            best, expert = self.gate(x).softmax(-1).max(-1)
            expert, order = torch.sort(expert, stable=True)
            first = torch.searchsorted(expert, expert)
            rank = torch.arange(len(x)) - first
            room = rank < self.capacity
            slots = torch.where(room, expert * self.capacity + rank, 4 * self.capacity)
            buffer = x.new_zeros(4 * self.capacity + 1, 8).index_add(0, slots, x[order])
            y = torch.bmm(buffer[:-1].view(4, self.capacity, 8), self.weight).flatten(0, 1)
            y = torch.cat([y, y.new_zeros(1, 8)])[slots] * best[order, None]
            return x + torch.zeros_like(x).index_copy(0, order, y)

    model = Model()
    return TrainingRecipe(model, _fit, Adam(model.parameters(), lr=1e-3), DATA)


def choice_of_experts():
    """Experts choose their tokens: each takes the three with the highest scores."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4)
            self.enter = nn.Parameter(torch.randn(4, 8, 8) * 0.3)

        def forward(self, x):
            scores = self.gate(x).softmax(-1)
            weights, tokens = scores.T.topk(3, dim=-1)
            y = torch.bmm(x[tokens], self.enter).relu() * weights[..., None]
            return x.index_add(0, tokens.reshape(-1), y.reshape(-1, 8))

    model = Model()
    return TrainingRecipe(model, _fit, SGD(model.parameters(), lr=0.1), DATA)


def soft_mixture():
    """Soft MoE: slots are averages of tokens, and tokens averages of slots."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.slots = nn.Parameter(torch.randn(8, 4, 2) * 0.3)
            self.experts = nn.ModuleList(_expert() for _ in range(4))
            self.head = nn.Linear(8, 3)

        def forward(self, x):
            logits = torch.einsum("bnd,des->bnes", x, self.slots)
            mix = torch.einsum("bnd,bnes->ebsd", x, logits.softmax(1))
            y = torch.stack([f(i) for f, i in zip(self.experts, mix, strict=True)])
            back = logits.flatten(2).softmax(-1).unflatten(-1, (4, 2))
            return self.head(torch.einsum("ebsd,bnes->bnd", y, back).mean(1))

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y),
        AdamW(model.parameters(), lr=1e-3),
        labelled((3, 6, 8), 3),
    )


def noisy_gate():
    """Noise on the gate, Shazeer's balance of importance, and the router's z-loss."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate, self.noise = nn.Linear(8, 4), nn.Linear(8, 4)
            self.experts = nn.ModuleList(nn.Linear(8, 8) for _ in range(4))

        def forward(self, x):
            clean = self.gate(x)
            logits = clean + torch.randn_like(clean) * F.softplus(self.noise(x))
            top, index = logits.topk(2, dim=1)
            gates = torch.zeros_like(logits).scatter(1, index, top.softmax(1))
            y = torch.stack([expert(x) for expert in self.experts], 1)
            importance = gates.sum(0)
            balance = importance.var() / (importance.mean() ** 2 + 1e-10)
            z = torch.logsumexp(clean, -1).square().mean()
            return (gates[..., None] * y).sum(1), balance + 0.001 * z

    def loss(model, x, y):
        found, extra = model(x)
        return F.mse_loss(found, y) + 0.01 * extra

    model = Model()
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), DATA)


def mixture_of_adapters():
    """A frozen layer with four LoRA adapters, mixed by a gate with a temperature."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(8, 8).requires_grad_(False)
            self.a = nn.Parameter(torch.randn(4, 8, 2) * 0.3)
            self.b = nn.Parameter(torch.randn(4, 2, 8) * 0.1)
            self.gate = nn.Linear(8, 4)

        def forward(self, x):
            gates = F.gumbel_softmax(self.gate(x), tau=0.5, hard=True)
            return self.base(x) + torch.einsum("nd,edr,erf,ne->nf", x, self.a, self.b, gates)

    model = Model()
    trained = [p for p in model.parameters() if p.requires_grad]
    return TrainingRecipe(model, _fit, AdamW(trained, lr=1e-3), DATA)
