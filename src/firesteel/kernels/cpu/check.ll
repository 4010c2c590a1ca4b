; The place of an access of %size bytes, %skip bytes behind %p: %p itself if all lies between %low and %high, elsewhere
; otherwise. The first such access is noted. %number is twice that of the buffer, plus one for a store.

@PREFIX.safe = internal global [<SAFE_BYTES> x i8] zeroinitializer, align 64
define internal ptr @PREFIX.check(ptr %p, i64 %skip, i64 %size, i1 %active, ptr %low, ptr %high, i64 %number,
                                   ptr %report) nounwind noinline {
entry:
  br i1 %active, label %look, label %fine
look:
  %first = getelementptr i8, ptr %p, i64 %skip
  %start = ptrtoint ptr %first to i64
  %begin = ptrtoint ptr %low to i64
  %limit = ptrtoint ptr %high to i64
  %end = add i64 %start, %size
  %behind = icmp uge i64 %start, %begin
  %before = icmp ule i64 %end, %limit
  %whole = icmp uge i64 %end, %start
  %some = and i1 %behind, %before
  %inside = and i1 %some, %whole
  br i1 %inside, label %fine, label %outside
fine:
  ret ptr %p
outside:
  %record = load ptr, ptr %report, align 8
  %seen = cmpxchg ptr %record, i64 0, i64 1 seq_cst seq_cst
  %mine = extractvalue { i64, i1 } %seen, 1
  br i1 %mine, label %note, label %elsewhere
note:
  %launch_at = getelementptr ptr, ptr %report, i64 1
  %launch = load i64, ptr %launch_at, align 8
  %offset = sub i64 %start, %begin
  %room = sub i64 %limit, %begin
  %record1 = getelementptr i64, ptr %record, i64 1
  store i64 %launch, ptr %record1, align 8
  %record2 = getelementptr i64, ptr %record, i64 2
  store i64 %number, ptr %record2, align 8
  %record3 = getelementptr i64, ptr %record, i64 3
  store i64 %offset, ptr %record3, align 8
  %record4 = getelementptr i64, ptr %record, i64 4
  store i64 %size, ptr %record4, align 8
  %record5 = getelementptr i64, ptr %record, i64 5
  store i64 %room, ptr %record5, align 8
  br label %elsewhere
elsewhere:
  ret ptr @PREFIX.safe
}
