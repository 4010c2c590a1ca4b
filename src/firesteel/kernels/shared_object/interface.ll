; The functions that a shared object offers (`firesteel_model.h` describes them), and what they share.

define internal void @fs.torch_failed(ptr %where) {
  %known = icmp ne ptr @torch_exception_get_what_without_backtrace, null
  br i1 %known, label %ask, label %guess
ask:
  %said = call ptr @torch_exception_get_what_without_backtrace()
  br label %tell
guess:
  br label %tell
tell:
  %what = phi ptr [ %said, %ask ], [ <MESSAGE_UNSAID>, %guess ]
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_TORCH>, ptr %where, ptr %what)
  ret void
}
define internal void @fs.advise(ptr %memory, i64 %size) {
  %large = icmp uge i64 %size, <LARGE>
  br i1 %large, label %ask, label %done
ask:
  %start = ptrtoint ptr %memory to i64
  %up = add i64 %start, <PAGE_REST>
  %first = and i64 %up, <PAGE_MASK>
  %end = add i64 %start, %size
  %length = sub i64 %end, %first
  %whole = and i64 %length, <PAGE_MASK>
  %page = inttoptr i64 %first to ptr
  %ignored = call i32 @madvise(ptr %page, i64 %whole, i32 <HUGE_PAGES>)
  br label %done
done:
  ret void
}
define ptr @firesteel_last_error() {
  ret ptr @fs.error
}
define i32 @firesteel_interface_version() {
  ret i32 <VERSION>
}
define ptr @firesteel_model_description() {
  ret ptr <DESCRIPTION>
}
define internal ptr @fs.name(ptr %names, i64 %count, i64 %index) {
  %inside = icmp ult i64 %index, %count
  br i1 %inside, label %found, label %none
found:
  %at = getelementptr ptr, ptr %names, i64 %index
  %name = load ptr, ptr %at, align 8
  ret ptr %name
none:
  ret ptr null
}
define i32 @firesteel_model_device(ptr %model) {
  %at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  %word = load i64, ptr %at, align 8
  %number = trunc i64 %word to i32
  %device = select i1 <HAS_GPU>, i32 %number, i32 -1
  ret i32 %device
}
define i64 @firesteel_model_num_inputs() {
  ret i64 <INPUTS>
}
define i64 @firesteel_model_num_outputs() {
  ret i64 <OUTPUTS>
}
define i64 @firesteel_model_num_weights() {
  ret i64 <WEIGHTS>
}
define ptr @firesteel_model_input_name(i64 %index) {
  %name = call ptr @fs.name(ptr <INPUT_NAMES>, i64 <INPUTS>, i64 %index)
  ret ptr %name
}
define ptr @firesteel_model_output_name(i64 %index) {
  %name = call ptr @fs.name(ptr <OUTPUT_NAMES>, i64 <OUTPUTS>, i64 %index)
  ret ptr %name
}
define ptr @firesteel_model_weight_name(i64 %index) {
  %name = call ptr @fs.name(ptr <WEIGHT_NAMES>, i64 <WEIGHTS>, i64 %index)
  ret ptr %name
}
define i32 @firesteel_model_load(ptr %path, i64 %offset, ptr %result) {
  %error = call i32 @firesteel_model_load_on(ptr %path, i64 %offset, i32 -1, ptr %result)
  ret i32 %error
}
define i32 @firesteel_model_load_on(ptr %path, i64 %offset, i32 %device, ptr %result) {
entry:
  %stored = alloca ptr, align 8
  %laid = alloca ptr, align 8
  store ptr null, ptr %stored, align 8
  store ptr null, ptr %result, align 8
  %fit = call i1 @fs.cpu_is_fit()
  br i1 %fit, label %begin, label %unfit
begin:
  %model = call ptr @calloc(i64 1, i64 <RECORD>)
  %got = icmp ne ptr %model, null
  br i1 %got, label %have, label %no_memory
have:<LOAD>
  %any = icmp ne i64 <WEIGHTS>, 0
  br i1 %any, label %opening, label %done
opening:
  %file = call i32 (ptr, i32, ...) @open(ptr %path, i32 524288)
  %opened = icmp sge i32 %file, 0
  br i1 %opened, label %measure, label %not_opened
measure:
  %size = call i64 @lseek(i32 %file, i64 0, i32 2)
  %needed = add i64 %offset, <LENGTH>
  %long = icmp sge i64 %size, %needed
  br i1 %long, label %map, label %short
map:
  %page = and i64 %offset, <PAGE_MASK>
  %before = sub i64 %offset, %page
  %length = add i64 %before, <LENGTH>
  %base = call ptr @mmap(ptr null, i64 %length, i32 3, i32 2, i32 %file, i64 %page)
  %closed = call i32 @close(i32 %file)
  %number = ptrtoint ptr %base to i64
  %mapped = icmp ne i64 %number, -1
  br i1 %mapped, label %remember, label %not_mapped
remember:
  store ptr %base, ptr %model, align 8
  %length_at = getelementptr i64, ptr %model, i64 1
  store i64 %length, ptr %length_at, align 8
  %head = getelementptr i8, ptr %base, i64 %before
  %differs = call i32 @memcmp(ptr %head, ptr <HEAD>, i64 <HEAD_BYTES>)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %loop, label %foreign
loop:
  %i = phi i64 [ 0, %remember ], [ %next, %keep ]
  %going = icmp ult i64 %i, <WEIGHTS>
  br i1 %going, label %body, label %done
body:
  %offset_at = getelementptr i64, ptr <OFFSETS>, i64 %i
  %place = load i64, ptr %offset_at, align 8
  %behind = add i64 %place, <DATA>
  %data = getelementptr i8, ptr %head, i64 %behind
  %ndim_at = getelementptr i64, ptr <DIMENSIONS>, i64 %i
  %ndim = load i64, ptr %ndim_at, align 8
  %dtype_at = getelementptr i64, ptr <DTYPES>, i64 %i
  %dtype_word = load i64, ptr %dtype_at, align 8
  %dtype = trunc i64 %dtype_word to i32
  %sizes_at = getelementptr ptr, ptr <SIZES>, i64 %i
  %sizes = load ptr, ptr %sizes_at, align 8
  %stored_at = getelementptr ptr, ptr <STORED>, i64 %i
  %stored_strides = load ptr, ptr %stored_at, align 8
  %strides_at = getelementptr ptr, ptr <STRIDES>, i64 %i
  %strides = load ptr, ptr %strides_at, align 8
  %error = call i32 @<torch>create_tensor_from_blob_v2(ptr %data, i64 %ndim, ptr %sizes, ptr %stored_strides,
      i64 0, i32 %dtype, i32 <CPU>, i32 0, ptr %stored, i32 <STRIDED>, ptr null, i64 0)
  %created = icmp eq i32 %error, 0
  br i1 %created, label %place_it, label %failed
place_it:
  %tensor = load ptr, ptr %stored, align 8
  %shifted = add i64 %i, <HANDLES_AT>
  %slot = getelementptr ptr, ptr %model, i64 %shifted
  %moved_at = getelementptr i64, ptr <MOVED>, i64 %i
  %moved = load i64, ptr %moved_at, align 8
  %stays = icmp eq i64 %moved, -2
  br i1 %stays, label %lay, label %move
move:
  %copies = icmp eq i64 %moved, -1
  br i1 %copies, label %send, label %share
send:
  %number_at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  %number64 = load i64, ptr %number_at, align 8
  %number32 = trunc i64 %number64 to i32
  %unsent = call i32 @fs.copy_to(ptr %tensor, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 <GPU>,
      i32 %number32, ptr %slot)
  %sent = icmp eq i32 %unsent, 0
  br i1 %sent, label %leave, label %failed
share:
  %other = add i64 %moved, <HANDLES_AT>
  %other_at = getelementptr ptr, ptr %model, i64 %other
  %same_tensor = load ptr, ptr %other_at, align 8
  %unshared = call i32 @<torch>new_tensor_handle(ptr %same_tensor, ptr %slot)
  %shared = icmp eq i32 %unshared, 0
  br i1 %shared, label %leave, label %failed
lay:
  %problem = call i32 @fs.lay_out(ptr %tensor, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 <CPU>, i32 0, i64 0,
      ptr %slot, ptr %laid)
  %copied = icmp eq i32 %problem, 0
  br i1 %copied, label %which, label %failed
which:
  %used = load ptr, ptr %laid, align 8
  %own = icmp eq ptr %used, %tensor
  br i1 %own, label %take, label %leave
take:
  store ptr %tensor, ptr %slot, align 8
  store ptr null, ptr %stored, align 8
  br label %keep
leave:
  call void @fs.drop(ptr %stored)
  br label %keep
keep:
  %next = add i64 %i, 1
  br label %loop
done:
  %refreshed = call i32 @firesteel_model_refresh(ptr %model)
  %ready = icmp eq i32 %refreshed, 0
  br i1 %ready, label %loaded, label %give_up
loaded:
  store ptr %model, ptr %result, align 8
  ret i32 0
unfit:
  %e0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_CPU>)
  ret i32 1
