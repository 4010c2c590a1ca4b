; The launching function: int name(int64_t *descriptor, int64_t *words, int64_t programs); see `driver`.
; What of the arguments of a launch does not hold makes up the number of the version that it takes, see `versions`.

<LAUNCH_WORDS>
define i32 @<NAME>(ptr %d, ptr %given, i64 %programs) {
entry:
  %none = icmp sle i64 %programs, 0
  br i1 %none, label %nothing, label %begin
nothing:
  ret i32 0
begin:
  %words_at = getelementptr i8, ptr %d, i64 <AT_words>
  %words = load i64, ptr %words_at, align 8
  %kinds_at = getelementptr i8, ptr %d, i64 <AT_kinds>
  %kinds = load ptr, ptr %kinds_at, align 8
  %threads_at = getelementptr i8, ptr %d, i64 <AT_threads>
  %threads = load i64, ptr %threads_at, align 8
  %device_at = getelementptr i8, ptr %d, i64 <AT_device>
  %device = load i64, ptr %device_at, align 8
  %stream_of_at = getelementptr i8, ptr %d, i64 <AT_stream_of>
  %stream_of = load ptr, ptr %stream_of_at, align 8
  %launch_at = getelementptr i8, ptr %d, i64 <AT_launch>
  %launch = load ptr, ptr %launch_at, align 8
  %place_at = getelementptr i8, ptr %d, i64 <AT_extent_at>
  %place = load i64, ptr %place_at, align 8
  %limit_at = getelementptr i8, ptr %d, i64 <AT_limit>
  %limit = load i64, ptr %limit_at, align 8
  %stream_out = alloca ptr, align 8
  store ptr null, ptr %stream_out, align 8
  br label %loop
loop:
  %i = phi i64 [0, %begin], [%i_next, %one]
  %bits = phi i64 [0, %begin], [%bits_next, %one]
  %done = icmp uge i64 %i, %words
  br i1 %done, label %looked, label %one
one:
  %word_at = getelementptr i64, ptr %given, i64 %i
  %word = load i64, ptr %word_at, align 8
  %low = and i64 %word, 15
  %is_multiple = icmp eq i64 %low, 0
  %kind_at = getelementptr i64, ptr %kinds, i64 %i
  %kind = load i64, ptr %kind_at, align 8
  %counted = select i1 %is_multiple, i64 0, i64 %kind
  %bits_next = or i64 %bits, %counted
  %i_next = add i64 %i, 1
  br label %loop
looked:
  %extent_word = getelementptr i64, ptr %given, i64 %place
  %extent = load i64, ptr %extent_word, align 8
  %is_far = icmp sge i64 %extent, %limit
  %far = select i1 %is_far, i64 <WIDE>, i64 0
  %version = or i64 %bits, %far
  %first_all = getelementptr i8, ptr %d, i64 <AT_function0>
  %first_at = getelementptr i64, ptr %first_all, i64 %version
  %first = load ptr, ptr %first_at, align 8
  %missing = icmp eq ptr %first, null
  br i1 %missing, label %ask, label %have
ask:
  %make_at = getelementptr i8, ptr %d, i64 <AT_make>
  %make = load ptr, ptr %make_at, align 8
  %number_at = getelementptr i8, ptr %d, i64 <AT_number>
  %number = load i64, ptr %number_at, align 8
  %asked = call i32 %make(i64 %number, i64 %version)
  %failed = icmp ne i32 %asked, 0
  br i1 %failed, label %refused, label %have
refused:
  ret i32 1
have:
  %function_all = getelementptr i8, ptr %d, i64 <AT_function0>
  %function_at = getelementptr i64, ptr %function_all, i64 %version
  %function = load ptr, ptr %function_at, align 8
  %memory_all = getelementptr i8, ptr %d, i64 <AT_shared0>
  %memory_at = getelementptr i64, ptr %memory_all, i64 %version
  %memory = load i64, ptr %memory_at, align 8
  %device32 = trunc i64 %device to i32
  %stream_status = call i32 %stream_of(i32 %device32, ptr %stream_out)
  %stream = load ptr, ptr %stream_out, align 8
  %threads32 = trunc i64 %threads to i32
  %memory32 = trunc i64 %memory to i32
  %status = call i32 @fs.launch_words(ptr %launch, ptr %function, i64 %programs, i32 %threads32, i32 %memory32,
      ptr %stream, ptr %given, i64 %words)
  %outside = icmp eq i32 %status, <NO_CONTEXT>
  br i1 %outside, label %come_in, label %end
come_in:
  %enter_at = getelementptr i8, ptr %d, i64 <AT_enter>
  %enter = load ptr, ptr %enter_at, align 8
  %own_number_at = getelementptr i8, ptr %d, i64 <AT_number>
  %own_number = load i64, ptr %own_number_at, align 8
  %entered = call i32 %enter(i64 %own_number, i64 0)
  %again = call i32 @fs.launch_words(ptr %launch, ptr %function, i64 %programs, i32 %threads32, i32 %memory32,
      ptr %stream, ptr %given, i64 %words)
  br label %end
end:
  %answer = phi i32 [%status, %have], [%again, %come_in]
  ret i32 %answer
}
