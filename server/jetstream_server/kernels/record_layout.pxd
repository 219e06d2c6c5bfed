"""Where the fields of a record are: the offsets of `record_format.PREFIX`, for the compiled kernels.

With them what the genuine server would account a record with, see `records_pure`.
"""

cdef enum:
    CHECKSUM_AT = 4
    CHECKED_FROM = 8
    SEQUENCE_AT = 8
    TIMESTAMP_AT = 16
    HEADER_BYTES_AT = 24
    SUBJECT_BYTES_AT = 28
    KIND_AT = 30
    PREFIX_BYTES = 32
    UNACCOUNTED_BYTES = 2
    HEADER_ACCOUNTED_BYTES = 4
