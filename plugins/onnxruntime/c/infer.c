/* Shape inference: known sizes as numbers, open ones as expressions of the input's symbols. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "op.h"

#define MAX_RANK (CONVT_MAX_AXES + 2)
#define SYMBOL_BYTES 160

typedef struct {
    const OrtApi *api;
    const OrtShapeInferContext *context;
} source;

typedef struct {
    ONNXTensorElementDataType type;
    size_t rank;
    int64_t value[MAX_RANK]; /* -1 where open */
    const char *symbol[MAX_RANK];
    char text[MAX_RANK][SYMBOL_BYTES];
} shape;

static bool worked(const OrtApi *api, OrtStatus *status) {
    if (status != NULL) ORT(api, ReleaseStatus)(status);
    return status == NULL;
}

static bool read_attribute(const source *s, const char *name, OrtOpAttrType type, void *values,
                           size_t bytes, size_t *used) {
    const OrtOpAttr *attribute = NULL;
    if (!worked(s->api, ORT(s->api, ShapeInferContext_GetAttribute)(s->context, name, &attribute)))
        return false;
    return attribute != NULL &&
           worked(s->api, ORT(s->api, ReadOpAttr)(attribute, type, values, bytes, used));
}

static bool read_integer(void *from, const char *name, int64_t *value) {
    size_t used;
    return read_attribute(from, name, ORT_OP_ATTR_INT, value, sizeof *value, &used);
}

static bool read_integers(void *from, const char *name, int64_t *values, size_t *count) {
    size_t used = 0;
    if (!read_attribute(from, name, ORT_OP_ATTR_INTS, values, *count * sizeof *values, &used))
        return false;
    *count = used / sizeof *values;
    return true;
}

/* x's shape; false where its rank is open or wrong. */
static bool read_input(const source *s, const convt_node *node, shape *x) {
    OrtTensorTypeAndShapeInfo *info = NULL; /* the context's own, not to be released */
    if (!worked(s->api, ORT(s->api, ShapeInferContext_GetInputTypeShape)(s->context, 0, &info)))
        return false;
    if (info == NULL || !worked(s->api, ORT(s->api, GetDimensionsCount)(info, &x->rank)) ||
        x->rank != (size_t)node->axes + 2)
        return false;
    return worked(s->api, ORT(s->api, GetTensorElementType)(info, &x->type)) &&
           worked(s->api, ORT(s->api, GetDimensions)(info, x->value, x->rank)) &&
           worked(s->api, ORT(s->api, GetSymbolicDimensions)(info, x->symbol, x->rank));
}

/* Output size of an axis; false where nothing is known of the input's. */
static bool infer_axis(const convt_node *node, int axis, const shape *x, size_t i, shape *y) {
    int64_t stride = node->stride[axis];
    int64_t constant = convt_output_length(node, axis, 1) - stride;
    y->value[i] = x->value[i] < 0 ? -1 : convt_output_length(node, axis, x->value[i]);
    if (x->value[i] >= 0) return y->value[i] >= 0;
    if (x->symbol[i] == NULL || *x->symbol[i] == '\0') return false;
    if (stride == 1 && constant == 0) {
        y->symbol[i] = x->symbol[i];
        return true;
    }
    int length = snprintf(y->text[i], SYMBOL_BYTES, "%" PRId64 "*(%s)%+" PRId64, stride,
                          x->symbol[i], constant);
    y->symbol[i] = y->text[i];
    return length < SYMBOL_BYTES;
}

/* Equal symbols mean equal sizes to ONNX Runtime, so that a size without a name stays unsaid. */
static bool infer(const convt_node *node, const shape *x, shape *y) {
    y->type = x->type; /* the op is that of the first type, whatever the node's */
    y->rank = x->rank;
    for (size_t i = 0; i < y->rank; i++) y->symbol[i] = "";
    y->value[0] = x->value[0];
    y->value[1] = node->out_channels;
    if (x->value[0] < 0) {
        if (x->symbol[0] == NULL || *x->symbol[0] == '\0') return false;
        y->symbol[0] = x->symbol[0];
    }
    for (size_t i = 2; i < y->rank; i++)
        if (!infer_axis(node, CONVT_MAX_AXES - node->axes + (int)i - 2, x, i, y)) return false;
    return true;
}

static OrtStatus *set_output(const OrtApi *api, OrtShapeInferContext *context, shape *y) {
    OrtTensorTypeAndShapeInfo *info = NULL;
    OrtStatus *status = ORT(api, CreateTensorTypeAndShapeInfo)(&info);
    if (status == NULL) status = ORT(api, SetTensorElementType)(info, y->type);
    if (status == NULL) status = ORT(api, SetDimensions)(info, y->value, y->rank);
    if (status == NULL) status = ORT(api, SetSymbolicDimensions)(info, y->symbol, y->rank);
    if (status == NULL)
        status = ORT(api, ShapeInferContext_SetOutputTypeShape)(context, 0, info);
    if (info != NULL) ORT(api, ReleaseTensorTypeAndShapeInfo)(info);
    return status;
}

OrtStatus *convt_infer_shape(const OrtCustomOp *op, OrtShapeInferContext *context) {
    const OrtApi *api = ((const convt_op *)op)->api;
    source from = {api, context};
    convt_reader reader = {.from = &from, .integer = read_integer, .integers = read_integers};
    char message[CONVT_MESSAGE_BYTES];
    convt_node node;
    shape x, y;
    /* What is wrong with a node is said when its kernel is created. */
    if (!convt_read_geometry(&reader, &node, message) || !read_input(&from, &node, &x) ||
        !infer(&node, &x, &y))
        return NULL;
    /* ONNX Runtime does not look at the result. */
    worked(api, set_output(api, context, &y));
    return NULL;
}
