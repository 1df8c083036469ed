#include "schedule.h"

#include <stdio.h>
#include <string.h>

#include "floats.h"

#define MAX_TILE 1024

typedef struct {
    bool fused;
    int64_t kernel, stride, dilation, base, first, step, count;
} axis_plan;

typedef struct {
    axis_plan axis[CONVT_MAX_AXES];
    int64_t blocks, width_phases, columns, padded_columns, rows;
    int64_t in_channels, out_channels; /* of a group */
} packing;

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b < 0); }

static int64_t round_up(int64_t value, int64_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}

/* The value of ` name=digits`, at most `bytes` - 1 digits. */
static bool field(const char *text, const char *name, char *digits, size_t bytes) {
    char label[32];
    int length = snprintf(label, sizeof label, " %s=", name);
    const char *at = strstr(text, label);
    if (at == NULL) return false;
    at += length;
    size_t count = strspn(at, "0123456789");
    if (count == 0 || count >= bytes) return false;
    memcpy(digits, at, count);
    digits[count] = '\0';
    return true;
}

static bool number(const char *text, const char *name, int64_t *value) {
    char digits[6];
    if (!field(text, name, digits, sizeof digits)) return false;
    *value = 0;
    for (const char *d = digits; *d; d++) *value = *value * 10 + (*d - '0');
    return true;
}

static bool flag(const char *text, const char *name, bool *value) {
    char digits[2] = "";
    if (!field(text, name, digits, sizeof digits) || digits[0] > '1') return false;
    *value = digits[0] == '1';
    return true;
}

static bool tile(const char *text, const char *name, int64_t *value) {
    return number(text, name, value) && *value >= 1 && *value <= MAX_TILE &&
           (*value & (*value - 1)) == 0;
}

bool convt_parse_schedule(const char *text, convt_schedule *schedule) {
    char fused[4] = "", aligned[4] = "";
    memset(schedule, 0, sizeof *schedule);
    if (strncmp(text, "direct", 6) == 0) return true;
    if (strncmp(text, "gemm ", 5) != 0) return false;
    if (!field(text, "fused", fused, sizeof fused) || strlen(fused) != CONVT_MAX_AXES)
        return false;
    if (!field(text, "aligned", aligned, sizeof aligned) || strlen(aligned) != CONVT_MAX_AXES)
        return false;
    for (int i = 0; i < CONVT_MAX_AXES; i++) {
        schedule->axis[i].fused = fused[i] == '1';
        schedule->axis[i].aligned = aligned[i] == '1';
    }
    schedule->packed = true;
    return tile(text, "block_n", &schedule->tile_n) && tile(text, "block_k", &schedule->tile_k) &&
           flag(text, "flat", &schedule->flat) && flag(text, "interleave", &schedule->interleave) &&
           flag(text, "k_major", &schedule->k_major);
}

/* Shift of a tap, see plugins/conv_transpose/geometry.py. */
static int64_t shift(const axis_plan *plan, int64_t tap) {
    return floor_div(tap * plan->dilation - plan->base, plan->stride);
}

static axis_plan plan_axis(const convt_node *node, int axis) {
    const convt_axis_schedule *how = &node->schedule.axis[axis];
    int64_t begin = node->begin[axis], stride = node->stride[axis];
    axis_plan plan = {.fused = how->fused,
                      .kernel = node->kernel[axis],
                      .stride = stride,
                      .dilation = node->dilation[axis],
                      .base = how->aligned ? begin : floor_div(begin, stride) * stride,
                      .step = 1,
                      .count = 1};
    plan.first = shift(&plan, 0);
    int64_t last = plan.first;
    for (int64_t tap = 1; tap < plan.kernel; tap++) {
        int64_t next = shift(&plan, tap);
        if (next == last) continue;
        if (plan.count == 1) plan.step = next - last;
        plan.count++;
        last = next;
    }
    return plan;
}

static int64_t blocks_of(const axis_plan *plan) { return plan->fused ? plan->count : plan->kernel; }

static int64_t phases_of(const axis_plan *plan) { return plan->fused ? plan->stride : 1; }

