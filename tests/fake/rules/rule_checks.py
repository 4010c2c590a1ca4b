"""What the tests of rules share: layouts that make strides interesting, a comparison with eager, a record of rules."""

import sys

import pytest
import torch
from tests.fake.tensor_meta import describe
from torch.utils import _pytree as pytree

from firesteel.fake import FakeMode, FakeTensor, FakeUnsupported
from firesteel.fake import mode as mode_module
from firesteel.fake.rules import find_rule, rule_names


def layouts(dtype=torch.float32):
    """Tensors of shape (2, 3, 4, 5) or near it in layouts that make strides interesting."""

    def make(*shape):
        return torch.ones(shape).to(dtype)

    return {
        "contiguous": make(2, 3, 4, 5),
        "permuted": make(5, 4, 3, 2).permute(3, 2, 1, 0),
        "half permuted": make(2, 4, 3, 5).transpose(1, 2),
        "channels last": make(2, 3, 4, 5).to(memory_format=torch.channels_last),
        "expanded": make(2, 1, 4, 1).expand(2, 3, 4, 5),
        "sliced": make(4, 6, 8, 10)[::2, ::2, ::2, ::2],
        "offset": make(3, 3, 4, 5)[1:],
        "ones": torch.ones(600).to(dtype).as_strided((1, 3, 1, 5), (100, 5, 77, 1)),
        "broadcast row": make(5),
        "broadcast middle": make(3, 1, 5),
        "no dims": make(),
        "empty": make(2, 0, 4, 5),
        "empty permuted": make(5, 4, 0, 2).permute(3, 2, 1, 0),
    }


def assert_same(fn, *args, **kwargs):
    """Run on real and on fake tensors; compare results or the fact of an error."""
    mode = FakeMode()
    fake_args, fake_kwargs = pytree.tree_map_only(torch.Tensor, mode.from_real, (args, kwargs))
    try:
        fake = mode.run(fn, fake_args, fake_kwargs)
    except (RuntimeError, IndexError, ValueError, TypeError, FakeUnsupported) as error:
        fake = error  # where eager raises, capture may also leave it to eager to raise
    try:
        real = fn(*args, **kwargs)
    except (RuntimeError, IndexError, ValueError, TypeError) as error:
        real = error
    if isinstance(real, NotImplementedError):
        return  # a kernel lacks a dtype; only running it can tell
    if isinstance(real, Exception):
        assert isinstance(fake, Exception), f"eager raises {real!r}, fake gives {fake!r}"
        return
    assert not isinstance(fake, Exception), f"fake raises {fake!r}"
    real_leaves, fake_leaves = pytree.tree_leaves(real), pytree.tree_leaves(fake)
    assert len(real_leaves) == len(fake_leaves)
    for r, f in zip(real_leaves, fake_leaves):
        if r is None:
            assert f is None
            continue
        assert type(f) is FakeTensor
        assert describe(f) == describe(r), fn
    # What shares storage with an argument in eager shares it here.
    for arg, fake_arg in zip(pytree.tree_leaves(args), pytree.tree_leaves(fake_args)):
        if isinstance(arg, torch.Tensor):
            for r, f in zip(real_leaves, fake_leaves):
                if r is None:
                    continue
                same = r.untyped_storage()._cdata == arg.untyped_storage()._cdata
                assert (f.storage_key == fake_arg.storage_key) == same


class RuleRecorder:
    """Notes which rules gave an answer in the tests of one file. A rule without a test is a rule that may be wrong."""

    def __init__(self, path):
        self.path = path
        self.called = set()
        self.executed = 0

    def fixture(self):
        """To be assigned in the test file, for all its tests."""

        @pytest.fixture(autouse=True)
        def record_rules(monkeypatch):
            self.executed += 1
            original = mode_module._look_up

            def look_up(func):
                operator = original(func)
                rule = operator.rule
                if rule is not None and find_rule(str(func)) is rule:

                    def recording(*args, **kwargs):
                        result = rule(*args, **kwargs)
                        if result is not NotImplemented:
                            self.called.add(str(func))
                        return result

                    operator.rule = recording
                return operator

            monkeypatch.setattr(mode_module, "_operators", {})
            monkeypatch.setattr(mode_module, "_look_up", look_up)

        return record_rules

    def untested(self, request, files):
        """The rules of these files that no test of the file reached. Skips when not all of its tests ran here."""
        ours = [item for item in request.session.items if str(item.path) == self.path]
        if self.executed < len(ours) or "-k" in sys.argv:
            pytest.skip("needs the other tests of this file to have run in this process")
        named = {name for name in rule_names() if find_rule(name).__module__.rpartition(".")[2] in files}
        return named - self.called
