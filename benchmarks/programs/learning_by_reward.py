"""Reinforcement learning: REINFORCE, PPO and Q-learning in a small environment of our own."""

from __future__ import annotations

from collections import deque
from typing import Any

import torch
import torch.nn.functional as F
from tests.whole_programs.program import Call, Compile, program
from torch import nn
from torch.distributions import Categorical, Normal


class Pole:
    """A cart with a pole, as the textbooks have it, in plain Python."""

    def __init__(self) -> None:
        self.state = [0.0, 0.0, 0.0, 0.0]

    def reset(self) -> torch.Tensor:
        self.state = [float(v) for v in torch.empty(4).uniform_(-0.05, 0.05)]
        return torch.tensor(self.state)

    def step(self, action: int) -> tuple[torch.Tensor, float, bool]:
        x, speed, angle, turn = self.state
        push = 10.0 if action == 1 else -10.0
        accelerate = (9.8 * angle - push * 0.9) / 0.6
        speed, turn = speed + 0.02 * (push - 0.05 * accelerate), turn + 0.02 * accelerate
        self.state = [x + 0.02 * speed, speed, angle + 0.02 * turn, turn]
        return torch.tensor(self.state), 1.0, abs(self.state[0]) > 2.4 or abs(self.state[2]) > 0.2


@program("reinforce")
def reinforce(compile: Compile) -> Call:
    """REINFORCE: a compiled policy plays an episode, and a compiled loss learns from it; episodes differ in length."""
    policy = nn.Sequential(nn.Linear(4, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.Adam(policy.parameters(), 1e-2)
    pole = Pole()

    @compile
    def act(state: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        choice = Categorical(logits=policy(state))
        action = choice.sample()
        return action, choice.log_prob(action)

    @compile
    def learn(chances: list[torch.Tensor], returns: torch.Tensor) -> torch.Tensor:
        returns = (returns - returns.mean()) / (returns.std() + 1e-6)
        loss = -(torch.stack(chances) * returns).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    def episode(number: int) -> Any:
        state, chances, rewards, done = pole.reset(), [], [], False
        while not done and len(rewards) < 40:
            action, chance = act(state)
            state, reward, done = pole.step(int(action))
            chances.append(chance)
            rewards.append(reward)
        discounted: deque[float] = deque()
        total = 0.0
        for reward in reversed(rewards):
            total = reward + 0.99 * total
            discounted.appendleft(total)
        return len(rewards), learn(chances, torch.tensor(list(discounted)))

    return episode


@program("ppo")
def ppo(compile: Compile) -> Call:
    """PPO with continuous actions: advantages in a loop, four epochs of shuffled batches, clipping."""
    actor, critic = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 2)), \
        nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Linear(64, 1))
    spread = nn.Parameter(torch.zeros(2))
    parameters = [*actor.parameters(), *critic.parameters(), spread]
    optimizer = torch.optim.Adam(parameters, 3e-4)

    @compile
    def advantages(rewards: torch.Tensor, values: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        result, last = torch.zeros_like(rewards), torch.zeros(())
        for t in reversed(range(len(rewards))):
            following = values[t + 1] if t + 1 < len(rewards) else torch.zeros(())
            delta = rewards[t] + 0.99 * following * (1 - ended[t]) - values[t]
            last = delta + 0.99 * 0.95 * (1 - ended[t]) * last
            result[t] = last
        return result

    @compile
    def update(states: torch.Tensor, actions: torch.Tensor, old: torch.Tensor, gain: torch.Tensor,
               returns: torch.Tensor) -> Any:
        policy = Normal(actor(states), spread.exp())
        ratio = (policy.log_prob(actions).sum(-1) - old).exp()
        surrogate = torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
        value_loss = F.mse_loss(critic(states).squeeze(-1), returns)
        loss = -surrogate + 0.5 * value_loss - 0.01 * policy.entropy().sum(-1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        return loss.item(), value_loss.item()

    def call(number: int) -> Any:
        states = torch.randn(32, 8)
        with torch.no_grad():
            policy = Normal(actor(states), spread.exp())
            actions = policy.sample()
            old, values = policy.log_prob(actions).sum(-1), critic(states).squeeze(-1)
        gain = advantages(-actions.square().sum(-1), values, (torch.rand(32) < 0.05).float())
        returns, losses = gain + values, []
        for _ in range(4):
            for part in torch.randperm(32).split(16):
                losses.append(update(states[part], actions[part], old[part], gain[part], returns[part]))
        return losses

    return call


@program("dqn")
def dqn(compile: Compile) -> Call:
    """Q-learning with a target network that follows slowly, and a replay memory."""
    import copy

    online = nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4))
    target = copy.deepcopy(online)
    optimizer = torch.optim.AdamW(online.parameters(), 1e-3, amsgrad=True)
    memory = [torch.randn(512, 6), torch.randint(0, 4, (512, 1)), torch.randn(512), torch.randn(512, 6)]

    @compile
    def step(states: torch.Tensor, actions: torch.Tensor, rewards: torch.Tensor, following: torch.Tensor) -> Any:
        values = online(states).gather(1, actions)
        with torch.no_grad():
            best = target(following).max(1).values
        loss = F.smooth_l1_loss(values, (rewards + 0.99 * best).unsqueeze(1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(online.parameters(), 100)
        optimizer.step()
        for slow, fast in zip(target.parameters(), online.parameters()):
            slow.data.mul_(0.995).add_(fast.data, alpha=0.005)
        return loss

    def call(number: int) -> Any:
        chosen = torch.randint(0, 512, (64,))
        return step(*(part[chosen] for part in memory))

    return call
