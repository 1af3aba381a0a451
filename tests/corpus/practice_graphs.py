"""Programs of practice: graphs, sets, points and molecules."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import labelled, numbers

EDGES = torch.tensor(
    [[0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 0, 1, 4], [1, 0, 2, 1, 3, 2, 4, 3, 5, 4, 0, 5, 4, 1]]
)
"""A ring of six nodes with a chord, both ways."""


class _Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", EDGES.clone())


def _classify(model, batch=None):
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y),
        AdamW(model.parameters(), lr=1e-2),
        batch or labelled((6, 4), 3),
    )


def convolution():
    """GCN: neighbours are added, scaled by the roots of their degrees."""

    class GCN(_Graph):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(4, 8, bias=False), nn.Linear(8, 3, bias=False)])

        def forward(self, x):
            loops = torch.arange(len(x)).expand(2, -1)
            source, target = torch.cat([self.edges, loops], 1)
            degree = torch.zeros(len(x)).scatter_add(0, target, torch.ones(len(target)))
            root = degree.pow(-0.5).masked_fill(degree == 0, 0.0)
            weight = (root[source] * root[target])[:, None]
            for k, layer in enumerate(self.layers):
                h = layer(x)
                x = torch.zeros_like(h).index_add_(0, target, h[source] * weight)
                x = F.dropout(x.relu(), 0.1, self.training) if k == 0 else x
            return x

    return _classify(GCN())


def sparse_convolution():
    """The same by a sparse adjacency matrix of torch's."""

    class GCN(_Graph):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 3)

        def forward(self, x):
            ones = torch.ones(self.edges.shape[1])
            adjacency = torch.sparse_coo_tensor(self.edges, ones, (6, 6))
            return torch.sparse.mm(adjacency, self.layer(x))

    return _classify(GCN())


def attention():
    """GATv2: attention over the edges of each node, by a softmax of scattered scores."""

    class GAT(_Graph):
        def __init__(self, heads=2, width=4):
            super().__init__()
            self.left, self.right = (nn.Linear(4, heads * width) for _ in range(2))
            self.score = nn.Parameter(torch.randn(heads, width))
            self.head = nn.Linear(heads * width, 3)

        def forward(self, x):
            source, target = self.edges
            a, b = (layer(x).unflatten(-1, (2, 4)) for layer in (self.left, self.right))
            scores = (F.leaky_relu(a[source] + b[target], 0.2) * self.score).sum(-1)
            index = target[:, None].expand_as(scores)
            top = torch.full((len(x), 2), -torch.inf).scatter_reduce(0, index, scores, "amax")
            weight = (scores - top[target]).exp()
            total = torch.zeros(len(x), 2).scatter_add(0, index, weight)
            weight = weight / (total[target] + 1e-16)
            out = torch.zeros_like(a).index_add(0, target, a[source] * weight[..., None])
            return self.head(F.elu(out).flatten(1))

    return _classify(GAT())


def sampled_neighbours():
    """GraphSAGE: means and maxima of the neighbours, normed."""

    class SAGE(_Graph):
        def __init__(self):
            super().__init__()
            self.own, self.mean, self.top = (nn.Linear(4, 3) for _ in range(3))

        def forward(self, x):
            source, target = self.edges
            index = target[:, None].expand(-1, x.shape[1])
            mean = torch.zeros_like(x).scatter_reduce(
                0, index, x[source], reduce="mean", include_self=False
            )
            top = torch.zeros_like(x).scatter_reduce(
                0, index, x[source], "amax", include_self=False
            )
            return F.normalize(self.own(x) + self.mean(mean) + self.top(top), p=2, dim=-1)

    return _classify(SAGE())


def isomorphism():
    """GIN: sums of neighbours through networks, batch norms, and a graph's sum for its class."""

    class GIN(nn.Module):
        def __init__(self):
            super().__init__()
            self.eps = nn.Parameter(torch.zeros(2))
            self.layers = nn.ModuleList(
                nn.Sequential(nn.Linear(w, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 8))
                for w in (4, 8)
            )
            self.head = nn.Linear(8, 3)
            self.register_buffer("edges", torch.cat([EDGES, EDGES + 6, EDGES + 12], 1))
            self.register_buffer("graph", torch.arange(3).repeat_interleave(6))

        def forward(self, x):
            source, target = self.edges
            for eps, layer in zip(self.eps, self.layers, strict=True):
                x = layer((1 + eps) * x + torch.zeros_like(x).index_add(0, target, x[source]))
            return self.head(torch.zeros(3, 8).index_add(0, self.graph, x))

    return _classify(GIN(), labelled((18, 4), 3, 3))


