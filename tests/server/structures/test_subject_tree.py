"""The subject tree, case by case and against a dictionary searched with `core/subject.py`."""

from hypothesis import given
from hypothesis import strategies as st
from jetstream_server.core.subject import matches
from jetstream_server.structures.subject_tree import SubjectTree

TOKEN = st.sampled_from([b"a", b"b", b"c", b"*", b">"])
SUBJECT = st.lists(TOKEN, min_size=1, max_size=4).map(b".".join)
PATTERN = st.one_of(
    st.lists(st.sampled_from([b"a", b"b", b"*"]), min_size=1, max_size=4).map(b".".join),
    st.lists(st.sampled_from([b"a", b"b", b"*"]), max_size=3).map(lambda p: b".".join([*p, b">"])),
)


def test_values_are_found_replaced_and_taken_out() -> None:
    tree: SubjectTree[int] = SubjectTree()
    tree[b"orders.1"] = 1
    tree[b"orders.1.new"] = 2
    tree[b"orders.1"] = 3
    assert len(tree) == 2
    assert tree.get(b"orders.1") == 3
    assert b"orders.1.new" in tree
    assert b"orders" not in tree
    assert tree.get(b"x.y.z") is None
    assert tree.pop(b"orders.1.new") == 2
    assert tree.pop(b"orders.1.new") is None
    assert tree.pop(b"orders") is None
    assert list(tree) == [b"orders.1"]


def test_nothing_stays_behind() -> None:
    tree: SubjectTree[int] = SubjectTree()
    for subject in (b"a.b.c.d", b"a.b", b"a"):
        tree[subject] = 1
    for subject in (b"a.b", b"a.b.c.d", b"a"):
        tree.pop(subject)
    assert not tree._root.branches
    assert not tree._root.leaves
    assert len(tree) == 0


def test_deep_subjects() -> None:
    tree: SubjectTree[int] = SubjectTree()
    deep = b".".join([b"a"] * 5000)
    tree[deep] = 1
    assert list(tree.match(b">")) == [(deep, 1)]
    assert tree.pop(deep) == 1


@given(
    st.lists(st.tuples(st.sampled_from(["set", "pop"]), SUBJECT), max_size=40),
    st.lists(PATTERN, min_size=1, max_size=5),
)
def test_against_a_dictionary(steps: list[tuple[str, bytes]], patterns: list[bytes]) -> None:
    tree: SubjectTree[int] = SubjectTree()
    twin: dict[bytes, int] = {}
    for number, (verb, subject) in enumerate(steps):
        if verb == "set":
            tree[subject] = twin[subject] = number
        else:
            assert tree.pop(subject) == twin.pop(subject, None)
    assert dict(tree.items()) == twin
    assert len(tree) == len(twin)
    for pattern in patterns:
        expected = {s: v for s, v in twin.items() if matches(pattern, s)}
        assert dict(tree.match(pattern)) == expected
        assert tree.has_match(pattern) == bool(expected)
        assert len(list(tree.match(pattern))) == len(expected)
