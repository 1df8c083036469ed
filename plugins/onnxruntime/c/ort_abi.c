/* With the public header: the table of ort_api.h and the header agree. Nothing to run. */
#include "ort_api.h"

#ifdef CONVT_ORT_HEADER
#define CONVT_ORT_CHECK(index, result, name, parameters)                                           \
    _Static_assert(offsetof(OrtApi, name) == (index) * sizeof(void *), #name " has moved");        \
    _Static_assert(_Generic(((OrtApi *)0)->name, result(*) parameters : 1, default : 0),           \
                   #name " has other parameters");
CONVT_ORT_FUNCTIONS(CONVT_ORT_CHECK)

_Static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT == 1, "element types");
_Static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16 == 10, "element types");
_Static_assert(ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16 == 16, "element types");
_Static_assert(ORT_FAIL == 1 && ORT_INVALID_ARGUMENT == 2, "error codes");
_Static_assert(ORT_OP_ATTR_INT == 1 && ORT_OP_ATTR_INTS == 2, "attribute types");
_Static_assert(OrtMemTypeDefault == 0 && INPUT_OUTPUT_OPTIONAL == 1, "characteristics");
_Static_assert(offsetof(OrtCustomOp, KernelComputeV2) == 18 * sizeof(void *), "callbacks");
_Static_assert(offsetof(OrtCustomOp, InferOutputShapeFn) == 19 * sizeof(void *), "callbacks");
#else
typedef int convt_no_header;
#endif
