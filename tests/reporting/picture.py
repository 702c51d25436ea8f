"""The picture of a report in README: ``python tests/reporting/picture.py REPORT.html docs/demo.png``.

Chromium and chromedriver must be on PATH.
"""

import base64
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Final

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

WIDTH: Final = 1000
# Where the picture ends: with the first curves.
LAST: Final = "#cutoffs figure"


def take(report: Path, picture: Path) -> None:
    """Write a PNG of the head of a report, down to the first curves."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"):
            options.add_argument(flag)
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver") or ""))
        size = {"width": WIDTH, "height": 900, "deviceScaleFactor": 0.8, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(report.resolve().as_uri())
        script = f"return document.querySelector('{LAST}').getBoundingClientRect().bottom"
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": driver.execute_script(script), "scale": 1}
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        picture.write_bytes(base64.b64decode(shot["data"]))
        driver.quit()


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
