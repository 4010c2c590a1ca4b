"""A script that speaks to torch._dynamo: settings, marks, questions, explain, the wrapper, and its state dict."""

import json

import torch
import torch._dynamo
import torch._dynamo.config
from torch._dynamo import mark_dynamic
from torch._dynamo.eval_frame import OptimizedModule

torch._dynamo.config.cache_size_limit = 16
torch._dynamo.config.suppress_errors = False
torch._dynamo.config.capture_scalar_outputs = True


def pool(x):
    if torch.compiler.is_compiling() or torch.compiler.is_dynamo_compiling():
        return x.mean(0)
    return x.sum(0) / x.shape[0]


@torch._dynamo.disable
def logged(x, log=[]):
    log.append(tuple(x.shape))
    return len(log)


@torch.compiler.allow_in_graph
def custom(x):
    return x.clamp(-1, 1)


@torch._dynamo.assume_constant_result
def constant():
    return 3


def step(x):
    y = custom(pool(x) * constant())
    torch._dynamo.graph_break()
    logged(y)
    return y + 1


def main():
    torch.manual_seed(0)
    results = {}
    compiled = torch._dynamo.optimize("inductor")(step)
    for rows in (5, 6, 9):
        x = torch.randn(rows, 4)
        mark_dynamic(x, 0, min=2, max=100)
        torch._dynamo.mark_static(x, 1)
        results[f"rows {rows}"] = compiled(x).tolist()
    model = torch.nn.Linear(4, 2)
    wrapped = torch.compile(model)
    assert isinstance(wrapped, OptimizedModule) and isinstance(wrapped, torch._dynamo.OptimizedModule)
    assert not isinstance(model, OptimizedModule)
    results["keys"] = [list(wrapped.state_dict()), list(wrapped._orig_mod.state_dict())]
    wrapped.load_state_dict({"_orig_mod." + k: torch.ones_like(v) for k, v in model.state_dict().items()})
    results["loaded"] = wrapped(torch.ones(3, 4)).tolist()
    with torch._dynamo.config.patch(recompile_limit=4), torch.compiler.set_stance("force_eager"):
        results["eager"] = compiled(torch.ones(5, 4)).tolist()
    explanation = torch._dynamo.explain(step)(torch.randn(3, 4))
    results["compiler"] = {"breaks": explanation.graph_break_count >= 1}
    try:
        torch.compile(step, fullgraph=True)(torch.randn(3, 4))
        results["compiler"]["fullgraph"] = "no error"
    except torch._dynamo.exc.Unsupported as error:
        results["compiler"]["fullgraph"] = "graph" in str(error)
    assert "inductor" in torch._dynamo.list_backends()
    torch._dynamo.reset()
    torch.compiler.reset()
    results["again"] = compiled(torch.ones(2, 4)).tolist()
    return results


if __name__ == "__main__":
    print(json.dumps(main()))
