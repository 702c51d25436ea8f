"""The picture of a report in README: ``python -m tests.results.report.picture REPORT.html docs/demo.png``.

Chromium and chromedriver must be on PATH.
"""

import base64
import sys
from pathlib import Path
from typing import Final

from tests.browsers import browsing

WIDTH: Final = 1000
# Smaller than 200 KB, and as wide as GitHub shows it.
SCALE: Final = 0.75
# Where the picture ends: with the table of all metrics.
LAST: Final = "#models"


def take(report: Path, picture: Path) -> None:
    """Write a PNG of the head of a report, down to the table of all metrics."""
    with browsing() as driver:
        size = {"width": WIDTH, "height": 900, "deviceScaleFactor": SCALE, "mobile": False}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        driver.get(report.resolve().as_uri())
        script = f"return document.querySelector('{LAST}').getBoundingClientRect().bottom"
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": driver.execute_script(script), "scale": 1}
        shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
        picture.write_bytes(base64.b64decode(shot["data"]))


if __name__ == "__main__":
    take(Path(sys.argv[1]), Path(sys.argv[2]))
