/* The op on the CUDA provider: one launch on the session's stream, nothing copied or allocated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "op.h"

#define ALIGNMENT 16

typedef struct {
    const OrtApi *api;
    convt_node node;
    char key[CONVT_KEY_BYTES];
    void *context; /* in which the functions were loaded */
    int capability;
    int count;
    const convt_kernel *candidate[CONVT_MAX_KERNELS];
    void *function[CONVT_MAX_KERNELS];
} cuda_kernel;

static OrtStatus *no_kernel(const OrtApi *api, const cuda_kernel *kernel, const char *why) {
    char message[CONVT_MESSAGE_BYTES];
    snprintf(message, sizeof message,
             "convt_onnx: no kernel for this node on compute capability %d%s: %.700s; "
             "`convt-onnx ort-library MODEL` makes it, and a session that does not register the "
             "library runs the node's function instead",
             kernel->capability, why, kernel->key);
    return convt_error(api, message);
}

OrtStatus *convt_cuda_create(const convt_op *op, const convt_node *node, void **result) {
    int device;
    char message[CONVT_MESSAGE_BYTES];
    cuda_kernel *kernel = calloc(1, sizeof *kernel);
    if (kernel == NULL) return convt_error(op->api, "convt_onnx: out of memory");
    kernel->api = op->api;
    kernel->node = *node;
    convt_key(node, kernel->key);
    kernel->context = convt_current_context(&device);
    kernel->capability = convt_capability(device < 0 ? 0 : device);
    kernel->count = convt_find_kernels(kernel->key, op->options->tf32, kernel->capability,
                                       op->options->store, kernel->candidate, CONVT_MAX_KERNELS);
    OrtStatus *status = kernel->count == 0 ? no_kernel(op->api, kernel, "") : NULL;
    for (int i = 0; kernel->context != NULL && status == NULL && i < kernel->count; i++) {
        kernel->function[i] = convt_load_function(kernel->candidate[i], kernel->context, message);
        if (kernel->function[i] == NULL) status = convt_error(op->api, message);
    }
    if (status == NULL)
        *result = kernel;
    else
        free(kernel);
    return status;
}

void convt_cuda_destroy(void *kernel) { free(kernel); }

/* Elements of the larger of x and y. */
static int64_t reach(const convt_node *node, const convt_tensors *t) {
    int64_t in = node->in_channels * t->in[0] * t->in[1] * t->in[2];
    int64_t out = node->out_channels * t->out[0] * t->out[1] * t->out[2];
    return t->batch * (in > out ? in : out);
}

static const void *operand(const convt_node *node, const convt_tensors *t, const char *name) {
    if (strcmp(name, "x") == 0) return t->input[0];
    if (strcmp(name, "w") == 0) return t->input[1];
    if (strcmp(name, "y") == 0) return t->y;
    int index = strcmp(name, "bias") == 0    ? convt_bias_index(node)
                : strcmp(name, "slope") == 0 ? convt_slope_index(node)
                                             : convt_residual_index(node);
    return index < 0 ? NULL : t->input[index];
}

typedef struct {
    const void *pointer[CONVT_MAX_ARGUMENTS];
    int32_t number[CONVT_MAX_ARGUMENTS];
    void *place[CONVT_MAX_ARGUMENTS];
    unsigned grid;
} launch_arguments;

static OrtStatus *fill(const cuda_kernel *kernel, const convt_kernel *chosen,
                       const convt_tensors *t, launch_arguments *arguments) {
    const convt_sizes sizes = {t->batch, t->in[0], t->in[1], t->in[2]};
    int64_t value;
    if (!convt_evaluate(&chosen->grid, &sizes, &value) || value < 1 || value > INT32_MAX)
        return no_kernel(kernel->api, kernel, " and sizes this large");
    arguments->grid = (unsigned)value;
    for (int i = 0; i < chosen->argument_count; i++) {
        const convt_argument *argument = &chosen->argument[i];
        if (argument->operand != NULL) {
            const void *pointer = operand(&kernel->node, t, argument->operand);
            if (pointer == NULL || (uintptr_t)pointer % ALIGNMENT != 0)
                return convt_error(kernel->api,
                                   "convt_onnx: a tensor is not aligned to 16 bytes; bind memory "
                                   "that is, as every allocator's is");
            arguments->pointer[i] = pointer;
            arguments->place[i] = &arguments->pointer[i];
            continue;
        }
        if (!convt_evaluate(&argument->number, &sizes, &value) || value < INT32_MIN ||
            value > INT32_MAX)
            return no_kernel(kernel->api, kernel, " and sizes this large");
        arguments->number[i] = (int32_t)value;
        arguments->place[i] = &arguments->number[i];
    }
    return NULL;
}

static OrtStatus *queue(cuda_kernel *kernel, int index, void *stream, const convt_tensors *t) {
    const convt_kernel *chosen = kernel->candidate[index];
    launch_arguments arguments;
    char message[CONVT_MESSAGE_BYTES];
    int device;
    OrtStatus *status = fill(kernel, chosen, t, &arguments);
    if (status != NULL) return status;
    void *context = convt_current_context(&device), *function = kernel->function[index];
    if (context == NULL) return convt_error(kernel->api, "convt_onnx: no current CUDA context");
    if (context != kernel->context) function = convt_load_function(chosen, context, message);
    if (function == NULL || !convt_launch(chosen, function, arguments.grid, stream,
                                          arguments.place, message))
        return convt_error(kernel->api, message);
    return NULL;
}

OrtStatus *convt_cuda_compute(void *opaque, OrtKernelContext *context) {
    cuda_kernel *kernel = opaque;
    convt_tensors t;
    void *stream = NULL;
    OrtStatus *status = convt_take_tensors(kernel->api, &kernel->node, context, &t);
    if (status == NULL && !t.empty)
        status = ORT(kernel->api, KernelContext_GetGPUComputeStream)(context, &stream);
    if (status != NULL || t.empty) return status;
    const convt_sizes sizes = {t.batch, t.in[0], t.in[1], t.in[2]};
    for (int i = 0; i < kernel->count; i++)
        if (convt_kernel_fits(kernel->candidate[i], &sizes, reach(&kernel->node, &t)))
            return queue(kernel, i, stream, &t);
    return no_kernel(kernel->api, kernel, " and these sizes");
}
