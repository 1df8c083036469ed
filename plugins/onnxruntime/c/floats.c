#include "floats.h"

#include <math.h>
#include <string.h>

size_t convt_element_bytes(convt_dtype dtype) { return dtype == CONVT_FLOAT32 ? 4 : 2; }

static float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float from_half(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 0x1f;
    uint32_t mantissa = half & 0x3ff;
    if (exponent == 0) return copysignf(ldexpf((float)mantissa, -24), from_bits(sign));
    if (exponent == 0x1f) return from_bits(sign | 0x7f800000 | mantissa << 13);
    return from_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

static uint16_t to_half(float value) {
    uint32_t bits = to_bits(value);
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    uint32_t size = bits & 0x7fffffff;
    if (size > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (size >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65520 and above */
    if (size < 0x38800000) /* a subnormal: units of 2^-24 */
        return (uint16_t)(sign | (uint16_t)lrintf(ldexpf(from_bits(size), 24)));
    uint32_t rounded = size + 0xfff + (size >> 13 & 1);
    return (uint16_t)(sign | ((rounded - 0x38000000) >> 13));
}

static uint16_t to_bfloat(float value) {
    uint32_t bits = to_bits(value);
    if ((bits & 0x7fffffff) > 0x7f800000) return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float convt_load(convt_dtype dtype, const void *from, int64_t index) {
    if (dtype == CONVT_FLOAT32) return ((const float *)from)[index];
    uint16_t half = ((const uint16_t *)from)[index];
    return dtype == CONVT_FLOAT16 ? from_half(half) : from_bits((uint32_t)half << 16);
}

void convt_store(convt_dtype dtype, void *to, int64_t index, float value) {
    if (dtype == CONVT_FLOAT32)
        ((float *)to)[index] = value;
    else
        ((uint16_t *)to)[index] = dtype == CONVT_FLOAT16 ? to_half(value) : to_bfloat(value);
}
