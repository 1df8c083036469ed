"""What a layer knows, whichever runtime it is in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from convt_onnx.errors import GeometryError, UsageError
from convt_onnx.plugin_node import PluginRecord
from convt_onnx.plugin_node.record import read_record
from convt_onnx.plugins.conv_transpose import ahead
from convt_onnx.plugins.conv_transpose.compile import compile_ptx, sizes_of
from convt_onnx.plugins.conv_transpose.kernel_spec import KernelSpec
from convt_onnx.plugins.conv_transpose.problem import DTYPE_BYTES
from convt_onnx.plugins.conv_transpose.schedule import Schedule
from convt_onnx.plugins.conv_transpose.schedule_text import format_schedule, parse_schedule
from convt_onnx.plugins.tensorrt.driver import INT32_END, Launch, prepare

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class State:
    """A record with what a build has fixed.

    Attributes:
        record: Geometry, type, epilogue and packing.
        tf32: Whether float32 products may be rounded to TF32.
        sizes: [N, *spatial sizes of x], None where the profile leaves them open.
        channels_last_in, channels_last_out: The formats chosen.
        schedule: That of the tactic chosen; None before one is.
        any_dtype: Whether the record's type is a placeholder until the inputs' are known.
    """

    record: PluginRecord
    tf32: bool = False
    sizes: tuple[int | None, ...] | None = None
    channels_last_in: bool = False
    channels_last_out: bool = False
    schedule: Schedule | None = None
    any_dtype: bool = False

    def kernel(self, *, wide: bool = False) -> KernelSpec:
        """What to compile."""
        return self.record.kernel(
            self.sizes,
            channels_last_in=self.channels_last_in,
            channels_last_out=self.channels_last_out,
            tf32=self.tf32,
            wide=wide,
        )

    def configured(self, low: Shape, high: Shape, *, last_in: bool, last_out: bool) -> State:
        """For a profile from `low` to `high`, both shapes of x, and formats.

        Raises:
            UsageError: The plugin cannot run all of the range.
        """
        self._check_range(low, high)
        # A build without a profile says -1, or 0 for a minimum.
        fixed = tuple(a if a == b and a > 0 else None for a, b in zip(low, high, strict=True))
        return replace(
            self,
            sizes=(fixed[0], *fixed[2:]),
            channels_last_in=last_in,
            channels_last_out=last_out,
        )

    def schedules(self, capability: int) -> list[Schedule]:
        """Tactic i is the i-th, counted from 1."""
        return ahead.schedules(self.kernel(), self.record.schedule, capability)

    def with_tactic(self, tactic: int, capability: int) -> State:
        """With the schedule of a tactic; 0 is the first.

        Raises:
            UsageError: There is no such tactic.
        """
        found = self.schedules(capability)
        if not 0 <= tactic <= len(found):
            raise UsageError(
                "the plugin has no such tactic",
                where=f"tactic {tactic}",
                help=f"choose one of 0 to {len(found)}",
            )
        return replace(self, schedule=found[max(tactic, 1) - 1])

    def prepared(self, x: Shape, capability: int) -> Launch:
        """The launch for x of that shape, compiled for the device, loaded.

        Raises:
            UsageError, DriverError, MissingPartError: It cannot run here.
        """
        reach = self.kernel().reach((x[0], *x[2:]))
        kernel = self.kernel(wide=reach >= INT32_END)
        schedule = self.schedule or self.schedules(capability)[0]
        return prepare(compile_ptx(kernel, capability, schedule), sizes_of(x))

    def values(self) -> dict[str, Any]:
        """What `read_state` reads."""
        values: dict[str, Any] = self.record.attributes()
        values |= {"dtype": self.record.dtype, "tf32": int(self.tf32)}
        if self.sizes is not None:
            values["sizes"] = [-1 if n is None else n for n in self.sizes]
        values["channels_last"] = [int(self.channels_last_in), int(self.channels_last_out)]
        if self.schedule is not None:
            values["tile"] = format_schedule(self.schedule)
        return values

    def _check_range(self, low: Shape, high: Shape) -> None:
        if min(low) < 1 or min(high) < 1:
            return
        spec = self.record.spec
        for end in (low, high):
            try:
                spec.output_sizes(end[2:])
            except GeometryError as error:
                raise UsageError(
                    "the profile is outside the plugin's range",
                    where=f"x {list(end)}: {error.what}",
                    help="raise the minimum of the profile",
                ) from None
        reach = self.record.kernel().reach((high[0], *high[2:])) // max(1, high[0])
        if reach >= INT32_END:
            raise UsageError(
                "the profile is outside the plugin's range",
                where=f"x {list(high)}: {reach} elements an image, less than 2^31 are possible",
                help="lower the maximum of the profile",
            )


def read_state(values: dict[str, Any]) -> State:
    """The state of serialised values.

    Raises:
        UsageError: They make no sense.
    """
    sizes = values.get("sizes")
    last_in, last_out = values.get("channels_last", (0, 0))
    return State(
        read_record(values, str(values.get("dtype", ""))),
        bool(values.get("tf32", 0)),
        None if sizes is None else tuple(None if n < 0 else n for n in sizes),
        bool(last_in),
        bool(last_out),
        parse_schedule(str(values["tile"])) if "tile" in values else None,
    )


def record_of_node(name: str, values: dict[str, Any]) -> PluginRecord:
    """The record of a node of the operator type `name`, which tells the element type.

    Raises:
        UsageError: The attributes are not those of the name.
    """
    for dtype in DTYPE_BYTES:
        record = read_record(values, dtype)
        if name in (record.identity("hashed")[0], record.identity("overload")[0]):
            return record
    raise UsageError(
        "the attributes do not fit the operator's name",
        where=name,
        help="write the node anew: convt-onnx optimize MODEL --target tensorrt --plugin",
    )
