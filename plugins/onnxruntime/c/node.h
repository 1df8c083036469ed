/* One convt_onnx::FusedConvTranspose node: its attributes, checked, and what follows from them. */
#ifndef CONVT_NODE_H
#define CONVT_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONVT_MAX_AXES 3
#define CONVT_KEY_BYTES 1024
#define CONVT_SCHEDULE_BYTES 256
#define CONVT_MESSAGE_BYTES 1536

typedef enum { CONVT_FLOAT32, CONVT_FLOAT16, CONVT_BFLOAT16 } convt_dtype;

typedef enum {
    CONVT_NONE,
    CONVT_RELU,
    CONVT_LEAKY_RELU,
    CONVT_PRELU,
    CONVT_ELU,
    CONVT_SIGMOID,
    CONVT_TANH,
    CONVT_SILU,
    CONVT_GELU,
    CONVT_GELU_TANH,
    CONVT_CLIP
} convt_activation;

/* How one axis of a packed weight is laid out; a fused axis holds all phases of a shift. */
typedef struct {
    bool fused;
    bool aligned;
} convt_axis_schedule;

typedef struct {
    bool packed;
    convt_axis_schedule axis[CONVT_MAX_AXES];
    int64_t tile_n, tile_k;
    bool flat, interleave, k_major;
} convt_schedule;

/* Axes are depth, height and width; missing ones in front have kernel and stride 1. */
typedef struct {
    int64_t kernel[CONVT_MAX_AXES];
    int64_t stride[CONVT_MAX_AXES];
    int64_t dilation[CONVT_MAX_AXES];
    int64_t begin[CONVT_MAX_AXES];
    int64_t end[CONVT_MAX_AXES]; /* pads_end less output_padding */
    int64_t output_padding[CONVT_MAX_AXES];
    int axes;
    int64_t group, in_channels, out_channels;
    bool has_bias, has_residual;
    convt_activation activation;
    float alpha, beta;
    convt_dtype dtype;
    char schedule_text[CONVT_SCHEDULE_BYTES];
    convt_schedule schedule;
} convt_node;

/* Reads attributes; each returns false where the node has none of that name and type. */
typedef struct {
    void *from;
    bool (*integer)(void *from, const char *name, int64_t *value);
    bool (*integers)(void *from, const char *name, int64_t *values, size_t *count);
    bool (*real)(void *from, const char *name, float *value);
    bool (*text)(void *from, const char *name, char *value, size_t bytes);
} convt_reader;

/* False, with a message, where an attribute is missing or makes no sense. */
bool convt_read_node(const convt_reader *reader, convt_dtype dtype, convt_node *node,
                     char message[CONVT_MESSAGE_BYTES]);

/* Geometry alone, which shape inference needs. */
bool convt_read_geometry(const convt_reader *reader, convt_node *node,
                         char message[CONVT_MESSAGE_BYTES]);

/* Inputs behind x and the weight, in order; -1 where the node has none. */
int convt_bias_index(const convt_node *node);
int convt_slope_index(const convt_node *node);
int convt_residual_index(const convt_node *node);

/* Output rows of an axis, negative where nothing is left or the input has more than any tensor. */
int64_t convt_output_length(const convt_node *node, int axis, int64_t length);

/* Attributes in one line: what kernels are found by. */
void convt_key(const convt_node *node, char key[CONVT_KEY_BYTES]);

const char *convt_dtype_name(convt_dtype dtype);
const char *convt_activation_name(convt_activation activation);

#endif
