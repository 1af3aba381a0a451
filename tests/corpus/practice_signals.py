"""Programs of practice: speech and sound, tables, series, ranking, and survival."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adagrad, Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import WORDS, both, labelled, numbers, texts


def _learn(model, loss, batch, rate=1e-3):
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=rate), batch)


def _fit(model, *tensors):
    return F.mse_loss(model(*tensors[:-1]), tensors[-1])


def recognized_speech():
    """A convolutional recognizer by CTC, with lengths of inputs and of targets."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Conv1d(4, 8, 3, 1, 1), nn.ReLU(), nn.Conv1d(8, WORDS, 1))

        def forward(self, x):
            return self.net(x.mT).permute(2, 0, 1).log_softmax(-1)

    def loss(model, x, targets):
        lengths, sizes = torch.full((2,), 8), torch.tensor([3, 2])
        return F.ctc_loss(model(x), targets + 1, lengths, sizes, zero_infinity=True)

    return _learn(Model(), loss, both(numbers((2, 8, 4)), texts((2, 3), words=WORDS - 1)))


def transducer():
    """RNN-T: the forward algorithm over the lattice of frames and words, row by row."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.listen, self.embed = nn.GRU(4, 6, batch_first=True), nn.Embedding(WORDS, 6)
            self.speak, self.join = nn.GRU(6, 6, batch_first=True), nn.Linear(6, WORDS)

        def forward(self, x, words):
            a = self.listen(x)[0]
            b = self.speak(F.pad(self.embed(words), (0, 0, 1, 0)))[0]
            return self.join(torch.tanh(a[:, :, None] + b[:, None])).log_softmax(-1)

    def loss(model, x, words):
        logp = model(x, words)
        blank = logp[..., 0]
        index = words[:, None, :, None].expand(-1, x.shape[1], -1, 1)
        emit = logp[:, :, :-1].gather(-1, index).squeeze(-1)
        row = F.pad(emit[:, 0].cumsum(1), (1, 0))
        for t in range(1, x.shape[1]):
            stay, cells = row + blank[:, t - 1], []
            for u in range(row.shape[1]):
                up = cells[-1] + emit[:, t, u - 1] if u else None
                cells.append(stay[:, u] if up is None else torch.logaddexp(stay[:, u], up))
            row = torch.stack(cells, 1)
        return -(row[:, -1] + blank[:, -1, -1]).mean()

    return _learn(Model(), loss, both(numbers((2, 4, 4)), texts((2, 3))))


def conformer():
    """A conformer: half feed-forward layers around attention and a gated convolution."""

    class Conformer(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.feeds = nn.ModuleList(
                nn.Sequential(
                    nn.LayerNorm(width),
                    nn.Linear(width, 16),
                    nn.SiLU(),
                    nn.Dropout(0.1),
                    nn.Linear(16, width),
                )
                for _ in range(2)
            )
            self.attend = nn.MultiheadAttention(width, 2, dropout=0.1, batch_first=True)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
            self.conv = nn.Sequential(
                nn.Conv1d(width, 2 * width, 1),
                nn.GLU(1),
                nn.Conv1d(width, width, 3, padding=1, groups=width),
                nn.BatchNorm1d(width),
                nn.SiLU(),
                nn.Conv1d(width, width, 1),
            )

        def forward(self, x):
            x = x + 0.5 * self.feeds[0](x)
            y = self.norms[0](x)
            x = x + self.attend(y, y, y)[0]
            x = x + self.conv(self.norms[1](x).mT).mT
            return self.norms[2](x + 0.5 * self.feeds[1](x))

    return _learn(Conformer(), _fit, numbers((2, 6, 8), (2, 6, 8)))


def spoken_text():
    """FastSpeech: durations spread words over frames, with losses of pitch and spectrum."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.length = nn.Embedding(WORDS, 6), nn.Linear(6, 1)
            self.decode = nn.Sequential(
                nn.Conv1d(6, 8, 3, padding=1), nn.ReLU(), nn.Conv1d(8, 5, 1)
            )

        def forward(self, words, durations):
            h = self.embed(words)
            ends = durations.cumsum(1)
            frames = torch.arange(10)
            inside = (frames[:, None] < ends[:, None]) & (
                frames[:, None] >= (ends - durations)[:, None]
            )
            spread = inside.float() @ h
            return self.decode(spread.mT), self.length(h).squeeze(-1), inside.any(-1)

    def loss(model, words, durations, mel):
        durations = durations % 3 + 1
        found, lengths, mask = model(words, durations)
        error = (F.l1_loss(found, mel, reduction="none").mean(1) * mask).sum() / mask.sum()
        return error + F.mse_loss(lengths, torch.log1p(durations.float()))

    batch = both(texts((2, 4), (2, 4)), numbers((2, 5, 10)))
    return _learn(Model(), loss, batch)


