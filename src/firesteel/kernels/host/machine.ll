; The host machine: a fast-call builtin bound to (table, objects that it needs), see `program` for the table.
; A row has its operands in %v (the source register), %slot (the place of the destination register), %a or %ai, and %b.
; It goes on to %next. After a failure %raised leaves with an error that is set. What the table owns is let go always.

define ptr @firesteel_host(ptr %self, ptr %arguments, i64 %given) {
entry:
  %out = alloca ptr, align 8
  %second_out = alloca ptr, align 8
  %table = call ptr @firesteel_PyTuple_GetItem(ptr %self, i64 0)
  %program = call ptr @firesteel_PyBytes_AsString(ptr %table)
  %wanted = load i64, ptr %program, align 8
  %registers_count_at = getelementptr i8, ptr %program, i64 8
  %registers_count = load i64, ptr %registers_count_at, align 8
  %array_count_at = getelementptr i8, ptr %program, i64 16
  %array_count = load i64, ptr %array_count_at, align 8
  %at_owned_at = getelementptr i8, ptr %program, i64 24
  %at_owned = load i64, ptr %at_owned_at, align 8
  %memory_count_at = getelementptr i8, ptr %program, i64 32
  %memory_count = load i64, ptr %memory_count_at, align 8
  %object_count_at = getelementptr i8, ptr %program, i64 40
  %object_count = load i64, ptr %object_count_at, align 8
  %at_results_at = getelementptr i8, ptr %program, i64 48
  %at_results = load i64, ptr %at_results_at, align 8
  %result_count_at = getelementptr i8, ptr %program, i64 56
  %result_count = load i64, ptr %result_count_at, align 8
  %count_ok = icmp eq i64 %wanted, %given
  br i1 %count_ok, label %prepare, label %wrong_count
wrong_count:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_arguments)
  ret ptr null
prepare:
  %registers = alloca i64, i64 %registers_count, align 8
  %array = alloca i64, i64 %array_count, align 8
  %owned = getelementptr i8, ptr %program, i64 %at_owned
  %owned_objects = getelementptr i64, ptr %owned, i64 %memory_count
  %results = getelementptr i8, ptr %program, i64 %at_results
  %register_bytes = mul i64 %registers_count, 8
  call void @llvm.memset.p0.i64(ptr align 8 %registers, i8 0, i64 %register_bytes, i1 false)
  %argument_bytes = mul i64 %given, 8
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %registers, ptr align 8 %arguments, i64 %argument_bytes, i1 false)
  %first = getelementptr i8, ptr %program, i64 <HEADER>
  br label %loop
loop:
  %pc = phi ptr [%first, %prepare], [%pc_next, %next]
  %op = load i32, ptr %pc, align 8
  %destination_at = getelementptr i8, ptr %pc, i64 4
  %destination = load i32, ptr %destination_at, align 4
  %source_at = getelementptr i8, ptr %pc, i64 8
  %source = load i32, ptr %source_at, align 4
  %ai_at = getelementptr i8, ptr %pc, i64 16
  %ai = load i64, ptr %ai_at, align 8
  %b_at = getelementptr i8, ptr %pc, i64 24
  %b = load i64, ptr %b_at, align 8
  %a = inttoptr i64 %ai to ptr
  %slot = getelementptr ptr, ptr %registers, i32 %destination
  %source_slot = getelementptr ptr, ptr %registers, i32 %source
  %v = load ptr, ptr %source_slot, align 8
  switch i32 %op, label %none [
<CASES>
  ]
next:
  %pc_next = getelementptr i8, ptr %pc, i64 <ROW>
  br label %loop

op_CONSTANT:  ; destination = a
  store i64 %ai, ptr %slot, align 8
  br label %next

op_MOVE:  ; destination = source
  store ptr %v, ptr %slot, align 8
  br label %next

op_INTEGER:  ; destination = the value of the int source
  %integer_value = call i64 @firesteel_PyLong_AsLongLong(ptr %v)
  %integer_suspect = icmp eq i64 %integer_value, -1
  br i1 %integer_suspect, label %integer_look, label %integer_store
integer_look:
  %integer_error = call ptr @firesteel_PyErr_Occurred()
  %integer_fine = icmp eq ptr %integer_error, null
  br i1 %integer_fine, label %integer_store, label %raised
integer_store:
  store i64 %integer_value, ptr %slot, align 8
  br label %next

op_FLOAT:  ; destination = the bits of the number source as a double
  %float_value = call double @firesteel_PyFloat_AsDouble(ptr %v)
  %float_suspect = fcmp oeq double %float_value, -1.0
  br i1 %float_suspect, label %float_look, label %float_store
