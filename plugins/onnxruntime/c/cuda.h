/* The CUDA driver, loaded when it is first needed; without one everything else still works. */
#ifndef CONVT_CUDA_H
#define CONVT_CUDA_H

#include "kernel.h"

/* False, with a message, where there is no driver. */
bool convt_cuda_start(char message[CONVT_MESSAGE_BYTES]);

/* Devices that the process sees, 0 without a driver. */
int convt_device_count(void);

/* Compute capability of a device, as 90 for 9.0; 0 where it is unknown. */
int convt_capability(int device);

/* The calling thread's context and its device; NULL and -1 where it has none. */
void *convt_current_context(int *device);

/* The kernel's function in the current context, loaded once; NULL, with a message, on failure. */
void *convt_load_function(const convt_kernel *kernel, void *context, char message[CONVT_MESSAGE_BYTES]);

/* Queue a kernel on a stream; false, with a message, where the driver refuses. */
bool convt_launch(const convt_kernel *kernel, void *function, unsigned grid, void *stream,
                  void **arguments, char message[CONVT_MESSAGE_BYTES]);

#endif
