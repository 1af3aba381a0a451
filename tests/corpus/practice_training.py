"""Programs of practice: optimizers of users, averages of weights, and ways to train."""

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call
from torch.optim import SGD, Adam, AdamW, Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.checkpoint import checkpoint

from moot.offchain.frontend.clipping import ClipNorm, ClipValue
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import both, labelled, numbers


def _network():
    return nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 4))


def _classify(model, x, y):
    return F.cross_entropy(model(x), y)


DATA = labelled((8, 6), 4)


def muon():
    """Muon by hand, with Newton and Schulz's iteration, beside AdamW for the vectors."""

    class Muon(Optimizer):
        def __init__(self, params, lr=0.02, momentum=0.95):
            super().__init__(params, {"lr": lr, "momentum": momentum})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    state = self.state[p]
                    if "momentum" not in state:
                        state["momentum"] = torch.zeros_like(p.grad)
                    state["momentum"].lerp_(p.grad, 1 - group["momentum"])
                    x = p.grad.lerp(state["momentum"], group["momentum"])
                    x, is_tall = x / (x.norm() + 1e-7), x.size(0) > x.size(1)
                    x = x.T if is_tall else x
                    for _ in range(5):
                        a = x @ x.T
                        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
                    x = x.T if is_tall else x
                    p.add_(x, alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)

    model = _network()
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim < 2]
    return TrainingRecipe(model, _classify, [Muon(matrices), AdamW(others, lr=3e-3)], DATA)


def schedule_free():
    """Schedule-free SGD: gradients at a point between the iterate and its average."""

    class ScheduleFree(Optimizer):
        def __init__(self, params, lr=0.1, beta=0.9):
            super().__init__(params, {"lr": lr, "beta": beta})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                lr, beta = group["lr"], group["beta"]
                for y in (p for p in group["params"] if p.grad is not None):
                    state = self.state[y]
                    if not state:
                        state["z"], state["k"] = y.clone(), torch.zeros(())
                    state["k"] += 1
                    z, weight = state["z"], 1 / state["k"]
                    x = (y - (1 - beta) * z) / beta
                    z.sub_(y.grad, alpha=lr)
                    x = x + weight * (z - x)
                    y.copy_(beta * x + (1 - beta) * z)

    model = _network()
    return TrainingRecipe(model, _classify, ScheduleFree(model.parameters()), DATA)


def sharpness_aware():
    """SAM: the loss at the worst point nearby, which a first gradient finds."""

    def loss(model, x, y, radius=0.05):
        named = dict(model.named_parameters())
        first = F.cross_entropy(model(x), y)
        grads = torch.autograd.grad(first, list(named.values()))
        norm = torch.stack([g.norm() for g in grads]).norm()
        worst = {
            name: p + radius * g / (norm + 1e-12)
            for (name, p), g in zip(named.items(), grads, strict=True)
        }
        return F.cross_entropy(functional_call(model, worst, (x,)), y)

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1, momentum=0.9), DATA)


def moving_average():
    """An exponential moving average of the weights, kept in a copy, which regularizes."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = _network()
            self.average = copy.deepcopy(self.online).requires_grad_(False)

        @torch.no_grad()
        def update(self, decay=0.99):
            for slow, fast in zip(self.average.parameters(), self.online.parameters(), strict=True):
                slow.mul_(decay).add_(fast, alpha=1 - decay)

    def loss(model, x, y):
        model.update()
        logits = model.online(x)
        return F.cross_entropy(logits, y) + F.mse_loss(logits, model.average(x))

    model = Model()
    return TrainingRecipe(model, loss, AdamW(model.online.parameters(), lr=1e-2), DATA)


def averaged_model():
    """torch's own averaged model, updated in each step."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = _network()
            average = get_ema_multi_avg_fn(0.9)
            self.average = AveragedModel(self.online, multi_avg_fn=average, use_buffers=True)
            self.average.requires_grad_(False)

    def loss(model, x, y):
        model.average.update_parameters(model.online)
        return F.cross_entropy(model.online(x), y)

    model = Model()
    return TrainingRecipe(model, loss, AdamW(model.online.parameters(), lr=1e-2), DATA)


