/* A kernel compiled ahead of time, as plugins/onnxruntime/kernel_file.py writes it. */
#ifndef CONVT_KERNEL_H
#define CONVT_KERNEL_H

#include <pthread.h>

#include "formula.h"
#include "node.h"

#define CONVT_MAX_ARGUMENTS 40
#define CONVT_MAX_CONTEXTS 16
#define CONVT_MAX_KERNELS 32 /* for one node */
#define CONVT_NAME_BYTES 128

/* `operand` is the name of a pointer, NULL for an int32 that `number` gives. */
typedef struct {
    const char *operand;
    convt_formula number;
} convt_argument;

typedef struct convt_kernel {
    struct convt_kernel *next;
    const char *text; /* the whole file; ptx ends it */
    char key[CONVT_KEY_BYTES];
    char entry[CONVT_NAME_BYTES];
    int capability; /* compute capability, as 90 for 9.0 */
    bool portable;  /* later devices run it too */
    bool tf32, wide;
    int64_t sizes[4]; /* batch, depth, height, width of x; -1 where open */
    unsigned threads, shared_bytes;
    convt_formula grid;
    int argument_count;
    convt_argument argument[CONVT_MAX_ARGUMENTS];
    const char *ptx;
    /* Functions by context, under convt_loading. */
    void *context[CONVT_MAX_CONTEXTS], *function[CONVT_MAX_CONTEXTS];
    int contexts;
} convt_kernel;

extern pthread_mutex_t convt_loading;

/* NULL where the text is no kernel; the text must live as long as the kernel. */
convt_kernel *convt_parse_kernel(const char *text);

bool convt_kernel_runs_on(const convt_kernel *kernel, int capability);

/* Whether the sizes that are compiled in are those. */
bool convt_kernel_fits(const convt_kernel *kernel, const convt_sizes *sizes, int64_t reach);

/* Kernels for a node, the one with the most sizes compiled in first; at most `limit`. */
int convt_find_kernels(const char *key, bool tf32, int capability, const char *store,
                       const convt_kernel **found, int limit);

/* Whether any kernel, embedded or in the store, runs on a device. */
bool convt_any_kernel(int capability, const char *store);

/* The texts that the library was built with; NULL ends them. Generated. */
extern const char *const convt_embedded[];

#endif
