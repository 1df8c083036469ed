/* The custom op: one for each element type and provider. */
#ifndef CONVT_OP_H
#define CONVT_OP_H

#include "node.h"
#include "ort_api.h"

#define CONVT_DOMAIN "convt_onnx"
#define CONVT_OP_NAME "FusedConvTranspose"
#define CONVT_STORE_BYTES 4096
/* x and the weight, then up to bias, slopes and residual. */
#define CONVT_MAX_INPUTS 5

/* What a session asked for when it registered the library. */
typedef struct {
    bool tf32;
    char store[CONVT_STORE_BYTES];
} convt_options;

typedef struct {
    OrtCustomOp base; /* first: ONNX Runtime hands it back */
    const OrtApi *api;
    const convt_options *options;
    convt_dtype dtype;
    bool cuda;
} convt_op;

/* What a node needs at run time. */
typedef struct {
    const void *input[CONVT_MAX_INPUTS];
    int64_t batch, in[CONVT_MAX_AXES], out[CONVT_MAX_AXES];
    void *y;
    bool empty;
} convt_tensors;

void convt_make_op(convt_op *op, const OrtApi *api, const convt_options *options,
                   convt_dtype dtype, bool cuda);

/* Inputs, checked against the node, and the output that they call for. */
OrtStatus *convt_take_tensors(const OrtApi *api, const convt_node *node, OrtKernelContext *context,
                              convt_tensors *tensors);

/* The callbacks of each provider; CreateKernelV2, KernelComputeV2, KernelDestroy. */
OrtStatus *convt_cpu_create(const convt_op *op, const convt_node *node, void **kernel);
OrtStatus *convt_cpu_compute(void *kernel, OrtKernelContext *context);
void convt_cpu_destroy(void *kernel);
OrtStatus *convt_cuda_create(const convt_op *op, const convt_node *node, void **kernel);
OrtStatus *convt_cuda_compute(void *kernel, OrtKernelContext *context);
void convt_cuda_destroy(void *kernel);

OrtStatus *convt_infer_shape(const OrtCustomOp *op, OrtShapeInferContext *context);

OrtStatus *convt_error(const OrtApi *api, const char *message);

#endif
