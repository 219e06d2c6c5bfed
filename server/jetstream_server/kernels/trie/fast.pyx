# cython: language_level=3, boundscheck=False, wraparound=False, cdivision=True
"""The compiled twin of `pure.py`: same classes, same answers; the reasons are given there."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.dict cimport PyDict_Next
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.ref cimport PyObject
from libc.string cimport memchr

cdef enum:
    BYTES_OF_NODE = 64


# A subject may meet a hundred thousand nodes, which are anywhere in memory, each in four places that
# are known only one after the other. So the places of those that come next are fetched meanwhile.
cdef extern from *:
    """
    #if defined(__GNUC__)
    #define PREFETCH(pointer) __builtin_prefetch(pointer)
    #else
    #define PREFETCH(pointer) ((void) (pointer))
    #endif
    #define PREFETCH_NEXT_LINE(pointer) PREFETCH((char *) (pointer) + 64)
    #define KEYS_OF(dict) ((PyObject *) ((PyDictObject *) (dict))->ma_keys)
    #define IS_DICT(pointer) __builtin_expect(PyDict_CheckExact(pointer), 1)
    #define ITEM_OF(dict, key) PyDict_GetItem(dict, key)
    """
    void PREFETCH(void* pointer)
    void PREFETCH_NEXT_LINE(void* pointer)
    PyObject* KEYS_OF(PyObject* dict)
    bint IS_DICT(PyObject* pointer)  # which is not counted as one more reference, as Cython's is
    PyObject* ITEM_OF(PyObject* dict, PyObject* key)  # likewise


cdef class TrieNode:
    """One token of the tree."""

    cdef public object literals  # a dictionary, or a `PartedOrder`
    cdef public TrieNode star
    cdef public TrieNode tail
    cdef public object wild  # likewise
    cdef public object plain
    cdef public object queues


def descend(list level, list tokens, list reached):
    """Follow a subject through the tree."""
    cdef Py_ssize_t looked_at = 0, count, at
    cdef TrieNode ahead
    cdef list below
    cdef bytes token
    cdef bint is_rest
    cdef TrieNode node
    cdef PyObject* child
    cdef PyObject* literals
    for token in tokens:
        below = []
        is_rest = memchr(PyBytes_AS_STRING(token), c".", PyBytes_GET_SIZE(token)) != NULL
        count = PyList_GET_SIZE(level)
        for at in range(count):
            if at + 12 < count:
                PREFETCH(<void*>PyList_GET_ITEM(level, at + 12))
            if at + 8 < count:
                ahead = <TrieNode>PyList_GET_ITEM(level, at + 8)
                PREFETCH(<void*>ahead.wild if is_rest else <void*>ahead.literals)
            if at + 4 < count:
                ahead = <TrieNode>PyList_GET_ITEM(level, at + 4)
                if is_rest:
                    if ahead.wild is not None:
                        PREFETCH(KEYS_OF(<PyObject*>ahead.wild))
                        PREFETCH_NEXT_LINE(KEYS_OF(<PyObject*>ahead.wild))
                elif ahead.literals is not None:
                    PREFETCH(KEYS_OF(<PyObject*>ahead.literals))
            node = <TrieNode>PyList_GET_ITEM(level, at)
            if node.tail is not None:
                reached.append(node.tail)
            if node.literals is not None:
                literals = <PyObject*>node.literals
                if IS_DICT(literals):
                    child = ITEM_OF(literals, <PyObject*>token)
                    if child != NULL:
                        below.append(<object>child)
                else:
                    _add_named(below, <list?>node.literals.parts, token)
            if is_rest:
                if node.wild is not None:
                    looked_at += len(node.wild) * (1 + PyBytes_GET_SIZE(token) // BYTES_OF_NODE)
                    if IS_DICT(<PyObject*>node.wild):
                        _add_matching(below, <dict>node.wild, token)
                    else:
                        for part in <list?>node.wild.parts:
                            _add_matching(below, <dict>part, token)
            elif node.star is not None:
                below.append(node.star)
        looked_at += len(level)
        level = below
        if not level:
            break
    return level, looked_at


cdef int _add_named(list below, list parts, bytes token) except -1:
    """Add the node that follows by one certain token of very many."""
    cdef PyObject* child
    for part in parts:
        child = ITEM_OF(<PyObject*>part, <PyObject*>token)
        if child != NULL:
            below.append(<object>child)
            break
    return 0


cdef int _add_matching(list below, dict wild, bytes token) except -1:
    """Add those nodes whose patterns reach all that is left of a subject."""
    cdef Py_ssize_t place = 0
    cdef PyObject* child
    cdef PyObject* pattern
    while PyDict_Next(wild, &place, &pattern, &child):
        if _matches(<bytes>pattern, token):
            below.append(<object>child)
    return 0


cdef bint _matches(bytes pattern, bytes rest) noexcept:
    """Tell whether a pattern reaches a subject; neither has an empty token."""
    cdef const char* wanted = PyBytes_AS_STRING(pattern)
    cdef const char* given = PyBytes_AS_STRING(rest)
    cdef Py_ssize_t wanted_stop = PyBytes_GET_SIZE(pattern), given_stop = PyBytes_GET_SIZE(rest)
    cdef Py_ssize_t i = 0, j = 0
    while True:
        if wanted[i] == c">" and i + 1 == wanted_stop:
            return True
        if wanted[i] == c"*" and (i + 1 == wanted_stop or wanted[i + 1] == c"."):
            i += 1
            while j < given_stop and given[j] != c".":
                j += 1
        else:
            while i < wanted_stop and wanted[i] != c".":
                if j == given_stop or wanted[i] != given[j]:
                    return False
                i += 1
                j += 1
            if j < given_stop and given[j] != c".":
                return False
        if i == wanted_stop or j == given_stop:
            return i == wanted_stop and j == given_stop
        i += 1
        j += 1
