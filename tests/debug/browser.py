"""Debian's chromium, driven through chromedriver: pages as people see them, at any width, in light and in dark."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MISSING = "" if shutil.which("chromium") and shutil.which("chromedriver") else \
    "there is no browser: Debian's chromium and chromium-driver are needed"

_LISTENER = """
window.errorsOfPage = [];
addEventListener("error", (event) => errorsOfPage.push(event.message));
addEventListener("unhandledrejection", (event) => errorsOfPage.push(String(event.reason)));
const said = console.error;
console.error = (...what) => { errorsOfPage.push(what.join(" ")); said(...what); };
"""


class Browser:
    """A session of a browser."""

    def __init__(self, address: str) -> None:
        self._address = address
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"],
                   "binary": shutil.which("chromium")}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        self._address += "/session/" + self._send("POST", "/session", capabilities=capabilities)["sessionId"]
        self._command("Page.addScriptToEvaluateOnNewDocument", source=_LISTENER)

    def _send(self, method: str, path: str, **body: Any) -> Any:
        request = urllib.request.Request(self._address + path, json.dumps(body).encode() if method == "POST" else None,
                                         {"Content-Type": "application/json"}, method=method)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def _command(self, name: str, **parameters: Any) -> Any:
        return self._send("POST", "/goog/cdp/execute", cmd=name, params=parameters)

    def window(self, width: int, height: int = 900, scheme: str = "light") -> None:
        """Set the size of the window, and whether people prefer "light" or "dark"."""
        self._command("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=False)
        self._command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Load a page, and wait for it."""
        self._send("POST", "/url", url=address)

    def run(self, script: str, *args: Any) -> Any:
        """The result of the body of a JavaScript function; promises are waited for."""
        return self._send("POST", "/execute/sync", script=script, args=list(args))

    def wait(self, condition: str, seconds: float = 30.0) -> None:
        """Until a JavaScript expression is true."""
        end = time.monotonic() + seconds
        while not self.run(f"return Boolean({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(f"still not true after {seconds} s: {condition}")
            time.sleep(0.02)

    def errors(self) -> list[str]:
        """What went wrong in the page's scripts since it was opened."""
        return self.run("return errorsOfPage")

    def picture(self, path: Path) -> None:
        """Save what is visible as a PNG."""
        path.write_bytes(base64.b64decode(self._command("Page.captureScreenshot", format="png")["data"]))

    def close(self) -> None:
        """End the session."""
        self._send("DELETE", "")


@contextlib.contextmanager
def browser() -> Iterator[Browser]:
    """A browser of its own, with nothing kept from others."""
    with tempfile.TemporaryFile("w+") as said:
        driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=said, stderr=subprocess.STDOUT, text=True)
        try:
            one = Browser(_address(driver, said))
            try:
                yield one
            finally:
                one.close()
        finally:
            driver.terminate()
            driver.wait()


def _address(driver: subprocess.Popen[str], said: Any) -> str:
    end = time.monotonic() + 30
    while time.monotonic() < end and driver.poll() is None:
        said.seek(0)
        found = re.search(r"started successfully on port (\d+)", said.read())
        if found:
            return f"http://127.0.0.1:{found[1]}"
        time.sleep(0.02)
    said.seek(0)
    raise RuntimeError(f"chromedriver did not start: {said.read()}")
