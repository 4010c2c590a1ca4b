; Kernels of a model on a GPU: they are loaded with the model, launched on torch's stream, and let go.
; Functions of CUDA's driver and of libtorch's part for CUDA are looked up when the model is loaded: @fs.gpu.NAME.

define internal i32 @fs.gpu_functions(ptr %library, ptr %title, ptr %names, ptr %places, i64 %count) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %found ]
  %going = icmp ult i64 %i, %count
  br i1 %going, label %body, label %done
body:
  %name_at = getelementptr ptr, ptr %names, i64 %i
  %name = load ptr, ptr %name_at, align 8
  %function = call ptr @dlsym(ptr %library, ptr %name)
  %known = icmp ne ptr %function, null
  br i1 %known, label %found, label %missing
found:
  %place_at = getelementptr ptr, ptr %places, i64 %i
  %place = load ptr, ptr %place_at, align 8
  store ptr %function, ptr %place, align 8
  %next = add i64 %i, 1
  br label %loop
missing:
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_MISSING>, ptr %title, ptr %name)
  ret i32 1
done:
  ret i32 0
}
define internal ptr @fs.gpu_torch() {
  %info = alloca [4 x ptr], align 8
  %path = alloca [4096 x i8], align 8
  %named = call ptr @dlopen(ptr <TORCH>, i32 2)
  %found = icmp ne ptr %named, null
  br i1 %found, label %done, label %beside
beside:
  %known = call i32 @dladdr(ptr @<torch>empty_strided, ptr %info)
  %placed = icmp ne i32 %known, 0
  br i1 %placed, label %cut, label %done
cut:
  %file = load ptr, ptr %info, align 8
  %slash = call ptr @strrchr(ptr %file, i32 47)
  %has = icmp ne ptr %slash, null
  br i1 %has, label %join, label %done
join:
  %start = ptrtoint ptr %file to i64
  %end = ptrtoint ptr %slash to i64
  %length = sub i64 %end, %start
  %short = trunc i64 %length to i32
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr %path, i64 4096, ptr <BESIDE>, i32 %short, ptr %file)
  %second = call ptr @dlopen(ptr %path, i32 2)
  br label %done
done:
  %library = phi ptr [ %named, %0 ], [ null, %beside ], [ null, %cut ], [ %second, %join ]
  ret ptr %library
}
define internal i32 @fs.gpu_open() {
  %driver = call ptr @dlopen(ptr <DRIVER>, i32 2)
  %has_driver = icmp ne ptr %driver, null
  br i1 %has_driver, label %look, label %missing
look:
  %e0 = call i32 @fs.gpu_functions(ptr %driver, ptr <DRIVER>, ptr <DRIVER_NAMES>, ptr <DRIVER_PLACES>,
      i64 <DRIVER_COUNT>)
  %fine = icmp eq i32 %e0, 0
  br i1 %fine, label %second, label %failed
second:
  %torch = call ptr @fs.gpu_torch()
  %has_torch = icmp ne ptr %torch, null
  br i1 %has_torch, label %look_again, label %missing
look_again:
  %e1 = call i32 @fs.gpu_functions(ptr %torch, ptr <TORCH>, ptr <TORCH_NAMES>, ptr <TORCH_PLACES>, i64 <TORCH_COUNT>)
  ret i32 %e1
missing:
  %why = call ptr @dlerror()
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_LIBRARY>, ptr %why)
  ret i32 1
