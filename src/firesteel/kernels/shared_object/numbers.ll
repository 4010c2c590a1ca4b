; Arithmetic on sizes as Python's: division and remainder round down, and by zero do not trap.

define internal i64 @fs.floordiv(i64 %a, i64 %b) {
  %none = icmp eq i64 %b, 0
  %by = select i1 %none, i64 1, i64 %b
  %q = sdiv i64 %a, %by
  %r = srem i64 %a, %by
  %exact = icmp eq i64 %r, 0
  %signs = xor i64 %r, %by
  %same = icmp sge i64 %signs, 0
  %keep = or i1 %exact, %same
  %less = sub i64 %q, 1
  %result = select i1 %keep, i64 %q, i64 %less
  ret i64 %result
}
define internal i64 @fs.mod(i64 %a, i64 %b) {
  %q = call i64 @fs.floordiv(i64 %a, i64 %b)
  %p = mul i64 %q, %b
  %r = sub i64 %a, %p
  ret i64 %r
}
define internal i64 @fs.pow(i64 %base, i64 %exponent) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %power = phi i64 [ 1, %entry ], [ %more, %body ]
  %going = icmp slt i64 %i, %exponent
  br i1 %going, label %body, label %done
body:
  %more = mul i64 %power, %base
  %next = add i64 %i, 1
  br label %loop
done:
  ret i64 %power
}
