"""Whole training steps: a module of drawn layers, a loss, an optimizer of torch's with its options, and what people do
around them (clipping, schedules, averages of weights, frozen layers, hooks, scalers, states saved and loaded,
generators, modes). Either the step is compiled or only the module.
"""

from __future__ import annotations

import textwrap

from ..program import Program
from ..values import Dice

SAMPLE = 2

# What a layer has in the module's constructor, and what its `forward` does; `{n}` is the layer's number.
LAYERS = (
    ("self.masked{n} = Masked()\nself.masked{n}.register_full_backward_hook(doubled_floats)",
     "x, kept = self.masked{n}(x, x.detach() > 0)\nx = x + kept"),
    ("self.l{n} = nn.Linear(4, 4)", "x = self.l{n}(x)"),
    ("self.l{n} = nn.Linear(4, 4, bias=False)", "x = F.gelu(self.l{n}(x)) + x"),
    ("self.l{n} = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))", "x = self.l{n}(x)"),
    ("self.l{n} = nn.LayerNorm(4)", "x = self.l{n}(x)"),
    ("self.l{n} = nn.BatchNorm1d(4)", "x = x + self.l{n}(x * 2)"),
    ("self.l{n} = nn.GroupNorm(2, 4)", "x = self.l{n}(x)"),
    ("self.l{n} = nn.Dropout(0.25)", "x = self.l{n}(x)"),
    ("self.l{n} = nn.Embedding(5, 4)", "x = x + self.l{n}(torch.arange(x.shape[0]) % 5)"),
    ("self.l{n} = nn.Embedding(5, 4, padding_idx=0)", "x = x * self.l{n}(torch.arange(x.shape[0]) % 5).sigmoid()"),
    ("self.l{n} = nn.GRU(4, 4, batch_first=True)", "x = x + self.l{n}(x.unsqueeze(0))[0][0]"),
    ("self.l{n} = nn.LSTM(4, 4)",
     "x = self.l{n}(nn.utils.rnn.pack_sequence([x, x[:2]], enforce_sorted=False))[1][0][0].mean(0)"
     " + x"),
    ("self.l{n} = nn.MultiheadAttention(4, 2, batch_first=True)", "x = x + self.l{n}(x[None], x[None], x[None])[0][0]"),
    ("self.l{n} = nn.Parameter(torch.linspace(-1, 1, 16).view(4, 4))", "x = torch.tanh(x @ self.l{n})"),
    ("self.l{n} = nn.ParameterList([torch.ones(4) * k for k in range(3)])",
     "for p in self.l{n}:\n    x = x + p.sin()"),
    ("self.l{n} = nn.ModuleDict({{'a': nn.Linear(4, 4), 'b': nn.Identity()}})",
     "x = sum(layer(x) for layer in self.l{n}.values())"),
    ("self.register_buffer('seen{n}', torch.zeros((), dtype=torch.int64))",
     "if self.training:\n    self.seen{n} += x.shape[0]\nx = x / (1 + self.seen{n})"),
    ("self.register_buffer('mean{n}', torch.zeros(4))",
     "if self.training:\n    with torch.no_grad():\n        self.mean{n}.lerp_(x.mean(0), 0.1)\nx = x - self.mean{n}"),
    ("self.l{n} = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))", "x = self.l{n}(x)"),
    ("self.l{n} = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))", "x = self.l{n}(x).relu()"),
    ("self.l{n} = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))", "x = self.l{n}(x)"),
    ("self.l{n} = nn.Linear(4, 4)\nself.tied{n} = nn.Linear(4, 4)\nself.tied{n}.weight = self.l{n}.weight",
     "x = self.tied{n}(self.l{n}(x).tanh())"),
    ("self.l{n} = nn.Linear(4, 4)",
     "x = torch.utils.checkpoint.checkpoint(self.l{n}, x, use_reentrant=False).sigmoid() + x"),
    ("self.l{n} = nn.Linear(4, 4)",  # what is recomputed does its work on the list once more
     "runs = [0]\ndef counted(z):\n    runs[0] += 1\n    return self.l{n}(z).sin()\nself.runs.append(runs)\n"
     "x = torch.utils.checkpoint.checkpoint(counted, x, use_reentrant=False)"),
    ("self.l{n} = nn.Linear(4, 4)", "x = Through.apply(self.l{n}(x))"),
    ("self.l{n} = nn.Conv1d(1, 1, 3, padding=1)", "x = self.l{n}(x.unsqueeze(1)).squeeze(1)"),
    ("self.l{n} = nn.Linear(4, 4).requires_grad_(False)", "x = self.l{n}(x) * 0.5 + x"),
    ("self.calls{n} = 0", "self.calls{n} += 1\nx = x * (1 + self.calls{n} % 2)"),
    ("self.l{n} = nn.PReLU(4)", "x = self.l{n}(x)"),
    ("self.l{n} = nn.RReLU()", "x = self.l{n}(x)"),
)

