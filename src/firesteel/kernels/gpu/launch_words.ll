; Launch a kernel whose arguments are words: each parameter is the address of one. Triton's kernels have two parameters
; more, for memory of their own; these have none. %launch is CUDA's cuLaunchKernel.
define internal i32 @fs.launch_words(ptr %launch, ptr %function, i64 %programs, i32 %threads, i32 %shared, ptr %stream,
                                     ptr %words, i64 %count) {
entry:
  %room = add i64 %count, 2
  %parameters = alloca ptr, i64 %room, align 8
  %zero = alloca i64, align 8
  store i64 0, ptr %zero, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %one ]
  %more = icmp ult i64 %i, %count
  br i1 %more, label %one, label %filled
one:
  %word_at = getelementptr i64, ptr %words, i64 %i
  %parameter_at = getelementptr ptr, ptr %parameters, i64 %i
  store ptr %word_at, ptr %parameter_at, align 8
  %next = add i64 %i, 1
  br label %loop
filled:
  %first_at = getelementptr ptr, ptr %parameters, i64 %count
  store ptr %zero, ptr %first_at, align 8
  %after = add i64 %count, 1
  %second_at = getelementptr ptr, ptr %parameters, i64 %after
  store ptr %zero, ptr %second_at, align 8
  %blocks = trunc i64 %programs to i32
  %status = call i32 %launch(ptr %function, i32 %blocks, i32 1, i32 1, i32 %threads, i32 1, i32 1, i32 %shared,
      ptr %stream, ptr %parameters, ptr null)
  ret i32 %status
}
