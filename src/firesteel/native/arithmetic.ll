; Rows on numbers of 64 bits, of the guards' checker and of the host machine. "other" is the register numbered index.
; What would overflow or divide by zero goes to %none. Division and remainder round as Python's do.

op_SCALE:  ; destination = source * a + b
  %scale_x = ptrtoint ptr %v to i64
  %scale_product_pair = call {i64, i1} @llvm.smul.with.overflow.i64(i64 %scale_x, i64 %ai)
  %scale_product = extractvalue {i64, i1} %scale_product_pair, 0
  %scale_product_over = extractvalue {i64, i1} %scale_product_pair, 1
  br i1 %scale_product_over, label %none, label %scale_product_fits
scale_product_fits:
  %scale_sum_pair = call {i64, i1} @llvm.sadd.with.overflow.i64(i64 %scale_product, i64 %b)
  %scale_sum = extractvalue {i64, i1} %scale_sum_pair, 0
  %scale_sum_over = extractvalue {i64, i1} %scale_sum_pair, 1
  br i1 %scale_sum_over, label %none, label %scale_sum_fits
scale_sum_fits:
  store i64 %scale_sum, ptr %slot, align 8
  br label %next

op_ADD_SCALED:  ; destination = other + source * a
  %add_scaled_x = ptrtoint ptr %v to i64
  %add_scaled_index_at = getelementptr i8, ptr %pc, i64 12
  %add_scaled_index = load i32, ptr %add_scaled_index_at, align 4
  %add_scaled_y_at = getelementptr i64, ptr %registers, i32 %add_scaled_index
  %add_scaled_y = load i64, ptr %add_scaled_y_at, align 8
  %add_scaled_product_pair = call {i64, i1} @llvm.smul.with.overflow.i64(i64 %add_scaled_x, i64 %ai)
  %add_scaled_product = extractvalue {i64, i1} %add_scaled_product_pair, 0
  %add_scaled_product_over = extractvalue {i64, i1} %add_scaled_product_pair, 1
  br i1 %add_scaled_product_over, label %none, label %add_scaled_product_fits
add_scaled_product_fits:
  %add_scaled_sum_pair = call {i64, i1} @llvm.sadd.with.overflow.i64(i64 %add_scaled_product, i64 %add_scaled_y)
  %add_scaled_sum = extractvalue {i64, i1} %add_scaled_sum_pair, 0
  %add_scaled_sum_over = extractvalue {i64, i1} %add_scaled_sum_pair, 1
  br i1 %add_scaled_sum_over, label %none, label %add_scaled_sum_fits
add_scaled_sum_fits:
  store i64 %add_scaled_sum, ptr %slot, align 8
  br label %next

op_MULTIPLY:  ; destination = source * other
  %multiply_x = ptrtoint ptr %v to i64
  %multiply_index_at = getelementptr i8, ptr %pc, i64 12
  %multiply_index = load i32, ptr %multiply_index_at, align 4
  %multiply_y_at = getelementptr i64, ptr %registers, i32 %multiply_index
  %multiply_y = load i64, ptr %multiply_y_at, align 8
  %multiply_product_pair = call {i64, i1} @llvm.smul.with.overflow.i64(i64 %multiply_x, i64 %multiply_y)
  %multiply_product = extractvalue {i64, i1} %multiply_product_pair, 0
  %multiply_product_over = extractvalue {i64, i1} %multiply_product_pair, 1
  br i1 %multiply_product_over, label %none, label %multiply_product_fits
multiply_product_fits:
  store i64 %multiply_product, ptr %slot, align 8
  br label %next

op_FLOORDIV:  ; destination = source // other
  %floordiv_x = ptrtoint ptr %v to i64
  %floordiv_index_at = getelementptr i8, ptr %pc, i64 12
  %floordiv_index = load i32, ptr %floordiv_index_at, align 4
  %floordiv_y_at = getelementptr i64, ptr %registers, i32 %floordiv_index
  %floordiv_y = load i64, ptr %floordiv_y_at, align 8
  %floordiv_zero = icmp eq i64 %floordiv_y, 0
  %floordiv_minus = icmp eq i64 %floordiv_y, -1
  %floordiv_least = icmp eq i64 %floordiv_x, -9223372036854775808
  %floordiv_over = and i1 %floordiv_minus, %floordiv_least
  %floordiv_bad = or i1 %floordiv_zero, %floordiv_over
  br i1 %floordiv_bad, label %none, label %floordiv_divide