def message_passing():
    """Messages of edges with attributes, a GRU for the nodes, and edges that are dropped."""

    class Model(_Graph):
        def __init__(self):
            super().__init__()
            self.message = nn.Sequential(nn.Linear(10, 8), nn.SiLU(), nn.Linear(8, 4))
            self.update, self.head = nn.GRUCell(4, 4), nn.Linear(4, 1)

        def forward(self, x, attributes):
            source, target = self.edges
            keep = (torch.rand(len(source), 1) > 0.1).float()
            for _ in range(2):
                m = self.message(torch.cat([x[source], x[target], attributes], -1)) * keep
                x = self.update(x.new_zeros(x.shape).index_add(0, target, m), x)
            return self.head(x).squeeze(-1)

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, x, a, y: F.l1_loss(m(x, a), y),
        Adam(model.parameters(), lr=1e-3),
        numbers((6, 4), (14, 2), (6,)),
    )


def equivariant_network():
    """EGNN: messages of distances move the points, and all turns with the points."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.edge = nn.Sequential(nn.Linear(9, 8), nn.SiLU(), nn.Linear(8, 8), nn.SiLU())
            self.move, self.node = nn.Linear(8, 1, bias=False), nn.Linear(12, 4)

        def forward(self, h, x):
            n = len(x)
            apart = x[:, None] - x[None]
            square = apart.pow(2).sum(-1, keepdim=True)
            pair = torch.cat([h[:, None].expand(n, n, 4), h[None].expand(n, n, 4), square], -1)
            m = self.edge(pair) * (1 - torch.eye(n))[..., None]
            x = x + (apart / ((square + 1e-8).sqrt() + 1) * self.move(m)).sum(1) / (n - 1)
            return h + self.node(torch.cat([h, m.sum(1)], -1)), x

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(Layer() for _ in range(2))

        def forward(self, h, x):
            for layer in self.layers:
                h, x = layer(h, x)
            return x

    model = Model()
    return TrainingRecipe(
        model,
        lambda m, h, x, y: F.mse_loss(m(h, x), y),
        Adam(model.parameters(), lr=1e-3),
        numbers((5, 4), (5, 3), (5, 3)),
    )


def forces_of_molecules():
    """SchNet: continuous filters of distances, with forces as the energy's gradient."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.head = nn.Embedding(4, 6), nn.Linear(6, 1)
            self.filter = nn.Sequential(nn.Linear(8, 6), nn.Softplus(), nn.Linear(6, 6))
            self.register_buffer("kinds", torch.tensor([0, 1, 2, 1, 3]))
            self.register_buffer("centers", torch.linspace(0, 4, 8))
            self.register_buffer("pairs", torch.triu_indices(5, 5, 1))

        def forward(self, places):
            h, (i, j) = self.embed(self.kinds), self.pairs
            apart = (places[i] - places[j]).norm(dim=-1)
            cut = 0.5 * (torch.cos(torch.pi * apart / 5) + 1) * (apart < 5)
            w = self.filter(torch.exp(-2 * (apart[:, None] - self.centers) ** 2)) * cut[:, None]
            both = torch.zeros_like(h).index_add(0, i, h[j] * w).index_add(0, j, h[i] * w)
            return self.head(h + both).sum()

    def loss(model, places, energy, forces):
        places = places.requires_grad_(True)
        found = model(places)
        (gradient,) = torch.autograd.grad(found, places, create_graph=True)
        return (found - energy).pow(2).mean() + 10 * F.mse_loss(-gradient, forces)

    model = Model()
    return TrainingRecipe(
        model, loss, AdamW(model.parameters(), lr=1e-3), numbers((5, 3), (1,), (5, 3))
    )


def points():
    """PointNet: one network for all points, a learned turn, and a maximum."""

    class PointNet(nn.Module):
        def __init__(self):
            super().__init__()
            self.turn = nn.Sequential(nn.Conv1d(3, 8, 1), nn.ReLU())
            self.matrix = nn.Linear(8, 9)
            self.points = nn.Sequential(nn.Conv1d(3, 8, 1), nn.BatchNorm1d(8), nn.ReLU())
            self.head = nn.Linear(8, 4)

        def forward(self, x):
            turn = self.matrix(self.turn(x).amax(-1)).view(-1, 3, 3) + torch.eye(3)
            self.penalty = (turn @ turn.mT - torch.eye(3)).norm(dim=(1, 2)).mean()
            return self.head(torch.max(self.points(torch.bmm(turn, x)), 2)[0])

    def loss(model, x, y):
        logits = model(x)
        return F.nll_loss(F.log_softmax(logits, -1), y) + 1e-3 * model.penalty

    model = PointNet()
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), labelled((3, 3, 10), 4))


