"""Exit with 0 if at least one and at most ten tests failed in the last run of pytest."""

import json
import sys
from pathlib import Path

MOST = 10

failed = Path(__file__).parents[1] / ".pytest_cache/v/cache/lastfailed"
n_failed = len(json.loads(failed.read_text())) if failed.exists() else 0
sys.exit(0 if 0 < n_failed <= MOST else 1)
