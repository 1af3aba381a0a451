"""Programs of practice: adapters, quantization, sparsity and distillation."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao import quantization
from torch.nn.utils import parametrize, prune
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import labelled, numbers

DATA = labelled((6, 8), 4)


def _classify(model, loss=None, batch=DATA):
    trained = [p for p in model.parameters() if p.requires_grad]
    loss = loss or (lambda m, x, y: F.cross_entropy(m(x), y))
    return TrainingRecipe(model, loss, AdamW(trained, lr=1e-2), batch)


def _adapted(layer):
    """A frozen network, two of whose layers are replaced."""
    model = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4)).requires_grad_(False)
    model[0], model[2] = layer(model[0]), layer(model[2])
    return model


class _Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, low, high):
        ctx.save_for_backward((x >= low) & (x <= high))
        return x.round().clamp(low, high)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.saved_tensors[0], None, None


def lora():
    """LoRA with dropout: a product of low rank beside each frozen weight."""

    class LoRA(nn.Module):
        def __init__(self, base, rank=2, alpha=4):
            super().__init__()
            self.base, self.scale, self.drop = base, alpha / rank, nn.Dropout(0.05)
            self.a = nn.Parameter(torch.empty(rank, base.in_features))
            self.b = nn.Parameter(torch.zeros(base.out_features, rank))
            nn.init.kaiming_uniform_(self.a, a=math.sqrt(5))

        def forward(self, x):
            return self.base(x) + self.drop(x) @ self.a.T @ self.b.T * self.scale

    return _classify(_adapted(LoRA))


def dora():
    """DoRA: directions of low rank, and lengths of their own, whose gradient is detached."""

    class DoRA(nn.Module):
        def __init__(self, base, rank=2):
            super().__init__()
            self.base = base
            self.a = nn.Parameter(torch.randn(rank, base.in_features) * 0.1)
            self.b = nn.Parameter(torch.randn(base.out_features, rank) * 0.1)
            self.size = nn.Parameter(base.weight.norm(p=2, dim=1, keepdim=True))

        def forward(self, x):
            weight = self.base.weight + self.b @ self.a
            norm = weight.norm(p=2, dim=1, keepdim=True).detach()
            return F.linear(x, self.size * weight / norm, self.base.bias)

    return _classify(_adapted(DoRA))


def vera():
    """VeRA: drawn matrices that all layers share as buffers, scaled by learned vectors."""
    a, b = torch.randn(3, 12), torch.randn(12, 3)

    class VeRA(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.register_buffer("a", a, persistent=False)
            self.register_buffer("b", b, persistent=False)
            self.d = nn.Parameter(torch.full((3,), 0.1))
            self.scale = nn.Parameter(torch.full((base.out_features,), 0.1))

        def forward(self, x):
            out, enter = self.base.weight.shape
            low = (x @ self.a[:, :enter].T) * self.d
            return self.base(x) + low @ self.b[:out].T * self.scale

    return _classify(_adapted(VeRA))


def scaled_activations():
    """IA3, as hooks that scale what the frozen layers give."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = _adapted(lambda layer: layer)
            self.scales = nn.ParameterList([nn.Parameter(torch.ones(n)) for n in (12, 4)])
            for layer, scale in zip((self.base[0], self.base[2]), self.scales, strict=True):
                layer.register_forward_hook(lambda _module, _inputs, y, s=scale: y * s)

        def forward(self, x):
            return self.base(x)

    return _classify(Model())


def prefixes():
    """Prefix tuning: learned keys and values before those of a frozen attention."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24).requires_grad_(False)
            self.prefix = nn.Parameter(torch.randn(2, 1, 2, 3, 4) * 0.1)
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            b, t, _ = x.shape
            q, k, v = self.qkv(x).reshape(b, t, 3, 2, 4).permute(2, 0, 3, 1, 4)
            k = torch.cat([self.prefix[0].expand(b, -1, -1, -1), k], 2)
            v = torch.cat([self.prefix[1].expand(b, -1, -1, -1), v], 2)
            y = F.scaled_dot_product_attention(q, k, v)
            return self.head(y.transpose(1, 2).flatten(2).mean(1))

    return _classify(Model(), batch=labelled((3, 5, 8), 4))


def orthogonal_adapters():
    """OFT: weights are turned by Cayley's transform of a skew matrix."""

    class OFT(nn.Module):
        def __init__(self, base):
            super().__init__()
            self.base = base
            self.skew = nn.Parameter(torch.randn(base.out_features, base.out_features) * 0.05)

        def forward(self, x):
            skew, eye = self.skew - self.skew.T, torch.eye(len(self.skew))
            turn = torch.linalg.solve(eye + skew, eye - skew)
            return F.linear(x, turn @ self.base.weight, self.base.bias)

    return _classify(_adapted(OFT))