def stochastic_averaging():
    """The plain mean of the weights of all steps, with a counter in a buffer."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.mean = _network(), _network().requires_grad_(False)
            self.register_buffer("count", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            with torch.no_grad():
                self.count += 1
                for mean, p in zip(self.mean.parameters(), self.net.parameters(), strict=True):
                    mean += (p - mean) / self.count
            return self.net(x)

    model = Model()
    return TrainingRecipe(model, _classify, SGD(model.net.parameters(), lr=0.1), DATA)


def lookahead():
    """Lookahead around Adam: slow weights every second step, by a mask of a counter."""

    class Lookahead(Adam):
        @torch.no_grad()
        def step(self, closure=None):
            super().step()
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if "slow" not in state:
                        state["slow"], state["count"] = p.clone(), torch.zeros(())
                    state["count"] += 1
                    turn = state["count"] % 2 == 0
                    slow = state["slow"] + 0.5 * (p - state["slow"])
                    state["slow"].copy_(torch.where(turn, slow, state["slow"]))
                    p.copy_(torch.where(turn, slow, p))

    model = _network()
    return TrainingRecipe(model, _classify, Lookahead(model.parameters(), lr=1e-2), DATA)


def sophia():
    """Sophia with Gauss and Newton's estimate from the gradient's squares, clipped."""

    class Sophia(Optimizer):
        def __init__(self, params, lr=1e-2, betas=(0.96, 0.99), rho=0.04, weight_decay=0.1):
            super().__init__(params, dict(lr=lr, betas=betas, rho=rho, weight_decay=weight_decay))  # noqa: C408 - as users write it

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if len(state) == 0:
                        state["exp_avg"] = torch.zeros_like(p)
                        state["hessian"] = torch.zeros_like(p)
                    beta1, beta2 = group["betas"]
                    p.mul_(1 - group["lr"] * group["weight_decay"])
                    state["exp_avg"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                    state["hessian"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                    ratio = state["exp_avg"].abs() / (group["rho"] * state["hessian"] + 1e-15)
                    p.addcmul_(state["exp_avg"].sign(), ratio.clamp(max=1), value=-group["lr"])

    model = _network()
    return TrainingRecipe(model, _classify, Sophia(model.parameters()), DATA)


def ademamix():
    """AdEMAMix: Adam with a second, slow momentum, and a scheduler of its share."""

    class AdEMAMix(Optimizer):
        def __init__(self, params, lr=1e-2, betas=(0.9, 0.999, 0.9999), alpha=5.0):
            super().__init__(params, {"lr": lr, "betas": betas, "alpha": alpha})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                b1, b2, b3 = group["betas"]
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"] = torch.tensor(0.0)
                        state.update({k: torch.zeros_like(p) for k in ("fast", "slow", "square")})
                    state["step"] += 1
                    alpha = group["alpha"] * (state["step"] / 100).clamp(max=1)
                    state["fast"].lerp_(p.grad, 1 - b1)
                    state["slow"].lerp_(p.grad, 1 - b3)
                    state["square"].mul_(b2).addcmul_(p.grad, p.grad, value=1 - b2)
                    fast = state["fast"] / (1 - b1 ** state["step"])
                    root = (state["square"] / (1 - b2 ** state["step"])).sqrt() + 1e-8
                    p -= group["lr"] * (fast + alpha * state["slow"]) / root

    model = _network()
    return TrainingRecipe(model, _classify, AdEMAMix(model.parameters()), DATA)


def cautious_lion():
    """Lion that only moves where its momentum and the gradient have one sign."""

    class Cautious(Optimizer):
        def __init__(self, params, lr=1e-3):
            super().__init__(params, {"lr": lr})
            for group in self.param_groups:
                for p in group["params"]:
                    self.state[p]["m"] = torch.zeros_like(p)

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    m = self.state[p]["m"]
                    update = (m * 0.9 + p.grad * 0.1).sign_()
                    mask = (update * p.grad > 0).to(p.grad.dtype)
                    mask.div_(mask.mean().clamp_(min=1e-3))
                    p.add_(update * mask, alpha=-group["lr"])
                    m.mul_(0.99).add_(p.grad, alpha=0.01)

    model = _network()
    return TrainingRecipe(model, _classify, Cautious(model.parameters()), DATA)


def lamb():
    """LAMB: Adam's step, scaled by the norm of the layer's weights."""

    class Lamb(Optimizer):
        def __init__(self, params, lr=1e-2):
            super().__init__(params, {"lr": lr, "step": torch.zeros(())})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state.update(m=torch.zeros_like(p), v=torch.zeros_like(p))
                    state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                    state["v"].mul_(0.999).addcmul_(p.grad, p.grad, value=0.001)
                    update = state["m"] / (state["v"].sqrt() + 1e-6) + 0.01 * p
                    a, b = p.norm(), update.norm()
                    trust = torch.where((a > 0) & (b > 0), a / b, torch.ones_like(a))
                    p.sub_(group["lr"] * trust * update)

    model = _network()
    return TrainingRecipe(model, _classify, Lamb(model.parameters()), DATA)


def shampoo():
    """Shampoo, whose inverse roots are found by coupled Newton iterations."""

    def inverse_root(a, rounds=8):
        eye = torch.eye(a.shape[0])
        a = a + 1e-4 * eye
        scale = a.norm()
        y, z = a / scale, eye
        for _ in range(rounds):
            t = 0.5 * (3 * eye - z @ y)
            y, z = y @ t, t @ z
        return z / scale.sqrt()

    class Shampoo(Optimizer):
        def __init__(self, params, lr=1e-2):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    if p.ndim < 2:
                        p -= group["lr"] * p.grad
                        continue
                    state, g = self.state[p], p.grad
                    if not state:
                        state["left"] = torch.eye(p.shape[0]) * 1e-2
                        state["right"] = torch.eye(p.shape[1]) * 1e-2
                    state["left"] += g @ g.T
                    state["right"] += g.T @ g
                    p -= (
                        group["lr"] * inverse_root(state["left"]) @ g @ inverse_root(state["right"])
                    )

    model = _network()
    return TrainingRecipe(model, _classify, Shampoo(model.parameters()), DATA)


def soap():
    """SOAP: Adam in the eigenbasis of Shampoo, which one step of QR follows."""

    class Soap(Optimizer):
        def __init__(self, params, lr=3e-3):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state, g = self.state[p], p.grad
                    if not state:
                        state["gg"], state["q"] = torch.eye(p.shape[0]), torch.eye(p.shape[0])
                        state["m"], state["v"] = torch.zeros_like(p), torch.zeros_like(p)
                    turned = state["q"].T @ g
                    state["m"].lerp_(g, 0.05)
                    state["v"].mul_(0.95).addcmul_(turned, turned, value=0.05)
                    update = (state["q"].T @ state["m"]) / (state["v"].sqrt() + 1e-8)
                    p -= group["lr"] * state["q"] @ update
                    state["gg"].lerp_(g @ g.T, 0.05)
                    state["q"].copy_(torch.linalg.qr(state["gg"] @ state["q"]).Q)

    model = nn.Sequential(nn.Linear(6, 8, False), nn.Tanh(), nn.Linear(8, 4, False))
    return TrainingRecipe(model, _classify, Soap(model.parameters()), DATA)


def low_rank_gradients():
    """GaLore: Adam on gradients that are projected to a drawn basis of low rank."""

    class Projected(Optimizer):
        def __init__(self, params, lr=1e-2, rank=2):
            super().__init__(params, {"lr": lr})
            for p in self.param_groups[0]["params"]:
                basis = torch.linalg.qr(torch.randn(p.shape[0], rank)).Q
                zeros = torch.zeros(rank, p.shape[1])
                self.state[p] = {"basis": basis, "m": zeros, "v": zeros.clone()}

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    small = state["basis"].T @ p.grad
                    state["m"].lerp_(small, 0.1)
                    state["v"].lerp_(small.square(), 0.01)
                    p.sub_(state["basis"] @ (state["m"] / (state["v"].sqrt() + 1e-6)) * group["lr"])

    model = nn.Sequential(nn.Linear(6, 8, False), nn.Tanh(), nn.Linear(8, 4, False))
    return TrainingRecipe(model, _classify, Projected(model.parameters()), DATA)


def prodigy():
    """D-adaptation: the learning rate is an estimate that grows with what was travelled."""

    class Adapted(Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})
            self.d = torch.tensor(1e-2)
            self.inner, self.total = torch.zeros(()), torch.zeros(())
            self.start = [p.detach().clone() for p in self.param_groups[0]["params"]]
            self.sums = [torch.zeros_like(p) for p in self.param_groups[0]["params"]]

        @torch.no_grad()
        def step(self, closure=None):
            for p, p0, s in zip(self.param_groups[0]["params"], self.start, self.sums, strict=True):
                self.inner += self.d * (p.grad * (p0 - p)).sum()
                s.add_(p.grad * self.d)
                p.sub_(self.d * p.grad)
            self.total.copy_(torch.stack([s.abs().sum() for s in self.sums]).sum())
            self.d.copy_(torch.maximum(self.d, self.inner / (self.total + 1e-8)))

    model = _network()
    return TrainingRecipe(model, _classify, Adapted(model.parameters()), DATA)


def warm_up_and_cosine():
    """Descent whose rate warms up and falls as a cosine, by a count of steps in a tensor."""

    class Scheduled(Optimizer):
        def __init__(self, params, lr=0.1, warm=3, total=100):
            super().__init__(params, {"lr": lr, "warm": warm, "total": total})

        @torch.no_grad()
        def step(self, closure=None):
            for group in self.param_groups:
                for p in group["params"]:
                    state = self.state[p]
                    if not state:
                        state["step"] = torch.zeros((), dtype=torch.long)
                    state["step"].add_(1)
                    warm = state["step"] / group["warm"]
                    fall = 0.5 * (1 + torch.cos(math.pi * state["step"] / group["total"]))
                    p.sub_(p.grad * group["lr"] * torch.minimum(warm, fall))

    model = _network()
    return TrainingRecipe(model, _classify, Scheduled(model.parameters()), DATA)


def accumulation_and_clipping():
    """Gradients of three batches are accumulated and clipped by their norm."""
    model = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 4))
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    return TrainingRecipe(model, _classify, optimizer, DATA, clip=ClipNorm(0.5), accumulate=3)


def clipped_values():
    """Gradients are clipped element by element, and RMSprop steps."""
    model = _network()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3, momentum=0.9)
    return TrainingRecipe(model, _classify, optimizer, DATA, clip=ClipValue(0.01))


def checkpointed_blocks():
    """Every block's activations are computed again in the backward pass, dropout and all."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.LayerNorm(6), nn.Linear(6, 24), nn.GELU(), nn.Dropout(0.1), nn.Linear(24, 6)
            )

        def forward(self, x):
            return x + self.net(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = nn.ModuleList(Block() for _ in range(3))
            self.head = nn.Linear(6, 4)

        def forward(self, x):
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.head(x)

    model = Model()
    return TrainingRecipe(model, _classify, AdamW(model.parameters(), lr=1e-3), DATA)


def mixup():
    """Mixup: inputs and targets of two orders of a batch are mixed with a drawn share."""

    def loss(model, x, y):
        share = torch.rand(x.shape[0], 1)
        share = torch.maximum(share, 1 - share)
        order = torch.randperm(x.shape[0])
        target = F.one_hot(y, 4).float()
        mixed = share * x + (1 - share) * x[order]
        return F.cross_entropy(model(mixed), share * target + (1 - share) * target[order])

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), DATA)


