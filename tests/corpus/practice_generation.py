"""Programs of practice: diffusion, flows, autoencoders and adversaries."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, jvp
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import WORDS, labelled, numbers, texts


class _Denoiser(nn.Module):
    """A network of a noisy point and a time."""

    def __init__(self, width=4):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width + 2, 16), nn.SiLU(), nn.Linear(16, width))

    def forward(self, x, t):
        return self.net(torch.cat([x, torch.sin(t)[:, None], torch.cos(t)[:, None]], -1))


POINTS = numbers((8, 4))


def _denoise(loss, model=None, batch=POINTS, **options):
    model = model or _Denoiser()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), batch, **options)


def ddpm():
    """DDPM: noise is predicted at drawn times of a cosine schedule, weighted by min-SNR."""
    steps = torch.arange(101) / 100
    levels = torch.cos((steps + 0.008) / 1.008 * math.pi / 2) ** 2
    levels = (levels / levels[0]).clamp(min=1e-4)[1:]

    class Model(_Denoiser):
        def __init__(self):
            super().__init__()
            self.register_buffer("levels", levels)

    def loss(model, x):
        t = torch.randint(0, 100, (len(x),))
        level, noise = model.levels[t][:, None], torch.randn_like(x)
        found = model(level.sqrt() * x + (1 - level).sqrt() * noise, t / 100)
        snr = level[:, 0] / (1 - level[:, 0])
        weight = snr.clamp(max=5) / snr
        return (weight * F.mse_loss(found, noise, reduction="none").mean(1)).mean()

    return _denoise(loss, Model())


def v_prediction_with_guidance():
    """Velocities are predicted, and a class, which is dropped at random for guidance."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(6, 8)
            self.net = nn.Sequential(nn.Linear(13, 16), nn.GELU(), nn.Linear(16, 4))

        def forward(self, x, t, y):
            return self.net(torch.cat([x, t[:, None], self.embed(y)], 1))

    def loss(model, x, y):
        t = torch.rand(x.shape[0])
        y = torch.where(torch.rand(x.shape[0]) < 0.1, 5, y)
        a, s = torch.cos(t * math.pi / 2)[:, None], torch.sin(t * math.pi / 2)[:, None]
        noise = torch.randn_like(x)
        return F.mse_loss(model(a * x + s * noise, t, y), a * noise - s * x)

    return _denoise(loss, Model(), labelled((8, 4), 5))


def edm():
    """EDM of Karras and others: log-normal noise, and a preconditioned network."""

    def loss(model, x, spread=0.5):
        sigma = (torch.randn(x.shape[0], 1) * 1.2 - 1.2).exp()
        noisy = x + torch.randn_like(x) * sigma
        total = sigma**2 + spread**2
        found = model(noisy / total.sqrt(), sigma.log()[:, 0] / 4)
        denoised = spread**2 / total * noisy + sigma * spread / total.sqrt() * found
        weight = total / (sigma * spread) ** 2
        return (weight * (denoised - x) ** 2).mean()

    return _denoise(loss)


def flow_matching():
    """Conditional flow matching at times of a logit-normal distribution."""

    def loss(model, x):
        t = torch.sigmoid(torch.randn(x.size(0)))
        noise = torch.randn(x.shape)
        path = torch.lerp(noise, x, t[:, None])
        return (model(path, t) - (x - noise)).square().mean()

    return _denoise(loss)


def matched_by_transport():
    """Flow matching whose noise is matched to the data by Sinkhorn's plan."""

    def loss(model, x):
        t, noise = torch.rand(len(x)), torch.randn_like(x)
        with torch.no_grad():
            log_k = -(torch.cdist(noise, x) ** 2)
            f = g = torch.zeros(len(x))
            for _ in range(5):
                f = -torch.logsumexp(log_k + g, 1)
                g = -torch.logsumexp(log_k + f[:, None], 0)
            plan = (log_k + f[:, None] + g).exp()
            x = x[torch.multinomial(plan, 1)[:, 0]]
        path = (1 - t[:, None]) * noise + t[:, None] * x
        return F.mse_loss(model(path, t), x - noise)

    return _denoise(loss)


