"""Files of users with something wrong in them: a program of parts, one or two of which are others.

The parts are the lines of a small program. Each other part is what somebody may write by mistake,
or on purpose; some of them are all right.
"""

from collections.abc import Iterator, Mapping
from random import Random

_HEAD = """import torch
from torch import nn
from moot.offchain.frontend.recipe import TrainingRecipe
"""

PARTS: Mapping[str, str] = {
    "head": _HEAD,
    "forward": "return self.linear(x)",
    "init": "pass",
    "batch": "return (torch.ones(2, 4) * (step + 1),)",
    "loss": "return model(x).square().mean()",
    "optimizer": "torch.optim.SGD(model.parameters(), 0.1)",
    "recipe": "TrainingRecipe(model=model, loss=loss, optimizer=optimizer, batch=batch)",
    "build": "def build(seed):",
    "tail": "",
}

TEMPLATE = """{head}

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        {init}

    def forward(self, x):
        {forward}


def loss(model, x):
    {loss}


def batch(step):
    {batch}


{build}
    torch.manual_seed(seed)
    model = Net()
    optimizer = {optimizer}
    return {recipe}

{tail}
"""

_FOREVER = "iter(torch.ones(1, 2, 4))"
_RECIPE = PARTS["recipe"]

OTHERS: Mapping[str, tuple[str, ...]] = {
    "head": (
        _HEAD + "import nowhere_at_all",
        _HEAD + "from torch import nowhere_at_all",
        _HEAD + "raise SystemExit(3)",
        _HEAD + "exit()",
        _HEAD + "1 / 0",
        _HEAD + "x = (",
        _HEAD + "print('loaded')",
        _HEAD + "import logging; logging.warning('loaded')",
        _HEAD + "x = '\udce9'",
        _HEAD + "import warnings; warnings.simplefilter('error')",
        "import torch",
        "",
    ),
    "forward": (
        "return None",
        "return 'text'",
        "return self.linear(x), None",
        "return self.linear(x).half()",
        "return self.linear(x).numpy()",
        "return self.linear(x)[5]",
        "return self.linear(x.T)",
        "return self.missing(x)",
        "return self.forward(x)",
        "yield self.linear(x)",
        "raise ValueError('two\\nlines')",
        "raise SystemExit(0)",
        "raise Exception",
        "print(x, self.linear(x).mean().item()); return self.linear(x)",
        "import logging; logging.warning('%s %d', x, 3); return self.linear(x)",
        "open('written', 'w').write('x'); return self.linear(x)",
        "import time; return self.linear(x) * time.time()",
        "import os; return self.linear(x) * int(os.environ['NOWHERE'])",
        "import random; return self.linear(x) * random.random()",
        "import sys; sys.stdout.write('x'); return self.linear(x)",
        "assert x.sum() < 0, 'negative only'; return self.linear(x)",
        "assert x.shape[0] == 3, 'three rows'; return self.linear(x)",
        "import warnings; warnings.warn('beware'); return self.linear(x)",
        "del self.linear; return x",
        "self.linear = nn.Linear(4, 3); return self.linear(x)",
        "self.linear.weight = nn.Parameter(torch.ones(3, 4)); return self.linear(x)",
        "with torch.no_grad(): return self.linear(x)",
        "return self.linear(x).detach()",
        "return self.linear(x).to('cuda')",
        "return self.linear(x).to('meta')",
        "return torch.load('nowhere.pt') * self.linear(x)",
        "return x",
        "await x",
        "return self.linear(x) * float(x.sum())",
        "while True: x = x + self.linear(x).sum(); break\n        return x",
        "input(); return self.linear(x)",
        "import subprocess; subprocess.run(['false'], check=True); return self.linear(x)",
        "import threading; threading.Thread(target=print).start(); return self.linear(x)",
    ),
    "init": (
        "self.half()",
        "self.double()",
        "self.to('meta')",
        "self.linear.weight.requires_grad_(False); self.linear.bias.requires_grad_(False)",
        "self.register_buffer('x', torch.ones(2, dtype=torch.complex64))",
        "self.register_buffer('x', None)",
        "self.register_buffer('x', torch.ones(2).to_sparse())",
        "self.lazy = nn.LazyLinear(3)",
        "self.linear.weight.data.fill_(float('nan'))",
        "self.extra = nn.Parameter(torch.ones(0))",
        "self.linear = torch.compile(self.linear)",
        "self.linear = torch.jit.script(self.linear)",
        "self.linear.register_forward_hook(lambda *_: 'text')",
        "raise RuntimeError('no model')",
        "self.linear.weight.grad = torch.ones(3, 4)",
        "self.training = None",
        "self.parameters = None",
    ),
    "batch": (
        "return None",
        "return torch.ones(2, 4)",
        "return 'text'",
        "return []",
        "return ()",
        "return (None,)",
        "return (1.0,)",
        "return ([[1.0] * 4] * 2,)",
        "return (torch.ones(2, 5),)",
        "return (torch.ones(2, 4), torch.ones(2))",
        "return {'x': torch.ones(2, 4)}",
        "return {'x': torch.ones(2, 4)} if step != 7 else {'y': torch.ones(2, 4)}",
        "return (torch.ones(2, 4),) if step != 7 else (torch.ones(2, 4).double(),)",
        "return (torch.ones(2, 4),) if step != 7 else None",
        "return (torch.ones(2 + step % 2, 4),)",
        "return (torch.rand(2, 4),)",
        "import numpy; return (numpy.ones((2, 4)),)",
        "import time; return (torch.ones(2, 4) * time.time(),)",
        "return (torch.ones(2, 4).half(),)",
        "return (torch.ones(2, 4).double(),)",
        "return (torch.ones(2, 4, requires_grad=True),)",
        "return (torch.ones(2, 4).to_sparse(),)",
        "return (torch.ones(2, 4, device='meta'),)",
        "return (next(ONCE),)",
        "return (next(iter([])),)",
        "raise ValueError('no data')",
        "raise StopIteration",
        "if step > 3: raise IndexError(step)\n    return (torch.ones(2, 4),)",
        "yield torch.ones(2, 4)",
        "return open('nowhere.csv')",
        "return (torch.load('nowhere.pt'),)",
        "print(step); return (torch.ones(2, 4),)",
        "open('written', 'w').write('x'); return (torch.ones(2, 4),)",
        "return (torch.full((2, 4), float('nan')),)",
        "return (torch.ones(0, 4),)",
        "return (torch.ones(2, 4).long(),)",
        "return step",
        "raise SystemExit",
        "return (nn.Parameter(torch.ones(2, 4)),)",
        "return (torch.ones(2, 4), 'text') if step != 7 else (torch.ones(2, 4), 'other')",
    ),
    "loss": (
        "return None",
        "return 3",
        "return 'text'",
        "return model(x)",
        "return (model(x).mean(), 1)",
        "return {'loss': model(x).mean()}",
        "return {'other': model(x).mean()}",
        "return model(x).mean().item()",
        "return model(x).mean().detach()",
        "return model(x).sum().long()",
        "return model(x).mean() * float('nan')",
        "return model(x, x).mean()",
        "return model.nowhere(x).mean()",
        "model(x).mean().backward(); return model(x).mean()",
        "yield model(x).mean()",
        "raise KeyError('target')",
        "return nn.functional.cross_entropy(model(x), torch.tensor([1, 7]))",
        "return nn.functional.mse_loss(model(x), x)",
        "return model(x).mean() if model(x).mean() > 0 else x.mean()",
        "global TOTAL; TOTAL = model(x).mean(); return TOTAL",
        "return model(x).mean().to(torch.complex64)",
        "return (m := model(x)).square().mean() + len(m.tolist())",
    ),
    "optimizer": (
        "None",
        "torch.optim.SGD",
        "'sgd'",
        "[]",
        "torch.optim.SGD(nn.Linear(1, 1).parameters(), 0.1)",
        "torch.optim.SGD([], 0.1)",
        "torch.optim.SGD(model.parameters(), -1)",
        "torch.optim.SGD(model.parameters(), float('nan'))",
        "torch.optim.SGD(model.parameters(), '0.1')",
        "torch.optim.LBFGS(model.parameters())",
        "[torch.optim.SGD(model.parameters(), 0.1)] * 2",
        "{'a': torch.optim.SGD(model.parameters(), 0.1)}",
        "torch.optim.lr_scheduler.StepLR(torch.optim.SGD(model.parameters(), 0.1), 1)",
        "lambda parameters: None",
        "object()",
        "0.1",
    ),
    "recipe": (
        "None",
        "model",
        "TrainingRecipe",
        "TrainingRecipe(model)",
        "TrainingRecipe(Net, loss, optimizer, batch)",
        "TrainingRecipe(None, loss, optimizer, batch)",
        "TrainingRecipe(model, None, optimizer, batch)",
        "TrainingRecipe(model, loss(model, torch.ones(2, 4)), optimizer, batch)",
        "TrainingRecipe(model, loss, optimizer, None)",
        "TrainingRecipe(model, loss, optimizer, [torch.ones(2, 4)])",
        f"TrainingRecipe(model, loss, optimizer, {_FOREVER})",
        _RECIPE[:-1] + ", seed='x')",
        _RECIPE[:-1] + ", seed=-1)",
        _RECIPE[:-1] + ", accumulate=0)",
        _RECIPE[:-1] + ", accumulate=2.5)",
        _RECIPE[:-1] + ", clip=1.0)",
        _RECIPE[:-1] + ", clip=lambda g: None)",
        _RECIPE[:-1] + ", scheduler=3)",
        _RECIPE[:-1] + ", colour='red')",
        f"[{_RECIPE}]",
        f"{_RECIPE}, 1",
        "{}['x']",
        "build(seed)",
        "nowhere",
    ),
    "build": (
        "def build():",
        "def build(seed, other):",
        "def build(*, seed):",
        "async def build(seed):",
        "def other(seed):",
        "class build:\n  def __init__(self, seed):",
        "build = 3\ndef other(seed):",
    ),
    "tail": (
        "import nowhere_at_all",
        "build = 3",
        "def build(:",
        "del build",
        "\timport x",
    ),
}
"""Part -> what may stand in its place."""


def make_file(others: Mapping[str, str]) -> str:
    """Return a file of which some parts are others."""
    source = TEMPLATE.format(**{**PARTS, **others})
    return source + ("ONCE = iter([torch.ones(2, 4)])\n" if "ONCE" in source else "")


def list_files() -> Iterator[dict[str, str]]:
    """Yield the parts of all files that have one other part, in an order that is drawn."""
    singles = [{part: other} for part, others in OTHERS.items() for other in others]
    Random(0).shuffle(singles)
    yield from singles


def draw_pair(seed: int) -> dict[str, str]:
    """Return two other parts of a file."""
    rng = Random(seed)
    one, two = rng.sample([*OTHERS], 2)
    return {part: rng.choice(OTHERS[part]) for part in (one, two)}
