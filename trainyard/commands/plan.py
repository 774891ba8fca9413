"""`invoke plan`: the resolved Plan as a document and as lines."""

from __future__ import annotations

from collections.abc import Iterator

from trainyard.plan import Plan
from trainyard.store import Store


def plan_document(plan: Plan, store: Store) -> dict[str, object]:
    """The Plan, JSON-able; `built` says whether the default compression's layer is in the store."""
    return {
        "target": plan.target,
        "platform": str(plan.platform),
        "key": plan.key,
        "tag": plan.tag,
        "config": plan.config.to_config(),
        "layers": [
            {
                "key": spec.key,
                "kind": spec.kind.value,
                "created_by": spec.title,
                "part": [spec.part, spec.parts],
                "input_size": spec.input_size,
                "inputs": [
                    *(f"{deb.name}={deb.version}" for deb in spec.debs),
                    *(wheel.requirement for wheel in spec.wheels),
                    *(f"/{file.path}" for file in spec.files),
                ],
                "built": store.layer(f"{spec.key}-zstd") is not None,
            }
            for spec in plan.layers
        ],
    }


def plan_lines(plan: Plan, store: Store) -> Iterator[str]:
    """The Plan for a person: one line a layer, then the config."""
    yield f"{plan.target} {plan.platform}  {plan.tag}  plan {plan.key[:12]}"
    for number, spec in enumerate(plan.layers, start=1):
        mark = "built" if store.layer(f"{spec.key}-zstd") else "-"
        yield f"{number:3}  {spec.key[:12]}  {mark:5}  {spec.input_size / 1e6:8.1f} MB in  {spec.title}"
    yield f"user {plan.config.user}, in {plan.config.working_dir}, entrypoint {' '.join(plan.config.entrypoint)}"
    yield from (f"env {name}={value}" for name, value in plan.config.env)