def reflow():
    """A rectified flow that learns straight paths from those that Euler's steps end in."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.student, self.teacher = _Denoiser(), _Denoiser().requires_grad_(False)

    def loss(model, noise):
        with torch.no_grad():
            x = noise
            for k in range(4):
                x = x + model.teacher(x, torch.full((len(x),), k / 4)) / 4
        t = torch.rand(len(x))[:, None]
        return F.mse_loss(model.student((1 - t) * noise + t * x, t[:, 0]), x - noise)

    return _denoise(loss, Model())


def consistency():
    """Consistency training: neighbours in time agree, with a pseudo-Huber distance."""
    grid = torch.linspace(0.002 ** (1 / 7), 80.0 ** (1 / 7), 18) ** 7

    def clean(model, x, sigma):
        skip = 0.25 / ((sigma - 0.002) ** 2 + 0.25)
        out = 0.5 * (sigma - 0.002) / (sigma**2 + 0.25).sqrt()
        return skip * x + out * model(x / (sigma**2 + 0.25).sqrt(), 0.25 * sigma.log()[:, 0])

    def loss(model, x):
        index = torch.multinomial(torch.linspace(2, 1, 17), len(x), replacement=True)
        low, high = grid[index][:, None], grid[index + 1][:, None]
        noise = torch.randn_like(x)
        with torch.no_grad():
            target = clean(model, x + low * noise, low)
        apart = clean(model, x + high * noise, high) - target
        return (((apart**2).sum(1) + 1e-4).sqrt() / (high - low)[:, 0]).mean()

    return _denoise(loss)


def mean_flow():
    """MeanFlow: average velocities, whose derivative along the path is a product by jvp."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(6, 16), nn.SiLU(), nn.Linear(16, 4))

        def forward(self, z, r, t):
            return self.net(torch.cat([z, r, t], 1))

    def loss(model, x):
        t, r = torch.rand(2, len(x), 1).sort(0, descending=True).values
        noise = torch.randn_like(x)
        z, v = (1 - t) * x + t * noise, noise - x
        u, change = jvp(model, (z, r, t), (v, torch.zeros_like(r), torch.ones_like(t)))
        target = (v - (t - r) * change).detach()
        error = (u - target).square().sum(1)
        return (error / (error.detach() + 1e-3)).mean()

    return _denoise(loss, Model())


def diffusion_transformer():
    """DiT: patches, adaptive norms that begin as nothing, sine embeddings of drawn times."""

    class Model(nn.Module):
        def __init__(self, width=8):
            super().__init__()
            self.enter, self.leave = nn.Conv2d(1, width, 2, 2), nn.Linear(width, 4)
            self.time, self.label = nn.Linear(8, width), nn.Embedding(3, width)
            self.ada = nn.Sequential(nn.SiLU(), nn.Linear(width, 6 * width))
            self.norm = nn.LayerNorm(width, elementwise_affine=False)
            self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
            self.mlp = nn.Sequential(nn.Linear(width, 16), nn.GELU("tanh"), nn.Linear(16, width))
            nn.init.normal_(self.ada[1].weight, std=0.02)

        def forward(self, x, t, y):
            x = self.enter(x).flatten(2).transpose(1, 2)
            rates = torch.exp(-math.log(10000) * torch.arange(4) / 4)
            angles = 1000 * t[:, None] * rates
            c = self.time(torch.cat([angles.cos(), angles.sin()], -1)) + self.label(y)
            s1, b1, g1, s2, b2, g2 = self.ada(c)[:, None].chunk(6, -1)
            h = self.norm(x) * (1 + s1) + b1
            x = x + g1 * self.attend(h, h, h, need_weights=False)[0]
            x = x + g2 * self.mlp(self.norm(x) * (1 + s2) + b2)
            return F.pixel_shuffle(self.leave(self.norm(x)).mT.unflatten(2, (2, 2)), 2)

    def loss(model, x, y):
        t, noise = torch.rand(len(x)), torch.randn_like(x)
        s = t[:, None, None, None]
        return F.mse_loss(model((1 - s) * x + s * noise, t, y), noise - x)

    return _denoise(loss, Model(), labelled((4, 1, 4, 4), 3))


