"""Templates for statements (macros: see `writer`).

A line `weight | code` begins a template, lines `| code` go on with it.
"""

from __future__ import annotations

import re

Table = list[tuple[float, str]]


def table(text: str) -> Table:
    """Read templates written one after the other."""
    rows: Table = []
    for line in text.strip("\n").split("\n"):
        match = re.fullmatch(r" *([\d.]*) *\| (.*)", line)
        assert match, line
        weight, code = match.groups()
        if weight:
            rows.append((float(weight), code))
        else:
            rows[-1] = (rows[-1][0], rows[-1][1] + "\n" + code)
    return rows


TENSORS = table("""
  14 | $new(a: T) = $like(a)
   4 | $set(a: T) = $like(a)
   2 | $set(a: T) += $like(a)
   2 | $new(a: T2) = $like(a)
     | $newlike(b: a) = $a * 2 - $like(a)
   1 | $new(a: int) = int($v(Tn).shape[0] * 2 + $lit)
   1 | $tmp(rows), *$tmp(rest) = $v(T2).shape
     | $new(a: int) = $rows + len($rest)
   1 | $tmp(p), $tmp(q) = $v(T2).shape
     | $new(a: T) = $like(a) + $p * $q
   1 | $tmp(a) = $e(T).long()
     | $new(b: int) = $a.dim()
   2 | $inplace(a: T).add_($like(a))
   1 | $inplace(a: T).mul_(0.5)
   1 | $inplace(a: Tn)[0] = $float
   1 | $inplace(a: T2)[:, 1] = $a[:, 0] * 0.5
   1 | $inplace(a: T).clamp_(-2, 2).sub_(0.25)
   1 | $inplace(a: Tn)[1:] += 1
   1 | $inplace(a: T).copy_($like(a))
   1 | $owned(a: T) *= 0.5
   1 | $tmp(row) = $inplace(a: T2)[0]
     | $row.mul_(2).tanh_()
   1 | $use(add_into)($inplace(a: T), $like(a))
   1 | torch.add($inplace(a: T), 1, out=$a) if not $a.requires_grad else None
   1 | $tmp(mask) = $v(a: T) > 0
     | $new(b: T1) = $like(b)
     | $newlike(c: a) = torch.where($mask, $a, $like(a))
 0.5 | $tmp(mask) = $v(T2) > 0
     | $new(a: int) = 2 if $mask.any() else 3
   1 | $new(a: list[T]) = [$item(a) for _ in range($small)]
   1 | $tmp(a) = [$tmp(p) * 2 for $p in $v(b: list[T])]
   1 | $v(b: list[T]).append($item(b))
   1 | $v(a: list[T])[0] = $item(a)
   1 | $tmp(c) = torch.stack($v(a: list[T]), dim=0)
     | $newitem(b: a) = $c.sum(0)
   1 | $tmp(c) = torch.cat([$tmp(p).reshape(-1) for $p in $v(list[T])])
     | $new(n: int) = $c.numel()
     | $new(b: T) = $like(b) + $c.sum()
   1 | $v(a: dict[T])[$key] = $item(a)
   1 | $tmp(p), $tmp(q) = $v(a: T2).split([1, $a.shape[1] - 1], dim=1)
     | $new(b: T) = $like(b) * $q.mean() + $p.sum()
   1 | $tmp(values), $tmp(where) = $v(Tn).max(dim=0)
     | $new(a: T) = $like(a) + $values.sum() - $where.sum()
   1 | torch.manual_seed($lit)
     | $new(a: T) = F.dropout($like(a), 0.5)
 0.5 | $new(a: float) = random.random()
 0.5 | $new(a: int) = random.randint(0, $lit)
 0.7 | if $v(T).sum() > $lit + 0.37:
     |     $body
     | else:
     |     $body
 0.5 | $new(a: float) = $v(T).sum().item() * 0.5
     | $new(b: T) = $like(b) * $a
 0.3 | $new(a: list[float]) = [0.0, *$v(T).flatten()[:2].tolist()]
 0.5 | $tmp(kept) = $v(a: T)[$a > 0.25]
     | $new(n: int) = $kept.numel() % 7
     | $new(b: T) = $like(b) + $kept.sum() - $kept.shape[0]
 0.4 | $tmp(places) = torch.nonzero($v(T) > 0)
     | $new(n: int) = len($places) % 5
     | $new(b: T) = $like(b) * $places.float().sum()
 0.4 | $tmp(n) = int(($v(T) > 0).sum())
     | $new(b: T) = $like(b) + torch.arange($n).sum() + $v(Tn).flatten()[:$n].sum()
 0.3 | $tmp(n) = $v(T).sum().item()
     | assert $n < 1e30, 'large'
     | $new(b: T) = $like(b) * $n
 0.3 | $tmp(n) = $v(T).detach().round().clamp(-3, 3).sum().int().item()
     | $new(m: int) = $n % 5 + $lit
     | $new(b: T) = $like(b) + $v(Tn).flatten()[$n % 2]
   1 | $tmp(g) = $v(a: T).detach().requires_grad_()
     | $tmp(out) = ($g * $g).sum()
""")