def vocoder():
    """A vocoder of transposed convolutions with weight norms, by mel spectra and STFT."""
    normed = nn.utils.parametrizations.weight_norm

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                normed(nn.ConvTranspose1d(4, 4, 8, 4, 2)),
                nn.LeakyReLU(0.1),
                normed(nn.Conv1d(4, 1, 5, padding=2)),
                nn.Tanh(),
            )
            self.register_buffer("mel", torch.rand(6, 17))

    def loss(model, x, wave):
        spectra = [
            torch.stft(w, 32, 8, window=torch.hann_window(32), return_complex=True).abs()
            for w in (model.net(x)[:, 0], wave)
        ]
        a, b = ((model.mel @ s).clamp(min=1e-5).log() for s in spectra)
        return F.l1_loss(a, b) + (spectra[0] - spectra[1]).norm() / spectra[1].norm()

    return _learn(Model(), loss, numbers((2, 4, 16), (2, 64)))


def dilated_waves():
    """WaveNet: dilated causal convolutions with gates, that predict classes of mu-law."""

    class WaveNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS, 4)
            self.gates = nn.ModuleList(nn.Conv1d(4, 8, 2, dilation=2**k) for k in range(3))
            self.skips = nn.ModuleList(nn.Conv1d(4, 4, 1) for _ in range(3))
            self.head = nn.Conv1d(4, WORDS, 1)

        def forward(self, x):
            x, total = self.embed(x).mT, 0
            for k, (gate, skip) in enumerate(zip(self.gates, self.skips, strict=True)):
                a, b = gate(F.pad(x, (2**k, 0))).chunk(2, 1)
                h = torch.tanh(a) * torch.sigmoid(b)
                total, x = total + skip(h), x + h
            return self.head(F.relu(total))

    def loss(model, wave):
        wave = wave.clamp(-2, 2) / 2
        law = wave.sign() * torch.log1p(15 * wave.abs()) / math.log(16)
        codes = ((law + 1) / 2 * (WORDS - 1) + 0.5).long()
        return F.cross_entropy(model(codes[:, :-1]), codes[:, 1:])

    return _learn(WaveNet(), loss, numbers((2, 12)))


def separated_sources():
    """Two voices are separated, by the best order of them and the signal's ratio to noise."""

    def ratio(x, y):
        x, y = x - x.mean(-1, keepdim=True), y - y.mean(-1, keepdim=True)
        part = (x * y).sum(-1, keepdim=True) * y / (y.pow(2).sum(-1, keepdim=True) + 1e-8)
        return 10 * torch.log10(part.pow(2).sum(-1) / ((x - part).pow(2).sum(-1) + 1e-8) + 1e-8)

    def loss(model, a, b):
        found = model((a + b)[:, None])
        one = ratio(found[:, 0], a) + ratio(found[:, 1], b)
        two = ratio(found[:, 0], b) + ratio(found[:, 1], a)
        return -torch.maximum(one, two).mean()

    model = nn.Sequential(nn.Conv1d(1, 6, 5, padding=2), nn.PReLU(), nn.Conv1d(6, 2, 5, padding=2))
    return _learn(model, loss, numbers((2, 24), (2, 24)))


def masked_spectra():
    """SpecAugment: bands of time and of frequency are hidden at drawn places."""

    def loss(model, x, y):
        for axis in (1, 2):
            size = x.shape[axis]
            start = torch.randint(0, size - 2, (len(x), 1))
            place = torch.arange(size)
            hidden = (place >= start) & (place < start + 2)
            x = x.masked_fill(hidden.unsqueeze(3 - axis), 0.0)
        return F.cross_entropy(model(x), y)

    model = nn.Sequential(nn.Flatten(), nn.Linear(48, 4))
    return _learn(model, loss, labelled((3, 8, 6), 4))


