"""Programs of practice: physics, operators of functions, and classical probability."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.recipe import InferenceRecipe, TrainingRecipe
from tests.corpus.practice_batches import WORDS, both, numbers, texts


def _network(enter, leave, width=16):
    return nn.Sequential(nn.Linear(enter, width), nn.Tanh(), nn.Linear(width, leave))


def _derive(y, x):
    return torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]


def _learn(model, loss, batch, rate=1e-3):
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=rate), batch)


def burgers_equation():
    """A network that obeys Burgers' equation, with a second derivative in space."""

    def loss(model, points, start):
        points = points.sigmoid().requires_grad_(True)
        u = model(points)
        du = _derive(u, points)
        u_x, u_t = du[:, :1], du[:, 1:]
        u_xx = _derive(u_x, points)[:, :1]
        residual = u_t + u * u_x - 0.01 / math.pi * u_xx
        begin = torch.cat([start, torch.zeros_like(start)], 1)
        return residual.pow(2).mean() + F.mse_loss(model(begin), -torch.sin(math.pi * start))

    return _learn(_network(2, 1), loss, numbers((10, 2), (5, 1)))


def poisson_equation():
    """Poisson's equation in the plane, whose Laplacian is a sum over coordinates; hard borders."""

    def loss(model, points):
        points = torch.tanh(points)
        points.requires_grad = True
        x, y = points.split(1, 1)
        u = model(points) * (1 - x**2) * (1 - y**2)
        gradient = _derive(u, points)
        laplacian = sum(_derive(gradient[:, k : k + 1], points)[:, k] for k in range(2))
        source = torch.sin(math.pi * x[:, 0]) * torch.sin(math.pi * y[:, 0])
        return (laplacian + source).square().mean()

    return _learn(_network(2, 1), loss, numbers((10, 2)))


def equation_by_functional_derivatives():
    """The heat equation, with torch.func's derivatives of a single point under vmap."""
    from torch.func import functional_call, grad, vmap  # noqa: PLC0415 - where they are used

    def loss(model, points):
        weights = dict(model.named_parameters())

        def u(x, t):
            return functional_call(model, weights, (torch.stack([x, t]),)).squeeze()

        u_t = vmap(grad(u, 1))(points[:, 0], points[:, 1])
        u_xx = vmap(grad(grad(u, 0), 0))(points[:, 0], points[:, 1])
        return (u_t - 0.1 * u_xx).pow(2).mean()

    return _learn(_network(2, 1), loss, numbers((8, 2)))


def neural_ode():
    """A neural ODE with fixed steps of Runge and Kutta, fitted to a path."""

    def loss(model, x, y, size=0.25):
        for _ in range(4):
            k1 = model(x)
            k2 = model(x + size / 2 * k1)
            k3 = model(x + size / 2 * k2)
            k4 = model(x + size * k3)
            x = x + size / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return F.mse_loss(x, y)

    return _learn(_network(3, 3), loss, numbers((6, 3), (6, 3)))


def neural_sde():
    """A stochastic differential equation by Euler and Maruyama, with learned noise."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.drift, self.spread = _network(2, 2), nn.Parameter(torch.zeros(2))

    def loss(model, x, y):
        for _ in range(4):
            noise = torch.randn_like(x) * 0.25**0.5
            x = x + 0.25 * model.drift(x) + F.softplus(model.spread) * noise
        return (x.mean(0) - y.mean(0)).pow(2).sum() + (x.std(0) - y.std(0)).pow(2).sum()

    return _learn(Model(), loss, numbers((8, 2), (8, 2)))


def hamiltonian():
    """A Hamiltonian network: its gradient turned by a quarter is the motion; leapfrog steps."""

    def loss(model, q, p, dq, dp):
        state = torch.cat([q, p], 1).requires_grad_(True)
        energy = model(state).sum()
        h_q, h_p = torch.autograd.grad(energy, state, create_graph=True)[0].chunk(2, 1)
        return F.mse_loss(h_p, dq) + F.mse_loss(-h_q, dp)

    return _learn(_network(4, 1), loss, numbers(*[(6, 2)] * 4))


def lagrangian():
    """A Lagrangian network: accelerations solve a small system with the Hessian."""
    from torch.func import hessian, jacrev, vmap  # noqa: PLC0415 - where they are used

    def loss(model, q, v, target):
        def lagrange(q, v):
            return model(torch.cat([q, v])).squeeze() + 0.5 * (v * v).sum()

        def force(q, v):
            return jacrev(lagrange, 0)(q, v) - jacrev(jacrev(lagrange, 1), 0)(q, v) @ v

        masses, forces = vmap(hessian(lagrange, 1))(q, v), vmap(force)(q, v)
        return F.mse_loss(torch.linalg.solve(masses, forces), target)

    return _learn(_network(4, 1, 8), loss, numbers(*[(4, 2)] * 3))


def deep_equilibrium():
    """A deep equilibrium: a fixed point without a graph, and a gradient by a hook's iterations."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.f, self.head = nn.Linear(8, 6), nn.Linear(6, 3)

        def step(self, z, x):
            return torch.tanh(self.f(torch.cat([0.5 * z, x], 1)))

        def forward(self, x):
            with torch.no_grad():
                z = torch.zeros(len(x), 6)
                for _ in range(8):
                    z = self.step(z, x)
            z = self.step(z, x)
            fixed = z.detach().requires_grad_()
            again = self.step(fixed, x)

            def solve(gradient):
                g = gradient
                for _ in range(5):
                    g = torch.autograd.grad(again, fixed, g, retain_graph=True)[0] + gradient
                return g

            if self.training:
                z.register_hook(solve)
            return self.head(z)

    return _learn(Model(), lambda m, x, y: F.mse_loss(m(x), y), numbers((5, 2), (5, 3)))