SCALARS = table("""
   5 | $new(a: int) = $int
   3 | $set(a: int) = $int
   3 | $set(a: int) += $int
   2 | $set(a: int) = ($a * 3 + $int) % 101
   3 | $new(a: float) = $float
   1 | $set(a: float) = $float * 0.5
   3 | $new(a: str) = $str
   1 | $set(a: str) = ($a + $str)[-16:]
   2 | $new(a: bool) = $bool
   2 | $new(a: int), $new(b: int) = $int, $int
   1 | $set(a: int), $new(b: int) = $int, $a
   1 | $new(a: int), *$tmp(rest) = $v(list[int])
     | $new(b: int) = len($rest)
   1 | *$tmp(rest), $new(a: int) = range($small + 1)
   1 | $new(a: int) = $new(b: int) = $int
   2 | print($str, $int)
   1 | print(f'{$v(int)} {$v(Tn).shape[0]}', $bool, sep='|')
   1 | print($v(list[int]), $v(dict[int]))
   1 | assert isinstance($int, int), $str
   1 | $tmp(gone) = $int
     | $new(a: int) = $gone + 1
     | del $gone
   1 | if ($new(a: int) := $int) > $lit:
     |     $body
   1 | import math as $tmp(m)
     | $new(a: float) = $m.sqrt(abs($float))
""")

