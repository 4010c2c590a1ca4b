; The guards' checker: a fast-call builtin bound to (table, objects that it needs), see `program` for the table.
; A row has its operands in %v (the source register), %slot (the place of the destination register), %a or %ai, and %b.
; It goes on to %next, or to %none: then the call is refused, and None is returned.

define ptr @firesteel_guards(ptr %self, ptr %arguments, i64 %given) {
entry:
  %wide = alloca i64, align 8
  %narrow = alloca i32, align 4
  %pointer = alloca ptr, align 8
  %position = alloca i64, align 8
  %key = alloca ptr, align 8
  %overflow = alloca i32, align 4
  %table = call ptr <PyTuple_GetItem>(ptr %self, i64 0)
  %program = call ptr <PyBytes_AsString>(ptr %table)
  %wanted = load i64, ptr %program, align 8
  %count_ok = icmp eq i64 %wanted, %given
  br i1 %count_ok, label %prepare, label %none
prepare:
  %registers_count_at = getelementptr i8, ptr %program, i64 8
  %registers_count = load i64, ptr %registers_count_at, align 8
  %input_count_at = getelementptr i8, ptr %program, i64 16
  %input_count = load i64, ptr %input_count_at, align 8
  %other_count_at = getelementptr i8, ptr %program, i64 24
  %other_count = load i64, ptr %other_count_at, align 8
  %outputs_offset_at = getelementptr i8, ptr %program, i64 32
  %outputs_offset = load i64, ptr %outputs_offset_at, align 8
  %outputs = getelementptr i8, ptr %program, i64 %outputs_offset
  %registers = alloca ptr, i64 %registers_count, align 8
  %first = getelementptr i8, ptr %program, i64 <HEADER>
  br label %copy
copy:
  %i = phi i64 [0, %prepare], [%i_next, %copy_one]
  %copied = icmp uge i64 %i, %given
  br i1 %copied, label %loop, label %copy_one
copy_one:
  %argument_at = getelementptr ptr, ptr %arguments, i64 %i
  %argument = load ptr, ptr %argument_at, align 8
  %register_at = getelementptr ptr, ptr %registers, i64 %i
  store ptr %argument, ptr %register_at, align 8
  %i_next = add i64 %i, 1
  br label %copy
loop:
  %pc = phi ptr [%first, %copy], [%pc_next, %next]
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
  %source_at_register = getelementptr ptr, ptr %registers, i32 %source
  %v = load ptr, ptr %source_at_register, align 8
  switch i32 %op, label %none [
<CASES>
  ]
next:
  %pc_next = getelementptr i8, ptr %pc, i64 <ROW>
  br label %loop

op_CONSTANT:  ; destination = a
  store ptr %a, ptr %slot, align 8
  br label %next

op_INSTANCE_DICT:  ; destination = the dictionary of the instance
  %dict_at = call ptr <_PyObject_GetDictPtr>(ptr %v)
  %dict_none = icmp eq ptr %dict_at, null
  br i1 %dict_none, label %none, label %dict_read
dict_read:
  %dict = load ptr, ptr %dict_at, align 8
  %instance_dict_gone = icmp eq ptr %dict, null
  br i1 %instance_dict_gone, label %none, label %instance_dict_store
instance_dict_store:
  store ptr %dict, ptr %slot, align 8
  br label %next

op_ITEM:  ; destination = source[a], b is the hash of the string a
  %item_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %item_type = load i64, ptr %item_type_at, align 8
  %item_type_same = icmp eq i64 %item_type, <dict>
  br i1 %item_type_same, label %item_dict, label %none
item_dict:
  %item_keys_at = getelementptr i8, ptr %v, i64 <DICT_KEYS>
  %item_keys = load ptr, ptr %item_keys_at, align 8
  %item_kind_at = getelementptr i8, ptr %item_keys, i64 <KEYS_KIND>
  %item_kind = load i8, ptr %item_kind_at, align 1
  %item_strings = icmp ne i8 %item_kind, <GENERAL_KEYS>
  br i1 %item_strings, label %item_look, label %none
item_look:
  %item_found = call ptr <_PyDict_GetItem_KnownHash>(ptr %v, ptr %a, i64 %b)
  %item_null = icmp eq ptr %item_found, null
  %item_gone = icmp eq ptr %item_found, null
  br i1 %item_gone, label %none, label %item_store
item_store:
  store ptr %item_found, ptr %slot, align 8
  br label %next

op_MISSING:  ; a not in source
  %missing_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %missing_type = load i64, ptr %missing_type_at, align 8
  %missing_type_same = icmp eq i64 %missing_type, <dict>
  br i1 %missing_type_same, label %missing_dict, label %none
missing_dict:
  %missing_keys_at = getelementptr i8, ptr %v, i64 <DICT_KEYS>
  %missing_keys = load ptr, ptr %missing_keys_at, align 8
  %missing_kind_at = getelementptr i8, ptr %missing_keys, i64 <KEYS_KIND>
  %missing_kind = load i8, ptr %missing_kind_at, align 1
  %missing_strings = icmp ne i8 %missing_kind, <GENERAL_KEYS>
  br i1 %missing_strings, label %missing_look, label %none
missing_look:
  %missing_found = call ptr <_PyDict_GetItem_KnownHash>(ptr %v, ptr %a, i64 %b)
  %missing_null = icmp eq ptr %missing_found, null
  br i1 %missing_null, label %next, label %none

op_ITEM_EMPTY:  ; source[a] is a dictionary without entries
  %item_empty_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %item_empty_type = load i64, ptr %item_empty_type_at, align 8
  %item_empty_type_same = icmp eq i64 %item_empty_type, <dict>
  br i1 %item_empty_type_same, label %item_empty_dict, label %none
item_empty_dict:
  %item_empty_keys_at = getelementptr i8, ptr %v, i64 <DICT_KEYS>
  %item_empty_keys = load ptr, ptr %item_empty_keys_at, align 8
  %item_empty_kind_at = getelementptr i8, ptr %item_empty_keys, i64 <KEYS_KIND>
  %item_empty_kind = load i8, ptr %item_empty_kind_at, align 1
  %item_empty_strings = icmp ne i8 %item_empty_kind, <GENERAL_KEYS>
  br i1 %item_empty_strings, label %item_empty_look, label %none
item_empty_look:
  %item_empty_found = call ptr <_PyDict_GetItem_KnownHash>(ptr %v, ptr %a, i64 %b)
  %item_empty_null = icmp eq ptr %item_empty_found, null
  br i1 %item_empty_null, label %none, label %empty_type
empty_type:
  %table_type_at = getelementptr i8, ptr %item_empty_found, i64 <TYPE>
  %table_type = load i64, ptr %table_type_at, align 8
  %is_dict = icmp eq i64 %table_type, <dict>
  %is_ordered = icmp eq i64 %table_type, <OrderedDict>
  %is_table = or i1 %is_dict, %is_ordered
  br i1 %is_table, label %empty_size, label %none
empty_size:
  %table_size_at = getelementptr i8, ptr %item_empty_found, i64 <SIZE>
  %table_size = load i64, ptr %table_size_at, align 8
  %table_size_same = icmp eq i64 %table_size, 0
  br i1 %table_size_same, label %next, label %none

op_TYPE:  ; type(source) is a
  %type_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %type_type = load i64, ptr %type_type_at, align 8
  %type_type_same = icmp eq i64 %type_type, %ai
  br i1 %type_type_same, label %next, label %none

op_IS:  ; source is a
  %is_same = icmp eq ptr %v, %a
  br i1 %is_same, label %next, label %none

op_SAME:  ; source is the object in the destination register
  %other = load ptr, ptr %slot, align 8
  %same_same = icmp eq ptr %v, %other
  br i1 %same_same, label %next, label %none

op_INT:  ; type(source) is int and source == b; a is that int
  %int_is = icmp eq ptr %v, %a
  br i1 %int_is, label %next, label %int_type
int_type:
  %int_class_at = getelementptr i8, ptr %v, i64 <TYPE>
  %int_class = load i64, ptr %int_class_at, align 8
  %int_class_same = icmp eq i64 %int_class, <int>
  br i1 %int_class_same, label %int_read, label %none
int_read:
  %int = call i64 <PyLong_AsLongLongAndOverflow>(ptr %v, ptr %overflow)
  %over = load i32, ptr %overflow, align 4
  %fits = icmp eq i32 %over, 0
  %equal_int = icmp eq i64 %int, %b
  %int_ok = and i1 %fits, %equal_int
  br i1 %int_ok, label %next, label %none

op_STR:  ; type(source) is str and source == a
  %str_is = icmp eq ptr %v, %a
  br i1 %str_is, label %next, label %str_type
str_type:
  %str_class_at = getelementptr i8, ptr %v, i64 <TYPE>
  %str_class = load i64, ptr %str_class_at, align 8
  %str_class_same = icmp eq i64 %str_class, <str>
  br i1 %str_class_same, label %str_read, label %none
str_read:
  %str_order = call i32 <PyUnicode_Compare>(ptr %v, ptr %a)
  %str_ok = icmp eq i32 %str_order, 0
  br i1 %str_ok, label %next, label %none

op_FLOAT:  ; type(source) is float with the bits b
  %float_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %float_type = load i64, ptr %float_type_at, align 8
  %float_type_same = icmp eq i64 %float_type, <float>
  br i1 %float_type_same, label %float_read, label %none
float_read:
  %float = call double <PyFloat_AsDouble>(ptr %v)
  %float_bits = bitcast double %float to i64
  %float_same = icmp eq i64 %float_bits, %b
  br i1 %float_same, label %next, label %none

op_LENGTH:  ; type(source) is a and len(source) == b
  %length_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %length_type = load i64, ptr %length_type_at, align 8
  %length_type_same = icmp eq i64 %length_type, %ai
  br i1 %length_type_same, label %length_read, label %none
length_read:
  %length_at = getelementptr i8, ptr %v, i64 <SIZE>
  %length = load i64, ptr %length_at, align 8
  %length_same = icmp eq i64 %length, %b
  br i1 %length_same, label %next, label %none

op_ELEMENT:  ; destination = source[index] of an exact a; b is the address of PyTuple_GetItem or PyList_GetItem
  %element_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %element_type = load i64, ptr %element_type_at, align 8
  %element_type_same = icmp eq i64 %element_type, %ai
  br i1 %element_type_same, label %element_size, label %none
element_size:
  %element_count_at = getelementptr i8, ptr %v, i64 <SIZE>
  %element_count = load i64, ptr %element_count_at, align 8
  %index_at = getelementptr i8, ptr %pc, i64 12
  %index = load i32, ptr %index_at, align 4
  %index_wide = zext i32 %index to i64
  %inside = icmp ult i64 %index_wide, %element_count
  br i1 %inside, label %element_read, label %none
element_read:
  %element_of = inttoptr i64 %b to ptr
  %element = call ptr %element_of(ptr %v, i64 %index_wide)
  %element_gone = icmp eq ptr %element, null
  br i1 %element_gone, label %none, label %element_store
element_store:
  store ptr %element, ptr %slot, align 8
  br label %next

op_KEYS:  ; list(source) == list(a), a tuple of b strings
  %keys_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %keys_type = load i64, ptr %keys_type_at, align 8
  %keys_type_same = icmp eq i64 %keys_type, <dict>
  br i1 %keys_type_same, label %keys_dict, label %none
keys_dict:
  %keys_keys_at = getelementptr i8, ptr %v, i64 <DICT_KEYS>
  %keys_keys = load ptr, ptr %keys_keys_at, align 8
  %keys_kind_at = getelementptr i8, ptr %keys_keys, i64 <KEYS_KIND>
  %keys_kind = load i8, ptr %keys_kind_at, align 1
  %keys_strings = icmp ne i8 %keys_kind, <GENERAL_KEYS>
  br i1 %keys_strings, label %keys_size, label %none
keys_size:
  %used_at = getelementptr i8, ptr %v, i64 <SIZE>
  %used = load i64, ptr %used_at, align 8
  %used_same = icmp eq i64 %used, %b
  br i1 %used_same, label %keys_begin, label %none
keys_begin:
  store i64 0, ptr %position, align 8
  br label %keys_loop
keys_loop:
  %n = phi i64 [0, %keys_begin], [%n_next, %keys_next]
  %keys_done = icmp uge i64 %n, %b
  br i1 %keys_done, label %next, label %keys_step
keys_step:
  %more = call i32 <PyDict_Next>(ptr %v, ptr %position, ptr %key, ptr null)
  %has_more = icmp ne i32 %more, 0
  br i1 %has_more, label %keys_compare, label %none
keys_compare:
  %k = load ptr, ptr %key, align 8
  %expected = call ptr <PyTuple_GetItem>(ptr %a, i64 %n)
  %key_is = icmp eq ptr %k, %expected
  br i1 %key_is, label %keys_next, label %keys_string
keys_string:
  %key_type_at = getelementptr i8, ptr %k, i64 <TYPE>
  %key_type = load i64, ptr %key_type_at, align 8
  %key_type_same = icmp eq i64 %key_type, <str>
  br i1 %key_type_same, label %keys_equal, label %none
keys_equal:
  %key_order = call i32 <PyUnicode_Compare>(ptr %k, ptr %expected)
  %key_ok = icmp eq i32 %key_order, 0
  br i1 %key_ok, label %keys_next, label %none
keys_next:
  %n_next = add i64 %n, 1
  br label %keys_loop

op_CODE:  ; a function whose code is a
  %code_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %code_type = load i64, ptr %code_type_at, align 8
  %code_type_same = icmp eq i64 %code_type, <FunctionType>
  br i1 %code_type_same, label %code_read, label %none
code_read:
  %code = call ptr <PyFunction_GetCode>(ptr %v)
  %code_ok = icmp eq ptr %code, %a
  br i1 %code_ok, label %next, label %none

op_CELL:  ; destination = source.cell_contents
  %cell_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %cell_type = load i64, ptr %cell_type_at, align 8
  %cell_type_same = icmp eq i64 %cell_type, <CellType>
  br i1 %cell_type_same, label %cell_read, label %none
cell_read:
  %content_at = getelementptr i8, ptr %v, i64 <CELL>
  %content = load ptr, ptr %content_at, align 8
  %cell_gone = icmp eq ptr %content, null
  br i1 %cell_gone, label %none, label %cell_store
cell_store:
  store ptr %content, ptr %slot, align 8
  br label %next

op_FUNCTION_PART:  ; destination = what the C function at address b returns for the function source
  %function_part_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %function_part_type = load i64, ptr %function_part_type_at, align 8
  %function_part_type_same = icmp eq i64 %function_part_type, <FunctionType>
  br i1 %function_part_type_same, label %part_read, label %none
part_read:
  %part_of = inttoptr i64 %b to ptr
  %part = call ptr %part_of(ptr %v)
  %function_part_gone = icmp eq ptr %part, null
  br i1 %function_part_gone, label %none, label %function_part_store
function_part_store:
  store ptr %part, ptr %slot, align 8
  br label %next

op_WEAK_TYPE:  ; type(source) is what the weak reference a leads to
  %weak_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %weak_type = load i64, ptr %weak_type_at, align 8
  %weak_class = call ptr <PyWeakref_GetObject>(ptr %a)
  %weak_word = ptrtoint ptr %weak_class to i64
  %weak_type_same = icmp eq i64 %weak_type, %weak_word
  br i1 %weak_type_same, label %next, label %none

op_WEAK_IS:  ; source is what the weak reference a leads to
  %weak_object = call ptr <PyWeakref_GetObject>(ptr %a)
  %weak_is = icmp eq ptr %v, %weak_object
  br i1 %weak_is, label %next, label %none

op_NOT_SAME:  ; source is not the object in the destination register
  %not_other = load ptr, ptr %slot, align 8
  %not_same = icmp ne ptr %v, %not_other
  br i1 %not_same, label %next, label %none

op_CALL_IS:  ; the C function at address b, called with the receiver in the source register, returns a
  %callee = inttoptr i64 %b to ptr
  %answer = call ptr %callee(ptr %v, ptr <EMPTY_TUPLE>, i64 0, ptr null)
  %no_answer = icmp eq ptr %answer, null
  br i1 %no_answer, label %none, label %answer_compare
answer_compare:
  call void <Py_DecRef>(ptr %answer)
  %answer_is = icmp eq ptr %answer, %a
  br i1 %answer_is, label %next, label %none

op_ANSWER_IS:  ; what the C function at address b returns for the number a is the low half of index, under the mask
  %question = inttoptr i64 %b to ptr
  %reply = call i64 %question(i64 %ai)
  %expected_reply_at = getelementptr i8, ptr %pc, i64 12
  %expected_reply = load i32, ptr %expected_reply_at, align 4
  %reply_mask = lshr i32 %expected_reply, 16
  %reply_wanted = and i32 %expected_reply, 65535
  %reply_low = trunc i64 %reply to i32
  %reply_masked = and i32 %reply_low, %reply_mask
  %reply_is = icmp eq i32 %reply_masked, %reply_wanted
  br i1 %reply_is, label %next, label %none

op_CLASS_FUNCTION:  ; destination = the function that the class source or a base of it defines under the name a
  %member = call ptr <_PyType_Lookup>(ptr %v, ptr %a)
  %member_none = icmp eq ptr %member, null
  br i1 %member_none, label %none, label %member_type
member_type:
  %class_function_type_at = getelementptr i8, ptr %member, i64 <TYPE>
  %class_function_type = load i64, ptr %class_function_type_at, align 8
  %class_function_type_same = icmp eq i64 %class_function_type, <FunctionType>
  br i1 %class_function_type_same, label %member_store, label %none
member_store:
  store ptr %member, ptr %slot, align 8
  br label %next

op_FIELD_IS:  ; the object at offset index of source is a
  %offset_at = getelementptr i8, ptr %pc, i64 12
  %offset = load i32, ptr %offset_at, align 4
  %field_at = getelementptr i8, ptr %v, i32 %offset
  %held = load ptr, ptr %field_at, align 8
  %held_is = icmp eq ptr %held, %a
  br i1 %held_is, label %next, label %none

op_SAME_TAG:  ; the 32-bit numbers at the addresses a and b are equal
  %tag_known_at = inttoptr i64 %b to ptr
  %tag = load i32, ptr %a, align 4
  %tag_known = load i32, ptr %tag_known_at, align 4
  %tag_is = icmp eq i32 %tag, %tag_known
  br i1 %tag_is, label %next, label %none

op_NEW_OBJECT:  ; source is not in the set, and joins it
  br label %new_object_begin
new_object_begin:
  %object = ptrtoint ptr %v to i64
  %new_object_before_at = getelementptr i8, ptr %a, i64 0
  %new_object_before = load i64, ptr %new_object_before_at, align 8
  %new_object_first = and i64 %b, 1
  %new_object_count = add i64 %new_object_before, %new_object_first
  store i64 %new_object_count, ptr %a, align 8
  %new_object_mask_at = getelementptr i8, ptr %a, i64 8
  %new_object_mask = load i64, ptr %new_object_mask_at, align 8
  %new_object_slots = getelementptr i8, ptr %a, i64 <SET_HEAD>
  %new_object_spread = mul i64 %object, <SPREAD>
  %new_object_start = lshr i64 %new_object_spread, 32
  br label %new_object_loop
new_object_loop:
  %new_object_i = phi i64 [%new_object_start, %new_object_begin], [%new_object_i_next, %new_object_other]
  %new_object_place = and i64 %new_object_i, %new_object_mask
  %new_object_offset = mul i64 %new_object_place, <SET_SLOT>
  %new_object_at = getelementptr i8, ptr %new_object_slots, i64 %new_object_offset
  %new_object_number_at = getelementptr i8, ptr %new_object_at, i64 8
  %new_object_number = load i64, ptr %new_object_number_at, align 8
  %new_object_taken = icmp eq i64 %new_object_number, %new_object_count
  br i1 %new_object_taken, label %new_object_compare, label %new_object_free
new_object_compare:
  %new_object_member_at = getelementptr i8, ptr %new_object_at, i64 0
  %new_object_member = load i64, ptr %new_object_member_at, align 8
  %new_object_found = icmp eq i64 %new_object_member, %object
  br i1 %new_object_found, label %none, label %new_object_other
new_object_other:
  %new_object_i_next = add i64 %new_object_i, 1
  br label %new_object_loop
new_object_free:
  store i64 %object, ptr %new_object_at, align 8
  store i64 %new_object_count, ptr %new_object_number_at, align 8
  br label %next

op_INTEGER:  ; destination = the value of source, an exact int
  %integer_type_at = getelementptr i8, ptr %v, i64 <TYPE>
  %integer_type = load i64, ptr %integer_type_at, align 8
  %integer_is_int = icmp eq i64 %integer_type, <int>
  br i1 %integer_is_int, label %integer_read, label %none
integer_read:
  %integer_value = call i64 <PyLong_AsLongLongAndOverflow>(ptr %v, ptr %overflow)
  %integer_over = load i32, ptr %overflow, align 4
  %integer_fits = icmp eq i32 %integer_over, 0
  br i1 %integer_fits, label %integer_store, label %none
integer_store:
  store i64 %integer_value, ptr %slot, align 8
  br label %next

op_EQUAL:  ; source == b
  %equal_x = ptrtoint ptr %v to i64
  %equal_holds = icmp eq i64 %equal_x, %b
  br i1 %equal_holds, label %next, label %none

op_DIFFERENT:  ; source != b
  %different_x = ptrtoint ptr %v to i64
  %different_holds = icmp ne i64 %different_x, %b
  br i1 %different_holds, label %next, label %none

op_AT_LEAST:  ; source >= b
  %at_least_x = ptrtoint ptr %v to i64
  %at_least_holds = icmp sge i64 %at_least_x, %b
  br i1 %at_least_holds, label %next, label %none

<ARITHMETIC>

<TENSORS>
success:
  %inputs = call ptr <PyTuple_New>(i64 %input_count)
  %no_memory = icmp eq ptr %inputs, null
  br i1 %no_memory, label %none, label %fill_inputs
fill_inputs:
  %inputs_full = call i1 @fill(ptr %inputs, i64 0, ptr %outputs, i64 %input_count, ptr %registers)
  br i1 %inputs_full, label %after_inputs, label %drop_inputs
after_inputs:
  %only_inputs = icmp eq i64 %other_count, 0
  br i1 %only_inputs, label %give_inputs, label %with_others
give_inputs:
  ret ptr %inputs
with_others:
  %all_count = add i64 %other_count, 1
  %all = call ptr <PyTuple_New>(i64 %all_count)
  %no_memory_2 = icmp eq ptr %all, null
  br i1 %no_memory_2, label %drop_inputs, label %fill_all
drop_inputs:
  call void <Py_DecRef>(ptr %inputs)
  br label %none
fill_all:
  %put = call i32 <PyTuple_SetItem>(ptr %all, i64 0, ptr %inputs)
  %others = getelementptr i64, ptr %outputs, i64 %input_count
  %all_full = call i1 @fill(ptr %all, i64 1, ptr %others, i64 %other_count, ptr %registers)
  br i1 %all_full, label %give_all, label %drop_all
give_all:
  ret ptr %all
drop_all:
  call void <Py_DecRef>(ptr %all)
  br label %none
none:
  call void <PyErr_Clear>()
  %nothing = inttoptr i64 <NONE> to ptr
  call void <Py_IncRef>(ptr %nothing)
  ret ptr %nothing
}

