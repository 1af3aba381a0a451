"""Optimizers as users publish them, drawn: the source of a class that keeps and updates things.

Each part of a step is drawn among the ways in which it is written in practice: where the state is
kept and when it begins, how steps are counted, moments, corrections of bias, decay, clipping, loops
or functions of lists, and what changes rates.
"""

import linecache
import math
from collections.abc import Callable, Sequence
from random import Random
from textwrap import indent
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812 - torch's own name for it
from torch import Tensor, nn

from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice import train
from tests.corpus.practice_batches import labelled

DATA = labelled((6, 5), 3)

KEPT = ("lazily", "in init", "in lists", "in a closure", "in an object", "by key")
COUNTS = ("none", "tensor", "state", "group", "attribute", "lists")
MOMENTS = ("none", "mul add", "lerp", "new", "sum", "two")
SQUARES = ("none", "addcmul", "largest", "rows", "norm", "new")
CORRECTIONS = ("none", "both", "root", "numbers", "of math")
DECAYS = ("none", "coupled", "decoupled", "by dimension")
CLIPS = ("none", "norm", "value", "ratio", "of all", "centered")
DIRECTIONS = ("plain", "sign", "cautious", "unit", "by dimension", "nesterov")
WRITES = ("alpha", "sub", "data", "addcdiv", "copy", "foreach")
RATES = ("constant", "falls", "warm", "largest", "estimate", "in a tensor", "item")
EXTRAS = ("none", "slow", "average", "first", "previous", "every second", "noise")


class Keeper:
    """An object in which an optimizer keeps things."""


class Network(nn.Module):
    """A model with parameters of every number of dimensions, one without a gradient, one frozen."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.kernel = nn.Parameter(torch.randn(1, 1, 2) * 0.5)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.spare = nn.Parameter(torch.ones(2))
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits."""
        h = torch.tanh(F.conv1d(x[:, None], self.kernel)[:, 0]) * self.frozen
        logits: Tensor = self.head(h) * self.scale
        return logits