CONTAINERS = table("""
   2 | $new(a: list[int]) = [$int, $int, $int]
   2 | $new(a: list[int]) = [$tmp(p) * $small + $int for $p in range($small)]
   1 | $new(a: list[int]) = [$tmp(p) + $tmp(q) for $p in range(3) for $q in range(2) if $p != $q]
   1 | $new(a: list[int]) = sorted($v(list[int]), key=lambda p: (-p % 5, p), reverse=$bool)
   1 | $new(a: list[int]) = list(reversed($v(list[int])))
   1 | $new(a: list[int]) = [$lit] + list(map(lambda p: p + $int, $v(list[int])))
   1 | $new(a: list[int]) = [$lit, *filter(None, $v(list[int]))]
   1 | $new(a: list[int]) = [p * q for p, q in zip($v(list[int]), itertools.count($lit))]
   1 | $new(a: list[int]) = list(itertools.chain($v(list[int]), [$int], range($small)))
   1 | $new(a: list[int]) = list(itertools.islice(itertools.cycle($v(list[int])), 4))
   1 | $new(a: list[int]) = list(itertools.accumulate($v(list[int]), lambda p, q: (p + q) % 13))
   1 | $new(a: list[int]) = [p + q for p, q in itertools.product($v(list[int])[:2], range(2))]
   1 | $new(a: list[int]) = list($use(countdown)($small))
 0.5 | $new(a: list[int]) = [len(list(p)) for _, p in itertools.groupby($v(list[int]), key=lambda q: q % 2)]
 0.5 | $new(a: list[int]) = [p - q for p, q in itertools.pairwise([$int, $int, $int])]
 0.5 | $new(a: list[int]) = list(itertools.takewhile(lambda p: p < $lit, $v(list[int]))) or [$int]
 0.5 | $new(a: list[int]) = copy.copy($v(list[int]))
 0.5 | $new(a: dict[int]) = copy.deepcopy($v(dict[int]))
 0.5 | $new(a: list[int]) = $v(list[int])
   3 | $v(list[int]).append($int)
   1 | $v(list[int]).extend(($int, $int))
   1 | $v(list[int]).insert(1, $int)
   1 | $v(list[int]).sort()
   1 | $v(list[int]).reverse()
   1 | $v(list[int])[-1] = $int
   1 | $v(list[int])[1:1] = [$int]
   1 | $v(list[int])[0] += $int
   1 | if len($v(a: list[int])) > 2:
     |     $tmp(last) = $a.pop()
     |     $a[0] = $last
     |     del $a[1]
   1 | if $lit in $v(a: list[int]) and len($a) > 1:
     |     $a.remove($a[0])
   1 | $new(a: tuple[int]) = (*$v(list[int])[:2], $int)
   1 | $new(a: tuple[int]) = $v(tuple[int]) + ($int,)
   2 | $v(dict[int])[$key] = $int
   1 | $v(dict[int]).update(c=$int, a=$int)
   1 | $v(dict[int]).setdefault($key, $int)
   1 | $v(dict[int]).pop('zz', None)
   1 | if 'c' in $v(a: dict[int]):
     |     del $a['c']
   1 | $v(a: dict[int])['a'] = $a.pop('a') + 1
   1 | $new(a: dict[int]) = {p: q + 1 for p, q in $v(dict[int]).items()}
   1 | $new(a: dict[int]) = {**$v(dict[int]), 'e': $int}
   1 | $new(a: dict[int]) = $v(dict[int]) | {$key: $int}
   1 | $new(a: list[int]) = list($v(dict[int]).values())
   1 | $tmp(keys) = list($v(dict[int]))
     | $new(a: str) = '-'.join($keys)
   1 | $tmp(dd) = collections.defaultdict(list)
     | for $tmp(p) in $v(list[int]):
     |     $dd[$p % 2].append($p)
     | $new(a: list[int]) = [$lit, *$dd[0]]
     | print(dict($dd))
   1 | $tmp(dd) = collections.defaultdict(int)
     | for $tmp(p) in $str:
     |     $dd[$p] += 1
     | $new(a: int) = sum($dd.values())
   1 | $v(counter[int]).update(['a', $key])
 0.5 | $new(a: str) = str($v(counter[int]).most_common(2))
   1 | $new(a: set[int]) = {$int, $int} | {$lit}
   1 | $v(set[int]).add($int)
   1 | $v(set[int]).update(map(abs, $v(list[int])))
 0.5 | if len($v(a: set[int])) > 1:
     |     $a.discard(max($a))
   1 | $new(a: list[int]) = [0, *sorted($v(set[int]) ^ {1, 2, $int})]
   1 | for $bind(p: int) in sorted($v(set[int]))[:3]:
     |     $body(loop)
 0.5 | $new(a: list[int]) = [$lit] + [p for p in $v(set[int])]
   1 | $v(deque[int]).append($int)
   1 | $v(deque[int]).appendleft($int)
   1 | if len($v(a: deque[int])) > 1:
     |     $a.rotate(1)
     |     $a.popleft()
 0.5 | $tmp(d) = collections.OrderedDict(a=$int, b=$int)
     | $d.move_to_end('a')
     | $new(a: list[int]) = list($d.values())
   1 | $tmp(grid) = [[$int, 0], [0, $int]]
     | $grid[0][1] = $grid[1]
     | $new(a: list[int]) = $grid[0][1]
 0.5 | $tmp(it) = iter($v(list[int]))
     | $new(a: int) = next($it)
     | $new(b: int) = next($it, $int)
 0.5 | $tmp(it) = enumerate($v(list[int]), $lit)
     | $new(a: int) = sum(p * q for p, q in $it) % 53
""")

