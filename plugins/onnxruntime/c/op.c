#include "op.h"

#include <string.h>

typedef struct {
    const OrtApi *api;
    const OrtKernelInfo *info;
} source;

OrtStatus *convt_error(const OrtApi *api, const char *message) {
    return ORT(api, CreateStatus)(ORT_FAIL, message);
}

/* Whether a call went well; what it says otherwise is not kept. */
static bool worked(const OrtApi *api, OrtStatus *status) {
    if (status != NULL) ORT(api, ReleaseStatus)(status);
    return status == NULL;
}

static bool read_integer(void *from, const char *name, int64_t *value) {
    source *s = from;
    return worked(s->api, ORT(s->api, KernelInfoGetAttribute_int64)(s->info, name, value));
}

static bool read_integers(void *from, const char *name, int64_t *values, size_t *count) {
    source *s = from;
    return worked(s->api,
                  ORT(s->api, KernelInfoGetAttributeArray_int64)(s->info, name, values, count));
}

static bool read_real(void *from, const char *name, float *value) {
    source *s = from;
    return worked(s->api, ORT(s->api, KernelInfoGetAttribute_float)(s->info, name, value));
}

static bool read_text(void *from, const char *name, char *value, size_t bytes) {
    source *s = from;
    return worked(s->api, ORT(s->api, KernelInfoGetAttribute_string)(s->info, name, value, &bytes));
}

static OrtStatus *create(const OrtCustomOp *base, const OrtApi *api, const OrtKernelInfo *info,
                         void **kernel) {
    const convt_op *op = (const convt_op *)base;
    source from = {api, info};
    convt_reader reader = {&from, read_integer, read_integers, read_real, read_text};
    convt_node node;
    char message[CONVT_MESSAGE_BYTES];
    *kernel = NULL;
    if (!convt_read_node(&reader, op->dtype, &node, message)) return convt_error(api, message);
    return op->cuda ? convt_cuda_create(op, &node, kernel) : convt_cpu_create(op, &node, kernel);
}

static const char *name(const OrtCustomOp *op) {
    (void)op;
    return CONVT_OP_NAME;
}

static const char *provider(const OrtCustomOp *op) {
    return ((const convt_op *)op)->cuda ? "CUDAExecutionProvider" : "CPUExecutionProvider";
}

static ONNXTensorElementDataType type(const OrtCustomOp *op, size_t index) {
    (void)index;
    switch (((const convt_op *)op)->dtype) {
        case CONVT_FLOAT16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16;
        case CONVT_BFLOAT16: return ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16;
        default: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    }
}

static size_t input_count(const OrtCustomOp *op) {
    (void)op;
    return CONVT_MAX_INPUTS;
}

static size_t output_count(const OrtCustomOp *op) {
    (void)op;
    return 1;
}

static OrtCustomOpInputOutputCharacteristic input_kind(const OrtCustomOp *op, size_t index) {
    (void)op;
    return index < 2 ? INPUT_OUTPUT_REQUIRED : INPUT_OUTPUT_OPTIONAL;
}

static OrtCustomOpInputOutputCharacteristic output_kind(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return INPUT_OUTPUT_REQUIRED;
}

static OrtMemType memory_type(const OrtCustomOp *op, size_t index) {
    (void)op;
    (void)index;
    return OrtMemTypeDefault;
}

void convt_make_op(convt_op *op, const OrtApi *api, const convt_options *options,
                   convt_dtype dtype, bool cuda) {
    memset(op, 0, sizeof *op);
    op->api = api;
    op->options = options;
    op->dtype = dtype;
    op->cuda = cuda;
    op->base.version = CONVT_ORT_API;
    op->base.GetName = name;
    op->base.GetExecutionProviderType = provider;
    op->base.GetInputType = type;
    op->base.GetInputTypeCount = input_count;
    op->base.GetOutputType = type;
    op->base.GetOutputTypeCount = output_count;
    op->base.GetInputCharacteristic = input_kind;
    op->base.GetOutputCharacteristic = output_kind;
    op->base.GetInputMemoryType = memory_type;
    op->base.CreateKernelV2 = create;
    op->base.KernelComputeV2 = cuda ? convt_cuda_compute : convt_cpu_compute;
    op->base.KernelDestroy = cuda ? convt_cuda_destroy : convt_cpu_destroy;
    op->base.InferOutputShapeFn = convt_infer_shape;
}
