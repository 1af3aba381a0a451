"""Programs of practice: networks of pictures, and their losses."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import both, labelled, numbers, texts


def _classify(model, batch=None):
    return TrainingRecipe(
        model,
        lambda m, x, y: F.cross_entropy(m(x), y),
        AdamW(model.parameters(), lr=1e-3),
        batch or labelled((3, 3, 8, 8), 4),
    )


def _segment(loss):
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 3, 1))
    batch = both(numbers((2, 1, 6, 6)), texts((2, 6, 6), words=3))
    return TrainingRecipe(
        model, lambda m, x, y: loss(m(x), y), Adam(model.parameters(), lr=1e-3), batch
    )


def u_net():
    """A U-Net with skips, group norms, and a picture that is resized on the way up."""

    class UNet(nn.Module):
        def __init__(self):
            super().__init__()

            def block(a, b):
                return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(2, b), nn.SiLU())

            self.down1, self.down2, self.mid = block(1, 4), block(4, 8), block(8, 8)
            self.up2, self.up1, self.out = block(16, 4), block(8, 4), nn.Conv2d(4, 1, 1)

        def forward(self, x):
            a = self.down1(x)
            b = self.down2(F.max_pool2d(a, 2))
            c = self.mid(F.avg_pool2d(b, 2))
            c = F.interpolate(c, scale_factor=2, mode="nearest")
            d = self.up2(torch.cat([b, c], 1))
            d = F.interpolate(d, size=x.shape[-2:], mode="bilinear", align_corners=False)
            return self.out(self.up1(torch.cat([a, d], 1)))

    model = UNet()
    return TrainingRecipe(
        model,
        lambda m, x, y: F.l1_loss(m(x), y),
        Adam(model.parameters(), lr=1e-3),
        numbers((2, 1, 8, 8), (2, 1, 8, 8)),
    )


def conv_next():
    """ConvNeXt V2: depthwise convolutions, norms of channels, and global response norms."""

    class Block(nn.Module):
        def __init__(self, width=6):
            super().__init__()
            self.depthwise = nn.Conv2d(width, width, 5, padding=2, groups=width)
            self.norm, self.enter = nn.LayerNorm(width), nn.Linear(width, 4 * width)
            self.gamma, self.beta = (nn.Parameter(torch.zeros(4 * width)) for _ in range(2))
            self.leave = nn.Linear(4 * width, width)

        def forward(self, x):
            h = F.gelu(self.enter(self.norm(self.depthwise(x).permute(0, 2, 3, 1))))
            size = h.norm(dim=(1, 2), keepdim=True)
            h = self.gamma * (h * size / (size.mean(-1, keepdim=True) + 1e-6)) + self.beta + h
            return x + self.leave(h).permute(0, 3, 1, 2)

    model = nn.Sequential(
        nn.Conv2d(3, 6, 2, 2),
        Block(),
        Block(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )
    return _classify(model)


def mobile_network():
    """Inverted residuals with squeeze and excitation, hard swish and synchronized statistics."""

    class Block(nn.Module):
        def __init__(self, width=4):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv2d(width, 8, 1, bias=False),
                nn.BatchNorm2d(8),
                nn.Hardswish(),
                nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False),
                nn.BatchNorm2d(8),
                nn.Hardswish(),
            )
            self.squeeze = nn.Sequential(
                nn.AdaptiveAvgPool2d(1),
                nn.Conv2d(8, 2, 1),
                nn.ReLU(),
                nn.Conv2d(2, 8, 1),
                nn.Hardsigmoid(),
            )
            self.leave = nn.Sequential(nn.Conv2d(8, width, 1, bias=False), nn.BatchNorm2d(width))

        def forward(self, x):
            h = self.net(x)
            return x + self.leave(h * self.squeeze(h))

    model = nn.Sequential(nn.Conv2d(3, 4, 3, 2, 1), Block(), nn.Flatten(), nn.Linear(64, 4))
    return _classify(model)


def mixer():
    """An MLP mixer of patches and channels, with dropped paths."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(2))
            self.tokens = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 4))
            self.channels = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8))

        def drop(self, x, rate=0.2):
            mask = x.new_empty(x.shape[0], 1, 1).bernoulli_(1 - rate)
            return x * mask.div_(1 - rate)

        def forward(self, x):
            x = x + self.drop(self.tokens(self.norms[0](x).mT).mT)
            return x + self.drop(self.channels(self.norms[1](x)))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.patch, self.block, self.head = nn.Conv2d(3, 8, 4, 4), Block(), nn.Linear(8, 4)

        def forward(self, x):
            return self.head(self.block(self.patch(x).flatten(2).mT).mean(1))

    return _classify(Model())