failed:
  ret i32 1
}
define internal i32 @fs.gpu_said(i32 %status, ptr %what) {
  %place = alloca ptr, align 8
  %fine = icmp eq i32 %status, 0
  br i1 %fine, label %good, label %bad
good:
  ret i32 0
bad:
  store ptr <MESSAGE_UNKNOWN>, ptr %place, align 8
  %ask = load ptr, ptr @fs.gpu.cuGetErrorString, align 8
  %ignored = call i32 %ask(i32 %status, ptr %place)
  %given = load ptr, ptr %place, align 8
  %none = icmp eq ptr %given, null
  %text = select i1 %none, ptr <MESSAGE_UNKNOWN>, ptr %given
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_DRIVER>, ptr %what, ptr %text)
  ret i32 1
}
define internal i32 @fs.gpu_enter(ptr %model, ptr %guard) {
  %context_out = alloca ptr, align 8
  store ptr null, ptr %guard, align 8
  store ptr null, ptr %context_out, align 8
  %device_at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  %device64 = load i64, ptr %device_at, align 8
  %device = trunc i64 %device64 to i32
  %create = load ptr, ptr @fs.gpu.<torch>create_cuda_guard, align 8
  %e0 = call i32 %create(i32 %device, ptr %guard)
  %guarded = icmp eq i32 %e0, 0
  br i1 %guarded, label %look, label %failed
look:
  %current = load ptr, ptr @fs.gpu.cuCtxGetCurrent, align 8
  %ignored = call i32 %current(ptr %context_out)
  %context = load ptr, ptr %context_out, align 8
  %none = icmp eq ptr %context, null
  br i1 %none, label %choose, label %done
choose:
  %record_at = getelementptr ptr, ptr %model, i64 <KERNELS_AT>
  %record = load ptr, ptr %record_at, align 8
  %own = load ptr, ptr %record, align 8
  %set = load ptr, ptr @fs.gpu.cuCtxSetCurrent, align 8
  %status = call i32 %set(ptr %own)
  %e1 = call i32 @fs.gpu_said(i32 %status, ptr <MESSAGE_cuCtxSetCurrent>)
  %chosen = icmp eq i32 %e1, 0
  br i1 %chosen, label %done, label %undo
undo:
  call void @fs.gpu_leave(ptr %guard)
  ret i32 1
done:
  ret i32 0
failed:
  call void @fs.torch_failed(ptr <MESSAGE_GUARD>)
  ret i32 1
}
define internal void @fs.gpu_leave(ptr %guard) {
  %made = load ptr, ptr %guard, align 8
  %none = icmp eq ptr %made, null
  br i1 %none, label %done, label %drop
drop:
  store ptr null, ptr %guard, align 8
  %delete = load ptr, ptr @fs.gpu.<torch>delete_cuda_guard, align 8
  %ignored = call i32 %delete(ptr %made)
  br label %done
done:
  ret void
}
define internal i32 @fs.gpu_check(i32 %number, ptr %device) {
  %major_out = alloca i32, align 4
  %minor_out = alloca i32, align 4
  store i32 0, ptr %major_out, align 4
  store i32 0, ptr %minor_out, align 4
  %init = load ptr, ptr @fs.gpu.cuInit, align 8
  %s0 = call i32 %init(i32 0)
  %e0 = call i32 @fs.gpu_said(i32 %s0, ptr <MESSAGE_cuInit>)
  %started = icmp eq i32 %e0, 0
  br i1 %started, label %find, label %failed
find:
  %get = load ptr, ptr @fs.gpu.cuDeviceGet, align 8
  %s1 = call i32 %get(ptr %device, i32 %number)
  %there = icmp eq i32 %s1, 0
  br i1 %there, label %ask, label %absent
ask:
  %handle = load i32, ptr %device, align 4
  %attribute = load ptr, ptr @fs.gpu.cuDeviceGetAttribute, align 8
  %s2 = call i32 %attribute(ptr %major_out, i32 75, i32 %handle)
  %s3 = call i32 %attribute(ptr %minor_out, i32 76, i32 %handle)
  %major = load i32, ptr %major_out, align 4
  %minor = load i32, ptr %minor_out, align 4
  %same = icmp eq i32 %major, <MAJOR>
  %enough = icmp <FITS> i32 %minor, <MINOR>
  %fits = and i1 %same, %enough
  br i1 %fits, label %good, label %other
good:
  ret i32 0
absent:
  %number64 = sext i32 %number to i64
  %n0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_NO_DEVICE>, i64 %number64)
  ret i32 1
other:
  %shown = sext i32 %number to i64
  %major64 = sext i32 %major to i64
  %minor64 = sext i32 %minor to i64
  %n1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_ARCH>, i64 <MAJOR>, i64 <MINOR>,
      i64 %shown, i64 %major64, i64 %minor64)
  ret i32 1
