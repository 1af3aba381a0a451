"""Programs of practice: preferences and rewards, reinforcement learning, world models."""

import copy

import torch
import torch.nn.functional as F
from torch import nn
from torch.distributions import Categorical, Normal
from torch.optim import SGD, Adam, AdamW

from moot.offchain.frontend.clipping import ClipNorm
from moot.offchain.frontend.recipe import TrainingRecipe
from tests.corpus.practice_batches import WORDS, both, labelled, numbers, texts


class _Language(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed, self.norm = nn.Embedding(WORDS, width), nn.LayerNorm(width)
        self.gru, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, WORDS)

    def forward(self, tokens):
        return self.head(self.norm(self.gru(self.embed(tokens))[0]))

    def log_probs(self, tokens):
        logits = self(tokens[:, :-1])
        return logits.log_softmax(-1).gather(-1, tokens[:, 1:, None]).squeeze(-1)


class _Aligned(nn.Module):
    """A policy, and the reference that it begins as."""

    def __init__(self):
        super().__init__()
        self.policy = _Language()
        self.reference = copy.deepcopy(self.policy).requires_grad_(False)

    def ratios(self, tokens):
        with torch.no_grad():
            reference = self.reference.log_probs(tokens).sum(-1)
        return self.policy.log_probs(tokens).sum(-1) - reference


PAIRS = texts((3, 6), (3, 6))


def _align(loss, batch=PAIRS):
    model = _Aligned()
    return TrainingRecipe(model, loss, AdamW(model.policy.parameters(), lr=1e-3), batch)


def dpo():
    """Direct preference optimization, a little conservative."""

    def loss(model, chosen, rejected, beta=0.1, doubt=0.1):
        margin = beta * (model.ratios(chosen) - model.ratios(rejected))
        return (-F.logsigmoid(margin) * (1 - doubt) - F.logsigmoid(-margin) * doubt).mean()

    return _align(loss)


def ipo():
    """Identity preference optimization: a square loss on means of log ratios."""

    def loss(model, chosen, rejected, tau=0.1):
        margin = (model.ratios(chosen) - model.ratios(rejected)) / chosen.shape[1]
        return ((margin - 1 / (2 * tau)) ** 2).mean()

    return _align(loss)


def kto():
    """Kahneman and Tversky's optimization, with a reference point from mismatched texts."""

    def loss(model, texts, good, beta=0.1):
        ratios = model.ratios(texts)
        with torch.no_grad():
            point = model.ratios(texts.roll(1, 0)).mean().clamp(min=0)
        sign = torch.where(good > 0, 1.0, -1.0)
        weight = torch.where(good > 0, 1.0, 1.33)
        return (weight * (1 - torch.sigmoid(beta * sign * (ratios - point)))).mean()

    return _align(loss, both(texts((4, 6)), texts((4,), words=2)))


def simpo():
    """SimPO: mean log probabilities without a reference, with a margin."""

    def loss(model, chosen, rejected, beta=2.0, gamma=0.5):
        better, worse = model.log_probs(chosen).mean(-1), model.log_probs(rejected).mean(-1)
        return -F.logsigmoid(beta * (better - worse) - gamma).mean()

    model = _Language()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), PAIRS)


def orpo():
    """ORPO: likelihood of the chosen text, and the logarithm of the odds."""

    def loss(model, chosen, rejected):
        a, b = model.log_probs(chosen).mean(-1), model.log_probs(rejected).mean(-1)
        odds = a - b - (torch.log1p(-a.exp()) - torch.log1p(-b.exp()))
        return -a.mean() - 0.1 * F.logsigmoid(odds).mean()

    model = _Language()
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), PAIRS)