def aware_of_quantization():
    """Quantization-aware training: weights by channel, activations with a running range."""

    class Fake(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)
            self.register_buffer("low", torch.zeros(()))
            self.register_buffer("high", torch.ones(()))

        def forward(self, x):
            with torch.no_grad():
                self.low.lerp_(x.min(), 0.1)
                self.high.lerp_(x.max(), 0.1)
            scale = (self.high - self.low) / 255
            zero = (-self.low / scale).round()
            x = (_Round.apply(x / scale + zero, 0, 255) - zero) * scale
            size = self.layer.weight.detach().abs().amax(1, keepdim=True) / 127
            return F.linear(x, _Round.apply(self.layer.weight / size, -128, 127) * size)

    return _classify(Fake())


def fake_quantization():
    """The same by torch's own operators of fake quantization, by tensor and by channel."""

    class Fake(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)
            self.register_buffer("scale", torch.tensor(0.05))
            self.register_buffer("zero", torch.zeros((), dtype=torch.int32))

        def forward(self, x):
            x = torch.fake_quantize_per_tensor_affine(x, self.scale, self.zero, -128, 127)
            scales = self.layer.weight.detach().abs().amax(1) / 7
            zeros = torch.zeros(4, dtype=torch.int32)
            weight = torch.fake_quantize_per_channel_affine(
                self.layer.weight, scales, zeros, 0, -8, 7
            )
            return F.linear(x, weight, self.layer.bias)

    return _classify(Fake())


def prepared_for_quantization():
    """torch's own training aware of quantization: averages of ranges, and ranges by channel."""
    model = nn.Sequential(quantization.QuantStub(), nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))
    model.qconfig = quantization.QConfig(
        quantization.default_fake_quant, quantization.default_per_channel_weight_fake_quant
    )
    model = quantization.prepare_qat(model.train())
    model(torch.zeros(1, 8))
    return _classify(model)


def learned_quantizers():
    """LSQ+ by torch's operators: scales and zero points of weights and activations are learned."""

    class LSQ(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)
            self.scale, self.zero = nn.Parameter(torch.ones(1) / 4), nn.Parameter(torch.ones(1))
            self.scales = nn.Parameter(torch.full((4,), 0.1))
            self.zeros = nn.Parameter(torch.zeros(4))

        def forward(self, x):
            x = torch._fake_quantize_learnable_per_tensor_affine(
                x, self.scale, self.zero, -8, 7, 0.1
            )
            weight = torch._fake_quantize_learnable_per_channel_affine(
                self.layer.weight, self.scales, self.zeros, 0, -4, 3, 0.2
            )
            return F.linear(x, weight, self.layer.bias)

    return _classify(LSQ())


def learned_steps():
    """LSQ: the steps of the quantization are learned, with scaled gradients."""

    class LSQ(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 4)
            self.step = nn.Parameter(2 * self.layer.weight.detach().abs().mean() / 7**0.5)

        def forward(self, x):
            gain = 1 / math.sqrt(self.layer.weight.numel() * 7)
            step = (self.step - self.step * gain).detach() + self.step * gain
            w = (self.layer.weight / step).clamp(-8, 7)
            w = w + (w.round() - w).detach()
            return F.linear(x, w * step, self.layer.bias)

    return _classify(LSQ())


def frozen_integers():
    """A frozen layer of int8 weights in a buffer, with LoRA beside it."""

    class Int8(nn.Module):
        def __init__(self, base):
            super().__init__()
            size = base.weight.abs().amax(1, keepdim=True) / 127
            self.register_buffer("weight", (base.weight / size).round().to(torch.int8))
            self.register_buffer("size", size)
            self.a = nn.Parameter(torch.randn(base.in_features, 2) * 0.1)
            self.b = nn.Parameter(torch.zeros(2, base.out_features))

        def forward(self, x):
            return F.linear(x, self.weight.float() * self.size) + x @ self.a @ self.b

    return _classify(_adapted(Int8))


