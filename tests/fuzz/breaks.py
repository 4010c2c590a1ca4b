"""Templates for statements that end graphs: opaque calls, explicit breaks and values of tensors in awkward places."""

from __future__ import annotations

from .statements import Table, table

BREAKS: Table = table("""
   1 | fs.graph_break()
   1 | $new(a: int) = $use(digits)($int)
   1 | $new(a: T) = $use(interrupted)($like(a))
   1 | $v(list[int]).append($int)
     | fs.graph_break()
     | $v(list[int])[0] = $int
   1 | $v(dict[int])[$key] = $use(digits)($int)
   1 | $set(a: int) += $use(digits)($a)
   1 | $new(a: list[int]) = [$use(digits)($tmp(p)) + $int for $p in range($small)]
   1 | $new(a: list[T]) = [$use(interrupted)($item(a)) for _ in range($small)]
   1 | $new(a: dict[int]) = {$tmp(p): $use(digits)(len($p)) for $p in ['a', 'b', 'c']}
   1 | $new(a: int) = sum($use(digits)(p) for p in $v(list[int]))
   1 | $new(a: list[int]) = [$lit, *map($use(digits), $v(list[int]))]
   1 | $new(a: list[int]) = sorted($v(list[int]), key=$use(digits))
   1 | for $bind(i: int) in range($small):
     |     fs.graph_break()
     |     $body(loop)
   1 | for $bind(i: int), $bind(p: int) in enumerate(list($v(list[int]))[:3]):
     |     if $use(digits)($p) > 1:
     |         $body
     |         continue
     |     $body(loop)
   1 | $tmp(i) = 0
     | while $i < $use(digits)(123):
     |     $i += 1
     |     $body(loop)
   1 | $tmp(it) = iter([$lit, $lit, $lit])
     | for $bind(p: int) in $it:
     |     fs.graph_break()
     |     $body
     |     $new(a: int) = next($it, -1)
   1 | $new(a: T2) = $like(a)
     | for $tmp(row) in $a:
     |     if $row.sum() > 0.37:
     |         $v(list[int]).append(1)
     |     else:
     |         $body
   1 | try:
     |     fs.graph_break()
     |     $body
     |     $new(a: int) = $v(dict[int])[$key]
     | except KeyError as $tmp(error):
     |     fs.graph_break()
     |     $a = len($error.args)
     |     $body
     | finally:
     |     $v(list[int]).append($use(digits)($int))
   1 | try:
     |     $body
     |     $use(interrupted)($v(T), fail=$bool)
     | except $use(FuzzError) as $tmp(error):
     |     $v(dict[int])['a'] = $error.code
     |     $body
   1 | try:
     |     try:
     |         fs.graph_break()
     |         raise $use(FuzzError)($str, $int)
     |     finally:
     |         fs.graph_break()
     |         $body
     | except $use(FuzzError) as $tmp(error):
     |     print($error, $error.code, $error.__context__)
   1 | for $tmp(i) in range(3):
     |     try:
     |         if $i == 1:
     |             continue
     |         fs.graph_break()
     |         if $use(digits)($i) > $lit:
     |             break
     |         $body
     |     finally:
     |         fs.graph_break()
     |         $v(list[int]).append($i)
   1 | $tmp(log) = []
     | with $use(Tracker)($log, ($use(FuzzError),)):
     |     fs.graph_break()
     |     $body
     |     $use(interrupted)($v(T), fail=$bool)
     |     $log.append('end')
     | print($log)
   1 | $tmp(log) = []
     | with $use(recording)($log, 'r') as $new(n: int):
     |     $body
     |     fs.graph_break()
     |     $body
     | print($log)
   1 | with torch.no_grad():
     |     $body
     |     fs.graph_break()
     |     $new(a: T) = $like(a)
   1 | with torch.no_grad(), contextlib.suppress($use(FuzzError)):
     |     $new(a: T) = $use(interrupted)($like(a))
     |     $use(interrupted)($a, fail=True)
   1 | def $new(f: fn[T])($binditem(p: f)):
     |     fs.graph_break()
     |     $fbody
     |     return $p + $item(f)
   1 | $new(c: int) = $int
     | def $tmp(bump)(by=1):
     |     nonlocal $c
     |     $c = ($c + by) % 71
     |     fs.graph_break()
     |     $c += $use(digits)($c)
     |     return $c
     | $new(r: int) = $bump($int) + $bump()
   1 | def $tmp(gen)(t):
     |     for p in range(3):
     |         fs.graph_break()
     |         yield t * p
     | $tmp(total) = sum($gen($v(a: T)))
     | $newlike(b: a) = $total + $a
   1 | $tmp(it) = (p * 2 for p in [$v(a: T), $like(a), $like(a)])
     | $newlike(b: a) = next($it)
     | fs.graph_break()
     | $newlike(c: a) = next($it) - $b
   1 | $tmp(it) = zip(range(4), itertools.count($lit))
     | $tmp(p), $tmp(q) = next($it)
     | fs.graph_break()
     | $new(a: int) = sum(r * s for r, s in $it) + $p + $q
   1 | $tmp(it) = enumerate(list($v(dict[int]).items()))
     | next($it)
     | fs.graph_break()
     | $new(a: int) = len(list($it))
   1 | $v(a: obj[Box]).value = $int
     | fs.graph_break()
     | $a.notes.append($use(digits)($a.value))
   1 | $v(a: obj[Net]).calls += $use(digits)($int)
   1 | $inplace(a: T).add_(1)
     | fs.graph_break()
     | $a.mul_(0.5)
   1 | $tmp(view) = $inplace(a: T2)[0]
     | fs.graph_break()
     | $view.add_($a.sum() * 0.1)
   1 | $tmp(before) = TOTAL
     | fs.graph_break()
     | $new(a: int) = $before + TOTAL
   1 | $new(a: int) = len(re.sub('[aeiou]', '', $str))
   1 | match re.match('([a-z]+)-?', $str):
     |     case None:
     |         $body
     |     case $tmp(found):
     |         print($found.group(1))
 0.5 | $new(a: int) = (fs.graph_break() or $int) + (fs.graph_break() or $int)
 0.5 | $new(a: T) = torch.where(($use(interrupted)($v(T)).sum() > 0), $like(a), $use(interrupted)($like(a)))
""")

# Exceptions that only the data decides about: capture cannot foresee them.
LATE_ERRORS: Table = table("""
   1 | try:
     |     $v(list[int]).append(1)
     |     $new(a: T) = $like(a) + $v(Tn)[torch.tensor([$lit])].sum()
     |     $v(list[int]).append(2)
     | except IndexError as $tmp(error):
     |     $a = $like(a)
     |     $body
   1 | try:
     |     $new(a: T) = $like(a) + torch.linalg.inv(torch.zeros(2, 2) + $int).sum()
     | except RuntimeError as $tmp(error):
     |     $a = $like(a) - 1
   1 | $new(n: int) = 0
     | try:
     |     $tmp(q) = torch.tensor([7, 8]) // torch.tensor([$small, $lit])
     |     $n = $q.numel()
     | except RuntimeError as $tmp(error):
     |     $body
     |     print(type($error).__name__)
   1 | with contextlib.suppress(IndexError):
     |     $v(dict[int])['a'] += 1
     |     $tmp(found) = F.embedding(torch.tensor([0, $lit]), torch.ones(5, 2))
     |     $v(dict[int])['b'] += $found.shape[0]
 0.3 | $v(list[int]).append(3)
     | $new(a: T) = $like(a) + torch.ones(6)[torch.tensor([$lit])]
     | $v(list[int]).append(4)
""")
