/* What this library needs of ONNX Runtime's C API, a stable ABI: the order of the functions in
 * OrtApi and of the callbacks in OrtCustomOp never changes, new ones are added behind.
 *
 * With CONVT_ORT_HEADER the public header is used instead, and ort_abi.c checks that both agree. */
#ifndef CONVT_ORT_API_H
#define CONVT_ORT_API_H

#include <stddef.h>
#include <stdint.h>

/* The API version asked for: ONNX Runtime 1.17, the first with shape inference of custom ops. */
#define CONVT_ORT_API 17
#define CONVT_ORT_NAME "1.17"

#ifdef CONVT_ORT_HEADER
#include <onnxruntime_c_api.h>
#define ORT(api, function) ((api)->function)
#else

typedef struct OrtStatus OrtStatus;
typedef struct OrtKernelInfo OrtKernelInfo;
typedef struct OrtKernelContext OrtKernelContext;
typedef struct OrtShapeInferContext OrtShapeInferContext;
typedef struct OrtOpAttr OrtOpAttr;
typedef struct OrtValue OrtValue;
typedef struct OrtSessionOptions OrtSessionOptions;
typedef struct OrtCustomOpDomain OrtCustomOpDomain;
typedef struct OrtTensorTypeAndShapeInfo OrtTensorTypeAndShapeInfo;
typedef struct OrtApi OrtApi;
typedef struct OrtCustomOp OrtCustomOp;

typedef enum {
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT = 1,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 = 10,
    ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 = 16
} ONNXTensorElementDataType;
typedef enum { ORT_FAIL = 1, ORT_INVALID_ARGUMENT = 2 } OrtErrorCode;
typedef enum { ORT_OP_ATTR_INT = 1, ORT_OP_ATTR_INTS = 2 } OrtOpAttrType;
typedef enum { OrtMemTypeDefault = 0 } OrtMemType;
typedef enum {
    INPUT_OUTPUT_REQUIRED = 0,
    INPUT_OUTPUT_OPTIONAL = 1
} OrtCustomOpInputOutputCharacteristic;

typedef struct OrtApiBase {
    const OrtApi *(*GetApi)(uint32_t version);
    const char *(*GetVersionString)(void);
} OrtApiBase;

struct OrtCustomOp {
    uint32_t version;
    void *(*CreateKernel)(const OrtCustomOp *, const OrtApi *, const OrtKernelInfo *);
    const char *(*GetName)(const OrtCustomOp *);
    const char *(*GetExecutionProviderType)(const OrtCustomOp *);
    ONNXTensorElementDataType (*GetInputType)(const OrtCustomOp *, size_t);
    size_t (*GetInputTypeCount)(const OrtCustomOp *);
    ONNXTensorElementDataType (*GetOutputType)(const OrtCustomOp *, size_t);
    size_t (*GetOutputTypeCount)(const OrtCustomOp *);
    void (*KernelCompute)(void *, OrtKernelContext *);
    void (*KernelDestroy)(void *);
    OrtCustomOpInputOutputCharacteristic (*GetInputCharacteristic)(const OrtCustomOp *, size_t);
    OrtCustomOpInputOutputCharacteristic (*GetOutputCharacteristic)(const OrtCustomOp *, size_t);
    OrtMemType (*GetInputMemoryType)(const OrtCustomOp *, size_t);
    int (*GetVariadicInputMinArity)(const OrtCustomOp *);
    int (*GetVariadicInputHomogeneity)(const OrtCustomOp *);
    int (*GetVariadicOutputMinArity)(const OrtCustomOp *);
    int (*GetVariadicOutputHomogeneity)(const OrtCustomOp *);
    OrtStatus *(*CreateKernelV2)(const OrtCustomOp *, const OrtApi *, const OrtKernelInfo *,
                                 void **);
    OrtStatus *(*KernelComputeV2)(void *, OrtKernelContext *);
    OrtStatus *(*InferOutputShapeFn)(const OrtCustomOp *, OrtShapeInferContext *);
    int (*GetStartVersion)(const OrtCustomOp *);
    int (*GetEndVersion)(const OrtCustomOp *);
    size_t (*GetMayInplace)(int **, int **);
    void (*ReleaseMayInplace)(int *, int *);
    size_t (*GetAliasMap)(int **, int **);
    void (*ReleaseAliasMap)(int *, int *);
};

/* OrtApi as an array of functions. */
struct OrtApi {
    void (*entry[273])(void);
};

#define ORT(api, function) ((ort_##function)(api)->entry[ORT_##function])
#endif