def nearest_neighbours():
    """DGCNN: edges to the nearest points in the space of features, found anew in each layer."""

    class EdgeConv(nn.Module):
        def __init__(self, enter, leave):
            super().__init__()
            self.net = nn.Conv2d(2 * enter, leave, 1)

        def forward(self, x, k=3):
            square = (x**2).sum(1, keepdim=True)
            index = (2 * x.mT @ x - square - square.mT).topk(k, dim=-1)[1]
            near = x.mT[torch.arange(len(x))[:, None, None], index]
            own = x.mT[:, :, None].expand_as(near)
            edges = torch.cat([near - own, own], -1).permute(0, 3, 1, 2)
            return F.leaky_relu(self.net(edges), 0.2).max(-1)[0]

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(EdgeConv(3, 6), EdgeConv(6, 8))
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            x = self.layers(x)
            return self.head(torch.cat([x.amax(-1), x.mean(-1)], 1))

    return _classify(Model(), labelled((2, 3, 8), 4))


def set_transformer():
    """A set transformer: induced points, and pooling by attention."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.attend = nn.MultiheadAttention(8, 2, batch_first=True)
            self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
            self.net = nn.Linear(8, 8)

        def forward(self, x, y):
            h = self.norms[0](x + self.attend(x, y, y, need_weights=False)[0])
            return self.norms[1](h + F.relu(self.net(h)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.head = nn.Linear(3, 8), nn.Linear(8, 4)
            self.induced, self.seed = (nn.Parameter(torch.randn(1, n, 8)) for n in (3, 1))
            self.blocks = nn.ModuleList(Block() for _ in range(3))

        def forward(self, x):
            x = self.enter(x)
            h = self.blocks[0](self.induced.repeat(len(x), 1, 1), x)
            x = self.blocks[1](x, h)
            return self.head(self.blocks[2](self.seed.repeat(len(x), 1, 1), x)[:, 0])

    return _classify(Model(), labelled((3, 6, 3), 4))


def links():
    """TransE: entities and relations in one space, with negatives that are drawn."""

    class TransE(nn.Module):
        def __init__(self):
            super().__init__()
            self.entities, self.relations = nn.Embedding(10, 6), nn.Embedding(3, 6)

        def forward(self, head, relation, tail):
            norm = F.normalize(self.entities.weight, dim=-1)
            return (norm[head] + self.relations(relation) - norm[tail]).abs().sum(-1)

    def batch(step):
        generator = torch.Generator().manual_seed(step)
        return tuple(torch.randint(n, (8,), generator=generator) for n in (10, 3, 10))

    def loss(model, head, relation, tail):
        other = torch.randint(0, 10, tail.shape)
        good, bad = model(head, relation, tail), model(head, relation, other)
        return F.margin_ranking_loss(bad, good, torch.ones_like(good), margin=1.0)

    model = TransE()
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-2), batch)


def graph_transformer():
    """Attention over all nodes, biased by Laplacian-free random walks and by edges."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            adjacency = torch.zeros(6, 6)
            adjacency[EDGES[0], EDGES[1]] = 1
            walk = adjacency / adjacency.sum(1, keepdim=True)
            powers = [torch.matrix_power(walk, k).diagonal() for k in range(1, 5)]
            self.register_buffer("adjacency", adjacency)
            self.register_buffer("walks", torch.stack(powers, 1))
            self.enter, self.qkv, self.head = nn.Linear(8, 8), nn.Linear(8, 24), nn.Linear(8, 3)
            self.bias = nn.Parameter(torch.zeros(2))

        def forward(self, x):
            x = self.enter(torch.cat([x, self.walks], 1))
            q, k, v = self.qkv(x).chunk(3, -1)
            bias = torch.where(self.adjacency > 0, self.bias[0], self.bias[1])
            return self.head(x + (q @ k.T / 8**0.5 + bias).softmax(-1) @ v)

    return _classify(Model())
