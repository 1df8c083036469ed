/* float16 and bfloat16 to and from float32, rounding to nearest, ties to even. */
#ifndef CONVT_FLOATS_H
#define CONVT_FLOATS_H

#include "node.h"

size_t convt_element_bytes(convt_dtype dtype);
float convt_load(convt_dtype dtype, const void *from, int64_t index);
void convt_store(convt_dtype dtype, void *to, int64_t index, float value);

#endif