def mixup_of_beta():
    """Mixup whose share comes from torch's Beta distribution."""

    def loss(model, x, y):
        share = torch.distributions.Beta(0.4, 0.4).sample()
        logits = model(share * x + (1 - share) * x.flip(0))
        return share * F.cross_entropy(logits, y) + (1 - share) * F.cross_entropy(logits, y.flip(0))

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), DATA)


def several_dropouts():
    """Dropout of elements, of channels, AlphaDropout, and one mask for all steps of time."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.head = nn.Linear(6, 8), nn.Linear(8, 4)
            self.alpha, self.feature = nn.AlphaDropout(0.1), nn.Dropout1d(0.2)

        def forward(self, x):
            x = self.alpha(F.selu(self.enter(x)))
            x = self.feature(x.mT).mT
            mask = torch.empty(x.shape[0], 1, x.shape[2]).bernoulli_(0.8) / 0.8
            return self.head(F.dropout(x * mask, 0.1, self.training).mean(1))

    model = Model()
    return TrainingRecipe(model, _classify, Adam(model.parameters()), labelled((4, 5, 6), 4))


def spectral_norm():
    """A network whose weights have a norm of 1, by power iterations in buffers."""
    spectral = torch.nn.utils.parametrizations.spectral_norm
    model = nn.Sequential(spectral(nn.Linear(6, 12)), nn.ReLU(), spectral(nn.Linear(12, 4)))
    return TrainingRecipe(model, _classify, Adam(model.parameters(), lr=1e-3), DATA)


def weight_norm():
    """A network whose weights are directions and lengths, with gradients in the hooks scaled."""
    normed = torch.nn.utils.parametrizations.weight_norm
    model = nn.Sequential(normed(nn.Linear(6, 12)), nn.ReLU(), normed(nn.Linear(12, 4)))
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient * 0.5)
    return TrainingRecipe(model, _classify, SGD(model.parameters(), lr=0.1), DATA)


def layerwise_rates():
    """Each layer has a rate of its own, frozen layers none, vectors no decay."""
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4))
    model[0].requires_grad_(False)
    groups = [
        {"params": [p], "lr": 1e-2 * 0.75 ** (4 - k), "weight_decay": 0.1 if p.ndim > 1 else 0.0}
        for k, layer in enumerate(model)
        for p in layer.parameters()
        if p.requires_grad
    ]
    return TrainingRecipe(model, _classify, AdamW(groups), DATA)


def mixed_precision():
    """The forward pass runs in bfloat16 under autocast."""

    def loss(model, x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(x)
        return F.cross_entropy(logits.float(), y)

    model = _network()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), DATA)


def uncertainty_weighting():
    """Two tasks, whose losses are weighted by learned uncertainties."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(6, 8), nn.SiLU())
            self.heads = nn.ModuleDict({"a": nn.Linear(8, 4), "b": nn.Linear(8, 1)})
            self.log_vars = nn.Parameter(torch.zeros(2))

    def loss(model, x, y, z):
        h = model.trunk(x)
        losses = torch.stack(
            [F.cross_entropy(model.heads["a"](h), y), F.mse_loss(model.heads["b"](h)[:, 0], z)]
        )
        return (torch.exp(-model.log_vars) * losses + model.log_vars).sum()

    model = Model()
    batch = both(DATA, numbers((8,)))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-2), batch)


