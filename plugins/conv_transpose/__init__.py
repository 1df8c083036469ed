"""Transposed convolution as one Triton launch: see `op.conv_transpose`.

`geometry` says where taps read and write, `packing` lays the weight out, `heuristics` chooses
schedule and tiles, `router` says what is supported and what is worth it, `op` is the host
function with its torch reference, `_kernel*` are the device code, `compile` makes PTX without a
GPU. Importing this package imports neither torch nor triton.
"""