def recommender():
    """DLRM: embeddings of bags and dense numbers, whose products are all pairs."""

    class DLRM(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.ModuleList(nn.EmbeddingBag(WORDS, 4, mode="sum") for _ in range(3))
            self.bottom = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 4))
            self.top = nn.Sequential(nn.Linear(10, 8), nn.ReLU(), nn.Linear(8, 1))

        def forward(self, dense, a, b, c):
            x = self.bottom(dense)
            rows = [x, *(t(i) for t, i in zip(self.tables, (a, b, c), strict=True))]
            z = torch.stack(rows, 1)
            i, j = torch.tril_indices(4, 4, offset=-1)
            pairs = torch.bmm(z, z.mT)[:, i, j]
            return self.top(torch.cat([x, pairs], 1)).squeeze(1)

    model = DLRM()
    batch = both(numbers((6, 5)), texts((6, 2), (6, 2), (6, 2)), texts((6,), words=2))
    return TrainingRecipe(
        model,
        lambda m, *x: F.binary_cross_entropy_with_logits(m(*x[:-1]), x[-1].float()),
        Adagrad(model.parameters(), lr=0.01),
        batch,
    )


def factorization_machine():
    """DeepFM: pairs of fields by the square of sums, a network, and one table of all fields."""

    class DeepFM(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("offsets", torch.tensor([0, WORDS, 2 * WORDS]))
            self.embed, self.linear = nn.Embedding(3 * WORDS, 4), nn.Embedding(3 * WORDS, 1)
            self.net = nn.Sequential(
                nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)
            )
            self.bias = nn.Parameter(torch.zeros(1))

        def forward(self, fields):
            fields = fields + self.offsets
            e = self.embed(fields)
            pairs = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1, keepdim=True)
            first = self.linear(fields).sum(1) + self.bias
            return torch.sigmoid(first + pairs + self.net(e.flatten(1))).squeeze(1)

    model = DeepFM()
    batch = both(texts((8, 3)), texts((8,), words=2))
    return _learn(model, lambda m, x, y: F.binary_cross_entropy(m(x), y.float()), batch)


def two_towers():
    """Two towers, negatives of the batch, and logits corrected by how frequent items are."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(WORDS, 6), nn.Embedding(WORDS, 6)
            self.tower = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 6))
            self.register_buffer("counts", torch.ones(WORDS))

    def loss(model, users, items):
        with torch.no_grad():
            model.counts.index_add_(0, items, torch.ones(len(items)))
        rate = (model.counts / model.counts.sum())[items].log()
        logits = model.tower(model.users(users)) @ F.normalize(model.items(items), dim=1).T - rate
        same = (items[:, None] == items).fill_diagonal_(False)
        return F.cross_entropy(logits.masked_fill(same, -1e9), torch.arange(len(items)))

    return _learn(Model(), loss, texts((8,), (8,)))


def pairwise_ranking():
    """Matrix factorization by Bayesian personalized ranking, with drawn negatives."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.users, self.items = nn.Embedding(WORDS, 4), nn.Embedding(WORDS, 4)
            self.bias = nn.Embedding(WORDS, 1)

        def forward(self, user, item):
            return (self.users(user) * self.items(item)).sum(-1) + self.bias(item).squeeze(-1)

    def loss(model, user, item):
        other = torch.randint_like(item, high=WORDS)
        return -F.logsigmoid(model(user, item) - model(user, other)).mean()

    return _learn(Model(), loss, texts((8,), (8,)))


def sequential_items():
    """SASRec: a causal transformer of a user's items, that scores the next and a drawn one."""

    class SASRec(nn.Module):
        def __init__(self):
            super().__init__()
            self.items = nn.Embedding(WORDS, 8, padding_idx=0)
            self.places = nn.Embedding(6, 8)
            self.block = nn.TransformerEncoderLayer(8, 1, 8, 0.0, batch_first=True, norm_first=True)

        def forward(self, items):
            x = self.items(items) * 8**0.5 + self.places(torch.arange(items.shape[1]))
            mask = torch.triu(torch.ones(6, 6, dtype=torch.bool), 1)
            return self.block(x, src_mask=mask)

    def loss(model, items):
        h, after = model(items[:, :-1]), items[:, 1:]
        other = torch.randint(1, WORDS, after.shape)
        good, bad = ((h * model.items(i)).sum(-1) for i in (after, other))
        mask = (after != 0).float()
        losses = F.softplus(-good) + F.softplus(bad)
        return (losses * mask).sum() / mask.sum()

    return _learn(SASRec(), loss, texts((3, 7)))


