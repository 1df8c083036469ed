#include "node.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "schedule.h"

#define MAX_VALUE ((int64_t)1 << 31)
/* Elements of a weight, packed ones with all that surrounds them: far below what overflows. */
#define MAX_WEIGHT ((int64_t)1 << 40)

static const char *const ACTIVATIONS[] = {"none", "relu",    "leaky_relu", "prelu",
                                          "elu",  "sigmoid", "tanh",       "silu",
                                          "gelu", "gelu_tanh", "clip"};
static const char *const DTYPES[] = {"float32", "float16", "bfloat16"};

const char *convt_dtype_name(convt_dtype dtype) { return DTYPES[dtype]; }

const char *convt_activation_name(convt_activation activation) { return ACTIVATIONS[activation]; }

static bool refuse(char message[CONVT_MESSAGE_BYTES], const char *what, const char *name) {
    snprintf(message, CONVT_MESSAGE_BYTES, "convt_onnx::FusedConvTranspose: %s %s", what, name);
    return false;
}

/* `count` values of an attribute into the last axes of `values`, the others set to `missing`. */
static bool read_axes(const convt_reader *reader, const char *name, int count, int64_t missing,
                      int64_t least, int64_t values[CONVT_MAX_AXES]) {
    size_t found = (size_t)count;
    for (int i = 0; i < CONVT_MAX_AXES - count; i++) values[i] = missing;
    int64_t *first = values + (CONVT_MAX_AXES - count);
    if (!reader->integers(reader->from, name, first, &found) || found != (size_t)count)
        return false;
    for (int i = 0; i < count; i++)
        if (first[i] < least || first[i] >= MAX_VALUE) return false;
    return true;
}

static bool read_pads(const convt_reader *reader, convt_node *node) {
    int64_t pads[2 * CONVT_MAX_AXES];
    size_t found = 2 * (size_t)node->axes;
    if (!reader->integers(reader->from, "pads", pads, &found) || found != 2 * (size_t)node->axes)
        return false;
    int first = CONVT_MAX_AXES - node->axes;
    for (int i = 0; i < CONVT_MAX_AXES; i++) node->begin[i] = node->end[i] = 0;
    for (int i = 0; i < node->axes; i++) {
        int64_t begin = pads[i], end = pads[node->axes + i];
        if (begin <= -MAX_VALUE || begin >= MAX_VALUE || end <= -MAX_VALUE || end >= MAX_VALUE)
            return false;
        node->begin[first + i] = begin;
        node->end[first + i] = end - node->output_padding[first + i];
    }
    return true;
}

static bool read_count(const convt_reader *reader, const char *name, int64_t *value) {
    return reader->integer(reader->from, name, value) && *value >= 1 && *value < MAX_VALUE;
}

static bool read_flag(const convt_reader *reader, const char *name, bool *flag) {
    int64_t value;
    if (!reader->integer(reader->from, name, &value) || value < 0 || value > 1) return false;
    *flag = value == 1;
    return true;
}

/* At least the taps of an axis, and the blocks times the phases that they are packed in. */
static int64_t packed_taps(const convt_node *node, int axis) {
    int64_t kernel = node->kernel[axis], stride = node->stride[axis];
    int64_t most = (kernel - 1) * node->dilation[axis] + 2 * stride;
    if (most > kernel * stride) most = kernel * stride;
    return most > kernel ? most : kernel;
}

/* Whether the products that weights and their packing are counted by stay in range. */
static bool weight_in_range(const convt_node *node) {
    int64_t elements = node->in_channels;
    if (__builtin_mul_overflow(elements, node->out_channels / node->group, &elements)) return false;
    for (int i = 0; i < CONVT_MAX_AXES; i++)
        if (elements > MAX_WEIGHT ||
            __builtin_mul_overflow(elements, packed_taps(node, i), &elements))
            return false;
    return elements <= MAX_WEIGHT;
}