float_look:
  %float_error = call ptr @firesteel_PyErr_Occurred()
  %float_fine = icmp eq ptr %float_error, null
  br i1 %float_fine, label %float_store, label %raised
float_store:
  store double %float_value, ptr %slot, align 8
  br label %next

op_POINTER:  ; destination = the address of the tensor source's first element
  %pointer_tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %pointer_status = call i32 @firesteel_torch_get_data_ptr(ptr %pointer_tensor, ptr %out)
  %pointer_ok = icmp eq i32 %pointer_status, 0
  br i1 %pointer_ok, label %pointer_read, label %failed
pointer_read:
  %address = load ptr, ptr %out, align 8
  store ptr %address, ptr %slot, align 8
  br label %next

op_SIZE:  ; destination = the size of the tensor source in dimension index
  %size_tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %size_status = call i32 @firesteel_torch_get_sizes(ptr %size_tensor, ptr %out)
  %size_ok = icmp eq i32 %size_status, 0
  br i1 %size_ok, label %size_read, label %failed
size_read:
  %size_index_at = getelementptr i8, ptr %pc, i64 12
  %size_index = load i32, ptr %size_index_at, align 4
  %size_all = load ptr, ptr %out, align 8
  %size_at = getelementptr i64, ptr %size_all, i32 %size_index
  %size_value = load i64, ptr %size_at, align 8
  store i64 %size_value, ptr %slot, align 8
  br label %next

op_STRIDE:  ; destination = the stride of the tensor source in dimension index
  %stride_tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %stride_status = call i32 @firesteel_torch_get_strides(ptr %stride_tensor, ptr %out)
  %stride_ok = icmp eq i32 %stride_status, 0
  br i1 %stride_ok, label %stride_read, label %failed
stride_read:
  %stride_index_at = getelementptr i8, ptr %pc, i64 12
  %stride_index = load i32, ptr %stride_index_at, align 4
  %stride_all = load ptr, ptr %out, align 8
  %stride_at = getelementptr i64, ptr %stride_all, i32 %stride_index
  %stride_value = load i64, ptr %stride_at, align 8
  store i64 %stride_value, ptr %slot, align 8
  br label %next

op_EMPTY:  ; destination = a new tensor, source = the register for its address; a, b as in `Program.extents`
  %empty_index_at = getelementptr i8, ptr %pc, i64 12
  %empty_index = load i32, ptr %empty_index_at, align 4
  %empty_rank32 = and i32 %empty_index, 65535
  %empty_rank = zext i32 %empty_rank32 to i64
  %empty_table = icmp ult i32 %empty_index, 65536
  %empty_in_table = getelementptr i8, ptr %program, i64 %ai
  %empty_in_registers = getelementptr i64, ptr %registers, i64 %ai
  %empty_sizes = select i1 %empty_table, ptr %empty_in_table, ptr %empty_in_registers
  %empty_strides = getelementptr i64, ptr %empty_sizes, i64 %empty_rank
  %kind = trunc i64 %b to i32
  %dtype = and i32 %kind, 255
  %kind_of_device = lshr i32 %kind, 8
  %device_type = and i32 %kind_of_device, 255
  %device_index = lshr i32 %kind, 16
  %empty_status = call i32 @firesteel_torch_empty_strided(i64 %empty_rank, ptr %empty_sizes, ptr %empty_strides,
      i32 %dtype, i32 %device_type, i32 %device_index, ptr %out)
  %empty_ok = icmp eq i32 %empty_status, 0
  br i1 %empty_ok, label %empty_address, label %no_memory
empty_address:
  %fresh = load ptr, ptr %out, align 8
  %address_status = call i32 @firesteel_torch_get_data_ptr(ptr %fresh, ptr %second_out)
  %fresh_address = load ptr, ptr %second_out, align 8
  %address_slot = getelementptr ptr, ptr %registers, i32 %source
  store ptr %fresh_address, ptr %address_slot, align 8
  %empty_made = load ptr, ptr %out, align 8
  %empty_object = call ptr @firesteel_wrap_tensor(ptr %empty_made)
  %empty_gone = call i32 @firesteel_torch_delete_tensor_object(ptr %empty_made)
  %empty_null = icmp eq ptr %empty_object, null
  br i1 %empty_null, label %raised, label %empty_keep
empty_keep:
  store ptr %empty_object, ptr %slot, align 8
  br label %next