def list_ranking():
    """LambdaRank: pairs are weighted by what their exchange changes of the discounted gain."""

    def loss(model, x, labels):
        scores = model(x).squeeze(-1)
        order = scores.argsort(1, descending=True)
        ranks = order.argsort(1)
        discount = 1 / torch.log2(ranks.float() + 2)
        gain = 2.0**labels - 1
        ideal = (gain.sort(1, descending=True).values / torch.log2(torch.arange(5) + 2.0)).sum(1)
        delta = (gain[:, :, None] - gain[:, None]) * (discount[:, :, None] - discount[:, None])
        weight = delta.abs().detach() / ideal.clamp(min=1e-6)[:, None, None]
        better = labels[:, :, None] > labels[:, None]
        pairs = F.softplus(-(scores[:, :, None] - scores[:, None]))
        return (pairs * weight * better).sum() / len(x)

    return _learn(
        nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1)),
        loss,
        labelled((3, 5, 4), 4, 3, 5),
    )


def listwise_ranking():
    """ListMLE over a list that is sorted by its labels, and an approximate gain."""

    def loss(model, x, labels):
        scores = model(x).squeeze(-1)
        in_order = scores.gather(1, labels.argsort(dim=1, descending=True, stable=True))
        tail = torch.logcumsumexp(in_order.flip(1), 1).flip(1)
        ranks = 1 + torch.sigmoid((scores[:, None] - scores[:, :, None]) / 0.1).sum(-1) - 0.5
        gain = ((2.0**labels - 1) / torch.log2(1 + ranks)).sum(1)
        return (tail - in_order).sum(1).mean() - 0.1 * gain.mean()

    return _learn(nn.Linear(4, 1), loss, labelled((3, 5, 4), 4, 3, 5))


def feature_tokens():
    """FT-Transformer: every column of a table is a token, numbers by weights, classes by rows."""

    class Model(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.weight, self.bias = (nn.Parameter(torch.randn(4, width) * 0.3) for _ in range(2))
            self.classes, self.first = (
                nn.Embedding(WORDS, width),
                nn.Parameter(torch.zeros(1, 1, width)),
            )
            self.block = nn.TransformerEncoderLayer(
                width, 2, 16, 0.1, batch_first=True, norm_first=True
            )
            self.head = nn.Sequential(nn.LayerNorm(width), nn.ReLU(), nn.Linear(width, 1))

        def forward(self, x, c):
            tokens = torch.cat([x[..., None] * self.weight + self.bias, self.classes(c)], 1)
            tokens = torch.cat([self.first.expand(len(x), -1, -1), tokens], 1)
            return self.head(self.block(tokens)[:, 0]).squeeze(-1)

    return _learn(Model(), _fit, both(numbers((5, 4)), texts((5, 2)), numbers((5,))))


def soft_trees():
    """Oblivious soft trees: each level asks one question of all its nodes."""

    class Trees(nn.Module):
        def __init__(self, trees=3, depth=3):
            super().__init__()
            self.choose = nn.Parameter(torch.randn(trees, depth, 4))
            self.borders = nn.Parameter(torch.zeros(trees, depth))
            self.leaves = nn.Parameter(torch.randn(trees, 2**depth))
            bits = (torch.arange(2**depth)[:, None] >> torch.arange(depth)) & 1
            self.register_buffer("bits", bits.bool())

        def forward(self, x):
            asked = torch.einsum("bf,tdf->btd", x, self.choose.softmax(-1))
            p = torch.sigmoid(asked - self.borders)[:, :, None]
            return (torch.where(self.bits, p, 1 - p).prod(-1) * self.leaves).sum((1, 2))

    return _learn(Trees(), _fit, numbers((6, 4), (6,)))


def basis_expansion():
    """N-BEATS: blocks take away what they explain, by trends and by seasons."""

    class Block(nn.Module):
        def __init__(self, basis):
            super().__init__()
            self.register_buffer("basis", basis)
            self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2 * len(basis)))

        def forward(self, x):
            back, ahead = self.net(x).chunk(2, -1)
            return back @ self.basis[:, :8], ahead @ self.basis[:, 8:]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            t = torch.arange(12) / 12
            season = torch.cat(
                [torch.stack([(6.28 * k * t).cos(), (6.28 * k * t).sin()]) for k in (1, 2)]
            )
            self.blocks = nn.ModuleList(
                [Block(torch.stack([t**k for k in range(3)])), Block(season)]
            )

        def forward(self, x):
            total = torch.zeros(len(x), 4)
            for block in self.blocks:
                back, ahead = block(x)
                x, total = x - back, total + ahead
            return total

    def loss(model, series):
        x, y = series.split([8, 4], 1)
        found = model(x)
        return (2 * (found - y).abs() / (found.abs() + y.abs() + 1e-3)).mean()

    return _learn(Model(), loss, numbers((5, 12)))