def cut_mix():
    """CutMix: a box of each picture comes from another one, at a drawn place."""

    def loss(model, x, y):
        rows, columns = torch.arange(8)[:, None], torch.arange(8)
        top, left, side = torch.randint(0, 5, (3,)).unbind()
        side = side + 2
        box = (rows >= top) & (rows < top + side) & (columns >= left) & (columns < left + side)
        mixed = torch.where(box, x.roll(1, 0), x)
        share = box.float().mean()
        logits = model(mixed)
        return (1 - share) * F.cross_entropy(logits, y) + share * F.cross_entropy(logits, y.roll(1))

    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    batch = labelled((3, 3, 8, 8), 4)
    return TrainingRecipe(model, loss, SGD(model.parameters(), lr=0.05, momentum=0.9), batch)


def drop_block():
    """DropBlock: squares of features are dropped, by a maximum over drawn seeds."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.head = nn.Conv2d(3, 4, 3, padding=1), nn.Linear(4, 4)

        def forward(self, x):
            x = self.conv(x)
            seeds = (torch.rand(len(x), 1, 8, 8) < 0.05).float()
            mask = 1 - F.max_pool2d(seeds, 3, stride=1, padding=1)
            x = x * mask * mask.numel() / mask.sum()
            return self.head(F.relu(x).mean((2, 3)))

    return _classify(Model())


def focal_loss():
    """Focal loss of pixels, weighted by class."""
    weights = torch.tensor([0.2, 0.3, 0.5])

    def loss(logits, y):
        losses = F.cross_entropy(logits, y, weight=weights, reduction="none")
        return ((1 - torch.exp(-losses)) ** 2 * losses).mean()

    return _segment(loss)


def dice_loss():
    """Dice and Tversky's losses, beside a cross-entropy that ignores a class's borders."""

    def loss(logits, y):
        p, t = logits.softmax(1), F.one_hot(y, 3).movedim(-1, 1).float()
        both_, sums = (p * t).sum((0, 2, 3)), (p + t).sum((0, 2, 3))
        false = (p * (1 - t)).sum((0, 2, 3))
        tversky = (both_ + 1) / (both_ + 0.3 * false + 0.7 * ((1 - p) * t).sum((0, 2, 3)) + 1)
        return 1 - (2 * both_ / (sums + 1e-6)).mean() + (1 - tversky).mean()

    return _segment(loss)


def lovasz_loss():
    """Lovász' hinge of the Jaccard index: errors are sorted, each class by itself."""

    def loss(logits, y):
        probs, y = logits.softmax(1).movedim(1, -1).reshape(-1, 3), y.reshape(-1)
        losses = []
        for k in range(3):
            own = (y == k).float()
            errors, order = torch.sort((own - probs[:, k]).abs(), descending=True)
            own = own[order]
            total = own.sum()
            jaccard = 1 - (total - own.cumsum(0)) / (total + (1 - own).cumsum(0))
            gradient = torch.cat([jaccard[:1], jaccard[1:] - jaccard[:-1]])
            losses.append(errors @ gradient)
        return sum(losses) / 3

    return _segment(loss)


def boxes():
    """A detector's losses: generalized overlap, objectness, and anchors by a maximum of overlap."""

    def corners(x):
        center, size = x.sigmoid().chunk(2, -1)
        return torch.cat([center - size / 2, center + size / 2], -1)

    def overlap(a, b):
        size = (torch.min(a[..., 2:], b[..., 2:]) - torch.max(a[..., :2], b[..., :2])).clamp(min=0)
        inner, areas = size.prod(-1), [(x[..., 2:] - x[..., :2]).prod(-1) for x in (a, b)]
        union = areas[0] + areas[1] - inner
        hull = (torch.max(a[..., 2:], b[..., 2:]) - torch.min(a[..., :2], b[..., :2])).prod(-1)
        return inner / union, inner / union - (hull - union) / hull

    def loss(model, x, target):
        found = model(x).flatten(2).mT
        boxes, target = corners(found[..., :4]), corners(target)
        iou, giou = overlap(boxes[:, :, None], target[:, None])
        best, index = iou.max(1)
        good = torch.zeros_like(found[..., 4]).scatter(1, index, best.detach())
        chosen = giou.gather(1, index[:, None]).squeeze(1)
        return (1 - chosen).mean() + F.binary_cross_entropy_with_logits(found[..., 4], good)

    model = nn.Sequential(nn.Conv2d(3, 6, 3, 2, 1), nn.SiLU(), nn.Conv2d(6, 5, 3, 2, 1))
    batch = numbers((2, 3, 12, 12), (2, 2, 4))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch)