def masked_diffusion():
    """A masked diffusion language model: tokens are hidden at a drawn rate."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(WORDS + 1, 8)
            self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
            self.head = nn.Linear(8, WORDS)

        def forward(self, tokens):
            return self.head(self.block(self.embed(tokens)))

    def loss(model, tokens):
        t = torch.rand(len(tokens), 1) * 0.9 + 0.1
        hidden = torch.rand(tokens.shape) < t
        logits = model(tokens.masked_fill(hidden, WORDS))
        losses = F.cross_entropy(logits.mT, tokens, reduction="none")
        return (losses * hidden / t).sum() / tokens.numel()

    return _denoise(loss, Model(), texts((4, 8)))


def score_matching():
    """Sliced score matching of an energy, with a second derivative."""

    class Energy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(4, 16), nn.Softplus(), nn.Linear(16, 1))

        def score(self, x):
            (gradient,) = torch.autograd.grad(-self.net(x).sum(), x, create_graph=True)
            return gradient

    def loss(model, x):
        x = x.clone().requires_grad_(True)
        v = torch.randn_like(x)
        score = model.score(x)
        (along,) = torch.autograd.grad((score * v).sum(), x, create_graph=True)
        return ((along * v).sum(1) + 0.5 * (score * v).sum(1) ** 2).mean()

    return _denoise(loss, Energy())


def contrastive_divergence():
    """An energy whose negatives are found by Langevin's steps from noise."""

    def loss(model, x):
        fake = torch.rand_like(x) * 2 - 1
        for _ in range(4):
            fake.requires_grad_(True)
            (gradient,) = torch.autograd.grad(model(fake).sum(), fake)
            fake = (fake - 0.1 * gradient + 0.01 * torch.randn_like(fake)).detach()
        real, false = model(x), model(fake)
        return real.mean() - false.mean() + 0.1 * (real**2 + false**2).mean()

    return _denoise(loss, nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1)))


def variational_autoencoder():
    """A convolutional VAE with binary cross-entropy, and an analytic divergence."""

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode = nn.Sequential(
                nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 6)
            )
            self.decode = nn.Sequential(
                nn.Linear(3, 64),
                nn.ReLU(),
                nn.Unflatten(1, (4, 4, 4)),
                nn.ConvTranspose2d(4, 1, 4, 2, 1),
            )

        def forward(self, x):
            mu, log_var = self.encode(x).chunk(2, dim=1)
            z = mu + torch.exp(0.5 * log_var) * torch.randn_like(mu)
            return self.decode(z), mu, log_var

    def loss(model, x):
        x = x.sigmoid()
        logits, mu, log_var = model(x)
        rebuilt = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return (rebuilt - 0.5 * torch.sum(1 + log_var - mu.pow(2) - log_var.exp())) / len(x)

    return _denoise(loss, VAE(), numbers((4, 1, 8, 8)))


def distributions_vae():
    """A VAE by torch.distributions, with free bits and an importance-weighted bound."""
    from torch.distributions import Normal, kl_divergence  # noqa: PLC0415 - where it is used

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 4), nn.Linear(2, 4)

    def loss(model, x):
        mean, raw = model.encode(x).chunk(2, -1)
        q, p = Normal(mean, F.softplus(raw) + 1e-4), Normal(torch.zeros(2), torch.ones(2))
        z = q.rsample((3,))
        weight = Normal(model.decode(z), 0.5).log_prob(x).sum(-1)
        weight = weight + (p.log_prob(z) - q.log_prob(z)).sum(-1)
        bound = torch.logsumexp(weight, 0) - math.log(3)
        return -bound.mean() + 0.1 * kl_divergence(q, p).clamp(min=0.1).mean()

    return _denoise(loss, VAE())


def vector_quantization():
    """VQ-VAE: nearest codes, straight-through, and codes that follow by running means."""

    class Quantizer(nn.Module):
        def __init__(self, codes=8, width=4):
            super().__init__()
            self.encode, self.decode = nn.Linear(4, width), nn.Linear(width, 4)
            self.register_buffer("codes", torch.randn(codes, width))
            self.register_buffer("counts", torch.ones(codes))
            self.register_buffer("sums", self.codes.clone())

        def forward(self, x):
            z = self.encode(x)
            index = torch.cdist(z, self.codes).argmin(-1)
            chosen = F.one_hot(index, len(self.codes)).type(z.dtype)
            quantized = self.codes[index]
            with torch.no_grad():
                self.counts.mul_(0.9).add_(chosen.sum(0), alpha=0.1)
                self.sums.mul_(0.9).add_(chosen.T @ z, alpha=0.1)
                self.codes.copy_(self.sums / (self.counts[:, None] + 1e-5))
            commit = F.mse_loss(z, quantized.detach())
            return self.decode(z + (quantized - z).detach()), commit

    def loss(model, x):
        rebuilt, commit = model(x)
        return F.mse_loss(rebuilt, x) + 0.25 * commit

    return _denoise(loss, Quantizer())


