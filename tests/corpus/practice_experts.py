"""Programs of practice: mixtures of experts."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
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


class _Routed(nn.Module):
    """A gate that weighs two of its experts for each token."""

    def __init__(self, experts=4):
        super().__init__()
        self.gate = nn.Linear(8, experts, bias=False)
        self.experts = nn.ModuleList(_expert() for _ in range(experts))

    def choose(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2)
        return weights / weights.sum(-1, keepdim=True), chosen


def experts_that_may_have_no_rows():
    """Rows are added by index_add_, and an expert without rows is left out, and not updated."""

    class Model(_Routed):
        def forward(self, x):
            weights, chosen = self.choose(x)
            y = torch.zeros_like(x)
            for k, expert in enumerate(self.experts):
                rows, slots = torch.nonzero(chosen == k, as_tuple=True)
                if rows.numel() == 0:
                    continue
                y.index_add_(0, rows, expert(x[rows]) * weights[rows, slots].unsqueeze(-1))
            return x + y

    model = Model(experts=16)
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-2), DATA)


def mixtral_by_a_permuted_mask():
    """The first Mixtral of transformers: an expert reads x[None, rows], and adds by index_add_."""

    class Expert(nn.Module):
        def __init__(self):
            super().__init__()
            self.w1, self.w2, self.w3 = nn.Linear(8, 6), nn.Linear(6, 8), nn.Linear(8, 6)

        def forward(self, x):
            return self.w2(F.silu(self.w1(x)) * self.w3(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.gate = nn.Linear(8, 4, bias=False)
            self.experts = nn.ModuleList(Expert() for _ in range(4))

        def forward(self, x):
            weights = F.softmax(self.gate(x), dim=1, dtype=torch.float)
            weights, chosen = torch.topk(weights, 2, dim=-1)
            weights = (weights / weights.sum(dim=-1, keepdim=True)).to(x.dtype)
            y = torch.zeros((12, 8), dtype=x.dtype, device=x.device)
            mask = F.one_hot(chosen, num_classes=4).permute(2, 1, 0)
            for k in range(4):
                slots, rows = torch.where(mask[k])
                if rows.shape[0] == 0:
                    continue
                current = x[None, rows].reshape(-1, 8)
                current = self.experts[k](current) * weights[rows, slots, None]
                y.index_add_(0, rows, current.to(x.dtype))
            return y

    model = Model()
    return TrainingRecipe(model, _fit, Adam(model.parameters(), lr=1e-3), DATA)


def loop_over_experts_that_were_hit():
    """The loop of today's transformers: over the experts that were chosen, with stacked weights."""

    class Model(nn.Module):
        def __init__(self, experts=16):
            super().__init__()
            self.gate, self.count = nn.Linear(8, experts, bias=False), experts
            self.enter = nn.Parameter(torch.randn(experts, 12, 8) * 0.3)
            self.leave = nn.Parameter(torch.randn(experts, 8, 6) * 0.3)

        def forward(self, x):
            weights, chosen = self.gate(x).softmax(-1).topk(2)
            y = torch.zeros_like(x)
            with torch.no_grad():
                mask = F.one_hot(chosen, num_classes=self.count + 1).permute(2, 1, 0)
                hit = torch.greater(mask.sum(dim=(-1, -2)), 0).nonzero()
            for expert in hit:
                expert = expert[0]
                if expert == self.count:
                    continue
                slots, rows = torch.where(mask[expert])
                gate, up = F.linear(x[rows], self.enter[expert]).chunk(2, dim=-1)
                current = F.linear(F.silu(gate) * up, self.leave[expert])
                current = current * weights[rows, slots, None]
                y.index_add_(0, rows, current.to(y.dtype))
            return y

    model = Model()
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-3), DATA)


def top_one_by_boolean_rows():
    """A switch layer whose experts write the rows of a mask, if there are any."""

    class Model(_Routed):
        def forward(self, x):
            probs = self.gate(x).softmax(-1)
            best, chosen = probs.max(-1)
            y, load = torch.zeros_like(x), torch.zeros(len(self.experts))
            for k, expert in enumerate(self.experts):
                mask = chosen == k
                load[k] = mask.float().mean()
                if mask.any():
                    y[mask] = expert(x[mask]) * best[mask, None]
            return y, (load * probs.mean(0)).sum() * len(self.experts)

    def loss(model, x, y):
        found, balance = model(x)
        return F.mse_loss(found, y) + 0.01 * balance

    model = Model(experts=8)
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1, momentum=0.9), DATA)


def copies_for_each_slot():
    """DeepSeek's training path: tokens are repeated for each slot, and experts fill their part."""

    class Model(_Routed):
        def forward(self, x):
            weights, chosen = self.choose(x)
            copies, flat = x.repeat_interleave(2, dim=0), chosen.view(-1)
            y = torch.empty_like(copies)
            for k, expert in enumerate(self.experts):
                y[flat == k] = expert(copies[flat == k])
            return (y.view(*weights.shape, -1) * weights.unsqueeze(-1)).sum(dim=1)

    model = Model()
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-3), DATA)


def tokens_of_a_batch_by_argument():
    """Sequences are not made flat: three coordinates, written to by index_put_."""

    class Model(_Routed):
        def forward(self, x):
            weights, chosen = self.choose(x)
            y = torch.zeros_like(x)
            for k, expert in enumerate(self.experts):
                b, t, s = (chosen == k).nonzero(as_tuple=True)
                z = expert(x[b, t]) * weights[b, t, s][:, None]
                y.index_put_((b, t), z, accumulate=True)
            return y

    model = Model()
    data = numbers((2, 6, 8), (2, 6, 8))
    return TrainingRecipe(model, _fit, AdamW(model.parameters(), lr=1e-3), data)


def rows_of_flat_slots():
    """Each slot is a row of its own, whose token is its number divided by the slots of a token."""

    class Model(_Routed):
        def forward(self, x):
            weights, chosen = self.choose(x)
            flat, shares = chosen.flatten(), weights.flatten()
            y, load = torch.zeros_like(x), torch.zeros(len(self.experts))
            for k, expert in enumerate(self.experts):
                slots = torch.nonzero(flat == k).squeeze(-1)
                tokens = slots // 2
                share = shares.index_select(0, slots).view(-1, 1)
                y = y.index_add(0, tokens, expert(x.index_select(0, tokens)) * share)
                load[k] = slots.numel() / flat.numel()
            return y, load

    def loss(model, x, y):
        found, load = model(x)
        return F.mse_loss(found, y) + (load * model.gate.weight.square().mean(-1)).sum()

    model = Model()
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), DATA)


def adapters_of_tasks():
    """Each row of a batch has a task, and each task an adapter, which some steps do not train."""

    class Model(nn.Module):
        def __init__(self, tasks=5):
            super().__init__()
            self.base = nn.Linear(8, 3)
            self.adapters = nn.ModuleList(nn.Linear(8, 3, bias=False) for _ in range(tasks))

        def forward(self, x, task):
            y = self.base(x)
            extra = torch.zeros_like(y)
            for k, adapter in enumerate(self.adapters):
                rows = (task == k).nonzero(as_tuple=True)[0]
                if len(rows) > 0:
                    extra.index_copy_(0, rows, adapter(x.index_select(0, rows)))
            return y + extra

    def batch(step):
        x, y = labelled((6, 8), 3)(step)
        return x, (torch.arange(6) + step) % (3 + step % 2), y

    model = Model()
    optimizer = AdamW(model.parameters(), lr=1e-2)
    return TrainingRecipe(model, lambda m, x, t, y: F.cross_entropy(m(x, t), y), optimizer, batch)


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