no_memory:
  %e1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_MEMORY>)
  ret i32 1
not_opened:
  %e2 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_OPEN>, ptr %path)
  br label %give_up
short:
  %closed_short = call i32 @close(i32 %file)
  %e3 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_SHORT>, ptr %path)
  br label %give_up
not_mapped:
  %e4 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_MAP>, ptr %path)
  br label %give_up
foreign:
  %e5 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_FOREIGN>, ptr %path)
  br label %give_up
failed:
  call void @fs.torch_failed(ptr <MESSAGE_WEIGHT>)
  call void @fs.drop(ptr %stored)
  br label %give_up
give_up:
  call void @firesteel_model_free(ptr %model)
  ret i32 1
}
define void @firesteel_model_free(ptr %model) {
entry:
  %none = icmp eq ptr %model, null
  br i1 %none, label %end, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %going = icmp ult i64 %i, <HANDLES>
  br i1 %going, label %body, label %unmap
body:
  %shifted = add i64 %i, <HANDLES_AT>
  %slot = getelementptr ptr, ptr %model, i64 %shifted
  call void @fs.drop(ptr %slot)
  %next = add i64 %i, 1
  br label %loop
unmap:
<FREE>
  %base = load ptr, ptr %model, align 8
  %length_at = getelementptr i64, ptr %model, i64 1
  %length = load i64, ptr %length_at, align 8
  %has = icmp ne ptr %base, null
  br i1 %has, label %mapped, label %last
mapped:
  %ignored = call i32 @munmap(ptr %base, i64 %length)
  br label %last
last:
  call void @free(ptr %model)
  br label %end
end:
  ret void
}
define i32 @firesteel_model_update_weight(ptr %model, ptr %name, ptr %tensor) {
entry:
  %word = alloca i64, align 8
  %half = alloca i32, align 4
  %list = alloca ptr, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %other ]
  %going = icmp ult i64 %i, <WEIGHTS>
  br i1 %going, label %body, label %unknown
