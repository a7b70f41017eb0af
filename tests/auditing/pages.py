"""The review page in a real browser: made from any table, opened from a file, driven by the keyboard."""

import io
import os
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from antidote_learn.auditing.audit_result import Audit, build_audit
from antidote_learn.auditing.cuts import Cut
from antidote_learn.auditing.issue_table import AuditRows
from antidote_learn.auditing.neighbours import NEAREST
from antidote_learn.auditing.scores import score
from antidote_learn.core.beliefs import Beliefs

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (CHROMIUM and DRIVER), reason="no browser: install Debian's chromium and chromium-driver"
)


def made(
    count: int, classes: tuple[str, ...], *, wrong: float, inputs: Any = None, name: str = "made", **known: Any
) -> Audit:
    """An audit of ``count`` rows, of which so many are wrong and are found."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, len(classes), count)
    shift = np.where(rng.random(count) < wrong, rng.integers(1, len(classes), count), 0)
    labels = (true + shift) % len(classes)
    probs = rng.uniform(0.01, 0.05, (count, len(classes)))
    probs[np.arange(count), true] = rng.uniform(0.8, 3.0, count)
    beliefs = Beliefs.blank(count, len(classes))
    beliefs.put(slice(0, count), probs / probs.sum(axis=1, keepdims=True), labels)
    around: NDArray[np.int64] = rng.integers(0, count, (count, NEAREST))
    scores = score(labels, len(classes), said=[beliefs])
    rows = AuditRows(labels, classes, np.arange(count), around, None, {})
    about = {"data": name, "data_hash": f"{name}{count}", "features": "numbers", "out": None, **known}
    contradicted = np.bincount(labels[shift > 0], minlength=len(classes))
    source = inputs if isinstance(inputs, pd.DataFrame) else None
    return build_audit(rows, scores, wrong, contradicted, Cut(), about=about, inputs=inputs, source=source)


class Page:
    """A page in a browser without a window.

    Args:
        path: Of the HTML file.
        folder: For the profile, and for what is downloaded.
    """

    def __init__(self, path: Path, folder: Path) -> None:
        from selenium.webdriver import Chrome
        from selenium.webdriver.chrome.options import Options
        from selenium.webdriver.chrome.service import Service

        options = Options()
        options.binary_location = str(CHROMIUM)
        for word in ("--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"):
            options.add_argument(word)
        if os.geteuid() == 0:
            options.add_argument("--no-sandbox")
        self.downloads = folder / "downloads"
        self.downloads.mkdir(parents=True)
        allowed = {"profile.default_content_setting_values.automatic_downloads": 1}  # several, without being asked
        options.add_experimental_option("prefs", {"download.default_directory": str(self.downloads), **allowed})
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = Chrome(options=options, service=Service(DRIVER))
        self.browser.set_script_timeout(120)
        self.browser.get(path.resolve().as_uri())

    def close(self) -> None:
        self.browser.quit()

    def keys(self, *keys: str, control: bool = False, shift: bool = False) -> None:
        """Pressed one after the other, by whatever has the focus."""
        from selenium.webdriver import ActionChains, Keys

        chain = ActionChains(self.browser)
        held = [Keys.CONTROL] * control + [Keys.SHIFT] * shift
        for key in held:
            chain.key_down(key)
        chain.send_keys(*keys)
        for key in held:
            chain.key_up(key)
        chain.perform()

    def click(self, id: str) -> None:
        self.browser.find_element("id", id).click()

    def text(self, id: str) -> str:
        return self.run(f"return document.getElementById('{id}').textContent")

    def run(self, script: str) -> Any:
        return self.browser.execute_script(script)

    def resize(self, width: int, height: int, *, phone: bool = False) -> None:
        """Shows the page, loaded anew, on another screen."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        self.reload()

    def reload(self) -> None:
        """Loads the page anew; on a busy machine the driver may come back before the new document is whole."""
        self.run("window.isOld = true")
        self.browser.refresh()
        deadline = time.monotonic() + 60
        while self.run("return Boolean(window.isOld) || document.readyState !== 'complete'"):
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def complaints(self) -> list[str]:
        """What the browser says against the page: errors, and scripts that its policy stopped."""
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def exported(self) -> pd.DataFrame:
        """The decisions as a file that the browser saved."""
        return pd.read_csv(io.StringIO(self.exported_file().read_text()), dtype=str, keep_default_na=False)

    def exported_file(self) -> Path:
        for path in self.downloads.iterdir():
            path.unlink()
        self.click("export")
        deadline, path = time.monotonic() + 30, self.downloads / "decisions.csv"
        while not (path.exists() and path.stat().st_size):  # a busy browser makes the file before it fills it
            assert time.monotonic() < deadline
            time.sleep(0.05)
        return path
