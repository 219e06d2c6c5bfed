"""Checks that columns reach as far as the entries asked of them, for the compiled kernels.

Reading beyond a column would not be safe.
"""


cdef inline int check_reach(Py_ssize_t stop, Py_ssize_t entries) except -1:
    if stop > entries:
        raise IndexError("more entries wanted than there are")
    return 0


cdef inline int check_optional(Py_ssize_t stop, Py_ssize_t marks, Py_ssize_t offsets) except -1:
    """Check columns that are empty where nothing is dead, and where no sequence is missing."""
    if marks:
        check_reach(stop, marks)
    if offsets:
        check_reach(stop, offsets)
    return 0