def normal_floats():
    """QLoRA: NF4 codes, two in a byte, with a scale for each block, are looked up."""
    low = [-1.0, -0.6962, -0.5251, -0.3949, -0.2844, -0.1848, -0.0911, 0.0]
    high = [0.0796, 0.1609, 0.2461, 0.3379, 0.4407, 0.5626, 0.7230, 1.0]
    table = torch.tensor([*low, *high])

    class NF4(nn.Module):
        def __init__(self, base, block=4):
            super().__init__()
            blocks = base.weight.detach().reshape(-1, block)
            self.shape, self.block = base.weight.shape, block
            self.register_buffer("table", table)
            self.register_buffer("scales", blocks.abs().amax(1))
            codes = (blocks / self.scales[:, None])[..., None].sub(table).abs().argmin(-1)
            codes = codes.flatten().to(torch.uint8)
            self.register_buffer("codes", codes[::2] * 16 + codes[1::2])
            self.a = nn.Parameter(torch.randn(base.in_features, 2) * 0.1)
            self.b = nn.Parameter(torch.zeros(2, base.out_features))

        def forward(self, x):
            codes = torch.stack([self.codes >> 4, self.codes & 15], 1).flatten().long()
            weight = self.table[codes].view(-1, self.block) * self.scales[:, None]
            return x @ weight.view(self.shape).T + x @ self.a @ self.b

    return _classify(_adapted(NF4))


def three_values():
    """BitNet b1.58: weights of -1, 0 and 1, activations of 8 bits, both straight-through."""

    class BitLinear(nn.Linear):
        def forward(self, x):
            x = F.rms_norm(x, (x.shape[-1],))
            scale = 127 / x.abs().amax(-1, keepdim=True).clamp(min=1e-5)
            x = x + ((x * scale).round().clamp(-128, 127) / scale - x).detach()
            size = self.weight.abs().mean().clamp(min=1e-5)
            w = (
                self.weight
                + ((self.weight / size).round().clamp(-1, 1) * size - self.weight).detach()
            )
            return F.linear(x, w)

    return _classify(nn.Sequential(BitLinear(8, 16), nn.SiLU(), BitLinear(16, 4)))


def two_of_four():
    """Of each four weights the two largest are kept, by a parametrization, with SR-STE's decay."""

    class Sparse(nn.Module):
        def forward(self, weight):
            groups = weight.reshape(-1, 4)
            keep = torch.zeros_like(groups).scatter(1, groups.abs().topk(2, dim=1).indices, 1.0)
            keep = keep.reshape(weight.shape)
            return weight * keep + 2e-4 * (weight - weight.detach()) * (1 - keep)

    model = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))
    for layer in (model[0], model[2]):
        parametrize.register_parametrization(layer, "weight", Sparse())
    return _classify(model)


def pruned():
    """Weights pruned by torch's own tools, whose masks are buffers."""
    model = nn.Sequential(nn.Linear(8, 12), nn.ReLU(), nn.Linear(12, 4))
    prune.l1_unstructured(model[0], name="weight", amount=0.5)
    prune.ln_structured(model[2], name="weight", amount=0.25, n=2, dim=1)
    return _classify(model)


def pruned_by_quantile():
    """Weights below a quantile of their sizes are masked in each step, straight-through."""

    class Masked(nn.Linear):
        def forward(self, x):
            border = torch.quantile(self.weight.detach().abs(), 0.3)
            mask = (self.weight.abs() >= border).float()
            return F.linear(x, self.weight + (self.weight * mask - self.weight).detach(), self.bias)

    return _classify(nn.Sequential(Masked(8, 12), nn.ReLU(), Masked(12, 4)))