def reward_model():
    """A reward model by Bradley and Terry, that reads the last token that is no padding."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.score = _Language(), nn.Linear(WORDS, 1, bias=False)

        def forward(self, tokens):
            last = (tokens != 0).sum(1).clamp(min=1) - 1
            return self.score(self.trunk(tokens))[torch.arange(len(tokens)), last, 0]

    def loss(model, chosen, rejected):
        return -F.logsigmoid(model(chosen) - model(rejected)).mean()

    model = Model()
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), PAIRS)


def grpo():
    """GRPO: advantages within groups, a clipped ratio, and a penalty towards the reference."""

    def loss(model, tokens, rewards, old, eps=0.2, beta=0.04):
        groups = rewards.view(2, 4)
        advantage = (groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)
        advantage = advantage.view(-1, 1)
        logp = model.policy.log_probs(tokens)
        with torch.no_grad():
            reference = model.reference.log_probs(tokens)
        ratio = torch.exp(logp - (reference + 0.01 * old))
        gain = torch.min(ratio * advantage, ratio.clamp(1 - eps, 1 + eps) * advantage)
        penalty = (reference - logp).exp() - (reference - logp) - 1
        mask = (tokens[:, 1:] != 0).float()
        return -((gain - beta * penalty) * mask).sum() / mask.sum()

    return _align(loss, both(texts((8, 6)), numbers((8,), (8, 5))))


def dr_grpo_and_gspo():
    """GSPO's ratios of whole sequences, with Dr. GRPO's advantages that are not divided."""

    def loss(model, tokens, rewards):
        advantage = (rewards.view(2, 4) - rewards.view(2, 4).mean(1, keepdim=True)).flatten()
        logp = model.policy.log_probs(tokens)
        ratio = (logp - model.reference.log_probs(tokens).detach()).mean(-1).exp()
        return -torch.minimum(ratio * advantage, ratio.clamp(0.9997, 1.0004) * advantage).mean()

    return _align(loss, both(texts((8, 6)), numbers((8,))))


def ppo():
    """PPO with generalized advantages, a clipped value, and a bonus of entropy."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(4, 16), nn.Tanh())
            self.actor, self.critic = nn.Linear(16, 3), nn.Linear(16, 1)

        def forward(self, states):
            h = self.trunk(states)
            return Categorical(logits=self.actor(h)), self.critic(h).squeeze(-1)

    def loss(model, states, rewards, old, actions, gamma=0.99, lam=0.95):
        policy, values = model(states)
        with torch.no_grad():
            deltas = rewards[:-1] + gamma * values[1:] - values[:-1]
            advantages, running = [], torch.zeros(())
            for delta in reversed(deltas.unbind()):
                running = delta + gamma * lam * running
                advantages.insert(0, running)
            advantages = torch.stack(advantages)
            returns = advantages + values[:-1]
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        ratio = (
            policy.log_prob(actions)[:-1] - policy.log_prob(actions)[:-1].detach() + 0.1 * old[:-1]
        ).exp()
        surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        value = F.mse_loss(values[:-1], returns)
        return -surrogate.mean() + 0.5 * value - 0.01 * policy.entropy().mean()

    model = Model()
    batch = both(numbers((8, 4), (8,), (8,)), texts((8,), words=3))
    optimizer = Adam(model.parameters(), lr=3e-4, eps=1e-5)
    return TrainingRecipe(model, loss, optimizer, batch, clip=ClipNorm(0.5))


def reinforce():
    """REINFORCE: actions are sampled in the step, and rewarded where they are right."""

    def loss(model, states, best):
        policy = Categorical(logits=model(states))
        actions = policy.sample()
        rewards = (actions == best).float()
        return -(policy.log_prob(actions) * (rewards - rewards.mean())).mean()

    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-2), labelled((8, 4), 3))


def leave_one_out():
    """RLOO: four samples of each state, each with the mean of the others as its baseline."""

    def loss(model, states, best):
        policy = Categorical(logits=model(states))
        actions = policy.sample((4,))
        rewards = (actions == best).float() - 0.1 * actions
        baseline = (rewards.sum(0) - rewards) / 3
        return -(policy.log_prob(actions) * (rewards - baseline)).mean()

    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-2), labelled((6, 4), 3))