; Put registers into a tuple, from an item on: ~r in the list stands for the number in register r.
define internal i1 @fill(ptr %tuple, i64 %from, ptr %list, i64 %count, ptr %registers) {
entry:
  %all_items = getelementptr i8, ptr %tuple, i64 <ITEMS>
  %items = getelementptr ptr, ptr %all_items, i64 %from
  br label %loop
loop:
  %i = phi i64 [0, %entry], [%i_next, %put_one]
  %done = icmp uge i64 %i, %count
  br i1 %done, label %full, label %one
one:
  %number_at = getelementptr i64, ptr %list, i64 %i
  %number = load i64, ptr %number_at, align 8
  %is_number = icmp slt i64 %number, 0
  br i1 %is_number, label %make_int, label %take_object
take_object:
  %register = getelementptr ptr, ptr %registers, i64 %number
  %object = load ptr, ptr %register, align 8
  call void <Py_IncRef>(ptr %object)
  br label %put_one
make_int:
  %inverted = xor i64 %number, -1
  %int_register = getelementptr i64, ptr %registers, i64 %inverted
  %value = load i64, ptr %int_register, align 8
  %int = call ptr <PyLong_FromLongLong>(i64 %value)
  %no_memory = icmp eq ptr %int, null
  br i1 %no_memory, label %failed, label %put_one
put_one:
  %owned = phi ptr [%object, %take_object], [%int, %make_int]
  %item = getelementptr ptr, ptr %items, i64 %i
  store ptr %owned, ptr %item, align 8
  %i_next = add i64 %i, 1
  br label %loop
full:
  ret i1 true
failed:
  ret i1 false
}
declare {i64, i1} @llvm.smul.with.overflow.i64(i64, i64)
declare {i64, i1} @llvm.sadd.with.overflow.i64(i64, i64)