def fourier_operator():
    """A Fourier neural operator in two dimensions, with complex weights of the low modes."""

    class Layer(nn.Module):
        def __init__(self, width=3, modes=2):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) * 0.1)
            self.skip, self.modes = nn.Conv2d(width, width, 1), modes

        def forward(self, x):
            m, weight = self.modes, torch.view_as_complex(self.weight)
            f = torch.fft.rfft2(x)
            out = torch.zeros_like(f)
            out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], weight[0])
            out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], weight[1])
            return F.gelu(torch.fft.irfft2(out, s=x.shape[-2:]) + self.skip(x))

    def loss(model, x, y):
        found = model(x)
        return ((found - y).flatten(1).norm(dim=1) / y.flatten(1).norm(dim=1)).mean()

    model = nn.Sequential(nn.Conv2d(1, 3, 1), Layer(), nn.Conv2d(3, 1, 1))
    return _learn(model, loss, numbers((2, 1, 8, 8), (2, 1, 8, 8)))


def deep_operator():
    """DeepONet: a branch reads a function, a trunk a place."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.branch, self.trunk = _network(8, 6), _network(1, 6)
            self.bias = nn.Parameter(torch.zeros(()))

        def forward(self, f, x):
            return torch.einsum("bp,np->bn", self.branch(f), self.trunk(x)) + self.bias

    return _learn(
        Model(), lambda m, f, x, y: F.mse_loss(m(f, x), y), numbers((4, 8), (5, 1), (4, 5))
    )


def gaussian_process():
    """The marginal likelihood of a Gaussian process, by Cholesky."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.length, self.scale = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(()))
            self.noise = nn.Parameter(torch.tensor(-1.0))

    def loss(model, x, y):
        x = x / model.length.exp()
        apart = (x[:, None] - x[None]).pow(2).sum(-1)
        kernel = model.scale.exp() * torch.exp(-0.5 * apart)
        kernel = kernel + (model.noise.exp() + 1e-4) * torch.eye(len(x))
        factor = torch.linalg.cholesky(kernel)
        alpha = torch.cholesky_solve(y.unsqueeze(-1), factor).squeeze(-1)
        log_det = 2 * factor.diagonal().log().sum()
        return 0.5 * (y @ alpha + log_det + len(x) * math.log(2 * math.pi))

    return _learn(Model(), loss, numbers((8, 2), (8,)), 1e-2)


