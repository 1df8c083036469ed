#include "cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#define DRIVER "libcuda.so.1"
#define CAPABILITY_MAJOR 75
#define CAPABILITY_MINOR 76
#define JIT_ERROR_LOG 5
#define JIT_ERROR_LOG_BYTES 6

typedef int result;
typedef int device;

/* X(name, parameters) */
#define FUNCTIONS(X)                                                                               \
    X(cuInit, (unsigned))                                                                          \
    X(cuDeviceGetCount, (int *))                                                                   \
    X(cuDeviceGet, (device *, int))                                                                \
    X(cuDeviceGetAttribute, (int *, int, device))                                                  \
    X(cuCtxGetCurrent, (void **))                                                                  \
    X(cuCtxGetDevice, (device *))                                                                  \
    X(cuModuleLoadDataEx, (void **, const void *, unsigned, int *, void **))                       \
    X(cuModuleGetFunction, (void **, void *, const char *))                                        \
    X(cuGetErrorString, (result, const char **))                                                   \
    X(cuLaunchKernel, (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,         \
                       unsigned, void *, void **, void **))

#define DECLARE(name, parameters) static result(*name) parameters;
FUNCTIONS(DECLARE)

pthread_mutex_t convt_loading = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char why_not[CONVT_MESSAGE_BYTES];

static bool find(void *library, const char *name, void *function) {
    void *symbol = dlsym(library, name);
    if (symbol != NULL) memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static void start(void) {
    void *library = dlopen(DRIVER, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        snprintf(why_not, sizeof why_not, "there is no CUDA driver (%s)", DRIVER);
        return;
    }
#define FIND(name, parameters)                                                                     \
    if (!find(library, #name, &name)) {                                                            \
        snprintf(why_not, sizeof why_not, "the CUDA driver has no %s", #name);                     \
        return;                                                                                    \
    }
    FUNCTIONS(FIND)
    result code = cuInit(0);
    if (code != 0) snprintf(why_not, sizeof why_not, "the CUDA driver does not start (%d)", code);
}

bool convt_cuda_start(char message[CONVT_MESSAGE_BYTES]) {
    pthread_once(&once, start);
    snprintf(message, CONVT_MESSAGE_BYTES, "%s", why_not);
    return why_not[0] == '\0';
}

static const char *error_text(result code) {
    const char *text = NULL;
    return cuGetErrorString(code, &text) == 0 && text != NULL ? text : "unknown error";
}

static void tell(char message[CONVT_MESSAGE_BYTES], const char *what, const convt_kernel *kernel,
                 result code, const char *log) {
    snprintf(message, CONVT_MESSAGE_BYTES, "convt_onnx: %s %s (compute capability %d): %s%s%.400s",
             what, kernel->entry, kernel->capability, error_text(code), *log ? ": " : "", log);
}

int convt_device_count(void) {
    char message[CONVT_MESSAGE_BYTES];
    int count = 0;
    return convt_cuda_start(message) && cuDeviceGetCount(&count) == 0 ? count : 0;
}

int convt_capability(int index) {
    device which;
    int major = 0, minor = 0;
    if (cuDeviceGet(&which, index) != 0 ||
        cuDeviceGetAttribute(&major, CAPABILITY_MAJOR, which) != 0 ||
        cuDeviceGetAttribute(&minor, CAPABILITY_MINOR, which) != 0)
        return 0;
    return major * 10 + minor;
}

void *convt_current_context(int *index) {
    void *context = NULL;
    *index = -1;
    if (cuCtxGetCurrent(&context) != 0 || context == NULL) return NULL;
    return cuCtxGetDevice(index) == 0 ? context : NULL;
}

/* Compile and load the PTX into the current context. */
static void *load(const convt_kernel *kernel, char message[CONVT_MESSAGE_BYTES]) {
    char log[512] = "";
    size_t log_bytes = sizeof log - 1;
    int options[] = {JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES};
    void *values[] = {log, NULL}, *module = NULL, *function = NULL;
    memcpy(&values[1], &log_bytes, sizeof log_bytes);
    result code = cuModuleLoadDataEx(&module, kernel->ptx, 2, options, values);
    if (code == 0) code = cuModuleGetFunction(&function, module, kernel->entry);
    if (code != 0) tell(message, "cannot load", kernel, code, log);
    return function;
}

void *convt_load_function(const convt_kernel *kernel, void *context, char message[CONVT_MESSAGE_BYTES]) {
    convt_kernel *cache = (convt_kernel *)kernel;
    void *function = NULL;
    pthread_mutex_lock(&convt_loading);
    for (int i = 0; i < cache->contexts && function == NULL; i++)
        if (cache->context[i] == context) function = cache->function[i];
    if (function == NULL && cache->contexts == CONVT_MAX_CONTEXTS) {
        snprintf(message, CONVT_MESSAGE_BYTES, "convt_onnx: more than %d CUDA contexts",
                 CONVT_MAX_CONTEXTS);
    } else if (function == NULL && (function = load(kernel, message)) != NULL) {
        cache->context[cache->contexts] = context;
        cache->function[cache->contexts++] = function;
    }
    pthread_mutex_unlock(&convt_loading);
    return function;
}

bool convt_launch(const convt_kernel *kernel, void *function, unsigned grid, void *stream,
                  void **arguments, char message[CONVT_MESSAGE_BYTES]) {
    result code = cuLaunchKernel(function, grid, 1, 1, kernel->threads, 1, 1, kernel->shared_bytes,
                                 stream, arguments, NULL);
    if (code != 0) tell(message, "cannot launch", kernel, code, "");
    return code == 0;
}
