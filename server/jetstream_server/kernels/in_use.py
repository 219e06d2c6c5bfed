"""All kernels, and which twin each of them uses."""

from __future__ import annotations

from jetstream_server.kernels import (
    acks,
    columns,
    deliveries,
    direct_gets,
    filters,
    frames,
    message_ids,
    numbered,
    parts,
    records,
    seen_ids,
    single_gets,
    subjects,
    synced_writes,
    trie,
)

KERNELS = (
    frames,
    subjects,
    trie,
    filters,
    message_ids,
    numbered,
    parts,
    seen_ids,
    records,
    columns,
    deliveries,
    direct_gets,
    single_gets,
    acks,
    synced_writes,
)


def pure() -> list[str]:
    """Return the names of the kernels that are not the compiled twin."""
    return [_name(kernel.__name__) for kernel in KERNELS if kernel.TWIN == "pure"]


def kinds() -> str:
    """Return `compiled` or `pure` when all are alike, else what each of them is."""
    twins = {_name(kernel.__name__): kernel.TWIN for kernel in KERNELS}
    found = sorted(set(twins.values()))
    return (
        found[0] if len(found) == 1 else ", ".join(f"{name} {twin}" for name, twin in twins.items())
    )


def _name(module: str) -> str:
    return module.rpartition(".")[2]