def hard_concrete():
    """L0 regularization: gates are drawn from a stretched concrete distribution."""

    class Gated(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.log_alpha = nn.Linear(8, 4), nn.Parameter(torch.zeros(8))

        def forward(self, x):
            u = torch.empty_like(self.log_alpha).uniform_(1e-6, 1 - 1e-6)
            s = torch.sigmoid((u.log() - (1 - u).log() + self.log_alpha) / 0.66)
            return self.layer(x * (s * 1.2 - 0.1).clamp(0, 1))

    def loss(model, x, y):
        cost = torch.sigmoid(model.log_alpha - 0.66 * math.log(0.1 / 1.1)).sum()
        return F.cross_entropy(model(x), y) + 1e-2 * cost

    return _classify(Gated(), loss)


def distillation():
    """A student learns a teacher's softened answers, and its features by a projection."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.teacher = nn.ModuleList([nn.Linear(8, 16), nn.Linear(16, 4)]).requires_grad_(False)
            self.student = nn.ModuleList([nn.Linear(8, 6), nn.Linear(6, 4)])
            self.project = nn.Linear(6, 16)

    def loss(model, x, y, temperature=3.0):
        with torch.no_grad():
            wide = model.teacher[0](x).relu()
            target = model.teacher[1](wide)
        h = model.student[0](x).relu()
        logits = model.student[1](h)
        soft = F.kl_div(
            F.log_softmax(logits / temperature, 1),
            F.softmax(target / temperature, 1),
            reduction="batchmean",
        )
        return (
            F.cross_entropy(logits, y) + temperature**2 * soft + F.mse_loss(model.project(h), wide)
        )

    return _classify(Model(), loss)


def decoupled_distillation():
    """DKD: what a teacher says of the target, and of the others among themselves."""

    def loss(model, x, y):
        with torch.no_grad():
            teacher = model[1](x)
        student, own = model[0](x), F.one_hot(y, 4).bool()
        total = F.cross_entropy(student, y)
        p, q = (torch.where(own, z.softmax(1), 0.0).sum(1) for z in (student, teacher))
        total = total + F.binary_cross_entropy(p, q)
        a, b = (z.masked_fill(own, -1000.0) for z in (student, teacher))
        return total + 8 * F.kl_div(a.log_softmax(1), b.log_softmax(1), log_target=True) * 4

    model = nn.ModuleList([nn.Linear(8, 4), nn.Linear(8, 4).requires_grad_(False)])
    return _classify(model, loss)


def binary_gates():
    """Binary weights in the manner of XNOR, with a gradient that is cut off at 1."""

    class Sign(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.where(x >= 0, 1.0, -1.0)

        @staticmethod
        def backward(ctx, gradient):
            (x,) = ctx.saved_tensors
            return gradient * (x.abs() <= 1).float()

    class Binary(nn.Conv1d):
        def forward(self, x):
            size = self.weight.abs().mean((1, 2), keepdim=True).detach()
            return F.conv1d(x, Sign.apply(self.weight) * size, self.bias, padding=1)

    model = nn.Sequential(
        Binary(2, 4, 3), nn.BatchNorm1d(4), nn.Hardtanh(), nn.Flatten(), nn.Linear(16, 4)
    )
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x.unflatten(1, (2, 4))), y),
        SGD(model.parameters(), lr=0.1),
        DATA,
    )


def early_exits():
    """A network with an exit after each layer, and a drawn number of layers that are used."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
            self.exits = nn.ModuleList(nn.Linear(8, 4) for _ in range(3))

        def forward(self, x):
            for layer, leave in zip(self.layers, self.exits, strict=True):
                x = x + F.silu(layer(x))
                yield leave(x)

    def loss(model, x, y):
        losses = torch.stack([F.cross_entropy(logits, y) for logits in model(x)])
        weights = F.one_hot(torch.randint(3, ()), 3) + 0.1
        return (losses * weights).sum()

    model = Model()
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), DATA)


def truncated_weights():
    """Weights are replaced by their best matrices of rank two, by singular values."""

    class LowRank(nn.Module):
        def forward(self, weight):
            u, s, v = torch.linalg.svd(weight, full_matrices=False)
            return u[:, :2] * s[:2] @ v[:2]

    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4))
    parametrize.register_parametrization(model[0], "weight", LowRank())
    return TrainingRecipe(
        model,
        lambda m, x, y: F.mse_loss(m(x), y),
        SGD(model.parameters(), lr=0.1),
        numbers((6, 8), (6, 4)),
    )