body:
  %name_at = getelementptr ptr, ptr <WEIGHT_NAMES>, i64 %i
  %own = load ptr, ptr %name_at, align 8
  %differs = call i32 @strcmp(ptr %own, ptr %name)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %found, label %other
other:
  %next = add i64 %i, 1
  br label %loop
found:
  %e0 = call i32 @<torch>get_dtype(ptr %tensor, ptr %half)
  %e1 = call i32 @<torch>get_dim(ptr %tensor, ptr %word)
  %e2 = call i32 @<torch>get_sizes(ptr %tensor, ptr %list)
  %e3 = or i32 %e0, %e1
  %e4 = or i32 %e3, %e2
  %known = icmp eq i32 %e4, 0
  br i1 %known, label %compare, label %failed
compare:
  %dtype = load i32, ptr %half, align 4
  %dtype_at = getelementptr i64, ptr <DTYPES>, i64 %i
  %dtype_word = load i64, ptr %dtype_at, align 8
  %wanted_dtype = trunc i64 %dtype_word to i32
  %same_dtype = icmp eq i32 %dtype, %wanted_dtype
  %ndim = load i64, ptr %word, align 8
  %ndim_at = getelementptr i64, ptr <DIMENSIONS>, i64 %i
  %wanted_ndim = load i64, ptr %ndim_at, align 8
  %same_ndim = icmp eq i64 %ndim, %wanted_ndim
  %alike = and i1 %same_dtype, %same_ndim
  %sizes = load ptr, ptr %list, align 8
  %sizes_at = getelementptr ptr, ptr <SIZES>, i64 %i
  %wanted = load ptr, ptr %sizes_at, align 8
  br i1 %alike, label %sizes_loop, label %another