failed:
  ret i32 1
}
define internal i32 @fs.gpu_load(ptr %model, i32 %wanted) {
entry:
  %number_at = alloca i32, align 4
  %device_out = alloca i32, align 4
  %guard = alloca ptr, align 8
  store i32 %wanted, ptr %number_at, align 4
  store i32 0, ptr %device_out, align 4
  %e0 = call i32 @fs.gpu_open()
  %opened = icmp eq i32 %e0, 0
  br i1 %opened, label %which, label %failed
which:
  %any = icmp slt i32 %wanted, 0
  br i1 %any, label %current, label %check
current:
  ; Where libtorch cannot say which is the current one, what follows says why.
  store i32 0, ptr %number_at, align 4
  %ignored = call i32 @<torch>get_current_device_index(ptr %number_at)
  br label %check
check:
  %number = load i32, ptr %number_at, align 4
  %e2 = call i32 @fs.gpu_check(i32 %number, ptr %device_out)
  %fits = icmp eq i32 %e2, 0
  br i1 %fits, label %room, label %failed
room:
  %device_word = sext i32 %number to i64
  %device_at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  store i64 %device_word, ptr %device_at, align 8
  %record = call ptr @calloc(i64 1, i64 <RECORD>)
  %got = icmp ne ptr %record, null
  br i1 %got, label %retain, label %no_memory
retain:
  %record_at = getelementptr ptr, ptr %model, i64 <KERNELS_AT>
  store ptr %record, ptr %record_at, align 8
  %device = load i32, ptr %device_out, align 4
  %take = load ptr, ptr @fs.gpu.cuDevicePrimaryCtxRetain, align 8
  %s0 = call i32 %take(ptr %record, i32 %device)
  %e3 = call i32 @fs.gpu_said(i32 %s0, ptr <MESSAGE_cuDevicePrimaryCtxRetain>)
  %retained = icmp eq i32 %e3, 0
  br i1 %retained, label %enter, label %failed
enter:
  %e4 = call i32 @fs.gpu_enter(ptr %model, ptr %guard)
  %inside = icmp eq i32 %e4, 0
  br i1 %inside, label %loop, label %failed
loop:
  %i = phi i64 [ 0, %enter ], [ %next, %large ], [ %next_small, %small ]
  %going = icmp ult i64 %i, <KERNELS>
  br i1 %going, label %body, label %done
body:
  %image_at = getelementptr ptr, ptr <IMAGES>, i64 %i
  %image = load ptr, ptr %image_at, align 8
  %twice = mul i64 %i, 2
  %module_index = add i64 %twice, 1
  %function_index = add i64 %twice, 2
  %module_at = getelementptr ptr, ptr %record, i64 %module_index
  %function_at = getelementptr ptr, ptr %record, i64 %function_index
  %load = load ptr, ptr @fs.gpu.cuModuleLoadData, align 8
  %s1 = call i32 %load(ptr %module_at, ptr %image)
  %e5 = call i32 @fs.gpu_said(i32 %s1, ptr <MESSAGE_cuModuleLoadData>)
  %loaded = icmp eq i32 %e5, 0
  br i1 %loaded, label %name, label %leave
name:
  %name_at = getelementptr ptr, ptr <FUNCTIONS>, i64 %i
  %called = load ptr, ptr %name_at, align 8
  %module = load ptr, ptr %module_at, align 8
  %get = load ptr, ptr @fs.gpu.cuModuleGetFunction, align 8
  %s2 = call i32 %get(ptr %function_at, ptr %module, ptr %called)
  %e6 = call i32 @fs.gpu_said(i32 %s2, ptr <MESSAGE_cuModuleGetFunction>)
  %named = icmp eq i32 %e6, 0
  br i1 %named, label %measure, label %leave
measure:
  %shared_at = getelementptr i64, ptr <SHARED>, i64 %i
  %shared = load i64, ptr %shared_at, align 8
  %more = icmp ugt i64 %shared, <LIMIT>
  br i1 %more, label %large, label %small
small:
  %next_small = add i64 %i, 1
  br label %loop
large:
  %function = load ptr, ptr %function_at, align 8
  %bytes = trunc i64 %shared to i32
  %set = load ptr, ptr @fs.gpu.cuFuncSetAttribute, align 8
  %s3 = call i32 %set(ptr %function, i32 8, i32 %bytes)
  %e7 = call i32 @fs.gpu_said(i32 %s3, ptr <MESSAGE_cuFuncSetAttribute>)
  %allowed = icmp eq i32 %e7, 0
  %next = add i64 %i, 1
  br i1 %allowed, label %loop, label %leave
done:
  call void @fs.gpu_leave(ptr %guard)
  ret i32 0
leave:
  call void @fs.gpu_leave(ptr %guard)
  ret i32 1
no_memory:
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_MEMORY>)
  ret i32 1
