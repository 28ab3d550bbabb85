"""Opens a run's report and a comparison of runs in Chromium, light, dark and on a phone, with and without scripts, and reads
the values under the pointer and under a finger. Skipped (77) if no Chromium is installed; the test installs nothing.
pages_in_browser_test.py HAWSER [FOLDER]   FOLDER: where to leave pictures of the pages"""
import json
import os
import subprocess
import sys
import tempfile

import chromium

NAMED = "<img src=x onerror=document.title=1>"  # a folder's name


def expect(what, value, wanted):
    if value != wanted:
        sys.exit(f"{what}: {value!r}, expected {wanted!r}")


def train(hawser, folder):
    words = ["the ", "rope ", "pulls ", "a ", "ship ", "along ", "the quay\n", "and back. "]
    with open(f"{folder}/text.txt", "w") as file:
        file.write("".join(words[i * i * 7 % 61 % 8] for i in range(4000)))
    config = {"model": {"context": 32, "layers": 1, "width": 32, "heads": 2, "mlp": "gelu_tanh"},
              "data": {"format": "text", "vocabulary": "bytes", "path": "text.txt"}, "batch": {"micro_batch": 2},
              "optimizer": {"learning_rate": 0.003}, "schedule": {"warmup_steps": 20},
              "train": {"steps": 300, "eval_every": 50, "eval_batches": 2}}
    with open(f"{folder}/config.json", "w") as file:
        json.dump(config, file)
    for name, rate in ((NAMED, "0.003"), ("two", "0.001")):
        subprocess.run([hawser, "train", "config.json", "--set", f"/optimizer/learning_rate={rate}", "--out", name],
                       cwd=folder, check=True, stdout=subprocess.DEVNULL)


def rows_of(run):
    with open(f"{run}/metrics.jsonl") as file:
        return [json.loads(line) for line in file]


def five_digits(value):
    return f"{float(f'{value:.5g}'):g}" if value < 1e4 else str(float(f"{value:.5g}"))


class Page:
    def __init__(self, browser, path, **view):
        self.browser = browser
        browser.open(path, **view)

    def tip(self, chart):
        """Returns the lines of the visible box of values in a chart."""
        return self.browser.evaluate(
            f"(t => t && t.offsetWidth ? t.innerText.split('\\n') : [])(document.querySelector({chart!r}).parentNode"
            ".querySelector('.tip'))")

    def place(self, chart, share):
        """Returns the point of the window at a share of the width of a chart's plot."""
        left, top, width, height = self.browser.box(chart)
        return left + width * (62 + 484 * share) / 560, top + height / 2

    def healthy(self):
        expect("errors of the page", self.browser.errors(), [])
        expect("requests of the page", [url for url in self.browser.addresses() if not url.startswith("file:")], [])
        wide = self.browser.evaluate("document.documentElement.scrollWidth - innerWidth")
        expect("columns beyond the window", max(0, wide), 0)


def check_report(browser, run, pictures):
    rows = rows_of(run)
    for dark in (False, True):
        page = Page(browser, f"{run}/report.html", dark=dark)
        expect("box before the pointer comes", page.tip("svg"), [])
        browser.point(*page.place("svg", 200 / 300))
        lines = page.tip("svg")
        expect("first line", lines[0], "step 200")
        expect("loss", lines[1], "training " + five_digits(rows[199]["loss"]))
        expect("validation", lines[3], "validation " + five_digits(rows[199]["validation_loss"]))
        page.healthy()
        page_colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
        expect("background", page_colour, "rgb(18, 22, 28)" if dark else "rgb(246, 247, 249)")
        browser.picture(f"{pictures}/report-{'dark' if dark else 'light'}.png")
        browser.point(1, 1)
        expect("box after the pointer has left", page.tip("svg"), [])
    page = Page(browser, f"{run}/report.html", width=390, height=844, phone=True)
    browser.touch(*page.place("svg", 100 / 300))
    expect("first line after a touch", page.tip("svg")[0], "step 100")
    page.healthy()
    browser.picture(f"{pictures}/report-phone.png")
    left, top, _, _ = browser.box("h1")
    browser.touch(left + 1, top + 1)
    expect("box after a touch elsewhere", page.tip("svg"), [])


def check_comparison(browser, file, runs, pictures):
    rows = [rows_of(run) for run in runs]
    page = Page(browser, file)
    expect("title", browser.evaluate("document.title"), "Comparison of 2 runs - Hawser")
    expect("elements made by a name", browser.evaluate("document.querySelectorAll('img').length"), 0)
    expect("name", browser.evaluate("[...document.querySelectorAll('.losses .key')].map(e => e.textContent).sort()[0]"), NAMED)
    chart = ".by-steps .card:nth-child(2) svg"
    browser.point(*page.place(chart, 250 / 300))
    expect("validation losses", sorted(page.tip(chart)),
           sorted(["step 250", NAMED + " " + five_digits(rows[0][249]["validation_loss"]),
                   "two " + five_digits(rows[1][249]["validation_loss"])]))
    page.healthy()
    browser.picture(f"{pictures}/comparison-light.png")
    for view in ({"scripts": True}, {"scripts": False}):
        page = Page(browser, file, dark=True, **view)
        for axis in ("tokens", "time", "steps"):
            browser.click(f"label[for=by-{axis}]")
            browser.call("Emulation.setScriptExecutionDisabled", value=False)  # only to look at the page
            expect(f"charts over {axis}", browser.evaluate(
                "[...document.querySelectorAll('.charts')].filter(e => e.offsetWidth).map(e => e.className)"),
                [f"charts by-{axis}"])
            curves = browser.evaluate(f"[...document.querySelectorAll('.by-{axis} svg g:not(.mark) path')]"
                                      ".filter(e => e.getTotalLength() > 50).length")
            expect(f"curves over {axis}", curves, 4)
    page = Page(browser, file, width=390, height=844, phone=True)
    chart = ".by-steps svg"
    browser.touch(*page.place(chart, 0.5))
    expect("lines after a touch", len(page.tip(chart)), 3)
    page.healthy()
    browser.picture(f"{pictures}/comparison-phone.png")


def main():
    hawser, program = os.path.abspath(sys.argv[1]), chromium.find()
    if program is None:
        print("skipped: none of these is installed: " + ", ".join(chromium.NAMES))
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="hawser-pages-") as folder:
        pictures = sys.argv[2] if len(sys.argv) > 2 else folder
        train(hawser, folder)
        subprocess.run([hawser, "compare", NAMED, "two", "-o", "both.html"], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL)
        browser = chromium.Chromium(program)
        try:
            check_report(browser, f"{folder}/{NAMED}", pictures)
            check_comparison(browser, f"{folder}/both.html", [f"{folder}/{NAMED}", f"{folder}/two"], pictures)
        finally:
            browser.close()


main()