def sparse_gaussian_process():
    """Inducing points by Titsias' bound, with triangular solves."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.places = nn.Parameter(torch.randn(4, 2))
            self.logs = nn.Parameter(torch.tensor([0.0, 0.0, -1.0]))

    def loss(model, x, y):
        length, scale, noise = model.logs.exp().unbind()

        def kernel(a, b):
            return scale * torch.exp(-0.5 * torch.cdist(a, b).pow(2) / length**2)

        low = torch.linalg.cholesky(kernel(model.places, model.places) + 1e-3 * torch.eye(4))
        a = torch.linalg.solve_triangular(low, kernel(model.places, x), upper=False) / noise.sqrt()
        b = torch.linalg.cholesky(torch.eye(4) + a @ a.T)
        c = torch.linalg.solve_triangular(b, a @ y[:, None], upper=False) / noise.sqrt()
        bound = -b.diagonal().log().sum() - 0.5 * len(x) * noise.log()
        bound = bound - 0.5 * (y @ y) / noise + 0.5 * c.pow(2).sum()
        return -(bound - 0.5 * (len(x) * scale / noise - a.pow(2).sum()))

    return _learn(Model(), loss, numbers((10, 2), (10,)), 1e-2)


def kalman_filter():
    """The likelihood of a Kalman filter, whose matrices are learned."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.move = nn.Parameter(0.9 * torch.eye(3) + 0.05 * torch.randn(3, 3))
            self.see, self.logs = nn.Parameter(torch.randn(2, 3)), nn.Parameter(torch.zeros(2))

    def loss(model, seen):
        q, r = model.logs.exp()[0] * torch.eye(3), model.logs.exp()[1] * torch.eye(2)
        mean, cov, total = torch.zeros(3), torch.eye(3), 0.0
        for z in seen.unbind():
            mean, cov = model.move @ mean, model.move @ cov @ model.move.T + q
            error, spread = z - model.see @ mean, model.see @ cov @ model.see.T + r
            gain = cov @ model.see.T @ torch.linalg.inv(spread)
            mean, cov = mean + gain @ error, (torch.eye(3) - gain @ model.see) @ cov
            normal = torch.distributions.MultivariateNormal(torch.zeros(2), spread)
            total = total - normal.log_prob(error)
        return total / len(seen)

    return _learn(Model(), loss, numbers((5, 2)), 1e-2)


def hidden_markov():
    """The forward algorithm of a hidden Markov model, in logarithms."""

    class Model(nn.Module):
        def __init__(self, states=3):
            super().__init__()
            self.start, self.move = (nn.Parameter(torch.randn(*s)) for s in ((3,), (3, 3)))
            self.emit = nn.Parameter(torch.randn(states, WORDS))

    def loss(model, words):
        move, emit = model.move.log_softmax(-1), model.emit.log_softmax(-1)
        alpha = model.start.log_softmax(-1) + emit[:, words[:, 0]].T
        for word in words.T[1:]:
            alpha = torch.logsumexp(alpha.unsqueeze(2) + move, dim=1) + emit[:, word].T
        return -alpha.logsumexp(1).mean()

    return _learn(Model(), loss, texts((4, 6)), 1e-2)


def random_field():
    """A conditional random field over an LSTM, with texts of several lengths."""

    class Tagger(nn.Module):
        def __init__(self, tags=4):
            super().__init__()
            self.embed, self.head = nn.Embedding(WORDS, 6), nn.Linear(8, tags)
            self.lstm = nn.LSTM(6, 4, batch_first=True, bidirectional=True)
            self.moves = nn.Parameter(torch.randn(tags, tags) * 0.1)

        def forward(self, words, tags):
            scores, mask = self.head(self.lstm(self.embed(words))[0]), words != 0
            total, alpha = scores[:, 0].gather(1, tags[:, :1])[:, 0], scores[:, 0]
            for t in range(1, words.shape[1]):
                step = self.moves[tags[:, t - 1], tags[:, t]]
                step = step + scores[:, t].gather(1, tags[:, t, None]).squeeze(1)
                total = total + step * mask[:, t]
                new = torch.logsumexp(alpha[:, :, None] + self.moves + scores[:, t, None], 1)
                alpha = torch.where(mask[:, t, None], new, alpha)
            return (alpha.logsumexp(1) - total).mean()

    def batch(step):
        words, tags = texts((3, 6), (3, 6))(step)
        return words, tags % 4

    return _learn(Tagger(), lambda m, words, tags: m(words, tags), batch)