op_VIEW:  ; destination = a strided view of the tensor source; a, b as in `Program.extents`, plus an offset
  %view_tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %view_index_at = getelementptr i8, ptr %pc, i64 12
  %view_index = load i32, ptr %view_index_at, align 4
  %view_rank32 = and i32 %view_index, 65535
  %view_rank = zext i32 %view_rank32 to i64
  %view_table = icmp ult i32 %view_index, 65536
  %view_in_table = getelementptr i8, ptr %program, i64 %ai
  %view_in_registers = getelementptr i64, ptr %registers, i64 %ai
  %view_sizes = select i1 %view_table, ptr %view_in_table, ptr %view_in_registers
  %view_strides = getelementptr i64, ptr %view_sizes, i64 %view_rank
  %view_offset_at = getelementptr i64, ptr %view_strides, i64 %view_rank
  %view_offset = load i64, ptr %view_offset_at, align 8
  %view_status = call i32 @firesteel_torch__reinterpret_tensor(ptr %view_tensor, i64 %view_rank, ptr %view_sizes,
      ptr %view_strides, i64 %view_offset, ptr %out)
  %view_ok = icmp eq i32 %view_status, 0
  br i1 %view_ok, label %view_wrap, label %failed
view_wrap:
  %view_made = load ptr, ptr %out, align 8
  %view_object = call ptr @firesteel_wrap_tensor(ptr %view_made)
  %view_gone = call i32 @firesteel_torch_delete_tensor_object(ptr %view_made)
  %view_null = icmp eq ptr %view_object, null
  br i1 %view_null, label %raised, label %view_keep
view_keep:
  store ptr %view_object, ptr %slot, align 8
  br label %next

op_MEMORY:  ; destination = memory of as many bytes as register source says
  %bytes = ptrtoint ptr %v to i64
  %memory_status = call i32 @firesteel_posix_memalign(ptr %slot, i64 64, i64 %bytes)
  %memory_ok = icmp eq i32 %memory_status, 0
  br i1 %memory_ok, label %memory_got, label %memory_none
memory_got:
  br label %next
memory_none:
  store ptr null, ptr %slot, align 8
  br label %no_memory

op_ADVISE:  ; the memory in the source register, of as many bytes as register a says, is to have huge pages
  %advised_at = getelementptr i64, ptr %registers, i64 %ai
  %advised = load i64, ptr %advised_at, align 8
  %is_large = icmp sge i64 %advised, <LARGE>
  br i1 %is_large, label %advise_now, label %next
advise_now:
  %advised_start = ptrtoint ptr %v to i64
  %advised_end = add i64 %advised_start, %advised
  %advised_up = add i64 %advised_start, <PAGE_REST>
  %first_page = and i64 %advised_up, <PAGE_MASK>
  %behind_pages = and i64 %advised_end, <PAGE_MASK>
  %whole_pages = sub i64 %behind_pages, %first_page
  %pages = inttoptr i64 %first_page to ptr
  %ignored = call i32 @firesteel_madvise(ptr %pages, i64 %whole_pages, i32 <HUGE_PAGES>)
  br label %next

op_FREE:  ; the memory in the source register is given back
  call void @firesteel_free(ptr %v)
  %freed = getelementptr ptr, ptr %registers, i32 %source
  store ptr null, ptr %freed, align 8
  br label %next

op_LAUNCH:  ; the kernel at address a, with the list at b; index: 1 to let other Python threads run meanwhile;
  ; destination: its number, for those who watch launches
  %list = getelementptr i8, ptr %program, i64 %b
  %buffer_count_at = getelementptr i8, ptr %list, i64 0
  %buffer_count = load i64, ptr %buffer_count_at, align 8
  %size_count_at = getelementptr i8, ptr %list, i64 8
  %size_count = load i64, ptr %size_count_at, align 8
  %number_count_at = getelementptr i8, ptr %list, i64 16
  %number_count = load i64, ptr %number_count_at, align 8
  %all_buffers = getelementptr i8, ptr %list, i64 24
  %two_counts = add i64 %buffer_count, %size_count
  %all_counts = add i64 %two_counts, %number_count
  %size_array = getelementptr i64, ptr %array, i64 %buffer_count
  %number_array = getelementptr i64, ptr %array, i64 %two_counts
  br label %words_loop
words_loop:
  %words_i = phi i64 [0, %op_LAUNCH], [%words_i_next, %words_one]
  %words_done = icmp uge i64 %words_i, %all_counts
  br i1 %words_done, label %launch_now, label %words_one
words_one:
  %words_which_at = getelementptr i64, ptr %all_buffers, i64 %words_i
  %words_which = load i64, ptr %words_which_at, align 8
  %words_from = getelementptr i64, ptr %registers, i64 %words_which
  %words_word = load i64, ptr %words_from, align 8
  %words_to = getelementptr i64, ptr %array, i64 %words_i
  store i64 %words_word, ptr %words_to, align 8
  %words_i_next = add i64 %words_i, 1
  br label %words_loop