def key_points():
    """Key points as expectations over heat maps, with a wing loss."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Conv2d(1, 3, 3, padding=1)

        def forward(self, x):
            heat = self.net(x).flatten(2).softmax(-1).unflatten(-1, (8, 8))
            place = torch.linspace(-1, 1, 8)
            return torch.stack([(heat.sum(2) * place).sum(-1), (heat.sum(3) * place).sum(-1)], -1)

    def loss(model, x, y):
        off = (model(x) - y.tanh()).abs()
        return torch.where(off < 0.5, torch.log(1 + off / 0.1), off + 1.2917595).mean()

    model = Model()
    batch = numbers((3, 1, 8, 8), (3, 3, 2))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch)


def optical_flow():
    """A learned flow warps one picture to another, with a smoothness and Charbonnier's loss."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = nn.Sequential(
                nn.Conv2d(2, 6, 3, padding=1), nn.LeakyReLU(0.1), nn.Conv2d(6, 2, 3, padding=1)
            )

        def forward(self, a, b):
            flow = self.net(torch.cat([a, b], 1))
            side = torch.linspace(-1, 1, 8)
            grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), -1)
            grid = grid + flow.permute(0, 2, 3, 1) / 4
            return F.grid_sample(b, grid, padding_mode="border", align_corners=True), flow

    def loss(model, a, b):
        warped, flow = model(a, b)
        smooth = flow.diff(dim=2).abs().mean() + flow.diff(dim=3).abs().mean()
        return ((warped - a) ** 2 + 1e-6).sqrt().mean() + 0.1 * smooth

    model = Model()
    batch = numbers((2, 1, 8, 8), (2, 1, 8, 8))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch)


def finer_pictures():
    """Super-resolution by a pixel shuffle, with structural similarity as its loss."""

    def similarity(x, y):
        window = torch.ones(1, 1, 3, 3) / 9
        mx, my = F.conv2d(x, window), F.conv2d(y, window)
        xx, yy = F.conv2d(x * x, window) - mx**2, F.conv2d(y * y, window) - my**2
        xy = F.conv2d(x * y, window) - mx * my
        top = (2 * mx * my + 1e-4) * (2 * xy + 9e-4)
        return (top / ((mx**2 + my**2 + 1e-4) * (xx + yy + 9e-4))).mean()

    def loss(model, y):
        y = y.sigmoid()
        small = F.interpolate(y, scale_factor=0.5, mode="bicubic", antialias=False)
        x = model(small)
        return F.l1_loss(x, y) + 0.2 * (1 - similarity(x, y))

    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.PReLU(), nn.Conv2d(8, 4, 3, padding=1), nn.PixelShuffle(2)
    )
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), numbers((2, 1, 8, 8)))


def styles():
    """Gram matrices of a frozen network's features, adaptive norms and total variation."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen = nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU()).requires_grad_(False)
            self.paint = nn.Conv2d(3, 3, 3, padding=1)

        def gram(self, x):
            f = self.frozen(x).flatten(2)
            return f @ f.mT / f[0].numel()

    def loss(model, content, style):
        x = model.paint(content)
        mean, std = style.mean((2, 3), True), style.std((2, 3), keepdim=True)
        x = F.instance_norm(x) * std + mean
        variation = (x[..., 1:] - x[..., :-1]).abs().sum() + (
            x[..., 1:, :] - x[..., :-1, :]
        ).abs().sum()
        return F.mse_loss(model.gram(x), model.gram(style)) + 1e-4 * variation

    model = Model()
    batch = numbers((2, 3, 8, 8), (2, 3, 8, 8))
    return TrainingRecipe(model, loss, Adam(model.paint.parameters(), lr=1e-2), batch)


def spatial_transformer():
    """A spatial transformer turns its input by a learned affine grid."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.place = nn.Sequential(nn.Flatten(), nn.Linear(64, 6))
            self.place[1].weight.data.mul_(0.1)
            self.place[1].bias.data.copy_(torch.tensor([0.9, 0.05, 0.02, -0.04, 0.95, 0.01]))
            self.net = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))

        def forward(self, x):
            grid = F.affine_grid(self.place(x).view(-1, 2, 3), x.shape, align_corners=False)
            return self.net(F.grid_sample(x, grid, align_corners=False))

    return _classify(Model(), labelled((3, 1, 8, 8), 4))


def capsules():
    """Capsules with routing by agreement in three rounds, and a margin loss."""

    def squash(x):
        square = (x**2).sum(-1, keepdim=True)
        return square / (1 + square) * x / (square + 1e-8).sqrt()

    class Capsules(nn.Module):
        def __init__(self):
            super().__init__()
            self.enter, self.weight = (
                nn.Conv2d(1, 8, 3, 2),
                nn.Parameter(torch.randn(18, 4, 4, 4) * 0.2),
            )

        def forward(self, x):
            u = squash(self.enter(x).view(len(x), 18, 4))
            votes = torch.einsum("bid,iodk->biok", u, self.weight)
            b = torch.zeros(votes.shape[:3])
            for k in range(3):
                s = squash((b.softmax(2)[..., None] * votes).sum(1))
                if k < 2:
                    b = b + (votes.detach() * s.detach()[:, None]).sum(-1)
            return s.norm(dim=-1)

    def loss(model, x, y):
        size, own = model(x), F.one_hot(y, 4)
        return (
            (own * F.relu(0.9 - size) ** 2 + 0.5 * (1 - own) * F.relu(size - 0.1) ** 2)
            .sum(1)
            .mean()
        )

    model = Capsules()
    batch = labelled((3, 1, 8, 8), 4)
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch)
