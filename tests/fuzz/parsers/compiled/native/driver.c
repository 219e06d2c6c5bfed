/* libFuzzer with Python inside: one call of a target for each input.

   Python finds its packages as FUZZ_PYTHON, the interpreter that asked, does. The module
   `tests.fuzz.parsers.compiled.inside` says what the target is. An exception it raises ends the
   process, as a memory error in a kernel does, and the input is kept as `crash-...`.

   Kernels are compiled with counters of libFuzzer's own. With STEPS, lines of Python count as well:
   each step from one line to another has a counter here. libFuzzer looks at every counter after
   every input, so where kernels are all that is of interest there are none. */

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static PyObject *target;

#if STEPS
__attribute__((section("__libfuzzer_extra_counters"))) static uint8_t steps[STEPS];
static uintptr_t last_place;

static int count_step(PyObject *nothing, PyFrameObject *frame, int what, PyObject *argument) {
    (void)nothing;
    (void)argument;
    if (what != PyTrace_LINE) return 0;
    PyCodeObject *code = PyFrame_GetCode(frame);
    uintptr_t place = ((uintptr_t)code >> 4) * 31 + (uintptr_t)PyFrame_GetLasti(frame);
    Py_DECREF(code);
    place = (place * 0x9E3779B97F4A7C15u) >> 50;
    uint8_t *counter = &steps[(place ^ last_place) % STEPS];
    if (*counter < 255) ++*counter;
    last_place = place >> 1;
    return 0;
}
#endif

/* Python has memory for small objects that is not checked. What holds input is to be checked, and
   most small objects do not: those of up to `unchecked` bytes stay there, which saves a third of
   the time. What frees memory knows where it is from. */
struct domain {
    PyMemAllocatorEx python;
    size_t unchecked;
};

static void *allocate(void *context, size_t size) {
    struct domain *domain = context;
    if (size > domain->unchecked) return PyMem_RawMalloc(size);
    return domain->python.malloc(domain->python.ctx, size);
}

static void *allocate_zeros(void *context, size_t count, size_t size) {
    struct domain *domain = context;
    if (size && count > domain->unchecked / size) return PyMem_RawCalloc(count, size);
    return domain->python.calloc(domain->python.ctx, count, size);
}

static void *reallocate(void *context, void *memory, size_t size) {
    struct domain *domain = context;
    if (memory == NULL) return allocate(context, size);
    return domain->python.realloc(domain->python.ctx, memory, size);
}

static void release(void *context, void *memory) {
    struct domain *domain = context;
    domain->python.free(domain->python.ctx, memory);
}

static struct domain buffers = {.unchecked = 0}, objects = {.unchecked = 48};

static void check_memory(PyMemAllocatorDomain which, struct domain *domain) {
    PyMemAllocatorEx checked = {domain, allocate, allocate_zeros, reallocate, release};
    PyMem_GetAllocator(which, &domain->python);
    PyMem_SetAllocator(which, &checked);
}

static void give_up(const char *what) {
    if (PyErr_Occurred()) PyErr_Print();
    fprintf(stderr, "%s\n", what);
    fflush(NULL);
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    PyConfig config;
    PyConfig_InitPythonConfig(&config);
    config.install_signal_handlers = 0;
    const char *python = getenv("FUZZ_PYTHON");
    if (python == NULL) give_up("FUZZ_PYTHON is not set: start this with `python -m tests.fuzz.parsers --compiled`");
    PyStatus status = PyConfig_SetBytesString(&config, &config.program_name, python);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    if (PyStatus_Exception(status)) give_up(status.err_msg);
    PyConfig_Clear(&config);
    PyObject *module = PyImport_ImportModule("tests.fuzz.parsers.compiled.inside");
    if (module == NULL) give_up("the targets cannot be imported");
    target = PyObject_GetAttrString(module, "run");
    if (target == NULL) give_up("no target");
    check_memory(PYMEM_DOMAIN_MEM, &buffers);
    check_memory(PYMEM_DOMAIN_OBJ, &objects);
#if STEPS
    PyEval_SetTrace(count_step, NULL);
#endif
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    objects.unchecked = 0; /* an input is checked, however short */
    PyObject *input = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    objects.unchecked = 48;
    if (input == NULL) give_up("no memory for an input");
#if STEPS
    last_place = 0;
#endif
    PyObject *answer = PyObject_CallOneArg(target, input);
    if (answer == NULL) give_up("a target raised");
    Py_DECREF(answer);
    Py_DECREF(input);
    return 0;
}
