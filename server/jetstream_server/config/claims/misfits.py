"""What is told of a claim of another type than Go's library has for it, in its words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_KINDS = {
    bool: "bool",
    int: "number",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}
_SCALARS = {"bool": "bool", "int": "int64", "string": "string", "greater": "int64", "less": "int64"}
# What Go calls the types of members that are not those of their JSON.
_TYPES = {
    "account_token_position": "uint",
    "allow": "jwt.StringList",
    "allowed_accounts": "jwt.StringList",
    "allowed_connection_types": "jwt.StringList",
    "auth_users": "jwt.StringList",
    "authorization": "jwt.ExternalAuthorization",
    "cluster_traffic": "jwt.ClusterTraffic",
    "default_permissions": "jwt.Permissions",
    "deny": "jwt.StringList",
    "dest": "jwt.Subject",
    "exports": "jwt.Exports",
    "imports": "jwt.Imports",
    "limits": "jwt.OperatorLimits",
    "local_subject": "jwt.RenamingSubject",
    "mappings": "jwt.Mapping",
    "max": "int",
    "pub": "jwt.Permission",
    "resp": "jwt.ResponsePermission",
    "response_threshold": "time.Duration",
    "response_type": "jwt.ResponseType",
    "results": "jwt.Subject",
    "revocations": "jwt.RevocationList",
    "sampling": "int",
    "service_latency": "jwt.ServiceLatency",
    "subject": "jwt.Subject",
    "tags": "jwt.TagList",
    "template": "jwt.UserPermissionLimits",
    "tiered_limits": "jwt.JetStreamTieredLimits",
    "times": "[]jwt.TimeRange",
    "to": "jwt.Subject",
    "trace": "jwt.MsgTrace",
    "ttl": "time.Duration",
    "weight": "uint8",
}
# And of what these hold.
_ELEMENTS = {
    "exports": "jwt.Export",
    "imports": "jwt.Import",
    "mappings": "[]jwt.WeightedMapping",
    "tiered_limits": "jwt.JetStreamLimits",
    "times": "jwt.TimeRange",
}
# What is read by itself, so that nothing is known of its place.
_ALONE = {"type": "string", "kind": "string", "src": "string", "sampling": "int"}
_WHOLE_NUMBERS = ("int64", "int", "uint", "uint8", "time.Duration")


def misfit(error: Mapping[str, Any], root: str) -> str:
    """Return what is wrong with the claim of which a validation error tells.

    Args:
        error: one of the library's details: type, place, input and context.
        root: what the whole JWT is called.
    """
    if error["type"] == "value_error":
        return str(error["ctx"]["error"])
    path: Sequence[int | str] = error["loc"]
    if "sampling" in path:  # behind it stands which of two types it might have
        path = path[: path.index("sampling") + 1]
    given = error["input"]
    kind, wanted = kind_of(given), _type(path, error["type"])
    if kind == "number" and wanted in _WHOLE_NUMBERS:
        kind += f" {given}"
    if path[-1] in _ALONE and "trace" not in path:
        return f"json: cannot unmarshal {kind} into Go value of type {wanted}"
    # By its place: what is revoked, or a subject that is mapped, may have any name.
    part = path[1] if len(path) > 1 else ""
    if part == "signing_keys":  # each is read on its own
        root, path = "", path[3:] or path
    if part == "tags":
        root = "identifier"
    place = ".".join([root, *map(str, path)])
    field = "" if isinstance(path[-1], int) else "Go struct field "
    return f"json: cannot unmarshal {kind} into {field}{place} of type {wanted}"


def kind_of(given: Any) -> str:
    """Return what Go calls the type of something in JSON."""
    return _KINDS.get(type(given), "null")


def _type(path: Sequence[int | str], reason: str) -> str:
    """Return what Go calls the type of the value at a place."""
    name, inside = str(path[-1]), str(path[-2]) if len(path) > 1 else ""
    if inside in _ELEMENTS:
        return _ELEMENTS[inside]
    if isinstance(path[-1], int) and len(path) > 2 and path[-3] == "mappings":
        return "jwt.WeightedMapping"
    scalar = _SCALARS.get(reason.split("_")[0], "jwt.Claims")
    if name in _ALONE:
        return _ALONE[name]
    if inside in ("limits", "revocations") and name != "tiered_limits":
        return scalar
    if isinstance(path[-1], int) or len(path) == 1:
        return scalar
    if name == "sub":
        return "jwt.Permission"
    return _TYPES.get(name, scalar)
