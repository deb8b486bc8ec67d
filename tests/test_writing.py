from __future__ import annotations

import json
import math

from sfumato.writing import to_json


def test_json_has_null_where_a_number_is_none() -> None:
    value = {"loss": math.nan, "far": (1.5, -math.inf, {"deep": [math.inf, True, "α"]}), "whole": 3}
    written = to_json(value)
    assert written.endswith(b"\n") and "α".encode() in written
    assert json.loads(written) == {"loss": None, "far": [1.5, None, {"deep": [None, True, "α"]}], "whole": 3}