class Draw:
    """The source of one drawn optimizer.

    Args:
        seed: draws it.
    """

    def __init__(self, seed: int) -> None:
        self._rng = Random(seed)
        self.kept, self.count = self._pick(KEPT), self._pick(COUNTS)
        self.moment, self.square = self._pick(MOMENTS), self._pick(SQUARES)
        self.correction = self._pick(CORRECTIONS) if self.count != "none" else "none"
        self.decay, self.clip = self._pick(DECAYS), self._pick(CLIPS)
        self.direction, self.write = self._pick(DIRECTIONS), self._pick(WRITES)
        self.rate, self.extra = self._pick(RATES), self._pick(EXTRAS)
        self.guard = self._pick(("decorator", "with", "data"))
        self.groups, self.earlier = self._pick(("one", "two")), self._pick(("no", "no", "yes"))
        if self.rate == "warm" and self.count == "none":
            self.count = "group"

    def _pick(self, ways: Sequence[str]) -> str:
        return self._rng.choice(ways)

    def describe(self) -> str:
        """Return what was drawn."""
        return ", ".join(f"{k}: {v}" for k, v in vars(self).items() if k[0] != "_")

    def _list_slots(self) -> dict[str, str]:
        """Return what is kept for a parameter, by name, with what it begins as."""
        zeros, copied = "torch.zeros_like(p)", "p.detach().clone()"
        rows = "torch.zeros(p.shape[:-1] + (1,) if p.ndim > 1 else p.shape)"
        moments: dict[str, dict[str, str]] = {"none": {}, "two": {"m": zeros, "m2": zeros}}
        squares = {
            "none": {},
            "rows": {"r": rows},
            "norm": {"v": "torch.zeros(())"},
            "largest": {"v": zeros, "top": "torch.full_like(p, 1e-8)"},
        }
        counts = {"tensor": {"step": "torch.zeros(())"}, "state": {"step": "0"}}
        slow = {"slow": copied}
        extras = {"slow": slow, "average": slow, "every second": slow, "previous": {"old": zeros}}
        return {
            **moments.get(self.moment, {"m": zeros}),
            **squares.get(self.square, {"v": zeros}),
            **counts.get(self.count, {}),
            **extras.get(self.extra, {}),
        }

    def make_source(self) -> str:
        """Return the source of a function that makes the optimizer of parameters."""
        begin = [f"state[{k!r}] = {v}" for k, v in self._list_slots().items()]
        lines = ["def make(params, lr=0.05, b1=0.9, b2=0.97, wd=0.01, eps=1e-6):"]
        lines += ["    params = list(params)", "    closed = {}", "    class Drawn(Optimizer):"]
        lines += [indent(part, " " * 8) for part in (self._make_init(begin), self._make_find())]
        lines += [indent(self._make_step(begin), " " * 8), *self._make_groups()]
        return "\n".join(lines) + "\n"

    def _make_groups(self) -> list[str]:
        if self.groups == "one":
            return ["    return Drawn(params)"]
        first, second = "'params': params[::2], 'wd': 0.0", "'params': params[1::2], 'lr': 0.01"
        return [f"    return Drawn([{{{first}}}, {{{second}}}])"]

    def _make_init(self, begin: Sequence[str]) -> str:
        options = "dict(lr=lr, betas=(b1, b2), wd=wd, eps=eps, k=0, d=0.5, top=0.1)"
        lines = ["def __init__(self, given):", f"    super().__init__(given, {options})"]
        lines += ["    given = [p for group in self.param_groups for p in group['params']]"]
        lines += ["    self.k = 0", "    self.steps = [0 for p in given]"]
        lines += ["    self.rate = torch.tensor(lr)", "    self.estimate = torch.tensor(0.3)"]
        lines += ["    self.inside, self.keeper, self.parts = {}, Keeper(), [{} for p in given]"]
        if self.kept in ("in init", "in lists", "in a closure", "in an object"):
            lines += [
                "    for index, p in enumerate(given):",
                "        state = self.find(p, index)",
            ]
            lines += [f"        {line}" for line in begin]
        return "\n".join(lines)

    def _make_find(self) -> str:
        found = {
            "lazily": "self.state[p]",
            "in init": "self.state[p]",
            "in lists": "self.parts[index]",
            "in a closure": "closed.setdefault(index, {})",
            "in an object": "self.keeper.__dict__.setdefault(f'of_{index}', {})",
            "by key": "self.inside.setdefault(p, {})",
        }[self.kept]
        return f"def find(self, p, index):\n    return {found}"

    def _make_step(self, begin: Sequence[str]) -> str:
        body = ["number, every = -1, []", *self._count_once()]
        body += ["for group in self.param_groups:", *self._indent(self._make_group(begin))]
        body += self._change_rates()
        head = "def step(self, closure=None):"
        if self.guard == "decorator":
            return "\n".join(["@torch.no_grad()", head, *self._indent(body)])
        if self.guard == "with":
            return "\n".join([head, "    with torch.no_grad():", *self._indent(self._indent(body))])
        body = [line.replace("g = p.grad", "g = p.grad.data") for line in body]
        return "\n".join([head, "    with torch.no_grad():", *self._indent(self._indent(body))])

    def _indent(self, lines: Sequence[str]) -> list[str]:
        return [f"    {line}" for line in lines]

    def _count_once(self) -> list[str]:
        return {"attribute": ["self.k += 1"]}.get(self.count, [])

    def _make_group(self, begin: Sequence[str]) -> list[str]:
        lines = ["lr, (b1, b2), wd, eps = group['lr'], group['betas'], group['wd'], group['eps']"]
        if self.count == "group":
            lines += ["k = group['k']", "group['k'] += 1", "t = k + 1"]
        if self.rate == "warm":
            lines.append("lr = lr * min(1.0, T / 3)".replace("T", self._get_count()))
        if self.rate == "estimate":
            lines.append("lr = lr * self.estimate")
        if self.rate == "in a tensor":
            lines.append("lr = self.rate")
        if self.rate in ("largest", "item"):
            lines.append("lr = lr * group['d']")
        lines.append("active = [p for p in group['params'] if p.grad is not None]")
        lines.append("every += active")
        if self.clip == "of all":
            lines.append("torch.nn.utils.clip_grad_norm_(active, 0.5)")
        lines.append("lists = ([], [], [])")
        lines += ["for p in group['params']:", "    number += 1", "    if p.grad is None:"]
        lines += ["        continue", *self._indent(self._update_one(begin))]
        if self.write == "foreach":
            lines += ["if lists[0]:", *self._indent(self._write_lists())]
        return lines

    def _get_count(self) -> str:
        return {
            "tensor": "1.0",
            "state": "1.0",
            "group": "t",
            "attribute": "self.k",
            "lists": "self.steps[0]",
        }[self.count]

    def _update_one(self, begin: Sequence[str]) -> list[str]:
        lines = ["g = p.grad", "state = self.find(p, number)"]
        if self.kept in ("lazily", "by key") and begin:
            test = self._pick(
                ("not state", "len(state) == 0", f"{begin[0][6:].split(']')[0]} not in state")
            )
            lines += [f"if {test}:", *self._indent(begin)]
        lines += {
            "tensor": ["state['step'] += 1", "t = state['step']"],
            "state": ["state['step'] += 1", "t = state['step']"],
            "attribute": ["t = self.k"],
            "lists": ["self.steps[number] += 1", "t = self.steps[number]"],
        }.get(self.count, [])
        lines += self._clip_one()
        lines += {
            "coupled": ["g = g.add(p, alpha=wd)"],
            "decoupled": ["p.mul_(1 - lr * wd)"],
            "by dimension": ["if p.ndim >= 2:", "    p.mul_(1 - lr * wd)"],
        }.get(self.decay, [])
        lines += self._move_moments() + self._find_denominator() + self._direct()
        lines += self._apply() + self._do_extra()
        return lines

    def _clip_one(self) -> list[str]:
        return {
            "norm": ["g = g * (0.5 / (g.norm() + 1e-6)).clamp(max=1.0)"],
            "value": ["p.grad.clamp_(-0.05, 0.05)"],
            "ratio": ["g = g / torch.clamp(g.norm() / (0.1 * p.norm() + 1e-3), min=1.0)"],
            "centered": [
                "if g.dim() > 1:",
                "    g = g - g.mean(dim=tuple(range(1, g.dim())), keepdim=True)",
            ],
        }.get(self.clip, [])

    def _move_moments(self) -> list[str]:
        lines = {
            "none": ["u = g.clone()"],
            "mul add": ["state['m'].mul_(b1).add_(g, alpha=1 - b1)", "u = state['m'].clone()"],
            "lerp": ["state['m'].lerp_(g, 1 - b1)", "u = state['m'].clone()"],
            "new": ["state['m'] = b1 * state['m'] + (1 - b1) * g", "u = state['m'].clone()"],
            "sum": ["m = state['m']", "m.mul_(b1)", "m += g", "u = m * 0.1"],
            "two": [
                "state['m'].lerp_(g, 1 - b1)",
                "torch.add(state['m2'] * b2, g, alpha=1 - b2, out=state['m2'])",
                "u = state['m'] + 0.5 * state['m2']",
            ],
        }[self.moment]
        if self.correction in ("both", "numbers") and self.moment != "none":
            lines.append("u = u / (1 - b1 ** t)")
        return lines

    def _find_denominator(self) -> list[str]:
        lines = {
            "none": [],
            "addcmul": ["state['v'].mul_(b2).addcmul_(g, g, value=1 - b2)", "v = state['v']"],
            "largest": [
                "state['v'].mul_(b2).addcmul_(g, g.conj(), value=1 - b2)",
                "torch.maximum(state['top'], state['v'], out=state['top'])",
                "v = state['top']",
            ],
            "rows": [
                "squares = g.square()",
                "if p.ndim > 1:",
                "    squares = squares.mean(-1, keepdim=True)",
                "state['r'].lerp_(squares, 1 - b2)",
                "v = state['r']",
            ],
            "norm": ["state['v'].mul_(b2).add_(g.pow(2).mean() * (1 - b2))", "v = state['v']"],
            "new": ["state['v'] = torch.lerp(state['v'], g * g, 1 - b2)", "v = state['v']"],
        }[self.square]
        if self.square == "none":
            return [*lines, "denom = torch.ones_like(p)"]
        root = "denom = v.sqrt().add_(eps)"
        count = "float(t)" if self.correction == "of math" and self.count == "never" else "t"
        return (
            lines
            + {
                "none": [root],
                "both": [f"denom = (v / (1 - b2 ** {count})).sqrt() + eps"],
                "root": ["denom = v.sqrt().mul_(t ** -0.5 + 0.5).add_(eps)"],
                "numbers": ["bias = 1 - b2 ** t", "denom = v.sqrt().div_(bias ** 0.5).add_(eps)"],
                "of math": [
                    "bias = 1 - math.pow(b2, t)",
                    "denom = (v.sqrt() / math.sqrt(bias)).add_(eps)",
                ],
            }[self.correction]
        )

    def _direct(self) -> list[str]:
        return {
            "plain": [],
            "sign": ["u = u.sign_()"],
            "cautious": [
                "mask = (u * g > 0).to(g.dtype)",
                "u.mul_(mask / mask.mean().clamp_(min=1e-3))",
            ],
            "unit": ["u = u / (u.norm() + 1e-6)"],
            "by dimension": ["if p.ndim == 2:", "    u = u / (u.norm(dim=1, keepdim=True) + 0.1)"],
            "nesterov": ["u = g.add(u, alpha=b1)"],
        }[self.direction]

    def _apply(self) -> list[str]:
        return {
            "alpha": ["p.add_(u / denom, alpha=-lr)"],
            "sub": ["p.sub_(lr * u / denom)"],
            "data": ["p.data.add_(u / denom * -lr)"],
            "addcdiv": ["p.addcdiv_(u, denom.expand_as(p), value=-lr)"],
            "copy": ["p.copy_(p - lr * (u / denom))"],
            "foreach": [
                "lists[0].append(p)",
                "lists[1].append(u)",
                "lists[2].append(denom.expand_as(p))",
            ],
        }[self.write]

    def _write_lists(self) -> list[str]:
        each = "lr" if self.rate in ("in a tensor", "estimate") else "[-lr for p in lists[0]]"
        factors = f"value=-{each}" if each == "lr" else each  # torch's lists hold numbers only
        return self._rng.choice(
            [
                ["torch._foreach_addcdiv_(lists[0], lists[1], lists[2], value=-lr)"],
                [
                    "updates = torch._foreach_div(lists[1], lists[2])",
                    "torch._foreach_add_(lists[0], updates, alpha=-lr)",
                ],
                [
                    "updates = torch._foreach_div(lists[1], lists[2])",
                    "torch._foreach_mul_(updates, lr)",
                    "torch._foreach_sub_(lists[0], updates)",
                ],
                [f"torch._foreach_addcdiv_(lists[0], lists[1], lists[2], {factors})"],
            ]
        )

    def _do_extra(self) -> list[str]:
        return {
            "none": [],
            "slow": ["state['slow'].lerp_(p, 0.5)", "p.copy_(state['slow'])"],
            "average": ["state['slow'].mul_(0.9).add_(p, alpha=0.1)"],
            "first": ["if 'seen' not in state:", "    state['seen'] = g.clone()"],
            "previous": ["p.add_(state['old'], alpha=-0.01)", "state['old'].copy_(u)"],
            "every second": (
                [
                    "turn = t % 2 == 0",
                    "state['slow'] = torch.where(turn, p.clone(), state['slow'])",
                ]
                if self.count == "tensor"
                else ["state['slow'] = (state['slow'] + p) / 2"]
            ),
            "noise": ["p.add_(torch.randn_like(p), alpha=1e-3)"],
        }[self.extra]

    def _change_rates(self) -> list[str]:
        return {
            "falls": ["for group in self.param_groups:", "    group['lr'] *= 0.9"],
            "largest": [
                "for group in self.param_groups:",
                "    group['d'] = max(group['d'], group['d'] * 1.05)",
            ],
            "estimate": [
                "total = sum((p.grad * p).sum() for p in every)",
                "self.estimate = torch.maximum(self.estimate, total * 0.5)",
            ],
            "in a tensor": ["self.rate.mul_(0.95)"],
            "item": [
                "size = torch.stack([p.grad.abs().mean() for p in every]).mean().item()",
                "for group in self.param_groups:",
                "    group['d'] = max(group['d'], size * 10)",
            ],
        }.get(self.rate, [])


def make_optimizer(seed: int) -> Callable[[Any], torch.optim.Optimizer]:
    """Return the drawn function that makes an optimizer of parameters."""
    source, path = Draw(seed).make_source(), f"drawn_{seed}.py"
    linecache.cache[path] = (len(source), None, source.splitlines(keepends=True), path)
    variables = {"torch": torch, "math": math, "Keeper": Keeper}
    variables |= {"Optimizer": torch.optim.Optimizer, "__name__": f"drawn_{seed}"}
    exec(compile(source, path, "exec"), variables)  # noqa: S102 - it is ours
    made: Callable[[Any], torch.optim.Optimizer] = variables["make"]  # type: ignore[assignment]  # what it defines
    return made


def make_recipe(seed: int) -> TrainingRecipe:
    """Return a recipe that trains with a drawn optimizer, which may have made steps."""
    model = Network()
    optimizer = make_optimizer(seed)(p for p in model.parameters() if p.requires_grad)
    recipe = TrainingRecipe(model, lambda m, x, y: F.cross_entropy(m(x), y), optimizer, DATA)
    if Draw(seed).earlier == "yes":
        for step in (100, 101):
            train(recipe, step)
        optimizer.zero_grad()
    return recipe