failed:
  ret i32 1
}
define internal void @fs.gpu_free(ptr %model) {
entry:
  %guard = alloca ptr, align 8
  %record_at = getelementptr ptr, ptr %model, i64 <KERNELS_AT>
  %record = load ptr, ptr %record_at, align 8
  %none = icmp eq ptr %record, null
  br i1 %none, label %end, label %look
look:
  %context = load ptr, ptr %record, align 8
  %apart = icmp eq ptr %context, null
  br i1 %apart, label %last, label %enter
enter:
  %e0 = call i32 @fs.gpu_enter(ptr %model, ptr %guard)
  %inside = icmp eq i32 %e0, 0
  br i1 %inside, label %wait, label %last
wait:
  ; What was launched may still run.
  %synchronize = load ptr, ptr @fs.gpu.cuCtxSynchronize, align 8
  %ignored = call i32 %synchronize()
  br label %loop
loop:
  %i = phi i64 [ 0, %wait ], [ %next, %after ]
  %going = icmp ult i64 %i, <KERNELS>
  br i1 %going, label %body, label %leave
body:
  %twice = mul i64 %i, 2
  %index = add i64 %twice, 1
  %module_at = getelementptr ptr, ptr %record, i64 %index
  %module = load ptr, ptr %module_at, align 8
  %empty = icmp eq ptr %module, null
  br i1 %empty, label %after, label %unload
unload:
  %let = load ptr, ptr @fs.gpu.cuModuleUnload, align 8
  %gone = call i32 %let(ptr %module)
  br label %after
after:
  %next = add i64 %i, 1
  br label %loop
leave:
  call void @fs.gpu_leave(ptr %guard)
  br label %last
last:
  call void @free(ptr %record)
  store ptr null, ptr %record_at, align 8
  br label %end
end:
  ret void
}
<LAUNCH_WORDS>
define internal i32 @fs.gpu_launch(ptr %model, i64 %kernel, ptr %words, i64 %count, i64 %programs, i32 %threads,
                                   i32 %shared) {
entry:
  %some = icmp sgt i64 %programs, 0
  br i1 %some, label %begin, label %nothing
nothing:
  ret i32 0
begin:
  %stream_out = alloca ptr, align 8
  store ptr null, ptr %stream_out, align 8
  %device_at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  %device64 = load i64, ptr %device_at, align 8
  %device = trunc i64 %device64 to i32
  %stream_of = load ptr, ptr @fs.gpu.<torch>get_current_cuda_stream, align 8
  %asked = call i32 %stream_of(i32 %device, ptr %stream_out)
  %stream = load ptr, ptr %stream_out, align 8
  %record_at = getelementptr ptr, ptr %model, i64 <KERNELS_AT>
  %record = load ptr, ptr %record_at, align 8
  %twice = mul i64 %kernel, 2
  %index = add i64 %twice, 2
  %function_at = getelementptr ptr, ptr %record, i64 %index
  %function = load ptr, ptr %function_at, align 8
  %launch = load ptr, ptr @fs.gpu.cuLaunchKernel, align 8
  %status = call i32 @fs.launch_words(ptr %launch, ptr %function, i64 %programs, i32 %threads, i32 %shared, ptr %stream,
      ptr %words, i64 %count)
  %error = call i32 @fs.gpu_said(i32 %status, ptr <MESSAGE_cuLaunchKernel>)
  ret i32 %error
}
