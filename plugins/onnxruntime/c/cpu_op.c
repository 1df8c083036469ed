/* The op on the CPU provider. */
#include <stdlib.h>

#include "cpu.h"
#include "op.h"

typedef struct {
    const OrtApi *api;
    convt_node node;
} cpu_kernel;

OrtStatus *convt_cpu_create(const convt_op *op, const convt_node *node, void **kernel) {
    cpu_kernel *made = calloc(1, sizeof *made);
    if (made == NULL) return convt_error(op->api, "convt_onnx: out of memory");
    made->api = op->api;
    made->node = *node;
    *kernel = made;
    return NULL;
}

static const void *at(const convt_tensors *t, int index) {
    return index < 0 ? NULL : t->input[index];
}

OrtStatus *convt_cpu_compute(void *opaque, OrtKernelContext *context) {
    const cpu_kernel *kernel = opaque;
    const convt_node *node = &kernel->node;
    convt_tensors t;
    OrtStatus *status = convt_take_tensors(kernel->api, node, context, &t);
    if (status != NULL || t.empty) return status;
    convt_operands operands = {.x = t.input[0],
                               .weight = t.input[1],
                               .bias = at(&t, convt_bias_index(node)),
                               .slope = at(&t, convt_slope_index(node)),
                               .residual = at(&t, convt_residual_index(node)),
                               .y = t.y,
                               .batch = t.batch,
                               .in = {t.in[0], t.in[1], t.in[2]},
                               .out = {t.out[0], t.out[1], t.out[2]}};
    if (convt_compute_on_cpu(node, &operands)) return NULL;
    return convt_error(kernel->api, "convt_onnx: out of memory");
}

void convt_cpu_destroy(void *kernel) { free(kernel); }