OPTIMIZERS = (
    "torch.optim.SGD({p}, lr=0.1)", "torch.optim.SGD({p}, lr=0.1, momentum=0.9, nesterov=True)",
    "torch.optim.SGD({p}, lr=0.1, momentum=0.5, dampening=0.1, weight_decay=0.01, maximize=True)",
    "torch.optim.SGD({p}, lr=0.1, foreach={flag})", "torch.optim.Adam({p}, lr=0.01)",
    "torch.optim.Adam({p}, lr=0.01, amsgrad=True, weight_decay=0.1)", "torch.optim.Adam({p}, lr=torch.tensor(0.01))",
    "torch.optim.Adam({p}, lr=0.01, foreach={flag})", "torch.optim.AdamW({p}, lr=0.01, betas=(0.8, 0.95))",
    "torch.optim.AdamW({p}, lr=0.01, capturable=False, fused={flag})",
    "torch.optim.RMSprop({p}, lr=0.01, centered=True)",
    "torch.optim.RMSprop({p}, lr=0.01, momentum=0.5)", "torch.optim.Adagrad({p}, lr=0.05, lr_decay=0.1)",
    "torch.optim.Adadelta({p}, lr=0.5)", "torch.optim.Adamax({p}, lr=0.01)", "torch.optim.NAdam({p}, lr=0.01)",
    "torch.optim.RAdam({p}, lr=0.01)", "torch.optim.ASGD({p}, lr=0.05)", "torch.optim.Rprop({p}, lr=0.01)",
)

SCHEDULES = (
    "torch.optim.lr_scheduler.StepLR(optimizer, 2)", "torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)",
    "torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)",
    "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda k: 1 / (k + 1))",
    "torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=3)",
    "torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20, cycle_momentum=False)",
)

LOSSES = (
    "F.mse_loss(y, t)", "F.l1_loss(y, t)", "F.smooth_l1_loss(y, t)", "F.cross_entropy(y, t.argmax(1))",
    "F.cross_entropy(y, t.softmax(1), label_smoothing=0.1)", "(y - t).pow(2).sum()", "F.huber_loss(y, t, delta=0.5)",
    "F.kl_div(y.log_softmax(1), t.softmax(1), reduction='batchmean')",
    "F.cosine_embedding_loss(y, t, torch.ones(len(y)))",
    "F.binary_cross_entropy_with_logits(y, t.sigmoid())",
    "y.square().mean() + 0.01 * sum(p.norm() for p in model.parameters())",
)

# In front of the optimizer's step, once there are gradients.
BEFORE_STEP = (
    "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    "log.append(nn.utils.clip_grad_norm_(model.parameters(), 1.0, norm_type=1.0))",
    "nn.utils.clip_grad_value_(model.parameters(), 0.2)",
    "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.mul_(0.5)",
    "for p in model.parameters():\n    if p.grad is not None:\n        p.grad = p.grad + 0.1 *"
    " torch.randn(p.shape, generator=numbers, dtype=p.dtype)",
    "log.append(sum(p.grad.abs().sum() for p in model.parameters() if p.grad is not None))",
    "torch._foreach_mul_([p.grad for p in model.parameters() if p.grad is not None], 0.5)",
    "if not torch.isfinite(loss):\n    return loss",
    "optimizer.param_groups[0]['lr'] = optimizer.param_groups[0]['lr'] * 0.9",
)

