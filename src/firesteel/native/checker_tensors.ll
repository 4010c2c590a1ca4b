; Rows of the checker about tensors: a tensor as described, its sizes and strides, and sets of storages (see `memory`).
; Where torch does not lay tensors out as expected, no row leads here.

op_TENSOR:  ; the tensor described at offset a
  %facts = getelementptr i8, ptr %program, i64 %ai
  %t_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %t_type = load i64, ptr %t_type_at, align 8
  %want_type_at = getelementptr i8, ptr %facts, i64 0
  %want_type = load i64, ptr %want_type_at, align 8
  %t_type_same = icmp eq i64 %t_type, %want_type
  br i1 %t_type_same, label %tensor_keys, label %none
tensor_keys:
  %tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %impl = load ptr, ptr %tensor, align 8
  %impl_null = icmp eq ptr %impl, null
  br i1 %impl_null, label %none, label %tensor_keys_read
tensor_keys_read:
  %keyset_at = getelementptr i8, ptr %impl, i64 <DISPATCH_KEYS>
  %keyset = load i64, ptr %keyset_at, align 8
  %want_keyset_at = getelementptr i8, ptr %facts, i64 8
  %want_keyset = load i64, ptr %want_keyset_at, align 8
  %keyset_same = icmp eq i64 %keyset, %want_keyset
  br i1 %keyset_same, label %tensor_dtype, label %none
tensor_dtype:
  %dtype_status = call i32 <get_dtype>(ptr %tensor, ptr %narrow)
  %dtype_ok = icmp eq i32 %dtype_status, 0
  br i1 %dtype_ok, label %dtype_compare, label %none
dtype_compare:
  %dtype = load i32, ptr %narrow, align 4
  %want_dtype_at = getelementptr i8, ptr %facts, i64 24
  %want_dtype = load i32, ptr %want_dtype_at, align 4
  %dtype_equal = icmp eq i32 %dtype, %want_dtype
  br i1 %dtype_equal, label %tensor_dim, label %none
tensor_dim:
  %dim_status = call i32 <get_dim>(ptr %tensor, ptr %wide)
  %dim_ok = icmp eq i32 %dim_status, 0
  br i1 %dim_ok, label %dim_compare, label %none
dim_compare:
  %dim = load i64, ptr %wide, align 8
  %want_dim_at = getelementptr i8, ptr %facts, i64 16
  %want_dim = load i64, ptr %want_dim_at, align 8
  %dim_equal = icmp eq i64 %dim, %want_dim
  br i1 %dim_equal, label %tensor_sizes, label %none
tensor_sizes:
  %want_sizes = getelementptr i8, ptr %facts, i64 <FACTS>
  %want_strides = getelementptr i64, ptr %want_sizes, i64 %want_dim
  %sizes_status = call i32 <get_sizes>(ptr %tensor, ptr %pointer)
  %sizes_ok = icmp eq i32 %sizes_status, 0
  br i1 %sizes_ok, label %sizes_begin, label %none
sizes_begin:
  %sizes = load ptr, ptr %pointer, align 8
  br label %sizes_loop
sizes_loop:
  %sizes_d = phi i64 [0, %sizes_begin], [%sizes_d_next, %sizes_next]
  %sizes_done = icmp uge i64 %sizes_d, %want_dim
  br i1 %sizes_done, label %tensor_strides, label %sizes_one
sizes_one:
  %sizes_e_at = getelementptr i64, ptr %sizes, i64 %sizes_d
  %sizes_e = load i64, ptr %sizes_e_at, align 8
  %sizes_w_at = getelementptr i64, ptr %want_sizes, i64 %sizes_d
  %sizes_w = load i64, ptr %sizes_w_at, align 8
  %sizes_equal = icmp eq i64 %sizes_e, %sizes_w
  br i1 %sizes_equal, label %sizes_next, label %sizes_differs
sizes_differs:
  %sizes_free = icmp eq i64 %sizes_w, <ANY>
  br i1 %sizes_free, label %sizes_next, label %none
sizes_next:
  %sizes_d_next = add i64 %sizes_d, 1
  br label %sizes_loop
tensor_strides:
  %strides_status = call i32 <get_strides>(ptr %tensor, ptr %pointer)
  %strides_ok = icmp eq i32 %strides_status, 0
  br i1 %strides_ok, label %strides_begin, label %none