bool convt_read_geometry(const convt_reader *reader, convt_node *node,
                         char message[CONVT_MESSAGE_BYTES]) {
    int64_t kernel[CONVT_MAX_AXES];
    size_t axes = CONVT_MAX_AXES;
    memset(node, 0, sizeof *node);
    if (!reader->integers(reader->from, "kernel_shape", kernel, &axes) || axes < 1)
        return refuse(message, "bad attribute", "kernel_shape");
    node->axes = (int)axes;
    if (!read_axes(reader, "kernel_shape", node->axes, 1, 1, node->kernel))
        return refuse(message, "bad attribute", "kernel_shape");
    if (!read_axes(reader, "strides", node->axes, 1, 1, node->stride))
        return refuse(message, "bad attribute", "strides");
    if (!read_axes(reader, "dilations", node->axes, 1, 1, node->dilation))
        return refuse(message, "bad attribute", "dilations");
    if (!read_axes(reader, "output_padding", node->axes, 0, 0, node->output_padding))
        return refuse(message, "bad attribute", "output_padding");
    if (!read_pads(reader, node)) return refuse(message, "bad attribute", "pads");
    if (!read_count(reader, "group", &node->group)) return refuse(message, "bad attribute", "group");
    if (!read_count(reader, "in_channels", &node->in_channels) ||
        node->in_channels % node->group != 0)
        return refuse(message, "bad attribute", "in_channels");
    if (!read_count(reader, "out_channels", &node->out_channels) ||
        node->out_channels % node->group != 0)
        return refuse(message, "bad attribute", "out_channels");
    return weight_in_range(node) || refuse(message, "too large a weight:", "kernel_shape");
}

static bool read_activation(const convt_reader *reader, convt_node *node) {
    char name[32];
    if (!reader->text(reader->from, "activation", name, sizeof name)) return false;
    for (size_t i = 0; i < sizeof ACTIVATIONS / sizeof *ACTIVATIONS; i++)
        if (strcmp(name, ACTIVATIONS[i]) == 0) {
            node->activation = (convt_activation)i;
            return reader->real(reader->from, "alpha", &node->alpha) &&
                   reader->real(reader->from, "beta", &node->beta);
        }
    return false;
}

bool convt_read_node(const convt_reader *reader, convt_dtype dtype, convt_node *node,
                     char message[CONVT_MESSAGE_BYTES]) {
    bool packed;
    if (!convt_read_geometry(reader, node, message)) return false;
    node->dtype = dtype;
    if (!read_flag(reader, "has_bias", &node->has_bias))
        return refuse(message, "bad attribute", "has_bias");
    if (!read_flag(reader, "has_residual", &node->has_residual))
        return refuse(message, "bad attribute", "has_residual");
    if (!read_activation(reader, node)) return refuse(message, "bad attribute", "activation");
    if (!read_flag(reader, "packed", &packed)) return refuse(message, "bad attribute", "packed");
    if (!reader->text(reader->from, "schedule", node->schedule_text, CONVT_SCHEDULE_BYTES) ||
        !convt_parse_schedule(node->schedule_text, &node->schedule) ||
        node->schedule.packed != packed)
        return refuse(message, "bad attribute", "schedule");
    return true;
}

int convt_bias_index(const convt_node *node) { return node->has_bias ? 2 : -1; }

int convt_slope_index(const convt_node *node) {
    return node->activation == CONVT_PRELU ? 2 + node->has_bias : -1;
}

int convt_residual_index(const convt_node *node) {
    if (!node->has_residual) return -1;
    return 2 + node->has_bias + (node->activation == CONVT_PRELU);
}

int64_t convt_output_length(const convt_node *node, int axis, int64_t length) {
    if (length >= MAX_VALUE) return -1;
    int64_t extent = (node->kernel[axis] - 1) * node->dilation[axis] + 1;
    return (length - 1) * node->stride[axis] + extent - node->begin[axis] - node->end[axis];
}

static void append(char key[CONVT_KEY_BYTES], const char *name, const int64_t *values, int count) {
    size_t used = strlen(key);
    used += (size_t)snprintf(key + used, CONVT_KEY_BYTES - used, " %s", name);
    for (int i = 0; i < count && used < CONVT_KEY_BYTES; i++)
        used += (size_t)snprintf(key + used, CONVT_KEY_BYTES - used, "%s%" PRId64, i ? "," : "=",
                                 values[i]);
}

void convt_key(const convt_node *node, char key[CONVT_KEY_BYTES]) {
    int first = CONVT_MAX_AXES - node->axes, count = node->axes;
    int64_t flags[] = {node->has_bias, node->has_residual};
    uint32_t alpha, beta;
    memcpy(&alpha, &node->alpha, sizeof alpha);
    memcpy(&beta, &node->beta, sizeof beta);
    snprintf(key, CONVT_KEY_BYTES, "%s", convt_dtype_name(node->dtype));
    append(key, "channels", (int64_t[]){node->in_channels, node->out_channels, node->group}, 3);
    append(key, "kernel", node->kernel + first, count);
    append(key, "stride", node->stride + first, count);
    append(key, "dilation", node->dilation + first, count);
    append(key, "begin", node->begin + first, count);
    append(key, "end", node->end + first, count);
    append(key, "operands", flags, 2);
    size_t used = strlen(key);
    snprintf(key + used, CONVT_KEY_BYTES - used, " %s %08" PRIx32 " %08" PRIx32 " %s",
             convt_activation_name(node->activation), alpha, beta, node->schedule_text);
}
