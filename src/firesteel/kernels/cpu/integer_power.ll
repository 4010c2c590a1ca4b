; A power of integers, wrapping; a negative exponent gives what is left of the inverse.

define internal i64 @firesteel.ipow.i64(i64 %base, i64 %exponent) nounwind {
entry:
  %negative = icmp slt i64 %exponent, 0
  br i1 %negative, label %inverse, label %loop
inverse:
  %odd = and i64 %exponent, 1
  %is_odd = icmp ne i64 %odd, 0
  %one = icmp eq i64 %base, 1
  %minus = icmp eq i64 %base, -1
  %sign = select i1 %is_odd, i64 -1, i64 1
  %of_minus = select i1 %minus, i64 %sign, i64 0
  %inverted = select i1 %one, i64 1, i64 %of_minus
  ret i64 %inverted
loop:
  %b = phi i64 [ %base, %entry ], [ %b2, %step ]
  %n = phi i64 [ %exponent, %entry ], [ %n2, %step ]
  %r = phi i64 [ 1, %entry ], [ %r2, %step ]
  %end = icmp eq i64 %n, 0
  br i1 %end, label %done, label %step
step:
  %bit = and i64 %n, 1
  %set = icmp ne i64 %bit, 0
  %rb = mul i64 %r, %b
  %r2 = select i1 %set, i64 %rb, i64 %r
  %b2 = mul i64 %b, %b
  %n2 = lshr i64 %n, 1
  br label %loop
done:
  ret i64 %r
}