AFTER_STEP = (
    "log.append(loss.item())", "log.append(loss.detach())",
    "with torch.no_grad():\n    for mine, theirs in zip(average.parameters(), model.parameters()):\n"
    "        mine.lerp_(theirs, 0.25)",
    "torch._foreach_lerp_([p.detach() for p in average.parameters()], [p.detach() for p in model.parameters()], 0.25)",
    "average.load_state_dict(model.state_dict())",
    "model.load_state_dict({name: value.clone() for name, value in model.state_dict().items()})",
    "saved = optimizer.state_dict()\noptimizer.load_state_dict(saved)",
    "log.append(len(optimizer.state))", "log.append([group['lr'] for group in optimizer.param_groups])",
    "log.append(sorted(model.state_dict()))", "log.append(average(x).mean().detach())",
    "model.eval()\nlog.append(model(x).detach().sum())\nmodel.train()",
    "counts['steps'] += 1\nif counts['steps'] == 2:\n    next(model.parameters()).requires_grad_(False)",
    "counts['steps'] += 1\nif counts['steps'] % 2:\n    fs.graph_break()",
    "print('step', counts['steps'])",
    "with torch.no_grad():\n    for p in model.parameters():\n        p.clamp_(-1.5, 1.5)",
    "optimizer.zero_grad()",
    "model.zero_grad(set_to_none=False)",
    "log.append(copy.deepcopy(model)(x).detach().mean())",
    "log.append(nn.utils.parameters_to_vector(model.parameters()).detach().sum())",
    "log.append(torch.func.functional_call(model, {name: p * 0.5 for name, p in model.named_parameters()}, (x,))"
    ".sum().detach())",
    "log.append(pickle.loads(pickle.dumps(model.state_dict())).keys() == model.state_dict().keys())",
)

# What is set up once.
SETUPS = (
    "for p in model.parameters():\n    if p.requires_grad:\n        p.register_hook(lambda gradient: gradient * 0.5)",
    "for name, p in model.named_parameters():\n    if p.requires_grad:\n"
    "        p.register_post_accumulate_grad_hook(doubled)",
    "model.register_forward_hook(lambda module, args, y: y * 1.5)",
    "model.register_forward_pre_hook(lambda module, args: (args[0] + 0.5,))",
    "model.register_full_backward_hook(lambda module, found, given: (found[0] if found[0] is None else found[0] * 2,))",
    "optimizer.register_step_pre_hook(lambda optimizer, args, kwargs: log.append('step'))",
    "optimizer.register_step_post_hook(lambda optimizer, args, kwargs: log.append(len(optimizer.state)))",
    "model.apply(lambda module: log.append(type(module).__name__))",
    "optimizer.add_param_group({'params': [extra], 'lr': 0.5, 'initial_lr': 0.5})",
    "model.share_memory()",
)

HEAD = '''import copy
import pickle

import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

import firesteel as fs


def doubled(p):  # which may return nothing: autograd would stop at the first parameter that it comes to
    p.grad.mul_(2)


class Through(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1)


def doubled_floats(module, found, given):
    module.given = len(given)
    return tuple(g * 2 if g is not None and g.is_floating_point() else g for g in found)


class Masked(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, mask, times=2):
        return self.linear(x) * mask * times, mask


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.runs = []
'''


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = Dice(seed)
    members, body = "", ""
    for number in range(dice.between(1, 4)):
        member, line = dice.choice(LAYERS)
        members += _indented(member.format(n=number), 2)
        body += _indented(line.format(n=number), 2)
    members += _indented("self.last = nn.Linear(4, 4)", 2)
    optimizer = dice.choice(OPTIMIZERS).format(p=_parameters(dice), flag=dice.choice(("True", "False")))
    whole = dice.chance(0.65)
    dtype = dice.choice(("float32", "float64"))
    step = _step(dice)
    setups = dice.sample(SETUPS, dice.weighted(((3, 0), (2, 1), (1, 2))))
    source = HEAD + members + f'''
    def forward(self, x):
{body}        return self.last(x)


def make():
    torch.manual_seed({dice.between(0, 99)})
    model, average = Model().{'double()' if dtype == 'float64' else 'float()'}, None
    average = copy.deepcopy(model)
    extra = nn.Parameter(torch.ones(2))
    optimizer = {optimizer}
    schedule = {dice.choice(SCHEDULES)}
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    numbers = torch.Generator().manual_seed(3)
    log, counts = [], {{"steps": 0}}
{_indented(chr(10).join(setups), 1)}
    def step(x, t, model=model):
{_indented(step, 2)}        return loss

    def before(index):
        {dice.choice(("pass", "pass", "model.train(index != 1)", "optimizer.param_groups[0]['lr'] = 0.1 / (index + 1)",
                      "average.load_state_dict(model.state_dict())"))}

    def observe():
        return {{"model": model.state_dict(), "optimizer": optimizer.state_dict()["state"], "log": log,
                "counts": counts, "runs": model.runs, "average": average.state_dict(),
                "gradients": [p.grad for p in model.parameters()]}}

    def rows(count, first, last):
        return torch.linspace(first, last, count * 4, dtype=torch.{dtype}).view(count, 4)

    calls = [((rows(count, -1, 1), rows(count, 1, -2)), {{}}) for count in {_batches(dice)}]
'''
    if whole:
        source += "    return step, calls, before, observe\n"
    else:
        source += '''
    def use(fn, args, kwargs):
        return step(*args, model=fn)

    return model, calls, before, observe, use
'''
    return Program(seed, source)