def dueling_double_dqn():
    """Double DQN with a dueling head, a Huber loss, and a target that follows slowly."""

    class Dueling(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
            self.value, self.advantage = nn.Linear(16, 1), nn.Linear(16, 3)

        def forward(self, x):
            h = self.trunk(x)
            a = self.advantage(h)
            return self.value(h) + a - a.mean(-1, keepdim=True)

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.online, self.target = Dueling(), Dueling()
            self.target.load_state_dict(self.online.state_dict())
            self.target.requires_grad_(False)

    def loss(model, states, following, rewards, actions):
        with torch.no_grad():
            for slow, fast in zip(
                model.target.parameters(), model.online.parameters(), strict=True
            ):
                slow.lerp_(fast, 0.05)
            best = model.online(following).argmax(-1, keepdim=True)
            target = rewards + 0.99 * model.target(following).gather(-1, best).squeeze(-1)
        found = model.online(states).gather(-1, actions[:, None]).squeeze(-1)
        return F.smooth_l1_loss(found, target)

    model = Agent()
    batch = both(numbers((8, 4), (8, 4), (8,)), texts((8,), words=3))
    return TrainingRecipe(model, loss, Adam(model.online.parameters(), lr=1e-3), batch)


def hard_target_updates():
    """DQN whose target is copied every second step, by a counter in a buffer."""

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.online = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 3))
            self.target = copy.deepcopy(self.online).requires_grad_(False)
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))

    def loss(model, states, following, rewards, actions):
        with torch.no_grad():
            model.steps += 1
            turn = model.steps % 2 == 0
            for t, p in zip(model.target.parameters(), model.online.parameters(), strict=True):
                t.copy_(torch.where(turn, p, t))
            target = rewards + 0.99 * model.target(following).max(1).values
        return F.mse_loss(model.online(states).gather(1, actions.unsqueeze(1))[:, 0], target)

    model = Agent()
    batch = both(numbers((8, 4), (8, 4), (8,)), texts((8,), words=3))
    return TrainingRecipe(model, loss, SGD(model.online.parameters(), lr=1e-2), batch)


def quantile_regression_dqn():
    """QR-DQN: quantiles of the return, by the quantile Huber loss."""

    def loss(model, states, following, rewards, actions):
        found = model(states).view(-1, 3, 5)
        found = found[torch.arange(len(actions)), actions]
        with torch.no_grad():
            following = model(following).view(-1, 3, 5)
            best = following.mean(-1).argmax(-1)
            target = rewards[:, None] + 0.9 * following[torch.arange(len(best)), best]
        errors = target[:, None] - found[:, :, None]
        taus = ((torch.arange(5) + 0.5) / 5)[None, :, None]
        weights = (taus - (errors.detach() < 0).float()).abs()
        huber = F.huber_loss(
            found[:, :, None].expand_as(errors), target[:, None].expand_as(errors), reduction="none"
        )
        return (weights * huber).sum(1).mean()

    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 15))
    batch = both(numbers((6, 4), (6, 4), (6,)), texts((6,), words=3))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch)


def categorical_dqn():
    """C51: the distribution of the return is projected on atoms by index_add."""

    def loss(model, states, following, rewards, actions, low=-2.0, high=2.0, atoms=11):
        support = torch.linspace(low, high, atoms)
        step, rows = (high - low) / (atoms - 1), torch.arange(len(actions))
        with torch.no_grad():
            probs = model(following).view(-1, 3, atoms).softmax(-1)
            best = (probs * support).sum(-1).argmax(1)
            place = (rewards[:, None] + 0.9 * support).clamp(low, high)
            place = ((place - low) / step).clamp(max=atoms - 1)
            down, up = place.floor().long(), place.ceil().long()
            target, p = torch.zeros(len(rows), atoms), probs[rows, best]
            whole = (down == up).float()
            target.scatter_add_(1, down, p * (up - place + whole))
            target.scatter_add_(1, up, p * (place - down))
        logits = model(states).view(-1, 3, atoms)[rows, actions]
        return -(target * logits.log_softmax(-1)).sum(-1).mean()

    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 33))
    batch = both(numbers((6, 4), (6, 4), (6,)), texts((6,), words=3))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch)


