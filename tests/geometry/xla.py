"""Runs the text of a StableHLO module on XLA's CPU client."""

from __future__ import annotations

import numpy as np

TRIVIAL = """module @probe {
  func.func public @main(%x: tensor<2xf64>) -> tensor<2xf64> {
    %y = stablehlo.add %x, %x : tensor<2xf64>
    return %y : tensor<2xf64>
  }
}
"""


class Xla:
    """The client's API is not public and moves; what cannot be found raises here."""

    def __init__(self):
        import jax
        from jax._src.lib import xla_client
        from jax.extend.backend import get_backend

        self._jax = jax
        self._client = get_backend("cpu")
        self._devices = self._client.local_devices()[:1]
        self._options = xla_client.CompileOptions()
        # Compile time is nearly all of the test; the programs are tiny.
        debug = self._options.executable_build_options.debug_options
        debug.xla_backend_optimization_level = 0
        self(TRIVIAL, np.ones(2))

    def __call__(self, text, *operands):
        """First result of `main`."""
        if hasattr(self._client, "compile_and_load"):
            program = self._client.compile_and_load(text, self._devices, self._options)
        else:
            program = self._client.compile(text, self._options)
        with self._double():
            buffers = [self._jax.device_put(a, self._devices[0]) for a in operands]
        return np.asarray(program.execute(buffers)[0])

    def _double(self):
        """Without it jax cuts float64 operands down to float32."""
        if callable(getattr(self._jax, "enable_x64", None)):
            return self._jax.enable_x64(True)
        from jax.experimental import enable_x64

        return enable_x64()