FUNCTIONS = table("""
   2 | def $new(f: fn[int])($bind(p: int), q=$int):
     |     $fbody
     |     return ($p * 2 + q + $int) % 67
   2 | def $new(f: fn[T])($binditem(p: f), *, k=$float):
     |     $fbody
     |     return $p * k + $item(f)
   1 | $new(f: fn[int]) = lambda p: (p + $int) % 59
   1 | $new(f: fn[T]) = lambda p: p * $float + $item(f)
   1 | $tmp(f) = functools.partial(operator.add, $int)
   1 | $new(c: int) = $int
     | def $tmp(bump)(by=1):
     |     nonlocal $c
     |     $c = ($c + by) % 71
     |     return $c
     | $bump()
     | $new(r: int) = $bump($int)
   1 | $new(c: T) = $like(c)
     | def $tmp(step)():
     |     nonlocal $c
     |     $c = $c * 0.5 + $like(c)
     | for _ in range($small):
     |     $step()
   1 | def $tmp(tick)():
     |     global TOTAL
     |     TOTAL += $lit
     |     return TOTAL
     | $new(a: int) = $tick()
   1 | def $tmp(gen)(limit):
     |     for p in range(limit):
     |         if p % 2:
     |             continue
     |         yield p * $lit
     | $new(a: list[int]) = list($gen($small + 2))
   1 | def $tmp(gen)(t):
     |     received = yield t * 2
     |     yield received + 1 if received else t
     | $tmp(it) = $gen($v(a: T))
     | $newlike(b: a) = next($it)
     | $newlike(c: a) = $it.send(None) - $b
   1 | $new(a: T) = $like(a)
     | for $tmp(row) in $use(rows)($v(T2)):
     |     $a = $a + $row.sum()
   1 | $new(a: T) = $like(a) + sum(p.sum() for p in $use(delegating)($v(T2)))
   1 | $new(a: T) = $use(apply_all)($like(a), torch.relu, functools.partial($use(scale_shift), scale=$float))
   1 | @$use(traced)
     | def $tmp(inner)(p, *args, **kwargs):
     |     return p + sum(args) + len(kwargs)
     | $new(a: int) = $inner($int, $int, $lit, z=$int)
   1 | $tmp(many) = [lambda p, k=k: p * k for k in range(3)]
     | $new(a: int) = sum(f($int) for f in $many) % 83
   1 | def $tmp(fact)(n):
     |     return 1 if n <= 1 else n * $fact(n - 1)
     | $new(a: int) = $fact($small)
   1 | def $tmp(outer)(t):
     |     def inner(s):
     |         return t + s
     |     return inner
     | $tmp(add) = $outer($v(a: T))
     | $newlike(b: a) = $add($like(a))
   1 | $tmp(args), $tmp(kw) = ($int, $lit), {'high': $lit}
     | $new(a: int) = $use(clip)(*$args, **$kw)
 0.5 | $tmp(getter) = operator.itemgetter('a', 'b')
     | $new(a: int), $new(b: int) = $getter($v(dict[int]))
 0.5 | $tmp(later) = (p * 2 for p in [$int, $int])
     | $new(a: int) = next($later)
     | $later.close()
""")

