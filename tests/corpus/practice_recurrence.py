"""Programs of practice: state spaces, linear attention and recurrent networks."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import WORDS, labelled, numbers, texts


def _predict(model, tokens):
    return F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def _fit(model, x, y):
    return F.mse_loss(model(x), y)


def mamba():
    """Mamba: a selective scan, step by step, behind a causal convolution and beside a gate."""

    class Model(nn.Module):
        def __init__(self, width=8, states=4):
            super().__init__()
            self.enter, self.leave = nn.Linear(width, 2 * width), nn.Linear(width, width)
            self.conv = nn.Conv1d(width, width, 3, padding=2, groups=width)
            self.select = nn.Linear(width, 2 * states + 1)
            self.dt = nn.Linear(1, width)
            a = torch.arange(1, states + 1).float().repeat(width, 1)
            self.log_a, self.d = nn.Parameter(a.log()), nn.Parameter(torch.ones(width))

        def forward(self, x):
            x, gate = self.enter(x).chunk(2, -1)
            x = F.silu(self.conv(x.mT)[..., : x.shape[1]].mT)
            dt, b, c = self.select(x).split([1, 4, 4], -1)
            dt, a = F.softplus(self.dt(dt)), -self.log_a.exp()
            decay = torch.exp(dt.unsqueeze(-1) * a)
            push = (dt * x).unsqueeze(-1) * b.unsqueeze(2)
            state, outputs = torch.zeros_like(push[:, 0]), []
            for t in range(x.shape[1]):
                state = decay[:, t] * state + push[:, t]
                outputs.append((state * c[:, t, None]).sum(-1))
            return self.leave((torch.stack(outputs, 1) + self.d * x) * F.silu(gate))

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 6, 8), (2, 6, 8))
    )


def state_space_duality():
    """Mamba-2: the same recurrence as a masked product, by segment sums."""

    class Model(nn.Module):
        def __init__(self, heads=2, size=4, states=4):
            super().__init__()
            self.heads, self.size, self.states = heads, size, states
            self.enter = nn.Linear(8, heads * size + 2 * states + heads)
            self.a, self.norm = nn.Parameter(torch.rand(heads)), nn.RMSNorm(heads * size)

        def forward(self, x):
            inner = self.heads * self.size
            v, b, c, dt = self.enter(x).split([inner, self.states, self.states, self.heads], -1)
            dt, v = F.softplus(dt), v.unflatten(-1, (self.heads, self.size))
            steps = (-self.a.exp() * dt).transpose(1, 2).cumsum(-1)
            apart = steps[..., :, None] - steps[..., None, :]
            mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
            decay = apart.masked_fill(~mask, -torch.inf).exp()
            weights = torch.einsum("bln,bsn,bhls->bhls", c, b, decay)
            return self.norm(torch.einsum("bhls,bshp->blhp", weights, v * dt[..., None]).flatten(2))

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 6, 8), (2, 6, 8))
    )


def rwkv():
    """RWKV's time mixing: a recurrence of weighted sums with a running maximum."""

    class Model(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.embed, self.norm = nn.Embedding(WORDS, width), nn.LayerNorm(width)
            self.mix = nn.Parameter(torch.rand(3, width))
            self.k, self.v, self.r = (nn.Linear(width, width, bias=False) for _ in range(3))
            self.decay, self.first = (nn.Parameter(torch.randn(width)) for _ in range(2))

        def forward(self, tokens):
            x = self.norm(self.embed(tokens))
            before = F.pad(x, (0, 0, 1, -1))
            k, v, r = (
                layer(x * m + before * (1 - m))
                for layer, m in zip((self.k, self.v, self.r), self.mix, strict=True)
            )
            a = b = torch.zeros_like(x[:, 0])
            high, rows = torch.full_like(a, -1e38), []
            for t in range(x.shape[1]):
                top = torch.maximum(high, k[:, t] + self.first)
                e1, e2 = (high - top).exp(), (k[:, t] + self.first - top).exp()
                rows.append((e1 * a + e2 * v[:, t]) / (e1 * b + e2))
                top = torch.maximum(high - self.decay.exp(), k[:, t])
                e1, e2 = (high - self.decay.exp() - top).exp(), (k[:, t] - top).exp()
                a, b, high = e1 * a + e2 * v[:, t], e1 * b + e2, top
            return F.linear(x + r.sigmoid() * torch.stack(rows, 1), self.embed.weight)

    model = Model()
    return TrainingRecipe(model, _predict, Adam(model.parameters(), lr=1e-3), texts((2, 6)))


def retention():
    """RetNet: attention without a softmax that decays with the distance, with a group norm."""

    class Model(nn.Module):
        def __init__(self, heads=2):
            super().__init__()
            self.qkvg, self.norm = nn.Linear(8, 32), nn.GroupNorm(heads, 8)
            self.register_buffer("decay", 1 - 2.0 ** (-5 - torch.arange(heads).float()))

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v, g = self.qkvg(x).chunk(4, -1)
            q, k, v = (it.view(b, t, 2, 4).transpose(1, 2) for it in (q, k, v))
            apart = (torch.arange(t)[:, None] - torch.arange(t)).float()
            mask = torch.where(apart >= 0, self.decay[:, None, None] ** apart.clamp(min=0), 0.0)
            y = (q @ k.transpose(-1, -2) * mask) @ v
            y = self.norm(y.transpose(1, 2).reshape(b * t, 8)).view(b, t, 8)
            return F.silu(g) * y

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-2), numbers((2, 6, 8), (2, 6, 8))
    )


