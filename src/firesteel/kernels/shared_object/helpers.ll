; Small functions that host programs call: releasing what lies in slots, comparing and changing layouts.

define internal void @fs.drop(ptr %slot) {
  %handle = load ptr, ptr %slot, align 8
  %empty = icmp eq ptr %handle, null
  br i1 %empty, label %done, label %full
full:
  store ptr null, ptr %slot, align 8
  %ignored = call i32 @<torch>delete_tensor_object(ptr %handle)
  br label %done
done:
  ret void
}
define internal void @fs.drop_memory(ptr %slot) {
  %memory = load ptr, ptr %slot, align 8
  store ptr null, ptr %slot, align 8
  call void @free(ptr %memory)
  ret void
}
define internal void @fs.drop_all(ptr %slots, i64 %count, ptr %memory, i64 %memories) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %going = icmp ult i64 %i, %count
  br i1 %going, label %body, label %second
body:
  %slot = getelementptr ptr, ptr %slots, i64 %i
  call void @fs.drop(ptr %slot)
  %next = add i64 %i, 1
  br label %loop
second:
  %j = phi i64 [ 0, %loop ], [ %after, %more ]
  %again = icmp ult i64 %j, %memories
  br i1 %again, label %more, label %done
more:
  %piece = getelementptr ptr, ptr %memory, i64 %j
  call void @fs.drop_memory(ptr %piece)
  %after = add i64 %j, 1
  br label %second
done:
  ret void
}
define internal i1 @fs.has_strides(ptr %handle, i64 %ndim, ptr %sizes, ptr %strides) {
entry:
  %place = alloca ptr, align 8
  %error = call i32 @<torch>get_strides(ptr %handle, ptr %place)
  %known = icmp eq i32 %error, 0
  br i1 %known, label %start, label %no
start:
  %own = load ptr, ptr %place, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %same ]
  %good = phi i1 [ true, %start ], [ %still, %same ]
  %none = phi i1 [ false, %start ], [ %nothing, %same ]
  %going = icmp slt i64 %i, %ndim
  br i1 %going, label %same, label %done
same:
  %size_at = getelementptr i64, ptr %sizes, i64 %i
  %size = load i64, ptr %size_at, align 8
  %wanted_at = getelementptr i64, ptr %strides, i64 %i
  %wanted = load i64, ptr %wanted_at, align 8
  %has_at = getelementptr i64, ptr %own, i64 %i
  %has = load i64, ptr %has_at, align 8
  %equal = icmp eq i64 %wanted, %has
  %one = icmp eq i64 %size, 1
  %fine = or i1 %equal, %one
  %still = and i1 %good, %fine
  %zero = icmp eq i64 %size, 0
  %nothing = or i1 %none, %zero
  %next = add i64 %i, 1
  br label %loop
done:
  %result = or i1 %good, %none
  ret i1 %result
no:
  ret i1 false
}
define internal i32 @fs.copy_to(ptr %given, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index,
                                ptr %slot) {
  %error = call i32 @<torch>empty_strided(i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index,
                                              ptr %slot)
  %failed = icmp ne i32 %error, 0
  br i1 %failed, label %bad, label %made
made:
  %new = load ptr, ptr %slot, align 8
  %code = call i32 @<torch>copy_(ptr %new, ptr %given, i32 0)
  ret i32 %code
bad:
  ret i32 1
}
define internal i1 @fs.is_aligned(ptr %handle, i64 %mask) {
  %place = alloca ptr, align 8
  store ptr null, ptr %place, align 8
  %any = icmp eq i64 %mask, 0
  br i1 %any, label %yes, label %look
look:
  %error = call i32 @<torch>get_data_ptr(ptr %handle, ptr %place)
  %start = load i64, ptr %place, align 8
  %rest = and i64 %start, %mask
  %fine = icmp eq i64 %rest, 0
  ret i1 %fine
yes:
  ret i1 true
}
define internal i32 @fs.lay_out(ptr %given, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index,
                                i64 %mask, ptr %slot, ptr %result) {
  %laid = call i1 @fs.has_strides(ptr %given, i64 %ndim, ptr %sizes, ptr %strides)
  %aligned = call i1 @fs.is_aligned(ptr %given, i64 %mask)
  %fine = and i1 %laid, %aligned
  store ptr %given, ptr %result, align 8
  br i1 %fine, label %done, label %copy
copy:
  %code = call i32 @fs.copy_to(ptr %given, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 %device, i32 %index,
                               ptr %slot)
  %new = load ptr, ptr %slot, align 8
  store ptr %new, ptr %result, align 8
  ret i32 %code
done:
  ret i32 0
}
define internal i32 @fs.is_true(ptr %value, ptr %result) {
  %kind = load i32, ptr %value, align 8
  %place = getelementptr { i32, i32, i64 }, ptr %value, i32 0, i32 2
  %tensor = icmp eq i32 %kind, 1
  br i1 %tensor, label %ask, label %number
ask:
  %handle = load ptr, ptr %place, align 8
  %error = call i32 @<torch>item_bool(ptr %handle, ptr %result)
  call void @fs.drop(ptr %place)
  ret i32 %error
number:
  %word = load i64, ptr %place, align 8
  %true = icmp ne i64 %word, 0
  %byte = zext i1 %true to i8
  store i8 %byte, ptr %result, align 1
  ret i32 0
}
