/* What fixes the layout of a packed weight, and the way back to [C_in, C_out/group, *kernel]. */
#ifndef CONVT_SCHEDULE_H
#define CONVT_SCHEDULE_H

#include "node.h"

/* The text of plugins/conv_transpose/schedule.py: `gemm fused=011 aligned=111 block_m=128 ...`. */
bool convt_parse_schedule(const char *text, convt_schedule *schedule);

/* Elements of the weight as the node takes it. */
int64_t convt_weight_elements(const convt_node *node);

/* The weight as float32 [C_in, C_out/group, taps]. */
void convt_dense_weight(const convt_node *node, const void *weight, float *dense);

#endif
