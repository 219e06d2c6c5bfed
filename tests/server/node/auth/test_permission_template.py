import pytest
from jetstream_server.config.claims.account_claims import AccountClaims
from jetstream_server.config.claims.user_claims import PermissionClaims, SubjectClaims, UserClaims
from jetstream_server.node.auth.permission_template import TemplateError, granted


@pytest.fixture
def fill(credentials):
    account = AccountClaims.read(credentials.account("A", {}, tags=["zone:eu"]))
    user = UserClaims.read(credentials.user("alice", "A", tags=["Team:red", "team:blue", "x:1"]))

    def fill(allow=(), deny=()):
        template = PermissionClaims(pub=SubjectClaims(allow=allow, deny=deny))
        made = granted(template, user, account).pub
        return made.allow, made.deny

    return fill


def test_names_and_tags_are_put_in(fill, credentials):
    allow, _ = fill(("{{name()}}.>", "{{ account-name() }}.{{subject()}}", "plain"))
    assert allow == ("alice.>", f"A.{credentials.Key('user', 'alice').public}", "plain")
    assert fill(("{{account-subject()}}",))[0] == (credentials.account_key("A").public,)
    assert fill(("{{account-tag(zone)}}.x",))[0] == ("eu.x",)


def test_a_tag_with_several_values_makes_several_subjects(fill):
    assert fill(("a.{{tag(team)}}.b",))[0] == ("a.red.b", "a.blue.b")
    assert fill(("{{tag(team)}}.{{tag(x)}}",))[0] == ("red.1", "blue.1")


def test_tags_that_would_make_too_many_subjects_refuse_the_user(credentials):
    """Three places for one of a few hundred tags are millions of subjects, and seconds."""
    tags = [f"t:{number}" for number in range(300)]
    account = AccountClaims.read(credentials.account("A", {}))
    user = UserClaims.read(credentials.user("alice", "A", tags=tags))
    for allow, is_granted in (
        (["{{tag(t)}}"] * 15, True),
        (["{{tag(t)}}.a"] * 20, False),
        (["{{tag(t)}}.{{tag(t)}}.{{tag(t)}}"], False),
        ([".".join(["{{tag(t)}}"] * 50)], False),
    ):
        template = PermissionClaims(sub=SubjectClaims(allow=allow))
        if is_granted:
            assert len(granted(template, user, account).sub.allow) == 4500
            continue
        with pytest.raises(TemplateError, match="too many"):
            granted(template, user, account)


def test_an_allowed_subject_that_cannot_be_allows_nothing(fill):
    assert fill(("{{tag(none)}}.x", "b"))[0] == ("b",)
    assert fill(("{{tag(none)}}.x",)) == ((), (">",))
    assert fill((), ("a",)) == ((), ("a",))


@pytest.mark.parametrize(
    "place", ["{{nope()}}", "x.{{name}}", "{{tag(none)}}.{{nope()}}", "{{tag}}"]
)
def test_a_place_for_something_unknown_refuses_the_user(fill, place):
    for lists in (((place,),), (("a", place),), ((), (place,))):
        with pytest.raises(TemplateError):
            fill(*lists)
    assert fill(("x.{{}}", "{{nope"))[0] == ("x.{{}}", "{{nope")


def test_a_denied_subject_that_cannot_be_refuses_the_user(fill):
    with pytest.raises(TemplateError):
        fill(("a",), ("{{tag(none)}}.x",))


def test_a_subject_with_a_queue(fill):
    assert fill(("a.{{name()}} q",))[0] == ("a.alice q",)


def test_what_is_denied_to_a_queue_is_denied_to_whoever_publishes(fill, credentials):
    assert fill((), ("a.{{name()}} q", "b"))[1] == ("a.alice", "b")
    account = AccountClaims.read(credentials.account("A", {}))
    user = UserClaims.read(credentials.user("alice", "A"))
    template = PermissionClaims(sub=SubjectClaims(deny=("a q",)))
    assert granted(template, user, account).sub.deny == ("a q",)