def patches_of_series():
    """PatchTST: patches of normed series, each channel by itself, and the norm put back."""

    class PatchTST(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.places = nn.Linear(4, 8), nn.Parameter(torch.zeros(7, 8))
            self.block = nn.TransformerEncoderLayer(8, 2, 16, 0.0, batch_first=True)
            self.head = nn.Linear(56, 4)

        def forward(self, x):
            mean = x.mean(1, keepdim=True).detach()
            std = torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
            x = ((x - mean) / std).mT.unfold(-1, 4, 2)
            b, c, n, _ = x.shape
            h = self.block((self.enter(x) + self.places).view(b * c, n, 8))
            return self.head(h.reshape(b, c, -1)).mT * std + mean

    return _learn(PatchTST(), _fit, numbers((2, 16, 2), (2, 4, 2)))


def fused_forecast():
    """A temporal fusion transformer in small: chosen variables, gates, and quantiles."""

    class Gated(nn.Module):
        def __init__(self, enter, leave):
            super().__init__()
            self.net = nn.Sequential(
                nn.Linear(enter, 8), nn.ELU(), nn.Linear(8, 2 * leave), nn.GLU()
            )
            self.skip, self.norm = nn.Linear(enter, leave), nn.LayerNorm(leave)

        def forward(self, x):
            return self.norm(self.skip(x) + self.net(x))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.choose = nn.ModuleList(Gated(1, 6) for _ in range(3)), Gated(3, 3)
            self.lstm = nn.LSTM(6, 6, batch_first=True)
            self.attend = nn.MultiheadAttention(6, 2, batch_first=True)
            self.head = nn.Linear(6, 3)

        def forward(self, x):
            parts = [f(v) for f, v in zip(self.embed, x.split(1, -1), strict=True)]
            h = (torch.stack(parts, -1) * self.choose(x).softmax(-1)[..., None, :]).sum(-1)
            h = h + self.lstm(h)[0]
            mask = nn.Transformer.generate_square_subsequent_mask(h.shape[1])
            return self.head(h + self.attend(h, h, h, attn_mask=mask, need_weights=False)[0])

    def loss(model, x, y):
        error = y[..., None] - model(x)
        q = torch.tensor([0.1, 0.5, 0.9])
        return torch.maximum(q * error, (q - 1) * error).sum(-1).mean()

    return _learn(Model(), loss, numbers((2, 6, 3), (2, 6)))


def autoregressive_forecast():
    """DeepAR: an LSTM that gives Student's t for the next value, scaled by the series' mean."""

    class DeepAR(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.head = nn.LSTM(2, 6, batch_first=True), nn.Linear(6, 3)

        def forward(self, x, known):
            h, _ = self.lstm(torch.stack([x, known], -1))
            mean, scale, df = self.head(h).unbind(-1)
            return torch.distributions.StudentT(F.softplus(df) + 2, mean, F.softplus(scale) + 1e-3)

    def loss(model, series, known):
        series = series / (1 + series[:, :4].abs().mean(1, keepdim=True))
        return -model(series[:, :-1], known[:, 1:]).log_prob(series[:, 1:]).mean()

    return _learn(DeepAR(), loss, numbers((3, 8), (3, 8)))


def normal_forecast():
    """The same with normal numbers of learned spread, and a mean by exponential smoothing."""

    class Smooth(nn.Module):
        def __init__(self):
            super().__init__()
            self.raw = nn.Parameter(torch.zeros(3))

    def loss(model, series):
        alpha, beta = model.raw[:2].sigmoid()
        level, trend, total = series[:, 0], torch.zeros(len(series)), 0.0
        for t in range(1, series.shape[1]):
            guess = level + trend
            normal = torch.distributions.Normal(guess, F.softplus(model.raw[2]) + 1e-2)
            total = total - normal.log_prob(series[:, t]).mean()
            new = alpha * series[:, t] + (1 - alpha) * guess
            trend, level = beta * (new - level) + (1 - beta) * trend, new
        return total / series.shape[1]

    return _learn(Smooth(), loss, numbers((3, 6)), 1e-2)


def survival():
    """Cox's partial likelihood, by sorted times and a cumulative log-sum-exp."""

    def loss(model, x, times, event):
        order = torch.argsort(times, descending=True)
        risk = model(x).squeeze(-1)[order]
        happened = (event[order] > 0).float()
        return -((risk - torch.logcumsumexp(risk, 0)) * happened).sum() / happened.sum()

    return _learn(
        nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1)),
        loss,
        numbers((8, 5), (8,), (8,)),
    )


