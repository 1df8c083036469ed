#include "cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "floats.h"
#include "schedule.h"

typedef struct {
    const convt_node *node;
    const convt_operands *operands;
    const float *weight; /* [C_in, C_out/group, taps] */
    float *x;            /* one channel */
    float *sums;         /* [C_out/group, out...] of one group */
    int64_t in_area, out_area, taps;
} work;

/* First and one behind the last input row of an axis whose tap lands inside the output. */
static void landing(const work *w, int axis, int64_t tap, int64_t *first, int64_t *end) {
    int64_t stride = w->node->stride[axis];
    int64_t offset = tap * w->node->dilation[axis] - w->node->begin[axis];
    *first = offset < 0 ? (-offset + stride - 1) / stride : 0;
    int64_t room = w->operands->out[axis] - offset;
    *end = room <= 0 ? 0 : (room + stride - 1) / stride;
    if (*end > w->operands->in[axis]) *end = w->operands->in[axis];
}

static int64_t target(const work *w, int axis, int64_t row, int64_t tap) {
    return row * w->node->stride[axis] + tap * w->node->dilation[axis] - w->node->begin[axis];
}

/* One channel of x times one tap, added to one output channel. */
static void add_tap(const work *w, const int64_t tap[], float factor, float *y) {
    int64_t first[CONVT_MAX_AXES], end[CONVT_MAX_AXES];
    const int64_t *in = w->operands->in, *out = w->operands->out;
    int64_t stride = w->node->stride[2];
    for (int i = 0; i < CONVT_MAX_AXES; i++) landing(w, i, tap[i], &first[i], &end[i]);
    for (int64_t d = first[0]; d < end[0]; d++)
        for (int64_t h = first[1]; h < end[1]; h++) {
            const float *from = w->x + (d * in[1] + h) * in[2];
            float *to = y + (target(w, 0, d, tap[0]) * out[1] + target(w, 1, h, tap[1])) * out[2];
            to += target(w, 2, 0, tap[2]) + first[2] * stride;
            for (int64_t i = first[2]; i < end[2]; i++, to += stride) *to += factor * from[i];
        }
}

/* Channel `ci` of a group, whose values are in w->x, to every output channel of the group. */
static void add_channel(const work *w, int64_t group, int64_t ci) {
    const convt_node *node = w->node;
    int64_t per_group = node->out_channels / node->group, tap[CONVT_MAX_AXES], t = 0;
    const float *weight = w->weight;
    weight += (group * (node->in_channels / node->group) + ci) * per_group * w->taps;
    for (tap[0] = 0; tap[0] < node->kernel[0]; tap[0]++)
        for (tap[1] = 0; tap[1] < node->kernel[1]; tap[1]++)
            for (tap[2] = 0; tap[2] < node->kernel[2]; tap[2]++, t++)
                for (int64_t co = 0; co < per_group; co++)
                    add_tap(w, tap, weight[co * w->taps + t], w->sums + co * w->out_area);
}

static float activate(const convt_node *node, float v, float slope) {
    switch (node->activation) {
        case CONVT_NONE: return v;
        case CONVT_RELU: return v > 0 || isnan(v) ? v : 0;
        case CONVT_LEAKY_RELU: return v >= 0 ? v : v * node->alpha;
        case CONVT_PRELU: return v >= 0 ? v : v * slope;
        case CONVT_ELU: return v > 0 ? v : node->alpha * expm1f(v);
        case CONVT_SIGMOID: return 1 / (1 + expf(-v));
        case CONVT_TANH: return tanhf(v);
        case CONVT_SILU: return v / (1 + expf(-v));
        case CONVT_GELU: return 0.5f * v * (1 + erff(v * 0.70710678f));
        case CONVT_GELU_TANH:
            return 0.5f * v * (1 + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
        case CONVT_CLIP: return v < node->alpha ? node->alpha : v > node->beta ? node->beta : v;
    }
    return v;
}

/* Bias, residual, activation and the node's type, for the channels of one group. */
static void finish(const work *w, int64_t n, int64_t group) {
    const convt_operands *o = w->operands;
    int64_t per_group = w->node->out_channels / w->node->group;
    for (int64_t co = 0; co < per_group; co++) {
        int64_t channel = group * per_group + co;
        int64_t start = (n * w->node->out_channels + channel) * w->out_area;
        float bias = o->bias ? convt_load(w->node->dtype, o->bias, channel) : 0;
        float slope = o->slope ? convt_load(w->node->dtype, o->slope, channel) : 0;
        for (int64_t i = 0; i < w->out_area; i++) {
            float v = w->sums[co * w->out_area + i] + bias;
            if (o->residual) v += convt_load(w->node->dtype, o->residual, start + i);
            convt_store(w->node->dtype, o->y, start + i, activate(w->node, v, slope));
        }
    }
}

static void compute(const work *w) {
    const convt_node *node = w->node;
    int64_t in_group = node->in_channels / node->group, out_group = node->out_channels / node->group;
    for (int64_t n = 0; n < w->operands->batch; n++)
        for (int64_t g = 0; g < node->group; g++) {
            memset(w->sums, 0, sizeof(float) * (size_t)(out_group * w->out_area));
            for (int64_t ci = 0; ci < in_group; ci++) {
                int64_t start = (n * node->in_channels + g * in_group + ci) * w->in_area;
                for (int64_t i = 0; i < w->in_area; i++)
                    w->x[i] = convt_load(node->dtype, w->operands->x, start + i);
                add_channel(w, g, ci);
            }
            finish(w, n, g);
        }
}

bool convt_compute_on_cpu(const convt_node *node, const convt_operands *operands) {
    const int64_t *in = operands->in, *out = operands->out;
    int64_t out_group = node->out_channels / node->group;
    work w = {.node = node,
              .operands = operands,
              .in_area = in[0] * in[1] * in[2],
              .out_area = out[0] * out[1] * out[2],
              .taps = node->kernel[0] * node->kernel[1] * node->kernel[2]};
    float *weight = calloc((size_t)(node->in_channels * out_group * w.taps), sizeof(float));
    w.x = calloc((size_t)w.in_area, sizeof(float));
    w.sums = calloc((size_t)(out_group * w.out_area), sizeof(float));
    bool enough = weight != NULL && w.x != NULL && w.sums != NULL;
    if (enough) {
        convt_dense_weight(node, operands->weight, weight);
        w.weight = weight;
        compute(&w);
    }
    free(weight);
    free(w.x);
    free(w.sums);
    return enough;
}