def linear_attention():
    """Causal linear attention with cumulative sums of outer products."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.qkv = nn.Embedding(WORDS, 8), nn.Linear(8, 24)

        def forward(self, tokens):
            x = self.embed(tokens)
            q, k, v = self.qkv(x).chunk(3, -1)
            q, k = F.elu(q) + 1, F.elu(k) + 1
            sums = torch.einsum("btk,btv->btkv", k, v).cumsum(1)
            norm = torch.einsum("btk,btk->bt", q, k.cumsum(1)) + 1e-6
            y = torch.einsum("btk,btkv->btv", q, sums) / norm[..., None]
            return (x + y) @ self.embed.weight.t()

    model = Model()
    return TrainingRecipe(model, _predict, SGD(model.parameters(), lr=0.1), texts((2, 8)))


def delta_rule():
    """Gated DeltaNet: a matrix of memory, that forgets and is corrected by each token."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.rates, self.out = nn.Linear(8, 24), nn.Linear(8, 2), nn.Linear(8, 8)

        def forward(self, x):
            q, k, v = F.silu(self.qkv(x)).chunk(3, -1)
            q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
            beta, alpha = self.rates(x).sigmoid().unbind(-1)
            memory, outputs = x.new_zeros(x.shape[0], 8, 8), []
            for t in range(x.shape[1]):
                key = k[:, t]
                memory = memory * alpha[:, t, None, None]
                wrong = v[:, t] - torch.einsum("bk,bkv->bv", key, memory)
                memory = memory + torch.einsum("bk,bv->bkv", key, beta[:, t, None] * wrong)
                outputs += [torch.einsum("bk,bkv->bv", q[:, t], memory)]
            return self.out(torch.stack(outputs, dim=1))

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 5, 8), (2, 5, 8))
    )


def chunked_delta_rule():
    """DeltaNet in parallel: the corrections of a chunk are a triangular system."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.beta = nn.Linear(8, 24), nn.Linear(8, 1)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            k, beta = F.normalize(k, dim=-1), self.beta(x).sigmoid()
            below = torch.tril((beta * k) @ k.mT, -1)
            eye = torch.eye(x.shape[1])
            solved = torch.linalg.solve_triangular(eye + below, beta * v, upper=False)
            return torch.tril(q @ k.mT) @ solved

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 6, 8), (2, 6, 8))
    )


def matrix_lstm():
    """xLSTM's mLSTM in its parallel form, with exponential gates that are kept from overflow."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.gates = nn.Linear(8, 24), nn.Linear(8, 2)

        def forward(self, x):
            q, k, v = self.qkv(x).chunk(3, -1)
            enter, forget = self.gates(x).chunk(2, -1)
            sums = F.logsigmoid(forget).cumsum(1)
            log_d = sums - sums.mT + enter.mT
            mask = torch.ones(x.shape[1], x.shape[1]).tril() == 0
            log_d = log_d.masked_fill(mask, float("-inf"))
            top = log_d.max(-1, keepdim=True).values
            c = q @ k.mT / math.sqrt(8) * (log_d - top).exp()
            norm = torch.maximum(c.sum(-1, keepdim=True).abs(), (-top).exp())
            return (c / norm) @ v

    model = Model()
    return TrainingRecipe(
        model, _fit, Adam(model.parameters(), lr=1e-3), numbers((2, 6, 8), (2, 6, 8))
    )


