/* The library's door: RegisterCustomOps, which every binding of ONNX Runtime knows how to call.
 *
 * Session config entries that it reads: convt.tf32 ("0": float32 products exactly, as three TF32
 * ones; TF32 by default, as the CUDA provider), convt.kernel_store (a folder of further kernels),
 * convt.cpu_kernel ("1": the CPU kernel also where no device has kernels). */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "op.h"

#define EXPORT __attribute__((visibility("default")))
#define DTYPES 3
#define TRY(call)                                                                                  \
    do {                                                                                           \
        OrtStatus *status_ = (call);                                                               \
        if (status_ != NULL) return status_;                                                       \
    } while (0)

/* Everything registered for one set of options; kept, since sessions refer to it. */
typedef struct registration {
    struct registration *next;
    const OrtApi *api;
    convt_options options;
    bool cuda;
    convt_op op[2 * DTYPES];
    OrtCustomOpDomain *domain;
} registration;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static registration *registrations;

/* The entry's value, or "" where it is not set or too long. */
static void read_entry(const OrtApi *api, const OrtSessionOptions *options, const char *name,
                       char *value, size_t bytes) {
    OrtStatus *status = ORT(api, GetSessionConfigEntry)(options, name, value, &bytes);
    if (status != NULL) {
        value[0] = '\0';
        ORT(api, ReleaseStatus)(status);
    }
}

/* Whether a kernel runs on every device; a line on stderr where none does on one. */
static bool devices_have_kernels(const char *store) {
    int count = convt_device_count();
    for (int i = 0; i < count; i++) {
        int capability = convt_capability(i);
        if (convt_any_kernel(capability, store)) continue;
        fprintf(stderr,
                "convt_onnx: no kernel for device %d (compute capability %d.%d) in this library: "
                "nodes run as their functions\n",
                i, capability / 10, capability % 10);
        return false;
    }
    return count > 0;
}

static registration *find(const OrtApi *api, const convt_options *options, bool cuda) {
    for (registration *r = registrations; r != NULL; r = r->next)
        if (r->api == api && r->cuda == cuda && r->options.tf32 == options->tf32 &&
            strcmp(r->options.store, options->store) == 0)
            return r;
    return NULL;
}

static OrtStatus *fill(registration *made) {
    int count = made->cuda ? 2 * DTYPES : DTYPES;
    TRY(ORT(made->api, CreateCustomOpDomain)(CONVT_DOMAIN, &made->domain));
    for (int i = 0; i < count; i++) {
        convt_make_op(&made->op[i], made->api, &made->options, (convt_dtype)(i % DTYPES),
                      i >= DTYPES);
        TRY(ORT(made->api, CustomOpDomain_Add)(made->domain, &made->op[i].base));
    }
    return NULL;
}

static OrtStatus *find_or_make(const OrtApi *api, const convt_options *options, bool cuda,
                               registration **result) {
    *result = find(api, options, cuda);
    if (*result != NULL) return NULL;
    registration *made = calloc(1, sizeof *made);
    if (made == NULL) return convt_error(api, "convt_onnx: out of memory");
    made->api = api;
    made->options = *options;
    made->cuda = cuda;
    OrtStatus *status = fill(made);
    if (status != NULL) {
        if (made->domain != NULL) ORT(api, ReleaseCustomOpDomain)(made->domain);
        free(made);
        return status;
    }
    made->next = registrations;
    registrations = made;
    *result = made;
    return NULL;
}

static OrtStatus *register_ops(OrtSessionOptions *session, const OrtApi *api) {
    convt_options options;
    char word[16];
    registration *found = NULL;
    memset(&options, 0, sizeof options);
    read_entry(api, session, "convt.kernel_store", options.store, sizeof options.store);
    read_entry(api, session, "convt.tf32", word, sizeof word);
    options.tf32 = strcmp(word, "0") != 0;
    read_entry(api, session, "convt.cpu_kernel", word, sizeof word);
    bool cuda = devices_have_kernels(options.store);
    if (!cuda && strcmp(word, "1") != 0) return NULL; /* functions run as well on the CPU */
    pthread_mutex_lock(&lock);
    OrtStatus *status = find_or_make(api, &options, cuda, &found);
    pthread_mutex_unlock(&lock);
    if (status != NULL) return status;
    return ORT(api, AddCustomOpDomain)(session, found->domain);
}

EXPORT OrtStatus *RegisterCustomOps(OrtSessionOptions *session, const OrtApiBase *base);

OrtStatus *RegisterCustomOps(OrtSessionOptions *session, const OrtApiBase *base) {
    const OrtApi *api = base->GetApi(CONVT_ORT_API);
    if (api != NULL) return register_ops(session, api);
    char message[160];
    snprintf(message, sizeof message,
             "convt_onnx: this library needs ONNX Runtime " CONVT_ORT_NAME " or later, not %.32s",
             base->GetVersionString());
    api = base->GetApi(1);
    return api == NULL ? NULL : convt_error(api, message);
}

/* For tools: whether a kernel is there that takes those sizes of x; a negative one is open. */
EXPORT int convt_has_kernel(const char *key, int tf32, int wide, const int64_t sizes[4],
                            int capability, const char *store);

int convt_has_kernel(const char *key, int tf32, int wide, const int64_t sizes[4], int capability,
                     const char *store) {
    const convt_kernel *found[CONVT_MAX_KERNELS];
    int count = convt_find_kernels(key, tf32 != 0, capability, store, found, CONVT_MAX_KERNELS);
    for (int i = 0; i < count; i++) {
        bool takes = found[i]->wide || !wide;
        for (int j = 0; j < 4; j++)
            takes = takes && (found[i]->sizes[j] < 0 || found[i]->sizes[j] == sizes[j]);
        if (takes) return 1;
    }
    return 0;
}

/* For tools: compute capability of a device, 0 where there is none. */
EXPORT int convt_device_capability(int device);

int convt_device_capability(int device) {
    return device < convt_device_count() ? convt_capability(device) : 0;
}