strides_begin:
  %strides = load ptr, ptr %pointer, align 8
  br label %strides_loop
strides_loop:
  %strides_d = phi i64 [0, %strides_begin], [%strides_d_next, %strides_next]
  %strides_done = icmp uge i64 %strides_d, %want_dim
  br i1 %strides_done, label %tensor_device, label %strides_one
strides_one:
  %strides_e_at = getelementptr i64, ptr %strides, i64 %strides_d
  %strides_e = load i64, ptr %strides_e_at, align 8
  %strides_w_at = getelementptr i64, ptr %want_strides, i64 %strides_d
  %strides_w = load i64, ptr %strides_w_at, align 8
  %strides_equal = icmp eq i64 %strides_e, %strides_w
  br i1 %strides_equal, label %strides_next, label %strides_differs
strides_differs:
  %strides_free = icmp eq i64 %strides_w, <ANY>
  br i1 %strides_free, label %strides_next, label %none
strides_next:
  %strides_d_next = add i64 %strides_d, 1
  br label %strides_loop
tensor_device:
  %device_type_status = call i32 <get_device_type>(ptr %tensor, ptr %narrow)
  %device_type_ok = icmp eq i32 %device_type_status, 0
  br i1 %device_type_ok, label %device_type_compare, label %none
device_type_compare:
  %device_type = load i32, ptr %narrow, align 4
  %want_device_type_at = getelementptr i8, ptr %facts, i64 28
  %want_device_type = load i32, ptr %want_device_type_at, align 4
  %device_type_equal = icmp eq i32 %device_type, %want_device_type
  br i1 %device_type_equal, label %tensor_index, label %none
tensor_index:
  %device_index_status = call i32 <get_device_index>(ptr %tensor, ptr %narrow)
  %device_index_ok = icmp eq i32 %device_index_status, 0
  br i1 %device_index_ok, label %device_index_compare, label %none
device_index_compare:
  %device_index = load i32, ptr %narrow, align 4
  %want_device_index_at = getelementptr i8, ptr %facts, i64 32
  %want_device_index = load i32, ptr %want_device_index_at, align 4
  %device_index_equal = icmp eq i32 %device_index, %want_device_index
  br i1 %device_index_equal, label %tensor_grad, label %none
tensor_grad:
  %grad = call zeroext i1 <requires_grad>(ptr %impl)
  %grad_word = zext i1 %grad to i32
  %want_grad_at = getelementptr i8, ptr %facts, i64 36
  %want_grad = load i32, ptr %want_grad_at, align 4
  %grad_equal = icmp eq i32 %grad_word, %want_grad
  br i1 %grad_equal, label %tensor_leaf, label %none
tensor_leaf:
  %want_leaf_at = getelementptr i8, ptr %facts, i64 40
  %want_leaf = load i64, ptr %want_leaf_at, align 8
  %leaf_free = icmp eq i64 %want_leaf, 0
  br i1 %leaf_free, label %next, label %tensor_leaf_look
tensor_leaf_look:
  %want_true = icmp eq i64 %want_leaf, <TRUE>
  br i1 %want_true, label %<LEAF_RECORD>, label %leaf_ask  ; a plain tensor without gradient function is a leaf
leaf_record:
  %record_at = getelementptr i8, ptr %impl, i64 <RECORD>
  %record = load ptr, ptr %record_at, align 8
  %record_null = icmp eq ptr %record, null
  br i1 %record_null, label %leaf_ask, label %leaf_class
leaf_class:
  %class = load i64, ptr %record, align 8
  %grad_fn_at = getelementptr i8, ptr %record, i64 <GRADIENT_FUNCTION>
  %grad_fn = load i64, ptr %grad_fn_at, align 8
  %class_plain = icmp eq i64 %class, <PLAIN_RECORD>
  %grad_fn_null = icmp eq i64 %grad_fn, 0
  %leaf_sure = and i1 %class_plain, %grad_fn_null
  br i1 %leaf_sure, label %next, label %leaf_ask
leaf_ask:
  %leaf = call ptr <is_leaf>(ptr %v, ptr <IS_LEAF_CLOSURE>)
  %leaf_failed = icmp eq ptr %leaf, null
  br i1 %leaf_failed, label %none, label %leaf_compare