def scalar_lstm():
    """xLSTM's sLSTM: an LSTM with exponential gates and a normalizer."""

    class Model(nn.Module):
        def __init__(self, width=6):
            super().__init__()
            self.enter, self.again = nn.Linear(4, 4 * width), nn.Linear(width, 4 * width, False)
            self.head = nn.Linear(width, 3)

        def forward(self, x):
            h = c = n = m = x.new_zeros(x.size(0), 6)
            for step in x.unbind(1):
                z, i, f, o = (self.enter(step) + self.again(h)).chunk(4, 1)
                f = F.logsigmoid(f)
                top = torch.max(f + m, i)
                i, f, m = torch.exp(i - top), torch.exp(f + m - top), top
                c, n = f * c + i * z.tanh(), f * n + i
                h = o.sigmoid() * c / n.clamp(min=1e-6)
            return self.head(h)

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y),
        Adam(model.parameters(), lr=1e-2),
        labelled((4, 5, 4), 3),
    )


def hyena():
    """Hyena: long convolutions by Fourier transforms, of filters that a network makes."""

    class Model(nn.Module):
        def __init__(self, width=4, length=8):
            super().__init__()
            self.enter, self.short = nn.Linear(width, 3 * width), nn.Conv1d(12, 12, 3, 1, 2, 1, 12)
            self.filter = nn.Sequential(nn.Linear(3, 8), nn.SiLU(), nn.Linear(8, width))
            t = torch.linspace(0, 1, length)[:, None]
            places = torch.cat([t, (2 * math.pi * t).sin(), (2 * math.pi * t).cos()], 1)
            self.register_buffer("places", places)
            self.decay, self.bias = (
                nn.Parameter(torch.rand(width)),
                nn.Parameter(torch.zeros(width)),
            )

        def forward(self, x):
            t = x.shape[1]
            a, b, v = self.short(self.enter(x).mT)[..., :t].chunk(3, 1)
            window = torch.exp(-self.decay * torch.arange(t)[:, None])
            kernel = (self.filter(self.places) * window).T
            u = v * b
            y = torch.fft.rfft(u, 2 * t) * torch.fft.rfft(kernel, 2 * t)
            y = torch.fft.irfft(y, 2 * t)[..., :t] + u * self.bias[:, None]
            return (y * a).mT

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 8, 4), (2, 8, 4))
    )


def diagonal_state_space():
    """S4D: the kernel of a diagonal complex state space, applied by Fourier transforms."""

    class Model(nn.Module):
        def __init__(self, width=4, states=4):
            super().__init__()
            self.log_dt = nn.Parameter(torch.rand(width) * 2 - 4)
            self.c = nn.Parameter(torch.randn(width, states, 2))
            self.log_real = nn.Parameter(torch.full((width, states), 0.5).log())
            self.imag = nn.Parameter(math.pi * torch.arange(states).float().repeat(width, 1))
            self.d, self.out = nn.Parameter(torch.randn(width)), nn.Conv1d(width, 2 * width, 1)

        def forward(self, x):
            u, size = x.mT, x.shape[1]
            a = torch.complex(-self.log_real.exp(), self.imag)
            dt_a = a * self.log_dt.exp()[:, None]
            c = torch.view_as_complex(self.c) * (torch.exp(dt_a) - 1) / a
            powers = torch.exp(dt_a[..., None] * torch.arange(size))
            kernel = 2 * torch.einsum("hn,hnl->hl", c, powers).real
            y = torch.fft.irfft(torch.fft.rfft(u, 2 * size) * torch.fft.rfft(kernel, 2 * size))
            y = F.gelu(y[..., :size] + u * self.d[:, None])
            return F.glu(self.out(y), dim=1).mT

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 8, 4), (2, 8, 4))
    )


def linear_recurrent_unit():
    """LRU: a diagonal complex recurrence on a ring, summed by powers."""

    class Model(nn.Module):
        def __init__(self, width=4, states=6):
            super().__init__()
            self.nu = nn.Parameter(torch.log(-0.5 * torch.log(torch.rand(states) * 0.5 + 0.4)))
            self.theta = nn.Parameter(torch.log(torch.rand(states) * math.pi))
            self.b = nn.Parameter(torch.randn(states, width, 2) * 0.3)
            self.c = nn.Parameter(torch.randn(width, states, 2) * 0.3)

        def forward(self, x):
            size = torch.exp(-self.nu.exp())
            turn = torch.polar(size, self.theta.exp())
            b, c = torch.view_as_complex(self.b), torch.view_as_complex(self.c)
            gain = torch.sqrt(1 - size**2)
            u = x.to(torch.complex64) @ b.T * gain
            state, rows = torch.zeros_like(u[:, 0]), []
            for t in range(x.shape[1]):
                state = turn * state + u[:, t]
                rows.append((state @ c.T).real)
            return torch.stack(rows, 1)

    model = Model()
    return TrainingRecipe(
        model, _fit, AdamW(model.parameters(), lr=1e-3), numbers((2, 5, 4), (2, 5, 4))
    )