static packing packing_of(const convt_node *node) {
    const convt_schedule *schedule = &node->schedule;
    packing p = {.blocks = 1,
                 .in_channels = node->in_channels / node->group,
                 .out_channels = node->out_channels / node->group};
    for (int i = 0; i < CONVT_MAX_AXES; i++) {
        p.axis[i] = plan_axis(node, i);
        p.blocks *= blocks_of(&p.axis[i]);
    }
    p.width_phases = phases_of(&p.axis[2]);
    if (schedule->interleave)
        while (p.width_phases & (p.width_phases - 1)) p.width_phases++;
    p.columns = phases_of(&p.axis[0]) * phases_of(&p.axis[1]) * p.width_phases * p.out_channels;
    p.padded_columns = round_up(p.columns, schedule->tile_n);
    p.rows = round_up(p.in_channels * (schedule->flat ? p.blocks : 1), schedule->tile_k);
    return p;
}

int64_t convt_weight_elements(const convt_node *node) {
    if (node->schedule.packed) {
        packing p = packing_of(node);
        int64_t blocks = node->schedule.flat ? 1 : p.blocks;
        return node->group * blocks * p.rows * p.padded_columns;
    }
    int64_t taps = node->kernel[0] * node->kernel[1] * node->kernel[2];
    return node->in_channels * (node->out_channels / node->group) * taps;
}

/* Place of one element in a packed weight. */
static int64_t packed_index(const convt_schedule *schedule, const packing *p, int64_t group,
                            int64_t block, int64_t channel, int64_t column) {
    int64_t blocks = schedule->flat ? 1 : p->blocks;
    int64_t row = schedule->flat ? block * p->in_channels + channel : channel;
    int64_t start = (group * blocks + (schedule->flat ? 0 : block)) * p->rows * p->padded_columns;
    return start + (schedule->k_major ? column * p->rows + row : row * p->padded_columns + column);
}

/* One tap, which exactly one weight block and phase of each axis holds. */
static void unpack_tap(const convt_node *node, const packing *p, const void *weight,
                       const int64_t block[], const int64_t phase[], int64_t tap, float *dense) {
    int64_t taps = node->kernel[0] * node->kernel[1] * node->kernel[2];
    int64_t at = (block[0] * blocks_of(&p->axis[1]) + block[1]) * blocks_of(&p->axis[2]) + block[2];
    int64_t plane = phase[0] * phases_of(&p->axis[1]) + phase[1];
    for (int64_t g = 0; g < node->group; g++)
        for (int64_t ci = 0; ci < p->in_channels; ci++)
            for (int64_t co = 0; co < p->out_channels; co++) {
                int64_t column = node->schedule.interleave
                                     ? (plane * p->out_channels + co) * p->width_phases + phase[2]
                                     : (plane * p->width_phases + phase[2]) * p->out_channels + co;
                int64_t from = packed_index(&node->schedule, p, g, at, ci, column);
                int64_t to = ((g * p->in_channels + ci) * p->out_channels + co) * taps + tap;
                dense[to] = convt_load(node->dtype, weight, from);
            }
}

/* Block and phase of a tap on one axis. */
static void find_tap(const axis_plan *plan, int64_t tap, int64_t *block, int64_t *phase) {
    *block = plan->fused ? (shift(plan, tap) - plan->first) / plan->step : tap;
    *phase = plan->fused
                 ? tap * plan->dilation - plan->base - shift(plan, tap) * plan->stride
                 : 0;
}

void convt_dense_weight(const convt_node *node, const void *weight, float *dense) {
    if (!node->schedule.packed) {
        int64_t count = convt_weight_elements(node);
        for (int64_t i = 0; i < count; i++) dense[i] = convt_load(node->dtype, weight, i);
        return;
    }
    packing p = packing_of(node);
    int64_t block[CONVT_MAX_AXES], phase[CONVT_MAX_AXES], tap = 0;
    for (int64_t d = 0; d < node->kernel[0]; d++)
        for (int64_t h = 0; h < node->kernel[1]; h++)
            for (int64_t w = 0; w < node->kernel[2]; w++, tap++) {
                find_tap(&p.axis[0], d, &block[0], &phase[0]);
                find_tap(&p.axis[1], h, &block[1], &phase[1]);
                find_tap(&p.axis[2], w, &block[2], &phase[2]);
                unpack_tap(node, &p, weight, block, phase, tap, dense);
            }
}