OBJECTS = table("""
   2 | $v(obj[Box]).value = $int
   1 | $v(obj[Box]).doubled = $int
   1 | $v(obj[Box]).notes.append($str)
   1 | $v(a: obj[Box]).value += $int
   1 | setattr($v(obj[Box]), 'extra', $v(T))
   1 | $v(a: obj[Box]).extra = $int
     | del $a.extra
   1 | $new(b: obj[Box]) = $v(obj[Box]) + $v(obj[Box])
   1 | $tmp(top) = sorted([$v(obj[Box]), $use(Box)($int)])[0]
     | $new(a: int) = $top.value
   1 | $new(a: int) = sum([$v(obj[Box]), $use(Box)($int)], start=$use(Box)(0)).value
   1 | $v(obj[Lazy]).known = $int
   1 | $new(a: obj[Child]) = $use(Child)($int)
   1 | $v(obj[Child]).tag += $word
   1 | $use(Parent).limit += 1
   1 | $new(a: obj[Vec]) = $use(Vec)($e(T), weight=$float)
     | $new(b: T) = $like(b) + $a.scaled().sum()
   1 | $v(a: obj[Vec]).weight = $float
     | $a.tags.append($int)
   1 | $new(b: float) = ($v(obj[Vec]) * $float).weight
   1 | $new(a: int), $new(b: int) = $v(obj[Point])
   1 | $new(a: int) = $use(Point)($int, right=$int).span()
   1 | class $tmp(Local)($use(Box)):
     |     scale = $lit
     |     def plus(self, n):
     |         return super().__add__(n)
     | $new(a: int) = $Local($int).plus($int).value + $Local.scale
   1 | class $tmp(Holder):
     |     marks = [$int]
     |     def __init__(self, t):
     |         self.t = t
     |     def __call__(self, s):
     |         return self.t * 2 + s
     | $tmp(h) = $Holder($v(a: T))
     | $newlike(b: a) = $h($like(a))
   1 | class $tmp(Meter):
     |     unit = $use(Clamped)(0, 9)
     |     count = 0
     |     @classmethod
     |     def make(cls, n):
     |         cls.count += 1
     |         made = cls()
     |         made.unit = n
     |         return made
     |     @property
     |     def twice(self):
     |         return self.unit * 2
     |     def __eq__(self, other):
     |         return self.unit == other.unit
     | $tmp(m) = $Meter.make($int)
     | $new(a: int) = $m.twice + $Meter.make($lit).count + ($m == $m)
   1 | $tmp(start) = $v(a: T) + 1
     | class $tmp(Base):
     |     def __init_subclass__(cls, factor=1, **kwargs):
     |         super().__init_subclass__(**kwargs)
     |         cls.factor = factor
     |     def go(self, t):
     |         return t * self.factor
     | class $tmp(Derived)($Base, factor=$lit):
     |     def go(self, t):
     |         return super().go(t) + $like(a)
     | $newlike(b: a) = $Derived().go($start)
   1 | @dataclasses.dataclass
     | class $tmp(Record):
     |     t: torch.Tensor
     |     n: int = $lit
     | $tmp(r) = $Record($v(a: T))
     | $newlike(b: a) = $r.t * $r.n
   1 | class $tmp(Problem)(ValueError):
     |     def __str__(self):
     |         return 'problem ' + str(self.args)
     | try:
     |     $body
     |     raise $Problem($int)
     | except ValueError as $tmp(error):
     |     print($error)
   1 | $v(obj[Gauge]).level = $int
   1 | $v(a: obj[Gauge]).level += $int
     | $a.rate = $int
   1 | $v(a: obj[Gauge]).rate = $lit
     | del $a.rate
     | $new(n: int) = $a.total
   1 | del $v(a: obj[Gauge]).total
     | $new(n: int) = $a.heavy + $a.total
   1 | $tmp(shift) = $v(obj[Gauge]).shifted($v(a: T))
     | $newlike(b: a) = $shift - $a
   1 | $new(a: int) = $use(Gauge).level.writes + $use(Gauge).rate.high
   1 | $tmp(gauge) = $use(Gauge)($int)
     | setattr($gauge, 'level', $int)
     | $new(a: int) = getattr($gauge, 'level') + $gauge.heavy
     | print(sorted(vars($gauge)))
   1 | with $v(a: obj[Slotted]) as $tmp(left):
     |     $body
     |     $a.right += $left if $a else 1
     | $new(n: int) = sum($a) + len(list($a))
   1 | $v(obj[Slotted]).left = $int
   1 | $new(a: int) = $v(obj[Registry])[$word] + len($v(obj[Registry]))
   1 | $v(obj[Registry])[$key] = $int
     | $new(a: int) = sum($v(obj[Registry]).values())
   1 | $tmp(scaler) = $use(Scaler)($float)
     | $new(b: T) = $scaler($like(b))
     | $new(n: int) = $scaler.count
   1 | $new(a: T) = ($use(Scaler)(0.1) @ $v(T2)).sum() + $like(a)
   1 | $new(a: str) = $use(Color)($small % 2 + 1).name
   1 | match $v(tuple[int]):
     |     case ($tmp(p), $tmp(q)) if $p < $q:
     |         $body
     |     case [$tmp(p), *_]:
     |         $body
     |     case _:
     |         pass
   1 | match $v(obj[Point]):
     |     case $use(Point)(left=0):
     |         $body
     |     case $use(Point)($bind(p: int), $tmp(q)):
     |         $body
   1 | match $v(dict[int]):
     |     case {'a': 0}:
     |         $body
     |     case {'a': int() as $bind(p: int), **$tmp(rest)}:
     |         print(len($rest))
     |         $body
   1 | match $int:
     |     case 0 | 1:
     |         $body
     |     case $bind(p: int) if $p > 5:
     |         $body
     |     case _:
     |         $body
   2 | $tmp(y) = $v(obj[Net])($v(T2).mean(1, keepdim=True).expand(-1, 4))
     | $new(a: T) = $like(a) + $y.mean()
   1 | $v(a: obj[Net]).last = $e(T)
 0.5 | $v(a: obj[Net]).train(not $a.training)
 0.5 | with torch.no_grad():
     |     $v(a: obj[Net]).first.weight.mul_(0.5)
 0.5 | $new(a: int) = sum(p.numel() for p in $v(obj[Net]).parameters() if p.dim() > 1)
 0.5 | print([name for name, _ in $v(obj[Net]).named_buffers()])
""")