/* X(index in OrtApi, result, name, parameters) */
#define CONVT_ORT_FUNCTIONS(X)                                                                     \
    X(0, OrtStatus *, CreateStatus, (OrtErrorCode, const char *))                                  \
    X(2, const char *, GetErrorMessage, (const OrtStatus *))                                       \
    X(26, OrtStatus *, CreateCustomOpDomain, (const char *, OrtCustomOpDomain **))                 \
    X(27, OrtStatus *, CustomOpDomain_Add, (OrtCustomOpDomain *, const OrtCustomOp *))             \
    X(28, OrtStatus *, AddCustomOpDomain, (OrtSessionOptions *, OrtCustomOpDomain *))              \
    X(51, OrtStatus *, GetTensorMutableData, (OrtValue *, void **))                                \
    X(57, OrtStatus *, CreateTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo **))               \
    X(58, OrtStatus *, SetTensorElementType,                                                       \
      (OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType))                                    \
    X(59, OrtStatus *, SetDimensions, (OrtTensorTypeAndShapeInfo *, const int64_t *, size_t))      \
    X(60, OrtStatus *, GetTensorElementType,                                                       \
      (const OrtTensorTypeAndShapeInfo *, ONNXTensorElementDataType *))                            \
    X(61, OrtStatus *, GetDimensionsCount, (const OrtTensorTypeAndShapeInfo *, size_t *))          \
    X(62, OrtStatus *, GetDimensions, (const OrtTensorTypeAndShapeInfo *, int64_t *, size_t))      \
    X(63, OrtStatus *, GetSymbolicDimensions,                                                      \
      (const OrtTensorTypeAndShapeInfo *, const char **, size_t))                                  \
    X(65, OrtStatus *, GetTensorTypeAndShape, (const OrtValue *, OrtTensorTypeAndShapeInfo **))    \
    X(85, OrtStatus *, KernelInfoGetAttribute_float, (const OrtKernelInfo *, const char *,         \
      float *))                                                                                    \
    X(86, OrtStatus *, KernelInfoGetAttribute_int64, (const OrtKernelInfo *, const char *,         \
      int64_t *))                                                                                  \
    X(87, OrtStatus *, KernelInfoGetAttribute_string, (const OrtKernelInfo *, const char *,        \
      char *, size_t *))                                                                           \
    X(88, OrtStatus *, KernelContext_GetInputCount, (const OrtKernelContext *, size_t *))          \
    X(90, OrtStatus *, KernelContext_GetInput, (const OrtKernelContext *, size_t,                  \
      const OrtValue **))                                                                          \
    X(91, OrtStatus *, KernelContext_GetOutput, (OrtKernelContext *, size_t, const int64_t *,      \
      size_t, OrtValue **))                                                                        \
    X(93, void, ReleaseStatus, (OrtStatus *))                                                      \
    X(99, void, ReleaseTensorTypeAndShapeInfo, (OrtTensorTypeAndShapeInfo *))                      \
    X(101, void, ReleaseCustomOpDomain, (OrtCustomOpDomain *))                                     \
    X(163, OrtStatus *, KernelInfoGetAttributeArray_int64, (const OrtKernelInfo *, const char *,   \
      int64_t *, size_t *))                                                                        \
    X(193, OrtStatus *, KernelContext_GetGPUComputeStream, (const OrtKernelContext *, void **))    \
    X(238, OrtStatus *, GetSessionConfigEntry, (const OrtSessionOptions *, const char *, char *,   \
      size_t *))                                                                                   \
    X(268, OrtStatus *, ShapeInferContext_GetInputTypeShape, (const OrtShapeInferContext *,        \
      size_t, OrtTensorTypeAndShapeInfo **))                                                       \
    X(269, OrtStatus *, ShapeInferContext_GetAttribute, (const OrtShapeInferContext *,             \
      const char *, const OrtOpAttr **))                                                           \
    X(270, OrtStatus *, ShapeInferContext_SetOutputTypeShape, (const OrtShapeInferContext *,       \
      size_t, const OrtTensorTypeAndShapeInfo *))                                                  \
    X(271, OrtStatus *, SetSymbolicDimensions, (OrtTensorTypeAndShapeInfo *, const char **,        \
      size_t))                                                                                     \
    X(272, OrtStatus *, ReadOpAttr, (const OrtOpAttr *, OrtOpAttrType, void *, size_t, size_t *))

#ifndef CONVT_ORT_HEADER
#define CONVT_ORT_DECLARE(index, result, name, parameters)                                         \
    typedef result(*ort_##name) parameters;                                                        \
    enum { ORT_##name = (index) };
CONVT_ORT_FUNCTIONS(CONVT_ORT_DECLARE)
#endif

#endif