def discrete_survival():
    """DeepHit: a distribution over times, its likelihood, and a loss of concordance."""

    def loss(model, x, times, event):
        pmf = model(x).softmax(-1)
        at = pmf.gather(1, times[:, None]).squeeze(1)
        cumulative = pmf.cumsum(1)
        after = 1 - cumulative.gather(1, times[:, None]).squeeze(1) + 1e-6
        likelihood = -torch.where(event > 0, (at + 1e-8).log(), after.log()).mean()
        table = cumulative[:, times]
        earlier = (times[:, None] < times) & (event[:, None] > 0)
        order = torch.exp(-(table.diagonal()[:, None] - table.T) / 0.1)
        return likelihood + 0.2 * (order * earlier).mean()

    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 6))
    return _learn(model, loss, both(numbers((8, 5)), texts((8,), words=6), texts((8,), words=2)))


def counted_events():
    """Counts by a negative binomial with many zeros, as models of single cells have them."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.theta = nn.Linear(4, 12), nn.Parameter(torch.zeros(6))

    def loss(model, x, counts):
        counts = counts.float()
        rate, gate = model.net(x).chunk(2, -1)
        rate, theta = rate.exp(), F.softplus(model.theta) + 1e-3
        zero = theta * (theta / (theta + rate)).log()
        many = zero + counts * (rate / (theta + rate)).log() + torch.lgamma(counts + theta)
        many = many - torch.lgamma(theta) - torch.lgamma(counts + 1)
        none = torch.logaddexp(F.logsigmoid(gate), F.logsigmoid(-gate) + zero)
        return -torch.where(counts == 0, none, F.logsigmoid(-gate) + many).mean()

    return _learn(Model(), loss, both(numbers((5, 4)), texts((5, 6), words=5)))


def variational_regression():
    """Bayes by backprop: weights are drawn, once for each batch, and kept near a prior."""

    class Bayes(nn.Module):
        def __init__(self):
            super().__init__()
            self.mean, self.rho = (
                nn.Parameter(torch.randn(3, 5) * 0.1),
                nn.Parameter(torch.full((3, 5), -3.0)),
            )

        def forward(self, x):
            sigma = F.softplus(self.rho)
            self.kl = (0.5 * (sigma**2 + self.mean**2 - 1) - sigma.log()).sum()
            return F.linear(x, self.mean + sigma * torch.randn_like(sigma))

    def loss(model, x, y):
        return F.gaussian_nll_loss(model(x), y, torch.full_like(y, 0.5)) + 1e-2 * model.kl

    return _learn(Bayes(), loss, numbers((6, 5), (6, 3)))


def evidential_regression():
    """Four numbers of a normal-inverse-gamma for each target, with a penalty of evidence."""

    def loss(model, x, y):
        mean, v, alpha, beta = model(x).chunk(4, -1)
        v, beta = F.softplus(v) + 1e-3, F.softplus(beta) + 1e-3
        alpha = F.softplus(alpha) + 1
        omega = 2 * beta * (1 + v)
        nll = 0.5 * torch.log(math.pi / v) - alpha * omega.log()
        nll = nll + (alpha + 0.5) * torch.log((y - mean) ** 2 * v + omega)
        nll = nll + torch.lgamma(alpha) - torch.lgamma(alpha + 0.5)
        return (nll + 0.1 * (y - mean).abs() * (2 * v + alpha)).mean()

    model = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 4))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), numbers((6, 5), (6, 1)))


def ordered_classes():
    """CORAL: ordered classes by shared weights and borders that are sorted."""

    class Coral(nn.Module):
        def __init__(self):
            super().__init__()
            self.score, self.borders = nn.Linear(5, 1), nn.Parameter(torch.linspace(1, -1, 3))

    def loss(model, x, y):
        logits = model.score(x) + model.borders
        levels = (y[:, None] > torch.arange(3)).float()
        return (
            -(F.logsigmoid(logits) * levels + (F.logsigmoid(logits) - logits) * (1 - levels))
            .sum(1)
            .mean()
        )

    model = Coral()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), labelled((6, 5), 4))
