# cython: language_level=3, boundscheck=False, wraparound=False
"""The compiled twin of `pure.py`: the same class, the same answers; the reasons are given there."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.errno cimport EINTR, EIO, errno

cdef extern from *:
    """
    #include <pthread.h>
    #include <unistd.h>
    #ifdef __APPLE__
    #define sync_data fsync
    #else
    #define sync_data fdatasync
    #endif
    """
    ctypedef struct pthread_mutex_t:
        pass
    ctypedef struct pthread_cond_t:
        pass
    ctypedef long off_t
    int pthread_mutex_init(pthread_mutex_t *, void *) nogil
    int pthread_mutex_destroy(pthread_mutex_t *) nogil
    int pthread_mutex_lock(pthread_mutex_t *) nogil
    int pthread_mutex_unlock(pthread_mutex_t *) nogil
    int pthread_cond_init(pthread_cond_t *, void *) nogil
    int pthread_cond_destroy(pthread_cond_t *) nogil
    int pthread_cond_wait(pthread_cond_t *, pthread_mutex_t *) nogil
    int pthread_cond_signal(pthread_cond_t *) nogil
    ssize_t pwrite(int, const void *, size_t, off_t) nogil
    ssize_t write(int, const void *, size_t) nogil
    int sync_data(int) nogil

cdef enum:
    NOTHING
    BEGUN
    UNDER_WAY
    DONE


cdef class SyncedWrites:
    """Writes that a thread carries out."""

    # What both threads look at, in turn: under the lock.
    cdef pthread_mutex_t _lock
    cdef pthread_cond_t _wanted
    cdef int _state
    cdef Py_ssize_t _calls
    # The serving thread's while a write is under way.
    cdef int _told, _handle, _write_errno, _sync_errno
    cdef const char *_data
    cdef Py_ssize_t _size
    cdef off_t _offset
    cdef Py_buffer _buffer

    def __cinit__(self, int told):
        pthread_mutex_init(&self._lock, NULL)
        pthread_cond_init(&self._wanted, NULL)
        self._told = told
        self._state = NOTHING
        self._calls = 0

    def __dealloc__(self):
        # Nobody serves any more: whoever does holds on to this.
        if self._state != NOTHING:
            PyBuffer_Release(&self._buffer)
        pthread_cond_destroy(&self._wanted)
        pthread_mutex_destroy(&self._lock)

    def begin(self, int handle, object buffer, Py_ssize_t start, Py_ssize_t stop):
        if self._state != NOTHING:
            raise RuntimeError("one write at a time: end the last one first")
        PyObject_GetBuffer(buffer, &self._buffer, PyBUF_SIMPLE)
        if not 0 <= start <= stop <= self._buffer.len:
            size = self._buffer.len
            PyBuffer_Release(&self._buffer)
            raise ValueError(f"{start} to {stop} is not in a buffer of {size} bytes")
        self._handle = handle
        self._data = <const char *>self._buffer.buf + start
        self._size = stop - start
        self._offset = start
        pthread_mutex_lock(&self._lock)
        self._state = BEGUN
        pthread_cond_signal(&self._wanted)
        pthread_mutex_unlock(&self._lock)

    def call(self):
        pthread_mutex_lock(&self._lock)
        self._calls += 1
        pthread_cond_signal(&self._wanted)
        pthread_mutex_unlock(&self._lock)

    def serve(self):
        with nogil:
            self._serve()

    cdef void _serve(self) noexcept nogil:
        cdef bint is_begun
        while True:
            pthread_mutex_lock(&self._lock)
            while self._state != BEGUN and self._calls == 0:
                pthread_cond_wait(&self._wanted, &self._lock)
            is_begun = self._state == BEGUN
            if is_begun:
                self._state = UNDER_WAY
            else:
                self._calls -= 1
            pthread_mutex_unlock(&self._lock)
            if not is_begun:
                return
            self._carry_out()

    cdef void _carry_out(self) noexcept nogil:
        cdef const char *data = self._data
        cdef Py_ssize_t left = self._size, taken
        cdef off_t offset = self._offset
        cdef int write_errno = 0, sync_errno = 0
        cdef char over = 1
        while left > 0 and write_errno == 0:
            taken = pwrite(self._handle, data, left, offset)
            if taken > 0:
                data += taken
                offset += taken
                left -= taken
            elif taken == 0:
                write_errno = EIO
            elif errno != EINTR:
                write_errno = errno
        if write_errno == 0:
            while sync_data(self._handle) != 0:
                if errno != EINTR:
                    sync_errno = errno
                    break
        pthread_mutex_lock(&self._lock)
        self._write_errno, self._sync_errno = write_errno, sync_errno
        self._state = DONE
        pthread_mutex_unlock(&self._lock)
        # A pipe has room for the only byte that is on its way; nothing else can be done here.
        while write(self._told, &over, 1) < 0 and errno == EINTR:
            pass

    def end(self):
        pthread_mutex_lock(&self._lock)
        is_done = self._state == DONE
        if is_done:
            self._state = NOTHING
        pthread_mutex_unlock(&self._lock)
        if not is_done:
            raise RuntimeError("no write is over")
        PyBuffer_Release(&self._buffer)
        return self._write_errno, self._sync_errno