FLOW = table("""
   5 | if $bool:
     |     $body
   3 | if $bool:
     |     $body
     | else:
     |     $body
   1 | if $bool:
     |     $body
     | elif $bool:
     |     $body
     | else:
     |     $body
   3 | for $bind(i: int) in range($small):
     |     $body(loop)
   1 | for $bind(i: int) in range($v(Tn).shape[0]):
     |     $body(loop)
   2 | for $bind(i: int), $bind(p: int) in enumerate($v(list[int])[:3]):
     |     $body(loop)
   1 | for $bind(k: str), $bind(p: int) in list($v(dict[int]).items())[:3]:
     |     $body(loop)
   1 | for $bind(p: int), $bind(q: int) in zip(list($v(list[int])), range(3), strict=False):
     |     $body(loop)
   2 | for $tmp(i) in range(min(3, len($v(a: list[T])))):
     |     $tmp(p) = $a[$i] * 0.5
     |     $a[$i] = $p + 1
     | for $tmp(j) in range(2):
     |     $body(loop)
   1 | for $tmp(i) in range($small):
     |     if $bool:
     |         break
     |     $body
     | else:
     |     $body
   1 | for $tmp(i) in range(4):
     |     if $i == $lit:
     |         continue
     |     $body(loop)
   2 | $tmp(i) = 0
     | while $i < $small:
     |     $i += 1
     |     $body(loop)
   1 | $tmp(i) = $small
     | while True:
     |     $i -= 1
     |     if $i < 0:
     |         break
     |     $body
   1 | $new(a: T) = $like(a)
     | for $tmp(i) in range($small):
     |     $a = $a * 0.5 + $like(a)
   1 | $new(a: T2) = $like(a)
     | for $tmp(row) in $a:
     |     $body
     |     break
   3 | if $bool:
     |     break
   3 | if $bool:
     |     continue
 0.4 | if $bool and $bool and $bool:
     |     return $result
""")

CONTEXTS = table("""
   2 | with torch.no_grad():
     |     $body
   1 | with torch.no_grad():
     |     $new(a: T) = $like(a)
   1 | with torch.set_grad_enabled($bool):
     |     $new(a: T) = $like(a)
 0.5 | with torch.no_grad(), torch.enable_grad():
     |     $new(a: T) = $like(a)
   1 | with contextlib.nullcontext($int) as $new(a: int):
     |     $body
 0.5 | with torch.autograd.graph.disable_saved_tensors_hooks('none'):
     |     $body
   1 | with contextlib.suppress(KeyError, ZeroDivisionError):
     |     $body
     |     print($v(dict[int])['missing'])
   1 | $tmp(log) = []
     | with $use(Tracker)($log):
     |     $body
     | print($log)
   1 | $tmp(log) = []
     | with $use(Tracker)($log, (ValueError, $use(FuzzError))) as $tmp(tracker):
     |     $body
     |     $use(checked)($int)
     | print(len($tracker.log), $log)
   1 | $tmp(log) = []
     | with $use(recording)($log, $word) as $new(n: int):
     |     $body
     | print($log)
   1 | $tmp(log) = []
     | with $use(recording)($log, 'k'):
     |     $v(dict[int])[$key] = {}[$int]
     | print($log)
 0.5 | with contextlib.ExitStack() as $tmp(stack):
     |     $stack.callback(print, $int)
     |     $tmp(log) = []
     |     $stack.enter_context($use(Tracker)($log))
     |     $body
 0.5 | with contextlib.redirect_stdout(io.StringIO()) as $tmp(out):
     |     print($int)
     | $new(a: int) = len($out.getvalue())
""")