sizes_loop:
  %d = phi i64 [ 0, %compare ], [ %after, %equal ]
  %more = icmp slt i64 %d, %ndim
  br i1 %more, label %look, label %copy
look:
  %a_at = getelementptr i64, ptr %sizes, i64 %d
  %a = load i64, ptr %a_at, align 8
  %b_at = getelementptr i64, ptr %wanted, i64 %d
  %b = load i64, ptr %b_at, align 8
  %agree = icmp eq i64 %a, %b
  br i1 %agree, label %equal, label %another
equal:
  %after = add i64 %d, 1
  br label %sizes_loop
copy:
  %shifted = add i64 %i, <HANDLES_AT>
  %slot = getelementptr ptr, ptr %model, i64 %shifted
  %weight = load ptr, ptr %slot, align 8
  %graded = call zeroext i1 @<torch>grad_mode_is_enabled()
  call void @<torch>grad_mode_set_enabled(i1 zeroext false)
  %error = call i32 @<torch>copy_(ptr %weight, ptr %tensor, i32 0)
  call void @<torch>grad_mode_set_enabled(i1 zeroext %graded)
  %copied = icmp eq i32 %error, 0
  br i1 %copied, label %done, label %failed
done:
  ret i32 0
unknown:
  %m0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_NAME>, ptr %name)
  ret i32 1
another:
  %m1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_SHAPE>, ptr %name)
  ret i32 1
failed:
  call void @fs.torch_failed(ptr <MESSAGE_WEIGHT>)
  ret i32 1
}
define i32 @firesteel_model_run(ptr %model, ptr %inputs, i64 %given, ptr %outputs, i64 %room) {
  %enough = icmp eq i64 %given, <INPUTS>
  br i1 %enough, label %first, label %inputs_differ
first:
  %fits = icmp eq i64 %room, <OUTPUTS>
  br i1 %fits, label %go, label %outputs_differ
go:
  %bytes = mul i64 %room, 16
  call void @llvm.memset.p0.i64(ptr %outputs, i8 0, i64 %bytes, i1 false)<ENTER>
  %graded = call zeroext i1 @<torch>grad_mode_is_enabled()
  call void @<torch>grad_mode_set_enabled(i1 zeroext false)
  %error = call i32 @fs.run(ptr %model, ptr %inputs, ptr %outputs)
  call void @<torch>grad_mode_set_enabled(i1 zeroext %graded)
<LEAVE>
  ret i32 %error
inputs_differ:
  %m0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_INPUTS>, i64 <INPUTS>, i64 %given)
  ret i32 1
outputs_differ:
  %m1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_OUTPUTS>, i64 <OUTPUTS>,
      i64 %room)
  ret i32 1
}
