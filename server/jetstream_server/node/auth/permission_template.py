"""What a signing key's scope grants to one user: its template with the user's names put in.

Subjects of a template may hold `{{name()}}`, `{{subject()}}`, `{{account-name()}}`,
`{{account-subject()}}`, `{{tag(x)}}` and `{{account-tag(x)}}`. A tag with several values makes one
subject for each, and others wait meanwhile: a user for whom there would be too many is refused. An
allowed subject that comes out malformed allows nothing; a denied one refuses the user, who would
have more rights than was meant. So does a place for anything else.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from math import prod

from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.user_claims import PermissionClaims, SubjectClaims, UserClaims
from jetstream_server.config.values import is_subject

# What a list of a template may come to: four such lists take a fortieth of a second.
SUBJECTS_MAX = 5_000

_PLACE = re.compile(r"(\{\{[^{}]+\}\})")


class TemplateError(ValueError):
    """A template denies something that is not a subject, makes too many of them, or has a place for
    something unknown."""


def granted(
    template: PermissionClaims, user: UserClaims, account: AccountClaims
) -> PermissionClaims:
    """Return what a template grants to a user of an account.

    Raises:
        TemplateError: it cannot be told what is denied or meant, or there are too many subjects.
    """

    def filled(claims: SubjectClaims) -> SubjectClaims:
        allow = _filled(claims.allow, user, account)
        deny = _filled(claims.deny, user, account)
        if not all(map(_is_entry, deny)):
            raise TemplateError(f"a denied subject is malformed: {', '.join(deny)}")
        kept = tuple(filter(_is_entry, allow))
        # A list from which everything fell out must not allow everything.
        return SubjectClaims(allow=kept, deny=(*deny, ">") if allow and not kept else deny)

    publish = filled(template.pub)
    # Nobody publishes to a queue: what is denied to one would deny nothing.
    denied = tuple(each.partition(" ")[0] for each in publish.deny)
    publish = publish.model_copy(update={"deny": denied})
    return PermissionClaims(pub=publish, sub=filled(template.sub), resp=template.resp)


def _filled(subjects: Sequence[str], user: UserClaims, account: AccountClaims) -> tuple[str, ...]:
    made: list[str] = []
    for subject in subjects:
        parts = _PLACE.split(subject)
        # Every second part is a place.
        choices = [
            _values(part[2:-2], user, account) if at % 2 else (part,)
            for at, part in enumerate(parts)
        ]
        if len(made) + prod(map(len, choices)) > SUBJECTS_MAX:
            raise TemplateError("a template makes too many subjects")
        made += map("".join, product(*choices)) if all(choices) else [""]
    return tuple(made)


def _values(place: str, user: UserClaims, account: AccountClaims) -> tuple[str, ...]:
    word = place.strip().lower()
    names = {
        "name()": user.name,
        "subject()": user.subject,
        "account-name()": account.name,
        "account-subject()": account.subject,
    }
    if word in names:
        return (names[word],)
    for start, tags in (("tag(", user.nats.tags), ("account-tag(", account.nats.tags)):
        if word.startswith(start) and word.endswith(")"):
            key = word.removeprefix(start)[:-1] + ":"
            return tuple([tag[len(key) :] for tag in tags if tag.lower().startswith(key)])
    raise TemplateError("a template asks for something unknown")


def _is_entry(text: str) -> bool:
    """Tell whether this is a subject, perhaps with a queue."""
    words = text.split(" ")
    return len(words) <= 2 and all(map(is_subject, words))