def soft_actor_critic():
    """SAC: two critics, a squashed normal policy, a learned temperature, three optimizers."""

    def mlp(enter, leave):
        return nn.Sequential(nn.Linear(enter, 16), nn.ReLU(), nn.Linear(16, leave))

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = mlp(4, 4)
            self.critics = nn.ModuleList(mlp(6, 1) for _ in range(2))
            self.targets = copy.deepcopy(self.critics).requires_grad_(False)
            self.log_alpha = nn.Parameter(torch.zeros(()))

        def act(self, states):
            mean, log_std = self.actor(states).chunk(2, -1)
            normal = Normal(mean, log_std.clamp(-5, 2).exp())
            raw = normal.rsample()
            squash = 2 * (0.6931472 - raw - F.softplus(-2 * raw))
            return raw.tanh(), (normal.log_prob(raw) - squash).sum(-1)

    def value(critics, states, actions):
        x = torch.cat([states, actions], -1)
        return torch.min(critics[0](x), critics[1](x)).squeeze(-1)

    def loss(model, states, following, rewards, actions):
        alpha = model.log_alpha.exp()
        with torch.no_grad():
            for t, p in zip(model.targets.parameters(), model.critics.parameters(), strict=True):
                t.mul_(0.995).add_(0.005 * p)
            a, logp = model.act(following)
            target = rewards + 0.99 * (value(model.targets, following, a) - alpha * logp)
        x = torch.cat([states, actions.tanh()], -1)
        critic = sum(F.mse_loss(c(x).squeeze(-1), target) for c in model.critics)
        a, logp = model.act(states)
        model.critics.requires_grad_(False)
        actor = (alpha.detach() * logp - value(model.critics, states, a)).mean()
        model.critics.requires_grad_(True)
        return critic + actor - (model.log_alpha * (logp.detach() - 2.0)).mean()

    model = Agent()
    optimizers = [
        Adam(model.actor.parameters(), lr=3e-4),
        Adam(model.critics.parameters()),
        Adam([model.log_alpha], lr=3e-4),
    ]
    return TrainingRecipe(model, loss, optimizers, numbers((8, 4), (8, 4), (8,), (8, 2)))


def implicit_q_learning():
    """IQL: an expectile of the value, and a policy by weighted regression."""

    def mlp(enter, leave):
        return nn.Sequential(nn.Linear(enter, 16), nn.SiLU(), nn.Linear(16, leave))

    class Agent(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.v, self.policy = mlp(6, 1), mlp(4, 1), mlp(4, 2)

    def loss(model, states, following, rewards, actions):
        q = model.q(torch.cat([states, actions], 1))[:, 0]
        v = model.v(states)[:, 0]
        gap = q.detach() - v
        expectile = (torch.abs(0.7 - (gap < 0).float()) * gap**2).mean()
        target = (rewards + 0.99 * model.v(following)[:, 0]).detach()
        weight = torch.exp(3 * gap.detach()).clamp(max=100.0)
        imitate = (weight * (model.policy(states) - actions).pow(2).sum(1)).mean()
        return expectile + F.mse_loss(q, target) + imitate

    model = Agent()
    batch = numbers((8, 4), (8, 4), (8,), (8, 2))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=3e-4), batch)


def conservative_q_learning():
    """CQL: values of actions that the data lacks are kept low."""

    def loss(model, states, following, rewards, actions):
        q = model(states)
        taken = q.gather(1, actions[:, None])[:, 0]
        with torch.no_grad():
            target = rewards + 0.99 * model(following).amax(1)
        return F.mse_loss(taken, target) + (q.logsumexp(1) - taken).mean()

    model = nn.Sequential(nn.Linear(4, 16), nn.LayerNorm(16), nn.Mish(), nn.Linear(16, 3))
    batch = both(numbers((8, 4), (8, 4), (8,)), texts((8,), words=3))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=3e-4), batch)


def decision_transformer():
    """Returns, states and actions are one sequence; actions are predicted from states."""

    class Model(nn.Module):
        def __init__(self, width=16):
            super().__init__()
            self.reward, self.state = nn.Linear(1, width), nn.Linear(4, width)
            self.action, self.time = nn.Embedding(3, width), nn.Embedding(5, width)
            block = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0, batch_first=True)
            self.trunk = nn.TransformerEncoder(block, 1, enable_nested_tensor=False)
            self.head = nn.Linear(width, 3)

        def forward(self, returns, states, actions):
            parts = [self.reward(returns[..., None]), self.state(states), self.action(actions)]
            x = torch.stack(parts, 2) + self.time.weight[None, :, None]
            x = x.flatten(1, 2)
            mask = torch.ones(x.shape[1], x.shape[1]).triu(1).bool()
            return self.head(self.trunk(x, mask=mask).view(len(x), 5, 3, -1)[:, :, 1])

    def loss(model, states, rewards, actions):
        returns = rewards.flip(1).cumsum(1).flip(1)
        return F.cross_entropy(model(returns, states, actions).flatten(0, 1), actions.flatten())

    model = Model()
    batch = both(numbers((3, 5, 4), (3, 5)), texts((3, 5), words=3))
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), batch)


