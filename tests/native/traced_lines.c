/* The same count as that of `traced_lines.py`, for a sixth of the time: the interpreter would put
   together the local variables of a frame for each line that it tells a function of Python. */

#include <Python.h>
#include <string.h>

static const char PURE[] = "pure.py";

static Py_ssize_t count;
static PyCodeObject *last; /* whose line was the last one */
static int is_counted;     /* whether its lines are */

static int is_pure(PyCodeObject *code)
{
    Py_ssize_t length;
    const char *file = PyUnicode_AsUTF8AndSize(code->co_filename, &length);
    if (file == NULL)
        return -1;
    Py_ssize_t behind = sizeof(PURE) - 1;
    return length >= behind && strcmp(file + length - behind, PURE) == 0;
}

static int trace(PyObject *nothing, PyFrameObject *frame, int event, PyObject *argument)
{
    if (event != PyTrace_LINE)
        return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    if (code == last) {
        Py_DECREF(code);
    } else {
        int pure = is_pure(code);
        Py_XSETREF(last, code);
        if (pure < 0)
            return -1;
        is_counted = !pure;
    }
    count += is_counted;
    return 0;
}

PyObject *lines_of(PyObject *act)
{
    count = 0;
    PyEval_SetTrace(trace, NULL);
    PyObject *result = PyObject_CallNoArgs(act);
    PyEval_SetTrace(NULL, NULL);
    if (result == NULL)
        return NULL;
    Py_DECREF(result);
    return PyLong_FromSsize_t(count);
}
