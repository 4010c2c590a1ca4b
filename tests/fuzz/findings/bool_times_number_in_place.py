# mul_ of a bool tensor by a number computed something, where eager says that the result does not fit.
import torch


def make():
    def fn(x):
        y = x.clone()
        try:
            y[:2].mul_(2)
        except RuntimeError:
            return y, "refused"
        return y, "computed"

    calls = [((torch.tensor([True, False, True]),), {})]

    def before(index):
        pass

    def observe():
        return {}

    return fn, calls, before, observe
