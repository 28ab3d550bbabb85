"""Chromium without a window, driven over its DevTools protocol through two pipes, with Python's standard library only.
A page has a size, light or dark colours, a pointer and fingers; its errors and requests are recorded."""
import base64
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


def find():
    """Returns the path of an installed Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Chromium:
    def __init__(self, program):
        self.profile = tempfile.TemporaryDirectory(prefix="hawser-chromium-")
        to_browser, self.requests = os.pipe()
        self.replies, from_browser = os.pipe()
        # The protocol uses the descriptors 3 and 4 of the browser.
        arrange = f"exec 3<&{to_browser} 4>&{from_browser}; exec \"$@\""
        self.process = subprocess.Popen(
            ["bash", "-c", arrange, "bash", program, "--headless=new", "--no-sandbox", "--disable-gpu",
             "--disable-background-networking", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.profile.name}", "about:blank"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.events = b"", 0, []
        target = self.browser_call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.browser_call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")

    def close(self):
        os.close(self.requests)  # the browser ends when its pipe ends
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.replies)
        self.profile.cleanup()

    def read(self):
        while b"\0" not in self.buffer:
            block = os.read(self.replies, 1 << 20)
            if not block:
                raise RuntimeError("Chromium ended")
            self.buffer += block
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def browser_call(self, method, session=None, **parameters):
        self.number += 1
        request = {"id": self.number, "method": method, "params": parameters}
        if session:
            request["sessionId"] = session
        os.write(self.requests, json.dumps(request).encode() + b"\0")
        while True:
            message = self.read()
            if message.get("id") == self.number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def call(self, method, **parameters):
        return self.browser_call(method, self.session, **parameters)

    def wait_for(self, event):
        while not any(message.get("method") == event for message in self.events):
            self.events.append(self.read())

    def open(self, path, width=1200, height=900, dark=False, scripts=True, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=2 if phone else 1,
                  mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.call("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.events.clear()
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def box(self, selector):
        """Returns left, top, width and height of an element, which is scrolled into view."""
        return self.evaluate(f"(e => {{ e.scrollIntoView({{block: 'center'}}); const b = e.getBoundingClientRect(); "
                             f"return [b.x, b.y, b.width, b.height]; }})(document.querySelector({json.dumps(selector)}))")

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def click(self, selector):
        left, top, width, height = self.box(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=left + width / 2, y=top + height / 2, button="left",
                      clickCount=1)

    def touch(self, x, y):
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def picture(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def errors(self):
        """Returns the page's exceptions and logged errors since it was opened."""
        self.evaluate("0")
        return [message for message in self.events
                if message.get("method") == "Runtime.exceptionThrown"
                or (message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error")]

    def addresses(self):
        """Returns the addresses that the page has requested since it was opened."""
        return [message["params"]["request"]["url"] for message in self.events
                if message.get("method") == "Network.requestWillBeSent"]