def projected_gradients():
    """PCGrad: gradients of two tasks that conflict are projected on each other."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = _network()

    def loss(model, x, y, z):
        weights = list(model.net.parameters())
        logits = model.net(x)
        one, two = F.cross_entropy(logits, y), F.cross_entropy(logits, z)
        a = torch.autograd.grad(one, weights, retain_graph=True)
        b = torch.autograd.grad(two, weights, retain_graph=True)
        dot = sum((g * h).sum() for g, h in zip(a, b, strict=True))
        away = torch.where(dot < 0, dot / sum((h * h).sum() for h in b), 0.0)
        grads = [g - away * h + h for g, h in zip(a, b, strict=True)]
        return sum((w * g.detach()).sum() for w, g in zip(weights, grads, strict=True))

    model = Model()
    batch = both(DATA, lambda step: (DATA(step)[1].flip(0),))
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), batch)


def focal_curriculum():
    """The hardest half of each batch is learned from, by the largest losses."""

    def loss(model, x, y):
        losses = F.cross_entropy(model(x), y, reduction="none")
        hard, _ = losses.topk(x.shape[0] // 2)
        return hard.mean()

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), DATA)


def private_gradients():
    """DP-SGD: gradients of each sample by vmap, clipped one by one, with noise."""

    def loss(model, x, y):
        named = {n: p.detach() for n, p in model.named_parameters()}

        def single(weights, sample, label):
            logits = functional_call(model, weights, (sample[None],))
            return F.cross_entropy(logits, label[None])

        grads = torch.func.vmap(torch.func.grad(single), (None, 0, 0))(named, x, y)
        norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
        scale = (1.0 / (norms + 1e-6)).clamp(max=1.0)
        total = 0.0
        for name, p in model.named_parameters():
            g = torch.einsum("b,b...->...", scale, grads[name])
            g = (g + 0.1 * torch.randn_like(g)) / x.shape[0]
            total = total + (p * g).sum()
        return total

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), DATA)


def adversarial_training():
    """Projected gradient descent finds the worst inputs nearby, and the model learns them."""

    def loss(model, x, y, size=0.1):
        worst = x + size * (2 * torch.rand_like(x) - 1)
        for _ in range(2):
            worst = worst.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(F.cross_entropy(model(worst), y), worst)
            worst = worst + 0.05 * gradient.sign()
            worst = torch.max(torch.min(worst, x + size), x - size)
        return F.cross_entropy(model(worst.detach()), y)

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), DATA)


def staged_losses():
    """A second term that joins the loss after 500 steps, which a count of Python's decides."""

    class Staged:
        def __init__(self, after):
            self.after, self.calls = after, 0

        def __call__(self, model, x, y):
            self.calls += 1
            loss = F.cross_entropy(model(x), y)
            return loss + 0.1 * model[0].weight.abs().mean() if self.calls > self.after else loss

    model = _network()
    return TrainingRecipe(model, Staged(500), SGD(model.parameters(), lr=0.1), DATA)