EXCEPTIONS = table("""
   1 | try:
     |     $body
     |     $new(a: int) = $v(dict[int])[$key]
     | except KeyError as $tmp(error):
     |     $a = len($error.args)
   1 | try:
     |     $new(a: int) = $v(list[int])[$lit]
     | except IndexError:
     |     $a = -1
     |     $body
   1 | try:
     |     $new(a: int) = $int // $int
     | except ZeroDivisionError as $tmp(error):
     |     print($error)
     |     $a = 0
     | else:
     |     $body
     | finally:
     |     $body
   1 | try:
     |     $new(a: int) = $int + $str
     | except (TypeError, ValueError) as $tmp(error):
     |     $a = len(str($error))
   1 | try:
     |     $new(a: int) = int($str)
     | except ValueError:
     |     $a = $int
   1 | try:
     |     $body
     |     raise $use(FuzzError)($str, code=$int)
     | except $use(FuzzError) as $tmp(error):
     |     $new(a: int) = $error.code
   1 | try:
     |     $new(a: int) = $use(checked)($int)
     | except ValueError as $tmp(error):
     |     $a = $error.code % 10
     |     print(type($error).__name__, $error)
   1 | try:
     |     try:
     |         $v(dict[int])['missing']
     |     except KeyError as $tmp(error):
     |         raise $use(FuzzLimit)('wrapped') from $error
     | except $use(FuzzError) as $tmp(outer):
     |     $new(a: str) = repr($outer.__cause__)
   1 | try:
     |     try:
     |         $tmp(p) = $int / 0
     |     finally:
     |         $body
     | except ArithmeticError:
     |     $body
   1 | try:
     |     $new(a: T) = $like(a)
     |     $tmp(bad) = torch.ones(2, 3) @ torch.ones(4, 5)
     | except RuntimeError as $tmp(error):
     |     $a = $like(a) + len(str($error))
   1 | try:
     |     $tmp(bad) = $v(T2) + torch.ones(7, 11)
     | except RuntimeError as $tmp(error):
     |     print(type($error).__name__)
 0.5 | try:
     |     $tmp(bad) = torch.ones(3).view(2, 2)
     | except Exception as $tmp(error):
     |     $new(a: str) = str($error)[:30]
     | else:
     |     $a = ''
   1 | try:
     |     $v(obj[Box]).missing
     | except AttributeError as $tmp(error):
     |     $body
     |     print($error)
   1 | for $tmp(i) in range(3):
     |     try:
     |         if $i == 1:
     |             raise $use(FuzzError)('one')
     |         $body
     |     except $use(FuzzError):
     |         continue
     |     finally:
     |         print($i)
   1 | def $tmp(cleanup)(n):
     |     try:
     |         if n > 2:
     |             return n
     |         raise KeyError(n)
     |     except KeyError:
     |         return -n
     |     finally:
     |         $v(list[int]).append(n)
     | $new(a: int) = $cleanup($int)
 0.5 | try:
     |     for $tmp(k) in $v(a: dict[int]):
     |         $a[$k + 'x'] = 1
     | except RuntimeError as $tmp(error):
     |     print($error)
     | for $tmp(k) in [p for p in $a if p.endswith('x')]:
     |     del $a[$k]
 0.5 | try:
     |     $v(a: list[int])[0].missing
     | except AttributeError:
     |     try:
     |         raise
     |     except AttributeError as $tmp(error):
     |         $new(n: int) = len(str($error))
 0.5 | try:
     |     next(iter([]))
     | except StopIteration:
     |     $body
 0.5 | try:
     |     $tmp(p), $tmp(q) = $v(list[int])
     |     $new(a: int) = $p - $q
     | except ValueError as $tmp(error):
     |     $a = len($error.args[0])
 0.5 | try:
     |     $use(clip)($int, hi=1)
     | except TypeError as $tmp(error):
     |     print($error)
 0.8 | if $bool:
     |     raise $use(FuzzError)($str, $int)
 0.8 | if $bool:
     |     raise $use(FuzzLimit)('late') from KeyError($str)
 0.5 | $new(a: int) = {'one': 1}[$str]
 0.5 | $new(a: T) = $like(a) @ torch.ones(9, 2)
 0.5 | assert $bool, f'{$v(int)} failed'
""")

STATEMENTS: Table = [*TENSORS, *TENSORS, *SCALARS, *CONTAINERS, *FUNCTIONS, *OBJECTS, *FLOW, *CONTEXTS, *EXCEPTIONS]