leaf_compare:
  %leaf_word = ptrtoint ptr %leaf to i64
  call void <Py_DecRef>(ptr %leaf)
  %leaf_same = icmp eq i64 %leaf_word, %want_leaf
  br i1 %leaf_same, label %next, label %none

op_SIZE:  ; destination = the size of source, a tensor that a row before has checked, in dimension index
  %size_tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %size_status = call i32 <get_sizes>(ptr %size_tensor, ptr %pointer)
  %size_ok = icmp eq i32 %size_status, 0
  br i1 %size_ok, label %size_read, label %none
size_read:
  %size_index_at = getelementptr i8, ptr %pc, i64 12
  %size_index = load i32, ptr %size_index_at, align 4
  %size_all = load ptr, ptr %pointer, align 8
  %size_at = getelementptr i64, ptr %size_all, i32 %size_index
  %size_value = load i64, ptr %size_at, align 8
  store i64 %size_value, ptr %slot, align 8
  br label %next

op_STRIDE:  ; destination = the stride of source, in dimension index
  %stride_tensor = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %stride_status = call i32 <get_strides>(ptr %stride_tensor, ptr %pointer)
  %stride_ok = icmp eq i32 %stride_status, 0
  br i1 %stride_ok, label %stride_read, label %none
stride_read:
  %stride_index_at = getelementptr i8, ptr %pc, i64 12
  %stride_index = load i32, ptr %stride_index_at, align 4
  %stride_all = load ptr, ptr %pointer, align 8
  %stride_at = getelementptr i64, ptr %stride_all, i32 %stride_index
  %stride_value = load i64, ptr %stride_at, align 8
  store i64 %stride_value, ptr %slot, align 8
  br label %next

op_SAME_STORAGE:  ; source, a tensor, has the storage of the one in the destination register
  %stored_with = load ptr, ptr %slot, align 8
  %this_impl_at = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %this_impl = load ptr, ptr %this_impl_at, align 8
  %this_storage_at = getelementptr i8, ptr %this_impl, i64 <STORAGE>
  %this_storage = load i64, ptr %this_storage_at, align 8
  %that_impl_at = getelementptr i8, ptr %stored_with, i64 <IMPLEMENTATION>
  %that_impl = load ptr, ptr %that_impl_at, align 8
  %that_storage_at = getelementptr i8, ptr %that_impl, i64 <STORAGE>
  %that_storage = load i64, ptr %that_storage_at, align 8
  %storage_same = icmp eq i64 %this_storage, %that_storage
  br i1 %storage_same, label %next, label %none

op_NEW_STORAGE:  ; the storage of source is not in the set, and joins it
  %new_impl_at = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %new_impl = load ptr, ptr %new_impl_at, align 8
  %new_address_at = getelementptr i8, ptr %new_impl, i64 <STORAGE>
  %new_address = load i64, ptr %new_address_at, align 8
  %new_storage_flag_at = add i64 %new_address, <RESIZABLE>
  %new_storage_flag_ptr = inttoptr i64 %new_storage_flag_at to ptr
  %new_storage_flag_byte = load i8, ptr %new_storage_flag_ptr, align 1
  %new_storage_flag = zext i8 %new_storage_flag_byte to i64
  %new_storage_needed = lshr i64 %b, 1
  %new_storage_foreign = icmp ult i64 %new_storage_flag, %new_storage_needed
  br i1 %new_storage_foreign, label %<FOREIGN_NEW_STORAGE>, label %new_storage_begin
new_storage_begin:
  %new_storage_before_at = getelementptr i8, ptr %a, i64 0
  %new_storage_before = load i64, ptr %new_storage_before_at, align 8
  %new_storage_first = and i64 %b, 1
  %new_storage_count = add i64 %new_storage_before, %new_storage_first
  store i64 %new_storage_count, ptr %a, align 8
  %new_storage_mask_at = getelementptr i8, ptr %a, i64 8
  %new_storage_mask = load i64, ptr %new_storage_mask_at, align 8
  %new_storage_slots = getelementptr i8, ptr %a, i64 <SET_HEAD>
  %new_storage_spread = mul i64 %new_address, <SPREAD>
  %new_storage_start = lshr i64 %new_storage_spread, 32
  br label %new_storage_loop
