/* A node's tensors in one run, checked: a model file may say anything. */
#include <inttypes.h>
#include <stdio.h>

#include "op.h"
#include "schedule.h"

#define MAX_RANK (CONVT_MAX_AXES + 2)

typedef struct {
    const void *data;
    int64_t shape[MAX_RANK];
    size_t rank;
    int64_t elements; /* -1 where the rank is too high */
} tensor;

static OrtStatus *take(const OrtApi *api, const OrtKernelContext *context, int index, tensor *t) {
    const OrtValue *value = NULL;
    OrtTensorTypeAndShapeInfo *info = NULL;
    void *data = NULL;
    OrtStatus *status = ORT(api, KernelContext_GetInput)(context, (size_t)index, &value);
    if (status == NULL && value == NULL)
        status = convt_error(api, "convt_onnx::FusedConvTranspose: an input is missing");
    if (status == NULL) status = ORT(api, GetTensorMutableData)((OrtValue *)value, &data);
    if (status == NULL) status = ORT(api, GetTensorTypeAndShape)(value, &info);
    if (status == NULL) status = ORT(api, GetDimensionsCount)(info, &t->rank);
    t->data = data;
    t->elements = -1;
    if (status == NULL && t->rank <= MAX_RANK) {
        status = ORT(api, GetDimensions)(info, t->shape, t->rank);
        t->elements = 1;
        for (size_t i = 0; i < t->rank; i++) t->elements *= t->shape[i];
    }
    if (info != NULL) ORT(api, ReleaseTensorTypeAndShapeInfo)(info);
    return status;
}

static OrtStatus *wrong(const OrtApi *api, const char *what, int64_t found, int64_t wanted) {
    char message[CONVT_MESSAGE_BYTES];
    snprintf(message, sizeof message,
             "convt_onnx::FusedConvTranspose: %s, %" PRId64 " where %" PRId64 " is needed", what,
             found, wanted);
    return convt_error(api, message);
}

/* Batch and sizes of x, and the output's. */
static OrtStatus *read_sizes(const OrtApi *api, const convt_node *node, const tensor *x,
                             convt_tensors *t) {
    int first = CONVT_MAX_AXES - node->axes;
    if (x->rank != (size_t)node->axes + 2)
        return wrong(api, "x has the wrong rank", (int64_t)x->rank, node->axes + 2);
    if (x->shape[1] != node->in_channels)
        return wrong(api, "x has the wrong channels", x->shape[1], node->in_channels);
    t->batch = x->shape[0];
    t->empty = t->batch == 0;
    for (int i = 0; i < CONVT_MAX_AXES; i++) {
        t->in[i] = i < first ? 1 : x->shape[2 + i - first];
        t->out[i] = i < first ? 1 : convt_output_length(node, i, t->in[i]);
        if (t->in[i] < 1 || t->out[i] < 0)
            return wrong(api, "x is too small: output rows", t->out[i], 0);
        t->empty = t->empty || t->out[i] == 0;
    }
    return NULL;
}

static OrtStatus *make_output(const OrtApi *api, const convt_node *node, OrtKernelContext *context,
                              convt_tensors *t) {
    int64_t shape[MAX_RANK] = {t->batch, node->out_channels};
    OrtValue *y = NULL;
    for (int i = 0; i < node->axes; i++) shape[2 + i] = t->out[CONVT_MAX_AXES - node->axes + i];
    OrtStatus *status =
        ORT(api, KernelContext_GetOutput)(context, 0, shape, (size_t)node->axes + 2, &y);
    if (status == NULL) status = ORT(api, GetTensorMutableData)(y, &t->y);
    return status;
}

/* One input behind x; all of them are contiguous, so that their element count is what matters. */
static OrtStatus *take_rest(const OrtApi *api, const OrtKernelContext *context, const char *what,
                            int index, int64_t elements, convt_tensors *t) {
    tensor input;
    if (index < 0) return NULL;
    OrtStatus *status = take(api, context, index, &input);
    if (status == NULL && input.elements != elements)
        status = wrong(api, what, input.elements, elements);
    t->input[index] = input.data;
    return status;
}

OrtStatus *convt_take_tensors(const OrtApi *api, const convt_node *node, OrtKernelContext *context,
                              convt_tensors *t) {
    tensor x;
    size_t given = 0;
    int needed = 2 + node->has_bias + node->has_residual + (node->activation == CONVT_PRELU);
    OrtStatus *status = ORT(api, KernelContext_GetInputCount)(context, &given);
    if (status == NULL && given != (size_t)needed)
        status = wrong(api, "wrong number of inputs", (int64_t)given, needed);
    if (status == NULL) status = take(api, context, 0, &x);
    if (status == NULL) status = read_sizes(api, node, &x, t);
    if (status != NULL) return status;
    t->input[0] = x.data;
    int64_t area = t->out[0] * t->out[1] * t->out[2];
    status = take_rest(api, context, "weight elements", 1, convt_weight_elements(node), t);
    if (status == NULL)
        status = take_rest(api, context, "bias elements", convt_bias_index(node),
                           node->out_channels, t);
    if (status == NULL)
        status = take_rest(api, context, "slope elements", convt_slope_index(node),
                           node->out_channels, t);
    if (status == NULL)
        status = take_rest(api, context, "residual elements", convt_residual_index(node),
                           t->batch * node->out_channels * area, t);
    return status == NULL ? make_output(api, node, context, t) : status;
}
