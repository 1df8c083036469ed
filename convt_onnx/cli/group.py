"""A click group that imports a command's module when the command is asked for."""

from __future__ import annotations

from importlib import import_module

import click

from convt_onnx.errors import UsageError
from convt_onnx.suggest import did_you_mean

# Name, module, and the line that --help shows without importing it.
COMMANDS: dict[str, tuple[str, str]] = {
    "optimize": ("optimize_command", "Rewrite a model for a target, verify and write it."),
    "inspect": ("inspect_command", "Tell what each node is, costs, and becomes on each target."),
    "bench": ("bench_command", "Time models or targets against each other."),
    "verify": ("verify_command", "Compare two models in ONNX Runtime."),
    "compare": ("compare_command", "Tell what is different between two models, node by node."),
    "build": ("build_command", "Build a TensorRT or TensorRT-RTX engine and check it."),
    "ort-library": ("ort_library_command", "Build the plugin for ONNX Runtime."),
    "run": ("run_command", "Run an engine on its device."),
    "explain": ("explain_command", "Tell more about a reason id."),
    "models": ("models_command", "List or export the decoders that come with the tool."),
    "doctor": ("doctor_command", "Tell what is installed and which parts work."),
}


class LazyGroup(click.Group):
    """Commands by name from COMMANDS."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names, in the order of COMMANDS."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"convt_onnx.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; an unknown name gets the nearest known one."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            hint = did_you_mean(args[0], COMMANDS)
            raise UsageError(f"no command {args[0]!r}", help=hint)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """As click does, which would print an empty line after an interrupt."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            raise click.Abort from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list for --help, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])
