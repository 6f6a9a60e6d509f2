"""Whether the search of the built site leads from the words of other libraries to the names here.

`python tests/site_search.py .cache/docs/html`
"""

import json
import sys
from pathlib import Path

from seqformats.aliases import ALIASES

if __name__ == "__main__":
    text = (Path(sys.argv[1]) / "searchindex.js").read_text(encoding="utf-8")
    entries = json.loads(text[text.index("(") + 1 : text.rindex(")")])["indexentries"]
    # An entry is the number of a page, an anchor, and whether it counts as much as a title.
    lost = [word for word in ALIASES if not any(main and anchor for _, anchor, main in entries.get(word.lower(), []))]
    sys.exit(f"the search of the site does not know: {', '.join(lost)}" if lost else None)
