"""The JSON Schema of matrix.yaml, for editors: kept at docs/matrix.schema.json."""

from __future__ import annotations

import json

from trainyard.matrix.model import Matrix

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_text() -> str:
    """The schema as text, the same for the same model: docs/matrix.schema.json must hold exactly this."""
    schema = {"$schema": DIALECT, **Matrix.model_json_schema()}
    schema["title"] = "matrix.yaml of trainyard"
    return json.dumps(schema, indent=2, sort_keys=True) + "\n"