def viterbi():
    """The best path of a chain of tags is decoded, back from its end."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scores, self.moves = nn.Linear(6, 4), nn.Parameter(torch.randn(4, 4))

    def forward(model, x):
        scores = model.scores(x)
        best, back = scores[:, 0], []
        for t in range(1, x.shape[1]):
            best, index = (best[:, :, None] + model.moves).max(1)
            best = best + scores[:, t]
            back.append(index)
        score, tag = best.max(1)
        path = [tag]
        for index in reversed(back):
            path.append(index.gather(1, path[-1][:, None])[:, 0])
        return score, torch.stack(path[::-1], 1)

    return InferenceRecipe(Model(), forward, numbers((3, 5, 6)))


def sinusoidal_network():
    """SIREN: a picture as a function with sines, and a penalty of its Laplacian's size."""

    class Sine(nn.Module):
        def __init__(self, enter, leave, w=30.0):
            super().__init__()
            self.layer, self.w = nn.Linear(enter, leave), w
            bound = math.sqrt(6 / enter) / w
            nn.init.uniform_(self.layer.weight, -bound, bound)

        def forward(self, x):
            return torch.sin(self.w * self.layer(x))

    def loss(model, colours):
        side = torch.linspace(-1, 1, 4)
        grid = torch.stack(torch.meshgrid(side, side, indexing="ij"), -1).view(-1, 2)
        return F.mse_loss(model(grid), colours)

    model = nn.Sequential(Sine(2, 16), Sine(16, 16), nn.Linear(16, 3))
    return _learn(model, loss, numbers((16, 3)), 1e-4)


def radiance_field():
    """NeRF: colours along rays are mixed by transmittance; places are coded by frequencies."""

    class Field(nn.Module):
        def __init__(self):
            super().__init__()
            self.net, self.colour = _network(15, 5), nn.Linear(7, 3)

        def forward(self, x, d):
            angles = x[..., None, :] * 2.0 ** torch.arange(2)[:, None]
            code = torch.cat([x, angles.sin().flatten(-2), angles.cos().flatten(-2)], -1)
            h = self.net(code)
            return F.relu(h[..., 0]), self.colour(torch.cat([h[..., 1:], d], -1)).sigmoid()

    def loss(model, start, way, colour, steps=6):
        way = F.normalize(way, dim=-1)
        t = torch.linspace(0, 2, steps) + torch.rand(len(start), steps) * (2 / steps)
        points = start[:, None] + t[..., None] * way[:, None]
        density, rgb = model(points, way[:, None].expand_as(points))
        gaps = torch.cat([t[:, 1:] - t[:, :-1], torch.full((len(t), 1), 1e10)], 1)
        alpha = 1 - torch.exp(-density * gaps)
        clear = torch.cumprod(torch.cat([torch.ones(len(t), 1), 1 - alpha + 1e-10], 1), 1)[:, :-1]
        return F.mse_loss(((alpha * clear)[..., None] * rgb).sum(1), colour.sigmoid())

    return _learn(Field(), loss, numbers((5, 3), (5, 3), (5, 3)), 5e-4)


def hash_grid():
    """Instant NGP: two grids of features, whose corners are hashed, and trilinear weights."""

    class Grid(nn.Module):
        def __init__(self):
            super().__init__()
            self.tables = nn.Parameter(torch.rand(2, 32, 2) * 1e-1)
            self.net = _network(4, 1)
            self.register_buffer("primes", torch.tensor([1, 2654435761, 805459861]))
            corners = torch.cartesian_prod(*[torch.arange(2)] * 3)
            self.register_buffer("corners", corners)

        def forward(self, x):
            rows = []
            for level, size in enumerate((4, 8)):
                low = (x * size).floor()
                share = (x * size - low)[:, None]
                cells = low.long()[:, None] + self.corners
                mixed = cells * self.primes
                index = (mixed[..., 0] ^ mixed[..., 1] ^ mixed[..., 2]) % 32
                weight = torch.where(self.corners == 1, share, 1 - share).prod(-1)
                rows.append((self.tables[level][index] * weight[..., None]).sum(1))
            return self.net(torch.cat(rows, -1))

    return _learn(Grid(), lambda m, x, y: F.mse_loss(m(x.sigmoid()), y), numbers((6, 3), (6, 1)))


def gaussian_splatting():
    """Gaussians in the plane, sorted by depth, that are blended front to back."""

    class Splats(nn.Module):
        def __init__(self, count=5):
            super().__init__()
            self.places, self.depths = nn.Parameter(torch.rand(count, 2)), torch.rand(count)
            self.logs, self.turns = (
                nn.Parameter(torch.full((count, 2), -1.5)),
                nn.Parameter(torch.rand(count)),
            )
            self.colours = nn.Parameter(torch.randn(count, 3))
            self.opacity = nn.Parameter(torch.zeros(count))
            self.register_buffer("order", torch.argsort(self.depths))

        def forward(self):
            side = torch.linspace(0, 1, 6)
            grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1).reshape(-1, 1, 2)
            c, s = self.turns.cos(), self.turns.sin()
            turn = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
            root = turn * self.logs.exp()[:, None]
            inverse = torch.linalg.inv(root @ root.mT + 1e-3 * torch.eye(2))
            d = grid - self.places
            power = torch.einsum("pni,nij,pnj->pn", d, inverse, d)
            alpha = (self.opacity.sigmoid() * torch.exp(-0.5 * power)).clamp(max=0.99)[
                :, self.order
            ]
            clear = torch.cumprod(F.pad(1 - alpha, (1, 0), value=1.0), 1)[:, :-1]
            return (alpha * clear) @ self.colours[self.order].sigmoid()

    return _learn(Splats(), lambda m, y: F.l1_loss(m(), y.sigmoid()), numbers((36, 3)), 1e-2)


