"""The built site in a real browser: no code is wider than its box, nor a page than the screen, at 1280 and 390 pixels.

`python tests/site_layout.py .cache/docs/html .cache/docs/pictures` looks with Chromium or Chrome, and says so where
none is there; with the second folder it also leaves a picture of some pages there.
"""

import html
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
WIDTHS = (1280, 390)
PICTURED = ("index", "tour", "transformers", "coming-from/pytorch", "reference/names", "performance")

# A frame as wide as a screen for each page, one after the other, and what sticks out of it.
LOOK = """<!doctype html><meta charset="utf-8"><body><script>
const pages = %s, width = %d, found = {};
function next() {
  const page = pages.shift();
  if (!page) { document.body.textContent = JSON.stringify(found); return; }
  const frame = document.createElement("iframe");
  frame.width = width; frame.height = 900; frame.src = page;
  frame.onload = () => {
    const inside = frame.contentDocument, root = inside.documentElement;
    const wide = [...inside.querySelectorAll("pre")].filter((pre) => pre.scrollWidth > pre.clientWidth + 1);
    found[page] = wide.map((pre) => pre.textContent.trim().split("\\n")[0]);
    if (root.scrollWidth > width) found[page].push("the page itself, " + root.scrollWidth + " pixels");
    frame.remove(); next();
  };
  document.body.append(frame);
}
next();
</script>"""


def main(site: Path, pictures: Path | None) -> str | None:
    """What is too wide; None where nothing is, or nothing can look."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"nobody looked at the site: none of {', '.join(BROWSERS)} is here")
        return None
    pages = sorted(path.as_uri() for path in site.resolve().rglob("*.html"))
    wrong = []
    with tempfile.TemporaryDirectory() as folder:
        command = [
            browser,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--user-data-dir={folder}",
        ]
        for width in WIDTHS:
            look = Path(folder) / "look.html"
            look.write_text(LOOK % (json.dumps(pages), width), encoding="utf-8")
            done = subprocess.run(
                [
                    *command,
                    "--allow-file-access-from-files",
                    "--virtual-time-budget=600000",
                    "--dump-dom",
                    look.as_uri(),
                ],
                capture_output=True,
                text=True,
                timeout=300,
                check=True,
            )
            found = json.loads(
                html.unescape(done.stdout[done.stdout.index("<body>") + 6 : done.stdout.index("</body>")])
            )
            assert sorted(found) == pages
            wrong += [f"{page} at {width}: {what}" for page, whats in found.items() for what in whats]
            for name in PICTURED if pictures else ():
                to = pictures / f"{name.replace('/', '-')}-{width}.png"
                to.parent.mkdir(parents=True, exist_ok=True)
                size = f"--window-size={max(width, 500)},2000"  # no browser has a narrower window
                page = (site.resolve() / f"{name}.html").as_uri()
                subprocess.run(
                    [*command, size, f"--screenshot={to}", page], capture_output=True, timeout=60, check=True
                )
    return "\n".join(wrong) or None


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None))