floordiv_divide:
  %floordiv_q = sdiv i64 %floordiv_x, %floordiv_y
  %floordiv_r = srem i64 %floordiv_x, %floordiv_y
  %floordiv_rest = icmp ne i64 %floordiv_r, 0
  %floordiv_signs = xor i64 %floordiv_r, %floordiv_y
  %floordiv_opposite = icmp slt i64 %floordiv_signs, 0
  %floordiv_down = and i1 %floordiv_rest, %floordiv_opposite
  %floordiv_one = zext i1 %floordiv_down to i64
  %floordiv_value = sub i64 %floordiv_q, %floordiv_one
  store i64 %floordiv_value, ptr %slot, align 8
  br label %next

op_MOD:  ; destination = source % other
  %mod_x = ptrtoint ptr %v to i64
  %mod_index_at = getelementptr i8, ptr %pc, i64 12
  %mod_index = load i32, ptr %mod_index_at, align 4
  %mod_y_at = getelementptr i64, ptr %registers, i32 %mod_index
  %mod_y = load i64, ptr %mod_y_at, align 8
  %mod_zero = icmp eq i64 %mod_y, 0
  %mod_minus = icmp eq i64 %mod_y, -1
  %mod_least = icmp eq i64 %mod_x, -9223372036854775808
  %mod_over = and i1 %mod_minus, %mod_least
  %mod_bad = or i1 %mod_zero, %mod_over
  br i1 %mod_bad, label %none, label %mod_divide
mod_divide:
  %mod_q = sdiv i64 %mod_x, %mod_y
  %mod_r = srem i64 %mod_x, %mod_y
  %mod_rest = icmp ne i64 %mod_r, 0
  %mod_signs = xor i64 %mod_r, %mod_y
  %mod_opposite = icmp slt i64 %mod_signs, 0
  %mod_down = and i1 %mod_rest, %mod_opposite
  %mod_more = select i1 %mod_down, i64 %mod_y, i64 0
  %mod_value = add i64 %mod_r, %mod_more
  store i64 %mod_value, ptr %slot, align 8
  br label %next

op_MIN:  ; destination = min(source, other)
  %min_x = ptrtoint ptr %v to i64
  %min_index_at = getelementptr i8, ptr %pc, i64 12
  %min_index = load i32, ptr %min_index_at, align 4
  %min_y_at = getelementptr i64, ptr %registers, i32 %min_index
  %min_y = load i64, ptr %min_y_at, align 8
  %min_first = icmp slt i64 %min_x, %min_y
  %min_value = select i1 %min_first, i64 %min_x, i64 %min_y
  store i64 %min_value, ptr %slot, align 8
  br label %next

op_MAX:  ; destination = max(source, other)
  %max_x = ptrtoint ptr %v to i64
  %max_index_at = getelementptr i8, ptr %pc, i64 12
  %max_index = load i32, ptr %max_index_at, align 4
  %max_y_at = getelementptr i64, ptr %registers, i32 %max_index
  %max_y = load i64, ptr %max_y_at, align 8
  %max_first = icmp sgt i64 %max_x, %max_y
  %max_value = select i1 %max_first, i64 %max_x, i64 %max_y
  store i64 %max_value, ptr %slot, align 8
  br label %next

op_IS_EQUAL:  ; destination = source == b, as 0 or 1
  %is_equal_x = ptrtoint ptr %v to i64
  %is_equal_holds = icmp eq i64 %is_equal_x, %b
  %is_equal_value = zext i1 %is_equal_holds to i64
  store i64 %is_equal_value, ptr %slot, align 8
  br label %next

op_IS_AT_LEAST:  ; destination = source >= b, as 0 or 1
  %is_at_least_x = ptrtoint ptr %v to i64
  %is_at_least_holds = icmp sge i64 %is_at_least_x, %b
  %is_at_least_value = zext i1 %is_at_least_holds to i64
  store i64 %is_at_least_value, ptr %slot, align 8
  br label %next

op_CHOOSE:  ; destination = other if source else the register numbered b
  %choose_x = ptrtoint ptr %v to i64
  %choose_index_at = getelementptr i8, ptr %pc, i64 12
  %choose_index = load i32, ptr %choose_index_at, align 4
  %choose_y_at = getelementptr i64, ptr %registers, i32 %choose_index
  %choose_y = load i64, ptr %choose_y_at, align 8
  %choose_z_at = getelementptr i64, ptr %registers, i64 %b
  %choose_z = load i64, ptr %choose_z_at, align 8
  %choose_true = icmp ne i64 %choose_x, 0
  %choose_value = select i1 %choose_true, i64 %choose_y, i64 %choose_z
  store i64 %choose_value, ptr %slot, align 8
  br label %next
