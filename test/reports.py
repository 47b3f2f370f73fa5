# SPDX-License-Identifier: Apache-2.0
"""What a report holds in its packed part: the arm and the figures."""

import base64
import json
import re
import zlib
from typing import Any


def data_of(html: str) -> dict[str, Any]:
    """Return the data of a page: 'arm' and 'figures'."""
    packed = re.search(r'id="data">(.*?)</script>', html, re.DOTALL)
    assert packed is not None
    return json.loads(zlib.decompress(base64.b64decode(packed.group(1))))