def learned_codebook():
    """VQ-VAE with a codebook that learns by gradients, in two residual stages."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 4), nn.Linear(4, 4)
            self.books = nn.ModuleList(nn.Embedding(8, 4) for _ in range(2))

        def forward(self, x):
            z = self.encode(x)
            rest, total, extra = z, torch.zeros_like(z), 0.0
            for book in self.books:
                apart = (rest**2).sum(1, keepdim=True) - 2 * rest @ book.weight.T
                code = book((apart + (book.weight**2).sum(1)).argmin(1))
                extra = extra + (code - rest.detach()).pow(2).mean()
                extra = extra + 0.25 * (rest - code.detach()).pow(2).mean()
                total, rest = total + code, rest - code.detach()
            return self.decode(z + (total - z).detach()), extra

    def loss(model, x):
        rebuilt, extra = model(x)
        return F.mse_loss(rebuilt, x) + extra

    return _denoise(loss, Model())


def finite_scalars():
    """FSQ: each number is bounded and rounded to a few levels, straight-through."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 3), nn.Linear(3, 4)
            self.register_buffer("levels", torch.tensor([8, 5, 5]))

        def forward(self, x):
            half = (self.levels - 1) * (1 + 1e-3) / 2
            offset = torch.where(self.levels % 2 == 0, 0.5, 0.0)
            shift = (offset / half).atanh()
            z = (self.encode(x) + shift).tanh() * half - offset
            z = z + (z.round() - z).detach()
            return self.decode(z / (self.levels // 2))

    return _denoise(lambda m, x: F.mse_loss(m(x), x), Model())


def lookup_free_codes():
    """LFQ: signs are the codes, and an entropy keeps all of them in use."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 4), nn.Linear(4, 4)

    def loss(model, x):
        z = model.encode(x)
        code = torch.where(z > 0, 1.0, -1.0)
        p = torch.sigmoid(4 * z)
        own = -(p * torch.log(p + 1e-8) + (1 - p) * torch.log(1 - p + 1e-8)).mean()
        mean = p.mean(0)
        all_ = -(mean * mean.log() + (1 - mean) * (1 - mean).log()).mean()
        return F.mse_loss(model.decode(z + (code - z).detach()), x) + 0.1 * (own - all_)

    return _denoise(loss, Model())


def adversaries():
    """A GAN with two optimizers and hinge losses, whose generator's critic is held fixed."""

    class GAN(nn.Module):
        def __init__(self):
            super().__init__()
            self.generate = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
            self.judge = nn.Sequential(nn.Linear(4, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))

    def loss(model, real):
        fake = model.generate(torch.randn(len(real), 3))
        judge = F.relu(1 - model.judge(real)).mean() + F.relu(1 + model.judge(fake.detach())).mean()
        held = {name: p.detach() for name, p in model.judge.named_parameters()}
        return judge - functional_call(model.judge, held, (fake,)).mean()

    model = GAN()
    optimizers = [
        Adam(model.judge.parameters(), lr=4e-4, betas=(0.0, 0.9)),
        Adam(model.generate.parameters(), lr=1e-4, betas=(0.0, 0.9)),
    ]
    return TrainingRecipe(model, loss, optimizers, POINTS)


def gradient_penalty():
    """A Wasserstein critic with a penalty of its gradient between real and false points."""

    class GAN(nn.Module):
        def __init__(self):
            super().__init__()
            self.generate = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
            self.critic = nn.Sequential(nn.Linear(4, 16), nn.SiLU(), nn.Linear(16, 1))

    def loss(model, real, noise, share):
        fake = model.generate(noise)
        mix = (share.sigmoid() * real + (1 - share.sigmoid()) * fake.detach()).requires_grad_()
        (gradient,) = torch.autograd.grad(model.critic(mix).sum(), mix, create_graph=True)
        penalty = ((gradient.norm(2, dim=1) - 1) ** 2).mean()
        critic = model.critic(fake.detach()).mean() - model.critic(real).mean() + 10 * penalty
        model.critic.requires_grad_(False)
        generator = -model.critic(fake).mean()
        model.critic.requires_grad_(True)
        return critic + generator

    model = GAN()
    optimizers = [Adam(part.parameters(), lr=1e-3) for part in (model.critic, model.generate)]
    return TrainingRecipe(model, loss, optimizers, numbers((8, 4), (8, 3), (8, 1)))


def relativistic_adversaries():
    """R3GAN: a relativistic loss with both penalties of the gradient at data and at fakes."""

    class GAN(nn.Module):
        def __init__(self):
            super().__init__()
            self.generate = nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 4))
            self.judge = nn.Sequential(nn.Linear(4, 8), nn.SiLU(), nn.Linear(8, 1))

    def penalty(judge, x):
        x = x.detach().requires_grad_(True)
        return torch.autograd.grad(judge(x).sum(), x, create_graph=True)[0].square().sum(1).mean()

    def loss(model, real, noise):
        fake = model.generate(noise)
        judge = F.softplus(-(model.judge(real) - model.judge(fake.detach()))).mean()
        judge = judge + 0.5 * (penalty(model.judge, real) + penalty(model.judge, fake))
        held = {k: v.detach() for k, v in model.judge.named_parameters()}
        gap = functional_call(model.judge, held, fake) - functional_call(model.judge, held, real)
        return judge + F.softplus(-gap).mean()

    model = GAN()
    optimizers = [Adam(part.parameters(), lr=1e-3) for part in (model.judge, model.generate)]
    return TrainingRecipe(model, loss, optimizers, numbers((8, 4), (8, 3)))