def counted_stages():
    """The same, with a count in a buffer."""

    class Staged(nn.Module):
        def __init__(self, after):
            super().__init__()
            self.net, self.after = _network(), after
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

        def forward(self, x, y):
            self.calls += 1
            penalty = 0.1 * self.net[0].weight.abs().mean()
            loss = F.cross_entropy(self.net(x), y)
            return loss + torch.where(self.calls > self.after, penalty, 0.0)

    model = Staged(2)
    return TrainingRecipe(model, lambda m, x, y: m(x, y), SGD(model.parameters(), lr=0.1), DATA)


def logged_steps():
    """A history of losses, and a line for every hundredth step."""
    history, count = [], [0]

    def loss(model, x, y):
        count[0] += 1
        result = F.cross_entropy(model(x), y)
        history.append(result.detach())
        if count[0] % 100 == 0:
            print(f"step {count[0]}: {result:.4f}")  # noqa: T201 - as users do
        return result

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), DATA)


def penalty_by_the_rate():
    """A penalty of weights in the loss, in proportion to the rate that a scheduler lowers."""
    model = _network()
    optimizer = SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 30)

    def loss(model, x, y):
        rate = optimizer.param_groups[0]["lr"]
        return F.cross_entropy(model(x), y) + rate * model[0].weight.square().mean()

    return TrainingRecipe(model, loss, optimizer, DATA, scheduler=scheduler)


def centred_in_place():
    """A loss that centres its batch in place, where batches are slices of the data."""
    data, labels = torch.randn(32, 6), torch.randint(4, (32,))

    def batch(step):
        begin = 8 * (step % 4)
        return data[begin : begin + 8], labels[begin : begin + 8]

    def loss(model, x, y):
        return F.cross_entropy(model(x.sub_(x.mean(0)).div_(x.std(0))), y)

    model = _network()
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.1), batch)


def freezing_hook():
    """Gradients of the first layer that a hook stops after a number of steps."""
    model, count = _network(), [0]

    def hook(gradient):
        count[0] += 1
        return gradient if count[0] < 200 else torch.zeros_like(gradient)

    model[0].weight.register_hook(hook)
    return TrainingRecipe(model, _classify, SGD(model.parameters(), lr=0.1), DATA)