def spline_network():
    """A Kolmogorov-Arnold network: each edge is a B-spline beside a SiLU."""

    class Layer(nn.Module):
        def __init__(self, enter, leave, grid=4, order=3):
            super().__init__()
            h = 2 / grid
            knots = torch.arange(-order, grid + order + 1) * h - 1
            self.register_buffer("knots", knots.expand(enter, -1).contiguous())
            self.base = nn.Parameter(torch.randn(leave, enter) * 0.3)
            self.spline = nn.Parameter(torch.randn(leave, enter, grid + order) * 0.1)
            self.order = order

        def forward(self, x):
            knots, y = self.knots, x.unsqueeze(-1)
            basis = ((y >= knots[:, :-1]) & (y < knots[:, 1:])).to(x.dtype)
            for k in range(1, self.order + 1):
                left = (y - knots[:, : -(k + 1)]) / (knots[:, k:-1] - knots[:, : -(k + 1)])
                right = (knots[:, k + 1 :] - y) / (knots[:, k + 1 :] - knots[:, 1:-k])
                basis = left * basis[..., :-1] + right * basis[..., 1:]
            splines = F.linear(basis.flatten(1), self.spline.flatten(1))
            return F.linear(F.silu(x), self.base) + splines

    model = nn.Sequential(Layer(3, 4), Layer(4, 2))
    return _learn(model, lambda m, x, y: F.mse_loss(m(x.tanh()), y), numbers((6, 3), (6, 2)))


def complex_network():
    """A network of complex numbers, with modReLU and a loss of sizes."""

    class Linear(nn.Module):
        def __init__(self, enter, leave):
            super().__init__()
            self.weight = nn.Parameter(torch.randn(leave, enter, 2) / enter**0.5)
            self.bias = nn.Parameter(torch.zeros(leave))

        def forward(self, z):
            z = z @ torch.view_as_complex(self.weight).T
            size = z.abs()
            return F.relu(size + self.bias) * z / (size + 1e-6)

    model = nn.Sequential(Linear(4, 8), Linear(8, 3))
    return _learn(
        model,
        lambda m, x, y: F.mse_loss(m(torch.complex(x, x.flip(1))).abs(), y.abs()),
        numbers((6, 4), (6, 3)),
    )


def wavelets():
    """Haar's wavelets of a signal are shrunk by learned thresholds, and put together again."""

    class Shrink(nn.Module):
        def __init__(self):
            super().__init__()
            self.thresholds = nn.Parameter(torch.full((3,), 0.2))

        def forward(self, x):
            details = []
            for t in self.thresholds:
                a, b = x[..., ::2], x[..., 1::2]
                x, d = (a + b) / 2**0.5, (a - b) / 2**0.5
                details.append(d.sign() * F.relu(d.abs() - t))
            for d in reversed(details):
                x = torch.stack([(x + d) / 2**0.5, (x - d) / 2**0.5], -1).flatten(-2)
            return x

    return _learn(
        Shrink(), lambda m, x, y: F.mse_loss(m(x + 0.1 * y), x), numbers((3, 16), (3, 16))
    )