launch_now:
  %watched_word = load i64, ptr @firesteel_launch_watch, align 8
  %watched = icmp ne i64 %watched_word, 0
  br i1 %watched, label %launch_begin, label %launch_begun
launch_begin:
  %begin_at = getelementptr i64, ptr @firesteel_launch_watch, i64 1
  %begin = load ptr, ptr %begin_at, align 8
  call void %begin(i32 %destination)
  br label %launch_begun
launch_begun:
  %release_at = getelementptr i8, ptr %pc, i64 12
  %release = load i32, ptr %release_at, align 4
  %let_go = icmp ne i32 %release, 0
  br i1 %let_go, label %launch_released, label %launch_held
launch_held:
  call void %a(ptr %array, ptr %size_array, ptr %number_array)
  br label %launch_over
launch_released:
  %thread = call ptr @firesteel_PyEval_SaveThread()
  call void %a(ptr %array, ptr %size_array, ptr %number_array)
  call void @firesteel_PyEval_RestoreThread(ptr %thread)
  br label %launch_over
launch_over:
  br i1 %watched, label %launch_end, label %next
launch_end:
  %end_at = getelementptr i64, ptr @firesteel_launch_watch, i64 2
  %end = load ptr, ptr %end_at, align 8
  call void %end()
  br label %next

op_DROP:  ; the object in the source register is let go
  call void @firesteel_Py_DecRef(ptr %v)
  %dropped = getelementptr ptr, ptr %registers, i32 %source
  store ptr null, ptr %dropped, align 8
  br label %next

op_LAUNCH_BLOCKS:  ; the GPU kernel with the descriptor a, the list at b; source: how many programs
  %blocks_list = getelementptr i8, ptr %program, i64 %b
  %blocks_count_at = getelementptr i8, ptr %blocks_list, i64 0
  %blocks_count = load i64, ptr %blocks_count_at, align 8
  %blocks_words = getelementptr i8, ptr %blocks_list, i64 8
  br label %blocks_loop
blocks_loop:
  %blocks_i = phi i64 [0, %op_LAUNCH_BLOCKS], [%blocks_i_next, %blocks_one]
  %blocks_done = icmp uge i64 %blocks_i, %blocks_count
  br i1 %blocks_done, label %blocks_now, label %blocks_one
blocks_one:
  %blocks_which_at = getelementptr i64, ptr %blocks_words, i64 %blocks_i
  %blocks_which = load i64, ptr %blocks_which_at, align 8
  %blocks_from = getelementptr i64, ptr %registers, i64 %blocks_which
  %blocks_word = load i64, ptr %blocks_from, align 8
  %blocks_to = getelementptr i64, ptr %array, i64 %blocks_i
  store i64 %blocks_word, ptr %blocks_to, align 8
  %blocks_i_next = add i64 %blocks_i, 1
  br label %blocks_loop
blocks_now:
  %blocks_watched_word = load i64, ptr @firesteel_launch_watch, align 8
  %blocks_watched = icmp ne i64 %blocks_watched_word, 0
  br i1 %blocks_watched, label %blocks_begin, label %blocks_begun
blocks_begin:
  %blocks_begin_at = getelementptr i64, ptr @firesteel_launch_watch, i64 1
  %blocks_begin_function = load ptr, ptr %blocks_begin_at, align 8
  call void %blocks_begin_function(i32 %destination)
  br label %blocks_begun
blocks_begun:
  %blocks_programs = ptrtoint ptr %v to i64
  %blocks_launcher = load ptr, ptr %a, align 8
  %blocks_status = call i32 %blocks_launcher(ptr %a, ptr %array, i64 %blocks_programs)
  br i1 %blocks_watched, label %blocks_end, label %blocks_ended
blocks_end:
  %blocks_end_at = getelementptr i64, ptr @firesteel_launch_watch, i64 2
  %blocks_end_function = load ptr, ptr %blocks_end_at, align 8
  call void %blocks_end_function()
  br label %blocks_ended
blocks_ended:
  %blocks_ok = icmp eq i32 %blocks_status, 0
  br i1 %blocks_ok, label %blocks_launched, label %not_launched
blocks_launched:
  br label %next

<ARITHMETIC>

none:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_number)
  br label %raised
failed:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_torch)
  br label %raised
no_memory:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_memory)
  br label %raised
not_launched:
  call void @firesteel_PyErr_SetString(ptr @firesteel_RuntimeError, ptr @message_launch)
  br label %raised