new_storage_loop:
  %new_storage_i = phi i64 [%new_storage_start, %new_storage_begin], [%new_storage_i_next, %new_storage_other]
  %new_storage_place = and i64 %new_storage_i, %new_storage_mask
  %new_storage_offset = mul i64 %new_storage_place, <SET_SLOT>
  %new_storage_at = getelementptr i8, ptr %new_storage_slots, i64 %new_storage_offset
  %new_storage_number_at = getelementptr i8, ptr %new_storage_at, i64 8
  %new_storage_number = load i64, ptr %new_storage_number_at, align 8
  %new_storage_taken = icmp eq i64 %new_storage_number, %new_storage_count
  br i1 %new_storage_taken, label %new_storage_compare, label %new_storage_free
new_storage_compare:
  %new_storage_member_at = getelementptr i8, ptr %new_storage_at, i64 0
  %new_storage_member = load i64, ptr %new_storage_member_at, align 8
  %new_storage_found = icmp eq i64 %new_storage_member, %new_address
  br i1 %new_storage_found, label %none, label %new_storage_other
new_storage_other:
  %new_storage_i_next = add i64 %new_storage_i, 1
  br label %new_storage_loop
new_storage_free:
  store i64 %new_address, ptr %new_storage_at, align 8
  store i64 %new_storage_count, ptr %new_storage_number_at, align 8
  br label %next

op_OTHER_STORAGE:  ; the storage of source is not in the set
  %other_impl_at = getelementptr i8, ptr %v, i64 <IMPLEMENTATION>
  %other_impl = load ptr, ptr %other_impl_at, align 8
  %other_address_at = getelementptr i8, ptr %other_impl, i64 <STORAGE>
  %other_address = load i64, ptr %other_address_at, align 8
  %other_storage_flag_at = add i64 %other_address, <RESIZABLE>
  %other_storage_flag_ptr = inttoptr i64 %other_storage_flag_at to ptr
  %other_storage_flag_byte = load i8, ptr %other_storage_flag_ptr, align 1
  %other_storage_flag = zext i8 %other_storage_flag_byte to i64
  %other_storage_needed = lshr i64 %b, 1
  %other_storage_foreign = icmp ult i64 %other_storage_flag, %other_storage_needed
  br i1 %other_storage_foreign, label %<FOREIGN_OTHER_STORAGE>, label %other_storage_begin
other_storage_begin:
  %other_storage_before_at = getelementptr i8, ptr %a, i64 0
  %other_storage_before = load i64, ptr %other_storage_before_at, align 8
  %other_storage_count = add i64 %other_storage_before, 0
  %other_storage_mask_at = getelementptr i8, ptr %a, i64 8
  %other_storage_mask = load i64, ptr %other_storage_mask_at, align 8
  %other_storage_slots = getelementptr i8, ptr %a, i64 <SET_HEAD>
  %other_storage_spread = mul i64 %other_address, <SPREAD>
  %other_storage_start = lshr i64 %other_storage_spread, 32
  br label %other_storage_loop
other_storage_loop:
  %other_storage_i = phi i64 [%other_storage_start, %other_storage_begin], [%other_storage_i_next, %other_storage_other]
  %other_storage_place = and i64 %other_storage_i, %other_storage_mask
  %other_storage_offset = mul i64 %other_storage_place, <SET_SLOT>
  %other_storage_at = getelementptr i8, ptr %other_storage_slots, i64 %other_storage_offset
  %other_storage_number_at = getelementptr i8, ptr %other_storage_at, i64 8
  %other_storage_number = load i64, ptr %other_storage_number_at, align 8
  %other_storage_taken = icmp eq i64 %other_storage_number, %other_storage_count
  br i1 %other_storage_taken, label %other_storage_compare, label %other_storage_free
other_storage_compare:
  %other_storage_member_at = getelementptr i8, ptr %other_storage_at, i64 0
  %other_storage_member = load i64, ptr %other_storage_member_at, align 8
  %other_storage_found = icmp eq i64 %other_storage_member, %other_address
  br i1 %other_storage_found, label %none, label %other_storage_other
other_storage_other:
  %other_storage_i_next = add i64 %other_storage_i, 1
  br label %other_storage_loop
other_storage_free:
  br label %next