def spectral_loss():
    """Signals are compared by short Fourier transforms of several sizes."""

    def transform(x, size):
        frames = x.unfold(-1, size, size // 4) * torch.hann_window(size)
        return torch.fft.rfft(frames).abs()

    def loss(model, noise, y):
        x, total = model(noise), 0.0
        for size in (8, 16, 32):
            a, b = transform(x, size), transform(y, size)
            total = (
                total + (a - b).norm() / b.norm() + F.l1_loss((a + 1e-5).log(), (b + 1e-5).log())
            )
        return total

    return _learn(_network(8, 64), loss, numbers((2, 8), (2, 64)))


def optimal_transport():
    """Sinkhorn's divergence of two clouds of points, in logarithms."""

    def cost(x, y, eps=0.1, rounds=6):
        c = torch.cdist(x, y, p=2) ** 2 / 2
        f, g = torch.zeros(len(x)), torch.zeros(len(y))
        for _ in range(rounds):
            f = -eps * torch.logsumexp((g - c) / eps - math.log(len(y)), 1)
            g = -eps * torch.logsumexp((f[:, None] - c) / eps - math.log(len(x)), 0)
        return f.mean() + g.mean()

    def loss(model, x, y):
        x = model(x)
        return cost(x, y) - 0.5 * cost(x, x) - 0.5 * cost(y, y)

    return _learn(_network(2, 2), loss, numbers((6, 2), (5, 2)))


def soft_matching():
    """A matching of queries and boxes by a soft assignment, where DETR has the Hungarian one."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.queries = nn.Parameter(torch.randn(5, 8))
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.box, self.label = nn.Linear(8, 4), nn.Linear(8, 4)

        def forward(self, x):
            h = self.attend(self.queries.expand(len(x), -1, -1), x, x)[0]
            return self.box(h).sigmoid(), self.label(h)

    def loss(model, x, boxes, labels):
        found, logits = model(x)
        cost = torch.cdist(found, boxes.sigmoid(), p=1)
        cost = cost - logits.softmax(-1).gather(-1, labels[:, None].expand(-1, 5, -1))
        with torch.no_grad():
            plan = (-cost / 0.1).softmax(1)
        background = F.relu(1 - plan.sum(-1)) * -logits.log_softmax(-1)[..., 3]
        return (plan * cost).sum((1, 2)).mean() + background.mean()

    batch = both(numbers((2, 6, 8), (2, 3, 4)), texts((2, 3), words=3))
    return _learn(Model(), loss, batch)


def hypernetwork():
    """A network makes the weights of another for each task."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.make = _network(3, 4 * 6 + 6 + 6 + 1)

        def forward(self, task, x):
            a, b, c, d = self.make(task).split([24, 6, 6, 1], -1)
            h = torch.relu(torch.baddbmm(b[:, None], x, a.view(-1, 4, 6)))
            return torch.bmm(h, c[..., None]).squeeze(-1) + d

    return _learn(
        Model(), lambda m, t, x, y: F.mse_loss(m(t, x), y), numbers((3, 3), (3, 5, 4), (3, 5))
    )


def fast_adaptation():
    """MAML: two inner steps of gradient descent on each task, with second derivatives."""
    from torch.func import functional_call  # noqa: PLC0415 - where it is used

    def loss(model, x, y, new_x, new_y):
        total = 0.0
        for task in range(len(x)):
            fast = dict(model.named_parameters())
            for _ in range(2):
                inner = F.mse_loss(functional_call(model, fast, x[task]), y[task])
                grads = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
                fast = {k: w - 0.1 * g for (k, w), g in zip(fast.items(), grads, strict=True)}
            total = total + F.mse_loss(functional_call(model, fast, new_x[task]), new_y[task])
        return total / len(x)

    return _learn(_network(1, 1), loss, numbers(*[(2, 5, 1)] * 4))


def reptile():
    """Reptile: the gradient is the way from the weights to those of a few inner steps."""
    from torch.func import functional_call  # noqa: PLC0415 - where it is used

    def loss(model, x, y):
        fast = {k: p.detach().requires_grad_() for k, p in model.named_parameters()}
        for _ in range(3):
            inner = F.mse_loss(functional_call(model, fast, (x,)), y)
            grads = torch.autograd.grad(inner, list(fast.values()))
            fast = {
                k: (w - 0.05 * g).detach().requires_grad_()
                for (k, w), g in zip(fast.items(), grads, strict=True)
            }
        return sum(0.5 * (p - fast[k].detach()).pow(2).sum() for k, p in model.named_parameters())

    model = _network(2, 1)
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.5), numbers((6, 2), (6, 1)))


def prototypes():
    """Prototypical networks: classes are means of a few examples."""

    def loss(model, support, query):
        centers = model(support).view(3, 4, -1).mean(1)
        logits = -torch.cdist(model(query), centers).pow(2)
        return F.cross_entropy(logits, torch.arange(3).repeat_interleave(2))

    model = _network(6, 4)
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), numbers((12, 6), (6, 6)))
