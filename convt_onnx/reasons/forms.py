"""CT3xx: forms that do not apply."""

from __future__ import annotations

from convt_onnx.reasons.base import Reason

REASONS = (
    Reason("CT301", "the stride is not 1", "`conv` is for stride 1; strided nodes have phases."),
    Reason("CT302", "the stride is 1", "There is one phase only: `conv` is the form."),
    Reason(
        "CT303",
        "the kernel overlaps itself",
        "`gemm` needs a kernel extent (K-1)*d+1 of at most the stride, on every axis.",
    ),
    Reason(
        "CT304",
        "the crop is a multiple of the stride",
        "`phases` already absorbs such a crop into its pads; a wider window gains nothing.",
    ),
    Reason("CT305", "too many parts", "The form would need more nodes than is reasonable."),
    Reason("CT306", "the opset is too old", "An operator that the form needs came later."),
    Reason(
        "CT307",
        "too large to repack",
        "The strides or the kernel are so large that the packed weight would not fit.",
    ),
    Reason(
        "CT308",
        "negative begin pads",
        "ConvTranspose takes no negative pads; convolutions express them with larger pads.",
    ),
    Reason("CT309", "the dilation is 1", "There is no dilation to write into the weight."),
    Reason(
        "CT310",
        "output_padding is not below the stride",
        "Runtimes refuse that although it may be below the dilation; convolutions do not care.",
    ),
    Reason(
        "CT311",
        "element type not supported by the target",
        "Neither the operator nor a Cast to float32 around it keeps the values there.",
    ),
    Reason(
        "CT312",
        "the target has no such operator",
        "The form still holds a ConvTranspose, which the target does not have.",
    ),
    Reason(
        "CT313",
        "made for ONNX Runtime's CPU kernels",
        "The form moves elements to reach a fast path of those kernels; elsewhere that costs time.",
    ),
    Reason(
        "CT314",
        "the weight is quantised, or known at run time only",
        "Integer kernels do not take the form's layout, and a weight that is repacked at run time "
        "is not laid out in blocks.",
    ),
    Reason(
        "CT315",
        "no channels to fill up",
        "ONNX Runtime computes convolutions in blocks of channels over one or two axes, with input "
        "channels in multiples of 4. Where `phases` already is one, or groups or three axes rule "
        "it out, zero channels would only cost time.",
    ),
    Reason(
        "CT316",
        "not depthwise over one axis in blocks of channels",
        "The form computes phases as the rows of an image of one row, which ONNX Runtime does fast "
        "in float32, with one input and one output channel a group and channels in multiples of "
        "16. There has to be one axis, with a stride of at most 32.",
    ),
    Reason(
        "CT317",
        "too few groups to join",
        "The form brings the groups' phases together for one matrix transposition. Below 16 groups "
        "that costs more than as many of them, and with a stride of 1 along the last axis there "
        "is none.",
    ),
    Reason(
        "CT318",
        "not where Col2Im is at home",
        "ONNX Runtime's CPU provider has Col2Im in float32 alone, and over three axes it takes "
        "longer than other ways to put blocks in their places.",
    ),
    Reason(
        "CT319",
        "ONNX Runtime would not load it",
        "From opset 21 on ONNX Runtime 1.32 repeats an int8 DequantizeLinear behind the Transpose "
        "that the form puts there, and makes its zero point uint8 where the processor does not "
        "multiply int8, but not its output_dtype: the model does not load.",
    ),
    Reason(
        "CT320",
        "no taps to add up along the first of two axes",
        "The form pays where taps of the first axis overlap. In groups ONNX Runtime computes the "
        "convolution that makes them slower than the node itself.",
    ),
    Reason(
        "CT321",
        "no slices of known sizes",
        "The form turns three axes into two for every slice along the first, which becomes part of "
        "the batch; the sizes of all three have to be known.",
    ),
    Reason(
        "CT322",
        "no rows of a first axis to make channels of",
        "The form computes float32 nodes over three axes as nodes over two, with the rows of the "
        "first axis as channels. The sizes of all three have to be known.",
    ),
    Reason(
        "CT323",
        "not depthwise over two axes of known sizes",
        "The form multiplies each channel of a float32 input by one matrix from either side, which "
        "takes one input and one output channel a group, and sizes that are known.",
    ),
    Reason(
        "CT324",
        "the kernel is not a column times a row",
        "Kernels that interpolate along one axis after the other (bilinear) are such products, up "
        "to what float32 rounds; kernels that were trained are not.",
    ),
    Reason(
        "CT325",
        "no three taps along the first of two axes to share",
        "The form takes rows in pairs. It needs float32, two axes of known sizes, strides of 1, a "
        "kernel of three undilated rows, one group of at least 16 channels in multiples of 4 on "
        "either side, and a crop that the convolution's padding takes up.",
    ),
    Reason(
        "CT326",
        "sums of taps are not finite",
        "The form adds up the rows of the kernel, which are beyond float32 here.",
    ),
)
