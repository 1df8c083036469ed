/* The operation on the CPU: every input row and tap is added where it lands. */
#ifndef CONVT_CPU_H
#define CONVT_CPU_H

#include "node.h"

/* Pointers to contiguous tensors of the node's type; bias, slope and residual may be NULL. */
typedef struct {
    const void *x;        /* [batch, in_channels, in...] */
    const void *weight;   /* packed as the node says */
    const void *bias;     /* [out_channels] */
    const void *slope;    /* [out_channels] */
    const void *residual; /* as y */
    void *y;              /* [batch, out_channels, out...] */
    int64_t batch;
    int64_t in[CONVT_MAX_AXES], out[CONVT_MAX_AXES];
} convt_operands;

/* False where memory runs out. */
bool convt_compute_on_cpu(const convt_node *node, const convt_operands *operands);

#endif