def coupling_flow():
    """RealNVP: affine couplings with masks, and the exact likelihood."""

    class Coupling(nn.Module):
        def __init__(self, flip):
            super().__init__()
            self.net = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 4))
            self.flip = flip

        def forward(self, x):
            a, b = x.flip(-1).chunk(2, -1) if self.flip else x.chunk(2, -1)
            scale, shift = self.net(a).chunk(2, -1)
            scale = scale.tanh()
            return torch.cat([a, b * scale.exp() + shift], -1), scale.sum(-1)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Coupling(k % 2 == 1) for k in range(3))
            self.prior = torch.distributions.MultivariateNormal(torch.zeros(4), torch.eye(4))

        def forward(self, x):
            total = 0.0
            for layer in self.layers:
                x, log_det = layer(x)
                total = total + log_det
            return self.prior.log_prob(x) + total

    return _denoise(lambda m, x: -m(x).mean(), Flow())


def glow():
    """Glow: learned norms, invertible 1x1 convolutions with slogdet, and couplings."""

    class Step(nn.Module):
        def __init__(self, channels=4):
            super().__init__()
            self.log_scale = nn.Parameter(torch.zeros(1, channels, 1, 1))
            self.shift = nn.Parameter(torch.zeros(1, channels, 1, 1))
            self.mix = nn.Parameter(torch.eye(channels) + 0.1 * torch.randn(channels, channels))
            self.net = nn.Conv2d(channels // 2, channels, 3, padding=1)

        def forward(self, x):
            size = x.shape[2] * x.shape[3]
            x = x * self.log_scale.exp() + self.shift
            x = F.conv2d(x, self.mix[:, :, None, None])
            log_det = size * (self.log_scale.sum() + torch.slogdet(self.mix)[1])
            a, b = x.chunk(2, 1)
            scale, shift = self.net(a).chunk(2, 1)
            scale = torch.sigmoid(scale + 2)
            return torch.cat([a, (b + shift) * scale], 1), log_det + scale.log().flatten(1).sum(1)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            self.steps = nn.ModuleList(Step() for _ in range(2))

        def forward(self, x):
            x, total = F.pixel_unshuffle(x, 2), 0.0
            for step in self.steps:
                x, log_det = step(x)
                total = total + log_det
            return total - 0.5 * (x**2 + math.log(2 * math.pi)).flatten(1).sum(1)

    return _denoise(lambda m, x: -m(x).mean(), Flow(), numbers((4, 1, 4, 4)))


def spline_flow():
    """A neural spline: bins of a monotone rational quadratic, found by searchsorted."""

    class Spline(nn.Module):
        def __init__(self, bins=4):
            super().__init__()
            self.widths, self.heights = (nn.Parameter(torch.randn(4, bins) * 0.3) for _ in "ab")
            self.slopes = nn.Parameter(torch.randn(4, bins + 1) * 0.3)

        def knots(self, raw):
            return F.pad(raw.softmax(-1).cumsum(-1), (1, 0)) * 6 - 3

        def forward(self, x):
            x = x.clamp(-2.99, 2.99).T.contiguous()
            xs, ys = self.knots(self.widths), self.knots(self.heights)
            slopes = F.softplus(self.slopes) + 1e-3
            k = (torch.searchsorted(xs.detach(), x) - 1).clamp(0, 3)
            x0, x1, y0, y1 = (
                xs.gather(1, k),
                xs.gather(1, k + 1),
                ys.gather(1, k),
                ys.gather(1, k + 1),
            )
            d0, d1 = slopes.gather(1, k), slopes.gather(1, k + 1)
            s, t = (y1 - y0) / (x1 - x0), (x - x0) / (x1 - x0)
            down = s + (d1 + d0 - 2 * s) * t * (1 - t)
            y = y0 + (y1 - y0) * (s * t**2 + d0 * t * (1 - t)) / down
            slope = s**2 * (d1 * t**2 + 2 * s * t * (1 - t) + d0 * (1 - t) ** 2) / down**2
            return y, slope.log()

    def loss(model, x):
        y, log_slope = model(x)
        return (0.5 * y**2 - log_slope).sum(0).mean()

    return _denoise(loss, Spline())


def autoregressive_flow():
    """MAF: a masked network gives each number its mean and scale from those before it."""

    class Masked(nn.Linear):
        def __init__(self, mask):
            super().__init__(mask.shape[1], mask.shape[0])
            self.register_buffer("mask", mask)

        def forward(self, x):
            return F.linear(x, self.weight * self.mask, self.bias)

    class Flow(nn.Module):
        def __init__(self):
            super().__init__()
            first, hidden = torch.arange(4), torch.arange(12) % 3
            self.enter = Masked((hidden[:, None] >= first).float())
            self.leave = Masked((first.repeat(2)[:, None] > hidden).float())

        def forward(self, x):
            mean, scale = self.leave(torch.tanh(self.enter(x))).chunk(2, 1)
            return (x - mean) * torch.exp(-scale), -scale.sum(1)

    def loss(model, x):
        z, log_det = model(x)
        return (0.5 * z.pow(2).sum(1) - log_det).mean()

    return _denoise(loss, Flow())


def implicit_likelihood():
    """IMLE: each point draws the nearest of many samples to itself."""

    def loss(model, x):
        with torch.no_grad():
            noise = torch.randn(20, 3)
            near = torch.cdist(x, model(noise)).argmin(1)
        return F.mse_loss(model(noise[near]), x)

    return _denoise(loss, nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4)))


def discrete_latents():
    """A discrete VAE whose latents are relaxed by Gumbel's softmax."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.encode, self.decode = nn.Linear(4, 12), nn.Linear(12, 4)

    def loss(model, x):
        logits = model.encode(x).view(-1, 3, 4)
        z = F.gumbel_softmax(logits, tau=0.7, hard=False)
        q = logits.softmax(-1)
        divergence = (q * (q.clamp(min=1e-8).log() + math.log(4))).sum((1, 2)).mean()
        return F.mse_loss(model.decode(z.flatten(1)), x) + 0.1 * divergence

    return _denoise(loss, Model())


def drifting_mmd():
    """A generator that minimizes the maximum mean discrepancy by a sum of kernels."""

    def kernel(a, b):
        apart = torch.cdist(a, b).square()
        return sum(torch.exp(-apart / (2 * s**2)) for s in (0.5, 1.0, 2.0)).mean()

    def loss(model, x, noise):
        fake = model(noise)
        return kernel(fake, fake) + kernel(x, x) - 2 * kernel(fake, x)

    model = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.5), numbers((8, 4), (8, 3)))