def _batches(dice: Dice) -> tuple[int, ...]:
    return dice.choice(((3, 3, 3), (3, 3, 4), (4, 3, 2, 4), (2, 5, 3), (3, 3)))


def _parameters(dice: Dice) -> str:
    return dice.weighted((
        (5, "model.parameters()"), (1, "[p for p in model.parameters() if p.requires_grad]"),
        (1, "[{'params': [p], 'weight_decay': 0.1 * (p.ndim > 1)} for p in model.parameters()]"),
        (1, "list(model.parameters())[::-1]"),
    ))


def _step(dice: Dice) -> str:
    """The lines of a step, from gradients set to nothing to what is written down in the end."""
    forward = f"y = model(x)\nloss = {dice.choice(LOSSES)}"
    kind = dice.weighted((
        (7, "plain"), (1, "closure"), (1, "autocast"), (2, "scaled"), (2, "grad"), (2, "accumulated"),
    ))
    zero = dice.choice(("optimizer.zero_grad()", "optimizer.zero_grad(set_to_none=False)",
                        "for p in model.parameters():\n    p.grad = None", "model.zero_grad()"))
    before = "\n".join(dice.sample(BEFORE_STEP, dice.weighted(((3, 0), (3, 1), (1, 2)))))
    after = "\n".join(dice.sample(AFTER_STEP, dice.between(0, 3)))
    schedule = dice.choice(("", "schedule.step()"))
    match kind:
        case "closure":
            inside = _indented("\n".join((zero, forward, "loss.backward()")), 1)
            closure = f"def closure():\n{inside}    return loss"
            lines = [closure, "loss = optimizer.step(closure)"]
        case "autocast":
            lines = [zero, f"with torch.autocast('cpu', torch.bfloat16):\n{_indented(forward, 1)}", "loss.backward()",
                     before, "optimizer.step()"]
        case "scaled":
            lines = [zero, forward, "scaler.scale(loss).backward()", "scaler.unscale_(optimizer)", before,
                     "scaler.step(optimizer)", "scaler.update()"]
        case "grad":
            lines = [forward, "wanted = [p for p in model.parameters() if p.requires_grad]",
                     "for p, gradient in zip(wanted, torch.autograd.grad(loss, wanted, allow_unused=True)):\n"
                     "    p.grad = gradient", before, "optimizer.step()"]
        case "accumulated":
            lines = [forward, "(loss / 2).backward()", "counts['steps'] += 1",
                     f"if counts['steps'] % 2 == 0:\n{_indented(f'{before}{chr(10)}optimizer.step()', 1)}"
                     "    optimizer.zero_grad()"]
        case _:
            lines = [zero, forward, "loss.backward()", before, "optimizer.step()"]
    return "\n".join(line for line in (*lines, schedule, after) if line)


def _indented(lines: str, depth: int) -> str:
    return textwrap.indent(lines.strip("\n") + "\n", "    " * depth) if lines.strip() else ""