success:
  %single = icmp slt i64 %result_count, 0
  br i1 %single, label %give_one, label %give_tuple
give_one:
  %one_number = load i64, ptr %results, align 8
  %one_at = getelementptr ptr, ptr %registers, i64 %one_number
  %one = load ptr, ptr %one_at, align 8
  call void @firesteel_Py_IncRef(ptr %one)
  br label %leave
give_tuple:
  %tuple = call ptr @firesteel_PyTuple_New(i64 %result_count)
  %tuple_null = icmp eq ptr %tuple, null
  br i1 %tuple_null, label %leave_tuple, label %fill_tuple
fill_tuple:
  %items = getelementptr i8, ptr %tuple, i64 <ITEMS>
  br label %fill
fill:
  %i = phi i64 [0, %fill_tuple], [%i_next, %fill_one]
  %filled = icmp uge i64 %i, %result_count
  br i1 %filled, label %leave_tuple, label %fill_one
fill_one:
  %result_at = getelementptr i64, ptr %results, i64 %i
  %result_number = load i64, ptr %result_at, align 8
  %result_slot = getelementptr ptr, ptr %registers, i64 %result_number
  %result = load ptr, ptr %result_slot, align 8
  call void @firesteel_Py_IncRef(ptr %result)
  %item = getelementptr ptr, ptr %items, i64 %i
  store ptr %result, ptr %item, align 8
  %i_next = add i64 %i, 1
  br label %fill
leave_tuple:
  br label %leave
raised:
  br label %leave
leave:
  %answer = phi ptr [%one, %give_one], [%tuple, %leave_tuple], [null, %raised]
  br label %memory_loop
memory_loop:
  %m = phi i64 [0, %leave], [%m_next, %memory_one]
  %m_done = icmp uge i64 %m, %memory_count
  br i1 %m_done, label %object_loop, label %memory_one
memory_one:
  %m_at = getelementptr i64, ptr %owned, i64 %m
  %m_number = load i64, ptr %m_at, align 8
  %m_slot = getelementptr ptr, ptr %registers, i64 %m_number
  %m_pointer = load ptr, ptr %m_slot, align 8
  call void @firesteel_free(ptr %m_pointer)
  %m_next = add i64 %m, 1
  br label %memory_loop
object_loop:
  %o = phi i64 [0, %memory_loop], [%o_next, %object_next]
  %o_done = icmp uge i64 %o, %object_count
  br i1 %o_done, label %done, label %object_one
object_one:
  %o_at = getelementptr i64, ptr %owned_objects, i64 %o
  %o_number = load i64, ptr %o_at, align 8
  %o_slot = getelementptr ptr, ptr %registers, i64 %o_number
  %o_pointer = load ptr, ptr %o_slot, align 8
  call void @firesteel_Py_DecRef(ptr %o_pointer)
  br label %object_next
object_next:
  %o_next = add i64 %o, 1
  br label %object_loop
done:
  ret ptr %answer
}
<MESSAGES>
@firesteel_RuntimeError = external global i8
@firesteel_launch_watch = external global [3 x i64]
declare ptr @firesteel_PyTuple_GetItem(ptr, i64)
declare ptr @firesteel_PyTuple_New(i64)
declare ptr @firesteel_PyBytes_AsString(ptr)
declare void @firesteel_Py_IncRef(ptr)
declare void @firesteel_Py_DecRef(ptr)
declare i64 @firesteel_PyLong_AsLongLong(ptr)
declare double @firesteel_PyFloat_AsDouble(ptr)
declare ptr @firesteel_PyErr_Occurred()
declare void @firesteel_PyErr_SetString(ptr, ptr)
declare ptr @firesteel_PyEval_SaveThread()
declare void @firesteel_PyEval_RestoreThread(ptr)
declare i32 @firesteel_torch_get_data_ptr(ptr, ptr)
declare i32 @firesteel_torch_get_sizes(ptr, ptr)
declare i32 @firesteel_torch_get_strides(ptr, ptr)
declare i32 @firesteel_torch_empty_strided(i64, ptr, ptr, i32, i32, i32, ptr)
declare i32 @firesteel_torch__reinterpret_tensor(ptr, i64, ptr, ptr, i64, ptr)
declare i32 @firesteel_torch_delete_tensor_object(ptr)
declare ptr @firesteel_wrap_tensor(ptr)
declare i32 @firesteel_posix_memalign(ptr, i64, i64)
declare void @firesteel_free(ptr)
declare i32 @firesteel_madvise(ptr, i64, i32)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)
declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)
declare {i64, i1} @llvm.sadd.with.overflow.i64(i64, i64)