def associative_scan():
    """S5: a recurrence that a tree of log2(n) shifted steps computes."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.leave = nn.Linear(4, 12), nn.Linear(6, 4)

        def forward(self, x):
            a, b = self.enter(x).chunk(2, -1)
            a, shift = a.sigmoid(), 1
            while shift < x.shape[1]:
                b = b + a * F.pad(b, (0, 0, shift, 0))[:, : x.shape[1]]
                a = a * F.pad(a, (0, 0, shift, 0), value=1.0)[:, : x.shape[1]]
                shift *= 2
            return self.leave(b)

    model = Model()
    return TrainingRecipe(
        model, _fit, Adam(model.parameters(), lr=1e-2), numbers((2, 8, 4), (2, 8, 4))
    )


def minimal_gru():
    """minGRU: a recurrence in logarithms, by log-cumsum-exp."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.gates = nn.Embedding(WORDS, 8), nn.Linear(8, 16)

        def forward(self, tokens):
            x = self.embed(tokens)
            z, h = self.gates(x).chunk(2, -1)
            keep, take = -F.softplus(z), -F.softplus(-z)
            value = torch.where(h >= 0, (F.relu(h) + 0.5).log(), -F.softplus(-h))
            sums = keep.cumsum(1)
            y = (sums + torch.logcumsumexp(take + value - sums, dim=1)).exp()
            return y @ self.embed.weight.T

    model = Model()
    return TrainingRecipe(model, _predict, AdamW(model.parameters(), lr=1e-3), texts((2, 7)))


def gated_recurrent_classifier():
    """A bidirectional GRU over texts of several lengths, with a masked mean."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 6, padding_idx=0)
            self.gru = nn.GRU(6, 5, batch_first=True, bidirectional=True)
            self.head = nn.Linear(10, 2)

        def forward(self, tokens, lengths):
            mask = torch.arange(tokens.shape[1])[None] < lengths[:, None]
            y, _ = self.gru(self.embed(tokens * mask))
            mean = (y * mask[..., None]).sum(1) / lengths[:, None]
            return self.head(F.dropout(mean, 0.2, self.training))

    def batch(step):
        tokens, lengths, labels = texts((3, 7), (3,), (3,), words=7)(step)
        return tokens, lengths + 1, labels % 2

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, n, y: F.cross_entropy(m(x, n), y),
        Adam(model.parameters(), lr=1e-2),
        batch,
    )


def attentive_translator():
    """An LSTM that reads, and one that writes with Bahdanau's attention and teacher forcing."""

    class Model(nn.Module):
        def __init__(self, width=6):
            super().__init__()
            self.embed = nn.Embedding(WORDS, width)
            self.read = nn.LSTM(width, width, batch_first=True)
            self.write, self.head = nn.LSTMCell(2 * width, width), nn.Linear(width, WORDS)
            self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
            self.score = nn.Linear(width, 1, bias=False)

        def forward(self, source, target):
            memory, (h, c) = self.read(self.embed(source))
            h, c, logits = h[0], c[0], []
            for word in self.embed(target).unbind(1):
                scores = self.score(torch.tanh(self.query(h)[:, None] + self.key(memory)))
                context = (scores.softmax(1) * memory).sum(1)
                h, c = self.write(torch.cat([word, context], 1), (h, c))
                logits.append(self.head(h))
            return torch.stack(logits, 1)

    def loss(model, source, target):
        logits = model(source, target[:, :-1])
        return F.cross_entropy(logits.reshape(-1, WORDS), target[:, 1:].reshape(-1))

    model = Model()
    return TrainingRecipe(model, loss, Adam(model.parameters()), texts((2, 4), (2, 4)))


def learner_at_test_time():
    """TTT: the hidden state is a linear model that gradient descent trains, token by token."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.k, self.v, self.q = (nn.Linear(6, 6, bias=False) for _ in range(3))
            self.start, self.rate = nn.Parameter(torch.eye(6)), nn.Parameter(torch.tensor(0.1))

        def forward(self, x):
            weight, outputs = self.start.expand(x.shape[0], 6, 6), []
            for t in range(x.shape[1]):
                k, v, q = self.k(x[:, t]), self.v(x[:, t]), self.q(x[:, t])
                error = torch.einsum("bij,bj->bi", weight, k) - v
                weight = weight - self.rate * torch.einsum("bi,bj->bij", error, k)
                outputs.append(torch.einsum("bij,bj->bi", weight, q))
            return torch.stack(outputs, 1)

    model = Model()
    return TrainingRecipe(
        model, _fit, Adam(model.parameters(), lr=1e-3), numbers((2, 5, 6), (2, 5, 6))
    )
