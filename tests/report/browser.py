"""Chromium, headless, driven over a pair of pipes by the DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
# Without a sandbox, since CI runs as root; the pages are our own.
FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-dev-shm-usage --hide-scrollbars "
    "--no-first-run --disable-extensions --disable-background-networking --remote-debugging-pipe"
).split()

# The browser reads commands from its descriptor 3 and answers on 4.
ON_3_AND_4 = """
import fcntl, os, sys
pipes = [fcntl.fcntl(int(text), fcntl.F_DUPFD, 10) for text in sys.argv[1:3]]
for pipe, wanted in zip(pipes, (3, 4)):
    os.dup2(pipe, wanted)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One page at a time; `events` collects what the page reported since it was opened."""

    def __init__(self, executable: str, profile: Path) -> None:
        command_out, self._commands = os.pipe()
        self._answers, answer_in = os.pipe()
        command = [executable, *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_3_AND_4, str(command_out), str(answer_in), *command],
            pass_fds=(command_out, answer_in),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(command_out)
        os.close(answer_in)
        self._numbers = itertools.count(1)
        self._buffer = b""
        self._session = None
        self.events: list[dict] = []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        attached = self._send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility", "DOM"):
            self._send(f"{domain}.enable")

    def close(self) -> None:
        self._session = None
        self._send("Browser.close")
        self._process.wait(20)
        os.close(self._commands)
        os.close(self._answers)

    def open(
        self, path: Path, *, width: int = 1100, dark: bool = False, media: str = "screen"
    ) -> None:
        """Load a page and wait until it is there."""
        self.events.clear()
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._send("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self._send("Emulation.setFocusEmulationEnabled", enabled=True)
        self._send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self._send("Page.navigate", url=path.as_uri())
        while not any(e["method"] == "Page.loadEventFired" for e in self.events):
            self._read()

    def evaluate(self, expression: str):
        found = self._send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Tab or Enter."""
        number, text = {"Tab": (9, ""), "Enter": (13, "\r")}[key]
        described = {"key": key, "code": key, "windowsVirtualKeyCode": number}
        self._send("Input.dispatchKeyEvent", type="keyDown", text=text, **described)
        self._send("Input.dispatchKeyEvent", type="keyUp", **described)

    def accessible(self) -> list[tuple[str, str]]:
        """Role and name of what a screen reader is told of."""
        nodes = self._send("Accessibility.getFullAXTree")["nodes"]
        return [
            (n["role"]["value"], n.get("name", {}).get("value", ""))
            for n in nodes
            if not n["ignored"]
        ]

    def screenshot(self, path: Path) -> None:
        size = self._send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self._send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def problems(self) -> list[dict]:
        """Console messages, exceptions and log entries."""
        bad = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [e for e in self.events if e["method"] in bad]

    def requested(self) -> list[str]:
        """Every address that the page asked for."""
        sent = [e for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [e["params"]["request"]["url"] for e in sent]

    def _send(self, method: str, **parameters):
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer)
                return answer["result"]

    def _read(self) -> dict:
        while b"\0" not in self._buffer:
            data = os.read(self._answers, 1 << 20)
            assert data, "the browser went away"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message
