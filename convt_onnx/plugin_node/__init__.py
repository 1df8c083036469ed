"""The node that the kernels run as, in ONNX: its attributes, its name, its function body.

`record` is the one description of such a node, read from and written to attributes; `body` says in
standard operators what it computes, so that any runtime runs the file; `weights` packs and unpacks
by nodes. The form `plugin` writes such nodes, the pass `restore-plugins` takes them back.
"""

from __future__ import annotations

from convt_onnx.plugin_node.record import DOMAIN, FIXED_NAME, HASHED, OVERLOAD, PluginRecord

__all__ = ["DOMAIN", "FIXED_NAME", "HASHED", "OVERLOAD", "PluginRecord"]