def world_model():
    """Dreamer's world model: categorical latents with straight-through, balanced divergences."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.cell, self.prior = nn.GRUCell(10, 8), nn.Linear(8, 8)
            self.posterior, self.decode = nn.Linear(14, 8), nn.Linear(16, 6)
            self.reward = nn.Linear(16, 1)

    def divergence(a, b):
        return (a.exp() * (a - b)).sum((-1, -2)).clamp(min=0.1).mean()

    def loss(model, seen, actions, rewards):
        h, z, total = torch.zeros(3, 8), torch.zeros(3, 8), 0.0
        for t in range(seen.shape[1]):
            h = model.cell(torch.cat([z, actions[:, t]], -1), h)
            prior = model.prior(h).view(3, 2, 4).log_softmax(-1)
            logits = model.posterior(torch.cat([h, seen[:, t]], -1)).view(3, 2, 4)
            posterior = torch.log(0.99 * logits.softmax(-1) + 0.01 / 4)
            index = torch.multinomial(posterior.exp().view(-1, 4), 1)
            hard = F.one_hot(index.view(3, 2), 4).float()
            z = (hard + posterior.exp() - posterior.exp().detach()).flatten(1)
            x = torch.cat([h, z], -1)
            total = total + F.mse_loss(model.decode(x), seen[:, t])
            total = total + F.mse_loss(model.reward(x)[:, 0], rewards[:, t])
            total = total + 0.5 * divergence(posterior.detach(), prior)
            total = total + 0.1 * divergence(posterior, prior.detach())
        return total / seen.shape[1]

    model = Model()
    batch = numbers((3, 3, 6), (3, 3, 2), (3, 3))
    return TrainingRecipe(model, loss, Adam(model.parameters(), lr=1e-3), batch, clip=ClipNorm(100))


def random_network_distillation():
    """Curiosity: a network predicts a random one, its errors are scaled by running statistics."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.random = nn.Linear(4, 8).requires_grad_(False)
            self.predict = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 8))
            self.norm = nn.BatchNorm1d(4, affine=False, momentum=0.01)

        def forward(self, x):
            x = self.norm(x).clamp(-5, 5)
            return (self.predict(x) - self.random(x)).pow(2).mean(-1)

    model = Model()
    trained = Adam(model.predict.parameters(), lr=1e-3)
    return TrainingRecipe(model, lambda m, x: m(x).mean(), trained, numbers((8, 4)))


def muzero_unrolled():
    """MuZero: a model is unrolled, with halved gradients, and values as two-hot targets."""

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.represent, self.move = nn.Linear(4, 8), nn.Linear(11, 8)
            self.value, self.policy = nn.Linear(8, 7), nn.Linear(8, 3)

    def two_hot(x):
        x = (x.sign() * ((x.abs() + 1).sqrt() - 1)).clamp(-3, 3) + 3
        low = x.floor().long().clamp(max=5)
        share = (x - low).unsqueeze(-1)
        return F.one_hot(low, 7) * (1 - share) + F.one_hot(low + 1, 7) * share

    def loss(model, states, values, actions):
        h, total = model.represent(states).tanh(), 0.0
        for t in range(actions.shape[1]):
            logp = model.value(h).log_softmax(-1)
            total = total - (two_hot(values[:, t]) * logp).sum(-1).mean()
            total = total + F.cross_entropy(model.policy(h), actions[:, t])
            h = model.move(torch.cat([h, F.one_hot(actions[:, t], 3).float()], -1)).tanh()
            h = 0.5 * h + 0.5 * h.detach()
        return total

    model = Model()
    batch = both(numbers((4, 4), (4, 3)), texts((4, 3), words=3))
    return TrainingRecipe(model, loss, AdamW(model.parameters(), lr=1e-3), batch)
